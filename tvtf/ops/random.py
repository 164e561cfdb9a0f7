"""TensorFlow's stateless random ops: functions of a seed that return the same bits as TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_shape, brackets, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, DType, as_dtype, bfloat16, float16, float32, float64, int32, int64, uint32, uint64
from tvtf.ops import philox, random_onnx
from tvtf.ops.elementwise import binary_op, operands
from tvtf.ops.indexing import gather
from tvtf.ops.math import multiply
from tvtf.ops.rules import bind, drawn_dims, kernel, number, size_argument

WORDS = (int32, int64, uint32, uint64)
STATE = (int64, uint64)
MSG_EMPTY_RANGE = "Need minval < maxval, got {} >= {}"
BOX_MULLER_EPSILON = 1.0e-7
TRUNCATED_AT = 2.0
RESERVED_BLOCKS = 256
"""Philox blocks that TensorFlow reserves for four numbers drawn by rejection, and for each number of a stateful op."""
MANTISSA_BITS = {"float16": 10, "bfloat16": 7, "float32": 23}
_NO_ONNX = "takes a loop: ONNX's own random operators have no defined sequence"


def check_seed(seed: TensorType) -> None:
    """Checks that a type is that of a seed of two integers, or of a random generator's state of three."""
    if seed.shape == (3,) and seed.dtype in STATE:
        return
    if seed.dtype not in (int32, int64):
        raise ArgumentError(f"seed must have dtype int32 or int64, but got {seed.dtype.name}", TypeError)
    if not agree_shape(seed.shape, (2,)):
        raise ArgumentError(f"seed must have shape [2], not {show_shape(seed.shape)}: give two integers")


def _type(domain: Sequence[DType]) -> Callable[..., TensorType]:
    """Returns the type rule of a random op. The op's attribute ``dtype`` must be one of ``domain``.

    The first input is the seed. The rule doesn't check the other inputs, which are parameters.
    """

    def rule(seed: TensorType, *_: TensorType, shape: tuple[Dim, ...], dtype: DType) -> TensorType:
        """Returns the type of the drawn tensor, after checking the seed and the dtype."""
        check_seed(seed)
        if dtype not in domain:
            allowed_names = ", ".join(allowed.name for allowed in domain)
            raise ArgumentError(f"dtype must be one of {allowed_names}, but got {dtype.name}")
        return TensorType(shape, dtype)

    return rule


def _seed_sample(*values: int) -> np.ndarray:
    """Returns an int64 seed of two integers, or a generator's state of three, for a sample."""
    return np.array(values, np.int64)


def _samples(domain: Sequence[DType]) -> Callable[[], list[Sample]]:
    """Returns a function that makes the test samples of a random op: four shapes and seeds for each dtype.

    Three of the seeds have two integers. One seed has three, as a generator's state.
    """

    def make() -> list[Sample]:
        """Makes a sample for each dtype and each pair of a shape and a seed."""
        cases = [
            ((7,), _seed_sample(1, 2)),
            ((2, 3), _seed_sample(-1, 5, 9)),
            ((), _seed_sample(0, 0)),
            ((0, 3), _seed_sample(3, 4)),
        ]
        samples = []
        for dtype in domain:
            for shape, seed in cases:
                samples.append(Sample((seed,), {"shape": shape, "dtype": dtype}, (int64,), gradient=False))
        return samples

    return make


def _no_gradient(cotangent: Tensor, y: Tensor, *inputs: Tensor, **_: Any) -> tuple[None, ...]:
    """Returns None as the cotangent of every input: seeds have no gradient."""
    return (None,) * len(inputs)


def _draw_op(tf_name: str, name: str, domain: Sequence[DType], numpy: Callable[..., Any], **columns: Any) -> Any:
    """Declares an op that draws random numbers of a dtype in ``domain``, as a function of a seed.

    Args:
      tf_name: TensorFlow's name of the op.
      name: the name of its kernel in ``tvtf.ops.kernels.random``.
      domain: the dtypes.
      numpy: the function that draws the numbers as an array.
      columns: other rules of the primitive.
    """
    lower = kernel(f"random.{name}")
    samples = _samples(domain)
    return primitive(tf_name=tf_name, type=_type(domain), numpy=numpy, lower=lower, samples=samples, **columns)


# -- bits and uniform numbers


