"""Keras 3's initializers: functions of a shape and dtype, with its arguments and, for a given seed, its numbers.

Source: https://keras.io/api/layers/initializers/
"""

from __future__ import annotations

import random as python_random
import re
from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import as_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import DType, as_dtype, float32, int64
from tvtf.ops import create, random
from tvtf.ops.cast import cast_tensor
from tvtf.state.seeds import seeds

# Public lower-case names (`constant`, `zeros`) are installed in this module, so it must not import anything by such a name.
TRUNCATED_DEVIATION = 0.87962566103423978
"""Standard deviation of a standard normal cut off at 2."""
SEED_RANGE = 2**31 - 2
"""Keras folds seeds into [0, SEED_RANGE)."""
FAN_MODES = ("fan_avg", "fan_in", "fan_out")
DISTRIBUTIONS = ("truncated_normal", "uniform", "untruncated_normal")


def _public(*names: str) -> Any:
    """Returns a decorator that exports a class or function under these names in ``tf.initializers``."""
    return export(*(f"initializers.{name}" for name in names))


@_public("Initializer")
class Initializer:
    """A function ``(shape, dtype=None) -> tensor``; subclasses define ``__call__`` and ``get_config``.

    >>> import tvtf as tf
    >>> class Twos(tf.initializers.Initializer):
    ...     def __call__(self, shape, dtype=None):
    ...         return tf.fill(shape, tf.constant(2, dtype or tf.float32))
    >>> Twos()([2]).numpy()
    array([2., 2.], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        raise NotImplementedError("Initializer subclasses must implement the `__call__()` method.")

    def get_config(self) -> dict[str, Any]:
        """Returns the constructor's arguments for an equal initializer."""
        return {}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Initializer:
        return cls(**config)

    def clone(self) -> Initializer:
        return self.from_config(self.get_config())


def _as_dtype_or_float32(dtype: Any) -> DType:
    """Converts the dtype of an initializer; the default is float32."""
    return float32 if dtype is None else as_dtype(dtype)


def _as_dims(shape: Any) -> tuple[int, ...]:
    """Converts the shape of an initializer to a tuple of ints."""
    return tuple(as_shape(shape).as_list())  # type: ignore[arg-type]


# -- constants


