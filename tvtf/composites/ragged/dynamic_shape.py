"""DynamicRaggedShape: the shape of a ragged or dense tensor, with the lengths of all rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tvtf.composites.ragged.partition import RowPartition, RowPartitionSpec
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorShape, agree_dim, as_shape, is_static_shape, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType, as_dtype, int32, int64
from tvtf.ops.assert_values import assert_equal
from tvtf.ops.cast import cast
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, static_dims


@export("experimental.DynamicRaggedShape")
class DynamicRaggedShape(CompositeTensor):
    """The shape of a ragged or dense tensor: row partitions, and the shape of the innermost values.

    >>> import tvtf as tf
    >>> shape = tf.shape(tf.ragged.constant([[1, 2], [3]]))
    >>> shape, shape.rank, tf.zeros(shape)
    (<DynamicRaggedShape lengths=[2, (2, 1)] num_row_partitions=1>, 2, <tf.RaggedTensor [[0.0, 0.0], [0.0]]>)

    Raises:
      ValueError: a partition's number of values is not the next one's number of rows.
      TypeError: ``row_partitions`` has an element that is not a RowPartition.

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/DynamicRaggedShape
    """

    def __init__(
        self,
        row_partitions: Sequence[RowPartition],
        inner_shape: Any,
        dtype: Any = None,
        validate: bool = False,
        static_inner_shape: Any = None,
    ) -> None:
        """Creates a shape from row partitions and the innermost values' shape, after a check that these fit."""
        if not isinstance(row_partitions, Iterable):
            raise TypeError(f"row_partitions should be a list of row partitions. Instead, got {row_partitions}")
        partitions = tuple(row_partitions)
        for partition in partitions:
            if not isinstance(partition, RowPartition):
                raise TypeError(f"row_partitions contains {partition} which is not a RowPartition")
        self._dtype = _dtype_of(partitions, inner_shape, dtype)
        self._row_partitions = tuple(partition.with_dtype(self._dtype) for partition in partitions)
        self._dims = _dims_of_inner_shape(inner_shape, partitions)
        self._require_aligned()

    def _require_aligned(self) -> None:
        """Checks that each row partition has as many rows as the partition before it has values, or raises ValueError."""
        parts = self._row_partitions
        for axis, (outer, inner) in enumerate(zip(parts, parts[1:])):
            if not agree_dim(outer.nvals_dim, inner.nrows_dim):
                raise ValueError(f"RowPartitions in DynamicRaggedShape do not align between {axis} and {axis + 1}")
        if parts and not agree_dim(parts[-1].nvals_dim, self._dims[0]):
            message = "Last row partition does not match inner_shape."
            if parts[-1].static_nvals is None:
                assert_equal(parts[-1].nvals(), self.inner_shape[0], message=message)
            raise ValueError(message)

    @classmethod
    def from_lengths(
        cls, lengths: Sequence[Any], num_row_partitions: int | None = None, dtype: Any = int64
    ) -> DynamicRaggedShape:
        """Creates a ragged shape from the lengths of its dims, such as ``[2, (3, 1)]``.

        The length of a uniform dim is an int. The length of a ragged dim is the tuple of all row lengths.
        """
        if not isinstance(lengths, list):
            raise ValueError("lengths should be a list")
        for length in lengths:
            if not isinstance(length, int) and not (
                isinstance(length, tuple) and all(isinstance(row_length, int) for row_length in length)
            ):
                raise ValueError(f"element of lengths should be int or tuple of ints: instead {length!r}")
        count = num_row_partitions
        if count is None:
            count = max((axis for axis, length in enumerate(lengths) if isinstance(length, tuple)), default=0)
        if not isinstance(count, int):
            raise ValueError("num_row_partitions should be an int or None")
        if not lengths:
            if count > 0:
                raise ValueError("num_row_partitions==0 for a scalar shape")
            return cls([], [], dtype)
        if count >= len(lengths):
            raise ValueError("num_row_partitions should be less than `len(lengths)` if shape is not scalar.")
        parts, values = _partitions_of(lengths[: count + 1], as_dtype(dtype))
        return cls(parts, [values, *lengths[count + 1 :]], dtype)

    @classmethod
    def from_row_partitions(cls, row_partitions: Sequence[RowPartition], dtype: Any = None) -> DynamicRaggedShape:
        """Creates the shape of a vector of values that is partitioned into rows."""
        if not row_partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(row_partitions, (row_partitions[-1].nvals_dim,), dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: Any = None) -> DynamicRaggedShape:
        """Returns the shape of a ragged or dense tensor."""
        if isinstance(t, RaggedTensor):
            return cls(t.row_partitions, t.flat_values._type.shape, dtype or t.row_splits.dtype)
        return cls([], convert_to_tensor(t)._type.shape, dtype or int32)

    # -- properties

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        return self._row_partitions

    @property
    def num_row_partitions(self) -> int:
        return len(self._row_partitions)

    @property
    def inner_dims(self) -> tuple[Dim, ...]:
        """The shape of the innermost values, as dims."""
        return self._dims

    @property
    def inner_shape(self) -> Tensor:
        if is_static_shape(self._dims):
            return EagerTensor(np.array(self._dims, self._dtype.np))
        return cast(bind.stack(*map(scalar_of, self._dims), axis=0), self._dtype)

    @property
    def inner_rank(self) -> int:
        return len(self._dims)

    @property
    def rank(self) -> int:
        return self.num_row_partitions + self.inner_rank

    def is_uniform(self, axis: int) -> bool:
        """Returns whether all rows along an axis are known to have the same length."""
        if not isinstance(axis, int):
            raise TypeError("axis must be an integer")
        if axis < 0:
            raise IndexError("Negative axis values are not supported")
        if axis >= self.rank:
            raise IndexError(f"Expected axis={axis} < rank={self.rank}")
        if axis == 0 or axis > self.num_row_partitions:  # the outermost axis, or an axis of the innermost values
            return True
        return self._row_partitions[axis - 1].is_uniform()

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """Returns for each axis the static length, the tuple of row lengths, or None."""
        inner = list(TensorShape(self._dims))
        if not self._row_partitions:
            return inner
        lengths = [_static_length(part, ragged_lengths) for part in self._row_partitions]
        return [self._row_partitions[0].static_nrows, *lengths, *inner[1:]]

    def with_dtype(self, dtype: Any) -> DynamicRaggedShape:
        """Returns a copy with another dtype."""
        return self if as_dtype(dtype) is self._dtype else DynamicRaggedShape(self._row_partitions, self._dims, dtype)

    def partitions(self, count: int) -> tuple[RowPartition, ...]:
        """Returns ``count`` row partitions: the shape's own, then uniform ones for the next dims."""
        result = list(self._row_partitions)
        rows = (self._dims or (1,))[0]
        for size in self._dims[1 : 1 + count - len(result)]:
            result.append(RowPartition.of_dims(rows, size, self._dtype))
            rows = size_of((rows, size))
        return tuple(result)

    def of_values(self, flat_values: Tensor) -> Any:
        """Returns the tensor of this shape with the given innermost values."""
        values: Any = flat_values
        for part in reversed(self._row_partitions):
            values = RaggedTensor.of_partition(values, part)
        return values

    # -- Python

    def __getitem__(self, index: Any) -> Any:
        """Returns the size of a uniform axis, or the shape of a slice of the axes."""
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise IndexError("Cannot stride through a shape")
            first, last, _ = index.indices(self.rank)
            return self._slice_axes(first, last)
        if not isinstance(index, int):
            raise TypeError("Argument is not an int or a slice")
        return self._size_of_axis(index + self.rank if index < 0 else index)

    def _slice_axes(self, first: int, last: int) -> DynamicRaggedShape:
        """Returns the ragged shape of the axes from ``first`` up to, but without, ``last``.

        Raises:
          ValueError: there are ragged axes, and ``first`` isn't 0: a ragged axis needs the axes that hold its rows.
        """
        if last <= first:
            return DynamicRaggedShape([], [], self._dtype)
        if first > 0:
            if not all(map(self.is_uniform, range(1, last))):
                raise ValueError("All relevant dimensions must be uniform")
            dims = [self._uniform_dim(axis) for axis in range(first, last)]
            return DynamicRaggedShape([], dims, self._dtype)
        partition_count = self.num_row_partitions
        if last > partition_count:  # all partitions, and some of the inner dims
            return DynamicRaggedShape(self._row_partitions, self._dims[: last - partition_count], self._dtype)
        partitions = self._row_partitions[: last - 1]
        values_dim = partitions[-1].nvals_dim if partitions else self._uniform_dim(0)
        return DynamicRaggedShape(partitions, [values_dim], self._dtype)

    def _uniform_dim(self, axis: int) -> Dim:
        parts = self._row_partitions
        if axis == 0 and parts:
            return parts[0].nrows_dim
        return parts[axis - 1].uniform_dim if 0 < axis <= len(parts) else self._dims[axis - len(parts)]

    def _size_of_axis(self, index: int) -> Tensor:
        """Returns the size of a uniform axis. Raises ValueError for a ragged axis."""
        if index >= self.rank:
            raise IndexError(f"Index is too big: {index}>={self.rank}")
        if index < 0:
            raise IndexError(f"Index must be non-negative: {index}")
        if not self.is_uniform(index):
            raise ValueError(f"Index {index} is not uniform")
        return cast(scalar_of(self._uniform_dim(index)), self._dtype)

    def __repr__(self) -> str:
        lengths = ", ".join(map(str, self.static_lengths()))
        return f"<DynamicRaggedShape lengths=[{lengths}] num_row_partitions={self.num_row_partitions}>"

    @property
    def _type_spec(self) -> DynamicRaggedShapeSpec:
        """The spec of the ragged shape, with those numbers of rows and values that are static."""
        # A partition has as many values as the next one has rows, and the last as many as the first inner dim.
        value_counts = [partition.static_nrows for partition in self._row_partitions[1:]]
        value_counts.extend(TensorShape(self._dims[:1]))
        specs = []
        for partition, value_count in zip(self._row_partitions, value_counts):
            row_count, row_length = partition.static_nrows, partition.static_uniform_row_length
            specs.append(RowPartitionSpec(row_count, value_count, row_length, self._dtype))
        return DynamicRaggedShapeSpec(tuple(specs), TensorShape(self._dims), self._dtype)


