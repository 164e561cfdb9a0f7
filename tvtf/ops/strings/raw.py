"""decode_raw, base64, and serialize_tensor and parse_tensor in TensorFlow's protocol buffer."""

from __future__ import annotations

import base64
import binascii
from typing import Any

import numpy as np

from tvtf import dtypes
from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import TensorType
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import DType, as_dtype, string
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.rules import require_dtype
from tvtf.ops.strings.rules import each_text, like_text, mapped, text, text_op

RAW = (*dtypes.FLOATING, *dtypes.INTEGER, *dtypes.COMPLEX, dtypes.bool)


def _raw_type(x: TensorType, out_type: DType, little_endian: bool, fixed_length: int, count: Any) -> TensorType:
    """Returns the result type of `tf.io.decode_raw`: a new last axis has the ``count`` numbers of each string.

    Raises an error for inputs that are not strings.
    """
    require_dtype(x, (string,), "bytes")
    return TensorType((*x.shape, count), out_type)


def _decode_raw(array: np.ndarray, out_type: DType, little_endian: bool, fixed_length: int, count: Any) -> np.ndarray:
    """Computes `tf.io.decode_raw`: reinterprets the bytes of each string as numbers of ``out_type``.

    Args:
      array: the strings.
      out_type: the dtype of the numbers.
      little_endian: whether the numbers' lowest byte comes first.
      fixed_length: the length to which strings are cut or padded with zeros. If it is 0, all must have the same length.
      count: not used here. The type rule needs it, and all rules of the op receive it.
    """
    texts = array.ravel().tolist()
    size = fixed_length or (len(texts[0]) if texts else 0)
    for i, value in enumerate(texts):
        if not fixed_length and len(value) != size:
            raise ArgumentError(
                f"DecodeRaw requires input strings to all be the same size, but element {i} has size {len(value)} != {size}"
            )
    if size % out_type.np.itemsize:
        raise ArgumentError(
            f"Input to DecodeRaw has length {size} that is not a multiple of {out_type.np.itemsize}, the size of {out_type.name}"
        )
    data = b"".join(value[:size].ljust(size, b"\0") for value in texts)
    numbers = np.frombuffer(data, out_type.np).reshape(*array.shape, size // out_type.np.itemsize)
    return numbers.copy() if little_endian else numbers.byteswap()


@text_op(type=_raw_type, numpy=_decode_raw, public=("io.decode_raw",))
@attributes(little_endian=bool, out_type=one_of())
def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    """Decodes the bytes of each string as numbers: a tensor with one more axis.

    Args:
      input_bytes: string tensor, all strings of one length.
      out_type: the numbers' dtype.
      little_endian: the order of the bytes.
      fixed_length: cut or fill up strings to this many bytes.

    >>> import tvtf as tf
    >>> tf.io.decode_raw(tf.constant("Duck"), tf.uint8).numpy()
    array([ 68, 117,  99, 107], dtype=uint8)

    Raises:
      InvalidArgumentError: the strings' lengths differ, or are not a multiple of the dtype's size.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_raw
    """
    number_dtype = as_dtype(out_type)
    if number_dtype not in RAW:
        raise TypeError(
            f"Value passed to parameter 'out_type' has DataType {number_dtype.name} not in list of allowed values"
        )
    fixed_size = int(fixed_length or 0)
    count = fixed_size // number_dtype.np.itemsize if fixed_size else unknown_dim()
    attrs = {"out_type": number_dtype, "little_endian": bool(little_endian), "fixed_length": fixed_size, "count": count}
    return (text(input_bytes),), attrs


@text_op(
    type=like_text,
    numpy=each_text(
        lambda value, pad: base64.urlsafe_b64encode(value) if pad else base64.urlsafe_b64encode(value).rstrip(b"=")
    ),
    public=("io.encode_base64",),
)
@attributes(pad=bool)
def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Any:
    """Encodes each string in web-safe base64.

    >>> import tvtf as tf
    >>> tf.io.encode_base64("a?>").numpy()
    b'YT8-'

    Source: https://www.tensorflow.org/api_docs/python/tf/io/encode_base64
    """
    return (text(input),), {"pad": bool(pad)}


def _decode_base64(value: bytes) -> bytes:
    """Decodes web-safe base64, with or without padding, and raises an error for invalid characters."""
    unpadded = value.rstrip(b"=")
    try:
        # Python's decoder ignores invalid characters. One character more than a multiple of four is no whole byte.
        if unpadded.translate(None, _WEB_SAFE) or len(unpadded) % 4 == 1:
            raise ArgumentError("Invalid character found in base64.")
        # Python requires the padding
        return base64.urlsafe_b64decode(unpadded + b"=" * (-len(unpadded) % 4))
    except binascii.Error:
        raise ArgumentError("Invalid character found in base64.") from None


_WEB_SAFE = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@text_op(type=like_text, numpy=each_text(_decode_base64), public=("io.decode_base64",))
def decode_base64(input: Any, name: str | None = None) -> Any:
    """Decodes web-safe base64, padded or not.

    >>> import tvtf as tf
    >>> tf.io.decode_base64("YT8-").numpy()
    b'a?>'

    Raises:
      InvalidArgumentError: a string is not valid base64.

    Source: https://www.tensorflow.org/api_docs/python/tf/io/decode_base64
    """
    return (text(input),), {}


# -- TensorProto


def _serialized(array: np.ndarray) -> np.ndarray:
    """Serializes an array to the bytes of a ``TensorProto``, as a string scalar."""
    from tvtf.ops.strings.tensor_proto import written

    return np.array(written(array), object)


@host_primitive(
    type=lambda x: TensorType((), string),
    numpy=_serialized,
    public=("io.serialize_tensor",),
)
def serialize_tensor(tensor: Any, name: str | None = None) -> Any:
    """Serializes a tensor as the bytes of TensorFlow's ``TensorProto``, a string scalar.

    >>> import tvtf as tf
    >>> tf.io.parse_tensor(tf.io.serialize_tensor([1, 2]), tf.int32).numpy()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/io/serialize_tensor
    """
    return (convert_to_tensor(tensor),), {}


def parsed(array: np.ndarray, out_type: DType, shape: Any = ()) -> np.ndarray:
    """Parses a serialized scalar string to an array of ``out_type``."""
    from tvtf.ops.strings.tensor_proto import read

    if array.ndim:
        raise ArgumentError(f"Expected `serialized` to be a scalar, got shape: [{','.join(map(str, array.shape))}]")
    return read(array.item(), out_type)


def _parse_type(x: TensorType, out_type: DType, shape: Any) -> TensorType:
    """Returns the result type of parsing a tensor, from the attributes. Raises an error if the input is no string."""
    require_dtype(x, (string,), "serialized")
    return TensorType(tuple(shape), out_type)


@text_op(type=_parse_type, numpy=parsed)
def parse_tensor(serialized: Any, out_type: Any) -> Any:
    """Parses what ``tf.io.serialize_tensor`` wrote, eagerly: the rank is known only from the bytes."""
    return (text(serialized),), {"out_type": as_dtype(out_type), "shape": ()}


__all__ = ["decode_base64", "decode_raw", "encode_base64", "mapped", "parse_tensor", "serialize_tensor"]
