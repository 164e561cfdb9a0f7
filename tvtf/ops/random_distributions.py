"""Gamma, Poisson, binomial and truncated normal random numbers, TensorFlow's own for the same seed but for rounding.

Each number is drawn by rejection from its own stream, which begins 256 blocks after the one before. Only truncated
normal numbers all come from one stream.

Source: tensorflow/core/kernels/random_op.cc (gamma), random_poisson_op.cc, random_binomial_op.cc,
parameterized_truncated_normal_op.cc
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType, brackets
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, DType, as_dtype, float16, float32, float64, int32, int64
from tvtf.ops import philox
from tvtf.ops.broadcast_dims import broadcast_operands
from tvtf.ops.cast import cast
from tvtf.ops.host import host_primitive
from tvtf.ops.operands import attributes, named, one_of
from tvtf.ops.random import RESERVED_BLOCKS, check_seed, normals, unit, unit64
from tvtf.ops.rules import bind, broadcast_types, drawn_dims, number, require_dtype, unbroadcast

Values = Callable[[np.ndarray], np.ndarray]


class _Streams:
    """Holds a stream of random float64 numbers for each result; a Philox block gives two numbers.

    Stream i begins ``i * stride`` blocks after the generator state of ``seed``.
    """

    def __init__(self, seed: np.ndarray, count: int, stride: int = RESERVED_BLOCKS) -> None:
        self.state = philox.state_of(seed)
        self.next = np.arange(count, dtype=np.uint64) * np.uint64(stride)
        # For each distribution the two numbers of each stream's last block, and how many of them are left.
        self.buffered = {name: (np.zeros((count, 2)), np.zeros(count, np.int64)) for name in ("uniform", "normal")}

    def draw(self, distribution: str, streams: np.ndarray) -> np.ndarray:
        """Returns the next random number of each stream in ``streams``, an array of indices.

        A Philox block has two float64 numbers. TensorFlow takes the last one first.

        Args:
            distribution: "uniform" or "normal".
            streams: the indices of the streams, without duplicates.
        """
        numbers, remaining = self.buffered[distribution]
        empty_streams = streams[remaining[streams] == 0]
        if empty_streams.size:
            words = philox.blocks_at(self.state, self.next[empty_streams])
            self.next[empty_streams] += np.uint64(1)
            if distribution == "uniform":
                numbers[empty_streams] = _units(words, float64)
            else:
                numbers[empty_streams] = normals(words, float64).reshape(-1, 2)
            remaining[empty_streams] = 2
        remaining[streams] -= 1
        return numbers[streams, remaining[streams]]


def _until_accepted(count: int, attempt: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """Draws ``count`` random numbers by rejection sampling, each from its own random stream.

    ``attempt(streams)`` returns a number for each stream, and whether to accept it. NaN is always accepted, because it
    comes from a NaN parameter and every later attempt would give NaN again.
    """
    results = np.zeros(count)
    pending = np.arange(count)  # the streams whose number isn't accepted yet
    while pending.size:
        values, accepted = attempt(pending)
        accepted = accepted | np.isnan(values)
        results[pending[accepted]] = values[accepted]
        pending = pending[~accepted]
    return results


# -- gamma


def _gamma_numbers(seed: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """Draws a gamma number of rate one for each shape parameter ``alpha``.

    An alpha of 1 gives exponential numbers; below 1, a number for alpha + 1 is scaled.

    Source: Marsaglia and Tsang, A simple method for generating gamma variables, 2000
    """
    streams = _Streams(seed, alpha.size)
    is_small = alpha < 1
    d = alpha + np.where(is_small, 2 / 3, -1 / 3)
    c = 1 / 3 / np.sqrt(d)

    def attempt(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proposes a gamma random number for each chosen alpha. Returns the numbers and whether to accept each.

        Variables and constants are those of Marsaglia and Tsang.
        """
        x = streams.draw("normal", chosen)
        v = 1 + c[chosen] * x
        is_positive = v > 0
        candidates = chosen[is_positive]
        cubes = v[is_positive] ** 3
        squares = x[is_positive] ** 2
        u = streams.draw("uniform", candidates)
        is_below_quick_bound = u < 1 - 0.0331 * squares * squares  # accepts most numbers
        is_below_bound = np.log(u) < 0.5 * squares + d[candidates] * (1 - cubes + np.log(cubes))
        accepted = np.zeros(chosen.size, bool)
        accepted[is_positive] = is_below_quick_bound | is_below_bound
        return d[chosen] * v**3, accepted

    exponential_indices = np.flatnonzero(alpha == 1)
    other_indices = np.flatnonzero(alpha != 1)
    results = np.zeros(alpha.size)
    results[exponential_indices] = -np.log1p(-streams.draw("uniform", exponential_indices))
    results[other_indices] = _until_accepted(other_indices.size, lambda chosen: attempt(other_indices[chosen]))
    small_indices = np.flatnonzero(is_small)
    results[small_indices] *= streams.draw("uniform", small_indices) ** (1 / alpha[small_indices])
    return results


