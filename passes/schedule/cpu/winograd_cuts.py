"""A cost model for Winograd's method: how to tile a convolution, and whether that is faster than direct sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import CYCLES_PER_LOAD, Loads, pieces_of, tile_cycles
from tvtf.passes.schedule.cpu.winograd_transforms import BY_WINDOW, GRADIENTS, Transforms

# Positions in the transformed tiles of a task: sixteen vectors of each, with their sums, fit the level-2 cache.
MAX_POSITIONS = 1152
OPERATIONS_PER_CYCLE = 2
FLOAT32_BYTES = 4
# Share of the peak that direct sums and products of transformed tiles reach, measured.
EFFICIENCY = 0.85
CYCLES_PER_TASK = 2000
CYCLES_PER_LEVEL2_BYTE, CYCLES_PER_LEVEL3_BYTE, CYCLES_PER_FAR_BYTE = 0.02, 0.04, 0.15
# For a byte of a line that is fetched, filled and written back to memory.
CYCLES_PER_WRITTEN_BYTE = 0.28
# To transform a tile of vectors, by its side, and store it: loads, arithmetic and stores of both passes.
CYCLES_PER_TILE_TRANSFORM = {4: 45, 6: 120}
REQUIRED_SPEEDUP = 1.15
TILINGS_TO_TRY = 8
# With fewer channels per block, sums are read and written too often.
MIN_BLOCK = 64
# To transform the filter where it is used: nine streams of short rows, and stores all over the block.
CYCLES_PER_FILTER_TRANSFORM = {4: 200, 6: 400}
# For a filter's gradient: the bytes of all panels' sums, in level-2 caches, beyond which a panel's sums stay on one core.
MAX_LEVEL2_SIZES_OF_SUMS = 4
# Blocks of twice the size are no faster, and take memory that no plan of a step's peak counts.
MAX_LEVEL2_SIZES_OF_BLOCK = 2
WIDEST_PANEL = 64
# To copy a tile and transform it, in units of one transform.
TRANSFORMS_PER_COPY = 2.5


@dataclass(frozen=True)
class Shape:
    """The sizes of a convolution: `images` of `height` by `width` results; channels are counted per group."""

    images: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    groups: int = 1
    window: int = 3


@dataclass(frozen=True)
class Tiling:
    """How a Winograd convolution is tiled and split into tasks.

    A panel is a block of `width` output channels; each group's last panel may be wider than its channels. A task
    computes `rows` rows of tiles for one of `groups` groups of panels. With a `block` of input channels, a task
    computes one panel of all tiles instead, and transforms its filter block by block.
    """

    transforms: Transforms
    rows: int
    groups: int
    width: int
    block: int = 0

    def tiles(self, extent: int) -> int:
        """Returns the number of tiles along a side of an image; the last tile may reach beyond the image."""
        return emit.ceil_div(extent, self.transforms.size)

    def panels(self, shape: Shape) -> int:
        """Returns the number of panels of output channels, over all groups."""
        return emit.ceil_div(shape.out_channels, self.width) * shape.groups


def fastest_tiling(shape: Shape, is_constant: bool, target: CpuTarget, needed_share: float = 1.0) -> Tiling | None:
    """Returns the Winograd tiling with the fewest estimated cycles, or None if a direct convolution is about as fast.

    Args:
        shape: the sizes of the convolution.
        is_constant: whether the filter is the same in every call.
        target: the CPU.
        needed_share: the share of its products that a direct convolution computes, without those with a zero
            border.
    """
    lanes = target.lanes(FLOAT32_BYTES)
    # Transforms run along vectors of channels.
    if shape.out_channels < lanes or shape.in_channels < lanes:
        return None
    tilings = {
        tiling: _estimated_cycles(shape, tiling, is_constant, target) for tiling in _candidate_tilings(shape, target)
    }
    best = min(tilings, key=tilings.__getitem__, default=None)
    direct_cycles = needed_share * _direct_cycles(shape, is_constant, target)
    is_worthwhile = best is not None and tilings[best] * REQUIRED_SPEEDUP < direct_cycles
    return choice(
        "winograd", best if is_worthwhile else None, lambda: [None, *_fastest_tilings(tilings)], _describe_tiling
    )


def _fastest_tilings(tilings: dict[Tiling, float]) -> list[Tiling]:
    """Returns the few tilings with the fewest estimated cycles, among which tuning chooses."""
    return sorted(tilings, key=tilings.__getitem__)[:TILINGS_TO_TRY]


def _describe_tiling(tiling: Tiling | None) -> str:
    """Returns a description of a tiling for tuning records."""
    if tiling is None:
        return "no"
    text = f"{tiling.transforms.size} wide, {tiling.rows} rows, {tiling.groups} groups, panels of {tiling.width}"
    return f"{text}, blocks of {tiling.block}" if tiling.block else text


def _candidate_tilings(shape: Shape, target: CpuTarget) -> Iterator[Tiling]:
    """Yields the Winograd tilings whose tasks fit the level-2 cache, or have a single row of tiles.

    If all tiles fit at once, tilings with blocks of input channels follow. A panel is a block of output channels.
    """
    lanes = target.lanes(FLOAT32_BYTES)
    for transforms in BY_WINDOW[shape.window]:
        for vectors in (1, 2, 3, 4):
            tiling = Tiling(transforms, 1, 1, lanes * vectors)
            panels = tiling.panels(shape)
            channels_before_last_panel = (panels // shape.groups - 1) * tiling.width
            # Skipped: the last panel would have a vector without output channels.
            if channels_before_last_panel + lanes * (vectors - 1) >= shape.out_channels:
                continue
            all_rows = shape.images * tiling.tiles(shape.height)
            positions_per_row = tiling.tiles(shape.width) * transforms.products
            group_counts = [count for count in _divisors(panels) if count <= 2 * target.cores]
            for rows in _divisors(all_rows):
                if rows == 1 or rows * positions_per_row <= MAX_POSITIONS:
                    yield from (replace(tiling, rows=rows, groups=count) for count in group_counts)
            if all_rows * positions_per_row <= MAX_POSITIONS:
                yield from _with_blocks_of_channels(shape, replace(tiling, rows=all_rows, groups=panels), target)


def _with_blocks_of_channels(shape: Shape, tiling: Tiling, target: CpuTarget) -> Iterator[Tiling]:
    """Yields the tiling with the largest block of input channels that fits the cache, if this block is large enough.

    The block of the transformed filter and the sums of all tiles share three quarters of the level-2 cache.
    """
    products, tiles = tiling.transforms.products, tiling.rows * tiling.tiles(shape.width)
    # What the sums of all tiles leave for the filter.
    free_bytes = target.level2_bytes * 3 // 4 - products * tiles * tiling.width * FLOAT32_BYTES
    blocks = [
        channels
        for channels in _divisors(shape.in_channels)
        if products * channels * tiling.width * FLOAT32_BYTES <= free_bytes
    ]
    if blocks and blocks[-1] >= min(MIN_BLOCK, shape.in_channels):
        yield replace(tiling, block=blocks[-1])


@dataclass(frozen=True)
class FilterTiling:
    """How the Winograd algorithm for a filter's gradient is tiled.

    Tiles are processed in blocks of `rows` rows of tiles, the gradient in panels of `channels` by `results` (input by
    output channels). If `is_local`, all tiles are one block, and a panel's sums stay on one core.
    """

    transforms: Transforms
    rows: int
    channels: int
    results: int
    is_local: bool

    def tiles(self, extent: int) -> int:
        """Returns the number of tiles along a side of an image; the last tile may reach beyond the image."""
        return emit.ceil_div(extent, self.transforms.size)


def fastest_filter_tiling(shape: Shape, target: CpuTarget, needed_share: float = 1.0) -> FilterTiling | None:
    """Returns the Winograd tiling for a convolution's filter gradient, or None if direct sums are about as fast.

    Direct sums leave out products with a zero border; `needed_share` is the share of the others.
    """
    lanes, transforms = target.lanes(FLOAT32_BYTES), GRADIENTS[shape.window]
    products = transforms.products
    # Transforms run along vectors of channels.
    if shape.out_channels < lanes or shape.in_channels < lanes:
        return None
    tile_rows, tile_columns = (emit.ceil_div(extent, transforms.size) for extent in (shape.height, shape.width))
    most_sum_bytes = MAX_LEVEL2_SIZES_OF_SUMS * target.level2_bytes
    most_block_bytes = MAX_LEVEL2_SIZES_OF_BLOCK * target.level2_bytes
    # Sums of all panels that exceed the caches would be read and written again in every block.
    is_local = products * shape.in_channels * shape.out_channels * shape.groups * FLOAT32_BYTES > most_sum_bytes
    results = _least_padded_width(shape.out_channels, WIDEST_PANEL // (2 if is_local else 1), lanes)
    bytes_per_row = products * tile_columns * (shape.in_channels + shape.out_channels) * shape.groups * FLOAT32_BYTES
    all_rows = shape.images * tile_rows
    rows = (
        all_rows
        if is_local
        else max(count for count in _divisors(all_rows) if count == 1 or count * bytes_per_row <= most_block_bytes)
    )
    tiling = FilterTiling(
        transforms, rows, _least_padded_width(shape.in_channels, WIDEST_PANEL // 2, lanes), results, is_local
    )
    positions = shape.images * shape.height * shape.width
    direct_products = positions * shape.window**2 * shape.in_channels * shape.out_channels * shape.groups
    direct_cycles = needed_share * direct_products / lanes / OPERATIONS_PER_CYCLE / target.cores / EFFICIENCY
    is_worthwhile = _filter_gradient_cycles(shape, tiling, target) * REQUIRED_SPEEDUP < direct_cycles
    return choice(
        "winograd", tiling if is_worthwhile else None, lambda: [None, tiling], lambda tiling: "yes" if tiling else "no"
    )


def _least_padded_width(extent: int, limit: int, lanes: int) -> int:
    """Returns the panel width, a multiple of `lanes` up to `limit`, that needs the least padding to cover an extent.

    Of equally good widths the widest is returned.
    """
    widths = range(lanes, max(lanes, limit) + 1, lanes)
    return min(widths, key=lambda width: (emit.round_up(extent, width), -width))


def _filter_gradient_cycles(shape: Shape, tiling: FilterTiling, target: CpuTarget) -> float:
    """Estimates the cycles of a filter gradient by Winograd's method, until the last core is done.

    It adds up the matrix products with their sums, the transfer of transformed operands, and the transforms.
    """
    lanes, products = target.lanes(FLOAT32_BYTES), tiling.transforms.products
    tiles = shape.images * tiling.tiles(shape.height) * tiling.tiles(shape.width)
    # Both kinds of channels are padded to full panels.
    in_channels = emit.round_up(shape.in_channels, tiling.channels)
    out_channels = emit.round_up(shape.out_channels, tiling.results)
    operand_channels = (in_channels + out_channels) * shape.groups
    filter_items = in_channels * out_channels * shape.groups
    blocks = shape.images * tiling.tiles(shape.height) // tiling.rows
    cycles_per_product_of_tiles = tiles / lanes / OPERATIONS_PER_CYCLE / EFFICIENCY
    # Each block of tiles loads and stores all sums.
    cycles_per_sum = blocks * 2 / lanes
    products_and_sums = products * filter_items * (cycles_per_product_of_tiles + cycles_per_sum)
    # Transformed operands are stored once and loaded once.
    memory = products * tiles * operand_channels * FLOAT32_BYTES * 2 * CYCLES_PER_LEVEL3_BYTE
    cycles_per_transform = CYCLES_PER_TILE_TRANSFORM[tiling.transforms.side]
    transforms = (tiles * operand_channels * TRANSFORMS_PER_COPY + filter_items) / lanes * cycles_per_transform
    return (products_and_sums + memory + transforms) / target.cores + blocks * CYCLES_PER_TASK * 6


def _divisors(number: int) -> list[int]:
    """Returns the divisors of a number in ascending order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]


