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
    """Cotangents ``values`` of the rows that a loop's iteration read from a tensor shared by all iterations.

    ``key`` is the index of the tensor. Its first ``depth`` axes are flattened to one axis of rows, and ``indices`` are
    the indices of the rows read. A negative index means no row.
    """

    key: int
    depth: int
    indices: Tensor
    values: Tensor

    def split_into_rows_at(self, shape: Sequence[Dim], depth: int) -> RowCotangents:
        """Splits the cotangents of rows into cotangents of smaller rows, with more leading axes flattened.

        Cotangents of rows of different sizes can then be added to one buffer. For example, row 2 of a tensor of shape
        ``(5, 3)`` is split into the elements 6, 7 and 8 of the flattened tensor.

        Args:
          shape: the shape of the tensor that is read.
          depth: the number of leading axes to flatten, at least ``self.depth``.
        """
        if depth == self.depth:
            return self
        rows_per_row = size_of(shape[self.depth : depth])
        (row_count,) = self.indices._type.shape
        first_indices = bind.multiply(self.indices, scalar_of(rows_per_row))
        column = bind.reshape(first_indices, shape=(row_count, 1))
        indices = bind.reshape(bind.add(column, _range(rows_per_row)), shape=(row_count * rows_per_row,))
        return RowCotangents(
            self.key, depth, indices, bind.reshape(self.values, shape=(row_count * rows_per_row, *shape[depth:]))
        )


class SharedTensors:
    """The tensors that all iterations of a loop share, and the cotangents of rows that are read of them.

    ``stand_ins`` maps the id of the tensor that stands for a shared tensor in a run of the loop's body to the number
    and the shape of the shared tensor.
    """

    def __init__(self, stand_ins: dict[int, tuple[int, Sequence[Dim]]]) -> None:
        self.stand_ins = stand_ins
        self.rows = list[RowCotangents]()

    @staticmethod
    def within(outer: SharedTensors | None, captured: Sequence[Tensor], inner: Sequence[Tensor]) -> SharedTensors:
        """Returns those tensors of ``outer`` that a function captures, by the tensors that stand for them inside.

        Args:
          outer: the shared tensors outside of the function, None if there are none.
          captured: the tensors that the function captures.
          inner: for each captured tensor, the tensor that stands for it inside of the function.
        """
        outer_stand_ins = {} if outer is None else outer.stand_ins
        inner_stand_ins = {}
        for outer_tensor, inner_tensor in zip(captured, inner):
            shared = outer_stand_ins.get(id(outer_tensor))
            if shared is not None:
                inner_stand_ins[id(inner_tensor)] = shared
        return SharedTensors(inner_stand_ins)

    def replace_reads(self, records: Sequence[Record], branches: Callable[..., Any]) -> list[Record]:
        """Returns a tape's records, in which reads of shared tensors are replaced by :class:`_RowRead`.

        The gradient of such a read is added to the rows read only. ``branches`` is the vjp of a cond, whose branches
        may read shared tensors, too.
        """
        return [self._replace_read(record, branches) for record in records]

    def _replace_read(self, record: Record, branches: Callable[..., Any]) -> Record:
        """Returns a tape's record, with another primitive if it reads rows of a shared tensor.

        A read is replaced by a :class:`_RowRead`, and a cond that may contain reads by a :class:`_CondWithReads`.
        ``branches`` is the vjp of a cond.
        """
        prim, inputs, outputs, attrs = record
        if prim.name == "cond":
            condition, *captured = inputs
            if any(id(x) in self.stand_ins for x in captured):
                return _CondWithReads(self, branches), inputs, outputs, attrs
        if not inputs or id(inputs[0]) not in self.stand_ins:
            return record
        if prim.name == "reshape":  # a reshaped shared tensor is a shared tensor, too
            self.stand_ins[id(outputs)] = self.stand_ins[id(inputs[0])]
        depth = self._depth(record)
        if depth is None:
            return record
        return _RowRead(self, depth, prim.name), inputs, outputs, attrs

    def _depth(self, record: Record) -> int | None:
        """Returns how many leading axes of a shared tensor a record indexes to read rows, or None if it reads no rows.

        For example, a ``gather`` along axis 0 indexes one axis. The axes are those of the tensor before any reshape.
        """
        prim, (x, *operands), _, attrs = record
        if prim.name not in READS:
            return None
        indexed_axes = READS[prim.name].depth(x, *operands, **attrs)
        row_dims = x._type.shape[indexed_axes:]
        # The shared tensor may have been reshaped to x. Its own rows must have the same dims, or x is read otherwise.
        _, shape = self.stand_ins[id(x)]
        depth = len(shape) - len(row_dims)
        return depth if depth > 0 and same_shape(shape[depth:], row_dims) else None


class _RowRead:
    """Replaces the primitive of a read on a tape. Its cotangent is added to the rows read, not to the whole tensor."""

    tf_name = "Read"

    def __init__(self, shared: SharedTensors, depth: int, name: str) -> None:
        self.shared, self.depth, self.name = shared, depth, name

    def vjp(self, cotangent: Tensor, y: Tensor, x: Tensor, *operands: Tensor, **attrs: Any) -> tuple[None, ...]:
        """Appends the cotangent of the rows that were read from ``x`` to the shared tensors' list of row cotangents.

        Returns no cotangent for ``x``: the loop adds up the row cotangents itself.
        """
        key, shape = self.shared.stand_ins[id(x)]
        indices = READS[self.name].indices(x, *operands, **attrs)
        values = bind.reshape(cotangent, shape=(*indices._type.shape, *shape[self.depth :]))
        self.shared.rows.append(RowCotangents(key, self.depth, indices, values))
        return (None,)


