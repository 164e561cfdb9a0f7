"""Stable sorts of rows, for every dtype and symbolic lengths; TVM's own sort is wrong for some dtypes."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import FlatProxy, accumulator_dtype, cast, compute, flat_buffer, long
from tvtf.ops.kernels.radix import LEAST_LENGTH, order_by_digits
from tvtf.ops.kernels.scan import product, rows

MOST_BY_INSERTION = 64
"""Largest k for which insertion is faster than sorting the whole row, even for ascending rows, its worst case."""


def precedes(a: Any, b: Any, descending: bool) -> Any:
    """Builds the condition that key ``a`` comes strictly before key ``b`` in sorted order.

    NaN counts as the largest key.
    """
    comes_before = a > b if descending else a < b
    if "float" not in str(a.ty.dtype):  # integers have no NaN
        return comes_before
    # Comparisons with NaN are false: of a NaN and a number, the NaN is first in descending order only.
    nan_side, number_side = (a, b) if descending else (b, a)
    return tirx.any(comes_before, tirx.all(tirx.isnan(nan_side), tirx.Not(tirx.isnan(number_side))))


def order(x: te.Tensor, descending: bool) -> te.Tensor:
    """Computes the int32 indices that sort each row (the last axis) stably.

    Long rows are sorted by radix sort. Short rows, and rows of unknown length, are sorted by merge sort.
    """
    length = long(x.shape[-1])
    count = product(list(x.shape)[:-1])
    x = cast(x, accumulator_dtype(str(x.dtype)))
    if isinstance(length, tirx.IntImm) and int(length) >= LEAST_LENGTH:
        return order_by_digits(x, descending)

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a sort of each row's indices by the row's keys.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            keys, indices, spare = (flat_buffer(buffer) for buffer in (ins[0], *outs))
            with rows(count, count * length) as row:
                _sort_row(lambda i: keys[row * length + i], indices, spare, row * length, length, descending)
            return builder.get()

    return te.extern([x.shape, x.shape], [x], build_ir, name="order", dtype=["int32", "int32"])[0]


def _sort_row(key: Any, indices: Any, spare: Any, base: Any, length: Any, descending: bool) -> None:
    """Emits a bottom-up merge sort of a row's indices: sorted runs of 1, 2, 4, ... elements are merged in pairs.

    Args:
        key: ``key(i)`` reads element i of the row.
        indices: the buffer of the result; the row's indices begin at ``base``.
        spare: a buffer of the same size, for merged runs.
        base: the position of the row's first index in both buffers.
        length: the number of elements of the row.
        descending: whether the largest element comes first.
    """
    # A buffer of one element is a variable of the loops.
    width = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    with T.serial(long(0), length) as i:
        indices[base + i] = i.astype("int32")
    width[0] = long(1)
    with T.While(width[0] < length):
        pair_count = tirx.floordiv(length + width[0] * 2 - 1, width[0] * 2)
        with T.serial(long(0), pair_count) as pair:
            low = pair * width[0] * 2
            middle = tirx.min(low + width[0], length)
            high = tirx.min(low + width[0] * 2, length)
            _merge(key, indices, spare, base, (low, middle, high), descending)
        with T.serial(long(0), length) as i:
            # The next pass merges from ``indices`` again.
            indices[base + i] = spare[base + i]
        width[0] = width[0] * 2


def _merge(key: Any, indices: Any, spare: Any, base: Any, run: tuple[Any, Any, Any], descending: bool) -> None:
    """Emits the stable merge of two adjacent sorted runs of ``indices`` into ``spare``.

    ``run`` has three positions in the row: the start of the first run, the start of the second, and the end of both.
    ``key(i)`` reads element i of the row, which begins at ``base``.
    """
    low, middle, high = run
    # Buffers of one element are variables: the next positions in both runs.
    left = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    right = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    left[0] = low
    right[0] = middle
    with T.serial(long(0), high - low) as offset:
        target = base + low + offset
        with T.If(left[0] >= middle):
            with T.Then():
                _move_next(spare, indices, base, target, right)
            with T.Else(), T.If(right[0] >= high):
                with T.Then():
                    _move_next(spare, indices, base, target, left)
                with T.Else():
                    first = key(indices[base + left[0]].astype("int64"))
                    second = key(indices[base + right[0]].astype("int64"))
                    with T.If(precedes(second, first, descending)):
                        with T.Then():
                            _move_next(spare, indices, base, target, right)
                        with T.Else():
                            _move_next(spare, indices, base, target, left)


def _move_next(spare: Any, indices: Any, base: Any, target: Any, cursor: Any) -> None:
    """Emits a copy of the index at a run's cursor to ``spare[target]``, and advances the cursor."""
    spare[target] = indices[base + cursor[0]]
    cursor[0] = cursor[0] + long(1)


def _gather_rows(x: te.Tensor, indices: te.Tensor, extent: Any, name: str) -> te.Tensor:
    """Gathers from each row of ``x`` the elements at the same row of ``indices``: the first ``extent`` indices."""
    shape = [*list(x.shape)[:-1], long(extent)]
    return compute(shape, lambda *i: x(*i[:-1], indices(*i).astype("int64")), name)


