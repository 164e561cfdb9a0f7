"""Removes stages over empty extents, so that no plan divides by zero."""

from __future__ import annotations

from dataclasses import replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, with_value


def without_empty(kernel: Kernel) -> Kernel:
    """Returns the kernel without stages of no points; a reduction over no terms becomes its initial value.

    No plan then divides by zero.
    """
    nonempty = [stage for stage in kernel.stages if isinstance(stage, Opaque) or not _has_empty_axis(stage.spatial)]
    return replace(
        kernel, stages=tuple(stage if isinstance(stage, Opaque) else _without_empty_reads(stage) for stage in nonempty)
    )


def _has_empty_axis(axes: tuple[Axis, ...]) -> bool:
    return any(axis.size == 0 for axis in axes)


def _without_empty_reads(stage: Stage) -> Stage:
    """Returns a stage that neither reduces over an empty axis nor reads an empty buffer."""
    if _has_empty_axis(stage.reduce):
        stage = replace(stage, reduce=(), init=None, value=stage.init)
    return with_value(stage, structural_map(stage.value, (TensorLoad, _zero_if_empty)))


def _zero_if_empty(load: TensorLoad) -> ir.Expr:
    """Replaces a load from an empty buffer by zero: bounds tests keep it from ever running."""
    return tirx.const(0, str(load.ty.dtype)) if _is_empty(load.source) else load


def _is_empty(buffer: Var) -> bool:
    return any(emit.static(extent) == 0 for extent in buffer.ty.shape)
