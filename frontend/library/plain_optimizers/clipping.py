"""Clips gradients as Keras does."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from tvtf.core.tensor import Tensor
from tvtf.ops.indexed_slices import IndexedSlices, as_dense, on_values
from tvtf.ops.rules import bind, number, ones_like


def clipped(
    grads: Sequence[Any], clipnorm: float | None, clipvalue: float | None, global_clipnorm: float | None
) -> list[Any]:
    """Clips gradients by the limit that is set.

    Of IndexedSlices, only the values are clipped, as in Keras.

    Args:
      grads: the gradients.
      clipnorm: the limit of each gradient's norm, or None.
      clipvalue: the limit of each value, or None.
      global_clipnorm: the limit of the common norm of all gradients, or None.
    """
    if clipnorm is not None and clipnorm > 0:
        clip = partial(by_norm, limit=clipnorm)
        return [on_values(clip, grad) for grad in grads]
    if global_clipnorm is not None and global_clipnorm > 0:
        return by_global_norm(grads, global_clipnorm)
    if clipvalue is not None and clipvalue > 0:
        clip = partial(by_value, limit=clipvalue)
        return [on_values(clip, grad) for grad in grads]
    return list(grads)


def by_value(grad: Tensor, limit: float) -> Tensor:
    return bind.maximum(bind.minimum(grad, number(limit, grad)), number(-limit, grad))


def by_norm(grad: Tensor, limit: float) -> Tensor:
    """Scales a gradient to a norm of at most ``limit``; zeros stay zeros."""
    square = squared_norm(grad)
    is_positive = bind.greater(square, number(0, square))
    norm = bind.select(is_positive, bind.sqrt(bind.select(is_positive, square, ones_like(square))), square)
    return grad * number(limit, grad) / bind.maximum(norm, number(limit, norm))


def by_global_norm(grads: Sequence[Any], limit: float) -> list[Any]:
    """Scales all gradients by the same factor, which limits their common norm to ``limit``.

    If the norm is not finite, all results are NaN.
    """
    first, *others = [grad.values if isinstance(grad, IndexedSlices) else grad for grad in grads]
    sum_of_squares = squared_norm(first)
    for grad in others:
        sum_of_squares = bind.add(sum_of_squares, _as(squared_norm(grad), sum_of_squares))
    norm = bind.sqrt(sum_of_squares)
    inverse = bind.minimum(number(1, norm) / norm, number(1 / limit, norm))
    nan_if_infinite = norm - norm  # inf - inf is NaN, other differences are 0
    scale = number(limit, norm) * inverse + nan_if_infinite

    def scaled(values: Tensor) -> Tensor:
        return bind.multiply(values, _as(scale, values))  # type: ignore[no-any-return]

    return [on_values(scaled, grad) for grad in grads]


def squared_norm(grad: Tensor) -> Tensor:
    return bind.reduce_sum(bind.multiply(grad, grad), axis=tuple(range(grad.ndim)), keepdims=False)


def squared(grad: Any) -> Tensor:
    """Returns the squares of a gradient; as in Keras, values of equal indices are squared before they are summed."""
    return as_dense(on_values(lambda x: x * x, grad))


def _as(value: Tensor, like: Any) -> Tensor:
    return value if value.dtype is like.dtype else bind.cast(value, dtype=like.dtype)
