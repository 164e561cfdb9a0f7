"""Long sums of products in steps: all results sum one block of the terms, which a cache holds, before the next block.

A step is one such block of terms. On one core, a 3D convolution's filter gradient (32 to 64 channels) takes 11.7 ms in
steps instead of 29.1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import index, static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, variables
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile import Range
from tvtf.passes.schedule.cpu.vector_axis import UNKNOWN_SIZE, has_reused_operand, operands_of

# Each step loads and stores the partial sums of all results, so short steps aren't profitable.
MIN_TERMS_OF_A_STEP = 128
# Share of the level-2 cache for the operands of a step; the partial sums take the rest.
LEVEL2_DIVISOR = 2


@dataclass(frozen=True)
class Steps:
    """The steps of a long sum: which terms are summed before which others.

    Each step is a box of the reduction's axes. Along all `split_axes` but the last it has a single index, along the last
    one `block_size` indices, and it has all indices of the `whole_axes`.

    For example, a sum over (images, rows, columns) of extents 8, 20 and 64 may be split into steps of 10 rows: its split
    axes are images and rows, the block size is 10 and columns are whole. There are 8 * 2 steps. Step 3 has image 1, rows
    10 to 19, and all 64 columns.
    """

    split_axes: tuple[Axis, ...]
    block_size: int
    whole_axes: tuple[Axis, ...]

    @property
    def counts(self) -> list[ir.Expr]:
        """The number of steps along each split axis."""
        *single_axes, block_axis = self.split_axes
        block_count = tirx.floordiv(block_axis.extent + (self.block_size - 1), index(self.block_size))
        return [*(axis.extent for axis in single_axes), emit.simplified(block_count)]

    @property
    def count(self) -> ir.Expr:
        """The number of all steps."""
        return emit.volume(self.counts)

    @property
    def sizes(self) -> dict[Var, int]:
        """The extent of each reduction axis in one step.

        A step has one index of the outer axes, a block of the last split axis, and all of the inner axes.
        """
        *single_axes, block_axis = self.split_axes
        sizes = {axis.var: 1 for axis in single_axes}
        sizes[block_axis.var] = self.block_size
        sizes.update({axis.var: _size_or_default(axis) for axis in self.whole_axes})
        return sizes

    def ranges(self, step_index: ir.Expr) -> list[Range]:
        """Returns the range of each reduction axis that a step sums, from the step's index among all steps."""
        *single_axes, block_axis = self.split_axes
        *single_indices, block_index = emit.unflatten(step_index, self.counts)
        ranges = [Range(axis, single_index, index(1)) for axis, single_index in zip(single_axes, single_indices)]
        start = block_index * self.block_size
        extent = index(self.block_size)
        # The last block is shorter if the size doesn't divide the axis.
        if block_axis.size is None or block_axis.size % self.block_size:
            extent = tirx.min(extent, block_axis.extent - start)
        ranges.append(Range(block_axis, start, extent))
        return [*ranges, *map(Range.whole, self.whole_axes)]


def steps_of(stage: Stage, target: CpuTarget) -> Steps | None:
    """Returns the longest steps (blocks of terms) of a sum whose operands fit the level-2 cache.

    A step is added to all results before the next step begins, so that its operands stay in the cache. Returns None if
    the operands of a single index of the outermost reduction axis fit the cache anyway.
    """
    result_sizes = {axis.var: _size_or_default(axis) for axis in stage.spatial}
    steps = _longest_that_fit(stage, target, result_sizes, max_first_size=1)
    splits_only_outermost = steps is not None and len(steps.split_axes) == 1
    return None if splits_only_outermost else steps


def steps_of_panel(stage: Stage, target: CpuTarget, chunk_sizes: Mapping[Var, int]) -> Steps | None:
    """Returns the longest steps for a chunk of results whose operands fit the cache, or None if one step is enough."""
    first_size = _size_or_default(stage.reduce[0])
    steps = _longest_that_fit(stage, target, chunk_sizes, first_size)
    if steps is not None and len(steps.split_axes) == 1 and steps.block_size == first_size:
        return None  # the only block is the whole first axis
    return steps


