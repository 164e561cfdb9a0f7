"""TE kernels that read and write at computed indices, which are clamped so that bad data can't reach other memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.core.integers import ceil_div
from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.array import when
from tvtf.ops.kernels.common import COPY, INDEPENDENT, accumulator_dtype, as_dtype, compute, flat_buffer, long
from tvtf.ops.kernels.reduce import narrowed
from tvtf.ops.kernels.scan import PARALLEL_FROM, product, rows

LEAST_COLUMNS = 64
"""Columns of a task, four cache lines of float32: cores that write to the same line wait for each other."""
ROW_BLOCKS = 16
"""Number of tasks by rows: enough to balance uneven updates, few enough for each task to scan all indices."""


def clamped(index: Any, extent: Any) -> Any:
    """Clamps an index to [0, extent), as int64, so that it can't read other memory."""
    return tirx.max(tirx.min(index.astype("int64"), long(extent) - 1), long(0))


def gather(params: te.Tensor, indices: te.Tensor, *, axis: int, batch_dims: int) -> te.Tensor:
    """Gathers slices of ``params`` at ``indices`` along ``axis``, as ``tf.gather``. Indices out of range are clamped.

    ``params`` and ``indices`` have their first ``batch_dims`` axes in common. The result has the axes of ``params``, with
    the other axes of ``indices`` in place of ``axis``.
    """
    index_dims = list(indices.shape)[batch_dims:]
    axis_end = axis + len(index_dims)  # of the indices' axes in the result
    extents = [*params.shape[:axis], *index_dims, *list(params.shape)[axis + 1 :]]

    def element(*i: Any) -> Any:
        batch, before, after = i[:batch_dims], i[:axis], i[axis_end:]
        index = indices(*batch, *i[axis:axis_end])
        return params(*before, clamped(index, params.shape[axis]), *after)

    return compute(extents, element, "gather")


def gather_nd(params: te.Tensor, indices: te.Tensor) -> te.Tensor:
    """Gathers slices of ``params`` at index vectors, as ``tf.gather_nd``. Indices out of range are clamped.

    The index vectors lie along the last axis of ``indices``.
    """
    *vector_dims, depth = indices.shape
    vector_rank, depth = len(vector_dims), int(depth)
    extents = [*vector_dims, *list(params.shape)[depth:]]

    def element(*i: Any) -> Any:
        which_vector, index_in_slice = i[:vector_rank], i[vector_rank:]
        slice_index = [clamped(indices(*which_vector, long(axis)), params.shape[axis]) for axis in range(depth)]
        return params(*slice_index, *index_in_slice)

    return compute(extents, element, "gather_nd")


def _window_start(extent: Any, size: Any, start: te.Tensor, wrap: bool) -> Any:
    """Returns the start of a dynamic slice of ``size`` elements along an axis of ``extent`` elements.

    The start is clamped to keep the slice inside the axis. With ``wrap``, a negative start counts from the end.
    """
    position = start().astype("int64")
    if wrap:
        position = tirx.Select(position < 0, position + long(extent), position)
    return tirx.max(tirx.min(position, long(extent) - long(size)), long(0))


def dynamic_slice(
    x: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], sizes: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    """Computes a dynamic slice of ``x``: along each of ``axes``, ``sizes`` elements from a start that is a tensor.

    Each start is a scalar that is read at run time. With ``wrap``, a negative start counts from the end.
    """
    extents = list(x.shape)
    start_of = {}
    for axis, size, start in zip(axes, sizes, starts):
        start_of[axis] = _window_start(x.shape[axis], size, start, wrap)
        extents[axis] = size

    def element(*index: Any) -> Any:
        x_index = [i + start_of[axis] if axis in start_of else i for axis, i in enumerate(index)]
        return x(*x_index)

    return compute(extents, element, "window")


def dynamic_slice_grad(
    cotangent: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], extents: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    """Computes the gradient of a dynamic slice: zeros of the sliced tensor's shape, with ``cotangent`` at the slice.

    ``extents`` are the sliced tensor's dims along ``axes``. ``starts`` and ``wrap`` are those of the slice.
    """
    shape = list(cotangent.shape)
    start_of = {}
    for axis, extent, start in zip(axes, extents, starts):
        start_of[axis] = _window_start(extent, cotangent.shape[axis], start, wrap)
        shape[axis] = extent

    def element(*i: Any) -> Any:
        """Computes the cotangent of an element of the sliced tensor. It is zero outside the slice."""
        cotangent_index = list(i)
        is_in_slice = []  # conditions, which all hold if the slice contains the element
        for axis, start in start_of.items():
            position = i[axis] - start
            cotangent_index[axis] = position
            is_in_slice.append(tirx.all(position >= 0, position < cotangent.shape[axis]))
        return when(is_in_slice, cotangent(*cotangent_index), tirx.const(0, cotangent.dtype))

    return compute(shape, element, "window_grad")


