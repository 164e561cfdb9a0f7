"""Chooses the axis that a reduction's vectors run along: neighbouring results, or terms of one result."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import tvm_ffi
from tvm.ir import TensorLoad

from tvtf.passes.schedule.cpu import access, emit
from tvtf.passes.schedule.cpu.emit import static
from tvtf.passes.schedule.cpu.kernel import Axis, Stage
from tvtf.passes.schedule.cpu.target import CpuTarget

UNKNOWN_SIZE = 512
OPERATIONS_PER_CYCLE = 2
# Of dot products: cycles of one step of a 4 by 4 tile, and of the sum over a result's lanes.
CYCLES_PER_ROW_STEP = 0.6
CYCLES_TO_COMBINE = 8
# Slowdown of vectors less than half full, in addition to their unused lanes. With it, a 5x5 filter's gradient for 7 channels of
# 128 images runs along results and takes 1,292 us; along terms it took 2,994.
SLOWDOWN_OF_NARROW_VECTORS = 1.4
# For an element of a vector that isn't contiguous in memory. It makes the input gradient of a 5x5 convolution with
# one channel run along terms: 247 us instead of 766.
CYCLES_PER_GATHERED_ITEM = 1.0
MIN_LANES = 4
# Minimum number of reads per element with which packing an operand is profitable.
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
    """Returns what the vectors of a reduction run along by default: "results", "terms" or "turned terms".

    With "turned terms", vectors run along the terms of one result, and one operand is transposed.

    Args:
        stage: the reduction.
        row: the candidate among its reduction axes.
        column: the candidate among its result axes.
        terms: its operands.
        target: the CPU.
    """
    lanes = target.lanes(stage.item_bytes)
    if row is not None and column is not None and _is_transposing_profitable(stage, row, column, terms, target):
        return "turned terms"
    # Vectors along results need no sum over lanes at the end.
    if column is not None and runs_along(terms, column, lanes // 2):
        return "results"
    is_packed = column is not None and _is_packing_profitable(stage, column, terms, target)
    if (
        row is not None
        and not is_packed
        and (runs_along(terms, row, lanes) or _is_faster_along_terms(stage, row, terms, lanes))
    ):
        return "terms"
    if column is None:
        return None if row is None else "terms"
    return "results"


def _is_faster_along_terms(stage: Stage, row: Axis, terms: list[TensorLoad], lanes: int) -> bool:
    """Returns whether short vectors along terms are faster than vectors along results.

    Along results the elements aren't contiguous, and are loaded one by one.
    """
    term_count = access.iteration_count(stage.reduce)
    if len(terms) != 2 or term_count is None or row.size is None or not runs_along(terms, row, MIN_LANES):
        return False
    along_terms = _vectors_of_terms(stage, term_count, lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE
    return along_terms < term_count * CYCLES_PER_GATHERED_ITEM


def directions(stage: Stage, row: Axis | None, column: Axis | None, terms: list[TensorLoad]) -> Iterator[str]:
    """Yields the directions that vectors of a reduction can run in, among which tuning chooses.

    "turned terms" means along terms, with one operand transposed. `column` is the result axis for vectors, `row` the
    reduction axis; each may be None.
    """
    if column is not None:
        yield "results"
    if row is not None and runs_along(terms, row, 1):
        yield "terms"
    if row is not None and column is not None and transposable(stage, row, terms) is not None:
        yield "turned terms"


def transposable(stage: Stage, row: Axis, terms: list[TensorLoad]) -> TensorLoad | None:
    """Returns the operand of a matrix product to transpose: the only one that isn't contiguous along terms, or None."""
    strided_terms = [term for term in terms if not access.is_contiguous(term, row.var)]
    is_matrix = len(wide_axes(stage.spatial)) <= 2 and len(wide_axes(stage.reduce)) == 1
    return strided_terms[0] if len(terms) == 2 and len(strided_terms) == 1 and is_matrix else None


