"""Plans a reduction: chooses the vector axis, the register tile and the packing, by a small cost model of the core."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from math import prod

from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.passes.schedule.choices import choice
from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, has_calls, variables
from tvtf.passes.schedule.cpu.parallel_threshold import is_size_parameter
from tvtf.passes.schedule.cpu.target import BITS_PER_BYTE, CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import (
    OPERATIONS_PER_CYCLE,
    PAGE_BYTES,
    REUSE_THAT_PAYS_FOR_PACKING,
    UNKNOWN_SIZE,
    column_of,
    default_direction,
    directions,
    has_reused_operand,
    last_wide,
    reuse,
    runs_along,
    terms_of,
    transposable,
    vector_operand_bytes,
    vector_terms,
    wide_axes,
)

MAX_VECTORS = 8
LATENCY_CYCLES = 4
CYCLES_OF_A_LOOP = 0.25
"""Loop overhead per term: of two tiles with the same work per result, the larger one is better."""
# Loads overlap with arithmetic, but not always.
CYCLES_PER_LOAD = 0.1
# For a vector of an operand that exceeds every cache of a core.
CYCLES_PER_FAR_VECTOR = 6.0
ROW_VECTORS = 4
# Minimum number of reads per element with which packing an operand with long rows is profitable.
PROFITABLE_REUSE_OF_LONG_ROWS = 256
# The same for rows that each begin on another page, with more rows than the cache sets that such rows share.
PROFITABLE_REUSE_OF_PAGES = 64
ROWS_OF_MANY_PAGES = 1024
LONG_ROW_BYTES = 1024
# The reach of the first-level TLB (64 pages of 4 KiB): operands within it are packed only if read very often.
BYTES_WORTH_A_COPY = 256 << 10
ALWAYS_PROFITABLE_REUSE = 1024
# After short sums, storing many results at once stalls the next tile. A smaller tile may be slower by this factor.
TERMS_OF_A_SHORT_SUM = 128
BYTES_OF_A_SHORT_TILE = 1024
SHORT_TILES_SLACK = 1.06
# Sums that take hardly longer than storing them, as for images of few channels: best are tiles that store full cache lines.
MIN_TERMS = 32
VECTORS_STORED_AT_ONCE = 4
VECTORS_THAT_STREAM = 4
# Where a row ends in a part of a vector, its copy is padded: narrow vectors among full ones slow down a wide tile.
PROFITABLE_REUSE_FOR_PADDING = 256
VECTORS_OF_A_WIDE_TILE = 3
BYTES_OF_A_NARROW_VECTOR = 16
VECTORS_OF_A_SHORT_ROW = 6
# Minimum number of terms of a sum that is split into slices, in units of the square root of the number of results.
LONG_REDUCTION = 16
TILES_TO_TRY = 24
USUAL_ROWS = 8
MAX_BYTES_OF_PANELS = 64 << 20


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
        """The number of points along the vector axis that a tile takes."""
        return self.lanes * self.vectors


def plan_reduction(stage: Stage, target: CpuTarget) -> Plan | None:
    """Plans a reduction: the direction of its vectors, its register tile, and the operands to pack or transpose.

    Returns None if the reduction has no result axis and no contiguous reduction axis.
    """
    terms = terms_of(stage)
    column, row = column_of(stage, terms, target.lanes(stage.item_bytes)), last_wide(stage.reduce)
    options = partial(directions, stage, row, column, terms)
    # "turned terms": along terms, with one operand transposed. The strings stand in tuning records.
    match choice("vectors along", default_direction(stage, row, column, terms, target), options):
        case "results" if column is not None:
            return _plan_along_results(stage, column, terms, target)
        case "terms" if row is not None:
            # Without contiguous terms and without a result axis, scalar code (one lane) is all that is left.
            lanes = 1 if column is None and not runs_along(terms, row, target.lanes(stage.item_bytes)) else None
            return _plan_along_terms(stage, row, terms, target, lanes)
        case "turned terms" if row is not None:
            return replace(_plan_along_terms(stage, row, terms, target), transposed=transposable(stage, row, terms))
    return None


def _plan_along_results(stage: Stage, column: Axis, terms: list[TensorLoad], target: CpuTarget) -> Plan:
    """Plans a reduction whose vectors run along the result axis `column`: register tile, and operands to pack."""
    lanes = _lanes_for_row(stage, column, target.lanes(stage.item_bytes))
    row_axes = _row_axes(stage, column, terms)
    strided_operands = [
        term for term in terms if not access.is_contiguous(term, column.var) and column.size is not None
    ]
    contiguous_operands = [term for term in terms if not any(term.same_as(other) for other in strided_operands)]
    vectors, sizes = _choose_register_tile(stage, column, row_axes, terms, contiguous_operands, target)
    width = lanes * vectors
    packings = [Packing(term, column, width) for term in strided_operands]
    packings += [
        Packing(term, column, width)
        for term in contiguous_operands
        if _is_packing_profitable(stage, term, column, width) or _is_padding_profitable(stage, term, column, target)
    ]
    packed_heights = {
        axis.var: sizes[axis.var] * max(1, lanes // sizes[axis.var]) for axis in row_axes if axis.var in sizes
    }
    packings += [
        Packing(term, axis, packed_heights[axis.var])
        for axis in row_axes
        for term in contiguous_operands
        if len(sizes) == 1 and axis.var in sizes and _is_packing_profitable(stage, term, axis, sizes[axis.var])
    ]
    options = partial(_possible_packings, stage, column, width, packed_heights, terms)
    packings = choice("packed", packings, options, partial(_packing_label, terms, column))
    vector_operands = vector_terms(terms, column)
    are_all_packed = all(
        any(term.same_as(panel.load) and panel.axis is column for panel in packings) for term in vector_operands
    )
    are_all_packed = are_all_packed and column.var not in access.free_variables(stage.value)
    return Plan(
        column,
        False,
        lanes,
        vectors,
        sizes,
        tuple(packings),
        _lanes_of_last_vector(stage, column, lanes, target) * are_all_packed,
    )


def _lanes_of_last_vector(stage: Stage, column: Axis, lanes: int, target: CpuTarget) -> int:
    """Returns the number of lanes in a row's last vector.

    It is less than a full vector only on processors that execute a vector in halves, where that takes half the time.
    """
    remaining = (column.size or 0) % lanes
    # The largest power of two below `2 * remaining` is the smallest that holds the remaining results.
    shortest_lanes = max(BYTES_OF_A_NARROW_VECTOR // stage.item_bytes, _power_of_two(2 * remaining - 1))
    return shortest_lanes if target.is_halved and remaining and shortest_lanes < lanes else lanes


def _lanes_for_row(stage: Stage, column: Axis, lanes: int) -> int:
    """Returns the number of lanes of the vectors along a row of results.

    A row shorter than a vector gets the smallest power of two of lanes that holds the row. If that isn't the row's
    exact length, the operands must be packed with padding, which is profitable if they are read often.
    """
    size = column.size
    if size is None or size <= 1:
        return lanes
    # The largest power of two below `2 * size` is the smallest that holds the row.
    shortest = min(lanes, _power_of_two(2 * size - 1))
    vector_operands = vector_terms(terms_of(stage), column)
    are_read_often = all(reuse(stage, term) >= REUSE_THAT_PAYS_FOR_PACKING for term in vector_operands)
    return shortest if shortest == size or are_read_often else lanes


def _choose_register_tile(
    stage: Stage,
    column: Axis,
    row_axes: list[Axis],
    terms: list[TensorLoad],
    far_operands: list[TensorLoad],
    target: CpuTarget,
) -> tuple[int, dict[Var, int]]:
    """Returns the register tile: the number of vectors along the column axis, and the extent along each row axis.

    The default is the tile with the fewest estimated cycles. After a short sum, storing many results at once stalls the
    next tile. A smaller tile is then preferred if it is almost as fast. `far_operands` are the contiguous operands,
    whose rows may be far from each other in memory.
    """
    lanes = _lanes_for_row(stage, column, target.lanes(stage.item_bytes))
    load_cycles = (
        CYCLES_PER_LOAD if any(_has_distant_rows(stage, term, column, lanes) for term in far_operands) else 0.0
    )
    are_all_vectors = len(vector_terms(terms, column)) > 1

    max_vectors = _max_vectors(stage, column, far_operands, target)
    tiles = [tile for tile in _possible_tiles(row_axes, column, lanes, target) if tile[0] <= max_vectors]
    loads = {
        vectors: Loads(load_cycles, _cycles_per_far_vector(stage, column, vectors, target), are_all_vectors)
        for vectors in {vectors for vectors, _ in tiles}
    }

    def estimated(tile: tuple[int, dict[Var, int]]) -> tuple[float, int]:
        total, size = _cycles_per_step(*tile, row_axes, column, lanes, loads[tile[0]])
        return total * prod(1 - clip.saved_share(tile[1].get(clip.result.var, 1)) for clip in stage.clips), size

    estimates = {id(tile): estimated(tile) for tile in tiles}

    def cycles(tile: tuple[int, dict[Var, int]]) -> tuple[float, int]:
        return estimates[id(tile)]

    def fastest_tiles() -> list[tuple[int, dict[Var, int]]]:
        return sorted(tiles, key=cycles)[:TILES_TO_TRY]

    best, has_least_terms = min(tiles, key=cycles), _has_few_terms(stage, MIN_TERMS)
    small_tiles = [
        tile
        for tile in tiles
        if (load_cycles or has_least_terms) and _vectors_of_results(tile) <= _max_vectors_of_results(stage, target)
    ]
    # With hardly more terms than stores, the number of full cache lines that a tile stores decides, then the cycles.
    nearly_as_fast = [tile for tile in small_tiles if cycles(tile)[0] <= SHORT_TILES_SLACK * cycles(best)[0]]
    if nearly_as_fast:
        best = min(
            nearly_as_fast, key=lambda tile: (-min(tile[0], VECTORS_STORED_AT_ONCE) * has_least_terms, cycles(tile))
        )
    elif not has_reused_operand(stage):
        # Memory sets the pace, for which four vectors suffice: of such tiles, the one with the least code is taken.
        enough = min(best[0], VECTORS_THAT_STREAM)
        nearly_as_fast = [
            tile for tile in tiles if tile[0] >= enough and cycles(tile)[0] <= SHORT_TILES_SLACK * cycles(best)[0]
        ]
        best = min(nearly_as_fast, key=lambda tile: (_vectors_in_code(tile, column, lanes), cycles(tile)))
    return choice("tile", best, fastest_tiles, lambda tile: _tile_label([*tile[1].values(), tile[0]]))


def _vectors_in_code(tile: tuple[int, dict[Var, int]], column: Axis, lanes: int) -> int:
    """Returns the number of vectors in the code for a row of tiles: two equal tiles are unrolled, more are a loop."""
    tile_vectors, row_sizes = tile
    pieces = pieces_of(emit.ceil_div(column.size or UNKNOWN_SIZE, lanes), tile_vectors)
    return prod(row_sizes.values()) * sum(vectors * (2 if times == 2 else 1) for vectors, times in pieces)


def _vectors_of_results(tile: tuple[int, dict[Var, int]]) -> int:
    """Returns the number of vectors of results in a register tile."""
    vectors, row_sizes = tile
    return vectors * prod(row_sizes.values())


def _max_vectors_of_results(stage: Stage, target: CpuTarget) -> int:
    """Returns the largest tile, in vectors of results, whose stores don't stall after a short sum; 0 for a long sum."""
    is_short = _has_few_terms(stage, TERMS_OF_A_SHORT_SUM)
    return BYTES_OF_A_SHORT_TILE * BITS_PER_BYTE // target.vector_bits if is_short else 0


