"""Grouped convolutions with few channels per group: vectors span several groups, with inputs spread over their results.

A group of four results fills a quarter of a vector of sixteen. Four groups fill it if each input is given to the four
results of its own group. The groups' inputs are contiguous, too, so that takes one shuffle of a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, reads, replace_loads, substitute, variables
from tvtf.passes.schedule.cpu.merged_axes import AxisMerge, axis_merges
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.windows import as_windows

Stages = list[Stage | Opaque]
# With larger groups, vectors of a single group are as fast, and a shuffle would move elements further.
MIN_GROUPS_PER_VECTOR = 4
MAX_BYTES_OF_A_GROUP = 16
# The shuffled operands of a tile stay in registers for all taps of a row; more don't fit.
MAX_TAPS = 9


def with_groups_in_lanes(stages: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget) -> tuple[Stages, Kernel]:
    """Rewrites grouped convolutions with few channels per group so that a vector spans several groups.

    All output channels become one axis. Each input is broadcast to the lanes of the results of its own group.
    """
    new_stages = list(stages)
    for merge in axis_merges(stages, kernel):
        new_stages, kernel = _with_groups_of_one(merge, new_stages, kernel, target)
    return new_stages, kernel


def _with_groups_of_one(merge: AxisMerge, stages: Stages, kernel: Kernel, target: CpuTarget) -> tuple[Stages, Kernel]:
    """Merges the groups of one convolution into one channel axis, and adapts its filter and the reader of its sums.

    Stages are unchanged unless the convolution reads windows of an image and several groups fill a vector exactly.
    """
    sums_position = next(
        position
        for position, new_stage in enumerate(stages)
        if isinstance(new_stage, Stage) and new_stage.reduce and reads(merge.result, new_stage.buffer)
    )
    sums, source = stages[sums_position], stages[sums_position - 1] if sums_position else None
    if not isinstance(sums, Stage) or not isinstance(source, Stage) or not _fills_vectors(sums, merge, target):
        return stages, kernel
    merged_sums, filter_copies = _on_one_channel_axis(sums, merge.size)
    if merged_sums is None:
        return stages, kernel
    new_reader = _reading_new_sums(merge.result, sums, merged_sums)
    other_stages = [
        stage for stage in stages if stage is not sums and stage is not source and stage is not merge.result
    ]
    local_buffers = [buffer for buffer in kernel.local if not buffer.same_as(sums.buffer)]
    new_kernel = Kernel(kernel.stages, (*local_buffers, merged_sums.buffer, *(stage.buffer for stage in filter_copies)))
    if as_windows(source, [merged_sums], other_stages, new_kernel, target) is None:
        return stages, kernel
    replacements: dict[Var, Stages] = {
        source.buffer: [*filter_copies, source],
        sums.buffer: [merged_sums],
        merge.result.buffer: [new_reader],
    }
    new_stages = [
        new_stage
        for stage in stages
        for new_stage in (replacements.get(stage.buffer, [stage]) if isinstance(stage, Stage) else [stage])
    ]
    return new_stages, new_kernel


def _fills_vectors(sums: Stage, merge: AxisMerge, target: CpuTarget) -> bool:
    """Returns whether several groups of a grouped convolution fill a vector exactly, with as many inputs as results.

    A group must be at most a quarter of a vector: larger groups fill vectors by themselves.

    Args:
        sums: the convolution, whose groups and output channels of a group are separate axes.
        merge: the stage that merges these axes, and the number of output channels of a group.
        target: the CPU.
    """
    group_size, lanes = merge.size, target.lanes(sums.item_bytes)
    if MIN_GROUPS_PER_VECTOR * group_size > lanes or lanes % group_size:
        return False
    # See the constants: elements are shuffled over a short distance, and shuffled operands fit the registers.
    has_few_taps = all((axis.size or 0) <= MAX_TAPS for axis in sums.reduce)
    if group_size * sums.item_bytes > MAX_BYTES_OF_A_GROUP or not has_few_taps:
        return False
    # The axes of the groups and of the group's output channels are the last; the last summed axis has its inputs.
    has_groups_last = merge.first == len(sums.spatial) - 2 and bool(sums.reduce) and sums.reduce[-1].size == group_size
    # The update must be `sum + image * filter`, from 0.
    update = sums.value
    if not has_groups_last or not isinstance(update, tirx.Add) or not isinstance(update.b, tirx.Mul):
        return False
    are_loads = isinstance(update.b.a, TensorLoad) and isinstance(update.b.b, TensorLoad)
    return are_loads and is_zero(sums.init)


def _on_one_channel_axis(sums: Stage, group_size: int) -> tuple[Stage | None, list[Stage]]:
    """Merges the axes of groups and of channels within a group of a grouped convolution into one channel axis.

    Returns the convolution on the merged axis, and the stages that copy the filter if it isn't contiguous. Returns
    (None, []) unless exactly one factor of the products is the input of the groups. Vectors along this axis span
    several groups, whose few channels wouldn't fill one.
    """
    *outer_axes, group, channel_in_group = sums.spatial
    input_channel, channel = sums.reduce[-1], Axis(Var("channel", "int64"), emit.simplified(group.extent * group_size))
    image_loads = [
        load
        for load in (sums.value.b.a, sums.value.b.b)
        if _reads_group_contiguously(load, group, channel_in_group, input_channel, group_size)
    ]
    if len(image_loads) != 1 or channel.size is None:
        return None, []
    image = image_loads[0]
    filter_load = sums.value.b.b if image.same_as(sums.value.b.a) else sums.value.b.a
    filter_item, filter_copies = _filter_along_channels(filter_load, sums, channel, group_size)
    buffer = emit.scratch([axis.extent for axis in (*outer_axes, channel)], sums.dtype, "spread")
    spatial = (*outer_axes, channel)
    product = emit.load(image.source, [*image.indices[:-1], channel.var]) * filter_item
    value = emit.load(buffer, [axis.var for axis in spatial]) + product
    return replace(sums, buffer=buffer, spatial=spatial, value=value, broadcast_axis=input_channel), filter_copies


def _reads_group_contiguously(
    load: TensorLoad, group: Axis, channel_in_group: Axis, input_channel: Axis, group_size: int
) -> bool:
    """Returns whether a load of a grouped convolution reads the input channels of the result's own group.

    Only the last index may depend on the group, and must be `group * group_size + input_channel`: the channels are then
    contiguous.

    Args:
        load: the load.
        group: the result axis of groups.
        channel_in_group: the result axis of output channels within a group.
        input_channel: the reduction axis of input channels within a group.
        group_size: the number of channels of a group.
    """
    *outer_indices, last_index = load.indices
    used_vars = set().union(*map(variables, outer_indices)) if outer_indices else set()
    is_own_group = static(emit.simplified(last_index - (group.var * group_size + input_channel.var))) == 0
    return is_own_group and not used_vars & {group.var, channel_in_group.var, input_channel.var}


def _filter_along_channels(
    load: TensorLoad, sums: Stage, channel: Axis, group_size: int
) -> tuple[ir.Expr, list[Stage]]:
    """Returns the filter's load on the merged channel axis, and a stage that copies the filter if it isn't contiguous.

    Vectors are loaded along the output channels, so these must be contiguous.
    """
    *_outer, group, channel_in_group = sums.spatial
    group_and_channel = {
        group.var: tirx.floordiv(channel.var, index(group_size)),
        channel_in_group.var: tirx.floormod(channel.var, index(group_size)),
    }
    analyzer = sym.Analyzer()
    analyzer.bind(channel.var, ir.Range(index(0), channel.extent))
    indices = [analyzer.simplify(substitute(old_index, group_and_channel)) for old_index in load.indices]
    read = emit.load(load.source, indices)
    if access.load_stride(read, channel.var) == 1:
        return read, []
    axes = (*sums.reduce, channel)
    new_axes = [Axis(Var(axis.var.name, "int64"), axis.extent) for axis in axes]
    buffer = emit.scratch([axis.extent for axis in axes], sums.dtype, "filters")
    value = substitute(read, {old.var: axis.var for old, axis in zip(axes, new_axes, strict=True)})
    return emit.load(buffer, [axis.var for axis in axes]), [Stage(buffer, tuple(new_axes), (), None, value)]


def _reading_new_sums(reader: Stage, sums: Stage, merged_sums: Stage) -> Stage:
    """Returns the epilogue with its loads of the grouped sums replaced by loads of the merged sums."""
    own_indices: list[ir.Expr] = [axis.var for axis in reader.spatial]
    return replace(
        reader, value=replace_loads(reader.value, sums.buffer, lambda _at: emit.load(merged_sums.buffer, own_indices))
    )
