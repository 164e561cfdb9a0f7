"""Broadcasting of ragged tensors: a uniform dim of size 1 is repeated to the row lengths of the other operand.

Source: https://www.tensorflow.org/guide/ragged_tensor#broadcasting
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.composites.ragged.dynamic_shape import DynamicRaggedShape
from tvtf.composites.ragged.kernels import ranges
from tvtf.composites.ragged.partition import RowPartition, splits_of_lengths
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.shape import Dim, broadcast_dim, same_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.ops.assert_values import assert_equal
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind

Places = Tensor | None
"""For each item of the result, the index of the operand's item that it is taken from; None for the identity."""


def spread(x: Any, y: Any) -> tuple[Tensor, Tensor, Callable[[Tensor], Any]]:
    """Broadcasts two tensors, at least one of them ragged, to the same rows.

    Returns:
      The innermost values of both, whose inner dims broadcast by NumPy's rules, and a function from result values to rows.
    """
    a, b = _shape_like(x, y), _shape_like(y, x)
    if a.rank > b.rank:
        parts, from_b, from_a = _broadcast(b, a)
    else:
        parts, from_a, from_b = _broadcast(a, b)
    flat = _flat(x, a, len(parts), max(a.rank, b.rank), from_a), _flat(y, b, len(parts), max(a.rank, b.rank), from_b)
    return *flat, lambda values: nested(values, parts)


def nested(values: Any, parts: tuple[RowPartition, ...]) -> Any:
    """Returns values partitioned into rows, the outermost partition first in ``parts``."""
    for part in reversed(parts):
        values = RaggedTensor.of_partition(values, part)
    return values


def _shape_like(x: Any, other: Any) -> DynamicRaggedShape:
    dtype = x.row_splits.dtype if isinstance(x, RaggedTensor) else other.row_splits.dtype
    return DynamicRaggedShape.from_tensor(x, dtype)


def broadcast_to(x: Any, shape: DynamicRaggedShape) -> Any:
    """Broadcasts ``x`` to a shape.

    Raises:
      ValueError: ``shape`` has a smaller rank.
      InvalidArgumentError: the dims don't fit.
    """
    source = DynamicRaggedShape.from_tensor(x, shape.dtype)
    if source.rank > shape.rank:
        raise ValueError("Cannot broadcast to a shape with smaller rank")
    parts, places, _ = _broadcast(source, shape)
    if not parts:
        return bind.broadcast_to(_flat_values(x), shape=shape.inner_dims)
    flat = _flat(x, source, len(parts), shape.rank, places)
    inner = (
        flat._type.shape[0],
        *DynamicRaggedShape(shape.partitions(len(parts)), _inner(shape, len(parts))).inner_dims[1:],
    )
    return nested(bind.broadcast_to(flat, shape=inner), parts)


def broadcast_shapes(a: DynamicRaggedShape, b: DynamicRaggedShape) -> DynamicRaggedShape:
    """Returns the shape that two shapes broadcast to.

    Raises:
      InvalidArgumentError: the shapes don't broadcast.
    """
    if a.rank > b.rank:
        a, b = b, a
    parts, _, _ = _broadcast(a, b)
    wide = (1,) * (b.rank - a.rank)
    inner_a, inner_b = (*wide, *_all_dims(a))[len(parts) + 1 :], _all_dims(b)[len(parts) + 1 :]
    inner = tuple(_broadcast_dim(m, n) for m, n in zip(inner_a, inner_b))
    first = parts[-1].nvals_dim if parts else _broadcast_dim(((*wide, *_all_dims(a)) or (1,))[0], _all_dims(b)[0])
    return DynamicRaggedShape(parts, (first, *inner), b.dtype if b.row_partitions else a.dtype)


def _all_dims(shape: DynamicRaggedShape) -> tuple[Dim, ...]:
    """Returns a dim for each axis; None for ragged axes, whose dims callers don't use."""
    parts = shape.row_partitions
    if not parts:
        return shape.inner_dims
    return (parts[0].nrows_dim, *(part.uniform_dim for part in parts), *shape.inner_dims[1:])


def _inner(shape: DynamicRaggedShape, count: int) -> tuple[Dim, ...]:
    """Returns the innermost shape if ``count`` dims are represented by partitions."""
    more = count - shape.num_row_partitions
    return (size_of(shape.inner_dims[: more + 1]), *shape.inner_dims[more + 1 :])