class _CondWithReads:
    """Replaces ``cond`` on a tape. Rows that the branches read of shared tensors get row cotangents, too."""

    tf_name = "If"

    def __init__(self, shared: SharedTensors, vjp: Callable[..., Any]) -> None:
        self.shared, self.run = shared, vjp

    def vjp(self, cotangents: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
        return self.run(cotangents, outputs, *inputs, shared=self.shared, **attrs)


# -- what primitives read: how many axes precede the rows, and the rows' indices along the flattened axes


class _ReadRule(NamedTuple):
    """Functions of a read's inputs and attributes: the number of indexed axes, and the flat indices of the rows."""

    depth: Callable[..., int]
    indices: Callable[..., Tensor]


def _range(count: Dim) -> Tensor:
    return bind.range(size=count, start=0, delta=1, dtype=int64)


def _combined_indices(extents: Sequence[Dim], along: Sequence[Tensor]) -> Tensor:
    """Returns the flattened row-major indices of all combinations of indices along several axes.

    For example, indices ``[0, 1]`` and ``[2]`` along axes of sizes 2 and 5 give ``[2, 7]``.

    Args:
      extents: the sizes of the axes.
      along: the indices along each axis.
    """
    combined, *others = along
    for extent, indices in zip(extents[1:], others):
        combined_count, count = combined._type.shape[0], indices._type.shape[0]
        # A column plus a row vector gives all sums, as a matrix.
        column = bind.reshape(bind.multiply(combined, scalar_of(extent)), shape=(combined_count, 1))
        combined = bind.reshape(bind.add(column, indices), shape=(size_of((combined_count, count)),))
    return combined


def _as_int64(x: Tensor) -> Tensor:
    return bind.cast(x, dtype=int64)


def _gather_row_indices(x: Tensor, indices: Tensor, *, axis: int, batch_dims: int) -> Tensor:
    """Computes the flat indices of the rows that ``gather`` reads of ``x``.

    The axes up to ``axis`` are flattened to one axis of rows.
    """
    flat_indices = bind.reshape(_as_int64(indices), shape=(size_of(indices._type.shape),))
    return _combined_indices(x._type.shape, [*map(_range, x._type.shape[:axis]), flat_indices])


def _gather_nd_row_indices(x: Tensor, indices: Tensor) -> Tensor:
    """Computes the flat row-major indices of the rows that ``gather_nd`` reads, one for each vector in ``indices``."""
    *outer, depth = indices._type.shape
    vectors = bind.reshape(_as_int64(indices), shape=(size_of(tuple(outer)), depth))
    strides = [scalar_of(size_of(x._type.shape[i + 1 : depth])) for i in range(depth)]
    weighted = bind.multiply(vectors, bind.stack(*strides, axis=0))
    return bind.reduce_sum(weighted, axis=(1,), keepdims=False)


def _dynamic_slice_row_indices(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> Tensor:
    """Computes the flat indices of the rows that ``dynamic_slice`` reads of ``x``.

    The axes up to the last sliced one are flattened to one axis of rows. With ``wrap``, a negative start counts from
    the end of its axis, as in the slice itself.
    """
    along = list(map(_range, x._type.shape[: max(axes) + 1]))
    for start, axis, size in zip(map(_as_int64, starts), axes, sizes):
        if wrap:
            from_end = bind.add(start, scalar_of(x._type.shape[axis]))
            start = bind.select(bind.less(start, number(0, start)), from_end, start)
        along[axis] = bind.add(start, _range(size))
    return _combined_indices(x._type.shape, along)


def _strided_slice_row_indices(x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> Tensor:
    """Computes the flat indices of the rows that ``strided_slice`` reads of ``x``.

    The axes up to the last sliced one are flattened to one axis of rows.

    Args:
      x: the tensor.
      begin, size, strides: the first index, the number of indices and the step along each axis.
      checked: the axes whose bounds are checked; it has no influence on the indices.
    """
    axis_count = _sliced_axis_count(x, begin, size)
    indices_by_axis = []
    for start, count, stride in zip(begin[:axis_count], size[:axis_count], strides[:axis_count]):
        offsets = bind.multiply(_range(count), scalar_of(stride))
        indices_by_axis.append(bind.add(scalar_of(start), offsets))
    return _combined_indices(x._type.shape, indices_by_axis)


def _sliced_axis_count(x: Tensor, begin: Any, size: Any) -> int:
    """Returns the number of leading axes up to the last axis of which ``strided_slice`` doesn't read everything."""
    is_whole_axis = [same_dim(extent, dim) for extent, dim in zip(size, x._type.shape)]
    return max((i + 1 for i, is_whole in enumerate(is_whole_axis) if not is_whole), default=0)


READS = {
    "stack_read": _ReadRule(lambda x, index: 1, lambda x, index: bind.reshape(_as_int64(index), shape=(1,))),
    "gather": _ReadRule(lambda x, at, *, axis, batch_dims: 0 if batch_dims else axis + 1, _gather_row_indices),
    "gather_nd": _ReadRule(lambda x, at: at._type.shape[-1], _gather_nd_row_indices),
    "dynamic_slice": _ReadRule(lambda x, *starts, axes, sizes, wrap: max(axes) + 1, _dynamic_slice_row_indices),
    "strided_slice": _ReadRule(
        lambda x, *, begin, size, strides, checked: _sliced_axis_count(x, begin, size), _strided_slice_row_indices
    ),
}
