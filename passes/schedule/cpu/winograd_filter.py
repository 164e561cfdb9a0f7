"""Filter gradients of convolutions with 3 by 3 or 5 by 5 windows by Winograd's method: 1/4 or 9/25 of the products.

What a tile of cotangents adds to a filter is a convolution with windows of the tile's size; its transforms are those of
the convolution, transposed. Inputs and cotangents of all tiles are transformed, or of as many as the caches hold. Each
position of a tile is a matrix product over tiles, and the sums are transformed once, at the end. Dilated windows,
volumes and groups are handled as in `winograd`: by phases, by planes with the channels of all planes of a window, and
each group by itself.

With normally distributed operands, gradients for windows of five are within 4e-5 of their standard deviation from exact
ones. 64 channels of 32x32 take 740 us instead of 1,250 on two cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.band_copy import emit_band_copy
from tvtf.passes.schedule.cpu.combiner import combiner
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, by_axis, substitute, variables
from tvtf.passes.schedule.cpu.merged_loops import on_same_axes
from tvtf.passes.schedule.cpu.parallel_threshold import emit_parallel_or_serial
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tasks import PlannedReduction, emit_tasks
from tvtf.passes.schedule.cpu.tile import Epilogue, Range
from tvtf.passes.schedule.cpu.tile_plan import plan_reduction
from tvtf.passes.schedule.cpu.winograd import (
    Operands,
    factors_of_sum,
    is_equal_index,
    is_only_reader,
    needed_share,
    positive_stride,
    shape_of_sizes,
    square_window_size,
)
from tvtf.passes.schedule.cpu.winograd_tiling import FLOAT32_BYTES, FilterTiling, Shape, fastest_filter_tiling
from tvtf.passes.schedule.cpu.winograd_transforms import Matrix, transform_and_store_tile, transform_tiles


@dataclass(frozen=True)
class WinogradFilter:
    """A convolution's filter gradient to be computed by Winograd's method, with its epilogue in `fused_stages`.

    `source` is the padded copy that makes its input, if nothing else reads that copy.
    """

    source: Stage | None
    fused_stages: tuple[Stage, ...]
    operands: Operands
    shape: Shape
    tiling: FilterTiling

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.fused_stages if self.source is None else (self.source, *self.fused_stages)


def as_winograd_filter(
    source: Stage | None,
    fused_stages: Sequence[Stage],
    later_stages: Sequence[Stage | Opaque],
    kernel: Kernel,
    target: CpuTarget,
) -> WinogradFilter | None:
    """Plans a convolution's filter gradient by Winograd's method; returns None if direct sums are about as fast.

    Args:
        source: the padded copy before the gradient, which is inlined if nothing else reads it.
        fused_stages: the gradient and its epilogue.
        later_stages: the stages after these.
        kernel: the kernel that the stages belong to.
        target: the CPU.
    """
    operands = _input_and_cotangent(fused_stages[0])
    shape = None if operands is None else _conv_shape(fused_stages[0], operands.dilation)
    if operands is None or shape is None or not _has_whole_vectors(fused_stages[0], shape, target.lanes(4)):
        return None
    tiling = fastest_filter_tiling(
        shape, target, 1.0 if operands.dilation == 1 else needed_share(fused_stages[0], source, target)
    )
    if tiling is None:
        return None
    if source is not None and not is_only_reader(source, fused_stages, later_stages, operands, kernel):
        source = None
    return WinogradFilter(source, tuple(fused_stages), operands, shape, tiling)


@dataclass(frozen=True)
class _FilterGradientAxes:
    """The roles of a filter gradient's axes: those of the filter, then the axes that are summed over.

    `plane_taps` and `planes` exist for volumes only: the third axis of the window and of the image.
    """

    plane_taps: tuple[Axis, ...]
    taps: tuple[Axis, Axis]
    channel: Axis
    group: Axis | None
    result: Axis
    image: Axis
    planes: tuple[Axis, ...]
    rows_and_columns: tuple[Axis, Axis]

    @staticmethod
    def of(stage: Stage) -> _FilterGradientAxes | None:
        """Assigns roles (taps, channels, rows, ...) to the axes of a stage that may be a convolution's filter gradient.

        Returns None if the stage has another number of axes than a filter gradient.
        """
        # The gradient for volumes has an additional axis of taps and of planes, and that for groups an additional
        # result axis. Grouped convolutions of volumes aren't supported.
        plane_axis_count = len(stage.reduce) - 3
        group_axis_count = len(stage.spatial) - len(stage.reduce) - 1
        if plane_axis_count not in (0, 1) or group_axis_count not in (0, 1) or (plane_axis_count and group_axis_count):
            return None
        *plane_taps, row_tap, column_tap, channel = stage.spatial[: 3 + plane_axis_count]
        image, *planes, row, column = stage.reduce
        return _FilterGradientAxes(
            plane_taps=tuple(plane_taps),
            taps=(row_tap, column_tap),
            channel=channel,
            group=stage.spatial[-2] if group_axis_count else None,
            result=stage.spatial[-1],
            image=image,
            planes=tuple(planes),
            rows_and_columns=(row, column),
        )

    def index_over_groups(self, axis: Axis) -> ir.Expr:
        """Returns the index of a channel, counted over all groups; `axis` is the axis of channels within a group."""
        return axis.var if self.group is None else self.group.var * axis.extent + axis.var


def _input_and_cotangent(stage: Stage) -> Operands | None:
    """Returns the loads of the input and the cotangent that a filter gradient multiplies, and the window's dilation.

    The input is loaded at `[image, row + row_tap * dilation, column + column_tap * dilation, channel]`, and the
    cotangent of the result at `[image, row, column, out_channel]`. Returns None if the stage isn't a filter gradient.
    """
    axes = _FilterGradientAxes.of(stage)
    factors = factors_of_sum(stage)
    if axes is None or factors is None:
        return None
    position_axes = (axes.image, *axes.planes, *axes.rows_and_columns)
    cotangent_indices = [*(axis.var for axis in position_axes), axes.index_over_groups(axes.result)]
    # Either factor may be the input.
    for input_load, cotangent_load in (factors, reversed(factors)):
        dilation = _window_dilation(input_load, axes)
        if dilation and _reads_at(cotangent_load, cotangent_indices):
            return Operands(input_load, cotangent_load, dilation)
    return None


def _window_dilation(load: TensorLoad, axes: _FilterGradientAxes) -> int | None:
    """Returns the dilation of the window that a filter gradient reads from the image, equal in both directions.

    Returns None if the load has indices of another form.
    """
    # There are indices of image, row, column and channel, and of the planes of a volume.
    if len(load.indices) != len(axes.planes) + 4:
        return None
    dilation = positive_stride(load.indices[-3], axes.taps[0].var)
    if dilation is None:
        return None
    plane_indices = list(load.indices[1:-3])
    row_and_column = [axis.var + tap.var * dilation for axis, tap in zip(axes.rows_and_columns, axes.taps, strict=True)]
    channel = axes.index_over_groups(axes.channel)
    is_window = _reads_at(load, [axes.image.var, *plane_indices, *row_and_column, channel])
    plane_vars = {axis.var for axis in (*axes.planes, *axes.plane_taps)}
    has_own_planes = all(variables(plane_index) <= plane_vars for plane_index in plane_indices)
    return dilation if is_window and has_own_planes else None


def _reads_at(load: TensorLoad, expected: Sequence[ir.Expr]) -> bool:
    """Returns whether a load has provably the expected indices."""
    return len(load.indices) == len(expected) and all(map(is_equal_index, load.indices, expected))


def _conv_shape(stage: Stage, dilation: int) -> Shape | None:
    """Returns the sizes of a convolution, from the stage that computes its filter gradient, or None if they aren't static.

    For volumes, each plane counts as an image, and the channels of all planes in a window as channels of one image.
    """
    axes = _FilterGradientAxes.of(stage)
    if axes is None:
        return None
    image_count = access.iteration_count((axes.image, *axes.planes))
    in_channels = access.iteration_count((*axes.plane_taps, axes.channel))
    height, width = (axis.size for axis in axes.rows_and_columns)
    group_count = 1 if axes.group is None else axes.group.size
    window = square_window_size(axes.taps)
    sizes = (image_count, height, width, in_channels, axes.result.size, group_count, window)
    return shape_of_sizes(sizes, dilation)


def _has_whole_vectors(stage: Stage, shape: Shape, lanes: int) -> bool:
    """Returns whether vectors of channels stay within one plane of a window and within one group."""
    axes = _FilterGradientAxes.of(stage)
    if axes is None or (not axes.plane_taps and shape.groups == 1):
        return True
    return (axes.channel.size or 1) % lanes == 0 and (shape.groups == 1 or shape.out_channels % lanes == 0)


def emit_winograd_filter(gradient: WinogradFilter, stored_buffers: set[Var], target: CpuTarget) -> Stmt:
    """Emits a convolution's filter gradient by Winograd's method.

    For each block of tiles, both operands are transformed, and their products are added to the sums. In the transformed
    domain, the products of all tiles are a few matrix products, with fewer multiplications than the sum over positions.

    Args:
        gradient: the filter gradient with its epilogue, and the tiling.
        stored_buffers: the results that must be stored in memory.
        target: the CPU.
    """
    fused_stages = tuple(on_same_axes(gradient.fused_stages))
    gradient = replace(gradient, fused_stages=fused_stages)
    stored_stages = [stage for stage in fused_stages if stage.buffer in stored_buffers]
    emitter = _FilterGradientEmitter(gradient, stored_stages, target)
    return emit_parallel_or_serial(gradient.stages, target, emitter.emit_nest)


@dataclass(frozen=True)
class _TransformedOperand:
    """An operand of a filter gradient (the input or the cotangent), and the memory for its transformed tiles.

    `item(position_in_image, first_channel, lane)` reads it; `buffer` holds transformed tiles as `[panel,
    position, tile and channel]`. A panel is a block of `panel_width` channels; `contiguous_channels` follow each other
    in memory: those of one plane.
    """

    item: Callable[[list[ir.Expr], int, ir.Expr], ir.Expr]
    matrices: tuple[Matrix, ...]
    channels: int
    contiguous_channels: int
    panel_width: int
    buffer: Var

    @property
    def tile_side(self) -> int:
        """The rows and columns of the operand that a tile reads."""
        return len(self.matrices[0][0])


class _FilterGradientEmitter:
    """Emits one convolution's filter gradient by Winograd's method."""

    def __init__(self, gradient: WinogradFilter, stores: list[Stage], target: CpuTarget) -> None:
        """Derives the numbers of tiles and panels from the tiling, and creates the scratch buffers.

        Args:
            gradient: the filter gradient and its tiling.
            stores: the gradient's stage and the elementwise stages that follow it.
            target: the CPU.
        """
        axes = _FilterGradientAxes.of(gradient.fused_stages[0])
        if axes is None:
            raise ValueError("emit_winograd_filter: expected the axes that as_winograd_filter accepted")
        self.gradient, self.stores, self.target = gradient, stores, target
        self.axes, self.dilation = axes, gradient.operands.dilation
        self.tiling, self.shape, self.transforms = gradient.tiling, gradient.shape, gradient.tiling.transforms
        self.lanes = target.lanes(FLOAT32_BYTES)
        # The rows and columns of tiles of an image.
        self.tile_rows = self.tiling.tiles(self.shape.height)
        self.tile_columns = self.tiling.tiles(self.shape.width)
        self.tiles_per_block = self.tiling.rows * self.tile_columns
        in_channels, out_channels = self.shape.in_channels, self.shape.out_channels
        self.panel_counts = [
            self.shape.groups,
            emit.ceil_div(in_channels, self.tiling.channels),
            emit.ceil_div(out_channels, self.tiling.results),
        ]
        self.input_operand = self._operand(
            gradient.operands.image,
            gradient.source,
            self.transforms.inputs,
            in_channels,
            self.tiling.channels,
            int(axes.channel.extent) if axes.plane_taps else None,
        )
        self.cotangent_operand = self._operand(
            gradient.operands.filter, None, self.transforms.filters, out_channels, self.tiling.results
        )
        self.is_local = self.tiling.is_local
        # Local sums are those of one panel.
        sum_panels = [1, 1, 1] if self.is_local else self.panel_counts
        panel_extents = [self.transforms.products, self.tiling.channels, self.tiling.results]
        self.sum_buffer = emit.scratch([*sum_panels, *panel_extents], "float32", "sums")

    def _operand(
        self,
        load: TensorLoad,
        source: Stage | None,
        matrices: tuple[Matrix, ...],
        channels: int,
        panel_width: int,
        contiguous_channels: int | None = None,
    ) -> _TransformedOperand:
        """Describes one operand of a filter gradient: its transforms, and a new buffer for its transformed tiles.

        Args:
            load: the load of the operand.
            source: the padded copy to inline.
            matrices: the operand's Winograd transform.
            channels: the operand's channels per group.
            panel_width: the channels per panel.
            contiguous_channels: the channels that are contiguous in memory; all by default.
        """
        extents = [int(extent) for extent in load.source.ty.shape[-3:-1]]
        tile_ends = [
            ((tiles - 1) * self.transforms.size + len(matrices[0][0])) * self.dilation
            for tiles in (self.tile_rows, self.tile_columns)
        ]

        def item(position_in_image: list[ir.Expr], first_channel: int, lane: ir.Expr) -> ir.Expr:
            """Returns an element of the operand, or zero outside of the image, where the last tiles may end.

            Args:
                position_in_image: the indices of image, row and column.
                first_channel: the first channel of a vector.
                lane: the lane of the channel in the vector.
            """
            indices = list(substitute(load, self._operand_indices(position_in_image, first_channel, lane)).indices)
            value = emit.load(load.source, indices) if source is None else source.at(indices)
            row_and_column = indices[-3:-1]
            bounds_checks = [
                position < extent for position, extent, end in zip(row_and_column, extents, tile_ends) if extent < end
            ]
            if not bounds_checks:
                return value
            return tirx.if_then_else(tirx.all(*bounds_checks), value, tirx.const(0, "float32"))

        # One vector of padding per position, so that the positions of a tile don't all map to one cache set.
        panel_items = self.tiles_per_block * panel_width + self.lanes
        all_channels = channels * self.shape.groups
        buffer = emit.scratch(
            [emit.ceil_div(all_channels, panel_width), self.transforms.products, panel_items], "float32", "transformed"
        )
        return _TransformedOperand(
            item, matrices, all_channels, contiguous_channels or all_channels, panel_width, buffer
        )

    def _operand_indices(
        self, position_in_image: list[ir.Expr], first_channel: int, lane: ir.Expr
    ) -> dict[Var, ir.Expr]:
        """Returns the value of each axis of the gradient at which an operand is read for an element of a tile.

        Planes of volumes and phases of dilated windows are treated as more images: the image index counts both. Groups,
        and the taps along a window's planes, are treated as more channels.

        Args:
            position_in_image: the image index, row and column.
            first_channel: the first channel of a vector; channels count groups and plane taps.
            lane: the element's channel, counted from the first.
        """
        axes = self.axes
        outer_axes = (self.axes.image, *self.axes.planes)
        *outer_indices, row_phase, column_phase = emit.unflatten(
            position_in_image[0], [*(axis.extent for axis in outer_axes), self.dilation, self.dilation]
        )
        plane_tap, channel_in_plane = (
            divmod(first_channel, int(axes.channel.extent)) if axes.plane_taps else (0, first_channel)
        )
        # The rows and columns include the taps, and the channels include the groups, so both axes stay at zero.
        zeros = [*axes.taps, *([] if axes.group is None else [axes.group])]
        return {
            **{axis.var: index(0) for axis in zeros},
            **{axis.var: index(plane_tap) for axis in axes.plane_taps},
            **by_axis(outer_axes, [*map(emit.simplified, outer_indices)]),
            axes.rows_and_columns[0].var: position_in_image[1] * self.dilation + row_phase,
            axes.rows_and_columns[1].var: position_in_image[2] * self.dilation + column_phase,
            axes.channel.var: lane + channel_in_plane,
            axes.result.var: lane + first_channel,
        }

    def emit_nest(self, parallel: bool) -> Stmt:
        """Emits the complete filter gradient as a loop over blocks of tiles.

        If sums are local to a task, the task computes the gradient of one panel (a block of input and output channels)
        at a time. Otherwise, the sums are set to zero first, all blocks add to them, and they are transformed at the
        end.
        """
        allocations = [emit.allocate(operand.buffer) for operand in (self.input_operand, self.cotangent_operand)]
        block_count = self.shape.images * self.tile_rows // self.tiling.rows
        blocks = emit.loop(block_count, lambda block: self._emit_block(block, parallel))
        if self.is_local:
            return emit.sequence([*allocations, blocks])

        def emit_panel_results(panel: list[ir.Expr]) -> Stmt:
            """Emits the transform of a panel's sums, which are at the panel's indices in the buffer."""
            return self._emit_results(panel, sums_at=panel)

        zero_sums = self._emit_zero_sums(parallel)
        results = emit.fused_loops(self.panel_counts, emit_panel_results, parallel)
        return emit.sequence([*allocations, emit.allocate(self.sum_buffer), zero_sums, blocks, results])

    def _emit_zero_sums(self, parallel: bool) -> Stmt:
        """Emits a loop nest that sets the sums of all panels (blocks of input and output channels) to zero.

        Each block of tiles adds to them.
        """
        zero = tirx.const(0, "float32")

        def clear_channel(indices: list[ir.Expr]) -> Stmt:
            """Emits zeros for all results of one panel, position and input channel, in vectors."""

            def clear_lane(first_result: int, lane: ir.Expr) -> Stmt:
                return emit.store(self.sum_buffer, zero, [*indices, lane + first_result])

            return self._loop_over_vectors(self.tiling.results, clear_lane)

        extents = [*self.panel_counts, self.transforms.products, self.tiling.channels]
        return emit.fused_loops(extents, clear_channel, parallel)

    def _loop_over_vectors(self, extent: int, body: Callable[[int, ir.Expr], Stmt]) -> Stmt:
        """Emits `body(start, lane)` for [0, extent) in vectors; the last vector may be shorter."""

        def vector(start: int, lanes: int) -> Stmt:
            return emit.vectorized(lanes, lambda lane: body(start, lane))

        return emit.sequence([vector(*span) for span in emit.vector_spans(extent, self.lanes)])

    def _emit_block(self, block: ir.Expr, parallel: bool) -> Stmt:
        """Emits one block of tiles: the transforms of both operands, then products of the transformed operands.

        There is a matrix product for each panel (a block of input and output channels) and each position in a
        transformed tile. If sums are local to a task, one task computes a full panel: the products of all positions and
        the results. Otherwise each product is a task.
        """

        def transform_rows(operand: _TransformedOperand) -> Stmt:
            """Emits the transforms of an operand's rows of tiles in the block."""

            def transform_row(indices: list[ir.Expr]) -> Stmt:
                (tile_row,) = indices
                return self._emit_row_transform(operand, block, tile_row=tile_row)

            return emit.fused_loops([self.tiling.rows], transform_row, parallel)

        def emit_product(indices: list[ir.Expr]) -> Stmt:
            """Emits the matrix product of one panel and position."""
            *panel, position = indices
            return self._emit_product(panel, sums_at=panel, position=position)

        transforms = [transform_rows(operand) for operand in (self.input_operand, self.cotangent_operand)]
        if self.is_local:
            products = emit.fused_loops(self.panel_counts, self._emit_panel, parallel)
        else:
            products = emit.fused_loops([*self.panel_counts, self.transforms.products], emit_product, parallel)
        return emit.sequence([*transforms, products])

    def _emit_row_transform(self, operand: _TransformedOperand, block: ir.Expr, tile_row: ir.Expr) -> Stmt:
        """Emits the transform of one row of an operand's tiles.

        The band that these tiles read is copied first, with zeros where a tile reaches beyond the image. Transforms
        read full tiles.
        """
        tile_row_index = block * self.tiling.rows + tile_row
        image = tirx.floordiv(tile_row_index, index(self.tile_rows))
        top = tirx.floormod(tile_row_index, index(self.tile_rows)) * self.transforms.size
        width = (self.tile_columns - 1) * self.transforms.size + operand.tile_side
        band = emit.scratch([operand.tile_side, width, operand.channels], "float32", "band")

        def copy_channels(first_channel: int, channels: int) -> Stmt:
            """Emits the copy of some channels, which are contiguous in the operand, into the band (rows of one image).

            The band has zeros in place of the border, and is in the cache when its tiles are transformed.
            """

            def band_item(position: Sequence[ir.Expr]) -> TensorLoad:
                """Returns the element of the band at a position."""
                row, column, channel = position
                return emit.load(band, [row, column, channel + first_channel])

            def image_item(position: Sequence[ir.Expr]) -> ir.Expr:
                """Returns the element of the operand at a position in the band."""
                row, column, channel = position
                position_in_image = [emit.simplified(image), emit.simplified(top + row), column]
                return operand.item(position_in_image, first_channel, channel)

            return emit_band_copy(band_item, image_item, [operand.tile_side, width, channels], self.lanes)

        copy = emit.sequence(
            [copy_channels(*span) for span in emit.vector_spans(operand.channels, operand.contiguous_channels)]
        )
        return emit.sequence([emit.allocate(band), copy, self._emit_channel_transforms(operand, band, tile_row)])

    def _emit_channel_transforms(self, operand: _TransformedOperand, band: Var, tile_row: ir.Expr) -> Stmt:
        """Emits the transform of all channels of a row of tiles, panel by panel; the last panel may be narrower."""
        size = self.transforms.size

        def transform(panel: ir.Expr, channels: int, lanes: int, start: int = 0) -> Stmt:
            """Emits the Winograd transform of ``channels`` of a panel (a block of channels), starting at ``start``."""
            first_channel = panel * operand.panel_width + start
            first_item = tile_row * self.tile_columns * operand.panel_width + start

            def band_item(tile: int, row: int, column: int) -> ir.Expr:
                """Returns the element of the band for an element of a tile."""
                return emit.load(band, [index(row), index(tile * size + column), first_channel])

            def transformed_item(tile: int, row: int, column: int) -> ir.Expr:
                """Returns the location of an element of a transformed tile."""
                position = index(row * self.transforms.side + column)
                return emit.load(operand.buffer, [panel, position, first_item + tile * operand.panel_width])

            tiles_and_vectors = self.tile_columns, channels // lanes
            return transform_tiles(operand.matrices, band_item, transformed_item, tiles_and_vectors, lanes, "float32")

        panels, last_channels = divmod(operand.channels, operand.panel_width)
        in_whole_vectors = last_channels // self.lanes * self.lanes
        remaining = last_channels % self.lanes
        return emit.sequence([
            emit.loop(panels, lambda panel: transform(panel, operand.panel_width, self.lanes)) if panels else None,
            transform(index(panels), in_whole_vectors, self.lanes) if in_whole_vectors else None,
            transform(index(panels), remaining, remaining, in_whole_vectors) if remaining else None,
        ])  # fmt: skip

    def _emit_panel(self, panel: list[ir.Expr]) -> Stmt:
        """Emits one panel of the filter gradient, whose sums stay in the level-2 cache of one core."""
        zero = [index(0)] * len(panel)
        products = emit.loop(self.transforms.products, lambda position: self._emit_product(panel, zero, position))
        return emit.sequence([emit.allocate(self.sum_buffer), products, self._emit_results(panel, zero)])

    def _emit_product(self, panel: list[ir.Expr], sums_at: list[ir.Expr], position: ir.Expr) -> Stmt:
        """Emits the matrix product at one position of the tiles: (channels, tiles) times (tiles, results).

        `panel` is a panel's index along each axis of panels, `sums_at` the indices of its sums in the buffer.
        """
        sizes = [1, 1, 1, 1, self.tiling.channels, self.tiling.results, self.tiles_per_block]
        *outer_axes, channel, result, tile = (Axis(Var("at", "int64"), index(size)) for size in sizes)
        group, channel_panel, result_panel = panel
        _groups, channel_panels, result_panels = self.panel_counts
        input_panel = group * channel_panels + channel_panel
        cotangent_panel = group * result_panels + result_panel
        input_item = emit.load(
            self.input_operand.buffer, [input_panel, position, tile.var * self.tiling.channels + channel.var]
        )
        cotangent_item = emit.load(
            self.cotangent_operand.buffer, [cotangent_panel, position, tile.var * self.tiling.results + result.var]
        )
        spatial = (*outer_axes, channel, result)
        old_sum = emit.load(self.sum_buffer, [axis.var for axis in spatial])
        stage = Stage(
            self.sum_buffer, spatial, (tile,), tirx.const(0, "float32"), old_sum + input_item * cotangent_item
        )
        plan = plan_reduction(stage, self.target)
        if plan is None:
            raise ValueError("emit_winograd_filter: expected a plan for the matrix product of a panel")
        # Both operands were written in the order in which the tiles read them.
        plan = replace(plan, packed=(), padded=0)
        product = PlannedReduction(
            stage, (stage,), plan, combiner(stage), self.target, None if self.is_local else stage
        )
        fixed = dict(zip((axis.var for axis in outer_axes), [*sums_at, position], strict=True))
        return emit_tasks(product, [Range.whole(tile)], False, fixed)

    def _emit_results(self, panel: list[ir.Expr], sums_at: list[ir.Expr]) -> Stmt:
        """Emits the transform of a panel's sums into the filter gradient, and the epilogue on the gradient.

        The last panel may have fewer channels, and a last vector with fewer results.
        """
        _group, channel_panel, result_panel = panel
        channels = tirx.min(index(self.tiling.channels), self.shape.in_channels - channel_panel * self.tiling.channels)
        remaining_results = self.shape.out_channels - result_panel * self.tiling.results
        vectors = tirx.min(
            index(self.tiling.results // self.lanes), tirx.floordiv(remaining_results, index(self.lanes))
        )
        partial_vector = self.shape.out_channels % self.lanes

        def emit_channel(channel: ir.Expr) -> Stmt:
            """Emits all elements of the filter gradient for one input channel, in vectors of output channels."""

            def emit_vector(start: ir.Expr, lanes: int) -> Stmt:
                """Emits one vector of output channels of the gradient."""
                return self._emit_result_vector(panel, sums_at, channel, start, lanes)

            whole_vectors = emit.loop(
                emit.simplified(vectors), lambda number: emit_vector(number * self.lanes, self.lanes)
            )
            if not partial_vector:
                return whole_vectors
            is_last_panel = remaining_results < self.tiling.results
            last = emit.when(is_last_panel, emit_vector(vectors * self.lanes, partial_vector))
            return emit.sequence([whole_vectors, last])

        return emit.loop(emit.simplified(channels), emit_channel)

    def _emit_result_vector(
        self, panel: list[ir.Expr], sums_at: list[ir.Expr], channel: ir.Expr, first_lane: ir.Expr, lanes: int
    ) -> Stmt:
        """Emits the transform of one vector of an input channel's results, and the epilogue on each tap of a window.

        Args:
            panel: the indices of the group, of the panel of input channels, and of the panel of output channels.
            sums_at: the indices of the panel's sums in their buffer.
            channel: the input channel, counted from the panel's first.
            first_lane: the vector's first output channel, counted from the panel's first.
            lanes: the number of output channels in the vector.
        """
        gradient = self.gradient.fused_stages[0]
        epilogue = Epilogue(gradient, tuple(self.stores))

        def source(_tile: int, row: int, column: int) -> TensorLoad:
            position = index(row * self.transforms.side + column)
            return emit.load(self.sum_buffer, [*sums_at, position, channel, first_lane])

        def store_result(row: ir.Expr, column: ir.Expr, lane: ir.Expr, item: ir.Expr) -> Stmt:
            """Emits the epilogue on one element of the filter gradient. The epilogue stores the element.

            Args:
                row: the row of the tap in the window.
                column: the column of the tap in the window.
                lane: the lane of the vector of output channels.
                item: the element.
            """
            group, channel_panel, result_panel = panel
            # Input channels are counted over all planes of a window.
            channel_over_planes = channel_panel * self.tiling.channels + channel
            channel_extents = [axis.extent for axis in (*self.axes.plane_taps, self.axes.channel)]
            *plane_taps, in_channel = emit.unflatten(channel_over_planes, channel_extents)
            out_channel = result_panel * self.tiling.results + first_lane + lane
            group_index = [] if self.axes.group is None else [group]
            filter_indices = [*plane_taps, row, column, in_channel, *group_index, out_channel]
            axis_indices = by_axis(gradient.spatial, filter_indices)
            return epilogue.emit_stores(item, axis_indices)

        return transform_and_store_tile(self.transforms.results, source, store_result, lanes, "float32")
