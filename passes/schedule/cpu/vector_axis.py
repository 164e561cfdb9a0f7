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

ALONG_RESULTS, ALONG_TERMS, ALONG_TRANSPOSED_TERMS = "results", "terms", "turned terms"
"""What vectors run along: neighbouring results, the terms of one result, or these with one operand transposed before.

The strings stand in records of tuning, so they stay."""
UNKNOWN_SIZE = 512
"""The size that the cost models assume for an axis whose size is known only at run time."""
OPERATIONS_PER_CYCLE = 2
"""Vector multiply-adds that a core starts per cycle."""

# The costs of vectors along the terms of dot products.
CYCLES_PER_VECTOR_OF_TERMS = 0.6
"""Cycles to add the products of two vectors to a result, in a tile of 4 by 4 results."""
CYCLES_PER_HORIZONTAL_SUM = 8
"""Cycles to add up the lanes of a result."""
CYCLES_PER_GATHERED_ITEM = 1.0
"""Cycles to load an element of a vector that isn't contiguous in memory. With it, the input gradient of a 5x5 convolution
with one channel runs along terms: 247 us instead of 766."""
MIN_LANES = 4
"""Terms that are worth vectors along them, at least."""

# The costs of vectors along results.
SLOWDOWN_OF_NARROW_VECTORS = 1.4
"""Of vectors less than half full, in addition to their unused lanes. With it, a 5x5 filter's gradient for 7 channels of 128
images runs along results and takes 1,292 us; along terms it took 2,994."""
MIN_REUSE_TO_PACK = 24
"""Reads per element from which packing an operand is profitable."""

# Narrow products: one operand may be transposed, for vectors along terms. 512x10x4096 takes 135 us along its terms and 510
# along its results.
MAX_VECTORS_OF_NARROW_ROW = 2
MIN_TERMS_OF_NARROW_PRODUCT = 256
PAGE_BYTES = 4096
SLOWDOWN_OF_PAGE_STRIDES = 3
"""Of loads from rows whose distance is a multiple of a page: they evict each other from the level-1 cache."""


