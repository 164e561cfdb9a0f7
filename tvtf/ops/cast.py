"""Changes of dtype: cast, saturate_cast, bitcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.primitive import Sample, export, exports, primitive
from tvtf.core.shape import TensorType, same_dim, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import COMPILED, FLOAT8, DType, as_dtype, float32
from tvtf.errors import UnimplementedError
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.rules import bind, draw, kernel, number

_TENSORFLOW = {"float32": "float", "float64": "double", "float16": "half"}


for _dtype in FLOAT8:
    exports[f"dtypes.experimental.{_dtype.name}"] = exports[f"experimental.{_dtype.name}"] = _dtype


def _cast_type(x: TensorType, *, dtype: DType) -> TensorType:
    if (x.dtype.kind == "s") != (dtype.kind == "s"):
        source, target = (_TENSORFLOW.get(d.name, d.name) for d in (x.dtype, dtype))
        raise UnimplementedError(None, "Cast", f"Cast {source} to {target} is not supported [Op:Cast]")
    return TensorType(x.shape, dtype)


def _cast_numpy(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    """Casts as TensorFlow: complex numbers lose their imaginary part, and floats are truncated to integers."""
    if x.dtype.kind == "c" and not dtype.is_complex:
        x = x.real
    if dtype.is_integer and x.dtype.kind in "fV":
        return float_to_integer(x, dtype.np)
    return x.astype(dtype.np)


def float_to_integer(x: np.ndarray, target: np.dtype) -> np.ndarray:
    """Converts floats to integers as TensorFlow does on x86. NumPy's own result depends on the machine.

    Numbers are truncated towards 0 to int32, or to int64 for targets with values that int32 can't hold (uint32, int64);
    `_to_uint64` converts to uint64. Numbers that don't fit become the smallest integer.
    """
    float_dtype = np.float32 if x.dtype.itemsize <= 2 else x.dtype
    truncated = np.trunc(x.astype(float_dtype))
    if target == np.uint64:
        return _to_uint64(truncated)
    fits_int32 = target.itemsize < 4 or target == np.int32
    intermediate = np.int32 if fits_int32 else np.int64
    return _to_signed(truncated, intermediate).astype(target)


def _to_signed(values: np.ndarray, integer: Any) -> np.ndarray:
    """Converts whole floats to a signed integer dtype, those out of range to its smallest number."""
    low = np.iinfo(integer).min
    fits = (values >= float(low)) & (values < -float(low))
    return np.where(fits, np.where(fits, values, 0).astype(integer), integer(low))


def _to_uint64(values: np.ndarray) -> np.ndarray:
    """Converts whole floats to uint64: those of at least 2**63 in two parts, the others by way of int64."""
    high = (values >= 2.0**63) & (values < 2.0**64)
    upper = np.where(high, values - 2.0**63, 0).astype(np.int64).astype(np.uint64) + np.uint64(2**63)
    return np.where(high, upper, _to_signed(values, np.int64).astype(np.uint64))


def _cast_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, dtype: DType) -> Tensor | None:
    source = x._type.dtype
    return bind.cast(cotangent, dtype=source) if source.is_differentiable and dtype.is_differentiable else None


def _cast_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, dtype: DType) -> None:
    """Emits ONNX's Cast. To float8 it doesn't saturate: numbers too large become NaN or infinity, as in NumPy."""
    attributes = {"saturate": 0} if dtype in FLOAT8 else {}
    emitter.node("Cast", inputs, outputs, to=emitter.element(dtype), **attributes)


def _cast_samples() -> list[Sample]:
    """Returns test samples: casts of a matrix to each dtype, and of other shapes to float32."""
    shapes = ((3,), (), (2, 0), (2, 3))
    targets = [
        Sample((draw(0, (2, 3), -3, 3),), {"dtype": dtype}, COMPILED, gradient=dtype.is_floating) for dtype in COMPILED
    ]
    targets += [Sample((draw(0, (2, 3), -3, 3),), {"dtype": dtype}, (float32,), gradient=False) for dtype in FLOAT8[:2]]
    return targets + [
        Sample((draw(1, shape),), {"dtype": as_dtype("float32")}, COMPILED, gradient=False) for shape in shapes
    ]


@primitive(
    type=_cast_type,
    numpy=_cast_numpy,
    lower=kernel("scalar.cast"),
    vjp=_cast_vjp,
    batch=lambda size, inputs, batched, *, dtype: bind.cast(inputs[0], dtype=dtype),
    onnx=_cast_onnx,
    value=lambda x, *, dtype: x.known if dtype.is_integer else None,
    samples=_cast_samples,
    public=("cast", "dtypes.cast"),
)
def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts ``x`` to another dtype. Floats are truncated towards 0 to integers. Numbers other than 0 become True.

    Args:
      x: tensor of shape (...).
      dtype: the new dtype, or its name.

    Returns:
      A tensor of the same shape. Integers wrap around; NaN, infinities and floats beyond 32 bits (64 for int64, uint32
      and uint64) become that integer's smallest number, whose low bits stay. Complex numbers lose their imaginary part.

    Raises:
      TypeError: the dtype is unknown.
      UnimplementedError: strings would become numbers, or numbers strings.

    >>> import tvtf as tf
    >>> tf.cast([1.8, -2.2], tf.int32).numpy()
    array([ 1, -2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/cast
    """
    if isinstance(x, IndexedSlices):  # the error makes the caller try the handlers of composite tensors
        raise TypeError("IndexedSlices are cast by their values: see tvtf.ops.indexed_slices, which is tried next.")
    return (convert_to_tensor(x),), {"dtype": as_dtype(dtype)}


