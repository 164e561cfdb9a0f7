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
class Rows:
    """Values for rows of tensor number ``key`` whose first ``depth`` axes are flattened; places below 0 mean no row."""

    key: int
    depth: int
    places: Tensor
    values: Tensor

    def deeper(self, shape: Sequence[Dim], depth: int) -> Rows:
        """Returns the same values for the smaller rows behind ``depth`` axes.

        Reads of one tensor at different depths can then be added to one buffer of rows.
        """
        if depth == self.depth:
            return self
        count = size_of(shape[self.depth : depth])
        (rows,) = self.places._type.shape
        first = bind.multiply(self.places, scalar_of(count))
        column = bind.reshape(first, shape=(rows, 1))
        places = bind.reshape(bind.add(column, _range(count)), shape=(rows * count,))
        return Rows(self.key, depth, places, bind.reshape(self.values, shape=(rows * count, *shape[depth:])))


class Shared:
    """The tensors that all iterations share, by their stand-ins in a run of the body, and the rows that reads give."""

    def __init__(self, stand_ins: dict[int, tuple[int, Sequence[Dim]]]) -> None:
        self.stand_ins, self.rows = stand_ins, list[Rows]()

    @staticmethod
    def within(outer: Shared | None, captured: Sequence[Tensor], inner: Sequence[Tensor]) -> Shared:
        """Returns the shared tensors that a function captures, by its own stand-ins."""
        stand_ins = {} if outer is None else outer.stand_ins
        return Shared({id(b): stand_ins[id(a)] for a, b in zip(captured, inner) if id(a) in stand_ins})

    def replace_reads(self, records: Sequence[Record], branches: Callable[..., Any]) -> list[Record]:
        """Returns the records with reads of shared tensors replaced.

        ``branches`` is the vjp of a cond: its branches may read shared tensors too.
        """
        return [self._replace_read(record, branches) for record in records]

    def _replace_read(self, record: Record, branches: Callable[..., Any]) -> Record:
        """Returns a record with the read of a shared tensor replaced; a reshaped tensor is shared too."""
        prim, inputs, outputs, attrs = record
        # A branch may read the tensor, too.
        if prim.name == "cond" and any(id(x) in self.stand_ins for x in inputs[1:]):
            return _Branches(self, branches), inputs, outputs, attrs
        if not inputs or id(inputs[0]) not in self.stand_ins:
            return record
        if prim.name == "reshape":
            self.stand_ins[id(outputs)] = self.stand_ins[id(inputs[0])]
        depth = self._depth(record)
        return record if depth is None else (_Reading(self, depth, prim.name), inputs, outputs, attrs)

    def _depth(self, record: Record) -> int | None:
        """Returns how many axes of the shared tensor precede the rows that a record reads; None if it reads none."""
        prim, (x, *rest), _, attrs = record
        if prim.name not in READS:
            return None
        depth = READS[prim.name].depth(x, *rest, **attrs)
        _, shape = self.stand_ins[id(x)]
        leading = len(shape) - (x.ndim - depth)
        return leading if leading > 0 and same_shape(shape[leading:], x._type.shape[depth:]) else None


class _Reading:
    """Replaces the primitive of a read: its cotangent goes to the rows."""

    tf_name = "Read"

    def __init__(self, shared: Shared, depth: int, name: str) -> None:
        self.shared, self.depth, self.name = shared, depth, name

    def vjp(self, ct: Tensor, y: Tensor, x: Tensor, *rest: Tensor, **attrs: Any) -> tuple[None, ...]:
        key, shape = self.shared.stand_ins[id(x)]
        places = READS[self.name].places(x, *rest, **attrs)
        values = bind.reshape(ct, shape=(*places._type.shape, *shape[self.depth :]))
        self.shared.rows.append(Rows(key, self.depth, places, values))
        return (None,)


