"""``tf.io.parse_tensor``: decodes a tensor whose rank is known only from its bytes."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.tensor import Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.host.python_call import traced
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.strings import raw
from tvtf.ops.strings.rules import text


@export("io.parse_tensor")
@attributes(out_type=one_of())
def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """Decodes a tensor that ``tf.io.serialize_tensor`` wrote.

    In a ``tf.function`` its rank is unknown until a call returns it, as with ``tf.py_function``; ``tf.ensure_shape``
    declares it. Such a function runs only in the process that traced it.

    Args:
      serialized: a string scalar.
      out_type: the dtype of the tensor in it.
      name: accepted.

    Raises:
      InvalidArgumentError: the tensor's dtype is not ``out_type``, the bytes are damaged, or ``serialized`` is not a
        scalar.

    >>> import tvtf as tf
    >>> tf.io.parse_tensor(tf.io.serialize_tensor("a"), tf.string).numpy()
    b'a'
    >>> pairs = tf.data.Dataset.from_tensor_slices([[1, 2], [3, 4]]).map(tf.io.serialize_tensor)
    >>> list(pairs.map(lambda x: tf.io.parse_tensor(x, tf.int32)).as_numpy_iterator())
    [array([1, 2], dtype=int32), array([3, 4], dtype=int32)]

    Source: https://www.tensorflow.org/api_docs/python/tf/io/parse_tensor
    """
    if state.trace is None:
        return raw.parse_tensor(serialized, out_type)  # type: ignore[no-any-return]

    dtype = as_dtype(out_type)

    def parsed(array: np.ndarray) -> tuple[np.ndarray, ...]:
        """Decodes the bytes when the program runs. Returns a tuple, as a call of Python may have several results."""
        try:
            return (raw.parsed(array, dtype),)
        except ArgumentError as error:
            raise InvalidArgumentError(None, "ParseTensor", error.message) from None

    return traced(parsed, [text(serialized)], [TensorSpec(None, dtype)])[0]
