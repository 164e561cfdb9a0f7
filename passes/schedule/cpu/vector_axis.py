"""Chooses the axis that a reduction's vectors run along: neighbouring results, or terms of one result."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import tvm_ffi
from tvm.ir import TensorLoad

from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.emit import static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.target import CpuTarget

UNKNOWN_SIZE = 512
OPERATIONS_PER_CYCLE = 2
# Of dot products: cycles of one step of a 4 by 4 tile, and of the sum over a result's lanes.
CYCLES_PER_ROW_STEP = 0.6
CYCLES_TO_COMBINE = 8
# Slowdown of vectors less than half full, beside their unused lanes. With it, a 5x5 filter's gradient for 7 channels of
# 128 images runs along results and takes 1,292 us; along terms it took 2,994.
TIMES_OF_NARROW_VECTORS = 1.4
# For an item of a vector whose items aren't contiguous in memory. It makes the input gradient of a 5x5 convolution with
# one channel run along terms: 247 us instead of 766.
CYCLES_TO_FETCH = 1.0
MIN_LANES = 4
# Reads of each element from which on packing an operand pays.
REUSE_THAT_PAYS_FOR_PACKING = 24
# Narrow products: up to this many vectors of results, and at least this many terms. 512x10x4096 takes 135 us along its
# terms and 510 along its results.
VECTORS_OF_A_NARROW_ROW = 2
MIN_DEPTH_OF_A_NARROW_PRODUCT = 256
# Rows whose distance is a multiple of a page evict each other from the level-1 cache, which slows down by this factor.
PAGE_BYTES = 4096
PAGE_STRIDE_CYCLES = 3


def default_direction(
    stage: Stage, row: Axis | None, column: Axis | None, terms: list[TensorLoad], target: CpuTarget
) -> str | None:
    """Returns what vectors run along: "results", "terms" of one result, or "turned terms" (one operand transposed)."""
    lanes = target.lanes(stage.item_bytes)
    if row is not None and column is not None and _is_narrow(stage, row, column, terms, target):
        return "turned terms"
    # Vectors along results need no sum over lanes at the end.
    if column is not None and runs_along(terms, column, lanes // 2):
        return "results"
    is_packed = column is not None and _is_worth_packing(stage, column, terms, target)
    if row is not None and not is_packed and (runs_along(terms, row, lanes) or _is_quicker(stage, row, terms, lanes)):
        return "terms"
    if column is None:
        return None if row is None else "terms"
    return "results"


def _is_quicker(stage: Stage, row: Axis, terms: list[TensorLoad], lanes: int) -> bool:
    """Returns whether short vectors along terms are faster than whole ones along results whose items are fetched one by one."""
    depth = access.points(stage.reduce)
    if len(terms) != 2 or depth is None or row.size is None or not runs_along(terms, row, MIN_LANES):
        return False
    return _steps_along_terms(stage, depth, lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE < depth * CYCLES_TO_FETCH


def directions(stage: Stage, row: Axis | None, column: Axis | None, terms: list[TensorLoad]) -> Iterator[str]:
    """Yields all ways in which vectors can run.

    Tuning may choose any of them.
    """
    if column is not None:
        yield "results"
    if row is not None and runs_along(terms, row, 1):
        yield "terms"
    if row is not None and column is not None and transposable(stage, row, terms) is not None:
        yield "turned terms"


def transposable(stage: Stage, row: Axis, terms: list[TensorLoad]) -> TensorLoad | None:
    """Returns the only operand of a matrix product that isn't contiguous along the reduction, or None."""
    transposed = [term for term in terms if not access.is_contiguous(term, row.var)]
    is_matrix = len(wide_axes(stage.spatial)) <= 2 and len(wide_axes(stage.reduce)) == 1
    return transposed[0] if len(terms) == 2 and len(transposed) == 1 and is_matrix else None