def _has_few_terms(stage: Stage, limit: int) -> bool:
    """Returns whether each result is a sum of at most `limit` terms; False for an unknown number of terms."""
    terms = access.iteration_count(stage.reduce)
    return terms is not None and terms <= limit


def row_sizes(stage: Stage, target: CpuTarget) -> dict[Var, int]:
    """Estimates the extents of a register tile along its rows, before the reduction is planned."""
    column = column_of(stage, terms_of(stage), target.lanes(stage.item_bytes))
    return {} if column is None else _distribute_rows(_row_axes(stage, column, terms_of(stage)), USUAL_ROWS)


def _tile_label(sizes: Sequence[int]) -> str:
    """Returns the name of a tile in tuning records, such as `4 x 2`."""
    return " x ".join(map(str, sizes))


def _possible_packings(
    stage: Stage, column: Axis, width: int, packed_heights: dict[Var, int], terms: list[TensorLoad]
) -> Iterator[list[Packing]]:
    """Yields each set of operands that tuning may pack.

    There are none for a value with branches, which may not read all operands.

    Args:
        stage: the reduction.
        column: the axis of the vectors.
        width: the tile's width along this axis.
        packed_heights: the height of panels along row axes.
        terms: the operands.
    """
    if has_calls(stage.value):
        return
    axes = [
        (column, width),
        *(
            (axis, packed_heights[axis.var])
            for axis in stage.spatial
            if len(packed_heights) == 1 and axis.var in packed_heights
        ),
    ]
    packings = [
        Packing(term, axis, panel_width)
        for axis, panel_width in axes
        for term in terms
        if axis.size is not None
        and access.load_stride(term, axis.var) != 0
        and _packed_bytes(stage, term) <= MAX_BYTES_OF_PANELS
    ]
    for count in range(len(packings) + 1):
        yield from map(list, combinations(packings, count))


