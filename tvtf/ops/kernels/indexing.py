"""TE kernels that read and write at computed indices, which are clamped so that bad data can't reach other memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ml_dtypes
from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.array import when
from tvtf.ops.kernels.common import COPY, INDEPENDENT, accumulator_dtype, as_dtype, compute, flat_buffer, long
from tvtf.ops.kernels.reduce import narrowed
from tvtf.ops.kernels.scan import PARALLEL_FROM, product, rows

LEAST_COLUMNS = 64
"""Columns of a task, four cache lines of float32: cores that write to the same line wait for each other."""
STRETCHES = 16
"""Number of tasks by rows: enough to balance uneven updates, few enough for each task to scan all indices."""


def clamped(index: Any, extent: Any) -> Any:
    """Clamps an index to [0, extent), as int64."""
    return tirx.max(tirx.min(index.astype("int64"), long(extent) - 1), long(0))


def gather(params: te.Tensor, indices: te.Tensor, *, axis: int, batch_dims: int) -> te.Tensor:
    """Reads the slices of ``params`` at ``indices`` along ``axis``; indices out of range are clamped."""
    count = len(indices.shape) - batch_dims
    extents = [*params.shape[:axis], *list(indices.shape)[batch_dims:], *list(params.shape)[axis + 1 :]]

    def element(*i: Any) -> Any:
        index = indices(*i[:batch_dims], *i[axis : axis + count])
        return params(*i[:axis], clamped(index, params.shape[axis]), *i[axis + count :])

    return compute(extents, element, "gather")


def gather_nd(params: te.Tensor, indices: te.Tensor) -> te.Tensor:
    """Reads the slices of ``params`` at the positions on the last axis of ``indices``, clamped to range."""
    lead, depth = len(indices.shape) - 1, int(indices.shape[-1])
    extents = [*list(indices.shape)[:lead], *list(params.shape)[depth:]]

    def element(*i: Any) -> Any:
        at = (clamped(indices(*i[:lead], long(k)), params.shape[k]) for k in range(depth))
        return params(*at, *i[lead:])

    return compute(extents, element, "gather_nd")


def _start(x_extent: Any, size: Any, start: te.Tensor, wrap: bool) -> Any:
    at = start().astype("int64")
    if wrap:
        at = tirx.Select(at < 0, at + long(x_extent), at)
    return tirx.max(tirx.min(at, long(x_extent) - long(size)), long(0))


def dynamic_slice(
    x: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], sizes: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    """Computes a window of a tensor, at starts that are read at run time."""
    extents = list(x.shape)
    first = {}
    for axis, size, start in zip(axes, sizes, starts):
        first[axis] = _start(x.shape[axis], size, start, wrap)
        extents[axis] = size
    return compute(extents, lambda *i: x(*(at + first[a] if a in first else at for a, at in enumerate(i))), "window")


def dynamic_slice_grad(
    ct: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], extents: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    """Writes ``ct`` into zeros of the sliced tensor's shape, from ``starts`` on along ``axes``."""
    shape = list(ct.shape)
    first = {}
    for axis, extent, start in zip(axes, extents, starts):
        first[axis] = _start(extent, ct.shape[axis], start, wrap)
        shape[axis] = extent

    def element(*i: Any) -> Any:
        source = [at - first[a] if a in first else at for a, at in enumerate(i)]
        inside = [tirx.all(source[a] >= 0, source[a] < ct.shape[a]) for a in first]
        return when(inside, ct(*source), tirx.const(0, ct.dtype))

    return compute(shape, element, "window_grad")


# -- scatter: loops that write where the index says; rows in parallel would race, the elements of a row don't


def _flat(buffer: Any) -> Any:
    return flat_buffer(buffer)


def statements() -> Any:
    """Returns a frame for several statements.

    It is a loop of one step: TVM's ``seq_scope`` is a pragma that its code generator warns of.
    """
    return T.serial(long(0), long(1))