def _dtype_of(parts: Sequence[RowPartition], inner_shape: Any, dtype: Any) -> DType:
    """Returns the dtype of a ragged shape's row splits: int32 or int64. Raises ValueError for another dtype.

    It is the requested dtype, else the dtype of the row partitions, else that of the inner shape.
    """
    if dtype is not None:
        result = as_dtype(dtype)
    elif parts:
        result = parts[0].dtype
    else:
        shape_dtype = getattr(inner_shape, "dtype", None)
        result = int64 if shape_dtype is None else as_dtype(shape_dtype)
    if result.name not in ("int32", "int64"):
        raise ValueError(f"Illegal dtype: {result!r}")
    return result


def _dims_of_inner_shape(inner_shape: Any, parts: Sequence[RowPartition]) -> tuple[Dim, ...]:
    """Converts the argument ``inner_shape`` of a ragged shape to dims.

    If the only dim is unknown while tracing, it is taken from the last partition, whose number of values it must equal.
    """
    if isinstance(inner_shape, Tensor):
        inner_shape.shape.assert_has_rank(1)
        if parts and inner_shape.shape[0] == 1 and static_value(inner_shape) is None:
            return (parts[-1].nvals_dim,)
    return static_dims(list(inner_shape) if isinstance(inner_shape, TensorShape) else inner_shape, "inner_shape")


