"""A cost model for Winograd's method: how to tile a convolution, and whether that is faster than direct sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import CYCLES_PER_LOAD, Loads, covering_tiles, tile_cycles
from tvtf.passes.schedule.cpu.winograd_transforms import BY_WINDOW, GRADIENTS, Transforms

FLOAT32_BYTES = 4

# The core's speed.
MULTIPLY_ADDS_PER_CYCLE = 2
"""Vectors that a core multiplies and adds per cycle, at most."""
EFFICIENCY = 0.85
"""The share of that peak which direct sums and products of transformed tiles reach, measured."""
CYCLES_PER_TASK = 2000
"""Of starting a parallel task, and waiting for the last one."""

# Memory traffic, in cycles per byte.
CYCLES_PER_LEVEL2_BYTE = 0.02
CYCLES_PER_LEVEL3_BYTE = 0.04
CYCLES_PER_MEMORY_BYTE = 0.15
CYCLES_PER_WRITTEN_BYTE = 0.28
"""For a byte of a cache line that is fetched from memory, filled and written back."""

# Transforms, in cycles per vector of channels, by the side of a tile.
CYCLES_PER_TILE_TRANSFORM = {4: 45, 6: 120}
"""To transform and store a tile: loads, arithmetic and stores of both passes."""
CYCLES_PER_FILTER_TRANSFORM = {4: 200, 6: 400}
"""To transform a window where it is used: nine streams of short rows, and stores all over the block."""
TRANSFORMS_PER_COPY = 2.5
"""The cycles to copy a tile and transform it, in units of a transform's."""

# Limits of tilings.
MAX_POSITIONS_PER_TASK = 1152
"""Positions in the transformed tiles of a task: sixteen vectors of each, with their sums, fit the level-2 cache."""
MIN_CHANNELS_PER_BLOCK = 64
"""Input channels of a block, at least: with fewer, sums are read and written too often."""
MAX_PANEL_CHANNELS = 64
"""Channels of a panel of a filter's gradient, at most."""
MAX_LEVEL2_SIZES_OF_SUMS = 4
"""The sums of all panels of a filter's gradient, in sizes of a level-2 cache: beyond this, a panel's sums stay on one core."""
MAX_LEVEL2_SIZES_OF_BLOCK = 2
"""A block of transformed tiles, in sizes of a level-2 cache: blocks of twice the size are no faster, and take memory that no
plan of a step's peak counts."""
REQUIRED_SPEEDUP = 1.15
"""By how much the estimate must be faster than direct sums."""
TILINGS_TO_TRY = 8
"""Of the tilings with the fewest estimated cycles, the number among which tuning chooses."""


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
    cycles: dict[Tiling, float] = {}
    for tiling in _candidate_tilings(shape, target):
        cycles[tiling] = _estimated_cycles(shape, tiling, is_constant, target)
    direct_cycles = needed_share * _direct_cycles(shape, is_constant, target)
    default = min(cycles, key=cycles.__getitem__, default=None)
    if default is not None and cycles[default] * REQUIRED_SPEEDUP >= direct_cycles:
        default = None
    return choice("winograd", default, lambda: [None, *_fastest_tilings(cycles)], _describe_tiling)


def _fastest_tilings(cycles: dict[Tiling, float]) -> list[Tiling]:
    """Returns the few tilings with the fewest estimated cycles, among which tuning chooses."""
    return sorted(cycles, key=cycles.__getitem__)[:TILINGS_TO_TRY]


def _describe_tiling(tiling: Tiling | None) -> str:
    """Returns a description of a tiling for tuning records."""
    if tiling is None:
        return "no"
    text = f"{tiling.transforms.size} wide, {tiling.rows} rows, {tiling.groups} groups, panels of {tiling.width}"
    return f"{text}, blocks of {tiling.block}" if tiling.block else text


