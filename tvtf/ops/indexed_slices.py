"""Operations on IndexedSlices: conversion to a tensor, sums, scaling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.primitive import add_handler, export
from tvtf.core.shape import size_of
from tvtf.core.tensor import Tensor, convert_to_tensor, register_tensor_conversion_function
from tvtf.dtypes import int32, int64
from tvtf.ops.array import shape as shape_of
from tvtf.ops.rules import bind, static_dims


def _densified(value: IndexedSlices, dtype: Any = None, **_: Any) -> Tensor:
    """Converts IndexedSlices to a dense tensor. Each slice is added at its index to zeros.

    Conversion functions are called with ``dtype`` and other options. A dtype must be that of the slices.
    """
    if dtype is not None and dtype is not value.dtype:
        raise ValueError(
            f"Incompatible tensor conversion requested to `dtype` {dtype.name} for IndexedSlices ({value!s}) with dtype "
            f"{value.dtype.name}"
        )
    if value.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices for argument `value` without dense_shape: {value!s}"
        )
    (count,) = static_dims(value.dense_shape[0], "dense_shape[0]")
    values, indices = convert_to_tensor(value.values), convert_to_tensor(value.indices)
    return bind.unsorted_segment_sum(values, indices, num_segments=count)


register_tensor_conversion_function(IndexedSlices, _densified)


def on_values(function: Callable[[Tensor], Tensor], t: Any) -> Any:
    """Applies ``function`` to a tensor, or to the values of IndexedSlices."""
    if isinstance(t, IndexedSlices):
        return IndexedSlices(function(convert_to_tensor(t.values)), t.indices, t.dense_shape)
    return function(convert_to_tensor(t))


@export("math.scalar_mul", "scalar_mul")
def scalar_mul(scalar: Any, x: Any, name: str | None = None) -> Any:
    """Multiplies ``x`` by a scalar; IndexedSlices remain IndexedSlices.

    Args:
      scalar: a scalar.
      x: tensor of shape (...), or IndexedSlices.

    Returns:
      A tensor or IndexedSlices, as ``x``, of the same shape.

    Raises:
      ValueError: ``scalar`` is not a scalar.

    >>> import tvtf as tf
    >>> tf.math.scalar_mul(2., tf.constant([1., 2.])).numpy()
    array([2., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/scalar_mul
    """
    factor = convert_to_tensor(scalar, x.dtype)
    if factor.ndim:
        raise ValueError(f"The input scalar must be a 0-D value. Received shape {factor.shape}.")
    return on_values(lambda values: bind.multiply(factor, values), x)


def _cast(function: Callable[..., Tensor], x: Any, dtype: Any, name: str | None = None) -> Any:
    return on_values(lambda values: function(values, dtype), x)


add_handler("cast", lambda value: isinstance(value, IndexedSlices), _cast)


def rows_of(params: Tensor, values: Tensor, indices: Tensor) -> IndexedSlices:
    """Returns the gradient of a gather of rows of ``params`` as IndexedSlices: ``values`` at the rows ``indices``."""
    shape = shape_of(params, int32)
    if indices.ndim == 1 and values.ndim == params.ndim:
        return IndexedSlices(values, indices, shape)
    # IndexedSlices have a vector of indices: flatten indices of another rank, and the values' axes for them
    row_dims = params._type.shape[1:]
    index_dims = values._type.shape[: values.ndim - len(row_dims)]
    rows = bind.reshape(values, shape=(size_of(index_dims), *row_dims))
    index_vector = bind.reshape(indices, shape=(size_of(indices._type.shape),))
    return IndexedSlices(rows, index_vector, shape)


def as_dense(cotangent: Any) -> Any:
    """Converts a cotangent to a tensor if it is IndexedSlices."""
    return _densified(cotangent) if isinstance(cotangent, IndexedSlices) else cotangent


def total(known: Any, more: Any) -> Any:
    """Adds two cotangents of one value, which are tensors or IndexedSlices.

    IndexedSlices and a tensor are added as tensors. Two IndexedSlices are concatenated. The slices of ``more`` come
    first: they belong to an earlier op of the program, although the gradient found them later.
    """
    if type(known) is not IndexedSlices and type(more) is not IndexedSlices:
        return bind.add(known, more)
    if not (isinstance(known, IndexedSlices) and isinstance(more, IndexedSlices)):
        return bind.add(as_dense(known), as_dense(more))
    more_indices, known_indices = more.indices, known.indices
    if more_indices.dtype is not known_indices.dtype:
        more_indices = bind.cast(more_indices, dtype=int64)
        known_indices = bind.cast(known_indices, dtype=int64)
    values = bind.concat(more.values, known.values, axis=0)
    indices = bind.concat(more_indices, known_indices, axis=0)
    return IndexedSlices(values, indices, known.dense_shape)
