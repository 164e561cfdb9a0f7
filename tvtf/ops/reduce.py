"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import NUMERIC
from tvtf.ops.rules import batch_axes, bind, canonical_axes, draw, kernel, reduced_shape, reduction
from tvtf.primitive import Sample, primitive
from tvtf.tensor import Tensor, convert_to_tensor


def expand_reduced(ct: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """A reduction's cotangent repeated to the shape of its input."""
    kept = ct if keepdims else bind.reshape(ct, shape=reduced_shape(x._type.shape, axis, True))
    return bind.broadcast_to(kept, shape=x._type.shape)


def reduction_samples(domain: Any, **options: Any) -> Any:
    cases = (((3,), (0,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), ()), ((), ()), ((0, 3), (0,)))
    return lambda: [
        Sample((draw(i, s),), {"axis": a, "keepdims": bool(i % 2)}, tuple(domain), **options) for i, (s, a) in enumerate(cases)
    ]


def front(input_tensor: Any, axis: Any, keepdims: bool) -> Any:
    """The inputs and attributes shared by all reductions."""
    x = convert_to_tensor(input_tensor)
    return (x,), {"axis": canonical_axes(axis, x.ndim), "keepdims": bool(keepdims)}


@primitive(
    tf_name="Sum",
    type=reduction(NUMERIC),
    numpy=lambda x, *, axis, keepdims: np.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype),
    lower=kernel("reduce.sum"),
    vjp=lambda ct, y, x, *, axis, keepdims: expand_reduced(ct, x, axis, keepdims),
    batch=batch_axes("reduce_sum"),
    onnx=lambda e, inputs, outputs, types, *, axis, keepdims: e.reduce("ReduceSum", inputs, outputs, axis, keepdims),
    samples=reduction_samples(NUMERIC),
    public=("reduce_sum", "math.reduce_sum"),
)
def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Sum over axes; all of them where ``axis`` is None.

    Args:
      input_tensor: numeric tensor.
      axis: int or ints in [-rank, rank), or None.
      keepdims: keep reduced axes with size 1.

    Returns:
      A tensor of the same dtype.

    >>> import tvtf as tf
    >>> tf.reduce_sum([[1, 2], [3, 4]], axis=0).numpy()
    array([4, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_sum
    """
    return front(input_tensor, axis, keepdims)
