"""RaggedTensor: a tensor whose rows have different lengths, as concatenated values and row splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tvtf.composites.ragged.kernels import dim, positions, positive_axis, row_ids
from tvtf.composites.ragged.partition import RowPartition
from tvtf.core.composite import BatchableTypeSpec, CompositeTensor, ShapedSpec
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorShape, as_shape, simplify_dim
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType, as_dtype, float32, int32, int64
from tvtf.ops.cast import cast
from tvtf.ops.dims import scalar_of


def _values(value: Any) -> Any:
    return value if isinstance(value, RaggedTensor) else convert_to_tensor(value)


@export("RaggedTensor")
class RaggedTensor(CompositeTensor):
    """A tensor whose rows have different lengths; created by ``tf.ragged.constant``, ``from_row_splits`` and others.

    >>> import tvtf as tf
    >>> rows = tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 2, 2, 5])
    >>> rows, rows.shape
    (<tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>, TensorShape([3, None]))

    Source: https://www.tensorflow.org/api_docs/python/tf/RaggedTensor
    """

    _is_tensor_like = True

    __array_priority__ = 100

    if TYPE_CHECKING:  # what methods.py attaches
        from_tensor: ClassVar[Callable[..., RaggedTensor]]
        from_sparse: ClassVar[Callable[..., RaggedTensor]]
        bounding_shape: Callable[..., Tensor]
        merge_dims: Callable[..., Any]
        to_tensor: Callable[..., Tensor]
        to_sparse: Callable[..., Any]
        __getitem__: Callable[..., Any]

    def __hash__(self) -> int:
        """Hashes a tensor of a TensorFlow 1 graph by identity, as a key of a ``feed_dict``; others are unhashable."""
        if not isinstance(self.flat_values, SymbolicTensor) or not self.flat_values._trace.has_keys:
            raise TypeError("unhashable type: 'RaggedTensor'")
        return id(self)

    def __init__(self, values: Any, row_splits: Tensor, uniform_row_length: Any = None) -> None:
        self._values = values
        self._row_splits = row_splits
        self._uniform_row_length = uniform_row_length

    # -- construction

    @classmethod
    def of_partition(cls, values: Any, part: RowPartition) -> RaggedTensor:
        """Creates a tensor from values and their partition, without checks."""
        return cls(values, part.row_splits(), part.uniform_dim)

    @classmethod
    def _checked(cls, values: Any, part: RowPartition, validate: bool) -> RaggedTensor:
        if validate and values.shape.rank:
            part = part.of_values(cast(scalar_of(_first_dim(values)), part.dtype))
        return cls.of_partition(values, part)

    @classmethod
    def from_row_splits(cls, values: Any, row_splits: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Creates a tensor whose row ``i`` is ``values[row_splits[i]:row_splits[i + 1]]``."""
        rows = _values(values)
        return cls._checked(
            rows, RowPartition.from_row_splits(row_splits, validate, None, _splits_dtype_of(rows)), validate
        )

    @classmethod
    def from_row_lengths(cls, values: Any, row_lengths: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Creates a tensor whose row ``i`` has the next ``row_lengths[i]`` values."""
        rows = _values(values)
        return cls._checked(
            rows, RowPartition.from_row_lengths(row_lengths, validate, None, _splits_dtype_of(rows)), validate
        )

    @classmethod
    def from_row_starts(cls, values: Any, row_starts: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Creates a tensor whose row ``i`` starts at value ``row_starts[i]``."""
        rows = _values(values)
        count = dim(_with_same_first_axis(rows), 0)
        return cls._checked(
            rows, RowPartition.from_row_starts(row_starts, count, validate, None, _splits_dtype_of(rows)), validate
        )

    @classmethod
    def from_row_limits(cls, values: Any, row_limits: Any, name: Any = None, validate: bool = True) -> RaggedTensor:
        """Creates a tensor whose row ``i`` ends before value ``row_limits[i]``."""
        rows = _values(values)
        return cls._checked(
            rows, RowPartition.from_row_limits(row_limits, validate, None, _splits_dtype_of(rows)), validate
        )

    @classmethod
    def from_value_rowids(
        cls, values: Any, value_rowids: Any, nrows: Any = None, name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Creates a tensor with value ``i`` in row ``value_rowids[i]``; the row ids must not decrease."""
        rows = _values(values)
        part = RowPartition.from_value_rowids(value_rowids, nrows, validate, None, _splits_dtype_of(rows))
        return cls._checked(rows, part, validate)

    @classmethod
    def from_uniform_row_length(
        cls, values: Any, uniform_row_length: Any, nrows: Any = None, validate: bool = True, name: Any = None
    ) -> RaggedTensor:
        """Creates a tensor in which every row has ``uniform_row_length`` values.

        Args:
          values: the values of all rows, one row after the other.
          uniform_row_length: the number of values in each row.
          nrows: the number of rows, which is needed if rows are empty.
          validate: whether the number of values is checked.
        """
        rows = _values(values)
        count = dim(_with_same_first_axis(rows), 0)
        part = RowPartition.from_uniform_row_length(
            uniform_row_length, count, nrows, validate, None, _splits_dtype_of(rows)
        )
        return cls._checked(rows, part, validate)

    @classmethod
    def from_nested_row_splits(
        cls, flat_values: Any, nested_row_splits: Sequence[Any], name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Creates a tensor with several ragged dims from their row splits, the outermost first."""
        return _from_nested_partitions(cls.from_row_splits, flat_values, nested_row_splits, validate)

    @classmethod
    def from_nested_row_lengths(
        cls, flat_values: Any, nested_row_lengths: Sequence[Any], name: Any = None, validate: bool = True
    ) -> RaggedTensor:
        """Creates a tensor with several ragged dims from their row lengths, the outermost first."""
        return _from_nested_partitions(cls.from_row_lengths, flat_values, nested_row_lengths, validate)

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Sequence[Any],
        nested_nrows: Sequence[Any] | None = None,
        name: Any = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Creates a tensor with several ragged dims from their row ids, the outermost first.

        Args:
          flat_values: the innermost values.
          nested_value_rowids: for each ragged dim, the row of each value, the outermost dim first.
          nested_nrows: the number of rows of each ragged dim; None for the last row id plus one.
          validate: whether the row ids are checked.
        """
        counts = list(nested_nrows) if nested_nrows is not None else [None] * len(nested_value_rowids)
        values = _values(flat_values)
        for ids, nrows in zip(reversed(nested_value_rowids), reversed(counts)):
            values = cls.from_value_rowids(values, ids, nrows, name, validate)
        return values  # type: ignore[no-any-return]

    # -- properties

    @property
    def dtype(self) -> DType:
        return self._values.dtype  # type: ignore[no-any-return]

    @property
    def values(self) -> Any:
        return self._values

    @property
    def row_splits(self) -> Tensor:
        return self._row_splits

    @property
    def flat_values(self) -> Tensor:
        values = self._values
        while isinstance(values, RaggedTensor):
            values = values.values
        return values  # type: ignore[no-any-return]

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        inner_splits = self._values.nested_row_splits if isinstance(self._values, RaggedTensor) else ()
        return (self._row_splits, *inner_splits)

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        """The partitions of the values into rows, the outermost first."""
        inner_partitions = self._values.row_partitions if isinstance(self._values, RaggedTensor) else ()
        return (RowPartition(self._row_splits, self._uniform_row_length, _first_dim(self._values)), *inner_partitions)

    @property
    def ragged_rank(self) -> int:
        return len(self.nested_row_splits)

    @property
    def uniform_row_length(self) -> Any:
        length = self._uniform_row_length
        return None if length is None else cast(scalar_of(length), self._row_splits.dtype)

    @property
    def shape(self) -> TensorShape:
        count = self._row_splits.shape[0]
        uniform = self._uniform_row_length if isinstance(self._uniform_row_length, int) else None
        return TensorShape([None if count is None else count - 1, uniform]).concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """Returns `shape`."""
        return self.shape

    @property
    def name(self) -> str:
        return self.flat_values.name

    @property
    def device(self) -> str:
        return self.flat_values.device

    def nrows(self, out_type: Any = None, name: Any = None) -> Tensor:
        """Returns the number of rows."""
        count = dim(self._row_splits, 0) - 1
        return cast(count, as_dtype(out_type or self._row_splits.dtype))

    def row_starts(self, name: Any = None) -> Tensor:
        """Returns the index of each row's first value."""
        return self._row_splits[:-1]

    def row_limits(self, name: Any = None) -> Tensor:
        """Returns the index after each row's last value."""
        return self._row_splits[1:]

    def row_lengths(self, axis: int = 1, name: Any = None) -> Any:
        """Returns the length of each row along ``axis``: a vector for axis 1, a ragged tensor for an inner axis."""
        if axis not in (0, 1) and self.shape.rank is not None:
            axis = positive_axis(axis, self.shape.rank)
        if axis == 0:
            return self.nrows()
        if axis == 1:
            return self.row_limits() - self.row_starts()
        values = self._values
        if isinstance(values, RaggedTensor):
            return self.with_values(values.row_lengths(axis - 1))
        # Along a dense axis, all rows have the same length.
        zeros = positions(values) * 0
        lengths = zeros + dim(values, axis - 1)
        return self.with_values(cast(lengths, self._row_splits.dtype))

    def value_rowids(self, name: Any = None) -> Tensor:
        """Returns the row id of each value."""
        return row_ids(self._row_splits, _with_same_first_axis(self._values))

    def nested_row_lengths(self, name: Any = None) -> tuple[Tensor, ...]:
        """Returns the row lengths of each ragged dim, the outermost first."""
        inner_lengths = self._values.nested_row_lengths() if isinstance(self._values, RaggedTensor) else ()
        return (self.row_lengths(), *inner_lengths)

    def nested_value_rowids(self, name: Any = None) -> tuple[Tensor, ...]:
        """Returns the row ids of each ragged dim, the outermost first."""
        inner_rowids = self._values.nested_value_rowids() if isinstance(self._values, RaggedTensor) else ()
        return (self.value_rowids(), *inner_rowids)

    # -- copies and conversions

    def with_values(self, new_values: Any) -> RaggedTensor:
        """Returns a tensor with other values in the same rows."""
        values = _values(new_values)
        old_count, count = self._values.shape[:1], values.shape[:1]
        if not old_count.is_compatible_with(count):
            raise ValueError(f"Shapes {old_count} and {count} are incompatible")
        return RaggedTensor(values, self._row_splits, self._uniform_row_length)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Returns a tensor with other innermost values in the same rows."""
        if isinstance(self._values, RaggedTensor):
            return self.with_values(self._values.with_flat_values(new_values))
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """Returns a copy with row splits of another dtype."""
        inner = self._values.with_row_splits_dtype(dtype) if isinstance(self._values, RaggedTensor) else self._values
        return RaggedTensor(inner, cast(self._row_splits, as_dtype(dtype)), self._uniform_row_length)

    def to_list(self) -> list[Any]:
        """Converts to nested Python lists."""
        if not self.is_eager():
            raise ValueError("to_list can only be used in eager mode.")
        rows = self._values.to_list() if isinstance(self._values, RaggedTensor) else self._values.numpy().tolist()
        splits = self._row_splits.numpy().tolist()
        return [rows[start:end] for start, end in zip(splits[:-1], splits[1:])]

    def numpy(self) -> np.ndarray:
        """Converts an eager ragged tensor to a NumPy array; if rows differ in length, to an object array of row arrays."""
        if not self.is_eager():
            raise ValueError("RaggedTensor.numpy() is only supported in eager mode.")
        values = self._values.numpy()
        splits = self._row_splits.numpy()
        rows = [values[start:end] for start, end in zip(splits[:-1], splits[1:])]
        if not rows:
            return np.array([], dtype=values.dtype)
        if all(len(row) == len(rows[0]) for row in rows):
            return np.array(rows)
        # np.array would reject rows of different lengths.
        result = np.empty(len(rows), object)
        result[:] = rows
        return result

    def is_eager(self) -> bool:
        """Returns whether all components are eager tensors."""
        return all(isinstance(tensor, EagerTensor) for tensor in (self.flat_values, *self.nested_row_splits))

    # -- Python

    def __iter__(self) -> Iterator[Any]:
        if not self.is_eager():
            raise TypeError("iterating over a ragged tensor is only possible in eager mode")
        return (self[i] for i in range(int(self.nrows().numpy())))

    def __bool__(self) -> bool:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __repr__(self) -> str:
        if not self.is_eager():
            return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"
        with np.printoptions(formatter={"all": _array_text}):
            return f"<tf.RaggedTensor {_array_text(self.numpy())}>"

    # -- as a composite tensor

    @property
    def _type_spec(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self.shape, self.dtype, self.ragged_rank, self._row_splits.dtype)

    def _gradient_components(self) -> Tensor:
        return self.flat_values

    def _with_gradient(self, gradients: Any) -> Any:
        return self.with_flat_values(gradients)


def _array_text(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return str(value)
    return np.array2string(value, separator=", ") if value.size else repr(value.tolist())


def _from_nested_partitions(make: Callable[..., Any], values: Any, partitions: Sequence[Any], validate: bool) -> Any:
    """Builds a ragged tensor from its innermost values and the partitions of its ragged dims.

    Args:
      make: makes a ragged tensor of values and one partition.
      values: the innermost values.
      partitions: the partitions, such as row lengths, the outermost first.
      validate: whether the partitions are checked.
    """
    if is_tensor(partitions):
        raise TypeError(f"Argument `nested` must be a list of Tensors. Received {partitions!r}.")
    result = _values(values)
    for each in reversed(partitions):
        result = make(result, each, validate=validate)
    return result


def _first_dim(values: Any) -> Dim:
    """Returns the size of the first axis as a dim."""
    if isinstance(values, RaggedTensor):
        return simplify_dim(values.row_splits._type.shape[0] - 1)
    return values._type.shape[0]


def _with_same_first_axis(values: Any) -> Tensor:
    """Returns a tensor with the same size of the first axis as ``values``."""
    return values.row_starts() if isinstance(values, RaggedTensor) else values


def _splits_dtype_of(values: Any) -> DType | None:
    return values.row_splits.dtype if isinstance(values, RaggedTensor) else None


def with_splits_of(result: Any, operands: Sequence[Any]) -> Any:
    """Returns a result with int32 row splits if all ragged tensors among the operands have these, as in TensorFlow."""
    dtypes = {each.row_splits.dtype for each in operands if isinstance(each, RaggedTensor)}
    return result.with_row_splits_dtype(int32) if isinstance(result, RaggedTensor) and dtypes == {int32} else result


@export("RaggedTensorSpec")
class RaggedTensorSpec(ShapedSpec, BatchableTypeSpec):
    """The type of a :class:`RaggedTensor`.

    Args:
      shape: the shape, with None for ragged dims.
      dtype: the dtype of the values.
      ragged_rank: the number of partitioned dims; default: all but the first.
      row_splits_dtype: int32 or int64.
      flat_values_spec: only None is supported.

    >>> import tvtf as tf
    >>> tf.RaggedTensorSpec([None, None], tf.int32)
    RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)

    Source: https://www.tensorflow.org/api_docs/python/tf/RaggedTensorSpec
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = int64,
        flat_values_spec: Any = None,
    ) -> None:
        """Creates the type of ragged tensors; by default all dims but the first are ragged."""
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        if ragged_rank is None:
            if self._shape.rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = self._shape.rank - 1
        self._ragged_rank = int(ragged_rank)
        if self._shape.rank is not None and self._ragged_rank >= self._shape.rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({self._shape.rank}).")

    @property
    def value_type(self) -> type:
        return RaggedTensor if self._ragged_rank > 0 else Tensor

    @property
    def ragged_rank(self) -> int:
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        return self._row_splits_dtype

    @property
    def flat_values_spec(self) -> None:
        """None: the values are plain tensors."""

    @classmethod
    def from_value(cls, value: RaggedTensor) -> RaggedTensorSpec:
        """Returns the spec of a ragged tensor."""
        return value._type_spec

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        """Returns the specs of a ragged tensor's components: the flat values, then the row splits, outermost first."""
        if self._ragged_rank <= 0:
            return (TensorSpec(self._shape, self._dtype),)
        values_shape, row_count = None, None
        if self._shape.rank is not None:
            inner_shape = self._shape[self._ragged_rank + 1 :]
            values_shape = TensorShape([None]).concatenate(inner_shape)
            row_count = self._shape[0]
        outer_splits = TensorSpec([None if row_count is None else row_count + 1], self._row_splits_dtype)
        inner_splits = [TensorSpec([None], self._row_splits_dtype)] * (self._ragged_rank - 1)
        return (TensorSpec(values_shape, self._dtype), outer_splits, *inner_splits)

    def _to_components(self, value: Any) -> tuple[Tensor, ...]:
        return (value.flat_values, *value.nested_row_splits) if self._ragged_rank > 0 else (value,)

    def _component_names(self) -> list[str]:
        splits = ["row_splits"] if self._ragged_rank == 1 else [f"row_splits_{i}" for i in range(self._ragged_rank)]
        return ["values" if self._ragged_rank == 1 else "flat_values", *splits]

    def _from_components(self, components: Sequence[Any]) -> Any:
        values, *splits = components
        for axis, each in reversed(list(enumerate(splits, 1))):
            values = RaggedTensor(values, each, self._shape[axis] if self._shape.rank else None)
        return values

    def _batch(self, batch_size: int | None) -> RaggedTensorSpec:
        shape = TensorShape([batch_size]).concatenate(self._shape)
        return RaggedTensorSpec(shape, self._dtype, self._ragged_rank + 1, self._row_splits_dtype)

    def _unbatch(self) -> RaggedTensorSpec:
        # As in TensorFlow, the ragged rank of a scalar is -1, and that of a batch of such rows 0 again.
        return RaggedTensorSpec(self._shape[1:], self._dtype, self._ragged_rank - 1, self._row_splits_dtype)

    def _rows(self, value: Any) -> list[Any]:
        return [value[i] for i in range(int(value.shape[0] if self._ragged_rank <= 0 else value.nrows()))]

    def _size(self, value: Any) -> Tensor:
        return cast(dim(value, 0) if self._ragged_rank <= 0 else value.nrows(), int64)

    def _row(self, value: Any, index: Any) -> Any:
        return value[index]

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype, self._ragged_rank, self._row_splits_dtype
