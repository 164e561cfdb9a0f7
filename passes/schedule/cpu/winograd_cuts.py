"""A cost model for Winograd's method: how to cut a convolution, and whether that is faster than direct sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import CYCLES_PER_LOAD, Loads, pieces_of, tile_cycles
from tvtf.passes.schedule.cpu.winograd_transforms import BY_WINDOW, GRADIENTS, Transforms

# The transformed places of a task's tiles: sixteen vectors of each, with their sums, fit the level-2 cache.
MAX_PLACES = 1152
OPERATIONS_PER_CYCLE = 2
# Share of the peak that direct sums and products of transformed tiles reach, measured.
EFFICIENCY = 0.85
CYCLES_PER_TASK = 2000
CYCLES_PER_LEVEL2_BYTE, CYCLES_PER_LEVEL3_BYTE, CYCLES_PER_FAR_BYTE = 0.02, 0.04, 0.15
# For a byte of a line that is fetched, filled and written back to memory.
CYCLES_PER_WRITTEN_BYTE = 0.28
# To transform a square of vectors, by its side, and store it: loads, arithmetic and stores of both passes.
CYCLES_PER_SQUARE = {4: 45, 6: 120}
GAIN_THAT_PAYS = 1.15
CUTS_TO_TRY = 8
# With fewer channels per block, sums are read and written too often.
MIN_BLOCK = 64
# To transform the filter where it is used: nine streams of short rows, and stores all over the block.
CYCLES_PER_WINDOW = {4: 200, 6: 400}
# For a filter's gradient: the bytes of transformed operands beyond which a panel's sums stay on one core.
LEVELS2_OF_OPERANDS = 4
# Blocks of twice the size are no faster, and take memory that no plan of a step's peak counts.
LEVELS2_OF_BLOCK = 2
WIDEST_PANEL = 64
# To copy a tile and transform it, in units of a transform.
SQUARES_A_COPY = 2.5


@dataclass(frozen=True)
class Shape:
    """The sizes of a convolution: `images` of `height` by `width` results; channels and results are per group."""

    images: int
    height: int
    width: int
    channels: int
    results: int
    groups: int = 1
    window: int = 3


@dataclass(frozen=True)
class Cut:
    """How the work is cut: a task has `rows` rows of tiles and one of `groups` groups of panels.

    A panel has `width` results. The last panel of each of the convolution's groups may be wider than the remaining
    results. With a `block` of channels, a task takes one panel of all tiles, and transforms its filter block by block.
    """

    transforms: Transforms
    rows: int
    groups: int
    width: int
    block: int = 0

    def tiles(self, extent: int) -> int:
        """Returns the tiles along a side of an image; the last one may reach beyond it."""
        return -(-extent // self.transforms.size)

    def panels(self, shape: Shape) -> int:
        return -(-shape.results // self.width) * shape.groups


def best_cut(shape: Shape, is_constant: bool, target: CpuTarget, needed: float = 1.0) -> Cut | None:
    """Returns the fastest cut into tiles and tasks; None if direct sums (of the `needed` share) are as fast."""
    lanes = target.lanes(4)
    if shape.results < lanes or shape.channels < lanes:
        return None
    cuts = {cut: _cycles(shape, cut, is_constant, target) for cut in _cuts(shape, target)}
    best = min(cuts, key=cuts.__getitem__, default=None)
    pays = best is not None and cuts[best] * GAIN_THAT_PAYS < needed * _direct_cycles(shape, is_constant, target)
    return choice("winograd", best if pays else None, lambda: [None, *_quickest(cuts)], _label)


def _quickest(cuts: dict[Cut, float]) -> list[Cut]:
    return sorted(cuts, key=cuts.__getitem__)[:CUTS_TO_TRY]


def _label(cut: Cut | None) -> str:
    if cut is None:
        return "no"
    text = f"{cut.transforms.size} wide, {cut.rows} rows, {cut.groups} groups, panels of {cut.width}"
    return f"{text}, blocks of {cut.block}" if cut.block else text


def _cuts(shape: Shape, target: CpuTarget) -> Iterator[Cut]:
    """Yields cuts whose tasks fit the level-2 cache, or consist of a single row of tiles."""
    lanes = target.lanes(4)
    for transforms in BY_WINDOW[shape.window]:
        for vectors in (1, 2, 3, 4):
            cut = Cut(transforms, 1, 1, lanes * vectors)
            down, right = cut.tiles(shape.height), cut.tiles(shape.width)
            panels = cut.panels(shape)
            # The last panel would have a vector without results.
            if (panels // shape.groups - 1) * cut.width + lanes * (vectors - 1) >= shape.results:
                continue
            for rows in _divisors(shape.images * down):
                if rows == 1 or rows * right * transforms.products <= MAX_PLACES:
                    groups = [count for count in _divisors(panels) if count <= 2 * target.cores]
                    yield from (replace(cut, rows=rows, groups=count) for count in groups)
            if shape.images * down * right * transforms.products <= MAX_PLACES:
                yield from _in_blocks(shape, replace(cut, rows=shape.images * down, groups=panels), target)


def _in_blocks(shape: Shape, cut: Cut, target: CpuTarget) -> Iterator[Cut]:
    """Yields the cut with the largest block of the filter that shares the level-2 cache with the sums of all tiles."""
    products, tiles = cut.transforms.products, cut.rows * cut.tiles(shape.width)
    left = target.level2_bytes * 3 // 4 - products * tiles * cut.width * 4
    blocks = [count for count in _divisors(shape.channels) if products * count * cut.width * 4 <= left]
    if blocks and blocks[-1] >= min(MIN_BLOCK, shape.channels):
        yield replace(cut, block=blocks[-1])


@dataclass(frozen=True)
class FilterCut:
    """How a filter's gradient is cut: blocks of `rows` rows of tiles, panels of `channels` by `results`.

    If `is_local`, all tiles are one block, and a panel's sums stay on one core.
    """

    transforms: Transforms
    rows: int
    channels: int
    results: int
    is_local: bool

    def tiles(self, extent: int) -> int:
        """Returns the tiles along a side of an image; the last one may reach beyond it."""
        return -(-extent // self.transforms.size)


def best_filter_cut(shape: Shape, target: CpuTarget, needed: float = 1.0) -> FilterCut | None:
    """Returns the cut of a filter's gradient; None if direct sums, of the `needed` share of products, are as fast."""
    lanes, transforms = target.lanes(4), GRADIENTS[shape.window]
    products = transforms.products
    if shape.results < lanes or shape.channels < lanes:
        return None
    down, right = (-(-extent // transforms.size) for extent in (shape.height, shape.width))
    near, least = LEVELS2_OF_OPERANDS * target.level2_bytes, LEVELS2_OF_BLOCK * target.level2_bytes
    # Sums of all panels that exceed the caches would be read and written again in every block.
    is_local = products * shape.channels * shape.results * shape.groups * 4 > near
    results = _panel_width(shape.results, WIDEST_PANEL // (2 if is_local else 1), lanes)
    row_bytes = products * right * (shape.channels + shape.results) * shape.groups * 4
    every = shape.images * down
    rows = every if is_local else max(count for count in _divisors(every) if count == 1 or count * row_bytes <= least)
    cut = FilterCut(transforms, rows, _panel_width(shape.channels, WIDEST_PANEL // 2, lanes), results, is_local)
    places, filters = shape.images * shape.height * shape.width, shape.channels * shape.results * shape.groups
    direct = places * shape.window**2 * filters
    direct_cycles = needed * direct / lanes / OPERATIONS_PER_CYCLE / target.cores / EFFICIENCY
    pays = _filter_cycles(shape, cut, target) * GAIN_THAT_PAYS < direct_cycles
    return choice("winograd", cut if pays else None, lambda: [None, cut], lambda cut: "yes" if cut else "no")


def _panel_width(extent: int, most: int, lanes: int) -> int:
    """Returns the widest panel among those that exceed the extent least."""
    widths = range(lanes, max(lanes, most) + 1, lanes)
    return min(widths, key=lambda width: (-(-extent // width) * width, -width))


def _filter_cycles(shape: Shape, cut: FilterCut, target: CpuTarget) -> float:
    """Estimates the cycles until the last core is done."""
    lanes, products, square = target.lanes(4), cut.transforms.products, CYCLES_PER_SQUARE[cut.transforms.side]
    tiles = shape.images * cut.tiles(shape.height) * cut.tiles(shape.width)
    channels, results = (
        -(-extent // width) * width for extent, width in [(shape.channels, cut.channels), (shape.results, cut.results)]
    )
    both, filters = (channels + results) * shape.groups, channels * results * shape.groups
    blocks = shape.images * cut.tiles(shape.height) // cut.rows
    sums = products * filters * (tiles / lanes / OPERATIONS_PER_CYCLE / EFFICIENCY + blocks * 2 / lanes)
    moved = products * tiles * both * 4 * 2 * CYCLES_PER_LEVEL3_BYTE
    squares = (tiles * both * SQUARES_A_COPY + filters) / lanes * square
    return (sums + moved + squares) / target.cores + blocks * CYCLES_PER_TASK * 6


def _divisors(number: int) -> list[int]:
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _bytes_of_task(shape: Shape, cut: Cut) -> int:
    tiles = cut.rows * cut.tiles(shape.width)
    return cut.transforms.products * tiles * (shape.channels * shape.groups + cut.width) * 4


def _cycles(shape: Shape, cut: Cut, is_constant: bool, target: CpuTarget) -> float:
    """Estimates the cycles until the last core is done."""
    if cut.block:
        return _cycles_in_blocks(shape, cut, target)
    lanes, products, square = target.lanes(4), cut.transforms.products, CYCLES_PER_SQUARE[cut.transforms.side]
    tiles, results = cut.rows * cut.tiles(shape.width), cut.panels(shape) * cut.width / cut.groups
    tasks = shape.images * cut.tiles(shape.height) // cut.rows * cut.groups
    rounds = -(-tasks // target.cores)
    transforms = tiles * (shape.channels * shape.groups + results) / lanes * square
    sums = products * results / cut.width * _product_cycles(tiles, cut.width // lanes, shape.channels, target)
    filter_bytes = products * shape.channels * results * 4
    is_near = filter_bytes * min(cut.groups, target.cores) <= target.level2_bytes // 2
    fetch = filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_near else CYCLES_PER_FAR_BYTE)
    if _bytes_of_task(shape, cut) > target.level2_bytes:
        fetch += products * tiles * shape.channels * 4 * results / cut.width * CYCLES_PER_LEVEL3_BYTE
    total = rounds * (transforms + max(sums / EFFICIENCY, fetch) + CYCLES_PER_TASK)
    # A constant filter is transformed once, before the first call.
    if is_constant:
        return total
    squares = shape.channels * shape.results * shape.groups / lanes / target.cores
    written = (
        CYCLES_PER_LEVEL2_BYTE if filter_bytes * cut.groups <= target.level2_bytes // 2 else CYCLES_PER_WRITTEN_BYTE
    )
    return total + squares * (square + products * lanes * 4 * written)


def _cycles_in_blocks(shape: Shape, cut: Cut, target: CpuTarget) -> float:
    """Estimates the cycles where a task takes all tiles: it reads all inputs, and its part of the plain filter."""
    lanes, products, square = target.lanes(4), cut.transforms.products, CYCLES_PER_SQUARE[cut.transforms.side]
    tiles, width = cut.rows * cut.tiles(shape.width), cut.width
    inputs = tiles * shape.channels * shape.groups / lanes * square / target.cores
    sums = products * shape.channels // cut.block * _product_cycles(tiles, width // lanes, cut.block, target)
    read = products * tiles * shape.channels * 4 * CYCLES_PER_LEVEL3_BYTE
    filters = shape.window**2 * shape.channels * width * 4 * CYCLES_PER_FAR_BYTE
    squares = (shape.channels * CYCLES_PER_WINDOW[cut.transforms.side] + tiles * square) * width / lanes
    rounds = -(-cut.panels(shape) // target.cores)
    return inputs + rounds * (sums / EFFICIENCY + read + filters + squares + CYCLES_PER_TASK) + CYCLES_PER_TASK


def _product_cycles(tiles: int, vectors: int, channels: int, target: CpuTarget) -> float:
    """Estimates the cycles of one matrix product over all tiles, as many at a time as registers hold."""
    most = max(1, (target.vector_registers - 2 - vectors) // vectors)
    count = -(-tiles // most)
    step = sum(
        times * tile_cycles(height, vectors, Loads(CYCLES_PER_LOAD))
        for height, times in pieces_of(tiles, -(-tiles // count))
    )
    return step * channels + 2 * tiles * vectors


def _direct_cycles(shape: Shape, is_constant: bool, target: CpuTarget) -> float:
    """Estimates the cycles of direct sums, with packing of a filter that exceeds the cache."""
    places, taps = shape.images * shape.height * shape.width, shape.window**2 * shape.channels
    results = shape.results * shape.groups
    sums = places * taps * results / target.lanes(4) / OPERATIONS_PER_CYCLE / target.cores / EFFICIENCY
    filter_bytes = taps * results * 4 / target.cores
    is_near = filter_bytes <= target.level2_bytes // 2
    packing = 0.0 if is_constant or is_near else filter_bytes * CYCLES_PER_WRITTEN_BYTE
    return packing + max(sums, filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_near else CYCLES_PER_FAR_BYTE))
