"""``tf.compat``: conversions of Python's strings, types of its numbers; and ``tf.get_logger``."""

from __future__ import annotations

import logging
import numbers
import os
from typing import Any

import numpy as np

from tvtf.core.log import logger
from tvtf.core.primitive import export, exports
from tvtf.core.shape import TensorShape
from tvtf.core.v1_dimension import Dimension

exports["compat.integral_types"] = (numbers.Integral, np.integer)
exports["compat.real_types"] = (numbers.Real, np.integer, np.floating)
exports["compat.complex_types"] = (numbers.Complex, np.number)
exports["compat.bytes_or_text_types"] = (bytes, str)


@export("compat.as_bytes")
def as_bytes(bytes_or_text: Any, encoding: str = "utf-8") -> bytes:
    """Encodes a string as bytes. Bytes are returned unchanged.

    Raises:
      TypeError: the argument is neither a string nor bytes.

    >>> import tvtf as tf
    >>> tf.compat.as_bytes("a")
    b'a'

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/as_bytes
    """
    if isinstance(bytes_or_text, (bytearray, bytes)):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


@export("compat.as_text", "compat.as_str")
def as_text(bytes_or_text: Any, encoding: str = "utf-8") -> str:
    """Decodes bytes to a string. A string is returned unchanged.

    Raises:
      TypeError: the argument is neither a string nor bytes.

    >>> import tvtf as tf
    >>> tf.compat.as_text(b"a"), tf.compat.as_str("a")
    ('a', 'a')

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/as_text
    """
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise TypeError(f"Expected binary or unicode string, got {bytes_or_text!r}")


@export("compat.as_str_any")
def as_str_any(value: Any, encoding: str = "utf-8") -> str:
    """Converts any value to a string. Bytes are decoded; other values are converted by ``str``.

    >>> import tvtf as tf
    >>> tf.compat.as_str_any(b"a"), tf.compat.as_str_any(1)
    ('a', '1')

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/as_str_any
    """
    return as_text(value, encoding) if isinstance(value, bytes) else str(value)


@export("compat.path_to_str")
def path_to_str(path: Any) -> Any:
    """Converts an ``os.PathLike`` object to a string. Other values are returned unchanged.

    >>> import tvtf as tf
    >>> tf.compat.path_to_str("a/b")
    'a/b'

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/path_to_str
    """
    return as_str_any(path.__fspath__()) if isinstance(path, os.PathLike) else path


@export("compat.dimension_value")
def dimension_value(dimension: Any) -> Any:
    """Returns a dim of a shape unchanged.

    TensorFlow 1 has a class of dims, whose value this function returns. In tvtf every dim is an int or None already.

    >>> import tvtf as tf
    >>> tf.compat.dimension_value(tf.TensorShape([3])[0])
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/dimension_value
    """
    return dimension


@export("compat.dimension_at_index")
def dimension_at_index(shape: TensorShape, index: int) -> Dimension:
    """Returns the ``Dimension`` at an index of a shape. It is unknown if the rank is unknown.

    >>> import tvtf as tf
    >>> tf.compat.dimension_at_index(tf.TensorShape([1, None]), 1)
    Dimension(None)

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/dimension_at_index
    """
    return Dimension(None) if shape.rank is None else Dimension(shape[index])


@export("compat.forward_compatible")
def forward_compatible(year: int, month: int, day: int) -> bool:
    """Returns True: tvtf has no forward-compatibility windows.

    Raises:
      TypeError: an argument is not an int.

    >>> import tvtf as tf
    >>> tf.compat.forward_compatible(2020, 1, 1)
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/forward_compatible
    """
    # TensorFlow packs a date into these bits, and raises TypeError for arguments that are not ints.
    year << 9 | month << 5 | day
    return True


@export("get_logger")
def get_logger() -> logging.Logger:
    """Returns the logger of tvtf's warnings, which has TensorFlow's name.

    >>> import tvtf as tf
    >>> tf.get_logger().name
    'tensorflow'

    Source: https://www.tensorflow.org/api_docs/python/tf/get_logger
    """
    return logger
