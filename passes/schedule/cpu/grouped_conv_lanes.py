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

    Args:
        stages: the kernel's loop nests.
        kernel: the kernel.
        target: the processor, which determines the vector size.
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
    sums = stages[sums_position]
    source = stages[sums_position - 1] if sums_position else None
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
    group_size = merge.size
    lanes = target.lanes(sums.item_bytes)
    if MIN_GROUPS_PER_VECTOR * group_size > lanes or lanes % group_size:
        return False
    # See the constants: elements are shuffled over a short distance, and shuffled operands fit the registers.
    has_few_taps = all((axis.size or 0) <= MAX_TAPS for axis in sums.reduce)
    if group_size * sums.item_bytes > MAX_BYTES_OF_A_GROUP or not has_few_taps:
        return False
    # The last two result axes must be the groups and a group's output channels, the last reduction axis its inputs.
    are_groups_last = merge.first == len(sums.spatial) - 2
    if not are_groups_last or not sums.reduce or sums.reduce[-1].size != group_size:
        return False
    # The update must be `sum + image * filter`, from 0.
    update = sums.value
    if not isinstance(update, tirx.Add) or not isinstance(update.b, tirx.Mul) or not is_zero(sums.init):
        return False
    product = update.b
    return isinstance(product.a, TensorLoad) and isinstance(product.b, TensorLoad)


def _on_one_channel_axis(sums: Stage, group_size: int) -> tuple[Stage | None, list[Stage]]:
    """Merges the axes of groups and of channels within a group of a grouped convolution into one channel axis.

    Vectors along this axis span several groups, whose few channels wouldn't fill one.

    Args:
        sums: the grouped convolution.
        group_size: the number of output channels per group.

    Returns:
        The convolution on the merged axis, and the stages that copy the filter if it isn't contiguous; (None, [])
        unless exactly one factor of the products is the input of the groups.
    """
    *outer_axes, group, channel_in_group = sums.spatial
    input_channel = sums.reduce[-1]
    channel = Axis(Var("channel", "int64"), emit.simplified(group.extent * group_size))
    left, right = sums.value.b.a, sums.value.b.b  # the factors of the products that are added
    is_left_image, is_right_image = (
        _reads_group_contiguously(load, group, channel_in_group, input_channel, group_size) for load in (left, right)
    )
    if is_left_image == is_right_image or channel.size is None:
        return None, []
    image, filter_load = (left, right) if is_left_image else (right, left)
    filter_item, filter_copies = _filter_along_channels(filter_load, sums, channel, group_size)
    spatial = (*outer_axes, channel)
    buffer = emit.scratch([axis.extent for axis in spatial], sums.dtype, "spread")
    product = emit.load(image.source, [*image.indices[:-1], channel.var]) * filter_item
    value = emit.load(buffer, [axis.var for axis in spatial]) + product
    return replace(sums, buffer=buffer, spatial=spatial, value=value, broadcast_axis=input_channel), filter_copies


def _reads_group_contiguously(
    load: TensorLoad, group: Axis, channel_in_group: Axis, input_channel: Axis, group_size: int
) -> bool:
    """Returns whether a load of a grouped convolution reads the input channels of the result's group contiguously.

    The last index must be `group * group_size + input_channel`. The other indices must not depend on channels.

    Args:
        load: the load.
        group: the result axis of groups.
        channel_in_group: the result axis of output channels within a group.
        input_channel: the reduction axis of input channels within a group.
        group_size: the number of channels of a group.
    """
    *outer_indices, last_index = load.indices
    channel_vars = {group.var, channel_in_group.var, input_channel.var}
    if any(variables(outer_index) & channel_vars for outer_index in outer_indices):
        return False
    channel_over_groups = group.var * group_size + input_channel.var
    return static(emit.simplified(last_index - channel_over_groups)) == 0


def _filter_along_channels(
    load: TensorLoad, sums: Stage, channel: Axis, group_size: int
) -> tuple[ir.Expr, list[Stage]]:
    """Returns the filter's load on the merged channel axis, and a stage that copies the filter if it isn't contiguous.

    Vectors are loaded along the output channels, so these must be contiguous.

    Args:
        load: the filter's load, with the groups and a group's channels as separate axes.
        sums: the grouped convolution.
        channel: the merged axis.
        group_size: the number of channels of a group.
    """
    *_outer, group, channel_in_group = sums.spatial
    group_and_channel = {
        group.var: tirx.floordiv(channel.var, index(group_size)),
        channel_in_group.var: tirx.floormod(channel.var, index(group_size)),
    }
    analyzer = sym.Analyzer()
    analyzer.bind(channel.var, ir.Range(index(0), channel.extent))
    indices = [analyzer.simplify(substitute(old_index, group_and_channel)) for old_index in load.indices]
    merged_load = emit.load(load.source, indices)
    if access.load_stride(merged_load, channel.var) == 1:
        return merged_load, []
    axes = (*sums.reduce, channel)
    copy_axes = tuple(Axis(Var(axis.var.name, "int64"), axis.extent) for axis in axes)
    buffer = emit.scratch([axis.extent for axis in axes], sums.dtype, "filters")
    value = substitute(merged_load, {old.var: new.var for old, new in zip(axes, copy_axes, strict=True)})
    load_of_copy = emit.load(buffer, [axis.var for axis in axes])
    return load_of_copy, [Stage(buffer, copy_axes, (), None, value)]


def _reading_new_sums(reader: Stage, sums: Stage, merged_sums: Stage) -> Stage:
    """Returns the epilogue with its loads of the grouped sums replaced by loads of the merged sums."""
    own_indices: list[ir.Expr] = [axis.var for axis in reader.spatial]
    return replace(
        reader, value=replace_loads(reader.value, sums.buffer, lambda _at: emit.load(merged_sums.buffer, own_indices))
    )
