"""Names kernels and targets for tuning records, and looks up the record of a kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping

import tvm_ffi
from tvm.target import Target
from tvm.tirx import PrimFunc

from tvtf.passes.schedule.constant_operands import constant_operands
from tvtf.passes.schedule.tuning_records import Record, records

FACTS = ("mcpu", "mattr", "mtriple", "num-cores")


def describe(target: Target) -> str:
    """Describes the properties of a target that schedules depend on, as the key of tuning records.

    >>> describe(Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 4, "mtriple": "x86_64-linux-gnu"}))
    'llvm mcpu=x86-64-v3 mtriple=x86_64-linux-gnu num-cores=4'
    """
    properties = [f"{name}={target.attrs[name]}" for name in FACTS if name in target.attrs]
    return " ".join([target.kind.name, *properties])


def workload_key(func: PrimFunc) -> str:
    """Returns a hash of a kernel's structure, independent of names, and the positions of its constant operands."""
    bare = PrimFunc(func.params, func.body, func.ty.ret)
    structure = tvm_ffi.structural_hash(bare) % (1 << 64)
    return "-".join([f"{structure:016x}", *map(str, constant_operands(func))])


def record_for(func: PrimFunc, known: Mapping[str, Record]) -> Record | None:
    """Returns the record of a kernel; its key is computed only if there are records."""
    return known.get(workload_key(func)) if known else None


def choices_text(func: PrimFunc, target: Target) -> str:
    """Returns the choices of a kernel's record as text; an empty one if there is no record."""
    record = record_for(func, records(describe(target)))
    return json.dumps(sorted(record.choices.items())) if record else ""
