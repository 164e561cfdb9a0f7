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
    """Wraps a capsule of CPU memory in the object that NumPy expects."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@export("make_tensor_proto")
def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> Any:
    """Converts values to a ``TensorProto`` message; a scalar fills ``shape``.

    >>> import tvtf as tf
    >>> tf.make_ndarray(tf.make_tensor_proto([[1, 2]]))
    array([[1, 2]], dtype=int32)

    Raises:
      TypeError, ValueError: the values' shape differs and ``verify_shape`` is set, or they don't fit into ``shape``.

    Source: https://www.tensorflow.org/api_docs/python/tf/make_tensor_proto
    """
    from tvtf.ops.strings.tensor_proto import TensorProto, written

    array = convert_to_tensor(values, dtype).numpy()
    if shape is not None:
        array = _with_shape(np.asarray(array), tuple(int(d) for d in shape), verify_shape, allow_broadcast)
    return TensorProto.FromString(written(np.asarray(array)))


def _with_shape(array: np.ndarray, shape: tuple[int, ...], is_exact: bool, allow_broadcast: bool) -> np.ndarray:
    """Gives an array a shape: broadcasts a single element, or any array with ``allow_broadcast``, and reshapes others.

    Raises:
      TypeError: ``is_exact`` is set and the array has another shape.
    """
    if array.shape == shape:
        return array
    if is_exact:
        raise TypeError(f"Expected Tensor's shape: {shape}, but got {array.shape}.")
    if allow_broadcast or array.size == 1:
        return np.broadcast_to(array.reshape(array.shape if allow_broadcast else ()), shape)
    return array.reshape(shape)


@export("make_ndarray")
def make_ndarray(tensor: Any) -> np.ndarray:
    """Returns the array of a ``TensorProto`` message of tvtf or TensorFlow.

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
