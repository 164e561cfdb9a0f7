"""SparseTensor: a tensor stored as the indices and values of its non-zero elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.composite import BatchableTypeSpec, CompositeTensor, ShapedSpec
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.indexed_slices import constant_shape
from tvtf.core.primitive import export, exports
from tvtf.core.shape import Dim, TensorShape, agree_dim, as_shape
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType, as_dtype, float32, int64
from tvtf.ops.indexing import gather_densely, nonzero_indices
from tvtf.ops.rules import bind, static_dims


class SparseTensorValue(NamedTuple):
    """The NumPy arrays of a :class:`SparseTensor`: the result of evaluating one in a session.

    >>> import tvtf as tf
    >>> tf.SparseTensor.from_value(tf.compat.v1.SparseTensorValue([[1]], [5], [3])).dense_shape.numpy()
    array([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/SparseTensorValue
    """

    indices: Any
    values: Any
    dense_shape: Any


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor(CompositeTensor):
    """A tensor that is zero except for ``values[i]`` at ``indices[i]``.

    Args:
      indices: int64 tensor of shape (n, rank); most functions require row-major order.
      values: tensor of shape (n,) of any dtype.
      dense_shape: int64 vector of length ``rank``.

    Raises:
      ValueError: the shapes don't fit, or ``indices`` or ``dense_shape`` is not int64.

    >>> import tvtf as tf
    >>> st = tf.SparseTensor(indices=[[0, 0], [1, 2]], values=[1, 2], dense_shape=[3, 4])
    >>> tf.sparse.to_dense(st).numpy()
    array([[1, 0, 0, 0],
           [0, 0, 2, 0],
           [0, 0, 0, 0]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/sparse/SparseTensor
    """

    _is_tensor_like = True

    __array_priority__ = 100

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        """Creates a sparse tensor from its components, after a check that their shapes fit each other."""
        self._indices = convert_to_tensor(indices, int64)
        self._values = convert_to_tensor(values)
        self._dense_shape = convert_to_tensor(dense_shape, int64)
        if not self._fits():
            self._require_fitting()
        self._shape = constant_shape(self._dense_shape)
        if isinstance(dense_shape, (list, tuple)) and isinstance(self._dense_shape, SymbolicTensor):
            self.set_shape([_known_size(size) for size in dense_shape])

    def _fits(self) -> bool:
        """Returns whether the shapes of eager components fit each other."""
        if not type(self._indices) is type(self._values) is type(self._dense_shape) is EagerTensor:
            return False
        indices, values, sizes = self._indices._array.shape, self._values._array.shape, self._dense_shape._array.shape
        return len(indices) == 2 and (*values, *sizes) == indices and len(values) == 1

    def _require_fitting(self) -> None:
        """Checks the ranks of the three tensors, and that their sizes agree."""
        for part, rank in ((self._indices, 2), (self._values, 1), (self._dense_shape, 1)):
            part.shape.with_rank(rank)
        for first, other in zip(_dims(self._indices), (*_dims(self._values), *_dims(self._dense_shape))):
            if not agree_dim(first, other):
                raise incompatible_shapes(ValueError(f"Dimensions {first} and {other} are not compatible"))

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """Creates a sparse tensor from another, or from a ``SparseTensorValue``."""
        if not is_sparse(sparse_tensor_value):
            raise TypeError(
                f"Argument sparse_tensor_value={sparse_tensor_value} is neither a SparseTensor nor SparseTensorValue."
            )
        return cls(sparse_tensor_value.indices, sparse_tensor_value.values, sparse_tensor_value.dense_shape)

    @property
    def indices(self) -> Tensor:
        return self._indices

    @property
    def values(self) -> Tensor:
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape of the dense tensor."""
        return self._shape

    def get_shape(self) -> TensorShape:
        """Returns `shape`."""
        return self._shape

    def set_shape(self, shape: Any) -> None:
        """Sets unknown dims to those of ``shape``.

        Raises:
          ValueError: a known dim differs from that of ``shape``.
        """
        self._shape = self._shape.merge_with(as_shape(shape))

    @property
    def dtype(self) -> DType:
        return self._values.dtype

    @property
    def op(self) -> Any:
        return self._values.op

    @property
    def graph(self) -> Any:
        return self._indices.graph

    def with_values(self, new_values: Any) -> SparseTensor:
        """Returns a sparse tensor with other values at the same indices."""
        created = SparseTensor(self._indices, new_values, self._dense_shape)
        created._shape = self._shape
        return created

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Evaluates the tensor in a session of TensorFlow 1, and returns its arrays."""
        parts = self._indices, self._values, self._dense_shape
        return SparseTensorValue(*(part.graph and part.eval(feed_dict, session) for part in parts))

    def consumers(self) -> list[Any]:
        """Returns an empty list: the users of a tensor are not tracked."""
        return []

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self._indices!s}, values={self._values!s}, dense_shape={self._dense_shape!s})"

    @property
    def _type_spec(self) -> SparseTensorSpec:
        return SparseTensorSpec(self._shape, self.dtype)


def _known_size(size: Any) -> int | None:
    """Returns one of several sizes, or None if it is not statically known."""
    return None if isinstance(size, SymbolicTensor) else int(size)


def _dims(x: Tensor) -> Sequence[Dim]:
    return () if isinstance(x._type.shape, AnyShape) else x._type.shape


def rank_of(sp: SparseTensor) -> int:
    """Returns the static rank."""
    return int(sp.indices._type.shape[1])


def sizes(sp: SparseTensor) -> tuple[Dim, ...]:
    """Returns the dims of the dense tensor; unknown ones become symbols that are bound at run time."""
    if sp.shape.is_fully_defined():
        return tuple(sp.shape)
    message = static_dims(sp.dense_shape, "dense_shape")
    return tuple(result if known is None else known for known, result in zip(sp.shape, message))


def of_shape(sp: SparseTensor, shape: Any) -> SparseTensor:
    """Returns ``sp`` with a known static shape."""
    sp.set_shape(shape)
    return sp


exports["compat.v1.SparseTensorValue"] = SparseTensorValue
exports["compat.v1.SparseTensor"] = SparseTensor


def is_sparse(value: Any) -> bool:
    return isinstance(value, (SparseTensor, SparseTensorValue))


def as_sparse(value: Any) -> SparseTensor:
    """Converts a ``SparseTensorValue`` to a sparse tensor. Returns a sparse tensor unchanged.

    Raises:
      TypeError: the value is neither a ``SparseTensorValue`` nor a SparseTensor.
    """
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    if not isinstance(value, SparseTensor):
        raise TypeError("Input must be a SparseTensor.")
    return value


def as_sparse_list(values: Any) -> list[SparseTensor]:
    if not isinstance(values, (list, tuple)):
        raise TypeError("Inputs must be a list or tuple.")
    return [as_sparse(value) for value in values]


@export("SparseTensorSpec")
class SparseTensorSpec(ShapedSpec, BatchableTypeSpec):
    """The type of a :class:`SparseTensor`.

    Args:
      shape: the shape of the dense tensor; None for unknown dims.
      dtype: the dtype of the values.

    >>> import tvtf as tf
    >>> tf.SparseTensorSpec([None, 3], tf.int32)
    SparseTensorSpec(TensorShape([None, 3]), tf.int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/SparseTensorSpec
    """

    def __init__(self, shape: Any = None, dtype: Any = float32) -> None:
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """Returns the spec of a sparse tensor, or of a ``SparseTensorValue``."""
        if not is_sparse(value):
            raise TypeError(
                f"Expected SparseTensor or SparseTensorValue. Received: {value} of type {type(value).__name__}."
            )
        return as_sparse(value)._type_spec

    @property
    def value_type(self) -> type:
        return SparseTensor

    @property
    def _component_specs(self) -> list[TensorSpec]:
        rank = self._shape.rank
        return [TensorSpec([None, rank], int64), TensorSpec([None], self._dtype), TensorSpec([rank], int64)]

    def _blanks(self) -> list[np.ndarray]:
        """Returns the arrays of a value without elements; unknown dims have size 0."""
        dims = np.array([] if self._shape.rank is None else [dim or 0 for dim in self._shape.as_list()], np.int64)
        return [np.zeros((0, dims.size), np.int64), np.zeros(0, self._dtype.np), dims]

    def _to_components(self, value: Any) -> list[Tensor]:
        parts = as_sparse(value)
        return [parts.indices, parts.values, parts.dense_shape]

    def _component_names(self) -> tuple[str, ...]:
        return "indices", "values", "dense_shape"

    def _from_components(self, components: Sequence[Any]) -> SparseTensor:
        indices, values, dense_shape = components
        created = SparseTensor(indices, values, _known_as(dense_shape, self._shape))
        created.set_shape(self._shape)
        return created

    def _batch(self, batch_size: int | None) -> SparseTensorSpec:
        return SparseTensorSpec(TensorShape([batch_size]).concatenate(self._shape), self._dtype)

    def _unbatch(self) -> SparseTensorSpec:
        return SparseTensorSpec(self._shape[1:], self._dtype)

    def _stacked(self, values: Sequence[Any]) -> SparseTensor:
        """Stacks values in the largest of their shapes."""
        parts = [[part.eager_array() for part in self._to_components(value)] for value in values]
        row_indices, result, shapes = (list(column) for column in zip(*parts))
        rows = np.repeat(np.arange(len(parts)), [len(each) for each in row_indices])
        indices = np.column_stack([rows, np.concatenate(row_indices)])
        return SparseTensor(indices, np.concatenate(result), [len(parts), *np.max(shapes, axis=0)])

    def _rows(self, value: Any) -> list[SparseTensor]:
        parts = as_sparse(value)
        indices, values, (count, *shape) = parts.indices.numpy(), parts.values.numpy(), parts.dense_shape.numpy()
        own = [indices[:, 0] == i for i in range(count)]
        return [SparseTensor(indices[rows, 1:], values[rows], np.array(shape, np.int64)) for rows in own]

    def _size(self, value: Any) -> Tensor:
        count = self._shape[0]
        return as_sparse(value).dense_shape[0] if count is None else convert_to_tensor(count, int64)

    def _row(self, value: Any, index: Any) -> SparseTensor:
        """Returns the slice of a sparse tensor at ``index`` of axis 0, which has one axis less."""
        sp = as_sparse(value)
        result = nonzero_indices(bind.equal(sp.indices[:, 0], index))[:, 0]
        own = bind.gather(sp.indices, result, axis=0, batch_dims=0)[:, 1:]
        row = SparseTensor(own, gather_densely(sp.values, result), _known_as(sp.dense_shape[1:], self._shape[1:]))
        return of_shape(row, self._shape[1:])

    def _serialize(self) -> tuple[Any, ...]:
        return self._shape, self._dtype


def _known_as(dense_shape: Any, shape: TensorShape) -> Any:
    """Returns the shape vector with the elements that the spec knows as static values."""
    if not isinstance(dense_shape, SymbolicTensor) or dense_shape.known is not None or not shape.is_fully_defined():
        return dense_shape
    known = dense_shape.alias()
    known.known = np.array([*shape], object)
    return known
