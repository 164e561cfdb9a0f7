"""Plans a reduction: chooses the vector axis, the register tile and the packing, by a small cost model of the core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations, product
from math import prod
from typing import NamedTuple

from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, has_calls, variables
from tvtf.passes.schedule.cpu.parallel_threshold import is_size_parameter
from tvtf.passes.schedule.cpu.target import BITS_PER_BYTE, CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import (
    ALONG_RESULTS,
    ALONG_TERMS,
    ALONG_TRANSPOSED_TERMS,
    MIN_REUSE_TO_PACK,
    OPERATIONS_PER_CYCLE,
    PAGE_BYTES,
    UNKNOWN_SIZE,
    default_direction,
    directions,
    has_reused_operand,
    last_non_unit_axis,
    non_unit_axes,
    operand_to_transpose,
    operands_of,
    reuse,
    runs_along,
    vector_operand_bytes,
    vector_operands_of,
    vector_result_axis,
)

MAX_TILE_VECTORS = 8
"""Vectors in a row of a register tile, at most."""

# The core's costs, in cycles.
ADD_LATENCY_CYCLES = 4
"""From the start of a vector addition to its result."""
LOOP_CYCLES_PER_TERM = 0.25
"""Loop overhead per term: of two tiles with the same work per result, the larger one is better."""
CYCLES_PER_LOAD = 0.1
"""Of a load from the level-1 cache, in addition to the arithmetic, which it overlaps with most of the time."""
CYCLES_PER_FAR_VECTOR = 6.0
"""Of a load of a vector from memory, for an operand that exceeds every cache of a core."""

# When to pack an operand: to copy it into panels, in the order in which tiles read it. Reuse is the number of reads per element.
LONG_ROW_BYTES = 1024
MIN_REUSE_TO_PACK_LONG_ROWS = 256
MIN_ROWS_TO_PACK_PAGE_SIZED_ROWS = 1024
"""Rows that each begin on another page share a few cache sets, which so many rows exceed."""
MIN_REUSE_TO_PACK_PAGE_SIZED_ROWS = 64
TLB_REACH_BYTES = 256 << 10
"""The reach of the first-level TLB (64 pages of 4 KiB): operands within it are packed only if read very often."""
MIN_REUSE_TO_PACK_ALWAYS = 1024
MAX_PACKED_BYTES = 64 << 20

# Short sums: storing many results at once stalls the next tile, so that smaller tiles are better.
MAX_TERMS_OF_SHORT_SUM = 128
MAX_TILE_BYTES_OF_SHORT_SUM = 1024
MAX_SLOWDOWN_OF_SMALL_TILE = 1.06
"""Factor by which a smaller tile's estimated cycles may exceed those of the best one."""
MAX_TERMS_OF_STORE_BOUND_SUM = 32
"""Such sums take hardly longer than storing them, as for images of few channels: best are tiles that store full cache lines."""
CACHE_LINE_VECTORS = 4
"""Vectors stored at once with which a tile stores full cache lines."""
VECTORS_TO_SATURATE_MEMORY = 4
"""Vectors of a tile that suffice where memory sets the pace."""

# When to pad an operand's rows to full vectors: narrow vectors among full ones slow down a wide tile.
MIN_REUSE_TO_PAD = 256
MIN_VECTORS_OF_WIDE_TILE = 3
NARROW_VECTOR_BYTES = 16
MAX_VECTORS_OF_SHORT_ROW = 6

MIN_TERMS_TO_SLICE = 16
"""Terms of a sum that is split into slices, at least, in units of the square root of the number of results."""
VECTORS_ALONG_TERMS = 4
"""Vectors of terms that a dot product sums at once by default, to hide the latency of an addition."""
TRIED_ROW_TILES: dict[int, list[tuple[int, ...]]] = {
    1: [(1,), (2,), (4,), (12,), (16,)],
    2: list(product((1, 2, 3, 4, 6, 8), repeat=2)),
}
"""The register tiles of dot products that tuning tries, as heights along one or two axes."""
USUAL_TILE_ROWS = 8
"""Rows of a tile that are assumed before it is planned."""
TILES_TO_TRY = 24
"""Of the tiles with the fewest estimated cycles, the number among which tuning chooses."""