def cast_tensor(x: Tensor, dtype: Any) -> Tensor:
    """Casts ``x`` unless it has the dtype."""
    target = as_dtype(dtype)
    return x if x.dtype is target else bind.cast(x, dtype=target)


def defaulted(value: Any, allowed: Sequence[DType], default: DType, traced: Sequence[DType] = ()) -> Tensor:
    """Converts an op's input to a tensor. The dtype of Python and NumPy values becomes one that the op allows.

    While tracing, every Python value that can be converted gets the default dtype, as in TensorFlow's graphs.

    Args:
      value: the input. The dtype of a tensor is kept.
      allowed: the dtypes that a value may keep.
      default: the dtype of other values.
      traced: further dtypes that a NumPy value may keep while tracing.
    """
    if is_tensor(value):
        return convert_to_tensor(value)
    if state.trace is None:
        inferred = convert_to_tensor(value)
        if inferred.dtype in allowed:
            return inferred
    elif isinstance(value, (np.ndarray, np.generic)):
        own = convert_to_tensor(value)
        if own.dtype in (*allowed, *traced):
            return own
    return convert_to_tensor(value, dtype_hint=default)


@export("saturate_cast", "dtypes.saturate_cast")
def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Any:
    """Converts ``value`` to another dtype, clamped to its range.

    Args:
      value: real tensor of shape (...).
      dtype: the dtype to have, or its name.

    Returns:
      A tensor of the same shape.

    >>> import tvtf as tf
    >>> tf.saturate_cast([300., -5., 2.7], tf.uint8).numpy()
    array([255,   0,   2], dtype=uint8)

    Source: https://www.tensorflow.org/api_docs/python/tf/dtypes/saturate_cast
    """
    x = convert_to_tensor(value)
    target = as_dtype(dtype)
    if x.dtype.is_complex and not target.is_complex:
        x = bind.real(x)
    if not (x.dtype.is_integer or x.dtype.is_floating) or not (target.is_integer or target.is_floating):
        return cast_tensor(x, target)
    low, high = _bounds(x.dtype, target)
    if x.dtype.is_floating or low > x.dtype.min:  # infinities are out of any range
        x = bind.maximum(x, number(low, x))
    if x.dtype.is_floating or high < x.dtype.max:
        x = bind.minimum(x, number(high, x))
    return cast_tensor(x, target)


