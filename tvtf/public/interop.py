"""Exchanges tensors with other libraries: DLPack capsules, and TensorFlow's ``TensorProto`` messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export, exports
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype


@export("experimental.dlpack.to_dlpack")
def to_dlpack(tf_tensor: Any) -> Any:
    """Returns a DLPack capsule that shares the tensor's memory.

    >>> import tvtf as tf
    >>> tf.experimental.dlpack.from_dlpack(tf.experimental.dlpack.to_dlpack(tf.constant([1, 2]))).numpy()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dlpack/to_dlpack
    """
    return convert_to_tensor(tf_tensor).__dlpack__()


@export("experimental.dlpack.from_dlpack")
def from_dlpack(dlcapsule: Any) -> Tensor:
    """Returns a tensor that shares the memory of a DLPack capsule, or of an object with ``__dlpack__``.

    >>> import numpy as np, tvtf as tf
    >>> tf.experimental.dlpack.from_dlpack(np.arange(3.)).numpy()
    array([0., 1., 2.])

    Source: https://www.tensorflow.org/api_docs/python/tf/experimental/dlpack/from_dlpack
    """
    return EagerTensor(np.from_dlpack(dlcapsule if hasattr(dlcapsule, "__dlpack__") else _Capsule(dlcapsule)))


class _Capsule:
    """Wraps a DLPack capsule of CPU memory in an object with the methods that ``numpy.from_dlpack`` calls."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # DLPack's type kDLCPU, device 0


@export("make_tensor_proto")
def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> Any:
    """Converts values to a ``TensorProto`` message. A single value is repeated to fill ``shape``.

    >>> import tvtf as tf
    >>> tf.make_ndarray(tf.make_tensor_proto([[1, 2]]))
    array([[1, 2]], dtype=int32)

    Raises:
      TypeError: ``verify_shape`` is set, and the values' shape is not ``shape``.
      ValueError: the values can't be reshaped or broadcast to ``shape``.

    Source: https://www.tensorflow.org/api_docs/python/tf/make_tensor_proto
    """
    from tvtf.ops.strings.tensor_proto import TensorProto, written

    array = convert_to_tensor(values, dtype).numpy()
    if shape is not None:
        array = _with_shape(np.asarray(array), tuple(int(size) for size in shape), verify_shape, allow_broadcast)
    return TensorProto.FromString(written(np.asarray(array)))


def _with_shape(array: np.ndarray, shape: tuple[int, ...], verify_shape: bool, allow_broadcast: bool) -> np.ndarray:
    """Converts an array to a shape for ``tf.make_tensor_proto``.

    With ``allow_broadcast`` the array is broadcast, otherwise reshaped. A single element is always broadcast.

    Raises:
      TypeError: ``verify_shape`` is set, and the array's shape is not ``shape``.
      ValueError: the array can't be broadcast or reshaped to this shape.
    """
    if array.shape == shape:
        return array
    if verify_shape:
        raise TypeError(f"Expected Tensor's shape: {shape}, but got {array.shape}.")
    if allow_broadcast or array.size == 1:
        # As a scalar, a single element can be broadcast to a shape of any rank.
        return np.broadcast_to(array.reshape(array.shape if allow_broadcast else ()), shape)
    return array.reshape(shape)


@export("make_ndarray")
def make_ndarray(tensor: Any) -> np.ndarray:
    """Converts a ``TensorProto`` message, of tvtf or TensorFlow, to a NumPy array.

    >>> import tvtf as tf
    >>> tf.make_ndarray(tf.make_tensor_proto(2.5, shape=[2]))
    array([2.5, 2.5], dtype=float32)

    Raises:
      TypeError: the message's dtype has no array type.

    Source: https://www.tensorflow.org/api_docs/python/tf/make_ndarray
    """
    from tvtf.ops.strings.tensor_proto import read

    return read(tensor.SerializeToString(), as_dtype(tensor.dtype))


TensorLike = Tensor | np.ndarray | np.generic | bool | int | float | complex | str | bytes | list | tuple
"""The type of arguments that are converted to tensors, for annotations."""
exports["types.experimental.TensorLike"] = TensorLike