def _packed_bytes(stage: Stage, term: TensorLoad) -> int:
    """Returns the size in bytes of an operand's packed copy.

    A size that isn't static counts as ``MAX_BYTES_OF_PANELS`` elements, more than is packed. Operands whose copy would
    be too large aren't packed.
    """
    used_vars = variables(access.flat_offset(term.source, list(term.indices)))
    points = access.iteration_count(tuple(axis for axis in stage.axes if axis.var in used_vars))
    return (MAX_BYTES_OF_PANELS if points is None else points) * stage.item_bytes


def _packing_label(terms: list[TensorLoad], column: Axis, packings: list[Packing]) -> str:
    """Returns a description of packed operands for tuning records, such as ``0 by rows, 1 by columns``.

    It is equal for all kernels of the same structure. A record then applies to kernels of other sizes and programs,
    too.
    """
    labels: list[str] = []
    for packing in packings:
        direction = "columns" if packing.axis is column else "rows"
        labels += [f"{position} by {direction}" for position, term in enumerate(terms) if term.same_as(packing.load)]
    return ", ".join(labels) or "none"


def _is_padding_profitable(stage: Stage, term: TensorLoad, column: Axis, target: CpuTarget) -> bool:
    """Returns whether padding an operand's rows to full vectors is profitable.

    That needs an operand that is read often, and rows that end in a part of a vector.
    """
    lanes = target.lanes(stage.item_bytes)
    if column.size is None or access.load_stride(term, column.var) != 1:
        return False
    if vector_operand_bytes(stage, column) > target.level2_bytes:
        return False
    remaining = column.size % lanes
    if remaining == 0 or column.size > VECTORS_OF_A_SHORT_ROW * lanes:
        return False
    is_narrow = column.size < lanes or _is_narrow_vector(remaining, lanes, stage.item_bytes)
    if is_narrow and _power_of_two(remaining) == remaining:  # a shorter vector is as good
        return False
    # Only a product of two operands reuses one of them.
    return len(terms_of(stage)) == 2 and reuse(stage, term) >= PROFITABLE_REUSE_FOR_PADDING


