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
    """The work of one call of a kernel, and the user's lines that it comes from, as pairs of file and line.

    ``flops`` counts floating-point arithmetic, but no comparisons and selects. ``bytes`` counts each operand and result
    once. Both are None if sizes are known only at run time, ``flops`` also if the kernel is no loop nest.
    """

    name: str
    flops: int | None
    bytes: int | None
    lines: tuple[tuple[str, int], ...]


def costs(mod: tvm.IRModule) -> list[KernelCost]:
    """Returns the cost of each kernel to which a traced module is lowered, sorted by the kernels' names."""
    kernels, lines = _kernels(mod)
    return [
        KernelCost(name, _flops(kernel), _bytes(kernel), tuple(sorted(lines.get(name, ()))))
        for name, kernel in sorted(kernels.items())
    ]


def _kernels(mod: tvm.IRModule) -> tuple[dict[str, tirx.PrimFunc], dict[str, set[tuple[str, int]]]]:
    """Lowers a traced module to kernels that are not scheduled yet.

    Returns the kernels by name, and the user's lines of each kernel as pairs of file and line. The lines are read after
    fusion, where the ops of a kernel still have their lines.
    """
    lines: dict[str, set[tuple[str, int]]] = {}
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(lambda phase: phase.name != "schedule", phases(target)):
            mod = phase.run(mod)
            if phase.name == "fuse":
                lines = kernel_lines(mod)
    kernels = {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}
    return kernels, lines


def _flops(kernel: tirx.PrimFunc) -> int | None:
    """Counts the floating-point operations of a kernel. Returns None for unknown sizes, or if it is no loop nest."""
    read = read_kernel(kernel)
    if read is None or not all(isinstance(stage, Stage) for stage in read.stages):
        return None
    return _total(_stage_flops(stage) for stage in read.stages if isinstance(stage, Stage))


def _stage_flops(stage: Stage) -> int | None:
    """Counts the floating-point operations of a stage (one loop nest of a kernel). Returns None for unknown sizes."""
    sizes = [axis.size for axis in stage.axes]
    return None if None in sizes else prod(size for size in sizes if size is not None) * _arithmetic(stage.value)


def _arithmetic(value: Any) -> int:
    """Counts the floating-point operations of an expression.

    Arithmetic on integers, such as of indices, isn't counted.
    """
    nodes: list[Any] = []
    structural_walk(value, (tvm.ir.Expr, nodes.append))
    operations = [node for node in nodes if isinstance(node, ARITHMETIC) and not _is_free(node)]
    return sum("float" in str(node.ty.dtype) for node in operations)


def _is_free(node: Any) -> bool:
    """Returns whether a node is a call without arithmetic: it selects or reinterprets values."""
    return isinstance(node, tvm.ir.Call) and str(getattr(node.op, "name", "")) in FREE_CALLS


def _bytes(kernel: tirx.PrimFunc) -> int | None:
    """Returns the bytes of a kernel's operands and results together, or None if a size is unknown."""
    return _total(_buffer_bytes(param.ty) for param in kernel.params if hasattr(param.ty, "shape"))


def _buffer_bytes(buffer: Any) -> int | None:
    """Returns the bytes of a buffer, or None if a dim is symbolic."""
    if not all(isinstance(dim, tirx.IntImm) for dim in buffer.shape):
        return None
    return prod(int(dim) for dim in buffer.shape) * max(1, buffer.dtype.dtype.bits // 8)  # at least a byte, for bool


def _total(amounts: Iterable[int | None]) -> int | None:
    """Returns the sum of the amounts, or None if one of them is unknown (None)."""
    counts = list(amounts)
    return None if None in counts else sum(count for count in counts if count is not None)