@contextmanager
def columns(count: Any, inner: Any) -> Iterator[tuple[Any, Any]]:
    """Yields the first column and the number of columns of a task; tasks in parallel go over all rows."""
    known = int(inner) if isinstance(inner, tirx.IntImm) else 0
    parts = next((parts for parts in (8, 4, 2) if known and known % (parts * LEAST_COLUMNS) == 0), 1)
    if parts == 1:
        yield long(0), inner
    else:
        with rows(long(parts), count * inner) as part:
            yield part * (known // parts), long(known // parts)


def segment(data: te.Tensor, ids: te.Tensor, num_segments: Any, empty: Any, combine: Any) -> te.Tensor:
    """Combines the rows of ``data`` into the segments that ``ids`` name; ids out of range are skipped."""
    rank = len(ids.shape)
    rest = list(data.shape)[rank:]
    wide = accumulator_dtype(str(data.dtype))
    count, inner = product(ids.shape), product(rest)

    def body(ins: Any, outs: Any) -> Any:
        """Emits a loop over stretches of the result, each filled and then updated by one task."""
        with IRBuilder() as builder:
            rows_in, places, out = _flat(ins[0]), _flat(ins[1]), _flat(outs[0])

            def fill(first: Any, size: Any) -> None:
                with T.serial(long(0), size, annotations=INDEPENDENT) as i:
                    out[first + i] = tirx.const(empty, wide) if isinstance(empty, int) else empty

            def write(first: Any, width: Any, is_own: Callable[[Any], Any]) -> None:
                """Combines the rows whose segments are in this stretch with the result."""
                with T.serial(long(0), count) as i:
                    place = places[i].astype("int64")
                    with (
                        T.If(tirx.all(place >= 0, place < long(num_segments), is_own(place))),
                        T.Then(),
                        T.serial(long(0), width, annotations=INDEPENDENT) as j,
                    ):
                        to = place * inner + first + j
                        out[to] = combine(out[to], as_dtype(rows_in[i * inner + first + j], wide))

            stretches(long(num_segments), inner, count, fill, write)
            return builder.get()

    shape = [long(num_segments), *rest]
    return narrowed(te.extern([shape], [data, ids], body, name="segment", dtype=wide), str(data.dtype))


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


def _finite(dtype: str, end: str) -> Any:
    """Returns the lowest or highest finite number of a dtype, in its accumulation dtype."""
    if "float" in dtype:
        return tirx.const(float(getattr(ml_dtypes.finfo(dtype), end)), accumulator_dtype(dtype))
    return getattr(tirx, f"{end}_value")(dtype)


def scatter(x: te.Tensor, indices: te.Tensor, updates: te.Tensor, combine: Any) -> te.Tensor:
    """Copies ``x`` and combines the slices that ``indices`` name with ``updates``; indices out of range are skipped."""
    depth, wide = int(indices.shape[-1]), accumulator_dtype(str(x.dtype))
    count, inner = product(list(indices.shape)[:-1]), product(list(x.shape)[depth:])

    def body(ins: Any, outs: Any) -> Any:
        """Emits a loop over stretches of the result, each copied and then updated by one task."""
        with IRBuilder() as builder:
            (old, places, new), out = map(_flat, ins), _flat(outs[0])

            def copy(first: Any, size: Any) -> None:
                with T.serial(long(0), size, annotations={**INDEPENDENT, COPY: True}) as i:
                    out[first + i] = as_dtype(old[first + i], wide)

            def write(first: Any, width: Any, is_own: Callable[[Any], Any]) -> None:
                """Writes the updates whose positions are in this stretch."""
                with T.serial(long(0), count) as i:
                    place, inside = _flat_place(places, i, depth, x.shape)
                    with (
                        T.If(tirx.all(inside, is_own(place))),
                        T.Then(),
                        T.serial(long(0), width, annotations=INDEPENDENT) as j,
                    ):
                        to = place * inner + first + j
                        out[to] = combine(out[to], as_dtype(new[i * inner + first + j], wide))

            stretches(product(list(x.shape)[:depth]), inner, count, copy, write)
            return builder.get()

    result = te.extern([x.shape], [x, indices, updates], body, name="scatter", dtype=wide)
    return narrowed(result, str(x.dtype))


def stretches(rows: Any, inner: Any, count: Any, begin: Callable[..., None], write: Callable[..., None]) -> None:
    """Emits ``begin(first, size)`` for all elements, then ``write(column, columns, is_own)`` for the updates of own rows.

    A large result is split into stretches of rows, each initialized and updated while it is in a core's cache.
    """
    with statements():
        if not _is_large(rows, inner, count):
            begin(long(0), rows * inner)
            with columns(count, inner) as (first, width):
                write(first, width, lambda _row: tirx.const(True, "bool"))
            return
        height = -(-int(rows) // STRETCHES)
        with T.parallel(long(0), long(-(-int(rows) // height))) as part:
            first = part * height
            begin(first * inner, tirx.min(long(height), rows - first) * inner)
            write(long(0), inner, lambda row: tirx.all(row >= first, row < first + height))


def _is_large(rows: Any, inner: Any, count: Any) -> bool:
    if not all(isinstance(size, tirx.IntImm) for size in (rows, inner, count)):
        return False
    return int(rows) >= STRETCHES and int(inner) >= LEAST_COLUMNS and int(count) * int(inner) >= PARALLEL_FROM


def _flat_place(places: Any, row: Any, depth: int, shape: Any) -> tuple[Any, Any]:
    """Returns the row-major position of an index vector, and whether it is in range."""
    place, inside = long(0), tirx.const(True, "bool")
    for k in range(depth):
        at = places[row * depth + k].astype("int64")
        place = place * long(shape[k]) + at
        inside = tirx.all(inside, at >= 0, at < long(shape[k]))
    return place, inside


def scatter_update(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, lambda _old, new: new)


def scatter_add(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, tirx.Or if str(x.dtype) == "bool" else lambda old, new: old + new)


def scatter_max(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, scalar.maximum)


def scatter_min(x: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
    return scatter(x, indices, updates, scalar.minimum)
