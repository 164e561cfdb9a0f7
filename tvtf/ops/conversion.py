"""``tf.convert_to_tensor``: a value of Python, NumPy or eager code as a tensor of the program that is being traced."""

from __future__ import annotations

from typing import Any

from tvtf.core import tensor
from tvtf.core.primitive import export

__all__ = ["convert_to_tensor"]


@export("convert_to_tensor", waits=False)
def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> tensor.Tensor:
    """Converts a Python number or nested list, a NumPy array, a Variable or a tensor to a tensor.

    Python ints become int32, floats float32, unless ``dtype`` or ``dtype_hint`` is given. ``dtype`` is required of the
    result; ``dtype_hint`` is ignored where the value doesn't fit it. In a ``tf.function`` the result is symbolic; an
    eager tensor's is the same object each time.

    >>> import tvtf as tf
    >>> tf.convert_to_tensor([1.5, 2])
    <tf.Tensor: shape=(2,), dtype=float32, numpy=array([1.5, 2. ], dtype=float32)>

    Raises:
      ValueError: ``value`` is a tensor whose dtype is not ``dtype``, a ragged list, or an int that does not fit.
      TypeError: ``value`` can't have the dtype.

    Source: https://www.tensorflow.org/api_docs/python/tf/convert_to_tensor
    """
    return tensor.convert_to_tensor(value, dtype, dtype_hint, name)