def _partitions_of(lengths: Sequence[Any], dtype: DType) -> tuple[list[RowPartition], int]:
    """Converts the lengths of a ragged shape's dims to row partitions.

    The length of a dim is an int if all rows are equally long, else the tuple of all row lengths. Returns the partitions
    and the number of values.
    """
    count, parts = lengths[0], []
    for length in lengths[1:]:
        if isinstance(length, int):
            parts.append(RowPartition.from_uniform_row_length(length, count * length, count, dtype=dtype))
            count *= length
            continue
        if count != len(length):
            raise ValueError("Shape not consistent.")
        parts.append(RowPartition.from_row_lengths(length, dtype=dtype))
        count = sum(length)
    return parts, count


def _static_length(part: RowPartition, ragged_lengths: bool) -> Any:
    if part.is_uniform():
        return part.static_uniform_row_length
    splits = static_value(part.row_splits()) if ragged_lengths else None
    return None if splits is None else tuple(np.diff(splits).tolist())


class DynamicRaggedShapeSpec(TypeSpec):
    """The type of a :class:`DynamicRaggedShape`."""

    def __init__(self, row_partitions: Sequence[RowPartitionSpec], static_inner_shape: Any, dtype: Any) -> None:
        self._row_partitions = tuple(row_partitions)
        self._static_inner_shape = as_shape(static_inner_shape)
        self._dtype = as_dtype(dtype)
        if self._dtype.name not in ("int32", "int64"):
            raise ValueError("dtype must be tf.int32 or tf.int64")

    @classmethod
    def from_value(cls, value: DynamicRaggedShape) -> DynamicRaggedShapeSpec:
        """Returns the type of a shape."""
        return value._type_spec

    @property
    def value_type(self) -> type:
        return DynamicRaggedShape

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def inner_rank(self) -> int | None:
        return self._static_inner_shape.rank

    @property
    def num_row_partitions(self) -> int:
        return len(self._row_partitions)

    @property
    def rank(self) -> int | None:
        return None if self.inner_rank is None else self.inner_rank + self.num_row_partitions

    def with_dtype(self, dtype: Any) -> DynamicRaggedShapeSpec:
        """Returns a copy with another dtype."""
        kind = as_dtype(dtype)
        parts = [
            RowPartitionSpec(partition.nrows, partition.nvals, partition.uniform_row_length, kind)
            for partition in self._row_partitions
        ]
        return DynamicRaggedShapeSpec(parts, self._static_inner_shape, kind)

    @property
    def _component_specs(self) -> tuple[Any, ...]:
        """The specs of the components; the innermost shape is the shape of an empty tensor, so that traces know its dims."""
        return (self._row_partitions, TensorSpec((0, *self._static_inner_shape), self._dtype))

    def _to_components(self, value: DynamicRaggedShape) -> tuple[Any, ...]:
        carrier = bind.broadcast_to(EagerTensor(np.zeros((), self._dtype.np)), shape=(0, *value.inner_dims))
        return value.row_partitions, carrier

    def _from_components(self, components: tuple[Any, ...]) -> DynamicRaggedShape:
        parts, carrier = components
        return DynamicRaggedShape(parts, carrier._type.shape[1:], self._dtype)

    def _serialize(self) -> tuple[Any, ...]:
        return self._row_partitions, self._static_inner_shape, self._dtype

    def __repr__(self) -> str:
        inner = f"static_inner_shape={self._static_inner_shape!r}"
        dtype = f"dtype={self._dtype!r}"
        return f"DynamicRaggedShape.Spec(row_partitions={self._row_partitions!r}, {inner}, {dtype})"


DynamicRaggedShape.Spec = DynamicRaggedShapeSpec  # type: ignore[attr-defined]