def _bounds(source: DType, target: DType) -> tuple[Any, Any]:
    """Returns the numbers of the source's dtype between which the target has numbers, too.

    A limit that rounding moved out of range is moved back in.
    """
    if not source.is_floating:
        return max(int(source.min), int(target.min)), min(int(source.max), int(target.max))
    low = source.np.type(max(float(source.min), float(target.min)))
    high = source.np.type(min(float(source.max), float(target.max)))
    if target.is_integer and int(high) > target.max:
        high = np.nextafter(high, source.np.type(0))
    return low, high


# -- the same bits


def _bitcast_type(x: TensorType, *, dtype: DType) -> TensorType:
    """Checks the dtypes and the last axis of a bitcast, and returns the type of the result.

    A narrower dtype adds a last axis, and a wider dtype removes the last axis. For example, int64 of shape ``(3,)``
    becomes int32 of shape ``(3, 2)``.
    """
    for each in (x.dtype, dtype):
        if not each.is_numeric:
            raise ArgumentError(
                f"Value for attr 'type' of {each.name} is not in the list of allowed values: numeric types", TypeError
            )
    old_size, new_size = x.dtype.size, dtype.size
    if old_size == new_size:
        return TensorType(x.shape, dtype)
    if old_size > new_size:
        return TensorType((*x.shape, old_size // new_size), dtype)
    ratio = new_size // old_size
    if not x.shape or not same_dim(x.shape[-1], ratio):
        pair = f"{x.dtype.as_datatype_enum} to {dtype.as_datatype_enum}"
        raise ArgumentError(f"Cannot bitcast from {pair}: the last dim of {show_shape(x.shape)} must be {ratio}")
    return TensorType(x.shape[:-1], dtype)


def _bitcast_numpy(x: np.ndarray, *, dtype: DType) -> np.ndarray:
    """Reinterprets the bytes of ``x`` as ``dtype``: a narrower dtype adds a last axis, a wider one removes it."""
    contiguous = np.ascontiguousarray(x).reshape(x.shape)
    if x.dtype.itemsize == dtype.np.itemsize:
        return contiguous.view(dtype.np)
    if x.dtype.itemsize > dtype.np.itemsize:
        return contiguous[..., None].view(dtype.np)
    return contiguous.view(dtype.np).reshape(x.shape[:-1])


def _bitcast_samples() -> list[Sample]:
    pairs = (("int32", "float32"), ("float32", "uint8"), ("bfloat16", "int16"), ("float64", "int32"))
    narrow = [Sample((draw(0, (2, 3)),), {"dtype": as_dtype(b)}, (as_dtype(a),), gradient=False) for a, b in pairs]
    wide = Sample((draw(0, (3, 4)),), {"dtype": as_dtype("float32")}, (as_dtype("uint8"),), gradient=False)
    return [*narrow, wide]


@primitive(
    type=_bitcast_type,
    numpy=_bitcast_numpy,
    lower=kernel("bits.bitcast"),
    vjp=lambda cotangent, y, x, *, dtype: None,
    batch=lambda size, inputs, batched, *, dtype: bind.bitcast(inputs[0], dtype=dtype),
    why_not={"onnx": "ONNX has no operator that reads or sets the bits of a float"},
    samples=_bitcast_samples,
    public=("bitcast",),
)
@attributes(type=one_of())
def bitcast(input: Any, type: Any, name: str | None = None) -> Any:
    """Reinterprets the bits of a tensor as another dtype.

    Args:
      input: numeric tensor of shape (...).
      type: the new dtype. A narrower dtype adds a last axis. A wider dtype removes the last axis.

    Returns:
      A tensor of that dtype, in the machine's order of bytes.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the last axis does not fill one element of the wider dtype.

    >>> import tvtf as tf
    >>> tf.bitcast(1., tf.int32).numpy()
    np.int32(1065353216)

    Source: https://www.tensorflow.org/api_docs/python/tf/bitcast
    """
    return (convert_to_tensor(input),), {"dtype": as_dtype(type)}
