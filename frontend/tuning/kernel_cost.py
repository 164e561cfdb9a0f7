"""What the kernels of a compiled function have to do: arithmetic, bytes, and the user's lines.

Arithmetic is counted in the kernels as written, before they are scheduled.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
from math import prod
from typing import Any, NamedTuple

import tvm
from tvm import tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.provenance import kernel_lines
from tvtf.passes.pipeline import phases
from tvtf.passes.schedule.cpu.access import FREE_CALLS
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.runtime.target import host_target

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tvm.ir.Call)


class KernelCost(NamedTuple):
    """What one call of a kernel has to do; None where only the run knows the sizes, or the kernel is no loop nest.

    ``flops`` counts arithmetic on floats, but no comparisons and choices; ``bytes`` is every operand and result once;
    ``lines`` are the user's ``(file, line)``.
    """

    name: str
    flops: int | None
    bytes: int | None
    lines: tuple[tuple[str, int], ...]


def costs(mod: tvm.IRModule) -> list[KernelCost]:
    """Returns the cost of each kernel that a traced module becomes, in the order of their names."""
    kernels, lines = _kernels(mod)
    return [KernelCost(n, _flops(k), _bytes(k), tuple(sorted(lines.get(n, ())))) for n, k in sorted(kernels.items())]


def _kernels(mod: tvm.IRModule) -> tuple[dict[str, tirx.PrimFunc], dict[str, set[tuple[str, int]]]]:
    """Returns the kernels that a traced module is lowered to, before they are scheduled, and the user's lines of each.

    Lines are read after fusion, where the ops of a kernel still have theirs.
    """
    lines: dict[str, set[tuple[str, int]]] = {}
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda p: p.name != "schedule", phases(target)):
            mod = phase.run(mod)
            if phase.name == "fuse":
                lines = kernel_lines(mod)
    return {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}, lines


def _flops(kernel: tirx.PrimFunc) -> int | None:
    read = read_kernel(kernel)
    if read is None or not all(isinstance(stage, Stage) for stage in read.stages):
        return None
    return _total(_stage_flops(stage) for stage in read.stages if isinstance(stage, Stage))


def _stage_flops(stage: Stage) -> int | None:
    sizes = [axis.size for axis in stage.axes]
    return None if None in sizes else prod(s for s in sizes if s is not None) * _arithmetic(stage.value)


def _arithmetic(value: Any) -> int:
    """Counts the floating-point operations of an expression; indices are computed on integers."""
    found: list[Any] = []
    structural_walk(value, (tvm.ir.Expr, lambda node: found.append(node)))
    return sum(isinstance(node, ARITHMETIC) and "float" in str(node.ty.dtype) and not _is_free(node) for node in found)


def _is_free(node: Any) -> bool:
    """Calls that choose or reinterpret values."""
    return isinstance(node, tvm.ir.Call) and str(getattr(node.op, "name", "")) in FREE_CALLS


def _bytes(kernel: tirx.PrimFunc) -> int | None:
    return _total(_buffer_bytes(p.ty) for p in kernel.params if hasattr(p.ty, "shape"))


def _buffer_bytes(buffer: Any) -> int | None:
    if not all(isinstance(d, tirx.IntImm) for d in buffer.shape):
        return None
    return prod(int(d) for d in buffer.shape) * max(1, buffer.dtype.dtype.bits // 8)


def _total(amounts: Iterable[int | None]) -> int | None:
    known = list(amounts)
    return None if None in known else sum(a for a in known if a is not None)
