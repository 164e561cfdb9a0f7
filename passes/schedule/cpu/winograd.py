"""Convolutions with 3 by 3 or 5 by 5 windows by Winograd's method: 1/4, 4/9 or 9/25 of the products, in float32.

Images are cut into square tiles of results. A task takes a few rows of tiles: it transforms their inputs, multiplies
them by the transformed filter as one matrix product for each place in a tile, and transforms the products into
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
from tvtf.passes.schedule.cpu.band_copy import copied_band
from tvtf.passes.schedule.cpu.border_clips import with_clips
from tvtf.passes.schedule.cpu.combiner import is_zero
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import Axis, Kernel, Opaque, Stage, reads, substitute, variables
from tvtf.passes.schedule.cpu.loop_box import on_same_axes
from tvtf.passes.schedule.cpu.pack import packed
from tvtf.passes.schedule.cpu.parallel_threshold import is_parallel
from tvtf.passes.schedule.cpu.product_tile import FEWEST_TERMS
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile import Finish
from tvtf.passes.schedule.cpu.tile_plan import Packing, Plan
from tvtf.passes.schedule.cpu.vector_axis import terms_of
from tvtf.passes.schedule.cpu.winograd_cuts import Cut, Shape, best_cut
from tvtf.passes.schedule.cpu.winograd_products import Products
from tvtf.passes.schedule.cpu.winograd_transforms import (
    BY_WINDOW,
    Matrix,
    transformed_square,
    transformed_squares,
)

BYTES = 4
"""Of a float32."""
Item = Callable[[int, int, int, ir.Expr], TensorLoad]
"""An item of a square, by tile, row, column and lane."""


@dataclass(frozen=True)
class Operands:
    """The factors: the image at `[n, y + ky * dilation, x + kx * dilation, c]`, and the filter, which no place changes.

    For volumes, the image is at `[n, plane, ...]`, with a plane for each `z` and `kz`.
    """

    image: TensorLoad
    filter: TensorLoad
    dilation: int = 1


@dataclass(frozen=True)
class Winograd:
    """A convolution with its epilogue, and the stage (a padded copy) that makes its input and has no other reader."""

    source: Stage | None
    rest: tuple[Stage, ...]
    operands: Operands
    cut: Cut

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.rest if self.source is None else (self.source, *self.rest)

    @property
    def first(self) -> Stage:
        return self.rest[0]


# -- recognition


def as_winograd(
    source: Stage | None, rest: Sequence[Stage], later: Sequence[Stage | Opaque], kernel: Kernel, target: CpuTarget
) -> Winograd | None:
    """Returns a stage as Winograd's convolution, if that is faster; `source` is inlined if nothing else reads it."""
    operands = _operands(rest[0])
    shape = None if operands is None else _shape(rest[0], operands.dilation)
    # With planes or groups, vectors of channels must not cross from one to the next.
    parts = len(rest[0].reduce) > 3 or (shape is not None and shape.groups > 1)
    if operands is None or shape is None or (parts and (rest[0].reduce[-1].size or 1) % target.lanes(4)):
        return None
    needed = 1.0 if operands.dilation == 1 else needed_part(rest[0], source, target)
    cut = best_cut(shape, _is_constant(operands, rest[0]), target, needed)
    if cut is None:
        return None
    if source is not None and not feeds_only(source, rest, later, operands, kernel):
        source = None
    return Winograd(source, tuple(rest), operands, cut)


def _operands(stage: Stage) -> Operands | None:
    """Returns the factors of a sum of products over a square window and channels, in steps of one; else None."""
    if (len(stage.spatial), len(stage.reduce)) not in ((4, 3), (5, 4), (5, 3)) or stage.dtype != "float32":
        return None
    item, terms = stage.value, terms_of(stage)
    if not isinstance(item, tirx.Add) or not isinstance(item.b, tirx.Mul) or len(terms) != 2:
        return None
    if not isinstance(item.b.a, TensorLoad) or not isinstance(item.b.b, TensorLoad) or not is_zero(stage.init):
        return None
    for image, factor in (terms, reversed(terms)):
        dilation = _dilation(image, stage)
        if dilation and not variables(_place(factor)) & {axis.var for axis in places_of(stage)}:
            return Operands(image, factor, dilation)
    return None


