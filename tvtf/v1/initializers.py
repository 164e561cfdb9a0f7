"""Initializers of TensorFlow 1: functions from a shape to values, by default of the dtype given to the constructor."""

from __future__ import annotations

import math
from typing import Any

from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import as_dtype
from tvtf.v1.arguments import constant
from tvtf.v1.registry import called as _tf
from tvtf.v1.registry import v1


class Initializer:
    """The base class of initializers: a call returns a value of a shape and dtype."""

    def __init__(self, dtype: Any = "float32") -> None:
        self.dtype = as_dtype(dtype)

    def __call__(self, shape: Any, dtype: Any = None, partition_info: Any = None) -> Any:
        return self._value(
            [int(dim) for dim in shape] if not isinstance(shape, int) else [shape], as_dtype(dtype or self.dtype)
        )

    def _value(self, shape: list[int], dtype: Any) -> Any:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {k: v.name if k == "dtype" else v for k, v in vars(self).items()}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


@v1("zeros_initializer", "initializers.zeros")
class Zeros(Initializer):
    def _value(self, shape: list[int], dtype: Any) -> Any:
        return _tf("zeros", shape, dtype)


@v1("ones_initializer", "initializers.ones")
class Ones(Initializer):
    def _value(self, shape: list[int], dtype: Any) -> Any:
        return _tf("ones", shape, dtype)


@v1("constant_initializer", "initializers.constant")
class Constant(Initializer):
    """An initializer of a constant."""

    def __init__(self, value: Any = 0, dtype: Any = None, verify_shape: bool = False) -> None:
        super().__init__(dtype or "float32")
        self.value, self._requested_dtype, self._verify_shape = value, dtype, verify_shape

    def __call__(
        self, shape: Any = None, dtype: Any = None, partition_info: Any = None, verify_shape: Any = None
    ) -> Any:
        """Returns the constant as a tensor, as ``tf.compat.v1.constant`` does. Without ``shape`` it keeps its own."""
        if shape is None:
            return convert_to_tensor(self.value, dtype or self._requested_dtype)
        verify = self._verify_shape if verify_shape is None else verify_shape
        return constant(self.value, dtype or self.dtype, shape, verify_shape=verify)