# -- scatter: loops that write where the index says; rows in parallel would race, the elements of a row don't


def _flat(buffer: Any) -> Any:
    return flat_buffer(buffer)


def statements() -> Any:
    """Returns a TIR frame for a sequence of statements: a loop with one iteration.

    TVM's own ``seq_scope`` is a pragma of which the code generator warns.
    """
    return T.serial(long(0), long(1))


@contextmanager
def columns(count: Any, row_size: Any) -> Iterator[tuple[Any, Any]]:
    """Emits a parallel loop over blocks of columns if rows are wide. Yields a block's first column and its width.

    The body of each block handles all ``count`` rows. Rows in parallel would race, since several rows may update the
    same row of the result.
    """
    static_size = int(row_size) if isinstance(row_size, tirx.IntImm) else 0
    # The largest number of blocks with equal widths, each a multiple of LEAST_COLUMNS.
    possible_counts = [blocks for blocks in (8, 4, 2) if static_size and static_size % (blocks * LEAST_COLUMNS) == 0]
    if not possible_counts:
        yield long(0), row_size
        return
    block_count = possible_counts[0]
    width = static_size // block_count
    with rows(long(block_count), count * row_size) as block:
        yield block * width, long(width)


def segment(data: te.Tensor, ids: te.Tensor, num_segments: Any, initial: Any, combine: Any) -> te.Tensor:
    """Reduces the rows of ``data`` with the same id to one row of the result, such as their sum.

    Args:
        data: the rows.
        ids: the segment id of each row; ids out of range are skipped.
        num_segments: the number of rows of the result.
        initial: the result for a segment without rows.
        combine: computes the new value of an element from its old value and a row's element.
    """
    rank = len(ids.shape)
    row_shape = list(data.shape)[rank:]
    accumulation_dtype = accumulator_dtype(str(data.dtype))
    count, row_size = product(ids.shape), product(row_shape)

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a segment reduction, such as a sum, as a loop over blocks of the result's rows.

        A block is filled with ``initial``. Then the input's rows of the block's segments are combined with it.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            rows_in = _flat(ins[0])
            segments = _flat(ins[1])
            out = _flat(outs[0])

            def fill(first: Any, size: Any) -> None:
                with T.serial(long(0), size, annotations=INDEPENDENT) as i:
                    out[first + i] = tirx.const(initial, accumulation_dtype) if isinstance(initial, int) else initial

            def combine_rows(first: Any, width: Any, is_own: Callable[[Any], Any]) -> None:
                """Emits a loop over all input rows.

                The loop updates the rows of the result for which ``is_own`` holds.
                """
                with T.serial(long(0), count) as i:
                    segment_id = segments[i].astype("int64")
                    with (
                        T.If(tirx.all(segment_id >= 0, segment_id < long(num_segments), is_own(segment_id))),
                        T.Then(),
                        T.serial(long(0), width, annotations=INDEPENDENT) as j,
                    ):
                        target = segment_id * row_size + first + j
                        out[target] = combine(
                            out[target], as_dtype(rows_in[i * row_size + first + j], accumulation_dtype)
                        )

            emit_by_row_blocks(long(num_segments), row_size, count, fill, combine_rows)
            return builder.get()

    shape = [long(num_segments), *row_shape]
    return narrowed(
        te.extern([shape], [data, ids], build_ir, name="segment", dtype=accumulation_dtype), str(data.dtype)
    )


def segment_sum(data: te.Tensor, ids: te.Tensor, *, num_segments: Any) -> te.Tensor:
    return segment(data, ids, num_segments, 0, lambda old, new: old + new)


def segment_prod(data: te.Tensor, ids: te.Tensor, *, num_segments: Any) -> te.Tensor:
    return segment(data, ids, num_segments, 1, lambda old, new: old * new)


def segment_max(data: te.Tensor, ids: te.Tensor, *, num_segments: Any) -> te.Tensor:
    return segment(data, ids, num_segments, lowest_finite(data), scalar.maximum)


def segment_min(data: te.Tensor, ids: te.Tensor, *, num_segments: Any) -> te.Tensor:
    return segment(data, ids, num_segments, highest_finite(data), scalar.minimum)


def lowest_finite(data: te.Tensor) -> Any:
    return _finite(str(data.dtype), "min")


def highest_finite(data: te.Tensor) -> Any:
    return _finite(str(data.dtype), "max")


def _finite(dtype: str, bound: str) -> Any:
    """Returns the lowest ("min") or highest ("max") finite number of a dtype, in its accumulation dtype."""
    if "float" in dtype:
        return tirx.const(float(getattr(ml_dtypes.finfo(dtype), bound)), accumulator_dtype(dtype))
    return getattr(tirx, f"{bound}_value")(dtype)


