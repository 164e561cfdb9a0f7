"""Composed losses: sigmoid and weighted cross entropy, log_poisson_loss, l2_loss."""

from __future__ import annotations

import math
from typing import Any

from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import agree_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.ops.operands import operands
from tvtf.ops.rules import bind, number, zeros_like


def _same_shaped(labels: Any, logits: Any) -> tuple[Tensor, Tensor]:
    """Converts labels and logits to tensors, and returns both in this order.

    Raises:
      ValueError: the shapes differ.
    """
    logits_tensor = convert_to_tensor(logits)
    labels_tensor = convert_to_tensor(labels)
    have_same_rank = logits_tensor.ndim == labels_tensor.ndim
    if not have_same_rank or not all(map(agree_dim, logits_tensor._type.shape, labels_tensor._type.shape)):
        shapes = f"{logits_tensor.shape} vs {labels_tensor.shape}"
        raise incompatible_shapes(ValueError(f"`logits` and `labels` must have the same shape, received ({shapes})."))
    return labels_tensor, logits_tensor


def _softplus_of_minus_abs(x: Tensor) -> Tensor:
    """Returns ``log(1 + exp(-|x|))`` with the gradient of the branch x >= 0 at 0."""
    positive = bind.greater_equal(x, zeros_like(x))
    return bind.log1p(bind.exp(bind.select(positive, bind.negative(x), x)))


def _positive_part(x: Tensor) -> Tensor:
    """Returns ``max(x, 0)``, with the gradient of the branch x >= 0 at 0."""
    return bind.select(bind.greater_equal(x, zeros_like(x)), x, zeros_like(x))


def _negative_part(x: Tensor) -> Tensor:
    """Returns ``min(x, 0)``, with the gradient of the branch x >= 0 at 0."""
    return bind.select(bind.greater_equal(x, zeros_like(x)), zeros_like(x), x)


@export("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """Computes the cross entropy between labels and ``sigmoid(logits)``, elementwise, without overflow.

    Args:
      labels: tensor of the logits' shape and dtype, values in [0, 1].
      logits: floating tensor.

    Returns:
      ``max(logits, 0) - logits * labels + log(1 + exp(-|logits|))``.

    Raises:
      ValueError: the shapes differ.

    >>> import tvtf as tf
    >>> tf.nn.sigmoid_cross_entropy_with_logits([1., 0.], [0., 0.]).numpy()
    array([0.6931472, 0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/sigmoid_cross_entropy_with_logits
    """
    if labels is None or logits is None:
        raise ValueError(f"Both `labels` and `logits` must be provided, but got labels={labels}, logits={logits}.")
    y, x = _same_shaped(labels, logits)
    return bind.add(bind.subtract(_positive_part(x), bind.multiply(x, y)), _softplus_of_minus_abs(x))


@export("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(labels: Any, logits: Any, pos_weight: Any, name: str | None = None) -> Tensor:
    """Computes :func:`sigmoid_cross_entropy_with_logits` with the term of positive labels times ``pos_weight``.

    For a logit of 0 the gradient is the derivative. TensorFlow's isn't: it sets those of |x| and relu at 0 to 0.

    Raises:
      ValueError: the shapes differ.

    >>> import tvtf as tf
    >>> tf.nn.weighted_cross_entropy_with_logits([1., 0.], [0., 0.], 2.).numpy()
    array([1.3862944, 0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/weighted_cross_entropy_with_logits
    """
    # The loss is (1 - y) * x + (1 + (pos_weight - 1) * y) * log(1 + exp(-x)) for labels y and logits x.
    y, x = _same_shaped(labels, logits)
    one = number(1, x)
    _, positive_weight = operands(x, pos_weight)
    weight = bind.add(one, bind.multiply(bind.subtract(positive_weight, one), y))
    # log(1 + exp(-x)), so that nothing overflows
    log_one_plus_exp = bind.subtract(_softplus_of_minus_abs(x), _negative_part(x))
    return bind.add(bind.multiply(bind.subtract(one, y), x), bind.multiply(weight, log_one_plus_exp))


@export("nn.log_poisson_loss")
def log_poisson_loss(targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None) -> Tensor:
    """Computes the Poisson loss ``exp(log_input) - log_input * targets``.

    The full loss includes Stirling's approximation of ``log(targets!)``.

    Raises:
      ValueError: the shapes differ.

    >>> import tvtf as tf
    >>> tf.nn.log_poisson_loss([1.], [0.]).numpy()
    array([1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/log_poisson_loss
    """
    x, y = convert_to_tensor(log_input), convert_to_tensor(targets)
    if x.ndim != y.ndim or not all(map(agree_dim, x._type.shape, y._type.shape)):
        shapes = f"{x.shape} vs {y.shape}"
        raise incompatible_shapes(
            ValueError(f"`log_input` and `targets` must have the same shape, received ({shapes}).")
        )
    loss = bind.subtract(bind.exp(x), bind.multiply(x, y))
    return bind.add(loss, _stirling(y)) if compute_full_loss else loss


def _stirling(y: Tensor) -> Tensor:
    """Computes Stirling's approximation of ``log(y!)``: ``y log y - y + log(2 pi y) / 2``.

    The result is 0 for y in [0, 1], where 0 is a better approximation.
    """
    zero = number(0, y)
    one = number(1, y)
    half = number(0.5, y)
    two_pi = number(2 * math.pi, y)
    main_terms = bind.subtract(bind.multiply(y, bind.log(y)), y)
    logarithm = bind.log(bind.multiply(two_pi, y))
    correction = bind.multiply(half, logarithm)
    is_small = bind.logical_and(bind.greater_equal(y, zero), bind.less_equal(y, one))
    return bind.select(is_small, zeros_like(y), bind.add(main_terms, correction))


@export("nn.l2_loss")
def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Computes half the sum of squares, a scalar of t's floating dtype.

    >>> import tvtf as tf
    >>> tf.nn.l2_loss([1., 2.]).numpy()
    np.float32(2.5)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/l2_loss
    """
    x = convert_to_tensor(t)
    total = bind.reduce_sum(bind.square(x), axis=tuple(range(x.ndim)), keepdims=False)
    return bind.multiply(total, number(0.5, total))
