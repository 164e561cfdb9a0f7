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
from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.kernel import Axis, Stage, has_calls, variables
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
# Loads overlap with arithmetic, but not always.
CYCLES_PER_LOAD = 0.1
# For a vector of an operand that exceeds every cache of a core.
CYCLES_PER_FAR_VECTOR = 6.0
ROW_VECTORS = 4
# Reads of each element from which on packing an operand with long rows pays.
REUSE_THAT_PAYS_FOR_LONG_ROWS = 256
# The same where each row begins on another page, with more rows than the cache sets that such rows share.
REUSE_THAT_PAYS_FOR_PAGES = 64
ROWS_OF_MANY_PAGES = 1024
LONG_ROW_BYTES = 1024
# The reach of the first-level TLB (64 pages of 4 KiB): operands within it are packed only if read very often.
BYTES_WORTH_A_COPY = 256 << 10
REUSE_THAT_PAYS_ALWAYS = 1024
# After short sums, storing many results at once stalls the next tile. A smaller tile may be slower by this factor.
TERMS_OF_A_SHORT_SUM = 128
BYTES_OF_A_SHORT_TILE = 1024
SHORT_TILES_SLACK = 1.06
# Sums that take hardly longer than storing them, as for images of few channels: best are tiles that store whole lines.
MIN_TERMS = 32
VECTORS_STORED_AT_ONCE = 4
VECTORS_THAT_STREAM = 4
# Where a row ends in a part of a vector, its copy is padded: narrow vectors among whole ones slow down a wide tile.
REUSE_THAT_PAYS_FOR_PADDING = 256
VECTORS_OF_A_WIDE_TILE = 3
BYTES_OF_A_NARROW_VECTOR = 16
VECTORS_OF_A_SHORT_ROW = 6
# Terms of a sum, in units of the square root of the number of results, from which on it is cut into slices.
LONG_REDUCTION = 16
TILES_TO_TRY = 24
USUAL_ROWS = 8
MAX_BYTES_OF_PANELS = 64 << 20


@dataclass(frozen=True)
class Packing:
    """An operand to copy into panels of `width` points along an axis."""

    load: TensorLoad
    axis: Axis
    width: int


@dataclass(frozen=True)
class Loads:
    """What loads cost a tile: cycles of any load `beside` arithmetic, cycles of a vector of a `far` operand.

    Each row loads one item; with `are_all_vectors`, a vector for each of its results, as in depthwise convolutions.
    """

    beside: float = 0.0
    far: float = 0.0
    are_all_vectors: bool = False


@dataclass(frozen=True)
class Plan:
    """How to run one reduction.

    `vector` is a result axis (`along_rows` false: each lane is its own result) or the reduction axis to run along
    (`along_rows` true: lanes are combined at the end). `sizes` are the register tile's extents per result axis.
    `padded` is the number of lanes that the last vector of a row is summed with, if every operand read along the vector
    is packed into whole vectors, and else 0. `transposed` is an operand to transpose, so that vectors run along its
    memory.
    """

    vector: Axis
    along_rows: bool
    lanes: int
    vectors: int
    sizes: dict[Var, int] = field(default_factory=dict)
    packed: tuple[Packing, ...] = ()
    padded: int = 0
    transposed: TensorLoad | None = None

    @property
    def width(self) -> int:
        return self.lanes * self.vectors


def plan_reduction(stage: Stage, target: CpuTarget) -> Plan | None:
    """Returns the plan of a reduction; None if it has no result axis and no contiguous reduction axis."""
    terms = terms_of(stage)
    column, row = column_of(stage, terms, target.lanes(stage.item_bytes)), last_wide(stage.reduce)
    all_directions = partial(directions, stage, row, column, terms)
    match choice("vectors along", default_direction(stage, row, column, terms, target), all_directions):
        case "results" if column is not None:
            return _column_plan(stage, column, terms, target)
        case "terms" if row is not None:
            # Without contiguous terms and without a result axis, scalar code (one lane) is all that is left.
            lanes = 1 if column is None and not runs_along(terms, row, target.lanes(stage.item_bytes)) else None
            return _row_plan(stage, row, terms, target, lanes)
        case "turned terms" if row is not None:
            return replace(_row_plan(stage, row, terms, target), transposed=transposable(stage, row, terms))
    return None