def _broadcasts_to(parameter_shape: Sequence[Dim], shape: Sequence[Dim]) -> bool:
    """Returns whether a parameter's shape broadcasts to ``shape``. A symbolic dim is assumed to fit."""
    if len(parameter_shape) > len(shape):
        return False
    for parameter_dim, dim in zip(reversed(parameter_shape), reversed(shape)):  # broadcasting aligns the last axes
        both_static = isinstance(parameter_dim, int) and isinstance(dim, int)
        if both_static and parameter_dim not in (1, dim):
            return False
    return True


def _trailing_type(domain: tuple[DType, ...]) -> Callable[..., TensorType]:
    """Returns the type rule of a random op with one parameter, whose dtype must be in ``domain``.

    The parameter's shape must broadcast to the last dims of the result.
    """

    def rule(seed: TensorType, parameter: TensorType, *, shape: tuple[Dim, ...], dtype: DType) -> TensorType:
        """Checks the seed and the parameter, and returns the type of the random numbers."""
        check_seed(seed)
        require_dtype(parameter, domain, "parameter")
        if not _broadcasts_to(parameter.shape, shape):
            raise ArgumentError(
                "Shape passed in must end with broadcasted shape.",
                ValueError,
                f"Shape passed in must end with broadcasted shape: {brackets(shape)} and {brackets(parameter.shape)}",
            )
        return TensorType(shape, dtype)

    return rule


