"""Stateful random ops: stateless ones applied to the streams of ``tvtf.rng.rng_streams``."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import export
from tvtf.core.shape import Dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import DType, as_dtype, bfloat16, float16, float32, float64, int32, int64
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.random import (
    RESERVED_BLOCKS,
    sample_count,
    sampled,
    scaled_normal,
    scaled_uniform,
    shuffled,
    uniform_doubles,
)
from tvtf.ops.random_distributions import gamma_parameters, scaled_gamma
from tvtf.ops.rules import bind, drawn_dims
from tvtf.rng.rng_streams import draw_for_elements, reserve_blocks

_UNIFORM_DTYPES = (float16, bfloat16, float32, float64, int32, int64)


def _draw_standard(op: str, seed: int | None, shape: tuple[Dim, ...], dtype: DType, primitive: Any) -> Tensor:
    """Draws random numbers of a standard distribution from the random stream of an op.

    ``primitive`` computes the numbers from a generator state.
    """
    blocks = size_of(shape) * RESERVED_BLOCKS
    return draw_for_elements(
        f"{op}:{dtype.name}", seed, blocks, shape, lambda state, dims: primitive(state, shape=dims, dtype=dtype)
    )


@export("random.uniform")
def uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Returns uniform random numbers in [minval, maxval).

    Args:
      shape: the result's shape; may hold scalars computed from shapes.
      minval: lower bound (inclusive), a tensor that broadcasts with ``shape``; a scalar for integers.
      maxval: upper bound (exclusive); 1 for floats where None.
      dtype: float16, bfloat16, float32, float64, int32 or int64.
      seed: the op's own seed; see :func:`tvtf.random.set_seed`.

    Returns:
      A tensor of ``shape`` and ``dtype``.

    Raises:
      ValueError: ``dtype`` is not supported, or is an integer type while ``maxval`` is None.

    >>> import tvtf as tf
    >>> tf.random.set_seed(5)
    >>> tf.random.uniform([2], seed=1).shape
    TensorShape([2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/uniform
    """
    dtype, dims = as_dtype(dtype), drawn_dims(shape)
    if dtype not in _UNIFORM_DTYPES:
        raise ValueError(f"Argument `dtype` got invalid value {dtype}. Accepted dtypes are {_UNIFORM_DTYPES}.")
    if dtype.is_integer:
        return _uniform_integers(dims, minval, maxval, dtype, seed)
    drawn = _draw_standard("RandomUniform", seed, dims, dtype, bind.stateless_random_uniform)
    return scaled_uniform(drawn, minval, 1 if maxval is None else maxval, dtype)


def _uniform_integers(shape: tuple[Dim, ...], minval: Any, maxval: Any, dtype: DType, seed: int | None) -> Tensor:
    """Returns uniform random integers in [minval, maxval) from the random stream of TensorFlow's op for integers."""
    if maxval is None:
        raise ValueError(f"Must specify maxval for integer dtype {dtype!r}")
    low, high = convert_to_tensor(minval, dtype), convert_to_tensor(maxval, dtype)
    op, blocks = f"RandomUniformInt:{dtype.name}", size_of(shape) * RESERVED_BLOCKS

    def draw(state: Tensor, shape: tuple[Dim, ...]) -> Tensor:
        return bind.stateless_random_integers(state, low, high, shape=shape)  # type: ignore[no-any-return]

    if isinstance(low, EagerTensor) and isinstance(high, EagerTensor):
        return draw_for_elements(op, seed, blocks, shape, draw)
    return draw(reserve_blocks(op, seed, blocks), shape)  # elements of a map may have bounds of their own


@export("random.normal")
def normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Returns normal random numbers.

    Args:
      shape: the result's shape; may hold scalars computed from shapes.
      mean: tensor that broadcasts with ``shape``.
      stddev: tensor that broadcasts with ``shape``.
      dtype: float16, bfloat16, float32 or float64.
      seed: the op's own seed; see :func:`tvtf.random.set_seed`.

    Returns:
      A tensor of ``shape`` and ``dtype``.

    >>> import tvtf as tf
    >>> tf.random.normal([4, 3], seed=1).shape
    TensorShape([4, 3])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/normal
    """
    dtype = as_dtype(dtype)
    drawn = _draw_standard("RandomStandardNormal", seed, drawn_dims(shape), dtype, bind.stateless_random_normal)
    return scaled_normal(drawn, mean, stddev, dtype)


@export("random.truncated_normal")
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Returns normal random numbers within two standard deviations; see :func:`normal`.

    >>> import tvtf as tf
    >>> bool(abs(tf.random.truncated_normal([99], seed=1).numpy()).max() < 2)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/random/truncated_normal
    """
    dtype = as_dtype(dtype)
    drawn = _draw_standard("TruncatedNormal", seed, drawn_dims(shape), dtype, bind.stateless_random_truncated_normal)
    return scaled_normal(drawn, mean, stddev, dtype)