@_public("Zeros", "zeros")
class Zeros(Initializer):
    """An initializer of zeros.

    >>> import tvtf as tf
    >>> tf.initializers.Zeros()((2,)).numpy()
    array([0., 0.], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return create.zeros(shape, _as_dtype_or_float32(dtype))


@_public("Ones", "ones")
class Ones(Initializer):
    """An initializer of ones.

    >>> import tvtf as tf
    >>> tf.initializers.Ones()((2,)).numpy()
    array([1., 1.], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return create.ones(shape, _as_dtype_or_float32(dtype))


@_public("Constant", "constant")
class Constant(Initializer):
    """An initializer of a constant, or of an array that broadcasts to the shape.

    >>> import tvtf as tf
    >>> tf.initializers.Constant(3.0)((2,)).numpy()
    array([3., 3.], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """

    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        value = np.asarray(self.value).astype(_as_dtype_or_float32(dtype).np)
        return EagerTensor(np.broadcast_to(value, _as_dims(shape)).copy())

    def get_config(self) -> dict[str, Any]:
        return {"value": self.value}


@_public("Identity", "identity", "IdentityInitializer")
class Identity(Initializer):
    """An initializer of the identity matrix times ``gain``; the shape must have two dims.

    Raises:
      ValueError: the rank of the shape is not 2.

    >>> import tvtf as tf
    >>> tf.initializers.Identity(2.0)((2, 2)).numpy()
    array([[2., 0.],
           [0., 2.]], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        dims = _as_dims(shape)
        if len(dims) != 2:
            raise ValueError(
                f"Identity matrix initializer can only be used for 2D matrices. Received: shape={shape} of rank {len(dims)}."
            )
        return EagerTensor((np.eye(*dims) * self.gain).astype(_as_dtype_or_float32(dtype).np))

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain}


# -- random


class RandomInitializer(Initializer):
    """The base class of random initializers: an instance returns the same numbers for the same shape each time.

    Args:
      seed: an int; None draws one from the global seed (``tf.random.set_seed``).

    Raises:
      ValueError: ``seed`` is not an int.
    """

    def __init__(self, seed: int | None = None) -> None:
        if seed is not None and not isinstance(seed, int):
            raise ValueError(f"`seed` argument should be an integer. Received: seed={seed}")
        self._given = seed
        self.seed: Any = self._default_seed() if seed is None else seed

    @property
    def _seed_words(self) -> Tensor:
        """The seed for stateless random functions: two numbers, the second of which is zero, as in Keras."""
        return convert_to_tensor([self.seed % SEED_RANGE, 0], int64)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self._given}

    def _default_seed(self) -> int | None:
        """Draws the seed of an initializer that was created without one, from the global seed if that is set."""
        return python_random.randint(1, 10**9) if seeds.seed is None else seeds.next_op_seed()


@_public("RandomNormal", "random_normal")
class RandomNormal(RandomInitializer):
    """An initializer of normal numbers.

    >>> import tvtf as tf
    >>> tf.initializers.RandomNormal(stddev=1.0, seed=1)((3,)).shape
    TensorShape([3])

    Source: https://keras.io/api/layers/initializers/
    """

    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.mean, self.stddev = mean, stddev

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return random.stateless_normal(shape, self._seed_words, self.mean, self.stddev, _as_dtype_or_float32(dtype))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"mean": self.mean, "stddev": self.stddev}


@_public("TruncatedNormal", "truncated_normal")
class TruncatedNormal(RandomNormal):
    """An initializer of normal numbers; those beyond two standard deviations are drawn again.

    >>> import tvtf as tf
    >>> tf.initializers.TruncatedNormal(stddev=1.0, seed=1)((3,)).shape
    TensorShape([3])

    Source: https://keras.io/api/layers/initializers/
    """

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return random.stateless_truncated_normal(
            shape, self._seed_words, self.mean, self.stddev, _as_dtype_or_float32(dtype)
        )


@_public("RandomUniform", "random_uniform")
class RandomUniform(RandomInitializer):
    """An initializer of uniform numbers in [minval, maxval).

    >>> import tvtf as tf
    >>> tf.initializers.RandomUniform(seed=1)((3,)).shape
    TensorShape([3])

    Source: https://keras.io/api/layers/initializers/
    """

    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: int | None = None) -> None:
        super().__init__(seed)
        self.minval, self.maxval = minval, maxval

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return random.stateless_uniform(shape, self._seed_words, self.minval, self.maxval, _as_dtype_or_float32(dtype))

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"minval": self.minval, "maxval": self.maxval}


@_public("VarianceScaling", "variance_scaling")
class VarianceScaling(RandomInitializer):
    """An initializer whose variance is ``scale`` divided by the number of inputs, outputs, or their mean.

    Args:
      scale: positive factor.
      mode: "fan_in", "fan_out" or "fan_avg".
      distribution: "truncated_normal" ("normal"), "untruncated_normal" or "uniform".
      seed: an int or None.
      input_axes: the axes whose product is the number of inputs; default: derived from the last two dims.
      output_axes: likewise for outputs; both or none.

    Raises:
      ValueError: ``scale``, ``mode`` or ``distribution`` is not supported.

    >>> import tvtf as tf
    >>> tf.initializers.VarianceScaling(mode="fan_out", seed=1)((3, 4)).shape
    TensorShape([3, 4])

    Source: https://keras.io/api/layers/initializers/
    """

    def __init__(
        self,
        scale: float = 1.0,
        mode: str = "fan_in",
        distribution: str = "truncated_normal",
        seed: int | None = None,
        input_axes: Sequence[int] | None = None,
        output_axes: Sequence[int] | None = None,
    ) -> None:
        """Checks the arguments; "normal" is another name of the truncated normal distribution."""
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be positive float. Received: scale={scale}")
        if mode not in FAN_MODES:
            raise ValueError(f"Invalid `mode` argument: {mode}. Please use one of {FAN_MODES}")
        distribution_name = distribution.lower()
        if distribution_name == "normal":
            distribution_name = "truncated_normal"
        if distribution_name not in DISTRIBUTIONS:
            raise ValueError(f"Invalid `distribution` argument: {distribution}. Please use one of {DISTRIBUTIONS}")
        super().__init__(seed)
        self.scale, self.mode, self.distribution = scale, mode, distribution_name
        self.input_axes, self.output_axes = input_axes, output_axes

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """Draws random weights of variance ``scale / fan``.

        The fan is the number of a weight's inputs or outputs, or their mean.
        """
        variance = self.scale / max(1.0, self._fan(_as_dims(shape)))
        if self.distribution == "uniform":
            # The variance of a uniform distribution in [-limit, limit) is limit ** 2 / 3.
            limit = sqrt(3.0 * variance)
            return random.stateless_uniform(shape, self._seed_words, -limit, limit, _as_dtype_or_float32(dtype))
        if self.distribution == "untruncated_normal":
            return random.stateless_normal(shape, self._seed_words, 0.0, sqrt(variance), _as_dtype_or_float32(dtype))
        # Truncation at two standard deviations lowers the standard deviation.
        deviation = sqrt(variance) / TRUNCATED_DEVIATION
        return random.stateless_truncated_normal(shape, self._seed_words, 0.0, deviation, _as_dtype_or_float32(dtype))

    def _fan(self, shape: tuple[int, ...]) -> float:
        """Returns the number of a weight's inputs or outputs, or their mean, as the initializer's mode says."""
        fan_in, fan_out = compute_fans(shape, self.input_axes, self.output_axes)
        if self.mode == "fan_in":
            return fan_in
        if self.mode == "fan_out":
            return fan_out
        return (fan_in + fan_out) / 2.0

    def get_config(self) -> dict[str, Any]:
        names = ("scale", "mode", "distribution", "input_axes", "output_axes")
        return super().get_config() | {name: getattr(self, name) for name in names}


def compute_fans(
    shape: Sequence[int], input_axes: Sequence[int] | None = None, output_axes: Sequence[int] | None = None
) -> tuple[int, int]:
    """Returns the numbers of inputs and outputs of a weight, by which initializers scale random numbers.

    The last two dims are input and output channels, and the other dims are the receptive field of a convolution. The
    arguments ``input_axes`` and ``output_axes`` choose other axes.

    >>> compute_fans((3, 3, 8, 16))
    (72, 144)
    """
    if input_axes is not None and output_axes is not None:
        return prod(shape[axis] for axis in input_axes), prod(shape[axis] for axis in output_axes)
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    receptive_field = prod(shape[:-2])
    return shape[-2] * receptive_field, shape[-1] * receptive_field


class _FixedVarianceScaling(VarianceScaling):
    """The base class of variance scalings with fixed scale, mode and distribution."""

    fixed: tuple[float, str, str]

    def __init__(
        self,
        seed: int | None = None,
        input_axes: Sequence[int] | None = None,
        output_axes: Sequence[int] | None = None,
    ) -> None:
        super().__init__(*self.fixed, seed, input_axes, output_axes)

    def get_config(self) -> dict[str, Any]:
        return {
            name: value for name, value in super().get_config().items() if name in ("seed", "input_axes", "output_axes")
        }


@_public("GlorotUniform", "glorot_uniform")
class GlorotUniform(_FixedVarianceScaling):
    """Uniform in +-sqrt(6 / (inputs + outputs)).

    >>> import tvtf as tf
    >>> tf.initializers.GlorotUniform(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.
    """

    fixed = (1.0, "fan_avg", "uniform")


@_public("GlorotNormal", "glorot_normal")
class GlorotNormal(_FixedVarianceScaling):
    """Truncated normal of variance 2 / (inputs + outputs).

    >>> import tvtf as tf
    >>> tf.initializers.GlorotNormal(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: Glorot and Bengio, 2010.
    """

    fixed = (1.0, "fan_avg", "truncated_normal")


@_public("LecunUniform", "lecun_uniform")
class LecunUniform(_FixedVarianceScaling):
    """Uniform in +-sqrt(3 / inputs).

    >>> import tvtf as tf
    >>> tf.initializers.LecunUniform(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: Klambauer et al., Self-Normalizing Neural Networks, 2017.
    """

    fixed = (1.0, "fan_in", "uniform")


@_public("LecunNormal", "lecun_normal")
class LecunNormal(_FixedVarianceScaling):
    """Truncated normal of variance 1 / inputs.

    >>> import tvtf as tf
    >>> tf.initializers.LecunNormal(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: Klambauer et al., 2017.
    """

    fixed = (1.0, "fan_in", "truncated_normal")


@_public("HeUniform", "he_uniform")
class HeUniform(_FixedVarianceScaling):
    """Uniform in +-sqrt(6 / inputs).

    >>> import tvtf as tf
    >>> tf.initializers.HeUniform(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: He et al., Delving Deep into Rectifiers, 2015.
    """

    fixed = (2.0, "fan_in", "uniform")


@_public("HeNormal", "he_normal")
class HeNormal(_FixedVarianceScaling):
    """Truncated normal of variance 2 / inputs.

    >>> import tvtf as tf
    >>> tf.initializers.HeNormal(seed=1)((2, 3)).shape
    TensorShape([2, 3])

    Source: He et al., 2015.
    """

    fixed = (2.0, "fan_in", "truncated_normal")


@_public("Orthogonal", "orthogonal", "OrthogonalInitializer")
class Orthogonal(RandomInitializer):
    """An initializer of orthogonal matrices times ``gain``; all dims but the last are merged to rows.

    Raises:
      ValueError: the shape has fewer than two dims.

    >>> import tvtf as tf
    >>> q = tf.initializers.Orthogonal(seed=1)((3, 3))
    >>> bool(tf.reduce_max(abs(q @ tf.transpose(q) - tf.eye(3))) < 1e-6)
    True

    Source: Saxe et al., Exact solutions to the nonlinear dynamics of learning in deep linear neural networks, 2014.
    """

    def __init__(self, gain: float = 1.0, seed: int | None = None) -> None:
        super().__init__(seed)
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        """Returns a random orthogonal matrix times ``gain``, reshaped to ``shape``; ``kwargs`` are ignored."""
        dims = _as_dims(shape)
        if len(dims) < 2:
            raise ValueError(
                "The tensor to initialize must be at least two-dimensional. Received: "
                f"shape={shape} of rank {len(dims)}."
            )
        # The matrix has a column for each element of the last dim.
        matrix = self.gain * self._matrix(prod(dims[:-1]), dims[-1])
        return EagerTensor(matrix.reshape(dims).astype(_as_dtype_or_float32(dtype).np))

    def _matrix(self, rows: int, columns: int) -> np.ndarray:
        """Returns a random matrix whose rows or columns, whichever are fewer, are orthonormal."""
        words = np.array([self.seed % SEED_RANGE, 0], np.int64)
        drawn = random.normal_array(words, shape=(max(rows, columns), min(rows, columns)), dtype=float32)
        q, r = np.linalg.qr(drawn)
        q = q * np.sign(np.diag(r))  # with a positive diagonal of ``r`` the decomposition is unique
        return q.T if rows < columns else q

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"gain": self.gain}


# -- by name


def _classes_by_name() -> dict[str, type[Initializer]]:
    """Returns the classes of initializers by all names in Keras: class names, snake case and abbreviations."""
    classes: list[type[Initializer]] = [
        Zeros,
        Ones,
        Constant,
        Identity,
        RandomNormal,
        TruncatedNormal,
        RandomUniform,
        VarianceScaling,
        Orthogonal,
    ]
    classes += [GlorotUniform, GlorotNormal, LecunUniform, LecunNormal, HeUniform, HeNormal]
    named = {initializer.__name__: initializer for initializer in classes} | {
        re.sub("(?<=[a-z])([A-Z])", r"_\1", initializer.__name__).lower(): initializer for initializer in classes
    }
    abbreviations = {"normal": RandomNormal, "uniform": RandomUniform, "zero": Zeros, "one": Ones}
    return named | abbreviations | {"IdentityInitializer": Identity, "OrthogonalInitializer": Orthogonal}


@_public("serialize")
def serialize(initializer: Initializer) -> dict[str, Any]:
    """Returns an initializer's class and configuration as a dict.

    >>> import tvtf as tf
    >>> tf.initializers.serialize(tf.initializers.Zeros())["class_name"]
    'Zeros'

    Source: https://keras.io/api/layers/initializers/
    """
    return {"class_name": type(initializer).__name__, "config": initializer.get_config()}


@_public("deserialize")
def deserialize(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Initializer:
    """Returns the initializer that :func:`serialize` describes.

    Raises:
      ValueError: the name is neither known nor in ``custom_objects``.

    >>> import tvtf as tf
    >>> tf.initializers.deserialize({"class_name": "Constant", "config": {"value": 2.0}})([1]).numpy()
    array([2.], dtype=float32)

    Source: https://keras.io/api/layers/initializers/
    """
    known = _classes_by_name() | (custom_objects or {})
    name = config["class_name"]
    if name not in known:
        raise ValueError(f"Unknown initializer {name!r}: expected one of {sorted(known)}")
    return known[name].from_config(config.get("config", {}))


@_public("get")
def get(identifier: Any) -> Callable[..., Tensor] | None:
    """Converts a name, configuration, class, or tensor of the right shape to an initializer.

    Raises:
      ValueError: the identifier is none of these.

    >>> import tvtf as tf
    >>> type(tf.initializers.get("glorot_uniform")).__name__
    'GlorotUniform'

    Source: https://keras.io/api/layers/initializers/
    """
    if identifier is None:
        return None
    if isinstance(identifier, str):
        return deserialize({"class_name": identifier})
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if is_tensor(identifier) or isinstance(identifier, (np.ndarray, np.generic)):
        return _constant_tensor_initializer(convert_to_tensor(identifier))
    if not callable(identifier):
        raise ValueError(f"Could not interpret initializer identifier: {identifier}")
    return identifier() if isinstance(identifier, type) else identifier


def _constant_tensor_initializer(value: Tensor) -> Callable[..., Tensor]:
    """Returns an initializer that always returns ``value``, in the requested dtype.

    The initializer raises ValueError if the requested shape is not the shape of ``value``.
    """

    def initialize(shape: Any, dtype: Any = None) -> Tensor:
        """Returns the tensor as an initial value, after checking the requested shape."""
        if _as_dims(shape) != tuple(value.shape):
            raise ValueError(
                f"Expected `shape` to be {value.shape} for direct tensor as initializer. Received shape={shape}"
            )
        return cast_tensor(value, _as_dtype_or_float32(dtype))

    return initialize
