"""Removes stages with empty iteration domains, so that no later pass divides by an extent of zero."""

from __future__ import annotations

from dataclasses import replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, with_value


def without_empty(kernel: Kernel) -> Kernel:
    """Removes stages (loop nests) with an empty iteration domain from a kernel.

    A reduction over an empty axis becomes its initial value. Later passes divide by extents, and would fail for 0.
    Opaque nests, whose axes aren't known, are kept.
    """
    stages: list[Stage | Opaque] = []
    for stage in kernel.stages:
        if isinstance(stage, Opaque):
            stages.append(stage)
        elif not _has_empty_axis(stage.spatial):
            stages.append(_without_empty_reads(stage))
    return replace(kernel, stages=tuple(stages))


def _has_empty_axis(axes: tuple[Axis, ...]) -> bool:
    """Returns whether an axis has extent 0."""
    return any(axis.size == 0 for axis in axes)


def _without_empty_reads(stage: Stage) -> Stage:
    """Replaces a reduction over an empty axis by its initial value, and loads from empty buffers by zero."""
    if _has_empty_axis(stage.reduce):
        stage = replace(stage, reduce=(), init=None, value=stage.init)
    return with_value(stage, structural_map(stage.value, (TensorLoad, _zero_if_empty)))


def _zero_if_empty(load: TensorLoad) -> ir.Expr:
    """Replaces a load from an empty buffer by zero; such a load never runs."""
    return tirx.const(0, str(load.ty.dtype)) if _is_empty(load.source) else load


def _is_empty(buffer: Var) -> bool:
    """Returns whether a buffer has no elements."""
    return any(emit.static(extent) == 0 for extent in buffer.ty.shape)