@v1("initializers.identity")
class Identity(Initializer):
    """An initializer of the identity matrix times ``gain``."""

    def __init__(self, gain: float = 1.0, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.gain = gain

    def _value(self, shape: list[int], dtype: Any) -> Any:
        if len(shape) != 2:
            raise ValueError(f"Identity matrix initializer can only be used for 2D matrices. Received shape={shape}.")
        return self.gain * _tf("eye", *shape, dtype=dtype)


class _Random(Initializer):
    """The base class of random initializers, whose op takes two parameters such as mean and standard deviation."""

    op = ""

    def __init__(self, low: Any, high: Any, seed: Any, dtype: Any) -> None:
        super().__init__(dtype)
        self._range = (low, high)
        self.seed = seed

    def _value(self, shape: list[int], dtype: Any) -> Any:
        return _tf(self.op, shape, *self._range, dtype=dtype, seed=self.seed)


@v1("random_uniform_initializer", "initializers.random_uniform")
class RandomUniform(_Random):
    """An initializer of uniform random numbers."""

    op = "random.uniform"

    def __init__(self, minval: Any = 0, maxval: Any = None, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(minval, maxval if maxval is not None else 1, seed, dtype)


@v1("random_normal_initializer", "initializers.random_normal")
class RandomNormal(_Random):
    """An initializer of normal random numbers."""

    op = "random.normal"

    def __init__(self, mean: float = 0.0, stddev: float = 1.0, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(mean, stddev, seed, dtype)


@v1("truncated_normal_initializer", "initializers.truncated_normal")
class TruncatedNormal(RandomNormal):
    """An initializer of random numbers from a truncated normal distribution."""

    op = "random.truncated_normal"


@v1("variance_scaling_initializer", "initializers.variance_scaling")
class VarianceScaling(Initializer):
    """An initializer of random numbers whose variance is scaled by the number of inputs or outputs."""

    def __init__(
        self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal", seed: Any = None,
        dtype: Any = "float32",
    ) -> None:  # fmt: skip
        """Checks and stores the settings. Random numbers have the variance ``scale / fan``.

        ``mode`` selects the fan: the number of inputs ("fan_in"), of outputs ("fan_out") or their mean ("fan_avg").
        """
        super().__init__(dtype)
        if scale <= 0.0:
            raise ValueError(f"Argument `scale` must be a positive float. Received: {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Argument `mode` should be one of ('fan_in', 'fan_out', 'fan_avg'). Received: {mode}")
        self.scale = scale
        self.mode = mode
        self.distribution = distribution.lower()
        self.seed = seed

    def _value(self, shape: list[int], dtype: Any) -> Any:
        """Draws random numbers with the variance ``scale / fan``.

        ``mode`` selects the fan: the number of inputs, the number of outputs, or their mean.
        """
        fan_in, fan_out = _fans(shape)
        fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}
        variance = self.scale / max(1.0, fans[self.mode])
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)  # a uniform distribution in [-limit, limit] has the variance limit**2 / 3
            return _tf("random.uniform", shape, -limit, limit, dtype=dtype, seed=self.seed)
        if self.distribution == "untruncated_normal":
            return _tf("random.normal", shape, 0.0, math.sqrt(variance), dtype=dtype, seed=self.seed)
        # A standard normal distribution that is truncated at -2 and 2 has this standard deviation.
        stddev = math.sqrt(variance) / 0.87962566103423978
        return _tf("random.truncated_normal", shape, 0.0, stddev, dtype=dtype, seed=self.seed)


def _fans(shape: list[int]) -> tuple[int, int]:
    """Returns the numbers of inputs and outputs of a kernel of this shape."""
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    inner = math.prod(shape[:-2])
    return shape[-2] * inner, shape[-1] * inner


def _declare_variance_scaling(scale: float, mode: str, distribution: str, *paths: str) -> type:
    """Declares a subclass of ``VarianceScaling`` with fixed settings.

    Args:
      scale: the factor of the variance.
      mode: "fan_in", "fan_out" or "fan_avg".
      distribution: "normal" or "uniform".
      paths: the public names of the class in TensorFlow 1.
    """

    class Scaled(VarianceScaling):
        def __init__(self, seed: Any = None, dtype: Any = "float32") -> None:
            super().__init__(scale, mode, distribution, seed, dtype)

    return v1(*paths)(Scaled)


GlorotUniform = _declare_variance_scaling(
    1.0, "fan_avg", "uniform", "glorot_uniform_initializer", "initializers.glorot_uniform"
)
_declare_variance_scaling(1.0, "fan_avg", "truncated_normal", "glorot_normal_initializer", "initializers.glorot_normal")
_declare_variance_scaling(1.0, "fan_in", "truncated_normal", "initializers.lecun_normal")
_declare_variance_scaling(1.0, "fan_in", "uniform", "initializers.lecun_uniform")
_declare_variance_scaling(2.0, "fan_in", "truncated_normal", "initializers.he_normal")
_declare_variance_scaling(2.0, "fan_in", "uniform", "initializers.he_uniform")


@v1("uniform_unit_scaling_initializer", "initializers.uniform_unit_scaling")
class UniformUnitScaling(Initializer):
    """An initializer of uniform numbers, scaled so that a layer keeps the variance of its inputs."""

    def __init__(self, factor: float = 1.0, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.factor, self.seed = factor, seed

    def _value(self, shape: list[int], dtype: Any) -> Any:
        limit = math.sqrt(3 / max(1.0, math.prod(shape[:-1]))) * self.factor
        return _tf("random.uniform", shape, -limit, limit, dtype=dtype, seed=self.seed)


@v1("orthogonal_initializer", "initializers.orthogonal")
class Orthogonal(Initializer):
    """An initializer of random orthogonal matrices."""

    def __init__(self, gain: float = 1.0, seed: Any = None, dtype: Any = "float32") -> None:
        super().__init__(dtype)
        self.gain, self.seed = gain, seed

    def _value(self, shape: list[int], dtype: Any) -> Any:
        """Draws a random matrix with orthogonal columns, or rows if it is wide, and reshapes it to ``shape``.

        The matrix is Q of a QR decomposition of normal random numbers, with its columns multiplied by the signs of R's
        diagonal.
        """
        if len(shape) < 2:
            raise ValueError(
                f"The tensor to initialize, specified by argument `shape` must be at least two-dimensional. Received shape={shape}"
            )
        rows = math.prod(shape[:-1])
        columns = shape[-1]
        tall_shape = [max(rows, columns), min(rows, columns)]
        random_matrix = _tf("random.normal", tall_shape, dtype=dtype, seed=self.seed)
        q, r = _tf("linalg.qr", random_matrix)
        matrix = q * _tf("sign", _tf("linalg.diag_part", r))
        if rows < columns:
            matrix = _tf("transpose", matrix)
        return self.gain * _tf("reshape", matrix, shape)