def scatter(x: te.Tensor, indices: te.Tensor, updates: te.Tensor, combine: Any) -> te.Tensor:
    """Copies ``x``, and updates the copy's slices at ``indices`` by ``combine(old element, element of updates)``.

    Index vectors lie along the last axis of ``indices``. Those out of range are skipped.
    """
    depth = int(indices.shape[-1])
    accumulation_dtype = accumulator_dtype(str(x.dtype))
    count, slice_size = product(list(indices.shape)[:-1]), product(list(x.shape)[depth:])

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a scatter, such as an addition of slices at index vectors, as a loop over blocks of the result's rows.

        A block is copied from the old tensor. Then the updates at index vectors into the block are combined with it.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            (old, index_vectors, new), out = map(_flat, ins), _flat(outs[0])

            def copy(first: Any, size: Any) -> None:
                """Emits the copy of ``size`` elements of the old tensor, starting at ``first``."""
                with T.serial(long(0), size, annotations={**INDEPENDENT, COPY: True}) as i:
                    out[first + i] = as_dtype(old[first + i], accumulation_dtype)

            def update_slices(first: Any, width: Any, is_own: Callable[[Any], Any]) -> None:
                """Emits a loop over all index vectors, which updates the slices that belong to the current block.

                Args:
                    first: the first element of each slice that is updated.
                    width: the number of elements.
                    is_own: returns whether a slice, given by its number, is in the block.
                """
                with T.serial(long(0), count) as i:
                    slice_number, is_valid = _slice_number(index_vectors, i, depth, x.shape)
                    with (
                        T.If(tirx.all(is_valid, is_own(slice_number))),
                        T.Then(),
                        T.serial(long(0), width, annotations=INDEPENDENT) as j,
                    ):
                        target = slice_number * slice_size + first + j
                        out[target] = combine(
                            out[target], as_dtype(new[i * slice_size + first + j], accumulation_dtype)
                        )

            emit_by_row_blocks(product(list(x.shape)[:depth]), slice_size, count, copy, update_slices)
            return builder.get()

    result = te.extern([x.shape], [x, indices, updates], build_ir, name="scatter", dtype=accumulation_dtype)
    return narrowed(result, str(x.dtype))


def emit_by_row_blocks(
    rows: Any, row_size: Any, count: Any, initialize: Callable[..., None], update: Callable[..., None]
) -> None:
    """Emits the initialization and the updates of a scatter's result, in parallel over row blocks if the result is large.

    One task initializes and updates a block, while the block is in a core's cache.

    Args:
        rows: number of rows of the result.
        row_size: number of elements of a row.
        count: number of updates.
        initialize: emits the initialization of elements. It is called with (first element, number of elements).
        update: emits the updates. It is called with (first column, number of columns, is the row in the block?).
    """
    with statements():
        if not _is_large(rows, row_size, count):
            initialize(long(0), rows * row_size)
            with columns(count, row_size) as (first, width):
                update(first, width, lambda _row: tirx.const(True, "bool"))
            return
        block_rows = ceil_div(int(rows), ROW_BLOCKS)
        with T.parallel(long(0), long(ceil_div(int(rows), block_rows))) as block:
            first = block * block_rows
            initialize(first * row_size, tirx.min(long(block_rows), rows - first) * row_size)
            update(long(0), row_size, lambda row: tirx.all(row >= first, row < first + block_rows))


def _is_large(rows: Any, row_size: Any, count: Any) -> bool:
    """Returns whether a scatter's result has static sizes large enough for parallel blocks of rows."""
    if not all(isinstance(size, tirx.IntImm) for size in (rows, row_size, count)):
        return False
    return int(rows) >= ROW_BLOCKS and int(row_size) >= LEAST_COLUMNS and int(count) * int(row_size) >= PARALLEL_FROM


def _slice_number(index_vectors: Any, number: Any, depth: int, shape: Any) -> tuple[Any, Any]:
    """Returns the row-major index of the slice at an index vector, and whether the vector is in range.

    The index vector is row ``number`` of ``index_vectors``, and has ``depth`` components.
    """
    flat = long(0)
    is_valid = tirx.const(True, "bool")
    for axis in range(depth):
        index = index_vectors[number * depth + axis].astype("int64")
        flat = flat * long(shape[axis]) + index
        is_valid = tirx.all(is_valid, index >= 0, index < long(shape[axis]))
    return flat, is_valid


def scatter_update(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, lambda _old, new: new)


def scatter_add(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, tirx.Or if str(x.dtype) == "bool" else lambda old, new: old + new)


def scatter_max(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, scalar.maximum)


def scatter_min(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, scalar.minimum)