def default_direction(
    stage: Stage,
    reduction_axis: Axis | None,
    result_axis: Axis | None,
    operands: list[TensorLoad],
    target: CpuTarget,
) -> str | None:
    """Returns what the vectors of a reduction run along by default, such as `ALONG_RESULTS`.

    Returns None if there is no axis that vectors could run along.

    Args:
        stage: the reduction.
        reduction_axis: its innermost reduction axis, if any.
        result_axis: its best result axis for vectors, if any.
        operands: its operands.
        target: the CPU.
    """
    lanes = target.lanes(stage.item_bytes)
    if result_axis is None:
        return None if reduction_axis is None else ALONG_TERMS
    if reduction_axis is None:
        return ALONG_RESULTS
    if _is_transposing_profitable(stage, reduction_axis, result_axis, operands, target):
        return ALONG_TRANSPOSED_TERMS
    # Vectors along results need no sum over lanes at the end.
    if runs_along(operands, result_axis, lanes // 2):
        return ALONG_RESULTS
    if _is_packing_profitable(stage, result_axis, operands, target):
        return ALONG_RESULTS
    if runs_along(operands, reduction_axis, lanes) or _is_faster_along_terms(stage, reduction_axis, operands, lanes):
        return ALONG_TERMS
    return ALONG_RESULTS


def _is_faster_along_terms(stage: Stage, reduction_axis: Axis, operands: list[TensorLoad], lanes: int) -> bool:
    """Returns whether short vectors along terms are faster than vectors along results.

    Vectors along results would have to be loaded element by element, since they aren't contiguous in memory.

    Args:
        stage: the reduction.
        reduction_axis: the axis of terms along which vectors would run.
        operands: the loads of the reduction's operands.
        lanes: the number of elements of a vector.
    """
    term_count = access.iteration_count(stage.reduce)
    if len(operands) != 2 or term_count is None or reduction_axis.size is None:
        return False
    if not runs_along(operands, reduction_axis, MIN_LANES):
        return False
    vectors_of_terms = _vectors_of_terms(stage, term_count, lanes)
    cycles_along_terms = _cycles_per_dot_product(vectors_of_terms)
    cycles_along_results = term_count * CYCLES_PER_GATHERED_ITEM
    return cycles_along_terms < cycles_along_results


def _cycles_per_dot_product(vectors: int) -> float:
    """Estimates the cycles of one result whose terms are in a number of vectors."""
    return vectors * CYCLES_PER_VECTOR_OF_TERMS + CYCLES_PER_HORIZONTAL_SUM


def directions(
    stage: Stage, reduction_axis: Axis | None, result_axis: Axis | None, operands: list[TensorLoad]
) -> Iterator[str]:
    """Yields the directions that vectors of a reduction can run in, among which tuning chooses.

    `default_direction` chooses one of them without tuning.

    Args:
        stage: the reduction.
        reduction_axis: the axis of terms along which vectors could run, or None.
        result_axis: the axis of results along which vectors could run, or None.
        operands: the loads of the reduction's operands.
    """
    if result_axis is not None:
        yield ALONG_RESULTS
    if reduction_axis is None:
        return
    if runs_along(operands, reduction_axis, 1):
        yield ALONG_TERMS
    if result_axis is not None and operand_to_transpose(stage, reduction_axis, operands) is not None:
        yield ALONG_TRANSPOSED_TERMS


def operand_to_transpose(stage: Stage, reduction_axis: Axis, operands: list[TensorLoad]) -> TensorLoad | None:
    """Returns the operand of a matrix product to transpose: the only one that isn't contiguous along terms, or None."""
    if len(operands) != 2 or len(non_unit_axes(stage.spatial)) > 2 or len(non_unit_axes(stage.reduce)) != 1:
        return None
    strided_operands = [operand for operand in operands if not access.is_contiguous(operand, reduction_axis.var)]
    return strided_operands[0] if len(strided_operands) == 1 else None


def _is_transposing_profitable(
    stage: Stage, reduction_axis: Axis, result_axis: Axis, operands: list[TensorLoad], target: CpuTarget
) -> bool:
    """Returns whether it is profitable to transpose an operand, for vectors along terms.

    Vectors along results would have to be filled badly, because rows of results are short.

    Args:
        stage: the reduction.
        reduction_axis, result_axis: the axes of terms and of results along which vectors could run.
        operands: the loads of the reduction's operands.
        target: the processor.
    """
    lanes = target.lanes(stage.item_bytes)
    transposed = operand_to_transpose(stage, reduction_axis, operands)
    result_count = access.iteration_count(stage.spatial)
    term_count = access.iteration_count(stage.reduce)
    if transposed is None or result_count is None or term_count is None:
        return False
    row_size = result_axis.size or UNKNOWN_SIZE
    is_narrow_product = row_size <= MAX_VECTORS_OF_NARROW_ROW * lanes and term_count >= MIN_TERMS_OF_NARROW_PRODUCT
    if not is_narrow_product or row_size % lanes == 0:
        return False
    multiply_adds = result_count * term_count
    cycles_along_results = _vector_cycles_along_results(multiply_adds, row_size, lanes)
    other = next(operand for operand in operands if operand is not transposed)
    if _has_page_strides(stage, other):
        cycles_along_results *= SLOWDOWN_OF_PAGE_STRIDES
    vectors_of_terms = emit.ceil_div(term_count, lanes)
    transpose_cycles = multiply_adds // reuse(stage, transposed)  # about a cycle per element
    cycles_along_terms = result_count * _cycles_per_dot_product(vectors_of_terms) + transpose_cycles
    return cycles_along_results >= cycles_along_terms


def _has_page_strides(stage: Stage, operand: TensorLoad) -> bool:
    """Returns whether the elements of an operand along some result axis are a multiple of a page apart."""
    for axis in stage.spatial:
        stride = access.load_stride(operand, axis.var) or 1
        if stride * stage.item_bytes % PAGE_BYTES == 0:
            return True
    return False


def _vector_cycles_along_results(multiply_adds: int, row_size: int, lanes: int) -> float:
    """Estimates the cycles of multiply-adds in vectors along rows of results, whose last vectors may not be full."""
    padding_factor = emit.round_up(row_size, lanes) / row_size
    return multiply_adds * padding_factor / (lanes * OPERATIONS_PER_CYCLE)


def non_unit_axes(axes: tuple[Axis, ...]) -> list[Axis]:
    """Returns the axes of more than one element."""
    return [axis for axis in axes if axis.size != 1]


def operands_of(stage: Stage) -> list[TensorLoad]:
    """Returns the operands of a reduction: its different loads, other than of its own partial result."""
    operands: list[TensorLoad] = []
    for load in stage.loads:
        if load.source.same_as(stage.buffer):
            continue
        is_known = any(tvm_ffi.structural_equal(load, other) for other in operands)
        if not is_known:
            operands.append(load)
    return operands


def has_reused_operand(stage: Stage) -> bool:
    """Returns whether a stage is a contraction: it has two operands, and reads one of them again for other results."""
    operands = operands_of(stage)
    return len(operands) == 2 and any(reuse(stage, operand) > 1 for operand in operands)


def vector_operand_bytes(stage: Stage, vector: Axis) -> int:
    """Returns the bytes of the operands from which vectors are loaded repeatedly, such as a right-hand matrix."""
    reused = [operand for operand in vector_operands_of(operands_of(stage), vector) if reuse(stage, operand) > 1]
    shapes = [[static(extent) or 0 for extent in operand.source.ty.shape] for operand in reused]
    return sum(map(prod, shapes)) * stage.item_bytes


def vector_operands_of(operands: list[TensorLoad], vector: Axis) -> list[TensorLoad]:
    """Returns the operands that vectors are loaded from: one of a matrix product, both of a depthwise convolution."""
    return [operand for operand in operands if access.load_stride(operand, vector.var) != 0]


def last_non_unit_axis(axes: tuple[Axis, ...]) -> Axis | None:
    """Returns the last axis of more than one element, or None."""
    return next((axis for axis in reversed(axes) if axis.size != 1), None)


def vector_result_axis(stage: Stage, operands: list[TensorLoad], lanes: int) -> Axis | None:
    """Returns the result axis along which vectors of results should run.

    It is the last axis, or another contiguous axis if the last one is shorter than half a vector.

    Args:
        stage: the reduction.
        operands: the loads of its operands.
        lanes: the number of elements of a vector.
    """
    last = last_non_unit_axis(stage.spatial)
    if last is None or last.size is None:
        return last
    fills_half_vector = 2 * last.size >= lanes
    is_product = len(operands) == 2
    if fills_half_vector or not is_product:
        return last
    contiguous_axes = [axis for axis in stage.spatial if axis.size is not None and runs_along(operands, axis, lanes)]
    return contiguous_axes[-1] if contiguous_axes else last


def runs_along(operands: list[TensorLoad], axis: Axis, min_size: int) -> bool:
    """Returns whether all operands are contiguous along an axis, and the axis has an extent of at least `min_size`."""
    is_long_enough = axis.size is None or axis.size >= min_size
    return is_long_enough and all(access.is_contiguous(operand, axis.var) for operand in operands)


def _is_packing_profitable(stage: Stage, result_axis: Axis, operands: list[TensorLoad], target: CpuTarget) -> bool:
    """Returns whether vectors along a result axis, with the packing they need, are faster than vectors along terms.

    Axes shorter than a quarter of a vector never qualify; those shorter than half a vector count as slower.
    """
    lanes = target.lanes(stage.item_bytes)
    size = result_axis.size
    if size is None or size < lanes // 4 or len(operands) != 2:
        return False
    is_narrow = size < lanes // 2
    strided_operands = [operand for operand in operands if not access.is_contiguous(operand, result_axis.var)]
    result_count = access.iteration_count(stage.spatial)
    term_count = access.iteration_count(stage.reduce)
    # With symbolic sizes, packing is profitable if each element is read often.
    if result_count is None or term_count is None:
        return not is_narrow and all(reuse(stage, operand) >= MIN_REUSE_TO_PACK for operand in strided_operands)
    multiply_adds = result_count * term_count
    packing_cycles: float = 0
    for operand in strided_operands:
        if operand.source not in stage.constants:  # constants are packed once, before the first call
            items = multiply_adds // reuse(stage, operand)
            packing_cycles += items * _cycles_per_packed_element(stage, items, lanes, target)
    cycles_along_results = _vector_cycles_along_results(multiply_adds, size, lanes) + packing_cycles
    if is_narrow:
        cycles_along_results *= SLOWDOWN_OF_NARROW_VECTORS
    cycles_along_terms = result_count * _cycles_per_dot_product(_vectors_of_terms(stage, term_count, lanes))
    return cycles_along_results < cycles_along_terms


def _vectors_of_terms(stage: Stage, term_count: int, lanes: int) -> int:
    """Returns the number of vectors for the terms of one result, with remainders split into powers of two."""
    last_axis = last_non_unit_axis(stage.reduce)
    size = (last_axis.size if last_axis else None) or term_count
    return term_count // size * (size // lanes + (size % lanes).bit_count())


def _cycles_per_packed_element(stage: Stage, items: int, lanes: int, target: CpuTarget) -> float:
    """Estimates the cycles to pack one element of an operand that must be transposed."""
    if (stage.reduce[-1].size or UNKNOWN_SIZE) < lanes:
        return 1.0
    return 0.4 if items * stage.item_bytes <= target.level2_bytes else 1.0


def reuse(stage: Stage, operand: TensorLoad) -> int:
    """Returns how often a reduction reads each element of an operand: the number of results that share it."""
    return prod(axis.size or UNKNOWN_SIZE for axis in stage.spatial if access.load_stride(operand, axis.var) == 0)
