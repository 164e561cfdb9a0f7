"""Gamma, Poisson, binomial and truncated normal random numbers, TensorFlow's own for the same seed but for rounding.

Each number is drawn by rejection from a stream of its own, which begins 256 blocks after the one before.

Source: tensorflow/core/kernels/random_op.cc (gamma), random_poisson_op.cc
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tvtf.dtypes import FLOATING, DType, as_dtype, float16, float32, float64, int32, int64
from tvtf.ops import philox
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import attributes, one_of, told
from tvtf.ops.random import RESERVED_BLOCKS, check_seed, normals, unit64
from tvtf.ops.rules import bind, broadcast_types, drawn_dims, number, require_dtype, unbroadcast
from tvtf.primitive import export
from tvtf.refusal import Refused
from tvtf.shape import Dim, TensorType, brackets, broadcast_shapes, same_shape
from tvtf.tensor import Tensor, convert_to_tensor

Values = Callable[[np.ndarray], np.ndarray]


class _Streams:
    """A stream of double precision numbers for each result: uniform and normal ones, two of a block at a time."""

    def __init__(self, seed: np.ndarray, count: int) -> None:
        self.state = philox.state_of(seed)
        self.next = np.arange(count, dtype=np.uint64) * np.uint64(RESERVED_BLOCKS)
        self.kept = {kind: (np.zeros((count, 2)), np.zeros(count, np.int64)) for kind in ("uniform", "normal")}

    def draw(self, kind: str, who: np.ndarray) -> np.ndarray:
        """The next number of that kind of each of the streams ``who``; the last of a block comes first."""
        numbers, left = self.kept[kind]
        empty = who[left[who] == 0]
        if empty.size:
            words = philox.blocks_at(self.state, self.next[empty])
            self.next[empty] += np.uint64(1)
            wide = words.astype(np.uint64)
            pairs = np.stack([unit64(wide[:, 0], wide[:, 1]), unit64(wide[:, 2], wide[:, 3])], axis=-1)
            numbers[empty] = pairs if kind == "uniform" else normals(words, float64).reshape(-1, 2)
            left[empty] = 2
        left[who] -= 1
        return numbers[who, left[who]]


def _until_accepted(count: int, attempt: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """A number for each stream: ``attempt(streams)`` gives one for each and whether it is taken; NaN always is."""
    results, pending = np.zeros(count), np.arange(count)
    while pending.size:
        values, taken = attempt(pending)
        taken = taken | np.isnan(values)
        results[pending[taken]] = values[taken]
        pending = pending[~taken]
    return results


# -- gamma


def _gamma_of(seed: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """One number for each alpha. Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000"""
    streams = _Streams(seed, alpha.size)
    small = alpha < 1
    d = alpha + np.where(small, 2 / 3, -1 / 3)
    c = 1 / 3 / np.sqrt(d)

    def attempt(who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = streams.draw("normal", who)
        v = 1 + c[who] * x
        tried = v > 0
        inside, cubes, taken = who[tried], v[tried] ** 3, np.zeros(who.size, bool)
        u, squares = streams.draw("uniform", inside), x[tried] ** 2
        bound = 0.5 * squares + d[inside] * (1 - cubes + np.log(cubes))
        taken[tried] = (u < 1 - 0.0331 * squares * squares) | (np.log(u) < bound)
        return d[who] * v**3, taken

    exponential = np.flatnonzero(alpha == 1)
    others = np.flatnonzero(alpha != 1)
    results = np.zeros(alpha.size)
    results[exponential] = -np.log1p(-streams.draw("uniform", exponential))
    results[others] = _until_accepted(others.size, lambda who: attempt(others[who]))
    less = np.flatnonzero(small)
    results[less] *= streams.draw("uniform", less) ** (1 / alpha[less])
    return results


def _trailing_type(domain: tuple[DType, ...]) -> Callable[..., TensorType]:
    """The type rule of numbers whose parameter has the last dims of the result's shape."""

    def rule(seed: TensorType, parameter: TensorType, *, shape: tuple[Dim, ...], dtype: DType) -> TensorType:
        check_seed(seed)
        require_dtype(parameter, domain, "parameter")
        tail = shape[len(shape) - len(parameter.shape) :]
        if len(parameter.shape) > len(shape) or not same_shape(broadcast_shapes(tail, parameter.shape) or (), tail):
            raise Refused(
                "Shape passed in must end with broadcasted shape.",
                ValueError,
                f"Shape passed in must end with broadcasted shape: {brackets(shape)} and {brackets(parameter.shape)}",
            )
        return TensorType(shape, dtype)

    return rule