def _task_bytes(shape: Shape, tiling: Tiling) -> int:
    """Returns the size in bytes of a task's transformed inputs, and of its sums for one panel."""
    tiles = tiling.rows * tiling.tiles(shape.width)
    return tiling.transforms.products * tiles * (shape.in_channels * shape.groups + tiling.width) * FLOAT32_BYTES


def _estimated_cycles(shape: Shape, tiling: Tiling, is_constant: bool, target: CpuTarget) -> float:
    """Estimates the cycles of a Winograd convolution until the last core is done.

    A task transforms its inputs and sums. The matrix products and the loads of the transformed filter overlap, so the
    longer of the two counts. A filter that isn't constant is transformed in each call.
    """
    if tiling.block:
        return _estimated_cycles_with_blocks(shape, tiling, target)
    lanes, products = target.lanes(FLOAT32_BYTES), tiling.transforms.products
    transform_cycles = CYCLES_PER_TILE_TRANSFORM[tiling.transforms.side]
    # The tiles and the output channels of one task.
    tiles, results = tiling.rows * tiling.tiles(shape.width), tiling.panels(shape) * tiling.width / tiling.groups
    tasks = shape.images * tiling.tiles(shape.height) // tiling.rows * tiling.groups
    tasks_per_core = emit.ceil_div(tasks, target.cores)
    transforms = tiles * (shape.in_channels * shape.groups + results) / lanes * transform_cycles
    panel_cycles = _matrix_product_cycles(tiles, tiling.width // lanes, shape.in_channels, target)
    sums = products * results / tiling.width * panel_cycles
    filter_bytes = products * shape.in_channels * results * FLOAT32_BYTES
    is_cached = filter_bytes * min(tiling.groups, target.cores) <= target.level2_bytes // 2
    fetch_cycles = filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_cached else CYCLES_PER_FAR_BYTE)
    # Transformed inputs that don't stay in the level-2 cache are fetched again for each panel.
    if _task_bytes(shape, tiling) > target.level2_bytes:
        fetch_cycles += (
            products * tiles * shape.in_channels * FLOAT32_BYTES * results / tiling.width * CYCLES_PER_LEVEL3_BYTE
        )
    total = tasks_per_core * (transforms + max(sums / EFFICIENCY, fetch_cycles) + CYCLES_PER_TASK)
    # A constant filter is transformed once, before the first call.
    if is_constant:
        return total
    filter_transforms = shape.in_channels * shape.out_channels * shape.groups / lanes / target.cores
    cycles_per_byte = (
        CYCLES_PER_LEVEL2_BYTE if filter_bytes * tiling.groups <= target.level2_bytes // 2 else CYCLES_PER_WRITTEN_BYTE
    )
    return total + filter_transforms * (transform_cycles + products * lanes * FLOAT32_BYTES * cycles_per_byte)


