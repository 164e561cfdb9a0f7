"""Convolutions with 3 by 3 or 5 by 5 windows by Winograd's method: 1/4, 4/9 or 9/25 of the products, in float32.

Images are cut into square tiles of results. A task takes a few rows of tiles: it transforms their inputs, multiplies
them by the transformed filter as one matrix product for each position in a tile, and transforms the products into
results, on which the epilogue runs. Only results leave the level-2 cache. Where tiles are few and the filter is large,
a task takes all tiles and one panel of results instead. It transforms its part of the filter itself, a block of
channels at a time, since a transformed filter is four times as large and would have to be written and read again.
Counted in the operations of direct sums, it reaches 1,100 to 1,500 GF/s; direct sums reach 490.

A dilated window touches only every n-th row and column; these form images of their own, one for each phase. For
volumes, each plane is an image, with the channels of all planes in its window. Groups have panels and channels of their
own.

Sums of transformed numbers round more: with normally distributed operands, results of tiles of four are within 1e-5 of
their standard deviation from the exact ones, direct sums within 1e-6. A value that isn't finite affects all results of
its tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import emit_band_copy
from tvtf.passes.schedule.cpu.border_clips import with_clips
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import (
    Axis,
    AxisIndices,
    Kernel,
    Opaque,
    Stage,
    by_axis,
    reads,
    substitute,
    variables,
)
from tvtf.passes.schedule.cpu.merged_loops import on_same_axes
from tvtf.passes.schedule.cpu.pack import pack_operands
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.product_tile import MIN_TERMS
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile import Epilogue
from tvtf.passes.schedule.cpu.tile_plan import Packing, Plan
from tvtf.passes.schedule.cpu.vector_axis import operands_of
from tvtf.passes.schedule.cpu.winograd_products import Products
from tvtf.passes.schedule.cpu.winograd_tiling import FLOAT32_BYTES, Shape, Tiling, fastest_tiling
from tvtf.passes.schedule.cpu.winograd_transforms import (
    BY_WINDOW,
    Matrix,
    transform_tile,
    transform_tiles,
)

TileElement = Callable[[int, int, int, ir.Expr], TensorLoad]
"""Returns an element of a tile, by the tile's index in its row of tiles, the row and column in the tile, and the lane."""


@dataclass(frozen=True)
class Operands:
    """The factors of a Winograd convolution's products, as loads.

    The image is read at `[n, y + ky * dilation, x + kx * dilation, c]`. For volumes there is an index of the plane
    after `n`. The filter's indices contain no `n`, `y` or `x`.
    """

    image: TensorLoad
    filter: TensorLoad
    dilation: int = 1


@dataclass(frozen=True)
class Winograd:
    """A convolution to be computed by Winograd's method, with its epilogue in `fused_stages`.

    `source` is the padded copy that makes its input, if nothing else reads that copy.
    """

    source: Stage | None
    fused_stages: tuple[Stage, ...]
    operands: Operands
    tiling: Tiling

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.fused_stages if self.source is None else (self.source, *self.fused_stages)

    @property
    def convolution(self) -> Stage:
        return self.fused_stages[0]


# -- recognition


def as_winograd(
    source: Stage | None,
    fused_stages: Sequence[Stage],
    later_stages: Sequence[Stage | Opaque],
    kernel: Kernel,
    target: CpuTarget,
) -> Winograd | None:
    """Plans a convolution by Winograd's method; returns None if direct sums are about as fast.

    Args:
        source: the padded copy before the convolution, which is inlined if nothing else reads it.
        fused_stages: the convolution and its epilogue.
        later_stages: the stages after these.
        kernel: the kernel that the stages belong to.
        target: the CPU.
    """
    convolution = fused_stages[0]
    operands = _factors(convolution)
    shape = None if operands is None else _conv_shape(convolution, operands.dilation)
    # With planes or groups, vectors of channels must not cross from one to the next.
    needs_whole_vectors = len(convolution.reduce) > 3 or (shape is not None and shape.groups > 1)
    if (
        operands is None
        or shape is None
        or (needs_whole_vectors and (convolution.reduce[-1].size or 1) % target.lanes(FLOAT32_BYTES))
    ):
        return None
    direct_share = 1.0 if operands.dilation == 1 else needed_share(convolution, source, target)
    tiling = fastest_tiling(shape, _is_constant(operands, convolution), target, direct_share)
    if tiling is None:
        return None
    if source is not None and not is_only_reader(source, fused_stages, later_stages, operands, kernel):
        source = None
    return Winograd(source, tuple(fused_stages), operands, tiling)


def _factors(stage: Stage) -> Operands | None:
    """Returns the image and the filter of a convolution over a square window with stride 1, or None for other stages."""
    axis_counts = (len(stage.spatial), len(stage.reduce))
    # A 3D convolution has one more result axis and one more reduction axis than a 2D convolution; groups are one more
    # result axis.
    of_2d, of_3d, of_grouped_2d = (4, 3), (5, 4), (5, 3)
    if axis_counts not in (of_2d, of_3d, of_grouped_2d):
        return None
    factors = factors_of_sum(stage)
    if factors is None:
        return None
    position_in_image = {axis.var for axis in image_axes(stage)}
    # Either factor may be the image.
    for image_load, filter_load in (factors, reversed(factors)):
        dilation = _window_dilation(image_load, stage)
        # The filter may depend on channels and taps, but not on the position of the result in the image.
        if dilation and not variables(_flat_offset(filter_load)) & position_in_image:
            return Operands(image_load, filter_load, dilation)
    return None