class _Branches:
    """Replaces ``cond``, whose branches' reads go to the rows too."""

    tf_name = "If"

    def __init__(self, shared: Shared, vjp: Callable[..., Any]) -> None:
        self.shared, self.run = shared, vjp

    def vjp(self, cts: Any, outputs: Any, *inputs: Tensor, **attrs: Any) -> Any:
        return self.run(cts, outputs, *inputs, shared=self.shared, **attrs)


# -- what primitives read: how many axes precede the rows, and the rows' places along the flattened axes


class _Kind(NamedTuple):
    depth: Callable[..., int]
    places: Callable[..., Tensor]


def _range(count: Dim) -> Tensor:
    return bind.range(size=count, start=0, delta=1, dtype=int64)


def _combined_places(extents: Sequence[Dim], along: Sequence[Tensor]) -> Tensor:
    """Returns the flattened places of all combinations of places along each axis.

    Places are numbered in row-major order.
    """
    first, *rest = along
    for extent, places in zip(extents[1:], rest):
        before, count = first._type.shape[0], places._type.shape[0]
        column = bind.reshape(bind.multiply(first, scalar_of(extent)), shape=(before, 1))
        first = bind.reshape(bind.add(column, places), shape=(size_of((before, count)),))
    return first


def _wide(x: Tensor) -> Tensor:
    return bind.cast(x, dtype=int64)


def _gathered(x: Tensor, indices: Tensor, *, axis: int, batch_dims: int) -> Tensor:
    flat_indices = bind.reshape(_wide(indices), shape=(size_of(indices._type.shape),))
    return _combined_places(x._type.shape, [*map(_range, x._type.shape[:axis]), flat_indices])


def _named(x: Tensor, indices: Tensor) -> Tensor:
    """Returns the flattened place that each vector of indices names."""
    *outer, depth = indices._type.shape
    vectors = bind.reshape(_wide(indices), shape=(size_of(tuple(outer)), depth))
    strides = [scalar_of(size_of(x._type.shape[i + 1 : depth])) for i in range(depth)]
    weighted = bind.multiply(vectors, bind.stack(*strides, axis=0))
    return bind.reduce_sum(weighted, axis=(1,), keepdims=False)


def _window_places(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> Tensor:
    """Returns the positions of a window's elements, whose gradients are added there.

    Negative starts count from the end where ``wrap`` says so, as the read itself does.
    """
    along = list(map(_range, x._type.shape[: max(axes) + 1]))
    for start, axis, size in zip(map(_wide, starts), axes, sizes):
        if wrap:
            from_end = bind.add(start, scalar_of(x._type.shape[axis]))
            start = bind.select(bind.less(start, number(0, start)), from_end, start)
        along[axis] = bind.add(start, _range(size))
    return _combined_places(x._type.shape, along)


def _sliced(x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> Tensor:
    cut = _cut(x, begin, size)
    steps = zip(begin[:cut], size[:cut], strides[:cut])
    along = [bind.add(scalar_of(b), bind.multiply(_range(n), scalar_of(s))) for b, n, s in steps]
    return _combined_places(x._type.shape, along)


def _cut(x: Tensor, begin: Any, size: Any) -> int:
    """Returns the number of leading axes up to the last one that is sliced."""
    is_whole_axis = [same_dim(n, d) for n, d in zip(size, x._type.shape)]
    return max((i + 1 for i, is_whole in enumerate(is_whole_axis) if not is_whole), default=0)


READS = {
    "stack_read": _Kind(lambda x, index: 1, lambda x, index: bind.reshape(_wide(index), shape=(1,))),
    "gather": _Kind(lambda x, at, *, axis, batch_dims: 0 if batch_dims else axis + 1, _gathered),
    "gather_nd": _Kind(lambda x, at: at._type.shape[-1], _named),
    "dynamic_slice": _Kind(lambda x, *starts, axes, sizes, wrap: max(axes) + 1, _window_places),
    "strided_slice": _Kind(lambda x, *, begin, size, strides, checked: _cut(x, begin, size), _sliced),
}
