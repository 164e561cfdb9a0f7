"""Dropout, composed of the random ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.core.primitive import export, exports, table
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import DType, float32
from tvtf.ops.rules import bind, number, static_dims, zeros_like

Sampler = Callable[[tuple[Dim, ...], DType], Tensor]


@export("nn.dropout")
def dropout(x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: str | None = None) -> Tensor:
    """Sets a random part of the elements to 0 and scales the others, so that sums keep their expected value.

    Args:
      x: floating tensor.
      rate: the probability to drop an element, a float in [0, 1) or a scalar tensor.
      noise_shape: shape of the random mask, which broadcasts to x. None, also as a dim, stands for that of x.
      seed: Python int for the random numbers, with the global seed as in ``tf.random.uniform``.

    Returns:
      A tensor of x's dtype and shape. It is x itself if the rate is 0.

    Raises:
      ValueError: x is not floating, or the rate is out of range.

    >>> import tvtf as tf
    >>> tf.nn.dropout(tf.constant([1., 2.]), 0).numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/dropout
    """
    return _apply_dropout(
        x, rate, lambda shape, dtype: exports["random.uniform"](shape, seed=seed, dtype=dtype), noise_shape
    )


@export("nn.experimental.stateless_dropout")
def stateless_dropout(
    x: Any, rate: Any, seed: Any, rng_alg: Any = None, noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """Computes :func:`dropout` with a mask that depends on ``seed`` (two ints) alone.

    Args:
      x, rate, noise_shape: as for :func:`dropout`.
      seed: tensor of shape (2,), int32 or int64.
      rng_alg: the random generator, "auto_select" where not given.

    >>> import tvtf as tf
    >>> tf.nn.experimental.stateless_dropout(tf.constant([1., 2.]), 0, [1, 2]).numpy()
    array([1., 2.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/experimental/stateless_dropout
    """
    options = {"alg": rng_alg or "auto_select"}
    seed = convert_to_tensor(seed)
    uniform: Sampler = lambda shape, dtype: exports["random.stateless_uniform"](  # noqa: E731 - one of two samplers
        shape, seed=seed, dtype=dtype, **options
    )
    return _apply_dropout(x, rate, uniform, noise_shape)


@export("nn.experimental.general_dropout")
def general_dropout(
    x: Any, rate: Any, uniform_sampler: Callable[..., Any], noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """Computes :func:`dropout` with random numbers from ``uniform_sampler(shape=, dtype=)``.

    >>> import tvtf as tf
    >>> numbers = lambda shape, dtype: tf.constant([.2, .9])
    >>> tf.nn.experimental.general_dropout(tf.constant([1., 2.]), .5, numbers).numpy()
    array([0., 4.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/experimental/general_dropout
    """
    return _apply_dropout(x, rate, lambda shape, dtype: uniform_sampler(shape=shape, dtype=dtype), noise_shape)


def _apply_dropout(x: Any, rate: Any, sampler: Sampler, noise_shape: Any) -> Tensor:
    """Applies dropout: sets random elements to 0 with probability ``rate`` and divides the others by ``1 - rate``.

    ``sampler(shape, dtype)`` draws uniform random numbers. An element is dropped if its number is below the rate.
    """
    x = convert_to_tensor(x)
    if not x.dtype.is_floating:
        raise ValueError(
            f"`x.dtype` must be a floating point tensor as `x` will be scaled. Received: x_dtype={x.dtype}"
        )
    rate = _checked_rate(rate, x)
    if isinstance(rate, float) and rate == 0:
        return x
    noise_dtype = float32 if x.dtype.name == "bfloat16" else x.dtype
    noise = sampler(_noise_shape(noise_shape, x), noise_dtype)
    is_retained = bind.greater_equal(noise, _scalar(rate, noise))
    return bind.select(is_retained, _scaled(x, rate), zeros_like(x))


def _scaled(x: Tensor, rate: Any) -> Tensor:
    """Returns ``x / (1 - rate)``; a Python number's factor is rounded to x's dtype last, as in TensorFlow."""
    if isinstance(rate, float):
        return bind.multiply(x, number(1 / (1 - rate), x))  # type: ignore[no-any-return]
    return bind.divide(x, bind.subtract(number(1, x), rate))  # type: ignore[no-any-return]


def _checked_rate(rate: Any, x: Tensor) -> Any:
    """Checks a dropout rate, and returns it as a float or a tensor.

    A number must be in [0, 1). A tensor must have the dtype of ``x``.
    """
    if isinstance(rate, Tensor) or hasattr(rate, "_as_tensor"):
        rate = convert_to_tensor(rate)
        if rate.dtype is not x.dtype:
            raise ValueError(
                f"`x.dtype` must be compatible with `rate.dtype`. Received: x.dtype={x.dtype!r} and "
                f"rate.dtype={rate.dtype!r}"
            )
        return rate
    if not isinstance(rate, (int, float)) or not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    return float(rate)


def _scalar(value: Any, like: Tensor) -> Tensor:
    if not isinstance(value, Tensor):
        return number(value, like)
    return value if value.dtype is like.dtype else table["cast"](value, like.dtype)


def _noise_shape(noise_shape: Any, x: Tensor) -> tuple[Dim, ...]:
    """Returns the shape of dropout's random mask: the shape of ``x``, or the argument ``noise_shape``.

    A None in ``noise_shape`` is replaced by the dim of ``x``.
    """
    shape = x._type.shape
    if noise_shape is None:
        return tuple(shape)
    dims = noise_shape
    if hasattr(noise_shape, "as_list"):  # a TensorShape
        dims = noise_shape.as_list()
    if isinstance(dims, (list, tuple)) and len(dims) == len(shape):
        dims = [x_dim if dim is None else dim for dim, x_dim in zip(dims, shape)]
    return static_dims(dims, "noise_shape")
