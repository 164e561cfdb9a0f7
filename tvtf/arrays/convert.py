"""Computes the dtypes that NumPy would return, and converts arguments as NumPy does."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.arrays.promotion import promoted, setting
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType

tf: Any = sys.modules["tvtf"]
"""Typed as Any because the public functions are added when tvtf is imported, so that type checkers don't see them."""
MAX_DIMS = 32


class preference:  # noqa: N801 - a namespace for one setting
    """Whether Python's floats are float32."""

    is_float32 = False


def numpy_like(*names: str, shows: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Exports a function under NumPy's names in ``tf.experimental.numpy``, with a docstring that compares it with NumPy.

    Args:
      names: NumPy's names; the docstring shows the first one.
      shows: the arguments of a call whose result equals NumPy's; empty if the function has its own docstring.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__name__ = function.__qualname__ = names[0].rpartition(".")[2]
        if shows:
            function.__doc__ = _DOC.format(name=names[0], shows=shows, summary=function.__doc__ or "")
        return export(*(f"experimental.numpy.{name}" for name in names))(function)

    return declare


_DOC = """NumPy's ``{name}`` on tensors. {summary}

    >>> import numpy as np, tvtf as tf
    >>> np.testing.assert_allclose(tf.experimental.numpy.{name}({shows}), np.{name}({shows}))

    Sources: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/{name},
    https://numpy.org/doc/stable/reference/generated/numpy.{name}.html
    """


def result_dtype(*values: Any) -> DType:
    """Returns the dtype of the result of an operation on tensors, arrays, Python numbers and dtypes.

    In the promotion modes "safe" and "all" it is the one of TensorFlow's table (see ``promotion.py``), else NumPy's.
    """
    from_table = promoted(*values) if setting.mode else None
    return _numpy_dtype(*values) if from_table is None else from_table.dtype


def _numpy_dtype(*values: Any) -> DType:
    flat = tf.nest.flatten(list(values))
    return tf.as_dtype(np.result_type(*map(_promotion_operand, flat)) if flat else np.dtype("float64"))


def _promotion_operand(value: Any) -> Any:
    """Converts a value to an operand of ``np.result_type``: a number, a NumPy dtype or an array.

    With ``prefer_float32``, Python's floats count as float32, and its complex numbers as complex64. This includes
    np.float64 and np.complex128, which are subclasses, as in TensorFlow's ``np_dtypes``.
    """
    if preference.is_float32 and isinstance(value, complex):
        return np.complex64(value)
    if preference.is_float32 and isinstance(value, float):
        return np.float32(value)
    if isinstance(value, numbers.Real):
        return value
    if isinstance(value, DType):
        return value.as_numpy_dtype
    if tf.is_tensor(value):
        return tf.as_dtype(value.dtype).as_numpy_dtype  # a Keras Variable has the name of its dtype
    return value  # NumPy itself handles arrays, complex numbers and its dtypes.


@numpy_like("result_type")
def result_type(*arrays_and_dtypes: Any) -> DType:
    """Returns the dtype of the result of an operation on the arguments.

    >>> import numpy as np, tvtf as tf
    >>> tf.experimental.numpy.result_type(np.int32, tf.float32)
    tf.float64

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/result_type
    """
    return result_dtype(*arrays_and_dtypes)


@numpy_like("promote_types")
def promote_types(type1: Any, type2: Any) -> np.dtype:
    """Returns the smallest of NumPy's dtypes to which both can be cast safely.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.promote_types(tf.int8, tf.uint8)
    dtype('int16')

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/promote_types
    """
    return np.promote_types(tf.as_dtype(type1).as_numpy_dtype, tf.as_dtype(type2).as_numpy_dtype)


@numpy_like("finfo")
def finfo(dtype: Any) -> np.finfo:
    """Returns the limits of a floating-point dtype.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.finfo(tf.float32).bits
    32

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/finfo
    """
    return np.finfo(tf.as_dtype(dtype).as_numpy_dtype)


def float_dtype() -> DType:
    """Returns the dtype of Python's ``float``."""
    return result_dtype(float)


def int_dtype() -> DType:
    """Returns the dtype of Python's ``int``."""
    return result_dtype(int)


def requested_dtype(dtype: Any) -> DType | None:
    """Converts the argument ``dtype`` of a function to a DType. Returns None if none was requested."""
    return result_dtype(dtype) if dtype else None


def dtype_of(value: Any, dtype: Any = None) -> DType:
    """Returns the requested dtype, or else the one that NumPy gives the value."""
    if dtype:
        return result_dtype(dtype)
    return tf.string if isinstance(value, (str, bytes)) else result_dtype(value)


def range_as_list(shape: Any) -> Any:
    """Converts a shape or axes given as a ``range`` to a list. Returns others unchanged."""
    return list(shape) if isinstance(shape, range) else shape


def to_tensor(value: Any, dtype: Any = None) -> Tensor:
    """Converts anything that NumPy accepts as an array to a tensor, in NumPy's dtype."""
    value = np.asarray(value) if isinstance(value, range) else value
    if isinstance(value, Tensor):
        return tf.cast(value, dtype) if dtype else value
    target_dtype = dtype_of(value, dtype)
    return tf.cast(_converted(value, target_dtype), target_dtype)


def _converted(value: Any, dtype_hint: DType) -> Tensor:
    # Such an int doesn't fit into int64.
    if isinstance(value, int) and value >= 1 << 63:
        return tf.convert_to_tensor(value, tf.uint64)
    return tf.convert_to_tensor(value, dtype_hint=dtype_hint)


def to_common_dtype(*values: Any) -> list[Tensor]:
    """Converts the operands of a function to tensors of the dtype in which NumPy computes it."""
    dtype = _numpy_dtype(*values)
    return [to_tensor(value, dtype) for value in values]


def is_inexact(x: Tensor) -> bool:
    return x.dtype.is_floating or x.dtype.is_complex


def to_inexact(x: Any) -> Tensor:
    """Converts a value to a tensor of a floating or complex dtype."""
    x = to_tensor(x)
    return x if is_inexact(x) else tf.cast(x, float_dtype())


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """Broadcasts tensors to their common shape.

    Shapes may be known only at run time.
    """
    if len(tensors) < 2:
        return list(tensors)
    shape = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(tensor))
    return [tf.broadcast_to(tensor, shape) for tensor in tensors]


def nonnegative_axis(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


@numpy_like("array", shows="[[1, 2.5]], ndmin=3")
def array(val: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    if ndmin > MAX_DIMS:
        raise ValueError(f"ndmin bigger than allowable number of dimensions: {MAX_DIMS}.")
    x = to_tensor(val, requested_dtype(dtype))
    x = tf.identity(x) if copy else x
    missing_dims = ndmin - x.ndim
    return tf.reshape(x, tf.concat([[1] * missing_dims, tf.shape(x)], 0)) if missing_dims > 0 else x


@numpy_like("asarray", "asanyarray", shows="[1, 2]")
def asarray(a: Any, dtype: Any = None) -> Tensor:
    return to_tensor(a, requested_dtype(dtype))


@numpy_like("ascontiguousarray", shows="1.5")
def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    return array(a, dtype, ndmin=1)


@numpy_like("copy", shows="[1, 2]")
def copy(a: Any) -> Tensor:
    return array(a)