class RegisterTile(NamedTuple):
    """Results that are held in vector registers while their terms are added: some vectors in each of some rows.

    `row_sizes` are the numbers of rows along each row axis.
    """

    vectors: int
    row_sizes: dict[Var, int]


@dataclass(frozen=True)
class Packing:
    """An operand to pack: to copy into panels, each of `width` indices along an axis and contiguous in memory."""

    load: TensorLoad
    axis: Axis
    width: int


@dataclass(frozen=True)
class Loads:
    """The cost of loads to a register tile, in cycles: `per_load` in addition to arithmetic, `per_far_vector` of a far operand.

    Each row loads one element; with `are_all_vectors`, a vector for each of its results, as in depthwise convolutions.
    """

    per_load: float = 0.0
    per_far_vector: float = 0.0
    are_all_vectors: bool = False


@dataclass(frozen=True)
class Plan:
    """How to run one reduction.

    Vectors run along the axis `vector`. It is a result axis (each lane is a result), or with `along_terms` a reduction
    axis (lanes are combined at the end). `sizes` are the register tile's extents per result axis. `padded` is the
    number of lanes in which the last vector of a row is summed; it is 0 unless all operands loaded as vectors are
    packed with padding. `transposed` is an operand to transpose; vectors then run along its memory.
    """

    vector: Axis
    along_terms: bool
    lanes: int
    vectors: int
    sizes: dict[Var, int] = field(default_factory=dict)
    packed: tuple[Packing, ...] = ()
    padded: int = 0
    transposed: TensorLoad | None = None

    @property
    def width(self) -> int:
        """The extent of a tile along the vector axis."""
        return self.lanes * self.vectors


def plan_reduction(stage: Stage, target: CpuTarget) -> Plan | None:
    """Plans a reduction: the direction of its vectors, its register tile, and the operands to pack or transpose.

    Returns None if the reduction has no result axis and no contiguous reduction axis.
    """
    operands = operands_of(stage)
    lanes = target.lanes(stage.item_bytes)
    column = vector_result_axis(stage, operands, lanes)
    reduction_axis = last_non_unit_axis(stage.reduce)
    default = default_direction(stage, reduction_axis, column, operands, target)
    direction = choice("vectors along", default, partial(directions, stage, reduction_axis, column, operands))
    if direction == ALONG_RESULTS and column is not None:
        return _plan_along_results(stage, column, operands, target)
    if reduction_axis is None:
        return None
    if direction == ALONG_TERMS:
        # Without contiguous terms and without a result axis, only scalar code is possible: vectors of one lane.
        is_scalar = column is None and not runs_along(operands, reduction_axis, lanes)
        return _plan_along_terms(stage, reduction_axis, operands, target, 1 if is_scalar else lanes)
    if direction == ALONG_TRANSPOSED_TERMS:
        plan = _plan_along_terms(stage, reduction_axis, operands, target, lanes)
        return replace(plan, transposed=operand_to_transpose(stage, reduction_axis, operands))
    return None