def group_of(stage: Stage) -> Axis | None:
    """Returns the axis of groups, which has no counterpart among the reduction axes."""
    return stage.spatial[-2] if len(stage.spatial) > len(stage.reduce) + 1 else None


def places_of(stage: Stage) -> tuple[Axis, ...]:
    """Returns the axes of images, planes of volumes, rows and columns."""
    return stage.spatial[: len(stage.reduce)]


def _place(load: TensorLoad) -> ir.Expr:
    return access.flat_offset(load.source, list(load.indices))


def _dilation(load: TensorLoad, stage: Stage) -> int | None:
    """Returns the distance of the window's taps, equal in both directions; None if the load has another form."""
    image, *deep, down, right = (axis.var for axis in places_of(stage))
    *steps_deep, step_down, step_right, _channel = (axis.var for axis in stage.reduce)
    if len(load.indices) != len(stage.reduce) + 1 or window_of(stage.reduce[-3:-1]) is None:
        return None
    stride = access.stride(load.indices[-3], step_down)
    by = None if stride is None else emit.static(stride)
    if by is None or by < 1:
        return None
    planes = list(load.indices[1:-3])
    expected = [image, *planes, down + step_down * by, right + step_right * by, channel_of(stage)]
    is_window = all(map(is_same, load.indices, expected)) and all(
        variables(at) <= {*deep, *steps_deep} for at in planes
    )
    return by if is_window else None


def window_of(taps: Sequence[Axis]) -> int | None:
    """Returns the size of a square window that has transforms, else None."""
    first, second = (axis.size for axis in taps)
    return first if first is not None and first == second and first in BY_WINDOW else None


def channel_of(stage: Stage) -> ir.Expr:
    """Returns the channel of an image that a term reads."""
    group, channel = group_of(stage), stage.reduce[-1]
    return channel.var if group is None else group.var * channel.extent + channel.var


def needed_part(stage: Stage, source: Stage | None, target: CpuTarget) -> float:
    """Returns the share of products that direct sums need: they leave out the border."""
    clips = () if source is None else with_clips(stage, [source], target).clips
    return prod(1 - clip.saved(1) for clip in clips)


def is_same(left: ir.Expr, right: ir.Expr) -> bool:
    return emit.static(emit.simplified(left - right)) == 0


def _shape(stage: Stage, dilation: int) -> Shape | None:
    *outer, down, right = places_of(stage)
    group = group_of(stage)
    images, channels = access.points(tuple(outer)), access.points((*stage.reduce[:-3], stage.reduce[-1]))
    groups, results, window = 1 if group is None else group.size, stage.spatial[-1].size, window_of(stage.reduce[-3:-1])
    return known_shape((images, down.size, right.size, channels, results, groups, window), dilation)