def _bits_numpy(seed: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    return _random_words(seed, prod(shape), dtype.size).astype(dtype.np).reshape(shape)


def _random_words(seed: np.ndarray, count: int, size: int) -> np.ndarray:
    """Returns the first ``count`` unsigned random words of ``size`` bytes (4 or 8) of a seed."""
    if size == 4:
        return philox.words(seed, count)
    first, second = philox.double_words(seed, count)
    return first | second << np.uint64(32)


@_draw_op("StatelessRandomUniformFullIntV2", "bits", WORDS, _bits_numpy, onnx=random_onnx.bits)
def stateless_random_bits(seed: Any, shape: Any, dtype: Any) -> Any:
    """Returns random integers over the whole range of a 32- or 64-bit dtype.

    ``seed`` is int32[2] or int64[2], or a generator's state (int64[3] or uint64[3]: counter low, counter high, key).
    """
    return (convert_to_tensor(seed),), {"shape": drawn_dims(shape), "dtype": as_dtype(dtype)}


def _uniform_numpy(seed: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    count = prod(shape)
    values = unit64(*philox.double_words(seed, count)) if dtype is float64 else unit(philox.words(seed, count), dtype)
    return values.astype(dtype.np).reshape(shape)


def unit(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns float32 numbers in [0, 1) made of the words' low bits, as many as the dtype's mantissa has."""
    bits = MANTISSA_BITS[dtype.name]
    return (words & np.uint32((1 << bits) - 1)).astype(np.float32) * np.float32(2.0**-bits)


def unit64(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Returns float64 numbers in [0, 1) from 52 random bits: the low 20 of ``first`` and all 32 of ``second``."""
    return ((first & np.uint64(0xFFFFF)) << np.uint64(32) | second).astype(np.float64) * 2.0**-52


@_draw_op("StatelessRandomUniformV2", "uniform", FLOATING, _uniform_numpy, vjp=_no_gradient, onnx=random_onnx.uniform)
def stateless_random_uniform(seed: Any, shape: Any, dtype: Any = float32) -> Any:
    """Returns random multiples of the dtype's epsilon in [0, 1); ``seed`` is as for :func:`stateless_random_bits`."""
    return (convert_to_tensor(seed),), {"shape": drawn_dims(shape), "dtype": as_dtype(dtype)}


def _integers_type(seed: TensorType, low: TensorType, high: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    """Checks the seed and the bounds of random integers, and returns the type of the integers.

    The bounds must be scalars, both int32 or both int64.

    Args:
      seed: the type of the seed.
      low, high: the types of the bounds.
      shape: the shape of the result.
    """
    check_seed(seed)
    for name, bound in (("minval", low), ("maxval", high)):
        if bound.shape:
            raise ArgumentError(f"{name} must be 0-D, got shape {show_shape(bound.shape)}")
        if bound.dtype not in (int32, int64) or bound.dtype is not low.dtype:
            raise ArgumentError(
                f"minval and maxval must both be int32 or int64, but got {low.dtype.name} and {high.dtype.name}"
            )
    return TensorType(shape, low.dtype)


def _integers_numpy(seed: np.ndarray, low: np.ndarray, high: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    """Draws random integers in [low, high): random words modulo the span, the number of integers in the range.

    Small numbers are slightly more likely. TensorFlow's random integers have the same bias.
    """
    count = prod(shape)
    if low >= high and count:
        raise ArgumentError(MSG_EMPTY_RANGE.format(low, high))
    dtype = low.dtype
    unsigned = np.uint32 if dtype.itemsize == 4 else np.uint64
    # Unsigned arithmetic wraps around, so that the span of any two bounds fits.
    start = low.astype(unsigned)
    span = np.maximum(high.astype(unsigned) - start, unsigned(1))
    offsets = _random_words(seed, count, dtype.itemsize) % span
    return (start + offsets).astype(dtype).reshape(shape)


def _integers_guard(seed: Tensor, low: Tensor, high: Tensor, *, shape: tuple[Dim, ...]) -> list[tuple[Tensor, str]]:
    """Checks at run time that the range is not empty."""
    return [(bind.less(low, high), "Need minval < maxval")]


@primitive(
    tf_name="StatelessRandomUniformIntV2",
    type=_integers_type,
    numpy=_integers_numpy,
    lower=kernel("random.integers"),
    guard=_integers_guard,
    samples=lambda: [
        Sample(
            (_seed_sample(1, 2), *(lambda d, v=v: np.array(v, d.np) for v in ends)),
            {"shape": (5,)},
            (int64,),
            gradient=False,
        )
        for ends in ((0, 10), (-5, 5), (-(2**62), 2**62))
    ],
    onnx=random_onnx.integers,
)
def stateless_random_integers(seed: Any, low: Any, high: Any, shape: Any) -> Any:
    """Returns random integers in [low, high), two scalars of one dtype.

    ``seed`` is as for :func:`stateless_random_bits`.
    """
    return (convert_to_tensor(seed), convert_to_tensor(low), convert_to_tensor(high)), {"shape": drawn_dims(shape)}


# -- normal numbers


def _box_muller(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Converts pairs of uniform numbers to pairs of normal numbers by the Box-Muller transform.

    Each step is rounded as in TensorFlow's kernel. Functions are computed in float64 and then rounded, to get the same
    bits as compiled code. The float32 functions of NumPy and of compiled code differ in their last bits.

    Args:
      first, second: the uniform numbers, one pair for each index.
    """
    dtype = first.dtype
    angle = (2 * np.pi * second.astype(np.float64)).astype(dtype)
    wide_angle = angle.astype(np.float64)
    positive = np.maximum(first, dtype.type(BOX_MULLER_EPSILON))  # the logarithm of 0 would be infinite
    logarithm = np.log(positive.astype(np.float64)).astype(dtype)
    radius = np.sqrt(dtype.type(-2.0) * logarithm)
    sines = np.sin(wide_angle).astype(dtype)
    cosines = np.cos(wide_angle).astype(dtype)
    return np.stack([sines * radius, cosines * radius], axis=-1)


def normals(words: np.ndarray, dtype: DType) -> np.ndarray:
    """Returns the normal numbers of blocks of four words: two of float64, else four, computed in float32."""
    if dtype is float64:
        wide_words = words.astype(np.uint64)
        return _box_muller(unit64(wide_words[:, 0], wide_words[:, 1]), unit64(wide_words[:, 2], wide_words[:, 3]))
    units = unit(words, float32)
    return _box_muller(units[:, ::2], units[:, 1::2]).reshape(-1, 4)


def _numbers_per_block(dtype: DType) -> int:
    """Returns how many normal numbers of a dtype one Philox block of four words gives."""
    return 2 if dtype is float64 else 4


def normal_array(seed: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Draws standard normal numbers: as many blocks of words as needed, the surplus left out."""
    count = prod(shape)
    blocks = philox.blocks(philox.state_of(seed), ceil_div(count, _numbers_per_block(dtype)))
    return normals(blocks, dtype).ravel()[:count].astype(dtype.np).reshape(shape)


@_draw_op("StatelessRandomNormalV2", "normal", FLOATING, normal_array, vjp=_no_gradient, onnx=random_onnx.normal)
def stateless_random_normal(seed: Any, shape: Any, dtype: Any = float32) -> Any:
    """Returns standard normal numbers; ``seed`` is as for :func:`stateless_random_bits`.

    Source: Box and Muller, A Note on the Generation of Random Normal Deviates, 1958; random_distributions.h of TensorFlow.
    """
    return (convert_to_tensor(seed),), {"shape": drawn_dims(shape), "dtype": as_dtype(dtype)}


def _truncated_numpy(seed: np.ndarray, *, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    """Draws standard normal numbers within (-2, 2), in groups of as many as a Philox block gives."""
    count = prod(shape)
    numbers = _rejection_sampled(philox.state_of(seed), ceil_div(count, _numbers_per_block(dtype)), dtype)
    return numbers.ravel()[:count].astype(dtype.np).reshape(shape)


def _rejection_sampled(state: np.ndarray, groups: int, dtype: DType) -> np.ndarray:
    """Draws truncated normal random numbers by rejection, as an array of shape (groups, numbers per Philox block).

    A group is a row of numbers. It has ``group_size * RESERVED_BLOCKS // 4`` Philox blocks of its own, and keeps the
    first numbers within (-2, 2) until it is full.
    """
    group_size = _numbers_per_block(dtype)
    blocks_per_group = np.uint64(group_size * RESERVED_BLOCKS // 4)
    numbers = np.zeros((groups, group_size), float64.np)
    counts = np.zeros(groups, np.intp)  # of numbers that a group has
    pending = np.arange(groups)  # the groups that are not full
    attempts = 0
    while pending.size:
        offsets = pending.astype(np.uint64) * blocks_per_group + np.uint64(attempts)
        for candidates in normals(philox.blocks_at(state, offsets), dtype).T:  # one for each pending group
            is_accepted = (abs(candidates) < TRUNCATED_AT) & (counts[pending] < group_size)
            accepting = pending[is_accepted]
            numbers[accepting, counts[accepting]] = candidates[is_accepted]
            counts[accepting] += 1
        pending = pending[counts[pending] < group_size]
        attempts += 1
    return numbers


@_draw_op(
    "StatelessTruncatedNormalV2",
    "truncated_normal",
    FLOATING,
    _truncated_numpy,
    vjp=_no_gradient,
    why_not={"onnx": _NO_ONNX},
)
def stateless_random_truncated_normal(seed: Any, shape: Any, dtype: Any = float32) -> Any:
    """Returns standard normal numbers within (-2, 2), others drawn again.

    ``seed`` is as for :func:`stateless_random_bits`.
    """
    return (convert_to_tensor(seed),), {"shape": drawn_dims(shape), "dtype": as_dtype(dtype)}


# -- order


def _permutation_numpy(seed: np.ndarray, *, size: int) -> np.ndarray:
    """Draws a random permutation of 0, ..., size - 1 by Durstenfeld's shuffle.

    Each position is swapped with a random one that isn't before it.
    """
    words = philox.words(seed, size).tolist()
    permutation = list(range(size))
    for position in range(size - 1):
        other = position + words[position] % (size - position)
        permutation[position], permutation[other] = permutation[other], permutation[position]
    return np.array(permutation, np.int64)


def _permutation_type(seed: TensorType, *, size: Dim) -> TensorType:
    check_seed(seed)
    return TensorType((size,), int64)


@primitive(
    tf_name="StatelessShuffle",
    type=_permutation_type,
    numpy=_permutation_numpy,
    lower=kernel("random.permutation"),
    samples=lambda: [Sample((_seed_sample(1, 2),), {"size": n}, (int64,), gradient=False) for n in (0, 1, 5, 9)],
    why_not={"onnx": _NO_ONNX},
)
def stateless_random_permutation(seed: Any, size: Dim) -> Any:
    """Returns the numbers from 0 to size - 1 in random order; ``seed`` is as for :func:`stateless_random_bits`.

    Source: Durstenfeld, Algorithm 235: Random permutation, 1964.
    """
    return (convert_to_tensor(seed),), {"size": size}


# -- the state of a generator


def _skip_type(state: TensorType, *, blocks: Dim) -> TensorType:
    """Checks the generator state of philox_skip, three 64-bit integers, and returns the type of the result."""
    if state.dtype not in STATE or state.shape != (3,):
        raise ArgumentError(
            f"state must be int64 or uint64 of shape (3,), but got {state.dtype.name} of shape {show_shape(state.shape)}"
        )
    return state


@primitive(
    tf_name="RngSkip",
    type=_skip_type,
    numpy=lambda state, *, blocks: philox.skipped(state, blocks),
    lower=kernel("random.skip"),
    samples=lambda: [
        Sample((_seed_sample(*s),), {"blocks": n}, (int64,), gradient=False)
        for s, n in (((1, 2, 3), 5), ((-2, -1, 3), 7))
    ],
    onnx=random_onnx.skip,
)
def philox_skip(state: Any, blocks: Dim) -> Any:
    """Returns the generator state after ``blocks`` blocks."""
    return (convert_to_tensor(state),), {"blocks": blocks}


# -- public functions


def check_algorithm(alg: Any) -> None:
    """Raises ValueError for any algorithm but Philox, the only one here: TensorFlow's CPU and GPU kernels use it."""
    algorithm = getattr(alg, "value", alg)
    if not isinstance(algorithm, (str, int, bytes)):
        raise TypeError(f"Can't convert argument `alg` (of value {alg!r} and type {type(alg)}) to int.")
    if algorithm not in ("auto_select", "philox", 1, 3):
        raise ValueError(f"Unsupported algorithm {alg!r}: use 'philox' or 'auto_select'")


def _seed_tensor(seed: Any) -> Tensor:
    """Converts a seed to a tensor: floats, and NumPy arrays of another dtype than int32, to int64."""
    is_wide = isinstance(seed, float) or (isinstance(seed, np.ndarray) and seed.dtype != np.int32)
    return convert_to_tensor(seed, int64 if is_wide else None)


@export("random.stateless_uniform")
def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Returns uniform random numbers in [minval, maxval) as a function of the seed: TensorFlow's own, bit for bit.

    Args:
      shape: the result's shape; may hold scalars computed from shapes.
      seed: int32 or int64 of shape (2,).
      minval: scalar; None (with maxval None) for the full range of an integer dtype.
      maxval: scalar, 1 for floats.
      dtype: float16, bfloat16, float32, float64, int32, int64; uint32 and uint64 in full range.
      alg: "philox" or "auto_select", which is Philox.

    Returns:
      A tensor of ``shape`` and ``dtype``.

    Raises:
      ValueError: the dtype or the algorithm is not supported, or only one of minval and maxval is given for integers.
      InvalidArgumentError: minval >= maxval for integers, or the shape of the seed is not (2,).

    >>> import tvtf as tf
    >>> tf.random.stateless_uniform([3], seed=[1, 2]).numpy()
    array([0.8440604 , 0.19204533, 0.9962232 ], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_uniform
    """
    check_algorithm(alg)
    dtype = as_dtype(dtype)
    _check_uniform(dtype, minval, maxval)
    return uniform_from(_seed_tensor(seed), drawn_dims(shape), minval, maxval, dtype)


_UNIFORM = (float16, bfloat16, float32, float64, int32, int64, uint32, uint64)


def _check_uniform(dtype: DType, minval: Any, maxval: Any) -> None:
    """Checks dtype and limits of uniform random numbers, with TensorFlow's errors.

    Without limits, integers span the whole range of the dtype.

    Args:
      dtype: the dtype of the numbers.
      minval, maxval: the limits, or None.
    """
    if dtype not in _UNIFORM:
        raise ValueError(f"Argument `dtype` got invalid value {dtype}. Accepted dtypes are {_UNIFORM}.")
    if not dtype.is_integer:
        return
    if (minval is None) != (maxval is None):
        raise ValueError(
            f"For integer `dtype` argument {dtype}, argument `minval` and `maxval` must be both None or not None. Got "
            f"`minval`={minval} and `maxval`={maxval}."
        )
    if minval is not None and dtype.is_unsigned:
        raise ValueError(
            f"Argument `dtype` got invalid value {dtype} when argument `minval` is not None. Please don't use unsigned "
            "integers in this case."
        )


def uniform_from(seed: Tensor, shape: tuple[Dim, ...], minval: Any, maxval: Any, dtype: DType) -> Tensor:
    """Draws uniform numbers in [minval, maxval), floats or integers, from a seed or generator state.

    Without limits, integers span the whole range of their dtype.
    """
    if not dtype.is_integer:
        unit_numbers = bind.stateless_random_uniform(seed, shape=shape, dtype=dtype)  # in [0, 1)
        return scaled_uniform(unit_numbers, minval, 1 if maxval is None else maxval, dtype)
    if minval is None:
        return bind.stateless_random_bits(seed, shape=shape, dtype=dtype)
    low = convert_to_tensor(minval, dtype)
    high = convert_to_tensor(maxval, dtype)
    return bind.stateless_random_integers(seed, low, high, shape=shape)


@binary_op(
    tf_name="Mul",
    domain=FLOATING,
    numpy=np.multiply,
    lower=lambda t, x, y: t.rounded_first(x * y),
    vjp=multiply.vjp,
    onnx="Mul",
)
def rounded_product(x: Any, y: Any) -> Any:
    """Multiplies as ``tf.multiply``, and rounds the product even where it is added to something afterwards.

    Compiled code rounds ``x * y + z`` once otherwise, which makes the last bit of every second scaled random number
    another one than that of an eager call.
    """
    return operands(x, y), {}


def scaled_uniform(uniform: Tensor, minval: Any, maxval: Any, dtype: DType) -> Tensor:
    """Scales uniform numbers of [0, 1) to [minval, maxval). The limits 0 and 1 need no scaling."""
    if _is_number(minval, 0) and _is_number(maxval, 1):
        return uniform
    low, high = convert_to_tensor(minval, dtype), convert_to_tensor(maxval, dtype)
    return bind.add(bind.rounded_product(uniform, bind.subtract(high, low)), low)


def _is_number(value: Any, expected: float) -> bool:
    """Returns whether a value is a Python number equal to ``expected``; a tensor's value is not looked at."""
    return type(value) in (int, float) and value == expected


def scaled_normal(normal: Tensor, mean: Any, stddev: Any, dtype: DType) -> Tensor:
    """Scales standard normal numbers to a mean and standard deviation.

    The mean 0 and the deviation 1 need no scaling. The product is rounded before the sum, as in TensorFlow, so that no
    compiler fuses the two.
    """
    if _is_number(mean, 0) and _is_number(stddev, 1):
        return normal
    mean_tensor = convert_to_tensor(mean, dtype)
    deviations = bind.rounded_product(normal, convert_to_tensor(stddev, dtype))
    return bind.add(deviations, mean_tensor)


@export("random.stateless_normal")
def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Returns normal random numbers as a function of the seed: TensorFlow's own, but for the rounding of log, sin and cos.

    Args:
      shape: the result's shape; may hold scalars computed from shapes.
      seed: int32 or int64 of shape (2,).
      mean: tensor that broadcasts with ``shape``.
      stddev: tensor that broadcasts with ``shape``.
      dtype: float16, bfloat16, float32 or float64.

    Returns:
      A tensor of ``shape`` and ``dtype``.

    >>> import tvtf as tf
    >>> tf.random.stateless_normal([2], seed=[1, 2]).numpy().round(4)
    array([0.5441, 0.2074], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_normal
    """
    check_algorithm(alg)
    dtype = as_dtype(dtype)
    drawn = bind.stateless_random_normal(_seed_tensor(seed), shape=drawn_dims(shape), dtype=dtype)
    return scaled_normal(drawn, mean, stddev, dtype)


@export("random.stateless_truncated_normal")
def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = float32,
    name: str | None = None,
    alg: Any = "auto_select",
) -> Tensor:
    """Returns normal random numbers within two standard deviations, as a function of the seed.

    Except for rounding, they are TensorFlow's. The arguments are those of `tf.random.stateless_normal`.

    >>> import tvtf as tf
    >>> bool(abs(tf.random.stateless_truncated_normal([99], seed=[1, 2]).numpy()).max() < 2)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_truncated_normal
    """
    check_algorithm(alg)
    dtype = as_dtype(dtype)
    drawn = bind.stateless_random_truncated_normal(_seed_tensor(seed), shape=drawn_dims(shape), dtype=dtype)
    return scaled_normal(drawn, mean, stddev, dtype)


@export("random.experimental.stateless_shuffle")
def stateless_shuffle(value: Any, seed: Any, alg: Any = "auto_select", name: str | None = None) -> Tensor:
    """Returns the rows of ``value`` (along its first axis) in a random order, which is TensorFlow's for the seed.

    >>> import tvtf as tf
    >>> tf.random.experimental.stateless_shuffle([10, 20, 30, 40], seed=[1, 2]).numpy().tolist()
    [10, 40, 30, 20]

    Source: https://www.tensorflow.org/api_docs/python/tf/random/experimental/stateless_shuffle
    """
    check_algorithm(alg)
    return shuffled(_seed_tensor(seed), convert_to_tensor(value))


def shuffled(seed: Tensor, value: Tensor) -> Tensor:
    """Returns the rows of ``value`` in random order; a scalar is returned as it is."""
    if not value.ndim:
        return value
    return gather(value, bind.stateless_random_permutation(seed, size=value._type.shape[0]))


_INDEX = (int32, int64)


@export("random.stateless_categorical")
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = int64, name: str | None = None
) -> Tensor:
    """Draws classes with the odds that each row of logits gives, as a function of the seed.

    They are TensorFlow's own as long as TensorFlow's kernel takes the rows in one thread, which it does for small ones.

    Args:
      logits: float tensor of shape (batch, classes); what is not finite is never drawn.
      num_samples: how many for each row.
      seed: int32 or int64 of shape (2,).
      dtype: int32 or int64.

    Returns:
      A tensor of shape (batch, num_samples).

    Raises:
      ValueError: the dtype is neither int32 nor int64.
      InvalidArgumentError: (ValueError while tracing) the rank of the logits is not 2.

    >>> import tvtf as tf
    >>> tf.random.stateless_categorical([[0., 100.]], 3, seed=[1, 2]).numpy()
    array([[1, 1, 1]])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/stateless_categorical
    """
    seed_numbers = _seed_tensor(seed)
    return sampled(
        lambda shape: uniform_doubles(seed_numbers, shape),
        convert_to_tensor(logits),
        num_samples,
        as_dtype(dtype or int64),
    )


def uniform_doubles(seed: Tensor, shape: tuple[Dim, ...]) -> Tensor:
    """Draws uniform numbers in [0, 1) of double precision."""
    return bind.stateless_random_uniform(seed, shape=shape, dtype=float64)  # type: ignore[no-any-return]


def sample_count(num_samples: Any) -> Dim:
    """Returns the argument ``num_samples`` as a dim, which must not be negative."""
    count = size_argument(num_samples, "num_samples")
    if isinstance(count, int) and count < 0:
        raise ArgumentError(f"num_samples should be non-negative, got {count}")
    return count


def sampled(draw: Callable[[tuple[Dim, ...]], Tensor], logits: Tensor, num_samples: Any, dtype: DType) -> Tensor:
    """Draws ``num_samples`` class numbers for each row of logits, as `tf.random.stateless_categorical`.

    ``draw`` draws uniform numbers of double precision.

    A uniform random number in [0, total) is compared with the row's running sums of probabilities. The class is the
    number of running sums that are not larger. All is computed in float64.
    """
    if dtype not in _INDEX:
        raise ValueError(f"Argument `dtype` got invalid value {dtype}. Accepted dtypes are {_INDEX}.")
    shape = logits._type.shape
    if logits.ndim != 2:
        raise ArgumentError(f"logits should be a matrix, got shape {brackets(shape)}").for_op("Multinomial")
    batch, classes = shape
    if classes == 0:
        raise ArgumentError("num_classes should be positive, got 0").for_op("Multinomial")
    count = sample_count(num_samples)
    running_sums = _running_sums(bind.cast(logits, dtype=float64))
    uniform = draw((batch, count))
    totals = bind.reduce_max(running_sums, axis=(1,), keepdims=True)  # the largest running sums
    targets = bind.multiply(uniform, totals)
    # Compared with shape (batch, count, classes).
    sums_of_classes = bind.reshape(running_sums, shape=(batch, 1, classes))
    is_passed = bind.less_equal(sums_of_classes, bind.reshape(targets, shape=(batch, count, 1)))
    return bind.reduce_sum(bind.cast(is_passed, dtype=dtype), axis=(2,), keepdims=False)


def _running_sums(logits: Tensor) -> Tensor:
    """Returns the cumulative sums along each row of ``exp(logits - max)``, where max is the row's largest logit.

    The exponential of a logit that isn't finite counts as 0.
    """
    is_finite = bind.less(bind.abs(logits), number(np.inf, logits))
    lowest = number(np.finfo(np.float64).min, logits)
    finite_logits = bind.select(is_finite, logits, lowest)
    row_maximum = bind.reduce_max(finite_logits, axis=(1,), keepdims=True)
    exponentials = bind.exp(bind.subtract(logits, row_maximum))
    weights = bind.select(is_finite, exponentials, number(0, logits))
    return bind.cumsum(weights, axis=1, exclusive=False, reverse=False)


@export("random.split", "random.experimental.stateless_split")
def split(seed: Any, num: int = 2, alg: Any = "auto_select") -> Tensor:
    """Derives ``num`` new seeds from a seed. Returns a tensor of shape (num, 2) and the seed's dtype.

    >>> import tvtf as tf
    >>> tf.random.split([1, 2], 2).shape
    TensorShape([2, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/split
    """
    seed = _seed_tensor(seed)
    return stateless_uniform((num, 2), seed, None, None, seed.dtype, alg=alg)


@export("random.fold_in", "random.experimental.stateless_fold_in")
def fold_in(seed: Any, data: Any, alg: Any = "auto_select") -> Tensor:
    """Derives a new seed from a seed and an integer scalar ``data``, such as a step number.

    The new seed has the shape (2,) and the dtype of ``data``.

    >>> import tvtf as tf
    >>> tf.random.fold_in([1, 2], 5).shape
    TensorShape([2])

    Source: https://www.tensorflow.org/api_docs/python/tf/random/fold_in
    """
    data = convert_to_tensor(data)
    return convert_to_tensor([stateless_uniform((), seed, None, None, data.dtype, alg=alg), data])
