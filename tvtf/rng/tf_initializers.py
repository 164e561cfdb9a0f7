"""TensorFlow's initializers, such as ``tf.zeros_initializer``; without a seed each call draws other numbers.

Their classes have TensorFlow's names, which Keras 2 writes into the configurations of layers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import as_shape
from tvtf.core.tensor import Tensor, constant
from tvtf.dtypes import DType, as_dtype, float32
from tvtf.ops import random
from tvtf.rng import keras_initializers
from tvtf.rng.stateful import normal, uniform


def _numeric_dtype(dtype: Any) -> DType:
    """Converts the dtype of an initializer, float32 by default.

    Raises:
      ValueError: the dtype is neither numeric nor bool.
    """
    numeric_dtype = float32 if dtype is None else as_dtype(dtype)
    if not (numeric_dtype.is_numeric or numeric_dtype.is_bool):
        raise ValueError(f"Argument `dtype` expected to be numeric or boolean. Received {numeric_dtype}.")
    return numeric_dtype


@export("zeros_initializer")
class Zeros(keras_initializers.Zeros):
    """An initializer of zeros.

    >>> import tvtf as tf
    >>> tf.zeros_initializer()([2]).numpy()
    array([0., 0.], dtype=float32)

    Raises:
      ValueError: the dtype is string.

    Source: https://www.tensorflow.org/api_docs/python/tf/zeros_initializer
    """

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        return super().__call__(shape, _numeric_dtype(dtype))


@export("ones_initializer")
class Ones(keras_initializers.Ones):
    """An initializer of ones.

    >>> import tvtf as tf
    >>> tf.ones_initializer()([2]).numpy()
    array([1., 1.], dtype=float32)

    Raises:
      ValueError: the dtype is string.

    Source: https://www.tensorflow.org/api_docs/python/tf/ones_initializer
    """

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        return super().__call__(shape, _numeric_dtype(dtype))


@export("constant_initializer")
class Constant(keras_initializers.Constant):
    """An initializer of a constant, or of as many values as the shape has elements.

    >>> import tvtf as tf
    >>> tf.constant_initializer([1, 2, 3, 4])([2, 2]).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)

    Raises:
      TypeError: the number of elements of the shape is not that of ``value``. On creation: ``value`` is not a scalar, list,
        tuple or array.

    Source: https://www.tensorflow.org/api_docs/python/tf/constant_initializer
    """

    def __init__(self, value: Any = 0, support_partition: bool = False) -> None:
        if not (np.isscalar(value) or isinstance(value, (list, tuple, np.ndarray))):
            raise TypeError(
                f"Invalid type for initial value: {type(value).__name__}. Expected Python scalar, list or tuple of values, "
                "or numpy.ndarray."
            )
        super().__init__(value)

    def __call__(self, shape: Any, dtype: Any = None, **kwargs: Any) -> Tensor:
        return constant(self.value, dtype, as_shape(shape))


class _DrawsEachCall:
    """A mixin for initializers that return other numbers at each call if they have no seed."""

    def _default_seed(self) -> None:
        """Returns None: no seed is drawn when the initializer is created."""
        return None


@export("random_normal_initializer")
class RandomNormal(_DrawsEachCall, keras_initializers.RandomNormal):
    """An initializer of normal numbers; without a seed each call returns others.

    >>> import tvtf as tf
    >>> tf.random_normal_initializer(stddev=1.0, seed=1)((3,)).shape
    TensorShape([3])

    Raises:
      ValueError: the dtype is not floating.

    Source: https://www.tensorflow.org/api_docs/python/tf/random_normal_initializer
    """

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        """Draws normal numbers: with a seed the same numbers at each call, without one other numbers."""
        result_dtype = as_dtype(dtype)
        if not result_dtype.is_floating:
            raise ValueError(f"Argument `dtype` is expected to be floating point. Received: {result_dtype}.")
        if self._given is None:
            return normal(shape, self.mean, self.stddev, result_dtype)
        return random.stateless_normal(shape, [self._given, 0], self.mean, self.stddev, result_dtype)


@export("random_uniform_initializer")
class RandomUniform(_DrawsEachCall, keras_initializers.RandomUniform):
    """An initializer of uniform numbers in [minval, maxval); without a seed each call returns others.

    >>> import tvtf as tf
    >>> tf.random_uniform_initializer(seed=1)((3,)).shape
    TensorShape([3])

    Raises:
      ValueError: the dtype is string or bool.

    Source: https://www.tensorflow.org/api_docs/python/tf/random_uniform_initializer
    """

    def __call__(self, shape: Any, dtype: Any = float32, **kwargs: Any) -> Tensor:
        """Draws uniform numbers: with a seed the same numbers at each call, without one other numbers."""
        result_dtype = _numeric_dtype(dtype)
        if self._given is None:
            return uniform(shape, self.minval, self.maxval, result_dtype)
        return random.stateless_uniform(shape, [self._given, 0], self.minval, self.maxval, result_dtype)


# The names that these classes had: files of pickled objects have them.
ZerosInitializer, OnesInitializer, ConstantInitializer = Zeros, Ones, Constant
RandomNormalInitializer, RandomUniformInitializer = RandomNormal, RandomUniform