def reads_again(stage: Stage, axes: Sequence[Axis]) -> bool:
    """Returns whether results along some axes, such as a filter's taps, read mostly the same elements of the operands.

    Each step along the first reduction axis must also read mostly new elements. All results can then read the operands
    of a step while these are in the cache.
    """
    sizes = {axis.var: _size_or_default(axis) for axis in stage.axes}
    operands = [_ReadExtents.of(term) for term in operands_of(stage)]

    def growth_along(axis: Axis, loop_sizes: Mapping[Var, int]) -> list[float]:
        """Returns, for each operand, by which factor a loop over `axis` increases the number of elements read."""
        return [
            operand.element_count(loop_sizes) / operand.element_count({**loop_sizes, axis.var: 1})
            for operand in operands
        ]

    # Along these axes no operand even doubles what is read: results share their terms.
    shared_axes = [
        axis for axis in axes if _size_or_default(axis) > 1 and all(growth < 2 for growth in growth_along(axis, sizes))
    ]
    if not shared_axes:
        return False
    # Each step along the first axis must read mostly new terms: then all results read a step's while they are cached.
    first_axis = stage.reduce[0]
    sizes_of_one_result = {**sizes, **{axis.var: 1 for axis in shared_axes}}
    min_growth = 0.75 * _size_or_default(first_axis)
    return all(growth >= min_growth for growth in growth_along(first_axis, sizes_of_one_result))


def _longest_that_fit(
    stage: Stage, target: CpuTarget, result_sizes: Mapping[Var, int], max_first_size: int
) -> Steps | None:
    """Returns the longest steps (blocks of a sum's terms) whose operands fit the level-2 cache.

    With longer steps, sums are loaded and stored less often. If none fits, the shortest steps are returned. Returns
    None for a reduction without a reused operand.

    Args:
        stage: the reduction.
        target: the CPU.
        result_sizes: the number of results along each axis that sum a step before the next one.
        max_first_size: the number of indices of the first reduction axis in a step, at most.
    """
    if not has_reused_operand(stage):
        return None
    operands = [_ReadExtents.of(term) for term in operands_of(stage)]
    max_bytes = target.level2_bytes // LEVEL2_DIVISOR
    steps: Steps | None = None
    for steps in _possible_steps(stage, max_first_size):  # longest first
        sizes = {**result_sizes, **steps.sizes}
        operand_bytes = sum(operand.element_count(sizes) for operand in operands) * stage.item_bytes
        if operand_bytes <= max_bytes:
            break
    return steps


def _possible_steps(stage: Stage, max_first_size: int) -> Iterator[Steps]:
    """Yields ways to split the terms of a sum into steps (blocks), from the longest steps to the shortest.

    The longest steps have `max_first_size` indices of the first reduction axis.
    """
    for position, axis in enumerate(stage.reduce):
        is_first_axis = position == 0
        split_axes, whole_axes = stage.reduce[: position + 1], stage.reduce[position + 1 :]
        size = max_first_size if is_first_axis else _size_or_default(axis)
        terms_per_index = prod(map(_size_or_default, whole_axes))
        # A single block of an inner axis is the same as one index of the previous axis, which was yielded already.
        min_block_count = 1 if is_first_axis else 2
        block_sizes = {emit.ceil_div(size, count) for count in range(min_block_count, size + 1)}
        for block_size in sorted(block_sizes, reverse=True):
            # The longest steps are always yielded, even if a sum has few terms.
            is_longest = is_first_axis and block_size == max_first_size
            if is_longest or block_size * terms_per_index >= MIN_TERMS_OF_A_STEP:
                yield Steps(split_axes, block_size, whole_axes)


def _size_or_default(axis: Axis) -> int:
    """Returns an axis's extent; 512, a usual one, if it is symbolic."""
    return axis.size or UNKNOWN_SIZE


@dataclass(frozen=True)
class _ReadExtents:
    """How far a load moves with each variable, for each dim of its operand, or None for a stride that isn't constant."""

    dims: tuple[tuple[int, tuple[tuple[Var, int | None], ...]], ...]

    @staticmethod
    def of(load: TensorLoad) -> _ReadExtents:
        """Returns, for each dim of a load's operand, the extent and the strides of the index along each variable.

        `element_count` computes from these how many elements a part of the loops reads.
        """

        def strides_of(dim_index: ir.Expr) -> tuple[tuple[Var, int | None], ...]:
            """Returns the variables of an index, each with its stride."""
            strides = {var: access.stride(dim_index, var) for var in variables(dim_index)}
            return tuple((var, None if stride is None else static(stride)) for var, stride in strides.items())

        extents = [static(extent) or UNKNOWN_SIZE for extent in load.source.ty.shape]
        strides_by_dim = [strides_of(dim_index) for dim_index in load.indices]
        return _ReadExtents(tuple(zip(extents, strides_by_dim, strict=True)))

    def element_count(self, sizes: Mapping[Var, int]) -> int:
        """Returns an upper bound of the number of elements that a load reads, if each variable takes `sizes` values."""
        element_count = 1
        for extent, strides in self.dims:
            # The distance between the first and the last index along this dim.
            distance = 0
            for var, stride in strides:
                distance += extent if stride is None else abs(stride) * (sizes.get(var, extent) - 1)
            # At most all elements along this dim are read.
            element_count *= min(extent, distance + 1)
        return element_count