def _candidate_tilings(shape: Shape, target: CpuTarget) -> Iterator[Tiling]:
    """Yields the Winograd tilings whose tasks fit the level-2 cache, or have a single row of tiles.

    If a task with all tiles fits, tilings with blocks of input channels are yielded, too. A panel is a block of output
    channels.
    """
    lanes = target.lanes(FLOAT32_BYTES)
    for transforms in BY_WINDOW[shape.window]:
        for vectors in (1, 2, 3, 4):
            tiling = Tiling(transforms, rows=1, groups=1, width=lanes * vectors)
            panels = tiling.panels(shape)
            channels_before_last_panel = (panels // shape.groups - 1) * tiling.width
            channels_before_last_vector = channels_before_last_panel + lanes * (vectors - 1)
            if channels_before_last_vector >= shape.out_channels:
                continue  # the last panel would have a vector without output channels
            all_rows = shape.images * tiling.tiles(shape.height)
            positions_per_row = tiling.tiles(shape.width) * transforms.products
            group_counts = [count for count in _divisors(panels) if count <= 2 * target.cores]
            for rows in _divisors(all_rows):
                if rows == 1 or rows * positions_per_row <= MAX_POSITIONS_PER_TASK:
                    yield from (replace(tiling, rows=rows, groups=count) for count in group_counts)
            if all_rows * positions_per_row <= MAX_POSITIONS_PER_TASK:
                yield from _with_blocks_of_channels(shape, replace(tiling, rows=all_rows, groups=panels), target)


def _with_blocks_of_channels(shape: Shape, tiling: Tiling, target: CpuTarget) -> Iterator[Tiling]:
    """Yields the tiling with the largest block of input channels that fits the cache, if this block is large enough.

    The block of the transformed filter and the sums of all tiles share three quarters of the level-2 cache.

    Args:
        shape: the sizes of the convolution.
        tiling: a tiling without blocks of channels, whose tasks have all tiles.
        target: the CPU.
    """
    positions = tiling.transforms.products
    tiles = tiling.rows * tiling.tiles(shape.width)
    bytes_per_channel_of_filter = positions * tiling.width * FLOAT32_BYTES
    sum_bytes = positions * tiles * tiling.width * FLOAT32_BYTES
    bytes_for_filter = target.level2_bytes * 3 // 4 - sum_bytes
    fitting_blocks = [
        channels
        for channels in _divisors(shape.in_channels)
        if channels * bytes_per_channel_of_filter <= bytes_for_filter
    ]
    largest_block = fitting_blocks[-1] if fitting_blocks else 0
    if largest_block and largest_block >= min(MIN_CHANNELS_PER_BLOCK, shape.in_channels):
        yield replace(tiling, block=largest_block)


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
    lanes = target.lanes(FLOAT32_BYTES)
    transforms = GRADIENTS[shape.window]
    products = transforms.products
    # Transforms run along vectors of channels.
    if shape.out_channels < lanes or shape.in_channels < lanes:
        return None
    tile_rows, tile_columns = (emit.ceil_div(extent, transforms.size) for extent in (shape.height, shape.width))
    sum_bytes = products * shape.in_channels * shape.out_channels * shape.groups * FLOAT32_BYTES
    # Sums of all panels that exceed the caches would be read and written again in every block.
    is_local = sum_bytes > MAX_LEVEL2_SIZES_OF_SUMS * target.level2_bytes
    results = _least_padded_width(shape.out_channels, MAX_PANEL_CHANNELS // (2 if is_local else 1), lanes)
    channels = _least_padded_width(shape.in_channels, MAX_PANEL_CHANNELS // 2, lanes)
    rows = shape.images * tile_rows
    if not is_local:
        max_block_bytes = MAX_LEVEL2_SIZES_OF_BLOCK * target.level2_bytes
        operand_channels = (shape.in_channels + shape.out_channels) * shape.groups
        bytes_per_row = products * tile_columns * operand_channels * FLOAT32_BYTES
        rows = max(count for count in _divisors(rows) if count == 1 or count * bytes_per_row <= max_block_bytes)
    tiling = FilterTiling(transforms, rows, channels, results, is_local)
    positions = shape.images * shape.height * shape.width
    direct_products = positions * shape.window**2 * shape.in_channels * shape.out_channels * shape.groups
    direct_cycles = needed_share * direct_products / lanes / MULTIPLY_ADDS_PER_CYCLE / target.cores / EFFICIENCY
    is_faster = _filter_gradient_cycles(shape, tiling, target) * REQUIRED_SPEEDUP < direct_cycles
    default = tiling if is_faster else None
    return choice("winograd", default, lambda: [None, tiling], lambda option: "yes" if option else "no")


def _least_padded_width(extent: int, limit: int, lanes: int) -> int:
    """Returns the panel width, a multiple of `lanes` up to `limit`, that needs the least padding to cover an extent.

    Of equally good widths the widest is returned.
    """
    widths = range(lanes, max(lanes, limit) + 1, lanes)
    return min(widths, key=lambda width: (emit.round_up(extent, width), -width))


def _filter_gradient_cycles(shape: Shape, tiling: FilterTiling, target: CpuTarget) -> float:
    """Estimates the cycles of a filter gradient by Winograd's method.

    The estimate is the sum of the cycles for the matrix products, for their sums, for storing and loading the
    transformed operands, and for the transforms.

    Args:
        shape: the sizes of the convolution.
        tiling: the tiles and panels of the filter gradient.
        target: the CPU.
    """
    lanes = target.lanes(FLOAT32_BYTES)
    products = tiling.transforms.products
    tiles = shape.images * tiling.tiles(shape.height) * tiling.tiles(shape.width)
    # Both kinds of channels are padded to full panels.
    in_channels = emit.round_up(shape.in_channels, tiling.channels)
    out_channels = emit.round_up(shape.out_channels, tiling.results)
    operand_channels = (in_channels + out_channels) * shape.groups
    filter_items = in_channels * out_channels * shape.groups
    blocks = shape.images * tiling.tiles(shape.height) // tiling.rows
    cycles_per_product_of_tiles = tiles / lanes / MULTIPLY_ADDS_PER_CYCLE / EFFICIENCY
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
    lanes = target.lanes(FLOAT32_BYTES)
    products = tiling.transforms.products
    transform_cycles = CYCLES_PER_TILE_TRANSFORM[tiling.transforms.side]
    # Of one task:
    tiles = tiling.rows * tiling.tiles(shape.width)
    out_channels = tiling.panels(shape) * tiling.width / tiling.groups
    transforms = tiles * (shape.in_channels * shape.groups + out_channels) / lanes * transform_cycles
    panel_cycles = _matrix_product_cycles(tiles, tiling.width // lanes, shape.in_channels, target)
    matrix_products = products * out_channels / tiling.width * panel_cycles
    filter_bytes = products * shape.in_channels * out_channels * FLOAT32_BYTES
    is_cached = filter_bytes * min(tiling.groups, target.cores) <= target.level2_bytes // 2
    fetch_cycles = filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_cached else CYCLES_PER_MEMORY_BYTE)
    # Transformed inputs that don't stay in the level-2 cache are fetched again for each panel.
    if _task_bytes(shape, tiling) > target.level2_bytes:
        input_bytes = products * tiles * shape.in_channels * FLOAT32_BYTES
        fetch_cycles += input_bytes * out_channels / tiling.width * CYCLES_PER_LEVEL3_BYTE
    task_cycles = transforms + max(matrix_products / EFFICIENCY, fetch_cycles) + CYCLES_PER_TASK
    tasks = shape.images * tiling.tiles(shape.height) // tiling.rows * tiling.groups
    total = emit.ceil_div(tasks, target.cores) * task_cycles
    # A constant filter is transformed once, before the first call.
    if is_constant:
        return total
    # Vectors of windows that each core transforms and stores.
    vectors = shape.in_channels * shape.out_channels * shape.groups / lanes / target.cores
    fits_cache = filter_bytes * tiling.groups <= target.level2_bytes // 2
    cycles_per_byte = CYCLES_PER_LEVEL2_BYTE if fits_cache else CYCLES_PER_WRITTEN_BYTE
    return total + vectors * (transform_cycles + products * lanes * FLOAT32_BYTES * cycles_per_byte)


def _estimated_cycles_with_blocks(shape: Shape, tiling: Tiling, target: CpuTarget) -> float:
    """Estimates the cycles of a Winograd convolution that is tiled with blocks of input channels.

    Each task takes one panel of all tiles. It reads all transformed inputs, and transforms its part of the filter.

    Args:
        shape: the sizes of the convolution.
        tiling: the tiling, with all tiles in a task.
        target: the CPU.
    """
    lanes = target.lanes(FLOAT32_BYTES)
    products = tiling.transforms.products
    transform_cycles = CYCLES_PER_TILE_TRANSFORM[tiling.transforms.side]
    filter_transform_cycles = CYCLES_PER_FILTER_TRANSFORM[tiling.transforms.side]
    tiles = tiling.rows * tiling.tiles(shape.width)
    width = tiling.width
    # All cores transform the inputs, then each task computes a panel.
    input_cycles = tiles * shape.in_channels * shape.groups / lanes * transform_cycles / target.cores
    block_cycles = _matrix_product_cycles(tiles, width // lanes, tiling.block, target)
    matrix_products = products * shape.in_channels // tiling.block * block_cycles
    fetched_inputs = products * tiles * shape.in_channels * FLOAT32_BYTES * CYCLES_PER_LEVEL3_BYTE
    fetched_filter = shape.window**2 * shape.in_channels * width * FLOAT32_BYTES * CYCLES_PER_MEMORY_BYTE
    transforms = (shape.in_channels * filter_transform_cycles + tiles * transform_cycles) * width / lanes
    task_cycles = matrix_products / EFFICIENCY + fetched_inputs + fetched_filter + transforms + CYCLES_PER_TASK
    tasks_per_core = emit.ceil_div(tiling.panels(shape), target.cores)
    return input_cycles + tasks_per_core * task_cycles + CYCLES_PER_TASK


def _matrix_product_cycles(tiles: int, vectors: int, channels: int, target: CpuTarget) -> float:
    """Estimates the cycles of one matrix product of all Winograd tiles with a panel of the transformed filter.

    Args:
        tiles: the number of Winograd tiles, the rows of the product.
        vectors: the vectors of output channels in the panel, the columns of the product.
        channels: the input channels that are summed over.
        target: the CPU.
    """
    # The sums of a register tile are in registers. So are a row of vectors of the filter, and two temporary values.
    max_height = max(1, (target.vector_registers - 2 - vectors) // vectors)
    register_tiles = emit.ceil_div(tiles, max_height)
    register_tile_height = emit.ceil_div(tiles, register_tiles)
    loads = Loads(CYCLES_PER_LOAD)
    cycles_per_channel = sum(
        count * tile_cycles(height, vectors, loads) for height, count in covering_tiles(tiles, register_tile_height)
    )
    # Each vector of sums is loaded and stored once.
    return cycles_per_channel * channels + 2 * tiles * vectors


def _direct_cycles(shape: Shape, is_constant: bool, target: CpuTarget) -> float:
    """Estimates the cycles of a direct convolution per core, with the packing of a filter that exceeds the cache.

    The estimate is the larger of the cycles for its multiply-adds and those for loading the filter. A constant filter
    is packed before the first call, so its packing isn't counted.

    Args:
        shape: the sizes of the convolution.
        is_constant: whether the filter is the same in every call.
        target: the CPU.
    """
    positions = shape.images * shape.height * shape.width
    taps = shape.window**2 * shape.in_channels
    all_out_channels = shape.out_channels * shape.groups
    vector_multiply_adds = positions * taps * all_out_channels / target.lanes(FLOAT32_BYTES)
    arithmetic_cycles = vector_multiply_adds / MULTIPLY_ADDS_PER_CYCLE / target.cores / EFFICIENCY
    filter_bytes = taps * all_out_channels * FLOAT32_BYTES / target.cores
    is_cached = filter_bytes <= target.level2_bytes // 2
    load_cycles = filter_bytes * (CYCLES_PER_LEVEL2_BYTE if is_cached else CYCLES_PER_MEMORY_BYTE)
    packing_cycles = 0.0 if is_constant or is_cached else filter_bytes * CYCLES_PER_WRITTEN_BYTE
    return packing_cycles + max(arithmetic_cycles, load_cycles)
