"""Helpers that create, fuse, build and run small kernels for schedule tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import ml_dtypes
import numpy as np
import tvm
from tvm import ir, relax, te, tirx
from tvm.relax.backend.cpu_generic import pipeline as cpu_pipeline
from tvm.target import Target, codegen

from tvtf.passes.codegen.bfloat16 import Bfloat16Bits
from tvtf.passes.codegen.llvm import build_library, kernel_module
from tvtf.passes.schedule.cpu import SCHEDULED, ScheduleCPU, schedule

HOST = Target({"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": 2})
AVX2 = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
TARGETS = [HOST, AVX2] if codegen.llvm_get_system_x86_vendor() else [HOST]
NAMED_TARGETS = dict(zip(("host", "avx2"), TARGETS))
RNG = np.random.default_rng(7)


def dtype_of(name: str) -> np.dtype:
    """A NumPy dtype, bfloat16 included."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def tensor(shape: Sequence[int | ir.Expr], dtype: str = "float32", name: str = "x") -> te.Tensor:
    """A placeholder with int64 extents."""
    extents = tuple(tirx.IntImm("int64", extent) if isinstance(extent, int) else extent for extent in shape)
    return te.placeholder(extents, dtype, name)


def values(shape: Sequence[int], dtype: str = "float32") -> np.ndarray:
    """Random values: small integers for integer dtypes."""
    if "int" in dtype:
        return RNG.integers(-5, 6, shape).astype(dtype)
    return RNG.standard_normal(shape).astype(dtype_of(dtype))


def compiled(kernels: Mapping[str, tirx.PrimFunc], target: Target) -> tvm.runtime.Module:
    """Scheduled kernels as native code, by the passes that a program's go through."""
    return kernel_module(Bfloat16Bits(tvm.IRModule(dict(kernels))), target)


def run(
    func: tirx.PrimFunc,
    inputs: Sequence[np.ndarray],
    out_shapes: Sequence[Sequence[int]],
    out_dtype: str,
    target: Target,
    marks: str = "",
) -> list[np.ndarray]:
    """Schedule, build and call a kernel; its schedule must have `marks` in it."""
    scheduled = schedule(func.with_attr("global_symbol", "main"), target)
    assert scheduled.attrs["tirx.is_scheduled"]
    assert not marks or marks in scheduled.script()
    built = compiled({"main": scheduled}, target)
    arguments = [tvm.runtime.tensor(value) for value in inputs]
    results = [tvm.runtime.tensor(np.full(shape, 77, dtype_of(out_dtype))) for shape in out_shapes]
    built["main"](*arguments, *results)
    return [result.numpy() for result in results]


def run_te(
    result: te.Tensor,
    operands: dict[te.Tensor, np.ndarray],
    shape: Sequence[int],
    target: Target,
    marks: str = "",
) -> np.ndarray:
    """Run one tensor expression on values for its placeholders."""
    func = te.create_prim_func([*operands, result])
    return run(func, list(operands.values()), [shape], str(result.dtype), target, marks)[0]


def run_relax(
    program: Callable[..., relax.Expr],
    inputs: Sequence[np.ndarray],
    target: Target,
    kernels: int = 1,
    types: Sequence[relax.TensorType] | None = None,
) -> np.ndarray:
    """Trace, legalize and fuse a Relax program as TVM does, schedule its kernels, and run it in the VM."""
    builder = relax.BlockBuilder()
    types = types or [relax.TensorType(value.shape, str(value.dtype)) for value in inputs]
    variables = [relax.Var(f"x{number}", kind) for number, kind in enumerate(types)]
    with builder.function("main", variables):
        with builder.dataflow():
            result = builder.emit_output(program(builder.emit, *variables))
        builder.emit_func_output(result)
    with target:
        module = tvm.transform.Sequential(
            [
                relax.transform.LegalizeOps(),
                relax.transform.AnnotateTIROpPattern(),
                relax.transform.FoldConstant(),
                relax.transform.FuseOps(),
                relax.transform.FuseTIR(),
                ScheduleCPU(target),
            ]
        )(builder.get())
    scheduled = [func for func in module.functions.values() if isinstance(func, tirx.PrimFunc)]
    assert len(scheduled) == kernels
    assert all(func.attrs["tirx.is_scheduled"] for func in scheduled)
    with target:
        lowered = tvm.transform.Sequential(
            cpu_pipeline.dataflow_lower_passes(target) + cpu_pipeline.finalize_passes(target)
        )(module)
    with tempfile.TemporaryDirectory() as folder:
        build_library(lowered, target, Path(folder, "program.so"))
        library = tvm.runtime.load_module(str(Path(folder, "program.so")))
    machine = relax.VirtualMachine(library, tvm.cpu())
    return machine["main"](*[tvm.runtime.tensor(value) for value in inputs]).numpy()


def run_body(body: tirx.Stmt, params: list[tirx.Var], arrays: list[np.ndarray]) -> list[np.ndarray]:
    """Run the scheduled body of a kernel on arrays for its parameters; all of them as the kernel leaves them."""
    root = tvm.s_tir.SBlockRealize([], True, tvm.s_tir.SBlock([], [], [], "root", body))
    func = tirx.PrimFunc(params, root).with_attrs({"global_symbol": "run", SCHEDULED: True, "tirx.noalias": True})
    built = kernel_module(tvm.IRModule({"run": func.with_attr("s_tir", True)}), HOST)
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    built["run"](*tensors)
    return [tensor.numpy() for tensor in tensors]