@export("random.shuffle")
def shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """Shuffles the rows of ``value``, along its first axis.

    >>> import tvtf as tf
    >>> sorted(tf.random.shuffle([1, 2, 3]).numpy().tolist())
    [1, 2, 3]

    Source: https://www.tensorflow.org/api_docs/python/tf/random/shuffle
    """
    tensor = convert_to_tensor(value)
    if not tensor.ndim:
        return tensor
    # Each row but the last takes one random word, of which a Philox block has four.
    block_count = (tensor._type.shape[0] + 2) // 4
    state = reserve_blocks(f"RandomShuffle:{tensor.dtype.name}", seed, block_count)
    return shuffled(state, tensor)


@export("random.categorical")
def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Samples classes from the categorical distribution of each row of logits.

    Args:
      logits: float tensor of shape (batch, classes); classes with non-finite logits are never sampled.
      num_samples: the number of samples for each row.
      dtype: int32 or int64; default: int64.
      seed: the op's own seed; see :func:`tvtf.random.set_seed`.

    Returns:
      A tensor of shape (batch, num_samples).

    >>> import tvtf as tf
    >>> tf.random.categorical([[0., 100.]], 3).numpy()
    array([[1, 1, 1]])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/categorical
    """
    tensor = convert_to_tensor(logits)
    count = sample_count(num_samples)
    rows = tensor._type.shape[0] if tensor.ndim else 1
    # TensorFlow reserves two numbers for each sample, and rounds up the samples of a row to a multiple of four.
    reserved = rows * ((count + 3) // 4 * 8)
    op = f"Multinomial:{tensor.dtype.name}:{as_dtype(dtype or int64).name}"
    # Elements of a map with logits of their own have rows of random numbers, those with common logits have columns.
    has_common_logits = isinstance(tensor, EagerTensor)

    def draw(shape: tuple[Dim, ...]) -> Tensor:
        return draw_for_elements(op, seed, reserved * RESERVED_BLOCKS, shape, uniform_doubles, int(has_common_logits))

    return sampled(draw, tensor, count, as_dtype(dtype or int64))


# -- rejection sampling


def _reserve_state(op: str, seed: int | None, shape: tuple[Dim, ...], dtype: DType) -> Tensor:
    """Returns the generator state for ``shape`` random numbers of an op, and advances the op's random stream.

    Each random number uses a fixed number of random blocks, because rejection sampling may need several.
    """
    return reserve_blocks(f"{op}:{dtype.name}", seed, size_of(shape) * RESERVED_BLOCKS)


def _as_shape_argument(shape: Any) -> Any:
    """Returns the argument ``shape`` of a random op, after checking that a tensor is int32, as TensorFlow requires."""
    return convert_to_tensor(shape, int32) if is_tensor(shape) else shape


@export("random.gamma")
def gamma(
    shape: Any, alpha: Any, beta: Any = None, dtype: Any = float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Returns gamma random numbers.

    Args:
      shape: the shape of the numbers for each parameter.
      alpha, beta, dtype: see `tf.random.stateless_gamma`.
      seed: the op's own seed; see `tf.random.set_seed`.

    Returns:
      A tensor of shape ``shape + (alpha + beta).shape``.

    >>> import tvtf as tf
    >>> tf.random.gamma([3], [0.5, 1.5]).shape
    TensorShape([3, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/gamma
    """
    concentration, rate = gamma_parameters(alpha, beta, dtype)
    full_shape = (*drawn_dims(_as_shape_argument(shape)), *concentration._type.shape)
    return scaled_gamma(
        _reserve_state("RandomGamma", seed, full_shape, concentration.dtype), full_shape, concentration, rate
    )


@export("random.poisson")
@attributes(dtype=one_of(float16, float32, float64, int32, int64))
def poisson(shape: Any, lam: Any, dtype: Any = float32, seed: int | None = None, name: str | None = None) -> Tensor:
    """Returns Poisson random numbers, a tensor of shape ``shape + lam.shape``.

    >>> import tvtf as tf
    >>> tf.random.poisson([3], [5., 50.]).shape
    TensorShape([3, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/poisson
    """
    result_dtype = as_dtype(dtype)
    rate = convert_to_tensor(lam)
    full_shape = (*drawn_dims(_as_shape_argument(shape)), *rate._type.shape)
    state = _reserve_state("RandomPoissonV2", seed, full_shape, result_dtype)
    return bind.stateless_random_poisson(state, rate, shape=full_shape, dtype=result_dtype)
