"""Helpers of the tests of code generation: stock passes, building, loading, and small loops."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, ir, relax
from tvm.relax.backend.cpu_generic import pipeline as stock

from tvtf.passes.analysis.loop_op import MarkPrivate
from tvtf.passes.codegen.llvm import build_library

TARGET = tvm.target.Target("llvm")
CPU, ANY_ID, POOLED = 1, 0, 2
FLAG = relax.TensorType((), "bool")
COUNT = relax.TensorType((), "int64")


def finalized(mod: IRModule) -> IRModule:
    passes = [
        MarkPrivate,
        relax.transform.ConvertToDataflow(),
        *stock.library_dispatch_passes(TARGET),
        *stock.legalize_passes(TARGET),
        *stock.dataflow_lower_passes(TARGET),
        *stock.finalize_passes(TARGET),
    ]
    with TARGET:
        return tvm.transform.Sequential(passes)(mod)


def load(path: Path) -> tvm_ffi.Module:
    machine = tvm_ffi.load_module(str(path))["vm_load_executable"]()
    machine["vm_initialization"](CPU, ANY_ID, POOLED)
    return machine


def compiled(mod: IRModule, folder: Path, **options: object) -> Callable:
    build_library(finalized(mod), TARGET, folder / "program.so", **options)
    main = load(folder / "program.so")["main"]

    def call(*arguments: object) -> object:
        return to_numpy(main(*[tvm.runtime.tensor(np.asarray(argument)) for argument in arguments]))

    return call


def to_numpy(value: object) -> object:
    return value.numpy() if hasattr(value, "numpy") else [to_numpy(item) for item in value]


def variable(name: str, shape: tuple, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def like(name: str, other: relax.Var) -> relax.Var:
    return relax.Var(name, other.ty)


def number(value: float, dtype: str = "float32") -> ir.Expr:
    return relax.const(value, dtype)


def private(
    builder: relax.BlockBuilder, name: str, params: list[relax.Var], rule: Callable[..., ir.Expr]
) -> ir.GlobalVar:
    with builder.function(name, params, private=True):
        result = rule(*params)
        fields = [builder.emit(field) for field in result] if isinstance(result, tuple) else None
        return builder.emit_func_output(relax.Tuple(fields) if fields else builder.emit(result))


def counting(
    builder: relax.BlockBuilder, name: str, params: list[relax.Var], step: Callable[..., tuple]
) -> tuple[ir.GlobalVar, ir.GlobalVar]:
    """Condition and body of a loop whose first value counts up to its last one."""
    condition = private(
        builder, f"{name}_more", [like(p.name, p) for p in params], lambda i, *rest: relax.op.less(i, rest[-1])
    )
    body = private(
        builder,
        f"{name}_step",
        [like(p.name, p) for p in params],
        lambda i, *rest: (relax.op.add(i, number(1, "int64")), *step(i, *rest)),
    )
    return condition, body