def _column_plan(stage: Stage, column: Axis, terms: list[TensorLoad], target: CpuTarget) -> Plan:
    """Plans vectors along a result axis: the tile, and the operands to pack."""
    lanes = _lanes_of(stage, column, target.lanes(stage.item_bytes))
    rows = _row_axes(stage, column, terms)
    strided = [term for term in terms if not access.is_contiguous(term, column.var) and column.size is not None]
    far = [term for term in terms if not any(term.same_as(other) for other in strided)]
    vectors, sizes = _tile(stage, column, rows, terms, far, target)
    width = lanes * vectors
    panels = [Packing(term, column, width) for term in strided]
    panels += [
        Packing(term, column, width)
        for term in far
        if _is_worth_a_copy(stage, term, column, width) or _is_ragged(stage, term, column, target)
    ]
    high = {axis.var: sizes[axis.var] * max(1, lanes // sizes[axis.var]) for axis in rows if axis.var in sizes}
    panels += [
        Packing(term, axis, high[axis.var])
        for axis in rows
        for term in far
        if len(sizes) == 1 and axis.var in sizes and _is_worth_a_copy(stage, term, axis, sizes[axis.var])
    ]
    options = partial(_packings, stage, column, width, high, terms)
    panels = choice("packed", panels, options, partial(_places, terms, column))
    along = vector_terms(terms, column)
    padded = all(any(term.same_as(panel.load) and panel.axis is column for panel in panels) for term in along)
    padded = padded and column.var not in access.free_variables(stage.value)
    return Plan(column, False, lanes, vectors, sizes, tuple(panels), _last_lanes(stage, column, lanes, target) * padded)


def _last_lanes(stage: Stage, column: Axis, lanes: int, target: CpuTarget) -> int:
    """Returns the lanes of a row's last vector: half of all or fewer if that takes half the time."""
    rest = (column.size or 0) % lanes
    short = max(BYTES_OF_A_NARROW_VECTOR // stage.item_bytes, _power_of_two(2 * rest - 1))
    return short if target.is_halved and rest and short < lanes else lanes


def _lanes_of(stage: Stage, column: Axis, lanes: int) -> int:
    """Returns the lanes of a vector; for a row shorter than a vector, the smallest power of two that holds it."""
    size = column.size
    if size is None or size <= 1:
        return lanes
    shortest = min(lanes, _power_of_two(2 * size - 1))
    is_read_often = all(
        reuse(stage, term) >= REUSE_THAT_PAYS_FOR_PACKING for term in vector_terms(terms_of(stage), column)
    )
    return shortest if shortest == size or is_read_often else lanes


def _tile(
    stage: Stage, column: Axis, rows: list[Axis], terms: list[TensorLoad], far: list[TensorLoad], target: CpuTarget
) -> tuple[int, dict[Var, int]]:
    """Returns the register tile: its vectors along the column axis, and its size along each row axis.

    Of all tiles that fit the registers, the cost model's fastest is the default. After a short sum, storing many results at
    once stalls the next tile, so a smaller tile is preferred if it is almost as fast. ``far`` are the operands whose rows
    may lie far apart in memory.
    """
    lanes = _lanes_of(stage, column, target.lanes(stage.item_bytes))
    load = CYCLES_PER_LOAD if any(_has_long_rows(stage, term, column, lanes) for term in far) else 0.0
    both = len(vector_terms(terms, column)) > 1

    def cycles(tile: tuple[int, dict[Var, int]]) -> tuple[float, int]:
        loads = Loads(load, _cycles_to_fetch(stage, column, tile[0], target), both)
        total, size = _cycles(*tile, rows, column, lanes, loads)
        return total * prod(1 - clip.saved(tile[1].get(clip.result.var, 1)) for clip in stage.clips), size

    widest = _widest(stage, column, far, target)
    tiles = [tile for tile in _tiles(rows, column, lanes, target) if tile[0] <= widest]

    def quickest() -> list[tuple[int, dict[Var, int]]]:
        return sorted(tiles, key=cycles)[:TILES_TO_TRY]

    best, is_least = min(tiles, key=cycles), _has_few_terms(stage, MIN_TERMS)
    few = [tile for tile in tiles if (load or is_least) and _results(tile) <= _most_results(stage, target)]
    # With hardly more terms than stores, the number of whole lines that a tile stores decides, then the cycles.
    near = [tile for tile in few if cycles(tile)[0] <= SHORT_TILES_SLACK * cycles(best)[0]]
    if near:
        best = min(near, key=lambda tile: (-min(tile[0], VECTORS_STORED_AT_ONCE) * is_least, cycles(tile)))
    elif not has_reused_operand(stage):
        # Memory sets the pace, for which four vectors suffice: of such tiles, the one with the least code is taken.
        enough = min(best[0], VECTORS_THAT_STREAM)
        near = [t for t in tiles if t[0] >= enough and cycles(t)[0] <= SHORT_TILES_SLACK * cycles(best)[0]]
        best = min(near, key=lambda tile: (_code_size(tile, column, lanes), cycles(tile)))
    return choice("tile", best, quickest, lambda tile: _times([*tile[1].values(), tile[0]]))


def _code_size(tile: tuple[int, dict[Var, int]], column: Axis, lanes: int) -> int:
    """Returns how many vectors the code of a row of tiles has; two tiles are written out, more are a loop."""
    pieces = pieces_of(-(-(column.size or UNKNOWN_SIZE) // lanes), tile[0])
    return prod(tile[1].values()) * sum(wide * (2 if times == 2 else 1) for wide, times in pieces)


def _results(tile: tuple[int, dict[Var, int]]) -> int:
    return tile[0] * prod(tile[1].values())


def _most_results(stage: Stage, target: CpuTarget) -> int:
    """Returns how many vectors of results a tile should have at most, independent of the number of registers."""
    is_short = _has_few_terms(stage, TERMS_OF_A_SHORT_SUM)
    return BYTES_OF_A_SHORT_TILE * BITS_PER_BYTE // target.vector_bits if is_short else 0


def _has_few_terms(stage: Stage, most: int) -> bool:
    depth = access.points(stage.reduce)
    return depth is not None and depth <= most


def row_sizes(stage: Stage, target: CpuTarget) -> dict[Var, int]:
    """Estimates a tile's extents along its rows, before anything is planned."""
    column = column_of(stage, terms_of(stage), target.lanes(stage.item_bytes))
    return {} if column is None else _spread(_row_axes(stage, column, terms_of(stage)), USUAL_ROWS)


def _times(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _packings(
    stage: Stage, column: Axis, width: int, high: dict[Var, int], terms: list[TensorLoad]
) -> Iterator[list[Packing]]:
    """Yields each set of operands to pack; none for a value with choices, which may not read all operands."""
    if has_calls(stage.value):
        return
    axes = [(column, width), *((axis, high[axis.var]) for axis in stage.spatial if len(high) == 1 and axis.var in high)]
    known = [
        Packing(term, axis, size)
        for axis, size in axes
        for term in terms
        if axis.size is not None
        and access.load_stride(term, axis.var) != 0
        and _panel_bytes(stage, term) <= MAX_BYTES_OF_PANELS
    ]
    for count in range(len(known) + 1):
        yield from map(list, combinations(known, count))


def _panel_bytes(stage: Stage, term: TensorLoad) -> int:
    used = variables(access.flat_offset(term.source, list(term.indices)))
    points = access.points(tuple(axis for axis in stage.axes if axis.var in used))
    return (MAX_BYTES_OF_PANELS if points is None else points) * stage.item_bytes


def _places(terms: list[TensorLoad], column: Axis, panels: list[Packing]) -> str:
    """Describes panels in words that are the same for every kernel of the same structure."""
    names = [
        f"{number} by {'columns' if panel.axis is column else 'rows'}"
        for panel in panels
        for number, term in enumerate(terms)
        if term.same_as(panel.load)
    ]
    return ", ".join(names) or "none"


def _is_ragged(stage: Stage, term: TensorLoad, column: Axis, target: CpuTarget) -> bool:
    """Returns whether an operand is read often along short rows that don't fill whole vectors, so that a padded copy pays."""
    lanes = target.lanes(stage.item_bytes)
    if column.size is None or access.load_stride(term, column.var) != 1:
        return False
    if vector_operand_bytes(stage, column) > target.level2_bytes:
        return False
    rest = column.size % lanes
    if rest == 0 or column.size > VECTORS_OF_A_SHORT_ROW * lanes:
        return False
    is_narrow = column.size < lanes or _is_narrow_vector(rest, lanes, stage.item_bytes)
    if is_narrow and _power_of_two(rest) == rest:  # a shorter vector is as good
        return False
    return len(terms_of(stage)) == 2 and reuse(stage, term) >= REUSE_THAT_PAYS_FOR_PADDING


def _widest(stage: Stage, column: Axis, far: list[TensorLoad], target: CpuTarget) -> int:
    """Returns the most vectors of a tile: few if rows end in a narrow vector that isn't padded.

    A wide tile would mix whole vectors with narrow ones, which slows it down.
    """
    lanes, size = target.lanes(stage.item_bytes), column.size or 0
    if not lanes < size <= VECTORS_OF_A_SHORT_ROW * lanes or not far:
        return MAX_VECTORS
    is_padded = any(_is_ragged(stage, term, column, target) for term in far)
    mixes = _is_narrow_vector(size % lanes, lanes, stage.item_bytes) and not is_padded
    return VECTORS_OF_A_WIDE_TILE - 1 if mixes else MAX_VECTORS


def _is_narrow_vector(items: int, lanes: int, item_bytes: int) -> bool:
    """Returns whether LLVM widens this many items to a vector shorter than a whole one."""
    return items <= lanes // 2 and items * item_bytes >= BYTES_OF_A_NARROW_VECTOR


def _has_long_rows(stage: Stage, term: TensorLoad, axis: Axis, width: int) -> bool:
    """Returns whether tiles of an operand along an axis are far apart in memory, so that packing pays if it is read often."""
    if axis.size is None or access.load_stride(term, axis.var) != 1 or axis.size <= width:
        return False
    if term.source in stage.constants:
        return True
    enough = REUSE_THAT_PAYS_FOR_PAGES if _is_page_a_row(stage, axis) else REUSE_THAT_PAYS_FOR_LONG_ROWS
    far = axis.size * stage.item_bytes >= LONG_ROW_BYTES
    return far and len(terms_of(stage)) == 2 and reuse(stage, term) >= enough


def _is_worth_a_copy(stage: Stage, term: TensorLoad, axis: Axis, width: int) -> bool:
    if not _has_long_rows(stage, term, axis, width):
        return False
    is_constant, is_read_often = term.source in stage.constants, reuse(stage, term) >= REUSE_THAT_PAYS_ALWAYS
    return is_constant or is_read_often or _panel_bytes(stage, term) > BYTES_WORTH_A_COPY


def _is_page_a_row(stage: Stage, axis: Axis) -> bool:
    """Returns whether rows conflict in the caches, and there are more of them than the caches hold."""
    depth = access.points(stage.reduce)
    return (axis.size or 0) * stage.item_bytes % PAGE_BYTES == 0 and depth is not None and depth >= ROWS_OF_MANY_PAGES


def _row_axes(stage: Stage, column: Axis, terms: list[TensorLoad]) -> list[Axis]:
    """Returns the result axes along which the vector operand is reused: they are the rows of the register tile."""
    if len(terms) != 2:
        return []
    wide_results = [axis for axis in stage.spatial if not axis.var.same_as(column.var) and axis.size != 1]
    along = vector_terms(terms, column)
    return [axis for axis in wide_results if any(access.load_stride(term, axis.var) == 0 for term in along)]


def _tiles(rows: list[Axis], column: Axis, lanes: int, target: CpuTarget) -> Iterator[tuple[int, dict[Var, int]]]:
    """Yields the tiles that registers hold, beside one vector per column and two temporaries."""
    most = -(-(column.size or UNKNOWN_SIZE) // lanes)
    for vectors in range(1, min(MAX_VECTORS, most) + 1):
        free = (target.vector_registers - 2 - vectors) // vectors
        for height in range(1, max(1, free if rows else 1) + 1):
            yield vectors, _spread(rows, height)


def _spread(rows: list[Axis], height: int) -> dict[Var, int]:
    """Returns the rows of a tile, taken from the innermost axis first and from the next one where that is short."""
    sizes: dict[Var, int] = {}
    for axis in reversed(rows):
        size = min(height, axis.size or UNKNOWN_SIZE)
        if size > 1:
            sizes[axis.var] = size
        height //= max(1, size)
    return dict(reversed(sizes.items()))


def _cycles_to_fetch(stage: Stage, column: Axis, vectors: int, target: CpuTarget) -> float:
    """Returns the cycles to fetch a vector of an operand whose panels don't stay in the cache from tile to tile."""
    depth = access.points(stage.reduce)
    is_sliced = (target.cores > 1 or len(wide_axes(stage.reduce)) > 1) and is_long_sum(stage, target)
    if depth is None or is_sliced or vector_operand_bytes(stage, column) <= target.level2_bytes:
        return 0.0
    panel = depth * vectors * target.vector_bits // BITS_PER_BYTE
    return CYCLES_PER_FAR_VECTOR if panel > target.level2_bytes // 2 else 0.0


def is_long_sum(stage: Stage, target: CpuTarget) -> bool:
    """Returns whether few results, which fit the cache, are sums of very many terms, so that slices pay."""
    results = access.points(stage.spatial)
    if results is None or results * stage.item_bytes > target.level2_bytes // 4:
        return False
    depth = prod(axis.size or UNKNOWN_SIZE for axis in stage.reduce)
    return depth >= LONG_REDUCTION * max(1, results**0.5)


def _cycles(
    vectors: int, sizes: dict[Var, int], rows: list[Axis], column: Axis, lanes: int, loads: Loads
) -> tuple[float, int]:
    """Returns the cycles of one reduction step over all results, and the code size as a tie breaker."""
    total = 0.0
    for height, count in _pieces_of_rows(rows, sizes):
        for wide, times in pieces_of(-(-(column.size or UNKNOWN_SIZE) // lanes), vectors):
            total += count * times * tile_cycles(height, wide, loads)
    return total, vectors * prod(sizes.values())


def _pieces_of_rows(rows: list[Axis], sizes: dict[Var, int]) -> list[tuple[int, int]]:
    pieces = [(1, 1)]
    for axis in rows:
        along = pieces_of(axis.size or UNKNOWN_SIZE, sizes.get(axis.var, 1))
        pieces = [(height * size, count * times) for height, count in pieces for size, times in along]
    return pieces


def pieces_of(extent: int, size: int) -> list[tuple[int, int]]:
    whole_count, rest = divmod(extent, size)
    return [(size, whole_count)] * bool(whole_count) + [(rest, 1)] * bool(rest)


def tile_cycles(height: int, vectors: int, loads: Loads) -> float:
    """Returns the cycles of one reduction step of a register tile."""
    work = height * vectors / OPERATIONS_PER_CYCLE
    count = height * (vectors if loads.are_all_vectors else 1) + vectors
    return max(LATENCY_CYCLES, work + count * loads.beside, count / OPERATIONS_PER_CYCLE, vectors * loads.far) + 0.25


def _row_plan(stage: Stage, row: Axis, terms: list[TensorLoad], target: CpuTarget, lanes: int | None = None) -> Plan:
    """Plans vectors along a reduction axis.

    Several vectors of terms, or several results, hide the latency of an addition.
    """
    lanes = lanes or target.lanes(stage.item_bytes)
    short = row.size is not None and row.size < ROW_VECTORS * lanes
    axes = _reused_axes(stage, terms) if len(terms) == 2 else []
    usual: tuple[int, ...] = (4, 4) if len(axes) == 2 else (8,)
    heights = choice("tile", usual, lambda: _heights(len(axes), target), _times)
    sizes = {axis.var: min(height, axis.size or height) for axis, height in zip(axes, heights)}
    vectors = choice("vectors", 1 if short or sizes else ROW_VECTORS, lambda: () if short else (1, 2, 4, 8))
    return Plan(row, True, lanes if row.size is None else _power_of_two(min(lanes, row.size)), vectors, sizes)


def _heights(axes: int, target: CpuTarget) -> Iterator[tuple[int, ...]]:
    """Yields the tiles of dot products that registers hold."""
    if axes == 1:
        yield from ((height,) for height in (1, 2, 4, 12, 16) if height < target.vector_registers)
    if axes == 2:
        yield from ((a, b) for a in (1, 2, 3, 4, 6, 8) for b in (1, 2, 3, 4, 6, 8) if a * b < target.vector_registers)


def _power_of_two(limit: int) -> int:
    return 1 << (max(1, limit).bit_length() - 1)


def _reused_axes(stage: Stage, terms: list[TensorLoad]) -> list[Axis]:
    """Returns the axes of a tile of dot products: for each operand, an axis along which only the other is reused.

    Along such an axis, the vector that was loaded of the one is used for several items of the other.
    """
    axes = [axis for axis in stage.spatial if axis.size != 1]
    alone = [
        [axis for axis in axes if access.load_stride(term, axis.var) != 0 and access.load_stride(other, axis.var) == 0]
        for term, other in (terms, reversed(terms))
    ]
    return [group[-1] for group in alone if group]