def _in_order(values: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """TensorFlow draws all numbers of one parameter, then those of the next."""

    def run(seed: np.ndarray, parameter: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        tail = shape[len(shape) - parameter.ndim :] if parameter.ndim else ()
        each = np.broadcast_to(parameter.astype(np.float64), tail).reshape(-1)
        times = prod(shape[: len(shape) - len(tail)])
        drawn = values(seed, np.repeat(each, times)).reshape(each.size, times)
        return np.ascontiguousarray(drawn.T).reshape(shape).astype(dtype.np)

    return run


def _gamma_vjp(ct: Tensor, y: Tensor, seed: Tensor, alpha: Tensor, **_: Any) -> tuple[None, Tensor]:
    """What the distribution function's being constant tells. Source: https://arxiv.org/abs/1805.08498"""
    density = bind.exp(
        bind.subtract(
            bind.subtract(bind.multiply(bind.subtract(alpha, number(1, alpha)), bind.log(y)), y), bind.lgamma(alpha)
        )
    )
    whole = bind.broadcast_to(alpha, shape=y._type.shape)
    slope = bind.negative(bind.divide(bind.igamma_grad_a(whole, y), density))
    return None, unbroadcast(bind.multiply(ct, slope), alpha)


@host_primitive(
    type=_trailing_type((float16, float32, float64)),
    numpy=_in_order(_gamma_of),
    vjp=_gamma_vjp,
    tf_name="StatelessRandomGammaV3",
)
def stateless_random_gamma(seed: Tensor, alpha: Tensor, shape: Any, dtype: Any) -> Any:
    """Gamma random numbers of rate one; ``alpha`` has the last dims of ``shape``."""
    return (seed, alpha), {"shape": shape, "dtype": dtype}


def scaled_gamma(state: Tensor, shape: tuple[Dim, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    drawn = bind.stateless_random_gamma(state, alpha, shape=shape, dtype=alpha.dtype)
    tiny = number(np.finfo(alpha.dtype.np).tiny, alpha)
    return bind.maximum(tiny, bind.divide(drawn, beta))


def gamma_parameters(alpha: Any, beta: Any, dtype: Any) -> tuple[Tensor, Tensor]:
    """``alpha`` as large as both broadcast, and ``beta``."""
    kind = as_dtype(dtype)
    a, b = convert_to_tensor(alpha, kind), convert_to_tensor(1 if beta is None else beta, kind)
    return bind.broadcast_to(a, shape=broadcast_types(a._type, b._type)), b


@export("random.stateless_gamma")
def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Gamma random numbers as a function of the seed, TensorFlow's own but for rounding.

    Args:
      shape: the result's shape, which ends with that of ``alpha`` and ``beta`` broadcast.
      seed: int32 or int64 of shape (2,).
      alpha: the distribution's shape; gradients go to it.
      beta: the distribution's rate; 1 where not given.
      dtype: float16, float32 or float64.

    Returns:
      A tensor of ``shape`` and ``dtype``.

    Raises:
      InvalidArgumentError: ``shape`` does not end with that of the parameters.

    >>> import tvtf as tf
    >>> tf.random.stateless_gamma([3], seed=[1, 2], alpha=0.5).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_gamma
    """
    a, b = gamma_parameters(alpha, beta, dtype)
    return scaled_gamma(convert_to_tensor(seed), drawn_dims(shape), a, b)


# -- Poisson


def _poisson_of(seed: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Knuth's products for small rates. Source: Hörmann, The transformed rejection method for Poisson variables, 1993"""
    streams = _Streams(seed, rate.size)
    results = np.full(rate.size, np.nan)
    few, many = np.flatnonzero(rate < 10), np.flatnonzero((rate >= 10) & np.isfinite(rate))
    results[np.isposinf(rate)] = np.inf
    products, counts = np.ones(rate.size), np.zeros(rate.size)

    def count_one(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        products[chosen] *= streams.draw("uniform", chosen)
        taken = products[chosen] <= np.exp(-rate[chosen])
        counts[chosen[~taken]] += 1
        return counts[chosen], taken

    results[few] = _until_accepted(few.size, lambda who: count_one(few[who]))
    results[many] = _until_accepted(many.size, lambda who: _transformed(streams, many[who], rate[many[who]]))
    return results


def _transformed(streams: _Streams, who: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import gammaln

    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    u, v = streams.draw("uniform", who) - 0.5, streams.draw("uniform", who)
    edge = 0.5 - np.abs(u)
    k = np.floor((2 * a / edge + b) * u + rate + 0.43)
    quick = (edge >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    outside = (k < 0) | ((edge < 0.013) & (v > edge))
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    below = np.log(v * inverse / (a / (edge * edge) + b)) <= -rate + k * np.log(rate) - gammaln(k + 1)
    return k, quick | (~outside & below)


@host_primitive(
    type=_trailing_type((float16, float32, float64, int32, int64)),
    numpy=_in_order(_poisson_of),
    vjp=lambda ct, y, seed, rate, **_: (None, None),
    tf_name="StatelessRandomPoisson",
)
def stateless_random_poisson(seed: Tensor, rate: Tensor, shape: Any, dtype: Any) -> Any:
    """Poisson random numbers; ``rate`` has the last dims of ``shape``."""
    return (seed, rate), {"shape": shape, "dtype": dtype}


@export("random.stateless_poisson")
@attributes(dtype=one_of(float16, float32, float64, int32, int64))
def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: str | None = None) -> Tensor:
    """Poisson random numbers as a function of the seed, TensorFlow's own.

    Args:
      shape: the result's shape, which ends with that of ``lam``.
      seed: int32 or int64 of shape (2,).
      lam: the rate, numeric.
      dtype: float16, float32, float64, int32 or int64.

    Raises:
      InvalidArgumentError: ``shape`` does not end with that of ``lam``.

    >>> import tvtf as tf
    >>> tf.random.stateless_poisson([3], seed=[1, 2], lam=5.).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_poisson
    """
    return bind.stateless_random_poisson(
        convert_to_tensor(seed), convert_to_tensor(lam), shape=drawn_dims(shape), dtype=as_dtype(dtype)
    )


# -- binomial and truncated normal: by inversion, so the numbers are not TensorFlow's


def _inverse_type(seed: TensorType, *parameters: TensorType, shape: tuple[Dim, ...], dtype: DType) -> TensorType:
    check_seed(seed)
    for parameter in parameters:
        require_dtype(parameter, FLOATING, "parameter")
        if not same_shape(broadcast_shapes(shape, parameter.shape) or (), shape):
            raise Refused(
                f"the shape {brackets(shape)} does not fit a parameter of shape {brackets(parameter.shape)}", ValueError
            )
    return TensorType(shape, dtype)


def _uniforms(seed: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return unit64(*philox.double_words(seed, prod(shape))).reshape(shape)


EXACT_COUNTS = 2.0**31


def _binomial_array(seed: np.ndarray, counts: np.ndarray, probs: np.ndarray, *, shape: Any, dtype: DType) -> np.ndarray:
    from scipy.stats import binom, norm

    n, p, u = counts.astype(np.float64), probs.astype(np.float64), _uniforms(seed, shape)
    found = binom.ppf(u, np.minimum(n, EXACT_COUNTS), p)
    if (n > EXACT_COUNTS).any():  # where the search for the quantile does not end
        found = np.where(n > EXACT_COUNTS, n * p + np.sqrt(n * p * (1 - p)) * norm.ppf(u), found)
    return np.maximum(found, 0).astype(dtype.np)


@host_primitive(
    type=_inverse_type,
    numpy=_binomial_array,
    vjp=lambda ct, y, *inputs, **_: (None,) * len(inputs),
    tf_name="StatelessRandomBinomial",
)
def stateless_random_binomial(seed: Tensor, counts: Tensor, probs: Tensor, shape: Any, dtype: Any) -> Any:
    """Binomial random numbers by inversion."""
    return (seed, counts, probs), {"shape": shape, "dtype": dtype}


@export("random.stateless_binomial")
@attributes(output_dtype=told("dtype", one_of(float16, float32, float64, int32, int64)))
def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Binomial random numbers as a function of the seed; not the same ones as TensorFlow's.

    Args:
      shape: the result's shape, with which the parameters broadcast.
      seed: int32 or int64 of shape (2,).
      counts: how often is tried.
      probs: how likely each success is.
      output_dtype: of the result.

    >>> import tvtf as tf
    >>> tf.random.stateless_binomial([3], seed=[1, 2], counts=10., probs=0.5).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_binomial
    """
    chance = convert_to_tensor(probs, dtype_hint=float32)
    tries = cast(convert_to_tensor(counts), chance.dtype)
    return bind.stateless_random_binomial(
        convert_to_tensor(seed), tries, chance, shape=drawn_dims(shape), dtype=as_dtype(output_dtype)
    )


def _between_array(
    seed: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    shape: Any,
    dtype: DType,
) -> np.ndarray:
    from scipy.special import ndtr, ndtri

    below, above = ((limit.astype(np.float64) - mean) / deviation for limit in (low, high))
    drawn = ndtri(ndtr(below) + _uniforms(seed, shape) * (ndtr(above) - ndtr(below)))
    return np.clip(mean + deviation * drawn, low, high).astype(dtype.np)


@host_primitive(
    type=_inverse_type,
    numpy=_between_array,
    vjp=lambda ct, y, *inputs, **_: (None,) * len(inputs),
    tf_name="StatelessParameterizedTruncatedNormal",
)
def stateless_random_between(
    seed: Tensor, means: Tensor, stddevs: Tensor, minvals: Tensor, maxvals: Tensor, shape: Any, dtype: Any
) -> Any:
    """Normal random numbers between limits, by inversion."""
    return (seed, means, stddevs, minvals, maxvals), {"shape": shape, "dtype": dtype}


@export("random.stateless_parameterized_truncated_normal")
def stateless_parameterized_truncated_normal(
    shape: Any,
    seed: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    name: str | None = None,
) -> Tensor:
    """Normal random numbers between limits as a function of the seed; not the same ones as TensorFlow's.

    Args:
      shape: the result's shape, with which the parameters broadcast.
      seed: int32 or int64 of shape (2,).
      means, stddevs: of the normal distribution.
      minvals, maxvals: the limits, on the scale of the result.

    >>> import tvtf as tf
    >>> tf.random.stateless_parameterized_truncated_normal([3], seed=[1, 2]).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_parameterized_truncated_normal
    """
    first = convert_to_tensor(means)
    others = [convert_to_tensor(v, None if isinstance(v, Tensor) else first.dtype) for v in (stddevs, minvals, maxvals)]
    return bind.stateless_random_between(
        convert_to_tensor(seed), first, *others, shape=drawn_dims(shape), dtype=first.dtype
    )