def argsort(x: te.Tensor, *, descending: bool) -> te.Tensor:
    """Computes the int32 indices that sort each row."""
    result = order(x, descending)
    return compute(x.shape, lambda *i: result(*i), "argsort")


def sort(x: te.Tensor, *, descending: bool) -> te.Tensor:
    """Sorts each row."""
    return _gather_rows(x, order(x, descending), x.shape[-1], "sort")


def top_k(x: te.Tensor, *, k: Any, index_type: str) -> list[te.Tensor]:
    """Computes the ``k`` largest elements of each row in descending order, and their indices.

    A small k is selected by insertion. Otherwise the whole row is sorted.
    """
    is_small = isinstance(k, int) and 0 < k <= MOST_BY_INSERTION
    order_of_row = largest(x, k) if is_small else order(x, True)
    values = _gather_rows(x, order_of_row, k, "values")
    shape = [*list(x.shape)[:-1], long(k)]
    indices = compute(shape, lambda *i: order_of_row(*i).astype(index_type), "places")
    return [values, indices]


def largest(x: te.Tensor, k: int) -> te.Tensor:
    """Computes the int32 indices of each row's ``k`` largest elements in descending order, by insertion sort.

    An element is inserted only if it is larger than the k-th largest before it. In most rows few elements are.
    """
    length = long(x.shape[-1])
    count = product(list(x.shape)[:-1])
    x = cast(x, accumulator_dtype(str(x.dtype)))

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a search for the k largest keys of each row.

        A loop over the row inserts each key into the sorted k largest so far, if the key belongs there.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            keys, indices, best = (flat_buffer(buffer) for buffer in (ins[0], *outs))
            with rows(count, count * length) as row, T.serial(long(0), length) as i:
                key = keys[row * length + i]
                first = row * k  # the position of the row's largest keys
                # The first k keys are always inserted.
                is_new = tirx.any(i < k, precedes(key, best[first + (k - 1)], True))
                with T.If(is_new), T.Then():
                    _insert(key, i, indices, best, first, k)
            return builder.get()

    shape = [*list(x.shape)[:-1], long(k)]
    return te.extern([shape, shape], [x], build_ir, name="largest", dtype=["int32", str(x.dtype)])[0]


def _insert(key: Any, index: Any, indices: Any, best: Any, first: Any, k: int) -> None:
    """Emits the insertion of a key into a row's descending list of the ``k`` largest keys. The last key drops out.

    The list is in ``best``, starting at position ``first``, and the keys' indices are in ``indices``. Equal keys keep their
    order. ``index`` is the new key's index in the row.
    """
    slot = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
    slot[0] = tirx.min(index, long(k - 1))
    before = first + slot[0] - 1
    # ``if_then_else`` and ``max`` keep the loop from reading before the list
    with T.While(tirx.if_then_else(slot[0] > 0, precedes(key, best[tirx.max(before, long(0))], True), False)):
        best[before + 1] = best[before]
        indices[before + 1] = indices[before]
        slot[0] = slot[0] - long(1)
    best[first + slot[0]] = key
    indices[first + slot[0]] = index.astype("int32")


def searchsorted(sequence: te.Tensor, values: te.Tensor, *, side: str, out_type: str) -> te.Tensor:
    """Computes the index at which each value would be inserted into the sorted row of ``sequence``, by bisection.

    With ``side`` "left" it is the index of the first element that isn't below the value, with "right" that of the first
    element above.
    """
    length, width = long(sequence.shape[-1]), long(values.shape[-1])
    count = product(list(values.shape)[:-1])
    if any(isinstance(dim, tirx.IntImm) and dim.value == 0 for dim in (*sequence.shape, *values.shape)):
        return te.compute(values.shape, lambda *_: tirx.const(0, out_type), name="searchsorted")  # nothing lies below
    sequence = cast(sequence, accumulator_dtype(str(sequence.dtype)))
    values = cast(values, accumulator_dtype(str(values.dtype)))

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a binary search for the position of each value in the value's row of the sorted sequence.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            sequence_values, targets, out = (flat_buffer(buffer) for buffer in (*ins, *outs))
            with rows(count * width, count * width) as position:
                low = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
                high = FlatProxy(T.decl_buffer([1], "int64", scope="local"))
                low[0] = long(0)
                high[0] = length
                with T.While(low[0] < high[0]):
                    middle = tirx.floordiv(low[0] + high[0], long(2))
                    element = sequence_values[tirx.floordiv(position, width) * length + middle]
                    value = targets[position]
                    # For a NaN value, no element counts as below it, and all elements count as at most equal to it. This
                    # needs a test of its own, because TVM rewrites ``not value < edge`` to ``edge <= value``, which
                    # differs for NaN.
                    unordered = [tirx.isnan(x) for x in (element, value) if "float" in str(x.ty.dtype)]
                    is_before = element < value if side == "left" else tirx.any(element <= value, *unordered)
                    with T.If(is_before):
                        with T.Then():
                            low[0] = middle + 1
                        with T.Else():
                            high[0] = middle
                out[position] = low[0].astype(out_type)
            return builder.get()

    return te.extern([values.shape], [sequence, values], build_ir, name="searchsorted", dtype=out_type)
