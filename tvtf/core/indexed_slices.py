"""IndexedSlices: a tensor given by some of its rows, as the gradient of a gather."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.composite import CompositeTensor, ShapedSpec
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import DType, as_dtype, float32, int64


@export("IndexedSlices")
class IndexedSlices(CompositeTensor):
    """Rows ``values[i]`` at ``indices[i]`` of a tensor that is zero elsewhere; rows of one index are summed.

    Args:
      values: tensor of shape (n, ...).
      indices: integer tensor of shape (n,).
      dense_shape: integer vector, the shape of the whole tensor; None if it is not known.

    >>> import tvtf as tf
    >>> rows = tf.IndexedSlices(tf.constant([[1., 2.]]), tf.constant([1]), tf.constant([3, 2]))
    >>> tf.convert_to_tensor(rows).numpy()
    array([[0., 0.],
           [1., 2.],
           [0., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/IndexedSlices
    """

    _is_tensor_like = True

    def __init__(self, values: Tensor, indices: Tensor, dense_shape: Tensor | None = None) -> None:
        self._values = values
        self._indices = indices
        self._dense_shape = dense_shape

    @property
    def values(self) -> Tensor:
        return self._values

    @property
    def indices(self) -> Tensor:
        return self._indices

    @property
    def dense_shape(self) -> Tensor | None:
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole tensor; unknown dims are None."""
        return TensorShape(None) if self._dense_shape is None else constant_shape(self._dense_shape)

    @property
    def dtype(self) -> DType:
        return self._values.dtype

    @property
    def name(self) -> str:
        return self._values.name

    @property
    def device(self) -> str:
        return self._values.device

    @property
    def graph(self) -> Any:
        return self._values.graph

    @property
    def _type_spec(self) -> IndexedSlicesSpec:
        """The type spec. The number of rows is taken from the shape of the values or of the indices, if one has it."""
        values_shape = as_shape(self._values.shape)  # values may be NumPy arrays, whose shape is a tuple
        count = as_shape(self._indices.shape).merge_with(values_shape[:1])
        # The whole tensor may have more rows than `values`: only `dense_shape` says how many.
        shape = TensorShape([None]).concatenate(values_shape[1:])
        if self._dense_shape is None:
            return IndexedSlicesSpec(shape, self.dtype, self._indices.dtype, None, count)
        shape = shape.merge_with(constant_shape(self._dense_shape))
        return IndexedSlicesSpec(shape, self.dtype, self._indices.dtype, self._dense_shape.dtype, count)

    def _gradient_components(self) -> Tensor:
        """Returns the tensor that gradients are computed for: the values, as indices have no gradient."""
        return self._values

    def _with_gradient(self, gradients: Any) -> Any:
        """Returns the gradient with respect to these slices, given the gradient of the values."""
        return IndexedSlices(gradients, self._indices, self._dense_shape)

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __str__(self) -> str:
        shape = "" if self._dense_shape is None else f", dense_shape={self._dense_shape!s}"
        return f"IndexedSlices(indices={self._indices!s}, values={self._values!s}{shape})"


@export("IndexedSlicesSpec")
class IndexedSlicesSpec(ShapedSpec):
    """The type of an :class:`IndexedSlices`.

    Args:
      shape: the shape of the whole tensor; None if it is not known.
      dtype: the dtype of the values.
      indices_dtype: int32 or int64.
      dense_shape_dtype: int32 or int64; None for values without ``dense_shape``.
      indices_shape: the shape of the indices, a vector: the number of rows.

    >>> import tvtf as tf
    >>> tf.IndexedSlicesSpec([3, 2])
    IndexedSlicesSpec(TensorShape([3, 2]), tf.float32, tf.int64, None, TensorShape([None]))

    Source: https://www.tensorflow.org/api_docs/python/tf/IndexedSlicesSpec
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = float32,
        indices_dtype: Any = int64,
        dense_shape_dtype: Any = None,
        indices_shape: Any = None,
    ) -> None:
        """Describes IndexedSlices by the shapes and dtypes of their components.

        Args:
          shape: the shape of the dense tensor, of which the slices are rows.
          dtype: the dtype of the slices.
          indices_dtype: the dtype of the slices' indices.
          dense_shape_dtype: the dtype of the component ``dense_shape``, or None if there is none.
          indices_shape: the shape of the indices, a vector.
        """
        self._shape = as_shape(shape)
        self._dtype = as_dtype(dtype)
        self._indices_dtype = as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else as_dtype(dense_shape_dtype)
        self._indices_shape = as_shape(indices_shape).with_rank(1)

    @property
    def value_type(self) -> type:
        return IndexedSlices

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        """The specs of ``values``, ``indices`` and, unless the type has none, ``dense_shape``."""
        values = TensorSpec(self._indices_shape.concatenate(self._shape[1:]), self._dtype)
        indices = TensorSpec(self._indices_shape, self._indices_dtype)
        if self._dense_shape_dtype is None:
            return values, indices
        return values, indices, TensorSpec([self._shape.rank], self._dense_shape_dtype)

    def _to_components(self, value: IndexedSlices) -> tuple[Tensor, ...]:
        rows = value.values, value.indices
        return rows if value.dense_shape is None else (*rows, value.dense_shape)

    def _from_components(self, components: Sequence[Tensor]) -> IndexedSlices:
        return IndexedSlices(*components)

    def _serialize(self) -> tuple[Any, ...]:
        dtypes = self._dtype, self._indices_dtype, self._dense_shape_dtype
        return self._shape, *dtypes, self._indices_shape


def constant_shape(dims: Tensor) -> TensorShape:
    """Converts an integer vector to the shape with these dims. If its elements aren't known while tracing, dims are None.

    The rank is unknown if the vector's length is.
    """
    known = dims.eager_array() if isinstance(dims, EagerTensor) else dims.known
    if known is not None:
        return TensorShape(known.tolist())
    rank = dims.shape[0] if dims.shape.rank else None  # the vector's length
    return TensorShape(None if rank is None else [None] * rank)