def factors_of_sum(stage: Stage) -> tuple[TensorLoad, TensorLoad] | None:
    """Returns the two loads that a sum of products multiplies, or None for any other stage.

    The stage must be the float32 reduction `sum = sum + left * right`, starting from zero.
    """
    update = stage.value
    if stage.dtype != "float32" or not isinstance(update, tirx.Add) or not isinstance(update.b, tirx.Mul):
        return None
    product = update.b
    operands = operands_of(stage)
    if not isinstance(product.a, TensorLoad) or not isinstance(product.b, TensorLoad) or len(operands) != 2:
        return None
    left, right = operands
    return (left, right) if is_zero(stage.init) else None


def group_axis(stage: Stage) -> Axis | None:
    """Returns a convolution's axis of groups, which comes before the output channels; None without groups."""
    return stage.spatial[-2] if len(stage.spatial) > len(stage.reduce) + 1 else None


def image_axes(stage: Stage) -> tuple[Axis, ...]:
    """Returns a convolution's result axes for image, plane (of volumes only), row and column."""
    return stage.spatial[: len(stage.reduce)]


def _flat_offset(load: TensorLoad) -> ir.Expr:
    """Returns the row-major offset of the element that a load reads."""
    return access.flat_offset(load.source, list(load.indices))


def _window_dilation(load: TensorLoad, stage: Stage) -> int | None:
    """Returns the dilation of a convolution's square window, equal in both directions, or None for another load.

    The load's indices must be `[image, ..., row + row_tap * dilation, column + column_tap * dilation, channel]`.
    """
    image, *planes, row, column = (axis.var for axis in image_axes(stage))
    *plane_taps, row_tap, column_tap, _channel = (axis.var for axis in stage.reduce)
    # The load must have an index for the image, and one for each reduction axis (taps and channel).
    if len(load.indices) != len(stage.reduce) + 1 or square_window_size(stage.reduce[-3:-1]) is None:
        return None
    dilation = positive_stride(load.indices[-3], row_tap)
    if dilation is None:
        return None
    plane_indices = list(load.indices[1:-3])
    expected = [image, *plane_indices, row + row_tap * dilation, column + column_tap * dilation, channel_index(stage)]
    is_window = all(map(is_equal_index, load.indices, expected))
    plane_vars = {*planes, *plane_taps}
    has_own_planes = all(variables(plane_index) <= plane_vars for plane_index in plane_indices)
    return dilation if is_window and has_own_planes else None


def positive_stride(index_value: ir.Expr, var: Var) -> int | None:
    """Returns the constant positive factor of a variable in an index that is linear in it, else None."""
    stride = access.stride(index_value, var)
    factor = None if stride is None else emit.static(stride)
    return factor if factor is not None and factor >= 1 else None


def square_window_size(tap_axes: Sequence[Axis]) -> int | None:
    """Returns the size of a window that is square and has Winograd transforms, else None."""
    height, width = (axis.size for axis in tap_axes)
    return height if height is not None and height == width and height in BY_WINDOW else None


def channel_index(stage: Stage) -> ir.Expr:
    """Returns the index of the image channel that a term of a convolution reads, counted over all groups."""
    group = group_axis(stage)
    channel = stage.reduce[-1]
    return channel.var if group is None else group.var * channel.extent + channel.var


def needed_share(stage: Stage, source: Stage | None, target: CpuTarget) -> float:
    """Returns the share of its products that a direct convolution computes: those with a zero border are left out."""
    clips = () if source is None else with_clips(stage, [source], target).clips
    return prod(1 - clip.saved_share(1) for clip in clips)


def is_equal_index(left: ir.Expr, right: ir.Expr) -> bool:
    """Returns whether two index expressions are provably equal."""
    return emit.static(emit.simplified(left - right)) == 0


def _conv_shape(stage: Stage, dilation: int) -> Shape | None:
    """Returns the sizes of a 2D or 3D convolution as those of a 2D convolution, or None if a size isn't static.

    Each plane of a volume counts as an image. The channels of all planes in a window count as channels of one image.
    """
    *image_and_planes, row, column = image_axes(stage)
    *plane_taps, row_tap, column_tap, channel = stage.reduce
    group = group_axis(stage)
    image_count = access.iteration_count(tuple(image_and_planes))
    in_channels = access.iteration_count((*plane_taps, channel))
    out_channels = stage.spatial[-1].size
    group_count = 1 if group is None else group.size
    window = square_window_size((row_tap, column_tap))
    sizes = (image_count, row.size, column.size, in_channels, out_channels, group_count, window)
    return shape_of_sizes(sizes, dilation)


def shape_of_sizes(sizes: Sequence[int | None], dilation: int) -> Shape | None:
    """Returns a convolution's shape as Winograd's method sees it, or None if a size isn't static.

    Winograd's transforms are for windows without gaps. With dilation n, the window has gaps, but not in the image of
    every n-th row and column (a phase). So each phase counts as an image.

    Args:
        sizes: the convolution's sizes in the order of the fields of `Shape`; None for symbolic ones.
        dilation: the dilation of the window, equal in both directions.
    """
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    images, height, width, *other_sizes = known
    phases = dilation**2
    phase_height = emit.ceil_div(height, dilation)
    phase_width = emit.ceil_div(width, dilation)
    return Shape(images * phases, phase_height, phase_width, *other_sizes)


def _is_constant(operands: Operands, stage: Stage) -> bool:
    """Returns whether the convolution's filter has the same values in every call."""
    return operands.filter.source in stage.constants


