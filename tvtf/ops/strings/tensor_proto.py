"""Serialization of tensors as TensorFlow's ``TensorProto``.

Source: ``tensorflow/core/framework/tensor.proto``
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from google.protobuf.message import DecodeError

from tvtf import dtypes
from tvtf.core.argument_error import ArgumentError
from tvtf.dtypes import DType, as_dtype, from_array
from tvtf.fileio.decode_limits import require_decodable
from tvtf.fileio.protobuf import declare

DECLARATIONS: Final = {
    "Dim": ("1 int64 size", "2 string name"),
    "TensorShapeProto": ("2 Dim* dim", "3 bool unknown_rank"),
    "TensorProto": (
        *("1 int32 dtype", "2 TensorShapeProto tensor_shape", "3 int32 version_number", "4 bytes tensor_content"),
        *("5 float* float_val", "6 double* double_val", "7 int32* int_val", "8 bytes* string_val"),
        *("9 float* scomplex_val", "10 int64* int64_val", "11 bool* bool_val", "12 double* dcomplex_val"),
        *("13 int32* half_val", "16 uint32* uint32_val", "17 uint64* uint64_val"),
    ),
}
"""The messages of a tensor, as `declare` takes them."""
TensorProto: Final = declare("tvtf.core.tensor", DECLARATIONS)["TensorProto"]
MOST_ELEMENTS: Final = 1 << 40
"""TensorFlow's limit of a tensor's elements, ``kMaxElements`` in ``tensor_shape.cc`` of its first versions."""

_FIELDS: Final = {
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "bool": "bool_val",
    "complex64": "scomplex_val",
    "complex128": "dcomplex_val",
    "float16": "half_val",
    "bfloat16": "half_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
}


def written(array: np.ndarray) -> bytes:
    """Serializes an array to the bytes of TensorFlow's protocol buffer message ``TensorProto``."""
    dtype = from_array(array)
    shape = {"dim": [{"size": size} for size in array.shape]}
    if dtype is dtypes.string:  # strings have no fixed size, so they can't be raw bytes
        content: dict[str, Any] = {"string_val": array.ravel().tolist()}
    else:
        content = {"tensor_content": np.ascontiguousarray(array).tobytes()}
    proto = TensorProto(dtype=dtype.as_datatype_enum, tensor_shape=shape, **content)
    return bytes(proto.SerializeToString(deterministic=True))


def read(data: bytes, expected: DType) -> np.ndarray:
    """Parses the bytes of a ``TensorProto`` to an array.

    Raises:
      ArgumentError: the bytes are not a valid message, the dtype is not ``expected``, the shape is invalid, or the number
        of values doesn't fit the shape.
    """
    try:
        proto = TensorProto.FromString(data)
    except DecodeError:
        raise ArgumentError("Could not parse `serialized` as TensorProto") from None
    dtype = _dtype(proto.dtype)
    if dtype is not expected:
        raise ArgumentError(f"Type mismatch between parsed tensor ({_name(dtype)}) and dtype ({_name(expected)})")
    shape = tuple(dim.size for dim in proto.tensor_shape.dim)
    # The sizes in the message may be any integers.
    is_valid = not proto.tensor_shape.unknown_rank and min(shape, default=0) >= 0 and math.prod(shape) <= MOST_ELEMENTS
    if not is_valid:
        raise ArgumentError("Could not construct tensor from proto: its shape is not the shape of a tensor")
    return _values(proto, expected, math.prod(shape)).reshape(shape)


def _dtype(number: int) -> DType | None:
    """Returns the dtype with a number of TensorFlow's ``DataType`` enum, or None for an unknown number."""
    try:
        return as_dtype(number)
    except TypeError:
        return None


def _name(dtype: DType | None) -> str:
    """Returns TensorFlow's name of a dtype in C++, for messages."""
    names = {"float32": "float", "float64": "double", "float16": "half"}
    return "invalid" if dtype is None else names.get(dtype.name, dtype.name)


def _values(proto: Any, dtype: DType, count: int) -> np.ndarray:
    """Returns the ``count`` values of a ``TensorProto`` message as a flat array.

    The message has them as raw bytes, or as a list of numbers in a field for the dtype.
    """
    if dtype is dtypes.string:
        return _repeated_to_count(np.array([*proto.string_val, None], object)[:-1], count, b"")
    if proto.tensor_content:
        if len(proto.tensor_content) != count * dtype.np.itemsize:
            raise ArgumentError(
                f"Could not construct tensor from proto: tensor_content has {len(proto.tensor_content)} bytes, but {count} elements of "
                f"{dtype.name} take {count * dtype.np.itemsize}"
            )
        return np.frombuffer(proto.tensor_content, dtype.np).copy()
    values = np.array(getattr(proto, _FIELDS.get(dtype.name, "int_val")))
    if dtype.name in ("float16", "bfloat16"):  # stored as integers with the bits of the numbers
        return _repeated_to_count(values.astype(np.uint16).view(dtype.np), count, 0)
    if dtype.is_complex:  # stored as real and imaginary parts in turn
        return _repeated_to_count(values.astype(dtype.real_dtype.np).view(dtype.np), count, 0)
    return _repeated_to_count(values.astype(dtype.np), count, 0)


def _repeated_to_count(values: np.ndarray, count: int, zero: Any) -> np.ndarray:
    """Extends the values of a ``TensorProto`` to ``count`` elements by copies of the last value, or of ``zero``.

    A message may leave out equal values at its end. As a few bytes can claim any count, the size is checked first.

    Raises:
      ResourceExhaustedError: the result is larger than may be decoded.
    """
    if len(values) > count:
        raise ArgumentError(f"Could not construct tensor from proto: it has {len(values)} values for {count} elements")
    require_decodable(count * values.itemsize, f"ParseTensor: a tensor of {count} elements")
    last = values[-1] if len(values) else zero
    repeated = np.empty(count - len(values), values.dtype)
    repeated[:] = last
    return np.concatenate([values, repeated])