def _max_vectors(stage: Stage, column: Axis, contiguous_operands: list[TensorLoad], target: CpuTarget) -> int:
    """Returns the largest number of vectors in a row of a register tile.

    It is small if rows end in a narrow vector without padding: a wide tile would mix full and narrow vectors, which is
    slow.
    """
    lanes, size = target.lanes(stage.item_bytes), column.size or 0
    if not lanes < size <= VECTORS_OF_A_SHORT_ROW * lanes or not contiguous_operands:
        return MAX_VECTORS
    is_padded = any(_is_padding_profitable(stage, term, column, target) for term in contiguous_operands)
    mixes = _is_narrow_vector(size % lanes, lanes, stage.item_bytes) and not is_padded
    return VECTORS_OF_A_WIDE_TILE - 1 if mixes else MAX_VECTORS


def _is_narrow_vector(count: int, lanes: int, item_bytes: int) -> bool:
    """Returns whether LLVM widens `count` elements to a vector that is shorter than a full one."""
    return count <= lanes // 2 and count * item_bytes >= BYTES_OF_A_NARROW_VECTOR


def _has_distant_rows(stage: Stage, term: TensorLoad, axis: Axis, width: int) -> bool:
    """Returns whether an operand's rows are far apart in memory, and read so often that packing may be profitable.

    A constant operand always qualifies if its rows are wider than a tile: it is packed only once.
    """
    if axis.size is None or access.load_stride(term, axis.var) != 1 or axis.size <= width:
        return False
    if term.source in stage.constants:
        return True
    required_reuse = PROFITABLE_REUSE_OF_PAGES if _has_page_sized_rows(stage, axis) else PROFITABLE_REUSE_OF_LONG_ROWS
    is_long = axis.size * stage.item_bytes >= LONG_ROW_BYTES
    return is_long and len(terms_of(stage)) == 2 and reuse(stage, term) >= required_reuse


