"""Stable sorts of rows, for every dtype and symbolic lengths; TVM's own sort is wrong for some dtypes."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import accumulator_dtype, cast, compute, flat_buffer, long
from tvtf.ops.kernels.radix import LEAST_LENGTH, order_by_digits
from tvtf.ops.kernels.scan import product, rows

MOST_BY_INSERTION = 64
"""Largest k for which insertion is faster than sorting the whole row, even for ascending rows, its worst case."""


def precedes(a: Any, b: Any, descending: bool) -> Any:
    """Returns whether a goes strictly before b; NaN counts as the largest."""
    before = a > b if descending else a < b
    if "float" not in str(a.ty.dtype):
        return before
    odd, even = (a, b) if descending else (b, a)
    return tirx.any(before, tirx.all(tirx.isnan(odd), tirx.Not(tirx.isnan(even))))


def order(x: te.Tensor, descending: bool) -> te.Tensor:
    """Computes the int32 indices that sort each row (the last axis), stably."""
    length, count = long(x.shape[-1]), product(list(x.shape)[:-1])
    x = cast(x, accumulator_dtype(str(x.dtype)))
    if isinstance(length, tirx.IntImm) and int(length) >= LEAST_LENGTH:
        return order_by_digits(x, descending)

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            keys, places, spare = (flat_buffer(b) for b in (ins[0], *outs))
            with rows(count, count * length) as row:
                _sort_row(lambda i: keys[row * length + i], places, spare, row * length, length, descending)
            return builder.get()

    return te.extern([x.shape, x.shape], [x], body, name="order", dtype=["int32", "int32"])[0]


def _sort_row(key: Any, places: Any, spare: Any, base: Any, length: Any, descending: bool) -> None:
    """Emits a bottom-up merge sort: sorted runs of 1, 2, 4, ... elements are merged in pairs."""
    width = T.buffer_proxy(T.decl_buffer([1], "int64", scope="local"))
    with T.serial(long(0), length) as i:
        places[base + i] = i.astype("int32")
    width[0] = long(1)
    with T.While(width[0] < length):
        with T.serial(long(0), tirx.floordiv(length + width[0] * 2 - 1, width[0] * 2)) as pair:
            low = pair * width[0] * 2
            middle, high = tirx.min(low + width[0], length), tirx.min(low + width[0] * 2, length)
            _merge(key, places, spare, base, (low, middle, high), descending)
        with T.serial(long(0), length) as i:
            places[base + i] = spare[base + i]
        width[0] = width[0] * 2


def _merge(key: Any, places: Any, spare: Any, base: Any, run: tuple[Any, Any, Any], descending: bool) -> None:
    """Merges two adjacent sorted runs of ``places`` into ``spare``; equal keys keep their order."""
    low, middle, high = run
    left, right = (T.buffer_proxy(T.decl_buffer([1], "int64", scope="local")) for _ in range(2))
    left[0] = low
    right[0] = middle
    with T.serial(long(0), high - low) as step:
        to = base + low + step
        with T.If(left[0] >= middle):
            with T.Then():
                _take(spare, places, base, to, right)
            with T.Else(), T.If(right[0] >= high):
                with T.Then():
                    _take(spare, places, base, to, left)
                with T.Else():
                    first, second = (key(places[base + at[0]].astype("int64")) for at in (left, right))
                    with T.If(precedes(second, first, descending)):
                        with T.Then():
                            _take(spare, places, base, to, right)
                        with T.Else():
                            _take(spare, places, base, to, left)


def _take(spare: Any, places: Any, base: Any, to: Any, at: Any) -> None:
    spare[to] = places[base + at[0]]
    at[0] = at[0] + long(1)


def _at(x: te.Tensor, places: te.Tensor, extent: Any, name: str) -> te.Tensor:
    shape = [*list(x.shape)[:-1], long(extent)]
    return compute(shape, lambda *i: x(*i[:-1], places(*i).astype("int64")), name)


def argsort(x: te.Tensor, *, descending: bool) -> te.Tensor:
    result = order(x, descending)
    return compute(x.shape, lambda *i: result(*i), "argsort")


def sort(x: te.Tensor, *, descending: bool) -> te.Tensor:
    return _at(x, order(x, descending), x.shape[-1], "sort")


def top_k(x: te.Tensor, *, k: Any, index_type: str) -> list[te.Tensor]:
    result = largest(x, k) if isinstance(k, int) and 0 < k <= MOST_BY_INSERTION else order(x, True)
    shape = [*list(x.shape)[:-1], long(k)]
    return [_at(x, result, k, "values"), compute(shape, lambda *i: result(*i).astype(index_type), "places")]


def largest(x: te.Tensor, k: int) -> te.Tensor:
    """Computes the int32 indices of each row's ``k`` largest elements in descending order, by insertion.

    In most rows few elements are larger than the k-th before them, so that few are inserted.
    """
    length, count = long(x.shape[-1]), product(list(x.shape)[:-1])
    x = cast(x, accumulator_dtype(str(x.dtype)))

    def body(ins: Any, outs: Any) -> Any:
        """Emits a loop that inserts each key into the k best so far, if it precedes the last of them."""
        with IRBuilder() as builder:
            keys, places, best = (flat_buffer(b) for b in (ins[0], *outs))
            with rows(count, count * length) as row, T.serial(long(0), length) as i:
                key, first = keys[row * length + i], row * k
                is_new = tirx.any(i < k, precedes(key, best[first + (k - 1)], True))
                with T.If(is_new), T.Then():
                    _insert(key, i, places, best, first, k)
            return builder.get()

    shape = [*list(x.shape)[:-1], long(k)]
    return te.extern([shape, shape], [x], body, name="largest", dtype=["int32", str(x.dtype)])[0]


def _insert(key: Any, place: Any, places: Any, best: Any, first: Any, k: int) -> None:
    """Emits the insertion of an element behind equal ones; the last of the k is dropped."""
    at = T.buffer_proxy(T.decl_buffer([1], "int64", scope="local"))
    at[0] = tirx.min(place, long(k - 1))
    before = first + at[0] - 1
    with T.While(tirx.if_then_else(at[0] > 0, precedes(key, best[tirx.max(before, long(0))], True), False)):
        best[before + 1] = best[before]
        places[before + 1] = places[before]
        at[0] = at[0] - long(1)
    best[first + at[0]] = key
    places[first + at[0]] = place.astype("int32")


def searchsorted(sequence: te.Tensor, values: te.Tensor, *, side: str, out_type: str) -> te.Tensor:
    """Searches by bisection, row by row."""
    length, width = long(sequence.shape[-1]), long(values.shape[-1])
    count = product(list(values.shape)[:-1])
    if any(isinstance(dim, tirx.IntImm) and dim.value == 0 for dim in (*sequence.shape, *values.shape)):
        return te.compute(values.shape, lambda *_: tirx.const(0, out_type), name="searchsorted")  # nothing lies below
    sequence, values = (cast(x, accumulator_dtype(str(x.dtype))) for x in (sequence, values))

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            edges, targets, out = (flat_buffer(b) for b in (*ins, *outs))
            with rows(count * width, count * width) as at:
                low, high = (T.buffer_proxy(T.decl_buffer([1], "int64", scope="local")) for _ in range(2))
                low[0] = long(0)
                high[0] = length
                with T.While(low[0] < high[0]):
                    middle = tirx.floordiv(low[0] + high[0], long(2))
                    edge, value = edges[tirx.floordiv(at, width) * length + middle], targets[at]
                    # For NaN there is nothing below, and all of them up to it. TVM takes ``not value < edge`` for
                    # ``edge <= value``, which for NaN it is not.
                    unordered = [tirx.isnan(x) for x in (edge, value) if "float" in str(x.ty.dtype)]
                    with T.If(edge < value if side == "left" else tirx.any(edge <= value, *unordered)):
                        with T.Then():
                            low[0] = middle + 1
                        with T.Else():
                            high[0] = middle
                out[at] = low[0].astype(out_type)
            return builder.get()

    return te.extern([values.shape], [sequence, values], body, name="searchsorted", dtype=out_type)
