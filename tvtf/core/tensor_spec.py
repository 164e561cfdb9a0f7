"""TensorSpec, the type of a tensor argument, and the specs of other values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.core.composite import BatchableTypeSpec, CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape, dims_of
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, is_tensor


class TensorSpec(TypeSpec):
    """The type of a tensor argument. A dim is an int, None (unknown), or a name: equal names mean equal sizes.

    >>> import tvtf as tf
    >>> tf.TensorSpec([None, 3], tf.float32, name="x")
    TensorSpec(shape=(None, 3), dtype=tf.float32, name='x')
    >>> tf.TensorSpec(["batch", 3]).dim_names
    ('batch', None)

    Source: https://www.tensorflow.org/api_docs/python/tf/TensorSpec
    """

    __slots__ = ("shape", "dtype", "name", "dim_names")
    is_leaf = True

    def __init__(self, shape: Any, dtype: Any = dtypes.float32, name: str | None = None) -> None:
        is_known = shape is not None and getattr(shape, "rank", 0) is not None
        named = list(_dims_or_names(shape)) if is_known else None
        self.shape = TensorShape(None if named is None else [None if isinstance(dim, str) else dim for dim in named])
        self.dim_names = None if named is None else tuple(dim if isinstance(dim, str) else None for dim in named)
        self.dtype = dtypes.as_dtype(dtype)
        self.name = name

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        if not hasattr(tensor, "dtype") or not hasattr(tensor, "shape"):
            raise ValueError(f"`tensor` should be a tf.Tensor, but got type {type(tensor)}.")
        return TensorSpec(tensor.shape, tensor.dtype, name)

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        if not hasattr(spec, "dtype") or not hasattr(spec, "shape"):
            raise TypeError(f"`spec` should be a tf.TensorSpec or something like it, but got {spec!r}.")
        return cls(spec.shape, spec.dtype, name or spec.name)

    @property
    def value_type(self) -> type:
        return Tensor

    @property
    def _component_specs(self) -> TensorSpec:
        return self

    def _to_components(self, value: Any) -> Any:
        return convert_to_tensor(value, self.dtype)

    def _from_components(self, components: Any) -> Any:
        return components

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        other = spec_or_tensor if hasattr(spec_or_tensor, "dtype") else convert_to_tensor(spec_or_tensor)
        return self.dtype == other.dtype and self.shape.is_compatible_with(other.shape)

    def is_subtype_of(self, other: Any) -> bool:
        if not isinstance(other, TensorSpec) or other.name not in (None, self.name):
            return False
        return self.dtype is other.dtype and self.shape.is_subtype_of(other.shape)

    def most_specific_common_supertype(self, others: Sequence[Any]) -> TensorSpec | None:
        """Returns the narrowest spec that accepts the values of this and of all other specs, or None."""
        if any(not isinstance(other, TensorSpec) or other.dtype is not self.dtype for other in others):
            return None
        name = self.name if all(other.name == self.name for other in others) else None
        common_shape = self.shape.most_specific_common_supertype([other.shape for other in others])
        return TensorSpec(common_shape, self.dtype, name)

    def most_general(self, other: TensorSpec) -> TensorSpec | None:
        """Returns the spec with the dims that differ made unknown, or None where dtype or rank differ."""
        if self.dtype is not other.dtype or self.shape.rank is None or self.shape.rank != other.shape.rank:
            return None
        dims = [own_dim if own_dim == other_dim else None for own_dim, other_dim in zip(self.shape, other.shape)]
        return TensorSpec(dims, self.dtype, self.name)

    def trace_type(self) -> tuple[Any, ...]:
        """Returns what the trace of a function depends on: shape, dtype and names of dims, but not the argument's name."""
        return self.shape, self.dtype, self.dim_names

    def __eq__(self, other: object) -> bool:
        """Returns whether another spec describes the same tensors by the same name."""
        if not isinstance(other, TensorSpec) or type(other) is not type(self):
            return False
        return self.name == other.name and self.trace_type() == other.trace_type()

    def __hash__(self) -> int:
        return hash(self.trace_type())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"