def _is_packing_profitable(stage: Stage, term: TensorLoad, axis: Axis, width: int) -> bool:
    """Returns whether packing an operand with distant rows is profitable: it is constant, read very often, or large."""
    if not _has_distant_rows(stage, term, axis, width):
        return False
    is_constant, is_read_often = term.source in stage.constants, reuse(stage, term) >= ALWAYS_PROFITABLE_REUSE
    return is_constant or is_read_often or _packed_bytes(stage, term) > BYTES_WORTH_A_COPY


def _has_page_sized_rows(stage: Stage, axis: Axis) -> bool:
    """Returns whether rows are a multiple of the page size apart, and too many for the cache sets that such rows share."""
    terms = access.iteration_count(stage.reduce)
    return (axis.size or 0) * stage.item_bytes % PAGE_BYTES == 0 and terms is not None and terms >= ROWS_OF_MANY_PAGES


def _row_axes(stage: Stage, column: Axis, terms: list[TensorLoad]) -> list[Axis]:
    """Returns the result axes that can be rows of a register tile.

    Along such an axis, an operand that is loaded in vectors (along the axis `column`) is the same for all results.
    """
    # Only a product of two operands reuses one of them.
    if len(terms) != 2:
        return []
    wide_results = [
        axis
        for axis in stage.spatial
        if not axis.var.same_as(column.var) and axis.size != 1 and not is_size_parameter(axis)
    ]
    vector_operands = vector_terms(terms, column)
    return [axis for axis in wide_results if any(access.load_stride(term, axis.var) == 0 for term in vector_operands)]


