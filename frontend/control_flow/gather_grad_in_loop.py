"""Cotangents of reads from a tensor that all iterations of a loop share: added to its rows, in place.

The tensor's cotangent is summed in one buffer of rows. Otherwise each iteration would add a dense tensor that is zero
except for the rows that it read, and the gradient of a loop over n rows would take n * n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvtf.core.shape import Dim, same_dim, same_shape, size_of
from tvtf.core.tensor import Tensor
from tvtf.dtypes import int64
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, number
from tvtf.passes.autodiff.reverse_mode import Record


@dataclass(frozen=True)
class RowCotangents:
    """Values for rows of tensor number ``key`` whose first ``depth`` axes are flattened; places below 0 mean no row."""

    key: int
    depth: int
    places: Tensor
    values: Tensor

    def split_into_rows_at(self, shape: Sequence[Dim], depth: int) -> RowCotangents:
        """Splits the cotangents of rows into cotangents of smaller rows, with more leading axes flattened.

        Reads of one tensor with rows of different sizes can then be added to one buffer of rows.

        Args:
          shape: the shape of the tensor that is read.
          depth: the number of leading axes to flatten, at least ``self.depth``.
        """
        if depth == self.depth:
            return self
        rows_per_row = size_of(shape[self.depth : depth])
        (row_count,) = self.places._type.shape
        first_places = bind.multiply(self.places, scalar_of(rows_per_row))
        column = bind.reshape(first_places, shape=(row_count, 1))
        places = bind.reshape(bind.add(column, _range(rows_per_row)), shape=(row_count * rows_per_row,))
        return RowCotangents(
            self.key, depth, places, bind.reshape(self.values, shape=(row_count * rows_per_row, *shape[depth:]))
        )


class SharedTensors:
    """The tensors that all iterations share, by their stand-ins in a run of the body, and the rows that reads give."""

    def __init__(self, stand_ins: dict[int, tuple[int, Sequence[Dim]]]) -> None:
        self.stand_ins, self.rows = stand_ins, list[RowCotangents]()

    @staticmethod
    def within(outer: SharedTensors | None, captured: Sequence[Tensor], inner: Sequence[Tensor]) -> SharedTensors:
        """Returns the shared tensors that a function captures.

        ``captured`` are tensors outside of the function, ``inner`` the tensors that stand for them inside.
        """
        stand_ins = {} if outer is None else outer.stand_ins
        return SharedTensors({id(b): stand_ins[id(a)] for a, b in zip(captured, inner) if id(a) in stand_ins})

    def replace_reads(self, records: Sequence[Record], branches: Callable[..., Any]) -> list[Record]:
        """Returns the tapes' records with reads of shared tensors replaced by :class:`_RowRead`.

        ``branches`` is the vjp of a cond: its branches may read shared tensors too.
        """
        return [self._replace_read(record, branches) for record in records]

    def _replace_read(self, record: Record, branches: Callable[..., Any]) -> Record:
        """Returns the replacement of a tape's record if it reads a shared tensor, else the record.

        A reshaped shared tensor is a shared tensor, too.
        """
        prim, inputs, outputs, attrs = record
        if prim.name == "cond" and any(id(x) in self.stand_ins for x in inputs[1:]):
            return _CondWithReads(self, branches), inputs, outputs, attrs
        if not inputs or id(inputs[0]) not in self.stand_ins:
            return record
        if prim.name == "reshape":
            self.stand_ins[id(outputs)] = self.stand_ins[id(inputs[0])]
        depth = self._depth(record)
        return record if depth is None else (_RowRead(self, depth, prim.name), inputs, outputs, attrs)

    def _depth(self, record: Record) -> int | None:
        """Returns the number of axes before the rows that a record reads of a shared tensor, None if it reads no rows.

        Axes are counted in the shape of the shared tensor before any reshape.
        """
        prim, (x, *operands), _, attrs = record
        if prim.name not in READS:
            return None
        depth = READS[prim.name].depth(x, *operands, **attrs)
        _, shape = self.stand_ins[id(x)]
        leading = len(shape) - (x.ndim - depth)
        return leading if leading > 0 and same_shape(shape[leading:], x._type.shape[depth:]) else None


class _RowRead:
    """Replaces the primitive of a read: its cotangent goes to the rows."""

    tf_name = "Read"

    def __init__(self, shared: SharedTensors, depth: int, name: str) -> None:
        self.shared, self.depth, self.name = shared, depth, name

    def vjp(self, ct: Tensor, y: Tensor, x: Tensor, *operands: Tensor, **attrs: Any) -> tuple[None, ...]:
        """Appends the cotangent ``ct`` of the rows read to the rows of the shared tensor, and returns no cotangent."""
        key, shape = self.shared.stand_ins[id(x)]
        places = READS[self.name].places(x, *operands, **attrs)
        values = bind.reshape(ct, shape=(*places._type.shape, *shape[self.depth :]))
        self.shared.rows.append(RowCotangents(key, self.depth, places, values))
        return (None,)


class _CondWithReads:
    """Replaces ``cond``, whose branches' reads go to the rows too."""

    tf_name = "If"

    def __init__(self, shared: SharedTensors, vjp: Callable[..., Any]) -> None:
        self.shared, self.run = shared, vjp

    def vjp(self, cts: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
        return self.run(cts, outputs, *inputs, shared=self.shared, **attrs)


# -- what primitives read: how many axes precede the rows, and the rows' places along the flattened axes


class _ReadRule(NamedTuple):
    depth: Callable[..., int]
    places: Callable[..., Tensor]


def _range(count: Dim) -> Tensor:
    return bind.range(size=count, start=0, delta=1, dtype=int64)


def _combined_places(extents: Sequence[Dim], along: Sequence[Tensor]) -> Tensor:
    """Returns the flattened row-major indices of all combinations of indices along several axes.

    For example, indices ``[0, 1]`` and ``[2]`` along axes of sizes 2 and 5 give ``[2, 7]``.

    Args:
      extents: the sizes of the axes.
      along: the indices along each axis.
    """
    combined, *others = along
    for extent, places in zip(extents[1:], others):
        combined_count, count = combined._type.shape[0], places._type.shape[0]
        column = bind.reshape(bind.multiply(combined, scalar_of(extent)), shape=(combined_count, 1))
        combined = bind.reshape(bind.add(column, places), shape=(size_of((combined_count, count)),))
    return combined


def _as_int64(x: Tensor) -> Tensor:
    return bind.cast(x, dtype=int64)


def _gather_places(x: Tensor, indices: Tensor, *, axis: int, batch_dims: int) -> Tensor:
    """Returns the flattened indices of the rows that ``gather`` reads, over ``axis`` and all axes before it."""
    flat_indices = bind.reshape(_as_int64(indices), shape=(size_of(indices._type.shape),))
    return _combined_places(x._type.shape, [*map(_range, x._type.shape[:axis]), flat_indices])


def _gather_nd_places(x: Tensor, indices: Tensor) -> Tensor:
    """Returns the flattened row-major indices of the rows that ``gather_nd`` reads, one per vector of indices."""
    *outer, depth = indices._type.shape
    vectors = bind.reshape(_as_int64(indices), shape=(size_of(tuple(outer)), depth))
    strides = [scalar_of(size_of(x._type.shape[i + 1 : depth])) for i in range(depth)]
    weighted = bind.multiply(vectors, bind.stack(*strides, axis=0))
    return bind.reduce_sum(weighted, axis=(1,), keepdims=False)


def _window_places(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> Tensor:
    """Returns the flattened places that ``dynamic_slice`` reads, to which the gradient is added.

    A negative start counts from the end where ``wrap`` says so, as in the read itself.
    """
    along = list(map(_range, x._type.shape[: max(axes) + 1]))
    for start, axis, size in zip(map(_as_int64, starts), axes, sizes):
        if wrap:
            from_end = bind.add(start, scalar_of(x._type.shape[axis]))
            start = bind.select(bind.less(start, number(0, start)), from_end, start)
        along[axis] = bind.add(start, _range(size))
    return _combined_places(x._type.shape, along)


def _strided_slice_places(x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> Tensor:
    """Returns the flattened places that ``strided_slice`` reads along the axes that it slices."""
    axis_count = _sliced_axis_count(x, begin, size)
    bounds = zip(begin[:axis_count], size[:axis_count], strides[:axis_count])
    along = [
        bind.add(scalar_of(start), bind.multiply(_range(count), scalar_of(stride))) for start, count, stride in bounds
    ]
    return _combined_places(x._type.shape, along)


def _sliced_axis_count(x: Tensor, begin: Any, size: Any) -> int:
    """Returns the number of leading axes up to the last one that is sliced."""
    is_whole_axis = [same_dim(n, d) for n, d in zip(size, x._type.shape)]
    return max((i + 1 for i, is_whole in enumerate(is_whole_axis) if not is_whole), default=0)


READS = {
    "stack_read": _ReadRule(lambda x, index: 1, lambda x, index: bind.reshape(_as_int64(index), shape=(1,))),
    "gather": _ReadRule(lambda x, at, *, axis, batch_dims: 0 if batch_dims else axis + 1, _gather_places),
    "gather_nd": _ReadRule(lambda x, at: at._type.shape[-1], _gather_nd_places),
    "dynamic_slice": _ReadRule(lambda x, *starts, axes, sizes, wrap: max(axes) + 1, _window_places),
    "strided_slice": _ReadRule(
        lambda x, *, begin, size, strides, checked: _sliced_axis_count(x, begin, size), _strided_slice_places
    ),
}
