"""Defines ``tf.experimental.numpy.random``: NumPy's legacy random functions, seeded by ``tf.random.set_seed``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.arrays.convert import float_dtype, numpy_like, result_dtype, tf, to_tensor
from tvtf.core.tensor import Tensor


def _random_function(name: str, call: str, summary: str) -> Any:
    """Returns a decorator that exports a random function under NumPy's name, with a docstring that shows ``call``."""
    doc = f"""{summary}

    >>> import tvtf as tf
    >>> tf.experimental.numpy.random.{call}.shape
    TensorShape([2, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/random/{name}
    """

    def declare(function: Any) -> Any:
        function.__doc__ = doc
        return numpy_like(f"random.{name}")(function)

    return declare


def _size_as_shape(size: Any) -> Any:
    """Converts NumPy's argument ``size`` to a shape: None (a scalar), the length of a vector, or a shape."""
    if size is None:
        return ()
    return (size,) if isinstance(size, int) or (tf.is_tensor(size) and size.ndim == 0) else size


@numpy_like("random.seed")
def seed(s: Any) -> None:
    """Sets the seed of all random functions.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.random.seed(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/random/seed
    """
    try:
        s = int(s)
    except TypeError:
        raise ValueError(f"Argument `s` got an invalid value {s}. Only integers are supported.") from None
    tf.random.set_seed(s)


@_random_function("standard_normal", "standard_normal([2, 3])", "Draws from the standard normal distribution.")
def standard_normal(size: Any = None) -> Tensor:
    return tf.random.normal(_size_as_shape(size), dtype=float_dtype())


@_random_function("randn", "randn(2, 3)", "Draws from the standard normal distribution.")
def randn(*args: int) -> Tensor:
    return standard_normal(args)


@_random_function(
    "uniform",
    "uniform(0., 2., [2, 3])",
    "Draws from the uniform distribution between two bounds, including the lower one.",
)
def uniform(low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Tensor:
    dtype = float_dtype()
    low, high = to_tensor(low, dtype), to_tensor(high, dtype)
    shape = tf.broadcast_dynamic_shape(tf.shape(low), tf.shape(high)) if size is None else size
    return tf.random.uniform(shape, low, high, dtype)


@_random_function("random", "random([2, 3])", "Draws from the uniform distribution between 0, included, and 1.")
def random(size: Any = None) -> Tensor:
    return uniform(0.0, 1.0, size)


@_random_function("rand", "rand(2, 3)", "Draws from the uniform distribution between 0, included, and 1.")
def rand(*size: int) -> Tensor:
    return uniform(0.0, 1.0, size)


@_random_function("poisson", "poisson(4., [2, 3])", "Draws from the Poisson distribution with mean ``lam``.")
def poisson(lam: Any = 1.0, size: Any = None) -> Tensor:
    return tf.random.poisson(_size_as_shape(size), lam, dtype=tf.int64)


@_random_function("randint", "randint(1, 7, [2, 3])", "Draws integers between two bounds, including the lower one.")
def randint(low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64) -> Tensor:
    """Returns random integers from ``low`` up to, but without, ``high``; from zero if only one bound is given."""
    lower, upper = (0, int(low)) if high is None else (int(low), high)
    target_dtype = result_dtype(dtype)
    if target_dtype not in (tf.int32, tf.int64):
        accepted = (np.int32, np.int64)
        raise ValueError(
            f"Argument `dtype` got an invalid value {dtype}. Only those convertible to {accepted} are supported."
        )
    return tf.random.uniform(_size_as_shape(size), lower, upper, target_dtype)