def _plan_along_results(stage: Stage, column: Axis, operands: list[TensorLoad], target: CpuTarget) -> Plan:
    """Plans a reduction whose vectors run along the result axis `column`: register tile, and operands to pack."""
    lanes = _lanes_for_row(stage, column, target.lanes(stage.item_bytes))
    row_axes = _row_axes(stage, column, operands)
    strided_operands: list[TensorLoad] = []
    contiguous_operands: list[TensorLoad] = []
    for operand in operands:
        is_strided = not access.is_contiguous(operand, column.var) and column.size is not None
        (strided_operands if is_strided else contiguous_operands).append(operand)
    vectors, sizes = _choose_register_tile(stage, column, row_axes, operands, contiguous_operands, target)
    width = lanes * vectors
    packings = [Packing(operand, column, width) for operand in strided_operands]
    for operand in contiguous_operands:
        pays_off = _is_packing_profitable(stage, operand, column, width)
        if pays_off or _is_padding_profitable(stage, operand, column, target):
            packings.append(Packing(operand, column, width))
    # Panels of rows are at least as high as a vector has lanes, and a multiple of the tile's height.
    packed_heights = {
        axis.var: sizes[axis.var] * max(1, lanes // sizes[axis.var]) for axis in row_axes if axis.var in sizes
    }
    if len(sizes) == 1:
        packings += [
            Packing(operand, axis, packed_heights[axis.var])
            for axis in row_axes
            for operand in contiguous_operands
            if axis.var in sizes and _is_packing_profitable(stage, operand, axis, sizes[axis.var])
        ]
    options = partial(_possible_packings, stage, column, width, packed_heights, operands)
    packings = choice("packed", packings, options, partial(_packing_label, operands, column))
    can_be_padded = _are_all_vectors_packed(stage, column, operands, packings)
    padded_lanes = _lanes_of_last_vector(stage, column, lanes, target) if can_be_padded else 0
    return Plan(column, False, lanes, vectors, sizes, tuple(packings), padded_lanes)


def _are_all_vectors_packed(stage: Stage, column: Axis, operands: list[TensorLoad], packings: list[Packing]) -> bool:
    """Returns whether all vectors along `column` come from packed operands, which are padded to full vectors.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        operands: the loads of the operands.
        packings: the operands to pack.
    """
    packed_operands = [packing.load for packing in packings if packing.axis is column]
    for operand in vector_operands_of(operands, column):
        if not any(operand.same_as(load) for load in packed_operands):
            return False
    # A value that depends on the index of the column itself isn't padded.
    return column.var not in access.free_variables(stage.value)


def _lanes_of_last_vector(stage: Stage, column: Axis, lanes: int, target: CpuTarget) -> int:
    """Returns the number of lanes in a row's last vector.

    It is less than a full vector only on processors that execute a vector in two halves. There, half a vector takes
    half the time.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        lanes: the number of elements of a full vector.
        target: the processor.
    """
    remaining = (column.size or 0) % lanes
    if not target.is_halved or remaining == 0:
        return lanes
    narrowest_lanes = NARROW_VECTOR_BYTES // stage.item_bytes
    return min(lanes, max(narrowest_lanes, emit.power_of_two_ceil(remaining)))


def _lanes_for_row(stage: Stage, column: Axis, lanes: int) -> int:
    """Returns the number of lanes of the vectors along a row of results.

    A row shorter than a vector gets the smallest power of two of lanes that holds the row. If that isn't the row's
    exact length, the operands must be packed with padding, which is profitable if they are read often.

    Args:
        stage: the reduction.
        column: the axis of the row.
        lanes: the number of elements of a full vector.
    """
    size = column.size
    if size is None or size <= 1:
        return lanes
    lanes_for_size = min(lanes, emit.power_of_two_ceil(size))
    vector_operands = vector_operands_of(operands_of(stage), column)
    are_read_often = all(reuse(stage, operand) >= MIN_REUSE_TO_PACK for operand in vector_operands)
    return lanes_for_size if lanes_for_size == size or are_read_often else lanes


def _choose_register_tile(
    stage: Stage,
    column: Axis,
    row_axes: list[Axis],
    operands: list[TensorLoad],
    far_operands: list[TensorLoad],
    target: CpuTarget,
) -> RegisterTile:
    """Returns the register tile: the number of vectors along the column axis, and the extent along each row axis.

    The default is the tile with the fewest estimated cycles, or a smaller one that is almost as fast. Tuning tries other
    fast tiles. `far_operands` are the contiguous operands, whose rows may be far from each other in memory.
    """
    lanes = _lanes_for_row(stage, column, target.lanes(stage.item_bytes))
    has_distant_rows = any(_has_distant_rows(stage, operand, column, lanes) for operand in far_operands)
    load_cycles = CYCLES_PER_LOAD if has_distant_rows else 0.0
    are_all_vectors = len(vector_operands_of(operands, column)) > 1
    max_vectors = _max_vectors(stage, column, far_operands, target)
    tiles = [tile for tile in _possible_tiles(row_axes, column, lanes, target) if tile.vectors <= max_vectors]
    loads = {
        vectors: Loads(load_cycles, _cycles_per_far_vector(stage, column, vectors, target), are_all_vectors)
        for vectors in {tile.vectors for tile in tiles}
    }

    def estimated(tile: RegisterTile) -> _EstimatedTile:
        cycles = _cycles_per_term(tile, row_axes, column, lanes, loads[tile.vectors])
        clipped_shares = [clip.saved_share(tile.row_sizes.get(clip.result.var, 1)) for clip in stage.clips]
        return _EstimatedTile(tile, cycles * prod(1 - share for share in clipped_shares))

    by_cost = sorted(map(estimated, tiles), key=lambda candidate: candidate.cost)
    best = _best_tile(stage, by_cost, column, lanes, has_distant_rows, target)
    return choice(
        "tile",
        best,
        lambda: [candidate.tile for candidate in by_cost[:TILES_TO_TRY]],
        lambda tile: _tile_label([*tile.row_sizes.values(), tile.vectors]),
    )


@dataclass(frozen=True)
class _EstimatedTile:
    """A register tile and its estimated cycles per term of the sums."""

    tile: RegisterTile
    cycles: float

    @property
    def cost(self) -> tuple[float, int]:
        """The cycles; of tiles with equal cycles, the one with fewer results is better."""
        return self.cycles, _vectors_of_results(self.tile)


def _best_tile(
    stage: Stage, by_cost: list[_EstimatedTile], column: Axis, lanes: int, has_distant_rows: bool, target: CpuTarget
) -> RegisterTile:
    """Returns the fastest register tile, or a tile that is almost as fast and better for another reason.

    After a short sum, storing many results at once stalls the next tile, so a smaller tile is preferred. A sum that
    reuses no operand waits for memory, so the tile with the least code is preferred.

    Args:
        stage: the reduction.
        by_cost: the possible tiles, the fastest first.
        column: the axis along which results are vectors of `lanes` elements.
        lanes: the number of elements of a vector.
        has_distant_rows: whether rows of an operand are far from each other in memory.
        target: the processor.
    """
    fastest = by_cost[0]
    max_cycles = MAX_SLOWDOWN_OF_SMALL_TILE * fastest.cycles
    nearly_as_fast = [candidate.tile for candidate in by_cost if candidate.cycles <= max_cycles]
    is_store_bound = _has_few_terms(stage, MAX_TERMS_OF_STORE_BOUND_SUM)
    small_tiles: list[RegisterTile] = []
    if has_distant_rows or is_store_bound:
        max_size = _max_vectors_of_results(stage, target)
        small_tiles = [tile for tile in nearly_as_fast if _vectors_of_results(tile) <= max_size]
    # `min` returns the first of equal tiles, which is the fastest of them.
    if small_tiles and is_store_bound:
        return min(small_tiles, key=lambda tile: -min(tile.vectors, CACHE_LINE_VECTORS))  # most full cache lines
    if small_tiles:
        return small_tiles[0]
    if not has_reused_operand(stage):
        enough_vectors = min(fastest.tile.vectors, VECTORS_TO_SATURATE_MEMORY)
        candidates = [tile for tile in nearly_as_fast if tile.vectors >= enough_vectors]
        return min(candidates, key=lambda tile: _vectors_in_code(tile, column, lanes))
    return fastest.tile


def _vectors_in_code(tile: RegisterTile, column: Axis, lanes: int) -> int:
    """Returns the number of vectors in the code for a row of tiles: two equal tiles are unrolled, more are a loop."""
    tiles = covering_tiles(emit.ceil_div(column.size or UNKNOWN_SIZE, lanes), tile.vectors)
    vectors_in_row = sum(vectors * (2 if count == 2 else 1) for vectors, count in tiles)
    return prod(tile.row_sizes.values()) * vectors_in_row


def _vectors_of_results(tile: RegisterTile) -> int:
    """Returns the number of vectors of results in a register tile."""
    return tile.vectors * prod(tile.row_sizes.values())


def _max_vectors_of_results(stage: Stage, target: CpuTarget) -> int:
    """Returns the largest tile, in vectors of results, whose stores don't stall after a short sum; 0 for a long sum."""
    if not _has_few_terms(stage, MAX_TERMS_OF_SHORT_SUM):
        return 0
    return MAX_TILE_BYTES_OF_SHORT_SUM * BITS_PER_BYTE // target.vector_bits


def _has_few_terms(stage: Stage, limit: int) -> bool:
    """Returns whether each result is a sum of at most `limit` terms; False for an unknown number of terms."""
    term_count = access.iteration_count(stage.reduce)
    return term_count is not None and term_count <= limit


def row_sizes(stage: Stage, target: CpuTarget) -> dict[Var, int]:
    """Estimates the extents of a register tile along its rows, before the reduction is planned."""
    column = vector_result_axis(stage, operands_of(stage), target.lanes(stage.item_bytes))
    return {} if column is None else _distribute_rows(_row_axes(stage, column, operands_of(stage)), USUAL_TILE_ROWS)


def _tile_label(sizes: Sequence[int]) -> str:
    """Returns the name of a tile in tuning records, such as `4 x 2`."""
    return " x ".join(map(str, sizes))


def _possible_packings(
    stage: Stage, column: Axis, width: int, packed_heights: dict[Var, int], operands: list[TensorLoad]
) -> Iterator[list[Packing]]:
    """Yields each set of operands that tuning may pack.

    There are none for a value with branches, which may not read all operands.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        width: the tile's width along this axis.
        packed_heights: the height of panels along row axes.
        operands: the operands.
    """
    if has_calls(stage.value):
        return
    widths = [(column, width)]
    if len(packed_heights) == 1:
        widths += [(axis, packed_heights[axis.var]) for axis in stage.spatial if axis.var in packed_heights]
    packings = [
        Packing(operand, axis, panel_width)
        for axis, panel_width in widths
        for operand in operands
        if axis.size is not None
        and access.load_stride(operand, axis.var) != 0
        and _packed_bytes(stage, operand) <= MAX_PACKED_BYTES
    ]
    for count in range(len(packings) + 1):
        yield from map(list, combinations(packings, count))


def _packed_bytes(stage: Stage, operand: TensorLoad) -> int:
    """Returns the size in bytes of an operand's packed copy. An operand that is too large isn't packed.

    If the size isn't static, a size that is too large is returned.
    """
    used_vars = variables(access.flat_offset(operand.source, list(operand.indices)))
    used_axes = tuple(axis for axis in stage.axes if axis.var in used_vars)
    element_count = access.iteration_count(used_axes)
    if element_count is None:
        element_count = MAX_PACKED_BYTES
    return element_count * stage.item_bytes


def _packing_label(operands: list[TensorLoad], column: Axis, packings: list[Packing]) -> str:
    """Returns a description of packed operands for tuning records, such as ``0 by rows, 1 by columns``.

    Operands are described by their positions and not by names, so that a record also applies to equal kernels of other
    programs.

    Args:
        operands: the loads of the reduction's operands.
        column: the axis of the vectors.
        packings: the operands to pack.
    """
    labels: list[str] = []
    for packing in packings:
        direction = "columns" if packing.axis is column else "rows"
        for position, operand in enumerate(operands):
            if operand.same_as(packing.load):
                labels.append(f"{position} by {direction}")
    return ", ".join(labels) or "none"


def _is_padding_profitable(stage: Stage, operand: TensorLoad, column: Axis, target: CpuTarget) -> bool:
    """Returns whether padding an operand's rows to full vectors is profitable.

    The operand must be read often, and its rows must end in a part of a vector.

    Args:
        stage: the reduction.
        operand: the load of the operand.
        column: the axis of the rows.
        target: the processor.
    """
    lanes = target.lanes(stage.item_bytes)
    if column.size is None or access.load_stride(operand, column.var) != 1:
        return False
    if vector_operand_bytes(stage, column) > target.level2_bytes:
        return False
    remaining = column.size % lanes
    if remaining == 0 or column.size > MAX_VECTORS_OF_SHORT_ROW * lanes:
        return False
    is_narrow = column.size < lanes or _is_narrow_vector(remaining, lanes, stage.item_bytes)
    if is_narrow and emit.power_of_two_floor(remaining) == remaining:  # a shorter vector is as fast
        return False
    # Only a product of two operands reuses one of them.
    return len(operands_of(stage)) == 2 and reuse(stage, operand) >= MIN_REUSE_TO_PAD


def _max_vectors(stage: Stage, column: Axis, contiguous_operands: list[TensorLoad], target: CpuTarget) -> int:
    """Returns the largest number of vectors in a row of a register tile.

    It is small if rows end in a narrow vector without padding. A wide tile would then have both full and narrow
    vectors, which is slow.

    Args:
        stage: the reduction.
        column: the axis along which results are vectors.
        contiguous_operands: the operands that are contiguous along this axis.
        target: the processor.
    """
    lanes = target.lanes(stage.item_bytes)
    row_length = column.size or 0
    is_short_row = lanes < row_length <= MAX_VECTORS_OF_SHORT_ROW * lanes
    if not is_short_row or not contiguous_operands:
        return MAX_TILE_VECTORS
    is_padded = any(_is_padding_profitable(stage, operand, column, target) for operand in contiguous_operands)
    ends_in_narrow_vector = _is_narrow_vector(row_length % lanes, lanes, stage.item_bytes)
    return MIN_VECTORS_OF_WIDE_TILE - 1 if ends_in_narrow_vector and not is_padded else MAX_TILE_VECTORS


def _is_narrow_vector(count: int, lanes: int, item_bytes: int) -> bool:
    """Returns whether LLVM widens `count` elements to a vector that is shorter than a full one."""
    return count <= lanes // 2 and count * item_bytes >= NARROW_VECTOR_BYTES


def _has_distant_rows(stage: Stage, operand: TensorLoad, axis: Axis, width: int) -> bool:
    """Returns whether an operand's rows are far apart in memory, and read so often that packing may be profitable.

    For a constant operand, it is sufficient that its rows are wider than a tile, since it is packed only once.

    Args:
        stage: the reduction.
        operand: the load of the operand.
        axis: the axis along which the operand is contiguous.
        width: the width of a tile along this axis.
    """
    if axis.size is None or access.load_stride(operand, axis.var) != 1 or axis.size <= width:
        return False
    if operand.source in stage.constants:
        return True
    if axis.size * stage.item_bytes < LONG_ROW_BYTES or len(operands_of(stage)) != 2:
        return False
    if _has_page_sized_rows(stage, axis):
        return reuse(stage, operand) >= MIN_REUSE_TO_PACK_PAGE_SIZED_ROWS
    return reuse(stage, operand) >= MIN_REUSE_TO_PACK_LONG_ROWS


def _is_packing_profitable(stage: Stage, operand: TensorLoad, axis: Axis, width: int) -> bool:
    """Returns whether packing an operand with distant rows is profitable: it is constant, read very often, or large."""
    if not _has_distant_rows(stage, operand, axis, width):
        return False
    if operand.source in stage.constants or reuse(stage, operand) >= MIN_REUSE_TO_PACK_ALWAYS:
        return True
    return _packed_bytes(stage, operand) > TLB_REACH_BYTES


def _has_page_sized_rows(stage: Stage, axis: Axis) -> bool:
    """Returns whether rows are a multiple of the page size apart, and too many for the cache sets that such rows share."""
    row_count = access.iteration_count(stage.reduce)
    if row_count is None or row_count < MIN_ROWS_TO_PACK_PAGE_SIZED_ROWS:
        return False
    return (axis.size or 0) * stage.item_bytes % PAGE_BYTES == 0


def _row_axes(stage: Stage, column: Axis, operands: list[TensorLoad]) -> list[Axis]:
    """Returns the result axes that can be rows of a register tile.

    Along such an axis, an operand that is loaded in vectors (along the axis `column`) is the same for all results.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        operands: the loads of the operands.
    """
    # Only a product of two operands reuses one of them.
    if len(operands) != 2:
        return []
    vector_operands = vector_operands_of(operands, column)

    def reuses_vectors(axis: Axis) -> bool:
        """Returns whether a vector operand is the same for all results along an axis."""
        return any(access.load_stride(operand, axis.var) == 0 for operand in vector_operands)

    candidates = [axis for axis in non_unit_axes(stage.spatial) if not axis.var.same_as(column.var)]
    return [axis for axis in candidates if not is_size_parameter(axis) and reuses_vectors(axis)]


def _possible_tiles(row_axes: list[Axis], column: Axis, lanes: int, target: CpuTarget) -> Iterator[RegisterTile]:
    """Yields the sizes of register tiles that fit the vector registers: vectors per row, and rows along each axis.

    Besides the results, a tile needs a register for each vector of an operand's row, and two temporaries.

    Args:
        row_axes: the axes along which a tile may have several rows.
        column: the axis along which results are vectors.
        lanes: the number of elements of a vector.
        target: the processor.
    """
    vectors_in_row = emit.ceil_div(column.size or UNKNOWN_SIZE, lanes)
    for vectors in range(1, min(MAX_TILE_VECTORS, vectors_in_row) + 1):
        result_registers = target.vector_registers - vectors - 2
        max_height = max(1, result_registers // vectors) if row_axes else 1
        for height in range(1, max_height + 1):
            yield RegisterTile(vectors, _distribute_rows(row_axes, height))


def _distribute_rows(row_axes: list[Axis], height: int) -> dict[Var, int]:
    """Distributes a register tile's rows over axes: as many as possible to the innermost axis, the rest to outer axes.

    Args:
        row_axes: the axes along which a tile may have rows, outermost first.
        height: the number of rows.

    Returns:
        The number of rows along each axis, without axes of a single row.
    """
    rows_along: dict[Var, int] = {}
    remaining_height = height
    for axis in reversed(row_axes):
        rows = min(remaining_height, axis.size or UNKNOWN_SIZE)
        if rows > 1:
            rows_along[axis.var] = rows
        remaining_height //= max(1, rows)
    return dict(reversed(rows_along.items()))


def _cycles_per_far_vector(stage: Stage, column: Axis, vectors: int, target: CpuTarget) -> float:
    """Estimates the extra cycles to load a vector of an operand that the level-2 cache doesn't hold between tiles.

    Returns 0 if the operand fits the cache, if the panel (the part that one tile reads) does, or if slices of the terms
    are summed instead.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        vectors: the number of vectors in a row of the tile.
        target: the processor.
    """
    term_count = access.iteration_count(stage.reduce)
    can_be_sliced = target.cores > 1 or len(non_unit_axes(stage.reduce)) > 1
    is_sliced = can_be_sliced and is_long_sum(stage, target)
    if term_count is None or is_sliced or vector_operand_bytes(stage, column) <= target.level2_bytes:
        return 0.0
    vector_bytes = target.vector_bits // BITS_PER_BYTE
    panel_bytes = term_count * vectors * vector_bytes
    return CYCLES_PER_FAR_VECTOR if panel_bytes > target.level2_bytes // 2 else 0.0


def is_long_sum(stage: Stage, target: CpuTarget) -> bool:
    """Returns whether a reduction has few enough results and many enough terms to split its terms into slices."""
    results = access.iteration_count(stage.spatial)
    if results is None or results * stage.item_bytes > target.level2_bytes // 4:
        return False
    term_count = prod(axis.size or UNKNOWN_SIZE for axis in stage.reduce)
    return term_count >= MIN_TERMS_TO_SLICE * max(1, results**0.5)


def _cycles_per_term(tile: RegisterTile, row_axes: list[Axis], column: Axis, lanes: int, loads: Loads) -> float:
    """Estimates the cycles to add one term to all results of a reduction with a register tile.

    If tiles don't divide the results, smaller tiles compute the remaining rows and vectors. They need more cycles per
    result.

    Args:
        tile: the register tile.
        row_axes: the axes of the tile's rows.
        column: the axis of the vectors.
        lanes: the results per vector.
        loads: the cost of loads.
    """
    total_cycles = 0.0
    vectors_in_row = emit.ceil_div(column.size or UNKNOWN_SIZE, lanes)
    for height, tiles_down in _covering_row_tiles(row_axes, tile.row_sizes):
        for vectors, tiles_across in covering_tiles(vectors_in_row, tile.vectors):
            total_cycles += tiles_down * tiles_across * tile_cycles(height, vectors, loads)
    return total_cycles


def _covering_row_tiles(row_axes: list[Axis], rows_along: dict[Var, int]) -> list[tuple[int, int]]:
    """Returns the heights of the register tiles that cover all rows, with the number of tiles of each height.

    Args:
        row_axes: the axes of the rows.
        rows_along: the rows of a full tile along each axis; an axis that isn't in it has one.
    """
    tiles = [(1, 1)]
    for axis in row_axes:
        tiles_along_axis = covering_tiles(axis.size or UNKNOWN_SIZE, rows_along.get(axis.var, 1))
        # Combine each tile of the previous axes with each tile along this axis.
        tiles = [
            (height * rows, count * count_along_axis)
            for height, count in tiles
            for rows, count_along_axis in tiles_along_axis
        ]
    return tiles


def covering_tiles(extent: int, size: int) -> list[tuple[int, int]]:
    """Returns the sizes of the tiles that cover an extent, full tiles and a remainder, with the number of each.

    For example, tiles of size 4 cover the extent 10 as ``[(4, 2), (2, 1)]``.
    """
    full_tiles, remainder = divmod(extent, size)
    tiles = [(size, full_tiles)] if full_tiles else []
    if remainder:
        tiles.append((remainder, 1))
    return tiles


def tile_cycles(height: int, vectors: int, loads: Loads) -> float:
    """Estimates the cycles to add one term to all results of a register tile.

    The slowest of four limits counts: the latency of an addition, arithmetic with concurrent loads, load instructions,
    and vectors from outer caches.

    Args:
        height: the rows of the tile.
        vectors: the vectors of a row.
        loads: what loads cost.
    """
    # A row loads a vector of the other operand for each vector, or one element that is broadcast to all vectors.
    loads_per_row = vectors if loads.are_all_vectors else 1
    load_count = height * loads_per_row + vectors
    arithmetic = height * vectors / OPERATIONS_PER_CYCLE + load_count * loads.per_load
    load_instructions = load_count / OPERATIONS_PER_CYCLE
    far_vectors = vectors * loads.per_far_vector
    return max(ADD_LATENCY_CYCLES, arithmetic, load_instructions, far_vectors) + LOOP_CYCLES_PER_TERM


def _plan_along_terms(
    stage: Stage, reduction_axis: Axis, operands: list[TensorLoad], target: CpuTarget, max_lanes: int
) -> Plan:
    """Plans a reduction whose vectors run along `reduction_axis`, as in dot products.

    Several vectors of terms, or several results, hide the latency of an addition.

    Args:
        stage: the reduction.
        reduction_axis: the axis of the vectors.
        operands: the operands of the reduction.
        target: the CPU.
        max_lanes: the lanes of a vector; a shorter axis gets fewer.
    """
    is_short = reduction_axis.size is not None and reduction_axis.size < VECTORS_ALONG_TERMS * max_lanes
    tiled_axes = _axes_with_reuse(stage, operands) if len(operands) == 2 else []
    # Tiles of 4 by 4 or 8 results are the default; tuning chooses among all that fit.
    default_heights: tuple[int, ...] = (4, 4) if len(tiled_axes) == 2 else (8,)
    heights = choice("tile", default_heights, lambda: _possible_row_tiles(len(tiled_axes), target), _tile_label)
    tile_sizes = {axis.var: min(height, axis.size or height) for axis, height in zip(tiled_axes, heights)}
    # The results of a tile hide the latency already.
    default_vectors = 1 if is_short or tile_sizes else VECTORS_ALONG_TERMS
    vectors = choice("vectors", default_vectors, lambda: () if is_short else (1, 2, 4, 8))
    lanes = max_lanes
    if reduction_axis.size is not None:
        lanes = emit.power_of_two_floor(min(max_lanes, reduction_axis.size))
    return Plan(reduction_axis, True, lanes, vectors, tile_sizes)


def _possible_row_tiles(axes: int, target: CpuTarget) -> Iterator[tuple[int, ...]]:
    """Yields the register tiles of dot products among which tuning chooses. Each result takes a register."""
    yield from (heights for heights in TRIED_ROW_TILES.get(axes, ()) if prod(heights) < target.vector_registers)


def _axes_with_reuse(stage: Stage, operands: list[TensorLoad]) -> list[Axis]:
    """Returns the result axes along which a register tile of dot products extends: at most one for each operand.

    For each operand, it is the last axis along which this operand changes and the other operand doesn't. A loaded
    vector of the other operand is then used for several results.
    """
    axes = non_unit_axes(stage.spatial)
    tiled_axes: list[Axis] = []
    left, right = operands
    for operand, other in ((left, right), (right, left)):
        for axis in reversed(axes):
            operand_changes = access.load_stride(operand, axis.var) != 0
            if operand_changes and access.load_stride(other, axis.var) == 0:
                tiled_axes.append(axis)
                break
    return tiled_axes