def _is_transposing_profitable(
    stage: Stage, row: Axis, column: Axis, terms: list[TensorLoad], target: CpuTarget
) -> bool:
    """Returns whether transposing an operand is profitable, for vectors along terms, since results fill vectors badly."""
    lanes, transposed = target.lanes(stage.item_bytes), transposable(stage, row, terms)
    results, term_count = access.iteration_count(stage.spatial), access.iteration_count(stage.reduce)
    if transposed is None or results is None or term_count is None:
        return False
    row_size = column.size or UNKNOWN_SIZE
    if (
        term_count < MIN_DEPTH_OF_A_NARROW_PRODUCT
        or row_size > VECTORS_OF_A_NARROW_ROW * lanes
        or row_size % lanes == 0
    ):
        return False
    transposed_items = results * term_count // reuse(stage, transposed)
    other = next(term for term in terms if term is not transposed)
    conflicts = any(
        (access.load_stride(other, axis.var) or 1) * stage.item_bytes % PAGE_BYTES == 0 for axis in stage.spatial
    )
    padding_factor = emit.round_up(row_size, lanes) / row_size
    cycles_along_results = (
        results
        * term_count
        * padding_factor
        / (lanes * OPERATIONS_PER_CYCLE)
        * (PAGE_STRIDE_CYCLES if conflicts else 1)
    )
    cycles_along_terms = (
        results * (emit.ceil_div(term_count, lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE) + transposed_items
    )
    return cycles_along_results >= cycles_along_terms


def wide_axes(axes: tuple[Axis, ...]) -> list[Axis]:
    """Returns the axes of more than one element."""
    return [axis for axis in axes if axis.size != 1]


def terms_of(stage: Stage) -> list[TensorLoad]:
    """Returns the operands of a reduction: its different loads, other than of its own partial result."""
    terms: list[TensorLoad] = []
    for load in stage.loads:
        if not load.source.same_as(stage.buffer) and not any(tvm_ffi.structural_equal(load, other) for other in terms):
            terms.append(load)
    return terms


def has_reused_operand(stage: Stage) -> bool:
    """Returns whether a stage is a contraction: it has two operands, and reads one of them again for other results."""
    terms = terms_of(stage)
    return len(terms) == 2 and any(reuse(stage, term) > 1 for term in terms)


def vector_operand_bytes(stage: Stage, vector: Axis) -> int:
    """Returns the bytes of the operands from which vectors are loaded repeatedly, such as a right-hand matrix."""
    reused = [term for term in vector_terms(terms_of(stage), vector) if reuse(stage, term) > 1]
    shapes = [[static(extent) or 0 for extent in term.source.ty.shape] for term in reused]
    return sum(map(prod, shapes)) * stage.item_bytes


def vector_terms(terms: list[TensorLoad], vector: Axis) -> list[TensorLoad]:
    """Returns the operands that vectors are loaded from: one of a matrix product, both of a depthwise convolution."""
    return [term for term in terms if access.load_stride(term, vector.var) != 0]


def last_wide(axes: tuple[Axis, ...]) -> Axis | None:
    """Returns the last axis of more than one element, or None."""
    return next((axis for axis in reversed(axes) if axis.size != 1), None)


def column_of(stage: Stage, terms: list[TensorLoad], lanes: int) -> Axis | None:
    """Returns the result axis for vectors to run along.

    It is the last axis, or another contiguous axis if the last one fills no half vector.
    """
    last = last_wide(stage.spatial)
    # Only products of two operands are looked at more closely.
    if last is None or last.size is None or 2 * last.size >= lanes or len(terms) != 2:
        return last
    contiguous_axes = [axis for axis in stage.spatial if axis.size is not None and runs_along(terms, axis, lanes)]
    return contiguous_axes[-1] if contiguous_axes else last


def runs_along(terms: list[TensorLoad], axis: Axis, min_size: int) -> bool:
    """Returns whether all operands are contiguous along an axis, and the axis has at least `min_size` points."""
    is_long_enough = axis.size is None or axis.size >= min_size
    return is_long_enough and all(access.is_contiguous(term, axis.var) for term in terms)


def _is_packing_profitable(stage: Stage, column: Axis, terms: list[TensorLoad], target: CpuTarget) -> bool:
    """Returns whether vectors along a result axis, with the packing they need, are faster than vectors along terms.

    Axes shorter than a quarter of a vector never qualify; those shorter than half a vector count as slower. `terms` are
    the operands of the reduction.
    """
    lanes = target.lanes(stage.item_bytes)
    strided = [term for term in terms if not access.is_contiguous(term, column.var)]
    if column.size is None or column.size < lanes // 4 or len(terms) != 2:
        return False
    is_narrow = column.size < lanes // 2
    results, term_count = access.iteration_count(stage.spatial), access.iteration_count(stage.reduce)
    # With symbolic sizes, packing is profitable if each element is read often.
    if results is None or term_count is None:
        return not is_narrow and all(reuse(stage, term) >= REUSE_THAT_PAYS_FOR_PACKING for term in strided)
    padding_factor = emit.round_up(column.size, lanes) / column.size
    items_to_pack = [
        results * term_count // reuse(stage, term) for term in strided if term.source not in stage.constants
    ]
    packing_cycles = sum(items * _cycles_per_packed_element(stage, items, lanes, target) for items in items_to_pack)
    cycles_along_results = results * term_count * padding_factor / (lanes * OPERATIONS_PER_CYCLE) + packing_cycles
    cycles_along_results *= SLOWDOWN_OF_NARROW_VECTORS if is_narrow else 1.0
    return cycles_along_results < results * (
        _vectors_of_terms(stage, term_count, lanes) * CYCLES_PER_ROW_STEP + CYCLES_TO_COMBINE
    )


def _vectors_of_terms(stage: Stage, term_count: int, lanes: int) -> int:
    """Returns the number of vectors for the terms of one result, with remainders split into powers of two."""
    last_axis = last_wide(stage.reduce)
    size = (last_axis.size if last_axis else None) or term_count
    return term_count // size * (size // lanes + (size % lanes).bit_count())


def _cycles_per_packed_element(stage: Stage, items: int, lanes: int, target: CpuTarget) -> float:
    """Estimates the cycles to pack one element of an operand that must be transposed."""
    if (stage.reduce[-1].size or UNKNOWN_SIZE) < lanes:
        return 1.0
    return 0.4 if items * stage.item_bytes <= target.level2_bytes else 1.0


def reuse(stage: Stage, term: TensorLoad) -> int:
    """Returns how often a reduction reads each element of an operand: the number of results that share it."""
    return prod(axis.size or UNKNOWN_SIZE for axis in stage.spatial if access.load_stride(term, axis.var) == 0)