def _ordered_by_parameter(values: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    """Returns a NumPy kernel that draws all numbers of one parameter before those of the next, as TensorFlow does.

    ``values(seed, parameters)`` draws one number for each parameter.
    """

    def run(seed: np.ndarray, parameter: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Draws random numbers of the given ``shape``, to whose last axes the parameters are broadcast."""
        leading_rank = len(shape) - parameter.ndim
        repeat_count = prod(shape[:leading_rank])  # the numbers drawn for each parameter
        parameters = np.broadcast_to(parameter.astype(np.float64), shape[leading_rank:]).reshape(-1)
        drawn = values(seed, np.repeat(parameters, repeat_count))
        return _arranged(drawn.reshape(parameters.size, repeat_count), shape, dtype)

    return run


def _gamma_vjp(cotangent: Tensor, y: Tensor, seed: Tensor, alpha: Tensor, **_: Any) -> tuple[None, Tensor]:
    """Returns the cotangents of a gamma sampler's seed, which has none, and of its parameter ``alpha``.

    Implicit differentiation: the distribution function F(alpha, y) is constant at the sample ``y``, so the derivative
    of y with respect to alpha is -(dF/dalpha) / (dF/dy). dF/dy is the density.

    Source: https://arxiv.org/abs/1805.08498
    """
    # The density is y^(alpha - 1) exp(-y) / gamma(alpha).
    log_power = bind.multiply(bind.subtract(alpha, number(1, alpha)), bind.log(y))
    log_density = bind.subtract(bind.subtract(log_power, y), bind.lgamma(alpha))
    density = bind.exp(log_density)
    alpha_of_samples = bind.broadcast_to(alpha, shape=y._type.shape)
    cdf_derivative = bind.igamma_grad_a(alpha_of_samples, y)
    sample_derivative = bind.negative(bind.divide(cdf_derivative, density))
    return None, unbroadcast(bind.multiply(cotangent, sample_derivative), alpha)


@host_primitive(
    type=_trailing_type((float16, float32, float64)),
    numpy=_ordered_by_parameter(_gamma_numbers),
    vjp=_gamma_vjp,
    tf_name="StatelessRandomGammaV3",
)
def stateless_random_gamma(seed: Tensor, alpha: Tensor, shape: Any, dtype: Any) -> Any:
    """Draws gamma random numbers of rate one; ``alpha`` has the last dims of ``shape``."""
    return (seed, alpha), {"shape": shape, "dtype": dtype}


def scaled_gamma(state: Tensor, shape: tuple[Dim, ...], alpha: Tensor, beta: Tensor) -> Tensor:
    """Draws gamma numbers of shape ``alpha`` and rate ``beta``, at least the dtype's smallest normal number."""
    drawn = bind.stateless_random_gamma(state, alpha, shape=shape, dtype=alpha.dtype)
    tiny = number(np.finfo(alpha.dtype.np).tiny, alpha)
    return bind.maximum(tiny, bind.divide(drawn, beta))


def gamma_parameters(alpha: Any, beta: Any, dtype: Any) -> tuple[Tensor, Tensor]:
    """Returns ``alpha`` broadcast to the shape of both parameters, and ``beta``, which is 1 by default."""
    as_type = as_dtype(dtype)
    alpha_tensor = convert_to_tensor(alpha, as_type)
    beta_tensor = convert_to_tensor(1 if beta is None else beta, as_type)
    types = [x._type for x in broadcast_operands([alpha_tensor, beta_tensor])]
    return bind.broadcast_to(alpha_tensor, shape=broadcast_types(*types)), beta_tensor


@export("random.stateless_gamma")
def stateless_gamma(
    shape: Any, seed: Any, alpha: Any, beta: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Returns gamma random numbers as a function of the seed, TensorFlow's own but for rounding.

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


def _poisson_numbers(seed: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """Draws a Poisson random number for each rate.

    Rates below 10 use Knuth's products of uniform numbers, larger rates use rejection sampling.

    Source: Hörmann, The transformed rejection method for Poisson variables, 1993
    """
    streams = _Streams(seed, rate.size)
    results = np.full(rate.size, np.nan)
    small_indices = np.flatnonzero(rate < 10)
    large_indices = np.flatnonzero((rate >= 10) & np.isfinite(rate))
    results[np.isposinf(rate)] = np.inf
    products = np.ones(rate.size)
    counts = np.zeros(rate.size)

    def count_one(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Multiplies each chosen product by a uniform number, and returns the counts and whether each is final."""
        # The count is final when the product falls to exp(-rate).
        products[chosen] *= streams.draw("uniform", chosen)
        accepted = products[chosen] <= np.exp(-rate[chosen])
        counts[chosen[~accepted]] += 1
        return counts[chosen], accepted

    results[small_indices] = _until_accepted(small_indices.size, lambda chosen: count_one(small_indices[chosen]))
    results[large_indices] = _until_accepted(
        large_indices.size,
        lambda chosen: _transformed_rejection(streams, large_indices[chosen], rate[large_indices[chosen]]),
    )
    return results


def _transformed_rejection(streams: _Streams, chosen: np.ndarray, rate: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Proposes a Poisson number for each rate by Hörmann's algorithm PTRS.

    Returns the numbers and whether to accept each. ``chosen`` are the indices of the random streams to draw from.
    Variables and constants are those of the algorithm.
    """
    from scipy.special import gammaln

    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    u = streams.draw("uniform", chosen) - 0.5
    v = streams.draw("uniform", chosen)
    distance = 0.5 - np.abs(u)
    k = np.floor((2 * a / distance + b) * u + rate + 0.43)
    # These two tests decide most numbers without a logarithm.
    accepted_at_once = (distance >= 0.07) & (v <= 0.9277 - 3.6224 / (b - 2))
    rejected_at_once = (k < 0) | ((distance < 0.013) & (v > distance))
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    log_height = np.log(v * inverse_alpha / (a / (distance * distance) + b))
    log_probability = -rate + k * np.log(rate) - gammaln(k + 1)
    return k, accepted_at_once | (~rejected_at_once & (log_height <= log_probability))


@host_primitive(
    type=_trailing_type((float16, float32, float64, int32, int64)),
    numpy=_ordered_by_parameter(_poisson_numbers),
    vjp=lambda cotangent, y, seed, rate, **_: (None, None),
)
def stateless_random_poisson(seed: Tensor, rate: Tensor, shape: Any, dtype: Any) -> Any:
    """Draws Poisson random numbers; ``rate`` has the last dims of ``shape``."""
    return (seed, rate), {"shape": shape, "dtype": dtype}


@export("random.stateless_poisson")
@attributes(dtype=one_of(float16, float32, float64, int32, int64))
def stateless_poisson(shape: Any, seed: Any, lam: Any, dtype: Any = int32, name: str | None = None) -> Tensor:
    """Returns Poisson random numbers as a function of the seed, the same as TensorFlow.

    Args:
      shape: the result's shape, which ends with the shape of ``lam``.
      seed: int32 or int64 of shape (2,).
      lam: the rate, numeric.
      dtype: float16, float32, float64, int32 or int64.

    Raises:
      InvalidArgumentError: ``shape`` does not end with the shape of ``lam``.

    >>> import tvtf as tf
    >>> tf.random.stateless_poisson([3], seed=[1, 2], lam=5.).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_poisson
    """
    return bind.stateless_random_poisson(
        convert_to_tensor(seed), convert_to_tensor(lam), shape=drawn_dims(shape), dtype=as_dtype(dtype)
    )


# -- binomial


def _broadcast_type(seed: TensorType, *parameters: TensorType, shape: tuple[Dim, ...], dtype: DType) -> TensorType:
    """Checks the seed and the parameters of a random op, and returns the type of the result.

    The parameters must be floating and broadcast to the result's ``shape``.
    """
    check_seed(seed)
    for parameter in parameters:
        require_dtype(parameter, FLOATING, "parameter")
        if not _broadcasts_to(parameter.shape, shape):
            raise ArgumentError(
                f"the shape {brackets(shape)} does not fit a parameter of shape {brackets(parameter.shape)}", ValueError
            )
    return TensorType(shape, dtype)


def _parameter_combinations(shape: tuple[int, ...], parameters: Sequence[np.ndarray]) -> tuple[list[np.ndarray], int]:
    """Broadcasts a distribution's parameters to vectors with one element for each combination of their values.

    Also returns the number of random numbers of each combination in a result of the given ``shape``.
    """
    parameter_rank = max(parameter.ndim for parameter in parameters)
    leading_rank = len(shape) - parameter_rank
    vectors = [np.broadcast_to(parameter, shape[leading_rank:]).reshape(-1) for parameter in parameters]
    return vectors, prod(shape[:leading_rank])


def _arranged(drawn: np.ndarray, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Arranges numbers of shape (combinations, times) in ``shape``, whose last dims are the combinations."""
    return np.ascontiguousarray(drawn.T).reshape(shape).astype(dtype.np)


INVERTED_BLOCKS = 42
"""Distance in Philox blocks of the streams for inversion, as TensorFlow's kernel reserves them."""
FEW = 10
"""Expected successes below which TensorFlow draws binomial numbers by inversion."""


def _by_inversion(streams: _Streams, streams_used: np.ndarray, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Draws binomial random numbers by inversion.

    Distances between successes are geometric random numbers. The result is how many distances fit into ``n`` trials.

    Args:
        streams: the random streams.
        streams_used: the index of the stream to draw from, for each result.
        n: the number of trials of each result.
        p: the probability of success in each trial.
    """
    last_success = np.zeros(streams_used.size)  # the number of the trial
    successes = np.zeros(streams_used.size)
    pending = np.arange(streams_used.size)
    while pending.size:
        uniform = streams.draw("uniform", streams_used[pending])
        distance = np.ceil(np.log(uniform) / np.log1p(-p[pending]))
        last_success[pending] += distance
        pending = pending[last_success[pending] <= n[pending]]
        successes[pending] += 1
    return successes


def _stirling_tail(k: np.ndarray) -> np.ndarray:
    """Returns the difference of ``log(k!)`` and Stirling's formula, by its series."""
    squares = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / squares) / squares) / (k + 1)


def _by_rejection(streams: _Streams, chosen: np.ndarray, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Draws binomial numbers for ``n`` trials of probability ``p``, by rejection.

    ``chosen`` are the indices of the streams to draw from. Variables and constants are those of the algorithm BTRS.

    Source: Hormann, The generation of binomial random variates, 1993
    """
    deviation = np.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    quick_bound = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = np.floor((n + 1) * p)

    def attempt(indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proposes a binomial random number for each of ``indices``. Returns the numbers and whether to accept each.

        Variables and constants are those of Hormann's algorithm BTRS.
        """
        u = streams.draw("uniform", chosen[indices]) - 0.5
        v = streams.draw("uniform", chosen[indices])
        distance = 0.5 - np.abs(u)
        k = np.floor((2 * a[indices] / distance + b[indices]) * u + n[indices] * p[indices] + 0.5)
        accepts_at_once = (distance >= 0.07) & (v <= quick_bound[indices])  # most numbers
        trials, peak, r = n[indices], mode[indices], odds[indices]
        is_possible = (k >= 0) & (k <= trials)
        bound = (
            (peak + 0.5) * np.log((peak + 1) / (r * (trials - peak + 1)))
            + (trials + 1) * np.log((trials - peak + 1) / (trials - k + 1))
            + (k + 0.5) * np.log(r * (trials - k + 1) / (k + 1))
            + _stirling_tail(peak) + _stirling_tail(trials - peak) - _stirling_tail(k) - _stirling_tail(trials - k)
        )  # fmt: skip
        log_height = np.log(v * alpha[indices] / (a[indices] / distance**2 + b[indices]))
        return k, accepts_at_once | (is_possible & (log_height <= bound))

    return _until_accepted(chosen.size, attempt)


def _binomial_array(seed: np.ndarray, counts: np.ndarray, probs: np.ndarray, *, shape: Any, dtype: DType) -> np.ndarray:
    """Draws binomial random numbers: counts the rarer of success and failure.

    If few of these are expected, the numbers are drawn by inversion, else by rejection. Without trials, or with a
    probability of 0 or 1, the result is certain. A NaN parameter gives NaN.
    """
    vectors, times = _parameter_combinations(shape, (counts, probs))
    n, p = (np.repeat(x, times) for x in vectors)
    rarer_probability = np.where(p > 0.5, 1 - p, p)
    is_random = (n > 0) & (rarer_probability > 0) & (p < 1)
    # A NaN parameter fails all comparisons.
    n_or_nan = np.where(p >= 1, n, np.nan)
    certain_result = np.where((n <= 0) | (p <= 0), 0.0, n_or_nan)
    result = certain_result.astype(np.float64)
    expected_count = n * rarer_probability
    for mask, stride, draw_rarer in (
        (is_random & (expected_count < FEW), INVERTED_BLOCKS, _by_inversion),
        (is_random & (expected_count >= FEW), RESERVED_BLOCKS, _by_rejection),
    ):
        chosen = np.flatnonzero(mask)
        streams = _Streams(seed, n.size, stride)
        trials = n[chosen].astype(np.float64)
        probability = rarer_probability[chosen].astype(np.float64)
        rarer_count = draw_rarer(streams, chosen, trials, probability)
        result[chosen] = np.where(p[chosen] > 0.5, n[chosen] - rarer_count, rarer_count)
    return _arranged(result.reshape(-1, times), shape, dtype)


@host_primitive(
    type=_broadcast_type,
    numpy=_binomial_array,
    vjp=lambda cotangent, y, *inputs, **_: (None,) * len(inputs),
)
def stateless_random_binomial(seed: Tensor, counts: Tensor, probs: Tensor, shape: Any, dtype: Any) -> Any:
    """Draws binomial random numbers."""
    return (seed, counts, probs), {"shape": shape, "dtype": dtype}


@export("random.stateless_binomial")
@attributes(output_dtype=named("dtype", one_of(float16, float32, float64, int32, int64)))
def stateless_binomial(
    shape: Any, seed: Any, counts: Any, probs: Any, output_dtype: Any = int32, name: str | None = None
) -> Tensor:
    """Returns binomial random numbers as a function of the seed.

    Args:
      shape: the result's shape, with which the parameters broadcast.
      seed: int32 or int64 of shape (2,).
      counts: the numbers of trials.
      probs: the probability of a success in each trial.
      output_dtype: the dtype of the result.

    >>> import tvtf as tf
    >>> tf.random.stateless_binomial([3], seed=[1, 2], counts=10., probs=0.5).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_binomial
    """
    probability = convert_to_tensor(probs, dtype_hint=float32)
    tries = cast(convert_to_tensor(counts), probability.dtype)
    return bind.stateless_random_binomial(
        convert_to_tensor(seed), tries, probability, shape=drawn_dims(shape), dtype=as_dtype(output_dtype)
    )


# -- truncated normal numbers

WIDE = 1.3
"""Deviations from the mean beyond which a limit makes TensorFlow try normal numbers.

Nearer limits make it try uniform or exponential numbers.
"""


class _Limits:
    """Holds the limits of one truncated normal distribution, in standard deviations from the mean.

    They are mirrored so that ``low`` is nearer the mean; the negative ``deviation`` mirrors results back.
    """

    def __init__(self, mean: Any, deviation: Any, low: Any, high: Any) -> None:
        """Checks the parameters and standardises the limits ``low`` and ``high``.

        Limits below the mean are mirrored at it, which makes the deviation negative.
        """
        if not (0 < deviation < np.inf and low < high and np.isfinite([low, high]).any()):
            raise ArgumentValueError("Invalid parameters")
        is_mirrored = (np.isinf(low) and low < 0) or high < mean
        if is_mirrored:
            low, high, deviation = high, low, -deviation
        self.mean = mean
        self.deviation = deviation
        self.low = (low - mean) / deviation
        self.high = (high - mean) / deviation

    def drawn(self, words: np.ndarray, dtype: DType) -> tuple[np.ndarray, np.ndarray, int]:
        """Proposes truncated normal random numbers from the words of Philox blocks.

        Returns the numbers, whether to accept each, and the number of Philox blocks that a row of numbers uses. The
        limits decide which distribution the numbers are drawn from.
        """
        low, high = self.low, self.high
        # The mean lies between far limits: most normal numbers are accepted.
        if (low < -WIDE and high >= 0) or (high > WIDE and low <= 0):
            numbers = normals(words, dtype).reshape(len(words), -1).astype(dtype.np)
            return numbers, (numbers >= low) & (numbers <= high), 1
        root = np.sqrt(low * low + 4)
        units = _units(words, dtype)
        largest_uniform_span = 2 * np.exp(0.5 + low * (low - root) / 4) / (low + root)
        if high - low < largest_uniform_span:
            # Uniform numbers between near limits; every second block decides about the one before.
            numbers = units[::2] * (high - low) + low
            nearest_square = 0 if low < 0 else low * low
            density = np.exp((nearest_square - numbers * numbers) / 2)
            return numbers, units[1::2] <= density, 2
        # Exponential numbers beyond ``low``, for limits in the distribution's tail.
        alpha = (low + root) / 2
        numbers = -np.log(units[:, ::2]) / alpha + low
        distance = alpha - numbers if low < alpha else np.full_like(numbers, low - alpha)
        density = np.exp(-distance * distance / 2)
        return numbers, (units[:, 1::2] <= density) & (numbers < high), 1


def _units(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns the uniform numbers in [0, 1) of Philox blocks: two of float64 for each, four of other dtypes."""
    if dtype is not float64:
        return unit(words, dtype)
    wide = words.astype(np.uint64)
    return np.stack([unit64(wide[:, 0], wide[:, 1]), unit64(wide[:, 2], wide[:, 3])], axis=-1)


def _truncated_normals(state: np.ndarray, limits: _Limits, count: int, dtype: DType) -> tuple[np.ndarray, np.ndarray]:
    """Draws ``count`` truncated normal numbers by rejection sampling.

    Also returns the state of the random generator after the last block used.
    """
    accepted_chunks = [np.zeros(0, dtype.np)]
    missing = count
    while missing:
        block_count = 2 * missing + 16  # more than needed, as some numbers are rejected; even, as pairs may be drawn
        numbers, accepted, blocks_per_row = limits.drawn(philox.blocks(state, block_count), dtype)
        indices = np.flatnonzero(accepted)[:missing]
        missing -= len(indices)
        accepted_chunks.append(numbers.reshape(-1)[indices])
        last_row = int(indices[-1]) // numbers.shape[1] if not missing else len(numbers) - 1
        state = philox.skipped(state, (last_row + 1) * blocks_per_row)
    return np.concatenate(accepted_chunks) * limits.deviation + limits.mean, state


def _truncated_normal_array(
    seed: np.ndarray,
    mean: np.ndarray,
    deviation: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    shape: Any,
    dtype: DType,
) -> np.ndarray:
    """Draws truncated normal numbers for parameters that broadcast.

    The random stream continues from one combination of parameters to the next.

    Args:
      seed: the seed of the random numbers.
      mean, deviation: the parameters of the normal distribution before it is truncated.
      low, high: the limits between which the numbers lie.
      shape: the shape of the result, which ends with the broadcast shape of the parameters.
      dtype: the dtype of the result.
    """
    vectors, times = _parameter_combinations(shape, (mean, deviation, low, high))
    state = philox.state_of(seed)
    rows = []  # the numbers of each combination
    for parameters in zip(*vectors):
        numbers, state = _truncated_normals(state, _Limits(*parameters), times, dtype)
        rows.append(numbers)
    drawn = np.stack(rows) if rows else np.zeros((0, times))
    return _arranged(drawn, shape, dtype)


@host_primitive(
    type=_broadcast_type,
    numpy=_truncated_normal_array,
    vjp=lambda cotangent, y, *inputs, **_: (None,) * len(inputs),
    tf_name="StatelessParameterizedTruncatedNormal",
)
def stateless_random_between(
    seed: Tensor, means: Tensor, stddevs: Tensor, minvals: Tensor, maxvals: Tensor, shape: Any, dtype: Any
) -> Any:
    """Draws normal random numbers between limits."""
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
    """Returns normal random numbers between limits as a function of the seed.

    Of thousands only the first are TensorFlow's, which divides the others among its threads.

    Args:
      shape: the result's shape, with which the parameters broadcast.
      seed: int32 or int64 of shape (2,).
      means, stddevs: of the normal distribution.
      minvals, maxvals: the limits, on the scale of the result.

    Raises:
      InvalidArgumentError: the lower limit is not below the upper one, or a deviation is not positive.

    >>> import tvtf as tf
    >>> tf.random.stateless_parameterized_truncated_normal([3], seed=[1, 2]).shape
    TensorShape([3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_parameterized_truncated_normal
    """
    first = convert_to_tensor(means)
    others = [
        convert_to_tensor(bound, None if isinstance(bound, Tensor) else first.dtype)
        for bound in (stddevs, minvals, maxvals)
    ]
    return bind.stateless_random_between(
        convert_to_tensor(seed), first, *others, shape=drawn_dims(shape), dtype=first.dtype
    )