class BoundedTensorSpec(TensorSpec):
    """The type of a tensor argument, with the smallest and the largest value of its elements.

    Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/tensor.py
    """

    __slots__ = ("minimum", "maximum")

    def __init__(self, shape: Any, dtype: Any, minimum: Any, maximum: Any, name: str | None = None) -> None:
        super().__init__(shape, dtype, name)
        self.minimum = self._bound("minimum", minimum)
        self.maximum = self._bound("maximum", maximum)

    def _bound(self, argument: str, value: Any) -> np.ndarray:
        """Returns a bound as an array that can't be changed.

        Raises:
          ValueError: there is no bound, or it doesn't broadcast to the tensor's shape.
        """
        if value is None:
            raise ValueError(f"`{argument}` can not be None.")
        dims = [] if self.shape.rank is None else self.shape.as_list()
        sizes = tuple(1 if dim is None else dim for dim in dims)  # an unknown dim fits any size
        try:
            np.broadcast_shapes(np.shape(value), sizes)
        except ValueError as error:
            raise ValueError(f"`{argument}` {value} is not compatible with shape {self.shape}.") from error
        bound: np.ndarray = np.array(value, self.dtype.as_numpy_dtype)
        bound.setflags(write=False)
        return bound

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedTensorSpec:
        """Returns the spec of another spec's tensors: with its bounds, or else those of its dtype."""
        dtype = dtypes.as_dtype(spec.dtype)
        # The bounds of a dtype are looked up only if they are needed: strings have none.
        minimum = spec.minimum if hasattr(spec, "minimum") else dtype.min
        maximum = spec.maximum if hasattr(spec, "maximum") else dtype.max
        return cls(spec.shape, dtype, minimum, maximum, name or spec.name)

    def _serialize(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self.minimum, self.maximum, self.name

    def __eq__(self, other: object) -> bool:
        """Returns whether another spec describes the same tensors by the same name, with bounds that are close."""
        if not isinstance(other, BoundedTensorSpec) or not super().__eq__(other):
            return False
        return np.allclose(self.minimum, other.minimum) and np.allclose(self.maximum, other.maximum)

    __hash__ = TensorSpec.__hash__

    def __reduce__(self) -> Any:
        return type(self), self._serialize()

    def __repr__(self) -> str:
        return f"Bounded{super().__repr__()[:-1]}, minimum={self.minimum!r}, maximum={self.maximum!r})"


def _dims_or_names(shape: Any) -> Iterable[Any]:
    return shape if isinstance(shape, (list, tuple)) else dims_of(shape)


@export("NoneTensorSpec")
class NoneTensorSpec(BatchableTypeSpec):
    """The spec of None in an element of a dataset.

    >>> import tvtf as tf
    >>> tf.data.Dataset.range(2).map(lambda x: (x, None)).element_spec
    (TensorSpec(shape=(), dtype=tf.int64, name=None), NoneTensorSpec())

    Source: https://www.tensorflow.org/api_docs/python/tf/NoneTensorSpec
    """

    @property
    def value_type(self) -> type:
        return type(None)

    @property
    def _component_specs(self) -> tuple[Any, ...]:
        return ()

    def _to_components(self, value: Any) -> tuple[Any, ...]:
        return ()

    def _from_components(self, components: Any) -> None:
        return None

    def _serialize(self) -> tuple[Any, ...]:
        return ()

    @classmethod
    def from_value(cls, value: None) -> NoneTensorSpec:
        return cls()

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        return spec_or_value is None or super().is_compatible_with(spec_or_value)

    def _batch(self, batch_size: int | None) -> NoneTensorSpec:
        return self

    def _unbatch(self) -> NoneTensorSpec:
        return self

    def _encoding_specs(self) -> tuple[Any, ...]:
        return ()

    def _encode(self, value: Any, minimum_rank: int) -> tuple[Any, ...]:
        return ()

    def _decode(self, encoded: Any) -> None:
        return None


@export("type_spec_from_value")
def type_spec_from_value(value: Any) -> TypeSpec:
    """Returns the type spec of a tensor, a composite tensor, or a value that can be converted to a tensor.

    >>> import tvtf as tf
    >>> tf.type_spec_from_value([1, 2])
    TensorSpec(shape=(2,), dtype=tf.int32, name=None)

    Raises:
      TypeError: ``value`` can't be converted to a tensor.

    Source: https://www.tensorflow.org/api_docs/python/tf/type_spec_from_value
    """
    if isinstance(value, CompositeTensor):
        return value._type_spec
    if value is None:
        return NoneTensorSpec()
    spec = getattr(value, "_type_spec", None)
    if isinstance(spec, TypeSpec):
        return spec
    try:
        return TensorSpec.from_tensor(convert_to_tensor(value))
    except (TypeError, ValueError):
        raise TypeError(f"Could not build a TypeSpec for {value!r} of unsupported type {type(value)!r}.") from None


@export("is_tensor")
def is_tensor_like(x: Any) -> bool:
    """Returns whether ``x`` is a tensor, a Variable or a composite tensor.

    >>> import tvtf as tf
    >>> tf.is_tensor(tf.constant(1)), tf.is_tensor(1)
    (True, False)

    Source: https://www.tensorflow.org/api_docs/python/tf/is_tensor
    """
    return is_tensor(x) or (isinstance(x, CompositeTensor) and x._is_tensor_like)


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Any) -> bool:
    """Returns whether ``tensor`` is a symbolic tensor of a function being traced.

    >>> import tvtf as tf
    >>> tf.is_symbolic_tensor(tf.constant(1))
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/is_symbolic_tensor
    """
    return isinstance(tensor, SymbolicTensor)