def _broadcast(a: DynamicRaggedShape, b: DynamicRaggedShape) -> tuple[tuple[RowPartition, ...], Places, Places]:
    """Returns the partitions of the result, and the sources of its items in ``a`` and ``b``; ``a`` has at most ``b``'s rank."""
    lead = b.rank - a.rank
    count = max(a.num_row_partitions + lead if a.num_row_partitions else 0, b.num_row_partitions)
    first_a, *layers_a = _layers(a, lead, count)
    first_b, *layers_b = _layers(b, 0, count)
    rows = _broadcast_dim(first_a, first_b)
    from_a, from_b = _first(first_a, rows), _first(first_b, rows)
    parts = []
    for part_a, part_b in zip(layers_a, layers_b):
        part, from_a, from_b = _next(part_a, part_b, from_a, from_b)
        parts.append(part)
    return tuple(parts), from_a, from_b


def _layers(shape: DynamicRaggedShape, lead: int, count: int) -> list[Any]:
    """Returns the number of rows, then ``count`` partitions, of a shape with ``lead`` dims of size 1 prepended."""
    dims = _all_dims(shape) or (1,)
    if not lead:
        return [dims[0], *shape.partitions(count)]
    ones = [RowPartition.of_dims(1, 1, shape.dtype)] * (lead - 1)
    return [1, *ones, RowPartition.of_dims(1, dims[0], shape.dtype), *shape.partitions(max(count - lead, 0))][
        : count + 1
    ]


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    result = broadcast_dim(a, b)
    if result is None:
        assert_equal(EagerTensor(np.array(False)), EagerTensor(np.array(True)))
    return result


def _first(own: Dim, rows: Dim) -> Places:
    """Returns the sources of the outermost rows: the identity, or zeros to repeat a single row."""
    return None if same_dim(own, rows) else bind.broadcast_to(EagerTensor(np.array(0)), shape=(rows,))


def _next(a: RowPartition, b: RowPartition, from_a: Places, from_b: Places) -> tuple[RowPartition, Places, Places]:
    """Broadcasts one axis of two ragged shapes.

    Returns its partition, and for each of its rows the row of `a` and of `b` that it comes from.
    """
    one_a, one_b = (part.is_uniform() and same_dim(part.uniform_dim, 1) for part in (a, b))
    if one_a and not one_b:
        part, from_b = _repeated(b, from_b)
        return part, _of_rows(part, from_a), from_b
    if one_b and not one_a:
        part, from_a = _repeated(a, from_a)
        return part, from_a, _of_rows(part, from_b)
    part_a, next_a = _repeated(a, from_a)
    part_b, next_b = _repeated(b, from_b)
    if a.is_uniform() and b.is_uniform():
        _broadcast_dim(a.uniform_dim, b.uniform_dim)
    elif part_a.row_splits() is not part_b.row_splits():
        first, second = (part_b, part_a) if b.is_uniform() else (part_a, part_b)
        assert_equal(first.row_splits(), cast(second.row_splits(), first.dtype))
    return part_a, next_a, next_b


def _repeated(part: RowPartition, places: Places) -> tuple[RowPartition, Places]:
    """Returns the partition that selects the rows at ``places``, and the indices of the values in them."""
    if places is None:
        return part, None
    starts = gather(part.row_starts(), places)
    lengths = gather(part.row_lengths(), places)
    index = ranges(starts, starts + lengths)[1]
    return RowPartition(splits_of_lengths(lengths), part.uniform_dim, index._type.shape[0]), index


def _of_rows(part: RowPartition, places: Places) -> Tensor:
    """Returns the source of each value's row."""
    return part.value_rowids() if places is None else gather(places, part.value_rowids())


def _flat_values(x: Any) -> Tensor:
    return x.flat_values if isinstance(x, RaggedTensor) else convert_to_tensor(x)


def _flat(x: Any, shape: DynamicRaggedShape, count: int, rank: int, places: Places) -> Tensor:
    """Returns the values below ``count`` partitions, repeated by ``places``, with dims of size 1 up to the result's rank."""
    flat, lead = _flat_values(x), rank - shape.rank
    dims = (*(1,) * lead, *flat._type.shape) if lead > count else flat._type.shape
    merged = count - shape.num_row_partitions - (0 if lead > count else lead) + 1
    requested = (size_of(dims[:merged]), *dims[merged:])
    if len(requested) != flat.ndim:
        flat = bind.reshape(flat, shape=requested)
    return flat if places is None else gather(flat, places)