def _possible_tiles(
    row_axes: list[Axis], column: Axis, lanes: int, target: CpuTarget
) -> Iterator[tuple[int, dict[Var, int]]]:
    """Yields the sizes of register tiles that fit the vector registers: vectors per row, and rows along each axis.

    Besides the results, a tile needs a register for each vector of an operand's row, and two temporaries.
    """
    most_vectors = emit.ceil_div(column.size or UNKNOWN_SIZE, lanes)
    for vectors in range(1, min(MAX_VECTORS, most_vectors) + 1):
        max_height = (target.vector_registers - 2 - vectors) // vectors
        for height in range(1, max(1, max_height if row_axes else 1) + 1):
            yield vectors, _distribute_rows(row_axes, height)


def _distribute_rows(row_axes: list[Axis], height: int) -> dict[Var, int]:
    """Distributes a register tile's `height` rows over axes: as many as fit the innermost axis, the rest to outer axes.

    Returns the number of rows along each axis, without axes of a single row.
    """
    sizes: dict[Var, int] = {}
    for axis in reversed(row_axes):
        size = min(height, axis.size or UNKNOWN_SIZE)
        if size > 1:
            sizes[axis.var] = size
        height //= max(1, size)
    return dict(reversed(sizes.items()))


def _cycles_per_far_vector(stage: Stage, column: Axis, vectors: int, target: CpuTarget) -> float:
    """Estimates the extra cycles to load a vector of an operand that the level-2 cache doesn't hold between tiles.

    Returns 0 if the operand fits the cache, if the panel (the part that one tile reads) does, or if slices of the terms
    are summed instead.
    """
    terms = access.iteration_count(stage.reduce)
    is_sliced = (target.cores > 1 or len(wide_axes(stage.reduce)) > 1) and is_long_sum(stage, target)
    if terms is None or is_sliced or vector_operand_bytes(stage, column) <= target.level2_bytes:
        return 0.0
    panel_bytes = terms * vectors * target.vector_bits // BITS_PER_BYTE
    return CYCLES_PER_FAR_VECTOR if panel_bytes > target.level2_bytes // 2 else 0.0


def is_long_sum(stage: Stage, target: CpuTarget) -> bool:
    """Returns whether a reduction has few enough results and many enough terms to split its terms into slices."""
    results = access.iteration_count(stage.spatial)
    if results is None or results * stage.item_bytes > target.level2_bytes // 4:
        return False
    terms = prod(axis.size or UNKNOWN_SIZE for axis in stage.reduce)
    return terms >= LONG_REDUCTION * max(1, results**0.5)


def _cycles_per_step(
    vectors: int, sizes: dict[Var, int], row_axes: list[Axis], column: Axis, lanes: int, loads: Loads
) -> tuple[float, int]:
    """Estimates the cycles to add one term to all results with a register tile, and returns them with the tile's size.

    The size decides between equal estimates. Where tiles don't divide the results, smaller tiles compute the remaining
    rows and vectors, and are slower per result.

    Args:
        vectors: the vectors of a row of the tile.
        sizes: the rows of the tile along each row axis.
        row_axes: the row axes.
        column: the axis of the vectors.
        lanes: the results per vector.
        loads: what loads cost.
    """
    total_cycles = 0.0
    all_vectors = emit.ceil_div(column.size or UNKNOWN_SIZE, lanes)
    for height, row_count in _row_pieces(row_axes, sizes):
        for width, vector_count in pieces_of(all_vectors, vectors):
            total_cycles += row_count * vector_count * tile_cycles(height, width, loads)
    return total_cycles, vectors * prod(sizes.values())


def _row_pieces(row_axes: list[Axis], sizes: dict[Var, int]) -> list[tuple[int, int]]:
    """Returns the heights of the tiles that cover all rows, with the number of tiles of each height."""
    pieces = [(1, 1)]
    for axis in row_axes:
        pieces_of_axis = pieces_of(axis.size or UNKNOWN_SIZE, sizes.get(axis.var, 1))
        pieces = [(height * size, count * times) for height, count in pieces for size, times in pieces_of_axis]
    return pieces


