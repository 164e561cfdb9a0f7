"""Refusing, by name, what would call Python from code that can't: in a library of its own, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from tvtf import dialect
from tvtf.errors import UnimplementedError
from tvtf.ops.host import runs_on_host

IN_A_LIBRARY = "a library runs without Python: save the module and load it with tvtf instead"
ON_A_GPU = "Python's arrays lie in the processor's memory: run it under tf.device('CPU')"

CALL = "call_python"


def without_python(why: str) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """A pass that changes nothing, and raises UnimplementedError for an op that Python or NumPy computes."""

    def check(mod: tvm.IRModule) -> tvm.IRModule:
        for func in mod.functions.values():
            for binding in _bindings(func):
                _check(binding.value, why)
        return mod

    return check


def _bindings(func: Any) -> list[Any]:
    return [b for block in func.body.blocks for b in block.bindings] if isinstance(func, relax.Function) else []


def _check(value: Any, why: str) -> None:
    if not dialect.is_dialect(value):
        return
    bound = dialect.read(value)
    if bound.primitive.name == CALL or runs_on_host(bound.primitive, dialect.dtypes_of(value, bound)):
        kinds = "by Python" if bound.primitive.name == CALL else "by NumPy"
        where = f" ({value.span.source_name.name}:{value.span.line})" if value.span is not None else ""
        raise UnimplementedError(
            None, bound.primitive.tf_name, f"{bound.primitive.name}{where} is computed {kinds}, and {why}"
        )
