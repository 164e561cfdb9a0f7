"""Which dtype NumPy would give, and arrays made of whatever NumPy takes."""

from __future__ import annotations

import numbers
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType

tf: Any = sys.modules["tvtf"]
"""Public functions are given to it when it is imported: checkers don't see them."""
MOST_DIMS = 32


class preference:  # noqa: N801 - the one place where it is kept
    """What Python's floats are taken for."""

    is_float32 = False


def numpy_like(*names: str, shows: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a function NumPy's names in ``tf.experimental.numpy``, and a docstring that holds it against NumPy's.

    Args:
      names: NumPy's; the first is in the docstring.
      shows: arguments of a call that gives what NumPy's gives; none where the function has a docstring of its own.
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
    """The dtype that NumPy gives tensors, arrays, Python numbers and dtypes together."""
    flat = tf.nest.flatten(list(values))
    return tf.as_dtype(np.result_type(*map(_typed, flat)) if flat else np.dtype("float64"))


def _typed(value: Any) -> Any:
    if preference.is_float32 and isinstance(value, (float, complex)):
        return np.complex64(value) if isinstance(value, complex) else np.float32(value)
    if isinstance(value, numbers.Real):
        return value
    if isinstance(value, DType):
        return value.as_numpy_dtype
    return value.dtype.as_numpy_dtype if tf.is_tensor(value) else value


@numpy_like("result_type")
def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of what NumPy computes from these.

    >>> import numpy as np, tvtf as tf
    >>> tf.experimental.numpy.result_type(np.int32, tf.float32)
    tf.float64

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/result_type
    """
    return result_dtype(*arrays_and_dtypes)


@numpy_like("promote_types")
def promote_types(type1: Any, type2: Any) -> np.dtype:
    """The smallest of NumPy's dtypes that both can be cast to.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.promote_types(tf.int8, tf.uint8)
    dtype('int16')

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/promote_types
    """
    return np.promote_types(tf.as_dtype(type1).as_numpy_dtype, tf.as_dtype(type2).as_numpy_dtype)


@numpy_like("finfo")
def finfo(dtype: Any) -> np.finfo:
    """What a dtype of floats can hold.

    >>> import tvtf as tf
    >>> tf.experimental.numpy.finfo(tf.float32).bits
    32

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/numpy/finfo
    """
    return np.finfo(tf.as_dtype(dtype).as_numpy_dtype)


def float_dtype() -> DType:
    """What NumPy's ``float`` is."""
    return result_dtype(float)


def wanted(dtype: Any) -> DType | None:
    return result_dtype(dtype) if dtype else None


def dtype_of(value: Any, dtype: Any = None) -> DType:
    """A dtype asked for, or else the one that NumPy gives the value."""
    if dtype:
        return result_dtype(dtype)
    return tf.string if isinstance(value, (str, bytes)) else result_dtype(value)


def dims_of(shape: Any) -> Any:
    """A shape, which may be given as a range."""
    return list(shape) if isinstance(shape, range) else shape


def to_tensor(value: Any, dtype: Any = None) -> Tensor:
    """A tensor of what NumPy takes for an array, in the dtype that NumPy gives it."""
    value = np.asarray(value) if isinstance(value, range) else value
    if isinstance(value, Tensor):
        return tf.cast(value, dtype) if dtype else value
    target = dtype_of(value, dtype)
    return tf.cast(_converted(value, target), target)


def _converted(value: Any, hint: DType) -> Tensor:
    if isinstance(value, int) and value >= 1 << 63:
        return tf.convert_to_tensor(value, tf.uint64)
    return tf.convert_to_tensor(value, dtype_hint=hint)


def together(*values: Any) -> list[Tensor]:
    """Tensors of the one dtype that NumPy computes in."""
    dtype = result_dtype(*values)
    return [to_tensor(value, dtype) for value in values]


def is_inexact(x: Tensor) -> bool:
    return x.dtype.is_floating or x.dtype.is_complex


def in_floats(x: Any) -> Tensor:
    x = to_tensor(x)
    return x if is_inexact(x) else tf.cast(x, float_dtype())


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """Tensors of the one shape that all broadcast to."""
    if len(tensors) < 2:
        return list(tensors)
    shape = tf.shape(tensors[0])
    for tensor in tensors[1:]:
        shape = tf.broadcast_dynamic_shape(shape, tf.shape(tensor))
    return [tf.broadcast_to(tensor, shape) for tensor in tensors]


def axis_of(axis: int, rank: int) -> int:
    return axis + rank if axis < 0 else axis


@numpy_like("array", shows="[[1, 2.5]], ndmin=3")
def array(val: Any, dtype: Any = None, copy: bool = True, ndmin: int = 0) -> Tensor:
    if ndmin > MOST_DIMS:
        raise ValueError(f"ndmin bigger than allowable number of dimensions: {MOST_DIMS}.")
    x = to_tensor(val, wanted(dtype))
    x = tf.identity(x) if copy else x
    lacking = ndmin - x.ndim
    return tf.reshape(x, tf.concat([[1] * lacking, tf.shape(x)], 0)) if lacking > 0 else x


@numpy_like("asarray", "asanyarray", shows="[1, 2]")
def asarray(a: Any, dtype: Any = None) -> Tensor:
    return to_tensor(a, wanted(dtype))


@numpy_like("ascontiguousarray", shows="1.5")
def ascontiguousarray(a: Any, dtype: Any = None) -> Tensor:
    return array(a, dtype, ndmin=1)


@numpy_like("copy", shows="[1, 2]")
def copy(a: Any) -> Tensor:
    return array(a)
