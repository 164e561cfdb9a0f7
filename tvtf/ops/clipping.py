"""Clipping by norm, of one tensor or several; IndexedSlices are clipped by their values and stay IndexedSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.indexed_slices import IndexedSlices, on_values
from tvtf.ops.reduce import reduce_sum
from tvtf.ops.rules import bind, number, ones_like
from tvtf.ops.sigmoid_loss import l2_loss


@export("clip_by_norm")
def clip_by_norm(t: Any, clip_norm: Any, axes: Any = None, name: str | None = None) -> Any:
    """Scales ``t`` down to an L2 norm of at most ``clip_norm``.

    Args:
      t: floating tensor of shape (...), or IndexedSlices.
      clip_norm: positive scalar.
      axes: the axes of each norm; all where None.

    Returns:
      A tensor or IndexedSlices, as ``t``, of the same shape.

    >>> import tvtf as tf
    >>> tf.clip_by_norm([3., 4.], 1.).numpy()
    array([0.6, 0.8], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/clip_by_norm
    """

    def clipped(x: Tensor) -> Tensor:
        """Scales ``x`` down so that its L2 norm is at most the limit."""
        limit = _limit(clip_norm, x)
        total = reduce_sum(x * x, axes, keepdims=True)
        is_positive = bind.greater(total, number(0, total))
        # A root of 0 would have an infinite gradient.
        positive_total = bind.select(is_positive, total, ones_like(total))
        norm = bind.select(is_positive, bind.sqrt(positive_total), total)
        return x * limit / bind.maximum(norm, limit)

    return on_values(clipped, t)


def _limit(clip_norm: Any, like: Tensor) -> Tensor:
    if np.isscalar(clip_norm):
        return number(max(clip_norm, 0), like)  # type: ignore[type-var]
    limit = convert_to_tensor(clip_norm)
    return bind.cast(bind.maximum(limit, number(0, limit)), dtype=like.dtype)


def _tensors(t_list: Any) -> list[Any]:
    """Converts the argument ``t_list`` of the clipping functions to a list.

    Its elements may be tensors, IndexedSlices or None.

    Raises:
      TypeError: the argument is not a sequence.
    """
    if not isinstance(t_list, Sequence) or isinstance(t_list, str):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {type(t_list)}.")
    return list(t_list)


@export("linalg.global_norm")
def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Computes the L2 norm of all elements of several tensors together. A None is ignored.

    Args:
      t_list: sequence of floating tensors, IndexedSlices and None.

    Returns:
      A scalar.

    >>> import tvtf as tf
    >>> tf.linalg.global_norm([tf.constant([3.]), tf.constant([[4.]])]).numpy()
    np.float32(5.0)

    Raises:
      TypeError: ``t_list`` is not a sequence.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/global_norm
    """
    values = [
        tensor.values if isinstance(tensor, IndexedSlices) else tensor
        for tensor in _tensors(t_list)
        if tensor is not None
    ]
    losses = [l2_loss(convert_to_tensor(value)) for value in values]  # half of each squared norm
    half = reduce_sum(bind.stack(*losses, axis=0) if losses else convert_to_tensor([]))
    return bind.sqrt(half * number(2, half))


@export("clip_by_global_norm")
def clip_by_global_norm(
    t_list: Any, clip_norm: Any, use_norm: Any = None, name: str | None = None
) -> tuple[list[Any], Tensor]:
    """Multiplies tensors by one factor, so that their global norm is at most ``clip_norm``; NaN where the norm is not finite.

    Args:
      t_list: sequence of floating tensors, IndexedSlices and None.
      clip_norm: positive scalar.
      use_norm: the global norm, where it is known.

    Returns:
      The list of clipped tensors, IndexedSlices and None, and the global norm.

    >>> import tvtf as tf
    >>> clipped, norm = tf.clip_by_global_norm([tf.constant([3.]), tf.constant([4.])], 1.)
    >>> [t.numpy().tolist() for t in clipped], norm.numpy()
    ([[0.6000000238418579], [0.800000011920929]], np.float32(5.0))

    Raises:
      TypeError: ``t_list`` is not a sequence.

    Source: https://www.tensorflow.org/api_docs/python/tf/clip_by_global_norm
    """
    tensors = _tensors(t_list)
    norm = global_norm(tensors) if use_norm is None else convert_to_tensor(use_norm)
    limit = convert_to_tensor(clip_norm, dtype_hint=norm.dtype)
    nan_unless_finite = norm - norm
    factor = limit * bind.minimum(number(1, norm) / norm, number(1, norm) / limit) + nan_unless_finite

    def scaled(x: Tensor) -> Tensor:
        return x * bind.cast(factor, dtype=x.dtype)

    clipped = [None if tensor is None else on_values(scaled, tensor) for tensor in tensors]
    return clipped, norm if use_norm is None else use_norm