def _is_narrow(stage: Stage, row: Axis, column: Axis, terms: list[TensorLoad], target: CpuTarget) -> bool:
    """Returns whether rows of results don't fill vectors, and transposing one operand costs less than the unused lanes."""
    lanes, transposed = target.lanes(stage.item_bytes), transposable(stage, row, terms)
    results, depth = access.points(stage.spatial), access.points(stage.reduce)
    if transposed is None or results is None or depth is None:
        return False
    size = column.size or UNKNOWN_SIZE
    if depth < MIN_DEPTH_OF_A_NARROW_PRODUCT or size > VECTORS_OF_A_NARROW_ROW * lanes or size % lanes == 0:
        return False
    items = results * depth // reuse(stage, transposed)
    other = next(term for term in terms if term is not transposed)
    far = any((access.load_stride(other, axis.var) or 1) * stage.item_bytes % PAGE_BYTES == 0 for axis in stage.spatial)
    waste = -(-size // lanes) * lanes / size
    by_columns = results * depth * waste / (lanes * OPERATIONS_PER_CYCLE) * (PAGE_STRIDE_CYCLES if far else 1)
    by_rows = results * (-(-depth // lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE) + items
    return by_columns >= by_rows


def wide_axes(axes: tuple[Axis, ...]) -> list[Axis]:
    return [axis for axis in axes if axis.size != 1]


def terms_of(stage: Stage) -> list[TensorLoad]:
    """Returns the loads of a reduction other than of its own partial result, equal ones once."""
    terms: list[TensorLoad] = []
    for load in stage.loads:
        if not load.source.same_as(stage.buffer) and not any(tvm_ffi.structural_equal(load, other) for other in terms):
            terms.append(load)
    return terms


def has_reused_operand(stage: Stage) -> bool:
    """Returns whether a stage is a contraction: a product of which an operand is read again for other results."""
    terms = terms_of(stage)
    return len(terms) == 2 and any(reuse(stage, term) > 1 for term in terms)


def vector_operand_bytes(stage: Stage, vector: Axis) -> int:
    """Returns the bytes of the operands that vectors are loaded from repeatedly: a filter, a right-hand matrix."""
    again = [term for term in vector_terms(terms_of(stage), vector) if reuse(stage, term) > 1]
    shapes = [[static(extent) or 0 for extent in term.source.ty.shape] for term in again]
    return sum(map(prod, shapes)) * stage.item_bytes


def vector_terms(terms: list[TensorLoad], vector: Axis) -> list[TensorLoad]:
    """Returns the operands that vectors are loaded from: one of a matrix product, both of a depthwise convolution."""
    return [term for term in terms if access.load_stride(term, vector.var) != 0]


def last_wide(axes: tuple[Axis, ...]) -> Axis | None:
    return next((axis for axis in reversed(axes) if axis.size != 1), None)


def column_of(stage: Stage, terms: list[TensorLoad], lanes: int) -> Axis | None:
    """Returns the result axis for vectors: the last one, or if that fills no half vector another contiguous one."""
    last = last_wide(stage.spatial)
    if last is None or last.size is None or 2 * last.size >= lanes or len(terms) != 2:
        return last
    contiguous_axes = [axis for axis in stage.spatial if axis.size is not None and runs_along(terms, axis, lanes)]
    return contiguous_axes[-1] if contiguous_axes else last


def runs_along(terms: list[TensorLoad], axis: Axis, least: int) -> bool:
    wide = axis.size is None or axis.size >= least
    return wide and all(access.is_contiguous(term, axis.var) for term in terms)


def _is_worth_packing(stage: Stage, column: Axis, terms: list[TensorLoad], target: CpuTarget) -> bool:
    """Returns whether vectors along a result axis, with the packing they need, are faster than vectors along the reduction."""
    lanes = target.lanes(stage.item_bytes)
    strided = [term for term in terms if not access.is_contiguous(term, column.var)]
    if column.size is None or column.size < lanes // 4 or len(terms) != 2:
        return False
    is_narrow = column.size < lanes // 2
    results, depth = access.points(stage.spatial), access.points(stage.reduce)
    if results is None or depth is None:
        return not is_narrow and all(reuse(stage, term) >= REUSE_THAT_PAYS_FOR_PACKING for term in strided)
    waste = -(-column.size // lanes) * lanes / column.size
    items = [results * depth // reuse(stage, term) for term in strided if term.source not in stage.constants]
    packing = sum(count * _cycles_to_pack(stage, count, lanes, target) for count in items)
    by_columns = results * depth * waste / (lanes * OPERATIONS_PER_CYCLE) + packing
    by_columns *= TIMES_OF_NARROW_VECTORS if is_narrow else 1.0
    return by_columns < results * (_steps_along_terms(stage, depth, lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE)


def _steps_along_terms(stage: Stage, depth: int, lanes: int) -> int:
    """Returns the vectors along the last reduction axis, whose remainder is cut into powers of two."""
    row = last_wide(stage.reduce)
    size = (row.size if row else None) or depth
    return depth // size * (size // lanes + (size % lanes).bit_count())


def _cycles_to_pack(stage: Stage, items: int, lanes: int, target: CpuTarget) -> float:
    """Returns the cycles to pack one item of an operand that is transposed meanwhile."""
    if (stage.reduce[-1].size or UNKNOWN_SIZE) < lanes:
        return 1.0
    return 0.4 if items * stage.item_bytes <= target.level2_bytes else 1.0


def reuse(stage: Stage, term: TensorLoad) -> int:
    """Returns how often each element of an operand is read."""
    return prod(axis.size or UNKNOWN_SIZE for axis in stage.spatial if access.load_stride(term, axis.var) == 0)