def pieces_of(extent: int, size: int) -> list[tuple[int, int]]:
    """Splits an extent into pieces of a given size and a remainder; returns (size, count) of each kind.

    For example, extent 10 and size 4 give ``[(4, 2), (2, 1)]``.
    """
    whole_count, remainder = divmod(extent, size)
    return [(size, whole_count)] * bool(whole_count) + [(remainder, 1)] * bool(remainder)


def tile_cycles(height: int, vectors: int, loads: Loads) -> float:
    """Estimates the cycles to add one term to all results of a register tile.

    The slowest of four limits counts: the latency of an addition, arithmetic with concurrent loads, load instructions,
    and vectors from outer caches.

    Args:
        height: the rows of the tile.
        vectors: the vectors of a row.
        loads: what loads cost.
    """
    loads_per_row = vectors if loads.are_all_vectors else 1  # otherwise one element, broadcast to all vectors
    load_count = height * loads_per_row + vectors
    arithmetic = height * vectors / OPERATIONS_PER_CYCLE + load_count * loads.per_load
    load_instructions = load_count / OPERATIONS_PER_CYCLE
    far_vectors = vectors * loads.per_far_vector
    return max(LATENCY_CYCLES, arithmetic, load_instructions, far_vectors) + CYCLES_OF_A_LOOP


def _plan_along_terms(
    stage: Stage, row: Axis, terms: list[TensorLoad], target: CpuTarget, lanes: int | None = None
) -> Plan:
    """Plans a reduction whose vectors run along the reduction axis `row`, as in dot products.

    Several vectors of terms, or several results, hide the latency of an addition.
    """
    max_lanes = lanes or target.lanes(stage.item_bytes)
    is_short = row.size is not None and row.size < ROW_VECTORS * max_lanes
    tiled_axes = _axes_with_reuse(stage, terms) if len(terms) == 2 else []
    # Tiles of 4 by 4 or 8 results are the default; tuning chooses among all that fit.
    default_heights: tuple[int, ...] = (4, 4) if len(tiled_axes) == 2 else (8,)
    heights = choice("tile", default_heights, lambda: _possible_row_tiles(len(tiled_axes), target), _tile_label)
    tile_sizes = {axis.var: min(height, axis.size or height) for axis, height in zip(tiled_axes, heights)}
    # The results of a tile hide the latency already.
    default_vectors = 1 if is_short or tile_sizes else ROW_VECTORS
    vectors = choice("vectors", default_vectors, lambda: () if is_short else (1, 2, 4, 8))
    lanes_of_row = max_lanes if row.size is None else _power_of_two(min(max_lanes, row.size))
    return Plan(row, True, lanes_of_row, vectors, tile_sizes)


def _possible_row_tiles(axes: int, target: CpuTarget) -> Iterator[tuple[int, ...]]:
    """Yields the register tiles of dot products among which tuning chooses, as heights along one or two axes.

    Each result takes a register.
    """
    if axes == 1:
        yield from ((height,) for height in (1, 2, 4, 12, 16) if height < target.vector_registers)
    if axes == 2:
        for height in (1, 2, 3, 4, 6, 8):
            for width in (1, 2, 3, 4, 6, 8):
                if height * width < target.vector_registers:
                    yield height, width


def _power_of_two(limit: int) -> int:
    """Returns the largest power of two that isn't above a limit."""
    return 1 << (max(1, limit).bit_length() - 1)


def _axes_with_reuse(stage: Stage, terms: list[TensorLoad]) -> list[Axis]:
    """Returns the result axes along which a register tile of dot products extends: at most one for each operand.

    It is the last axis along which this operand changes and the other operand doesn't. One loaded vector of the other
    operand then serves several results.
    """
    axes = [axis for axis in stage.spatial if axis.size != 1]
    own_axes = [
        [axis for axis in axes if access.load_stride(term, axis.var) != 0 and access.load_stride(other, axis.var) == 0]
        for term, other in (terms, reversed(terms))
    ]
    return [axes_of_operand[-1] for axes_of_operand in own_axes if axes_of_operand]
