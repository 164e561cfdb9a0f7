"""Gradient clipping as Keras does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.ops.rules import bind, number, ones_like
from tvtf.tensor import Tensor


def clipped(
    grads: Sequence[Tensor], clipnorm: float | None, clipvalue: float | None, global_clipnorm: float | None
) -> list[Tensor]:
    """The gradients under the limit that is set, if any."""
    if clipnorm is not None and clipnorm > 0:
        return [by_norm(g, clipnorm) for g in grads]
    if global_clipnorm is not None and global_clipnorm > 0:
        return by_global_norm(grads, global_clipnorm)
    if clipvalue is not None and clipvalue > 0:
        return [by_value(g, clipvalue) for g in grads]
    return list(grads)


def by_value(grad: Tensor, limit: float) -> Tensor:
    return bind.maximum(bind.minimum(grad, number(limit, grad)), number(-limit, grad))


def by_norm(grad: Tensor, limit: float) -> Tensor:
    """The gradient scaled to a norm of at most ``limit``; zeros stay zeros."""
    total = squared_norm(grad)
    positive = bind.greater(total, number(0, total))
    norm = bind.select(positive, bind.sqrt(bind.select(positive, total, ones_like(total))), total)
    return grad * number(limit, grad) / bind.maximum(norm, number(limit, norm))


def by_global_norm(grads: Sequence[Tensor], limit: float) -> list[Tensor]:
    """All gradients times one factor; not-a-number where a norm is not finite."""
    total = squared_norm(grads[0])
    for grad in grads[1:]:
        total = bind.add(total, _as(squared_norm(grad), total))
    norm = bind.sqrt(total)
    inverse = bind.minimum(number(1, norm) / norm, number(1 / limit, norm))
    scale = number(limit, norm) * inverse + (norm - norm)
    return [bind.multiply(g, _as(scale, g)) for g in grads]


def squared_norm(grad: Tensor) -> Tensor:
    return bind.reduce_sum(bind.multiply(grad, grad), axis=tuple(range(grad.ndim)), keepdims=False)


def _as(value: Tensor, like: Any) -> Tensor:
    return value if value.dtype is like.dtype else bind.cast(value, dtype=like.dtype)