def is_only_reader(
    source: Stage,
    fused_stages: Sequence[Stage],
    later_stages: Sequence[Stage | Opaque],
    operands: Operands,
    kernel: Kernel,
) -> bool:
    """Returns whether only the convolution reads the padded copy `source`, which then needn't be stored.

    Args:
        source: the stage that makes the padded copy.
        fused_stages: the convolution and its epilogue.
        later_stages: the stages after these.
        operands: the image and the filter that the convolution loads.
        kernel: the kernel that the stages belong to.
    """
    if source.reduce or not kernel.is_local(source.buffer) or not operands.image.source.same_as(source.buffer):
        return False
    readers = [*fused_stages[1:], *later_stages]
    return not any(reads(reader, source.buffer) for reader in readers)


# -- writing


def emit_winograd(winograd: Winograd, stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a convolution by Winograd's method: transforms its filter, then runs tasks over tiles in parallel.

    Args:
        winograd: the convolution with its epilogue, and the tiling.
        stored_buffers: the results that must be stored in memory.
        target: the CPU.
    """
    fused_stages = tuple(on_same_axes(winograd.fused_stages))
    winograd = replace(winograd, fused_stages=fused_stages)
    stored_stages = [stage for stage in fused_stages if stage.buffer in stored_buffers]
    emitter = _WinogradEmitter(winograd, stored_stages, target)
    return emit_parallel_or_serial(winograd.stages, target, emitter.emit_nest)


class _WinogradEmitter:
    """Emits one Winograd convolution.

    A panel is a block of output channels, as wide as the tiling's `width`. In the methods, `block` is the index of a
    task's block of rows of tiles, and `tile_row` the index of a row of tiles in the block.
    """

    def __init__(self, winograd: Winograd, stores: list[Stage], target: CpuTarget) -> None:
        """Derives the numbers of tiles, panels and channels from the tiling, and creates the scratch buffers.

        Args:
            winograd: the convolution and its tiling.
            stores: the convolution's stage and the elementwise stages that follow it.
            target: the CPU.
        """
        shape = _conv_shape(winograd.convolution, winograd.operands.dilation)
        if shape is None:
            raise ValueError("emit_winograd: expected the known sizes that as_winograd accepted")
        self.conv, self.stores, self.target = winograd, stores, target
        self.shape, self.dilation = shape, winograd.operands.dilation
        self.tiling, self.transforms = winograd.tiling, winograd.tiling.transforms
        self.lanes = target.lanes(FLOAT32_BYTES)
        # The rows and columns of tiles of an image.
        self.tile_rows = self.tiling.tiles(shape.height)
        self.tile_columns = self.tiling.tiles(shape.width)
        self.tiles_per_task = self.tiling.rows * self.tile_columns
        panel_count = self.tiling.panels(shape)
        self.panels_per_task = panel_count // self.tiling.groups
        self.panels_per_group = panel_count // shape.groups
        self.full_panels = shape.out_channels // self.tiling.width
        self.all_channels = shape.in_channels * shape.groups
        # Channels of one plane of a window (or of all groups) are contiguous in the input.
        self.channels_per_step = int(winograd.convolution.reduce[-1].extent) * shape.groups
        self._create_buffers(panel_count)

    def _create_buffers(self, panel_count: int) -> None:
        """Creates the scratch buffers of the kernel: transformed filters and inputs, sums of products, and input rows.

        Buffers in the transformed domain have a dimension for the position in a tile. The next dimension is padded by
        one row or vector, so that the positions of a tile don't all map to the same cache set.
        """
        positions, width = self.transforms.products, self.tiling.width
        if self.tiling.block:  # the filter is transformed for one panel and one block of channels at a time
            filter_panels, filter_channels = 1, self.tiling.block
        else:
            filter_panels, filter_channels = panel_count, self.shape.in_channels
        filter_extents = [filter_panels, positions, filter_channels + 1, width]
        input_extents = [self.tiles_per_task, positions, self.all_channels + self.lanes]
        sum_extents = [self.tiles_per_task, positions, width + self.lanes]
        # A band: the input's rows and columns that one row of tiles reads, with the window's border.
        band_columns = self.tile_columns * self.transforms.size + self.shape.window - 1
        band_extents = [self.transforms.side, band_columns, self.all_channels]
        self.filter_buffer = emit.scratch(filter_extents, "float32", "filters")
        self.input_buffer = emit.scratch(input_extents, "float32", "inputs")
        self.sum_buffer = emit.scratch(sum_extents, "float32", "sums")
        self.band_buffer = emit.scratch(band_extents, "float32", "band")

    def emit_nest(self, parallel: bool) -> Stmt:
        """Emits the complete convolution by Winograd's method.

        Usually a task takes a block of rows of tiles. If the tiling has blocks of channels, a task takes one panel of
        output channels for all tiles. Every task then reads the inputs of all tiles, so these are transformed first.
        """
        row_blocks = self.shape.images * self.tile_rows // self.tiling.rows
        filter_load, transpose = self._contiguous_filter(parallel)
        if self.tiling.block:
            transform_row = partial(self._emit_input_transform, index(0))
            return emit.sequence([
                emit.allocate(self.input_buffer),
                *transpose,
                emit.fused_loops(
                    [self.tiles_per_task // self.tile_columns],
                    lambda tile_rows: self._with_allocation(self.band_buffer, transform_row(tile_rows[0])),
                    parallel,
                ),
                emit.fused_loops(
                    [self.tiling.groups], lambda panels: self._emit_panel_in_blocks(filter_load, panels[0]), parallel
                ),
            ])  # fmt: skip
        return emit.sequence([
            emit.allocate(self.filter_buffer),
            *transpose,
            self._emit_filter_transform(filter_load, parallel),
            emit.fused_loops([row_blocks, self.tiling.groups], lambda numbers: self._emit_task(*numbers), parallel),
        ])  # fmt: skip

    def _contiguous_filter(self, parallel: bool) -> tuple[TensorLoad, list[Stmt]]:
        """Returns a load of the filter in which output channels are contiguous, and the statements that it depends on.

        The filter's Winograd transform runs along vectors of output channels, which must be contiguous in memory. If
        they aren't, the statements copy the filter to a transposed buffer, and the returned load reads from this
        buffer.
        """
        stage, filter_load = self.conv.convolution, self.conv.operands.filter
        out_channel = stage.spatial[-1]
        if access.load_stride(filter_load, out_channel.var) == 1:
            return filter_load, []
        packing = Packing(filter_load, out_channel, self.tiling.width)
        vectors = self.tiling.width // self.lanes
        plan = Plan(out_channel, along_terms=False, lanes=self.lanes, vectors=vectors, packed=(packing,))
        stage_on_copy, transpose = pack_operands(stage, plan, self.target, parallel)
        image = self.conv.operands.image.source
        load_of_copy = next(operand for operand in operands_of(stage_on_copy) if not operand.source.same_as(image))
        return load_of_copy, transpose

    def _emit_filter_transform(self, filter_load: TensorLoad, parallel: bool) -> Stmt:
        """Emits the Winograd transform of the complete filter: a loop over panels of output channels and input channels.

        All tiles use the result, which is stored in `filter_buffer`.

        Args:
            filter_load: the load of an element of the filter.
            parallel: whether the panels are parallel tasks.
        """

        def transform_window(indices: list[ir.Expr]) -> Stmt:
            """Emits the transform of the filter for one panel and input channel."""
            panel, in_channel = indices
            return self._emit_window_transform(filter_load, panel, in_channel, buffer_position=indices)

        extents = [self.tiling.panels(self.shape), self.shape.in_channels]
        return emit.fused_loops(extents, transform_window, parallel)

    def _emit_window_transform(
        self, filter_load: TensorLoad, panel: ir.Expr, channel_number: ir.Expr, buffer_position: Sequence[ir.Expr]
    ) -> Stmt:
        """Emits the Winograd transform of the filter's window for one input channel and one panel of output channels.

        `channel_number` counts the channels of all planes of the window. `buffer_position` is the panel and the
        channel in the buffer. Vectors run along output channels, as in the matrix products that follow.
        """
        *planes, row_tap, column_tap, channel = self.conv.convolution.reduce
        channel_extents = [channel.extent] if not planes else [planes[0].extent, channel.extent]
        buffer_panel, buffer_channel = buffer_position

        def source(_tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            """Returns the filter's element at a tap (row, column) of the window; lanes are output channels."""
            plane_and_channel = zip((*planes, channel), emit.unflatten(channel_number, channel_extents), strict=True)
            axis_indices = {
                row_tap.var: index(row),
                column_tap.var: index(column),
                **{axis.var: index_value for axis, index_value in plane_and_channel},
            }
            return substitute(filter_load, {**axis_indices, **self._result_indices(panel, lane)})

        def destination(_tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            position = row * self.transforms.side + column
            return emit.load(self.filter_buffer, [buffer_panel, index(position), buffer_channel, lane])

        return self._emit_whole_or_last_panel(
            panel,
            partial(self._emit_channel_transforms, self.transforms.filters, source, destination, 1),
            self._emit_zeros_after_last_result(*buffer_position),
        )

    def _emit_panel_in_blocks(self, filter_load: TensorLoad, panel: ir.Expr) -> Stmt:
        """Emits one panel of output channels for all tiles, which adds up products block by block of input channels."""
        zero = tirx.const(0, "float32")
        block_channels = self.tiling.block
        vector_extents = [self.tiles_per_task, self.transforms.products, self.tiling.width // self.lanes]

        def clear_vector(indices: list[ir.Expr]) -> Stmt:
            """Emits the initialization of one vector of sums to zero."""
            tile, position, vector = indices
            first_lane = vector * self.lanes
            return emit.vectorized(
                self.lanes, lambda lane: emit.store(self.sum_buffer, zero, [tile, position, first_lane + lane])
            )

        def add_block(block: ir.Expr) -> Stmt:
            """Emits the transform of the filter for one block of input channels, and adds the block's products."""
            first_channel = block * block_channels
            # The filter is transformed block by block, just before it is used, so that it stays in the cache.
            transform_windows = emit.loop(
                block_channels,
                lambda channel: self._emit_window_transform(
                    filter_load, panel, first_channel + channel, [index(0), channel]
                ),
            )
            return emit.sequence([transform_windows, self._emit_products(panel, first_channel)])

        result_rows = emit.loop(self.tiling.rows, lambda row: self._emit_result_row(index(0), panel, row))
        sum_blocks = emit.loop(self.shape.in_channels // block_channels, add_block)
        return emit.sequence(
            [
                *map(emit.allocate, (self.filter_buffer, self.sum_buffer)),
                emit.nest(vector_extents, clear_vector),
                sum_blocks,
                result_rows,
            ]
        )

    def _with_allocation(self, buffer: Var, body: Stmt) -> Stmt:
        """Returns a statement preceded by the allocation of a buffer that it uses."""
        return emit.sequence([emit.allocate(buffer), body])

    def _result_indices(self, panel: ir.Expr, lane: ir.Expr) -> dict[Var, ir.Expr]:
        """Returns the group and the output channel that a lane of a panel stands for, by axis variable."""
        group = group_axis(self.conv.convolution)
        result = self.conv.convolution.spatial[-1].var
        if group is None:
            return {result: panel * self.tiling.width + lane}
        return {group.var: self._group_of_panel(panel), result: self._index_in_group(panel) * self.tiling.width + lane}

    def _group_of_panel(self, panel: ir.Expr) -> ir.Expr:
        """Returns the index of the convolution's group that a panel of output channels belongs to."""
        return emit.simplified(tirx.floordiv(panel, index(self.panels_per_group)))

    def _index_in_group(self, panel: ir.Expr) -> ir.Expr:
        """Returns the index of a panel of output channels within its group."""
        return panel if self.shape.groups == 1 else emit.simplified(tirx.floormod(panel, index(self.panels_per_group)))

    def _emit_whole_or_last_panel(
        self, panel: ir.Expr, write_channels: Callable[[int], Stmt], fill_unused: Stmt | None = None
    ) -> Stmt:
        """Emits a statement for all output channels of a panel; a group's last panel may have fewer channels.

        Args:
            panel: the index of the panel (a block of output channels).
            write_channels: emits the statement for a given number of channels.
            fill_unused: the statement that follows in a last panel with fewer channels.
        """
        last_panel_channels = self.shape.out_channels - self.full_panels * self.tiling.width
        whole_panel = write_channels(self.tiling.width)
        if not last_panel_channels:
            return whole_panel
        last_panel = emit.sequence([write_channels(last_panel_channels), fill_unused])
        is_whole = emit.simplified(self._index_in_group(panel) < self.full_panels)
        # `when` returns None only without an alternative.
        return emit.when(is_whole, whole_panel, last_panel) or whole_panel

    def _emit_zeros_after_last_result(self, panel: ir.Expr, channel: ir.Expr) -> Stmt | None:
        """Emits zeros for the transformed filter's lanes after the last output channel.

        These lanes are multiplied and summed like the others, but their sums are never stored. Returns None if the last
        panel (block of output channels) is full.
        """
        last_panel_channels = self.shape.out_channels - self.full_panels * self.tiling.width
        if not last_panel_channels:
            return None
        zero = tirx.const(0, "float32")
        unused_lanes = self.tiling.width - last_panel_channels

        def clear_position(position: ir.Expr) -> Stmt:
            """Emits zeros for the unused lanes of one position in the tile."""

            def clear_lane(lane: ir.Expr) -> Stmt:
                return emit.store(self.filter_buffer, zero, [panel, position, channel, lane + last_panel_channels])

            return emit.vectorized(unused_lanes, clear_lane)

        return emit.loop(self.transforms.products, clear_position)

    def _emit_channel_transforms(
        self,
        matrices: tuple[Matrix, ...],
        source: TileElement,
        destination: TileElement,
        tiles: int,
        channels: int,
        source_is_scratch: bool = False,
    ) -> Stmt:
        """Emits the Winograd transform of `tiles` adjacent tiles, in full vectors of channels and a shorter last one.

        Args:
            matrices: the matrices of the transform.
            source: returns an element of the source.
            destination: returns the location to store a transformed element at.
            tiles: the number of tiles in a row.
            channels: the number of channels.
            source_is_scratch: whether the source is a scratch buffer of the kernel.
        """

        def transform(start: int, vectors: int, lanes: int) -> Stmt:
            """Emits the transform of ``vectors`` times ``lanes`` channels, starting at ``start``."""
            first_source, first_destination = (partial(_at_lane, item, index(start)) for item in (source, destination))
            return transform_tiles(
                matrices, first_source, first_destination, (tiles, vectors), lanes, "float32", source_is_scratch
            )

        whole_vectors, remaining = divmod(channels, self.lanes)
        main = transform(0, whole_vectors, self.lanes) if whole_vectors else None
        return emit.sequence([main, transform(whole_vectors * self.lanes, 1, remaining) if remaining else None])

    def _emit_task(self, block: ir.Expr, panel_group: ir.Expr) -> Stmt:
        """Emits one parallel task: the results of a block of rows of tiles, for one group of panels of output channels.

        The task transforms the inputs of its rows of tiles once, then computes the results panel by panel.
        """

        def transform_row(tile_row: ir.Expr) -> Stmt:
            """Emits the input transform of one row of tiles."""
            return self._emit_input_transform(block, tile_row)

        def emit_panel(panel_in_group: ir.Expr) -> Stmt:
            """Emits the results of one panel in the task's group."""
            return self._emit_panel(block, panel_group * self.panels_per_task + panel_in_group)

        panels = emit.loop(self.panels_per_task, emit_panel)
        transformed_inputs = emit.loop(self.tiling.rows, transform_row)
        buffers = (self.band_buffer, self.input_buffer, self.sum_buffer)
        return emit.sequence([*map(emit.allocate, buffers), transformed_inputs, panels])

    def _image_and_first_row(self, block: ir.Expr, tile_row: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the image that a row of tiles belongs to, and the first row of results of these tiles.

        Rows of tiles are counted over all images, so that those of a task may belong to several images.

        Args:
            block: the index of the task's block of rows of tiles.
            tile_row: the index of the row of tiles in the block.
        """
        index_over_images = block * self.tiling.rows + tile_row
        tile_rows_per_image = index(self.tile_rows)
        image = tirx.floordiv(index_over_images, tile_rows_per_image)
        tile_row_in_image = tirx.floormod(index_over_images, tile_rows_per_image)
        return emit.simplified(image), emit.simplified(tile_row_in_image * self.transforms.size)

    def _emit_input_transform(self, block: ir.Expr, tile_row: ir.Expr) -> Stmt:
        """Emits the input transform of one row of tiles.

        The band of the input that these tiles read is copied with a zero border first. The transform then needs no
        bounds checks.
        """
        image, top = self._image_and_first_row(block, tile_row)
        size, side = self.transforms.size, self.transforms.side
        height, width = (int(extent) for extent in self.band_buffer.ty.shape[:2])

        def copy_channels(first_channel: int, channels: int) -> Stmt:
            """Emits the copy of some channels, which are contiguous in the input, into the band (rows of one image)."""

            def band_item(position: Sequence[ir.Expr]) -> TensorLoad:
                """Returns the element of the band at a position."""
                row, column, channel = position
                return emit.load(self.band_buffer, [row, column, channel + first_channel])

            def image_item(position: Sequence[ir.Expr]) -> ir.Expr:
                """Returns the element of the input at a position in the band."""
                row, column, channel = position
                return self._input_element(image, top + row, column, first_channel, channel)

            return emit_band_copy(band_item, image_item, [height, width, channels], self.lanes)

        def source(tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(self.band_buffer, [index(row), index(tile * size + column), lane])

        def destination(tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(self.input_buffer, [tile_row * self.tile_columns + tile, index(row * side + column), lane])

        copy = emit.sequence(
            [copy_channels(*span) for span in emit.vector_spans(self.all_channels, self.channels_per_step)]
        )
        return emit.sequence(
            [
                copy,
                self._emit_channel_transforms(
                    self.transforms.inputs, source, destination, self.tile_columns, self.all_channels
                ),
            ]
        )

    def _input_element(
        self, image_index: ir.Expr, row: ir.Expr, column: ir.Expr, first_channel: int, lane: ir.Expr
    ) -> ir.Expr:
        """Returns an element of the convolution's input, or zero where the last tiles reach beyond the input.

        `lane` counts channels starting at `first_channel`.
        """
        source, stage, load = self.conv.source, self.conv.convolution, self.conv.operands.image
        *planes, row_tap, column_tap, channel = stage.reduce
        # Channels are indexed over all planes of the window.
        plane_index, channel_in_plane = divmod(first_channel, self.channels_per_step)
        image_indices = self._image_indices(image_index, row, column)
        axis_indices = {axis.var: axis_index for axis, axis_index in zip(image_axes(stage), image_indices)}
        group = group_axis(stage)
        if group is not None:
            axis_indices[group.var] = index(0)
        axis_indices.update({axis.var: index(plane_index) for axis in planes})
        axis_indices.update({row_tap.var: index(0), column_tap.var: index(0), channel.var: lane + channel_in_plane})
        indices = list(substitute(load, axis_indices).indices)
        value = emit.load(load.source, indices) if source is None else source.at(indices)
        row_and_column, extents = indices[-3:-1], list(load.source.ty.shape)[-3:-1]
        border = self.shape.window - 1
        ends_of_tiles = [
            (count * self.transforms.size + border) * self.dilation for count in (self.tile_rows, self.tile_columns)
        ]
        # A bounds check is needed only along axes on which full tiles reach beyond the input.
        checks = [
            axis_index < extent
            for axis_index, extent, end in zip(row_and_column, extents, ends_of_tiles)
            if int(extent) < end
        ]
        return tirx.if_then_else(tirx.all(*checks), value, tirx.const(0, "float32")) if checks else value

    def _image_indices(self, image_index: ir.Expr, row: ir.Expr, column: ir.Expr) -> list[ir.Expr]:
        """Converts a row and column of one plane and phase to the indices of image, plane, row and column.

        A phase is every n-th row and column of an image, where n is the window's dilation. In a phase the window has no
        gaps, so that Winograd's transforms can be used.

        Args:
            image_index: the flat index of image, plane, and the phases of rows and columns.
            row: the row in the phase.
            column: the column in the phase.
        """
        outer_extents = [axis.extent for axis in image_axes(self.conv.convolution)[:-2]]
        *image, row_phase, column_phase = emit.unflatten(image_index, [*outer_extents, self.dilation, self.dilation])
        return [*image, row * self.dilation + row_phase, column * self.dilation + column_phase]

    def _emit_panel(self, block: ir.Expr, panel: ir.Expr) -> Stmt:
        """Emits one panel of output channels for a block of tiles: the products at all positions, then the results."""
        result_rows = emit.loop(self.tiling.rows, lambda tile_row: self._emit_result_row(block, panel, tile_row))
        return emit.sequence([self._emit_products(panel), result_rows])

    def _emit_products(self, panel: ir.Expr, first_channel: ir.Expr | None = None) -> Stmt:
        """Emits the matrix products of a panel of output channels with all tiles, summed over the input channels.

        Args:
            panel: the index of the panel.
            first_channel: the first input channel of a block. Only this block is summed then, and added to the sums of the
                blocks before. The buffer of the transformed filter holds just this panel and block.
        """
        channels = self.tiling.block or self.shape.in_channels
        is_added = first_channel is not None
        panel_in_buffer = index(0) if is_added else panel
        channel_in_group = index(0) if first_channel is None else first_channel
        products = Products(
            self.sum_buffer, self.input_buffer, self.filter_buffer, channels, self.tiling.width, is_added=is_added
        )
        input_channel = channel_in_group
        if self.shape.groups > 1:
            input_channel = self._group_of_panel(panel) * self.shape.in_channels + channel_in_group
        return products.sums_of_panel(panel_in_buffer, input_channel, self.target)

    def _emit_result_row(self, block: ir.Expr, panel: ir.Expr, tile_row: ir.Expr) -> Stmt:
        """Emits the results of a row of tiles for one panel of output channels, from the sums of products.

        There are three cases: the transformed sums are stored directly, or the epilogue runs on each tile in
        registers, or it runs on several tiles in a buffer.

        Args:
            block: the index of the block of tiles.
            panel: the index of the panel of output channels.
            tile_row: the index of the row of tiles.
        """
        has_epilogue = len(self.stores) != 1 or self.stores[0] is not self.conv.convolution
        if not has_epilogue and not self._tiles_exceed_image:
            return self._emit_result_row_without_epilogue(block, panel, tile_row)
        # With few input channels, the overhead of subroutine calls would be large. Without them, sums stay in
        # registers.
        if self.shape.in_channels < MIN_TERMS:
            emit_tile = partial(self._emit_tile_with_epilogue, block, panel, tile_row)
            return emit.loop(self.tile_columns, emit_tile)
        tiles = self._tiles_per_epilogue

        def emit_tiles(part: ir.Expr) -> Stmt:
            return self._emit_tiles_with_epilogue(block, panel, tile_row, part * tiles, tiles)

        return emit.loop(self.tile_columns // tiles, emit_tiles)

    @property
    def _tiles_per_epilogue(self) -> int:
        """The number of tiles to transform before the epilogue runs, so that results fit half of the level-1 cache.

        It divides the number of tiles in a row.
        """
        bytes_per_tile = self.transforms.size**2 * self.tiling.width * FLOAT32_BYTES
        max_tiles = max(1, self.target.level1_bytes // 2 // bytes_per_tile)
        divisors = [count for count in range(1, self.tile_columns + 1) if self.tile_columns % count == 0]
        return max(count for count in divisors if count <= max_tiles)

    def _emit_result_row_without_epilogue(self, block: ir.Expr, panel: ir.Expr, tile_row: ir.Expr) -> Stmt:
        """Emits the result transform of a row of tiles, which stores directly to the convolution's result.

        There must be no epilogue, and all tiles must be inside the image.

        Args:
            block: the index of the task's block of rows of tiles.
            panel: the index of the block of output channels.
            tile_row: the index of the row of tiles in the block.
        """
        convolution = self.conv.convolution

        def result_item(tile: int, row: int, column_in_tile: int, lane: ir.Expr) -> TensorLoad:
            """Returns the element of the result for an element of a tile."""
            column = index(tile * self.transforms.size + column_in_tile)
            axis_indices = self._axis_indices_of_result(block, panel, tile_row, index(row), column, lane)
            return emit.load(convolution.buffer, [axis_indices[axis.var] for axis in convolution.spatial])

        def transform_channels(channels: int) -> Stmt:
            """Emits the result transform of some channels of the panel."""
            return self._emit_result_transform(tile_row, index(0), result_item, self.tile_columns, channels)

        return self._emit_whole_or_last_panel(panel, transform_channels)

    def _emit_tile_with_epilogue(self, block: ir.Expr, panel: ir.Expr, tile_row: ir.Expr, tile: ir.Expr) -> Stmt:
        """Emits the transform of one tile's sums in registers, followed by the epilogue on its results.

        This is used with few input channels, where a call of the transform's subroutine would cost a tenth of the time.

        Args:
            block: the index of the task's block of rows of tiles.
            panel: the index of the panel of output channels.
            tile_row: the index of the row of tiles in the block.
            tile: the index of the tile in the row.
        """
        image, first_row = self._image_and_first_row(block, tile_row)
        epilogue = Epilogue(self.conv.convolution, tuple(self.stores))

        def emit_vector(first_lane: ir.Expr, lanes: int) -> Stmt:
            """Emits the Winograd transform of one vector of the tile's channels, and the epilogue on the results."""

            def load_sum(row: ir.Expr, column_in_tile: ir.Expr, lane: ir.Expr) -> ir.Expr:
                """Loads the sum of products for an element of the tile."""
                tile_index = tile_row * self.tile_columns + tile
                position = row * self.transforms.side + column_in_tile
                return emit.load(self.sum_buffer, [tile_index, position, lane + first_lane])

            def store_result(row: ir.Expr, column_in_tile: ir.Expr, lane: ir.Expr, item: ir.Expr) -> Stmt:
                """Emits the epilogue on one result, if it is inside of the image."""
                column = tile * self.transforms.size + column_in_tile
                axis_indices = self._axis_indices_of_result(block, panel, tile_row, row, column, lane + first_lane)
                is_inside = self._is_inside_image(self._image_indices(image, first_row + row, column))
                return emit.sequence([emit.when(is_inside, epilogue.emit_stores(item, axis_indices))])

            return transform_tile(self.transforms.results, load_sum, store_result, lanes, "float32")

        return self._emit_whole_or_last_panel(panel, lambda extent: self._loop_over_vectors(extent, emit_vector))

    def _loop_over_vectors(self, channels: int, emit_vector: Callable[[ir.Expr, int], Stmt]) -> Stmt:
        """Emits `emit_vector(first_channel, lanes)` for all vectors of some channels.

        Full vectors are in a loop, which is less code than unrolled vectors. A shorter last vector follows.
        """
        full_vectors, remaining = divmod(channels, self.lanes)
        statements: list[Stmt | None] = []
        if full_vectors:
            statements.append(emit.loop(full_vectors, lambda vector: emit_vector(vector * self.lanes, self.lanes)))
        if remaining:
            statements.append(emit_vector(index(full_vectors * self.lanes), remaining))
        return emit.sequence(statements)

    def _emit_tiles_with_epilogue(
        self, block: ir.Expr, panel: ir.Expr, tile_row: ir.Expr, first_tile: ir.Expr, tiles: int
    ) -> Stmt:
        """Emits the result transform of some tiles of a row into a buffer, followed by the epilogue on its elements."""
        size = self.transforms.size
        buffer_columns = tiles * size
        results = emit.scratch([size, buffer_columns, self.tiling.width], "float32", "results")

        def destination(tile: int, row: int, column_in_tile: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(results, [index(row), index(tile * size + column_in_tile), lane])

        def store_vector(row_and_column: list[ir.Expr], first_lane: ir.Expr, lanes: int) -> Stmt:
            """Emits the epilogue on one vector of channels, at a row and column of the buffer of results."""
            row, buffer_column = row_and_column
            column = first_tile * size + buffer_column

            def result_item(lane: ir.Expr) -> TensorLoad:
                return emit.load(results, [row, buffer_column, lane])

            position = (block, panel, tile_row, row, column)
            return self._emit_epilogue_on_vector(result_item, position, first_lane, lanes)

        def emit_channels(channels: int) -> Stmt:
            """Emits the result transform of some channels of the panel, then the epilogue on each vector of results."""

            def store_vectors(row_and_column: list[ir.Expr]) -> Stmt:
                return self._loop_over_vectors(channels, partial(store_vector, row_and_column))

            transform = self._emit_result_transform(tile_row, first_tile, destination, tiles, channels)
            return emit.sequence([transform, emit.nest([size, buffer_columns], store_vectors)])

        return emit.sequence([emit.allocate(results), self._emit_whole_or_last_panel(panel, emit_channels)])

    def _emit_epilogue_on_vector(
        self,
        result_item: Callable[[ir.Expr], ir.Expr],
        position: tuple[ir.Expr, ir.Expr, ir.Expr, ir.Expr, ir.Expr],
        first_lane: ir.Expr,
        lanes: int,
    ) -> Stmt:
        """Emits the epilogue on one vector of transformed results, if it lies inside the image.

        Args:
            result_item: returns the transformed result at a lane (an output channel) of the panel.
            position: the indices of the block of rows of tiles, the panel, the row of tiles, the row in the tile, and the
                column of the image.
            first_lane: the vector's first lane in the panel.
            lanes: the number of lanes.
        """
        block, _panel, tile_row, row, column = position
        epilogue = Epilogue(self.conv.convolution, tuple(self.stores))

        def store_lane(lane: ir.Expr) -> Stmt:
            axis_indices = self._axis_indices_of_result(*position, lane + first_lane)
            return epilogue.emit_stores(result_item(lane + first_lane), axis_indices)

        image, first_row = self._image_and_first_row(block, tile_row)
        is_inside = self._is_inside_image(self._image_indices(image, first_row + row, column))
        return emit.sequence([emit.when(is_inside, emit.vectorized(lanes, store_lane))])

    def _emit_result_transform(
        self, tile_row: ir.Expr, first_tile: ir.Expr, destination: TileElement, tiles: int, channels: int
    ) -> Stmt:
        """Emits the inverse transform: sums of products in the transformed domain become results of the convolution.

        Args:
            tile_row: the index of the row of tiles.
            first_tile: the index of the first tile in the row.
            destination: returns the location to store an element at.
            tiles: the number of tiles.
            channels: the number of output channels.
        """

        def source(tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            """Returns the sum of products for an element of a tile."""
            tile_index = tile_row * self.tile_columns + first_tile + tile
            position = index(row * self.transforms.side + column)
            return emit.load(self.sum_buffer, [tile_index, position, lane])

        return self._emit_channel_transforms(
            self.transforms.results, source, destination, tiles, channels, source_is_scratch=True
        )

    def _axis_indices_of_result(
        self, block: ir.Expr, panel: ir.Expr, tile_row: ir.Expr, row: ir.Expr, column: ir.Expr, lane: ir.Expr
    ) -> AxisIndices:
        """Returns the index along each result axis for one result of a row of tiles.

        Args:
            block: the task's block of rows of tiles.
            panel: the block of output channels.
            tile_row: the row of tiles in the block.
            row: the row in the tile.
            column: the column of the image.
            lane: the output channel in the panel.
        """
        image, first_row = self._image_and_first_row(block, tile_row)
        image_indices = self._image_indices(image, first_row + row, column)
        return {**by_axis(image_axes(self.conv.convolution), image_indices), **self._result_indices(panel, lane)}

    @property
    def _tiles_exceed_image(self) -> bool:
        """Whether the last tiles reach beyond the image. Stores then need a bounds check."""
        sizes = [tiles * self.transforms.size * self.dilation for tiles in (self.tile_rows, self.tile_columns)]
        return any(
            size > int(axis.extent) for size, axis in zip(sizes, image_axes(self.conv.convolution)[-2:], strict=True)
        )

    def _is_inside_image(self, indices: list[ir.Expr]) -> ir.Expr | bool:
        """Returns the condition that an element of a tile lies in the image, or True if all tiles lie inside."""
        extents = image_axes(self.conv.convolution)[-2:]
        axes = zip(indices[-2:], extents, (self.tile_rows, self.tile_columns), strict=True)
        size = self.transforms.size * self.dilation
        bounds = [index_value < axis.extent for index_value, axis, tiles in axes if tiles * size > int(axis.extent)]
        return tirx.all(*bounds) if bounds else True


def _at_lane(item: TileElement, lane: ir.Expr, tile: int, row: int, column: int) -> TensorLoad:
    """Returns an element of a tile at a lane; the lane is one of the first parameters, which `partial` can bind."""
    return item(tile, row, column, lane)
