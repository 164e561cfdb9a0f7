"""Changes of element type: cast, saturating cast, reinterpretation of bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import COMPILED, DType, as_dtype
from tvtf.errors import UnimplementedError
from tvtf.ops.rules import bind, draw, kernel
from tvtf.primitive import Sample, hooks, primitive
from tvtf.shape import TensorType
from tvtf.tensor import Tensor, convert_to_tensor

_TENSORFLOW = {"float32": "float", "float64": "double", "float16": "half"}


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    if (x.dtype.kind == "s") != (dtype.kind == "s"):
        source, target = (_TENSORFLOW.get(d.name, d.name) for d in (x.dtype, dtype))
        raise UnimplementedError(None, "Cast", f"Cast {source} to {target} is not supported [Op:Cast]")
    return TensorType(x.shape, dtype)


def _cast_numpy(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = x.real
    if dtype.is_integer and x.dtype.kind in "fV":
        return float_to_integer(x, dtype.np)
    return x.astype(dtype.np)


def float_to_integer(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Truncation towards 0 through int32, or int64 for wider targets; what does not fit that is its smallest number.

    It is what x86 converts to, and TensorFlow there; NumPy leaves it to the machine.
    """
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    values = np.trunc(x.astype(wide))
    if target == np.uint64:
        return _to_uint64(values)
    return _within(values, np.int32 if target.itemsize < 4 or target == np.int32 else np.int64).astype(target)


def _within(values: np.ndarray, integer: Any) -> np.ndarray:
    low = np.iinfo(integer).min
    fits = (values >= float(low)) & (values < -float(low))
    return np.where(fits, np.where(fits, values, 0).astype(integer), integer(low))


def _to_uint64(values: np.ndarray) -> np.ndarray:
    high = (values >= 2.0**63) & (values < 2.0**64)
    upper = np.where(high, values - 2.0**63, 0).astype(np.int64).astype(np.uint64) + np.uint64(2**63)
    return np.where(high, upper, _within(values, np.int64).astype(np.uint64))


def _cast_vjp(ct: Tensor, y: Tensor, x: Tensor, *, dtype: DType) -> Tensor | None:
    source = x._type.dtype
    return bind.cast(ct, dtype=source) if source.is_differentiable and dtype.is_differentiable else None


def _cast_samples() -> list[Sample]:
    shapes = ((3,), (), (2, 0), (2, 3))
    targets = [Sample((draw(0, (2, 3), -3, 3),), {"dtype": d}, COMPILED, gradient=d.is_floating) for d in COMPILED]
    return targets + [Sample((draw(1, s),), {"dtype": as_dtype("float32")}, COMPILED, gradient=False) for s in shapes]


@primitive(
    type=_cast_type,
    numpy=_cast_numpy,
    lower=kernel("scalar.cast"),
    vjp=_cast_vjp,
    batch=lambda size, inputs, batched, *, dtype: bind.cast(inputs[0], dtype=dtype),
    onnx=lambda e, inputs, outputs, types, *, dtype: e.node("Cast", inputs, outputs, to=_element(dtype)),
    value=lambda x, *, dtype: x.known if dtype.is_integer else None,
    samples=_cast_samples,
    public=("cast", "dtypes.cast"),
)
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """``x`` in another dtype: floats truncate towards 0 to integers, numbers are True where they are not 0.

    Args:
      x: tensor of shape (...).
      dtype: the dtype to have, or its name.

    Returns:
      A tensor of the same shape. Integers wrap around; NaN, infinities and floats beyond 32 bits (64 for int64, uint32
      and uint64) become that integer's smallest number, whose low bits stay. Complex numbers lose their imaginary part.

    Raises:
      TypeError: for an unknown dtype.
      UnimplementedError: between strings and numbers.

    >>> import tvtf as tf
    >>> tf.cast([1.8, -2.2], tf.int32).numpy()
    array([ 1, -2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/cast
    """
    return (convert_to_tensor(x),), {"dtype": as_dtype(dtype)}


def _element(dtype: DType) -> int:
    from tvtf.onnx.standard import ELEMENT

    return ELEMENT[dtype]


def cast_tensor(x: Tensor, dtype: Any) -> Tensor:
    """``x`` itself where it has the dtype, else cast."""
    target = as_dtype(dtype)
    return x if x.dtype is target else bind.cast(x, dtype=target)


hooks.cast = cast_tensor