def known_shape(sizes: Sequence[int | None], dilation: int) -> Shape | None:
    """Returns a shape from its sizes in order, with images split into phases; None if one isn't static."""
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return None
    images, height, width, *rest = known
    return Shape(images * dilation**2, -(-height // dilation), -(-width // dilation), *rest)


def _is_constant(operands: Operands, stage: Stage) -> bool:
    return operands.filter.source in stage.constants


def feeds_only(
    source: Stage, rest: Sequence[Stage], later: Sequence[Stage | Opaque], operands: Operands, kernel: Kernel
) -> bool:
    if source.reduce or not kernel.is_local(source.buffer) or not operands.image.source.same_as(source.buffer):
        return False
    readers = [*rest[1:], *later]
    return not any(reads(reader, source.buffer) for reader in readers)


# -- writing


def emit_winograd(group: Winograd, needed: set[Var], target: CpuTarget) -> Stmt:
    """Transforms the filter once, then writes one parallel loop over the tasks."""
    group = replace(group, rest=tuple(on_same_axes(group.rest)))
    writer = _Writer(group, [stage for stage in group.rest if stage.buffer in needed], target)
    return is_parallel(group.stages, target, writer.write)


class _Writer:
    """Writes one convolution. Below, `place` counts a tile's products, `number` its tiles in a task."""

    def __init__(self, group: Winograd, stores: list[Stage], target: CpuTarget) -> None:
        self.dilation = group.operands.dilation
        shape = _shape(group.first, self.dilation)
        if shape is None:
            raise ValueError("emit_winograd: expected the known sizes that as_winograd accepted")
        self.group, self.stores, self.target, self.shape = group, stores, target, shape
        self.cut, self.transforms, self.lanes = group.cut, group.cut.transforms, target.lanes(4)
        self.down, self.right = self.cut.tiles(shape.height), self.cut.tiles(shape.width)
        self.tiles = self.cut.rows * self.right
        panels = self.cut.panels(shape)
        channels, width, products = shape.channels, self.cut.width, self.transforms.products
        self.panels, self.panels_a_group = panels // self.cut.groups, panels // shape.groups
        self.channels = channels * shape.groups
        # Channels of one step of the axes outside of the window follow each other in the input.
        self.channels_of_step = int(group.first.reduce[-1].extent) * shape.groups
        self.whole_panels = shape.results // self.cut.width
        # One row or vector of padding, so that the items of a window or tile don't all map to one cache set.
        filter_extents = (1, self.cut.block) if self.cut.block else (panels, channels)
        self.filter = emit.scratch([filter_extents[0], products, filter_extents[1] + 1, width], "float32", "filters")
        self.inputs = emit.scratch([self.tiles, products, self.channels + self.lanes], "float32", "inputs")
        self.sums = emit.scratch([self.tiles, products, width + self.lanes], "float32", "sums")
        self.band = emit.scratch(
            [self.transforms.side, self.right * self.transforms.size + shape.window - 1, self.channels],
            "float32",
            "band",
        )

    def write(self, parallel: bool) -> Stmt:
        """Writes everything: by panels of all tiles if the cut has blocks, else by rows of tiles.

        With blocks, every task reads the inputs of all tiles, which are therefore transformed first.
        """
        blocks = self.shape.images * self.down // self.cut.rows
        load, transposed = self._transposed_filter(parallel)
        if self.cut.block:
            row = partial(self._inputs, index(0))
            return emit.sequence([
                emit.allocate(self.inputs),
                *transposed,
                emit.fused([self.tiles // self.right], lambda at: self._allocated(self.band, row(at[0])), parallel),
                emit.fused([self.cut.groups], lambda at: self._blocks(load, at[0]), parallel),
            ])  # fmt: skip
        return emit.sequence([
            emit.allocate(self.filter),
            *transposed,
            self._filters(load, parallel),
            emit.fused([blocks, self.cut.groups], lambda places: self._task(*places), parallel),
        ])  # fmt: skip

    def _transposed_filter(self, parallel: bool) -> tuple[TensorLoad, list[Stmt]]:
        """Returns the filter with results along vectors, and the statements that transpose it, if needed.

        Transforms run along vectors of results.
        """
        stage, filter_load = self.group.first, self.group.operands.filter
        if access.load_stride(filter_load, stage.spatial[-1].var) == 1:
            return filter_load, []
        packing = Packing(filter_load, stage.spatial[-1], self.cut.width)
        plan = Plan(stage.spatial[-1], False, self.lanes, self.cut.width // self.lanes, packed=(packing,))
        copied, statements = packed(stage, plan, self.target, parallel)
        return next(
            term for term in terms_of(copied) if not term.source.same_as(self.group.operands.image.source)
        ), statements

    def _filters(self, load: TensorLoad, parallel: bool) -> Stmt:
        """Writes the transformed filter, panel by panel."""
        extents = [self.cut.panels(self.shape), self.shape.channels]
        return emit.fused(extents, lambda at: self._window(load, at[0], at[1], at), parallel)

    def _window(self, load: TensorLoad, panel: ir.Expr, number: ir.Expr, target_place: Sequence[ir.Expr]) -> Stmt:
        """Transforms the window of one channel and a panel of results into its place.

        Vectors run along results, as in the matrix products that follow.
        """
        *deep, down, right, channel = self.group.first.reduce
        steps = [channel.extent] if not deep else [deep[0].extent, channel.extent]

        def read(_tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            places = zip((*deep, channel), emit.unflatten(number, steps), strict=True)
            point = {down.var: index(row), right.var: index(column), **{axis.var: place for axis, place in places}}
            return substitute(load, {**point, **self._result(panel, lane)})

        def write(_tile: int, row: int, column: int, lane: ir.Expr) -> TensorLoad:
            place = row * self.transforms.side + column
            return emit.load(self.filter, [target_place[0], index(place), target_place[1], lane])

        return self._in_panel(
            panel, partial(self._along, self.transforms.filters, read, write, 1), self._empty(*target_place)
        )

    def _blocks(self, load: TensorLoad, panel: ir.Expr) -> Stmt:
        """Sums a panel of results of all tiles, block by block of channels."""
        zero, size = tirx.const(0, "float32"), self.cut.block
        vectors = [self.tiles, self.transforms.products, self.cut.width // self.lanes]

        def cleared(places: list[ir.Expr]) -> Stmt:
            tile, place, vector = places
            at = vector * self.lanes
            return emit.vectorized(self.lanes, lambda lane: emit.store(self.sums, zero, [tile, place, at + lane]))

        def block(number: ir.Expr) -> Stmt:
            first = number * size
            # The filter is transformed block by block, just before it is used, so that it stays in the cache.
            windows = emit.loop(size, lambda at: self._window(load, panel, first + at, [index(0), at]))
            return emit.sequence([windows, self._products(panel, first)])

        rows = emit.loop(self.cut.rows, lambda row: self._results(index(0), panel, row))
        blocks = emit.loop(self.shape.channels // size, block)
        return emit.sequence([*map(emit.allocate, (self.filter, self.sums)), emit.nest(vectors, cleared), blocks, rows])

    def _allocated(self, buffer: Var, body: Stmt) -> Stmt:
        return emit.sequence([emit.allocate(buffer), body])

    def _result(self, panel: ir.Expr, lane: ir.Expr) -> dict[Var, ir.Expr]:
        """Returns the group and the result that a lane of a panel stands for."""
        group, result = group_of(self.group.first), self.group.first.spatial[-1].var
        if group is None:
            return {result: panel * self.cut.width + lane}
        return {group.var: self._group(panel), result: self._number_in_group(panel) * self.cut.width + lane}

    def _group(self, panel: ir.Expr) -> ir.Expr:
        return emit.simplified(tirx.floordiv(panel, index(self.panels_a_group)))

    def _number_in_group(self, panel: ir.Expr) -> ir.Expr:
        """Returns a panel's number in its group."""
        return panel if self.shape.groups == 1 else emit.simplified(tirx.floormod(panel, index(self.panels_a_group)))

    def _in_panel(self, panel: ir.Expr, along: Callable[[int], Stmt], beyond: Stmt | None = None) -> Stmt:
        """Writes ``along(results)`` for a panel; the last may be short, and `beyond` fills the rest."""
        rest = self.shape.results - self.whole_panels * self.cut.width
        full = along(self.cut.width)
        if not rest:
            return full
        short = emit.sequence([along(rest), beyond])
        return emit.when(emit.simplified(self._number_in_group(panel) < self.whole_panels), full, short) or full

    def _empty(self, panel: ir.Expr, channel: ir.Expr) -> Stmt | None:
        """Writes zeros for the results that a last panel doesn't have: they are summed, though never stored."""
        rest = self.shape.results - self.whole_panels * self.cut.width
        if not rest:
            return None
        zero, count = tirx.const(0, "float32"), self.cut.width - rest

        def row(place: ir.Expr) -> Stmt:
            return emit.vectorized(
                count, lambda lane: emit.store(self.filter, zero, [panel, place, channel, lane + rest])
            )

        return emit.loop(self.transforms.products, row)

    def _along(
        self,
        matrices: tuple[Matrix, ...],
        read: Item,
        write: Item,
        tiles: int,
        extent: int,
        source_is_scratch: bool = False,
    ) -> Stmt:
        """Transforms squares of vectors of some tiles along a whole number of items."""

        def squares(start: int, vectors: int, lanes: int) -> Stmt:
            """Transforms ``vectors`` times ``lanes`` channels, from ``start`` on."""
            places = [partial(_at_lane, item, index(start)) for item in (read, write)]
            return transformed_squares(
                matrices, places[0], places[1], (tiles, vectors), lanes, "float32", source_is_scratch
            )

        whole_vectors, rest = divmod(extent, self.lanes)
        main = squares(0, whole_vectors, self.lanes) if whole_vectors else None
        return emit.sequence([main, squares(whole_vectors * self.lanes, 1, rest) if rest else None])

    def _task(self, block: ir.Expr, part: ir.Expr) -> Stmt:
        """Writes one task: transform the inputs of its rows of tiles, then compute its panels."""
        panels = emit.loop(self.panels, lambda number: self._panel(block, part * self.panels + number))
        rows = emit.loop(self.cut.rows, lambda row: self._inputs(block, row))
        return emit.sequence([*map(emit.allocate, (self.band, self.inputs, self.sums)), rows, panels])

    def _place(self, block: ir.Expr, row: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Returns the image of a row of tiles, and the row's first row of results."""
        number = block * self.cut.rows + row
        image, down = tirx.floordiv(number, index(self.down)), tirx.floormod(number, index(self.down))
        return emit.simplified(image), emit.simplified(down * self.transforms.size)

    def _inputs(self, block: ir.Expr, row: ir.Expr) -> Stmt:
        """Copies what a row of tiles reads, with zeros around it, and transforms it.

        The transform reads the copy without tests.
        """
        image, top = self._place(block, row)
        size, side = self.transforms.size, self.transforms.side
        height, width = (int(extent) for extent in self.band.ty.shape[:2])

        def copied(first: int, channels: int) -> Stmt:
            """Copies some channels, which follow each other in the input."""
            return copied_band(
                lambda at: emit.load(self.band, [at[0], at[1], at[2] + first]),
                lambda at: self._input(image, top + at[0], at[1], first, at[2]),
                [height, width, channels],
                self.lanes,
            )

        def read(tile: int, down: int, right: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(self.band, [index(down), index(tile * size + right), lane])

        def write(tile: int, down: int, right: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(self.inputs, [row * self.right + tile, index(down * side + right), lane])

        copy = emit.sequence([copied(*block) for block in emit.vector_spans(self.channels, self.channels_of_step)])
        return emit.sequence([copy, self._along(self.transforms.inputs, read, write, self.right, self.channels)])

    def _input(self, number: ir.Expr, down: ir.Expr, right: ir.Expr, start: int, lane: ir.Expr) -> ir.Expr:
        """Returns an item of the convolution's input; zero where the last tiles reach beyond it."""
        source, stage, load = self.group.source, self.group.first, self.group.operands.image
        *deep, step_down, step_right, channel = stage.reduce
        # Channels are numbered over all steps of the axes outside of the window.
        step, first = divmod(start, self.channels_of_step)
        point = {axis.var: at for axis, at in zip(places_of(stage), self._in_image(number, down, right))}
        point.update({axis.var: index(0) for axis in [group_of(stage)] if axis is not None})
        point.update({axis.var: index(step) for axis in deep})
        point.update({step_down.var: index(0), step_right.var: index(0), channel.var: lane + first})
        place = list(substitute(load, point).indices)
        value = emit.load(load.source, place) if source is None else source.at(place)
        extents = list(load.source.ty.shape)[-3:-1]
        size, more = self.transforms.size, self.shape.window - 1
        # A test is needed only along axes on which whole tiles are larger than the input.
        sizes = [(count * size + more) * self.dilation for count in (self.down, self.right)]
        tests = [at < extent for at, extent, size in zip(place[-3:-1], extents, sizes) if int(extent) < size]
        return tirx.if_then_else(tirx.all(*tests), value, tirx.const(0, "float32")) if tests else value

    def _in_image(self, number: ir.Expr, down: ir.Expr, right: ir.Expr) -> list[ir.Expr]:
        """Converts a place of one plane and phase of an image to a place among all."""
        outer = [axis.extent for axis in places_of(self.group.first)[:-2]]
        *image, first, start = emit.unflatten(number, [*outer, self.dilation, self.dilation])
        return [*image, down * self.dilation + first, right * self.dilation + start]

    def _panel(self, block: ir.Expr, panel: ir.Expr) -> Stmt:
        """Writes a panel of results: the products of all places, then the results of all tiles."""
        rows = emit.loop(self.cut.rows, lambda row: self._results(block, panel, row))
        return emit.sequence([self._products(panel), rows])

    def _products(self, panel: ir.Expr, first: ir.Expr | None = None) -> Stmt:
        """Writes a panel's products; with `first`, those of a block of channels from there are added to the sums."""
        block = self.cut.block or self.shape.channels
        products = Products(self.sums, self.inputs, self.filter, block, self.cut.width, is_added=first is not None)
        start = index(0) if first is None else first
        start = self._group(panel) * self.shape.channels + start if self.shape.groups > 1 else start
        return products.write(panel if first is None else index(0), start, self.target)

    def _results(self, block: ir.Expr, panel: ir.Expr, row: ir.Expr) -> Stmt:
        """Writes the results of a row of tiles, and the epilogue on those that are in the image."""
        if len(self.stores) == 1 and self.stores[0] is self.group.first and not self._reaches_beyond:
            return self._stored_results(block, panel, row)
        if self.shape.channels < FEWEST_TERMS:
            return emit.loop(self.right, lambda number: self._tile_results(block, panel, row, number))
        count = self._tiles_at_once
        return emit.loop(self.right // count, lambda part: self._ended_results(block, panel, row, part * count, count))

    @property
    def _tiles_at_once(self) -> int:
        """Returns how many tiles, a divisor of a row's, have results that stay in the level-1 cache for the epilogue."""
        most = self.target.level1_bytes // 2 // (self.transforms.size**2 * self.cut.width * BYTES)
        return max(count for count in range(1, self.right + 1) if self.right % count == 0 and count <= max(1, most))

    def _stored_results(self, block: ir.Expr, panel: ir.Expr, row: ir.Expr) -> Stmt:
        """Transforms a row of tiles straight into the results."""
        first = self.group.first

        def stored(tile: int, down: int, right: int, lane: ir.Expr) -> TensorLoad:
            at = self._point(block, panel, row, index(down), index(tile * self.transforms.size + right), lane)
            return emit.load(first.buffer, [at[axis.var] for axis in first.spatial])

        return self._in_panel(panel, partial(self._transformed_results, row, index(0), stored, self.right))

    def _tile_results(self, block: ir.Expr, panel: ir.Expr, row: ir.Expr, number: ir.Expr) -> Stmt:
        """Transforms one tile in registers, with the epilogue: of few channels, a call would cost a tenth of the time."""
        size, (image, top) = self.transforms.size, self._place(block, row)
        finish = Finish(self.group.first, tuple(self.stores))

        def vector(start: ir.Expr, lanes: int) -> Stmt:
            def read(down: int, right: int, lane: ir.Expr) -> ir.Expr:
                place = index(down * self.transforms.side + right)
                return emit.load(self.sums, [row * self.right + number, place, lane + start])

            def write(down: int, right: int, lane: ir.Expr, item: ir.Expr) -> Stmt:
                column = number * size + right
                store = finish.at(item, self._point(block, panel, row, index(down), column, lane + start))
                inside = self._lies_inside(self._in_image(image, top + down, column))
                return emit.sequence([emit.when(inside, store)])

            return transformed_square(self.transforms.results, read, write, lanes, "float32")

        return self._in_panel(panel, lambda extent: self._vectors(extent, vector))

    def _vectors(self, extent: int, vector: Callable[[ir.Expr, int], Stmt]) -> Stmt:
        """Writes ``vector(start, lanes)`` for the whole vectors of a panel, and for a shorter last one."""
        whole, rest = divmod(extent, self.lanes)
        main = emit.loop(whole, lambda at: vector(at * self.lanes, self.lanes)) if whole else None
        return emit.sequence([main, vector(index(whole * self.lanes), rest) if rest else None])

    def _ended_results(self, block: ir.Expr, panel: ir.Expr, row: ir.Expr, start: ir.Expr, count: int) -> Stmt:
        """Transforms some tiles of a row, from ``start`` on, then runs the epilogue on their results."""
        size, (image, top) = self.transforms.size, self._place(block, row)
        results = emit.scratch([size, count * size, self.cut.width], "float32", "results")
        finish = Finish(self.group.first, tuple(self.stores))

        def saved(tile: int, down: int, right: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(results, [index(down), index(tile * size + right), lane])

        def vector(places: list[ir.Expr], first: ir.Expr, lanes: int) -> Stmt:
            """Runs the epilogue on a vector of results."""
            down, right = places
            column = start * size + right

            def item(lane: ir.Expr) -> Stmt:
                result = emit.load(results, [down, right, lane + first])
                return finish.at(result, self._point(block, panel, row, down, column, lane + first))

            inside = self._lies_inside(self._in_image(image, top + down, column))
            return emit.sequence([emit.when(inside, emit.vectorized(lanes, item))])

        def along(extent: int) -> Stmt:
            def vectors(places: list[ir.Expr]) -> Stmt:
                return self._vectors(extent, partial(vector, places))

            transformed = self._transformed_results(row, start, saved, count, extent)
            return emit.sequence([transformed, emit.nest([size, count * size], vectors)])

        return emit.sequence([emit.allocate(results), self._in_panel(panel, along)])

    def _transformed_results(self, row: ir.Expr, start: ir.Expr, write: Item, count: int, extent: int) -> Stmt:
        """Transforms the sums of some tiles of a row, from ``start`` on."""

        def read(tile: int, down: int, right: int, lane: ir.Expr) -> TensorLoad:
            return emit.load(
                self.sums, [row * self.right + start + tile, index(down * self.transforms.side + right), lane]
            )

        return self._along(self.transforms.results, read, write, count, extent, source_is_scratch=True)

    def _point(
        self, block: ir.Expr, panel: ir.Expr, row: ir.Expr, down: ir.Expr, right: ir.Expr, lane: ir.Expr
    ) -> dict[Var, ir.Expr]:
        """Returns the axes of a result, by its place in a row of tiles and its lane of a panel."""
        image, top = self._place(block, row)
        place = self._in_image(image, top + down, right)
        axes = {axis.var: at for axis, at in zip(places_of(self.group.first), place, strict=True)}
        return {**axes, **self._result(panel, lane)}

    @property
    def _reaches_beyond(self) -> bool:
        """Returns whether the last tiles reach beyond the image."""
        sizes = [tiles * self.transforms.size * self.dilation for tiles in (self.down, self.right)]
        return any(size > int(axis.extent) for size, axis in zip(sizes, places_of(self.group.first)[-2:], strict=True))

    def _lies_inside(self, place: list[ir.Expr]) -> ir.Expr | bool:
        """Returns whether a result of a tile is in the image; the last tiles may reach beyond it."""
        extents = places_of(self.group.first)[-2:]
        axes = zip(place[-2:], extents, (self.down, self.right), strict=True)
        size = self.transforms.size * self.dilation
        tests = [at < axis.extent for at, axis, tiles in axes if tiles * size > int(axis.extent)]
        return tirx.all(*tests) if tests else True


def _at_lane(item: Item, lane: ir.Expr, tile: int, row: int, column: int) -> TensorLoad:
    return item(tile, row, column, lane)