def _estimated_cycles_with_blocks(shape: Shape, tiling: Tiling, target: CpuTarget) -> float:
    """Estimates the cycles of a Winograd convolution that is tiled with blocks of input channels.

    Each task takes one panel of all tiles. It reads all transformed inputs, and transforms its part of the filter.
    """
    lanes, products = target.lanes(FLOAT32_BYTES), tiling.transforms.products
    transform_cycles = CYCLES_PER_TILE_TRANSFORM[tiling.transforms.side]
    tiles, width = tiling.rows * tiling.tiles(shape.width), tiling.width
    input_cycles = tiles * shape.in_channels * shape.groups / lanes * transform_cycles / target.cores
    sums = (
        products
        * shape.in_channels
        // tiling.block
        * _matrix_product_cycles(tiles, width // lanes, tiling.block, target)
    )
    fetched_inputs = products * tiles * shape.in_channels * FLOAT32_BYTES * CYCLES_PER_LEVEL3_BYTE
    fetched_filter = shape.window**2 * shape.in_channels * width * FLOAT32_BYTES * CYCLES_PER_FAR_BYTE
    transforms = (
        (shape.in_channels * CYCLES_PER_FILTER_TRANSFORM[tiling.transforms.side] + tiles * transform_cycles)
        * width
        / lanes
    )
    tasks_per_core = emit.ceil_div(tiling.panels(shape), target.cores)
    return (
        input_cycles
        + tasks_per_core * (sums / EFFICIENCY + fetched_inputs + fetched_filter + transforms + CYCLES_PER_TASK)
        + CYCLES_PER_TASK
    )


def _matrix_product_cycles(tiles: int, vectors: int, channels: int, target: CpuTarget) -> float:
    """Estimates the cycles of one matrix product of all Winograd tiles with a panel of the transformed filter.

    A panel is `vectors` vectors of output channels. As many tiles are processed at once as there are registers for
    their sums.
    """
    most_tiles = max(1, (target.vector_registers - 2 - vectors) // vectors)
    passes = emit.ceil_div(tiles, most_tiles)
    cycles_per_channel = sum(
        times * tile_cycles(height, vectors, Loads(CYCLES_PER_LOAD))
        for height, times in pieces_of(tiles, emit.ceil_div(tiles, passes))
    )
    # Each vector of sums is loaded and stored once.
    return cycles_per_channel * channels + 2 * tiles * vectors


def _direct_cycles(shape: Shape, is_constant: bool, target: CpuTarget) -> float:
    """Estimates the cycles of a direct convolution per core, with the packing of a filter that exceeds the cache.

    It is limited by its multiply-adds or by loading the filter, whichever is slower. A constant filter is packed before
    the first call, and costs nothing here.
    """
    positions, taps = shape.images * shape.height * shape.width, shape.window**2 * shape.in_channels
    all_out_channels = shape.out_channels * shape.groups
    multiply_adds = positions * taps * all_out_channels
    arithmetic_cycles = multiply_adds / target.lanes(FLOAT32_BYTES) / OPERATIONS_PER_CYCLE / target.cores / EFFICIENCY
    filter_bytes = taps * all_out_channels * FLOAT32_BYTES / target.cores
    is_cached = filter_bytes <= target.level2_bytes // 2
    load_cycles = filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_cached else CYCLES_PER_FAR_BYTE)
    packing_cycles = 0.0 if is_constant or is_cached else filter_bytes * CYCLES_PER_WRITTEN_BYTE
    return packing_cycles + max(arithmetic_cycles, load_cycles)
