"""Adjoints, cross products, tensors as diagonals, and tensors of norm one."""

from __future__ import annotations

from typing import Any

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import agree_shape, brackets, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import bfloat16, complex64, complex128, float16, float32, float64, int32, int64
from tvtf.ops.aggregate import norm
from tvtf.ops.lapack import adjoint as adjoint_of
from tvtf.ops.lapack import as_dtype_of, diagonal_matrix
from tvtf.ops.operands import operands
from tvtf.ops.rules import bind, require_dtype, require_same_dtype


@export("linalg.adjoint")
def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """Returns the conjugate of each matrix with its last two axes swapped.

    >>> import tvtf as tf
    >>> tf.linalg.adjoint([[1 + 1j, 2]]).numpy()
    array([[1.-1.j],
           [2.-0.j]])

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/adjoint
    """
    x = convert_to_tensor(matrix)
    if x.ndim < 2:
        raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2.  Received shape: {x.shape}")
    return adjoint_of(x)


@export("linalg.cross")
def cross(a: Any, b: Any, name: str | None = None) -> Tensor:
    """Returns the cross product of vectors of three elements in the last axis.

    Args:
      a: numeric tensor of shape (..., 3).
      b: tensor of the same dtype and shape.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes differ, or the last axis doesn't have size 3.

    >>> import tvtf as tf
    >>> tf.linalg.cross([1, 0, 0], [0, 1, 0]).numpy()
    array([0, 0, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/cross
    """
    x, y = operands(a, b)
    require_same_dtype((x._type, y._type), "ab")
    shape = x._type.shape
    if not agree_shape(shape, y._type.shape):
        raise ArgumentError(f"Both inputs must be of same shape: {brackets(shape)} vs. {brackets(y._type.shape)}")
    if not shape or shape[-1] != 3:
        raise ArgumentError(f"Cross-products are only defined for 3-element vectors, but got shape {brackets(shape)}")
    # Element i is x[i + 1] * y[i + 2] - x[i + 2] * y[i + 1], indices modulo 3.
    minuend = bind.multiply(_rolled(x, 1), _rolled(y, 2))
    subtrahend = bind.multiply(_rolled(x, 2), _rolled(y, 1))
    return bind.subtract(minuend, subtrahend)


def _rolled(x: Tensor, shift: int) -> Tensor:
    """Rotates the elements of the last axis: element i of the result is element i + ``shift`` of ``x``."""
    return bind.concat(x[..., shift:], x[..., :shift], axis=x.ndim - 1)  # type: ignore[index]


@export("linalg.tensor_diag")
def tensor_diag(diagonal: Any, name: str | None = None) -> Tensor:
    """Returns a tensor with ``diagonal`` on its diagonal: of shape (d..., d...) for a diagonal of shape (d...).

    An element is on the diagonal if both halves of its index agree. Other elements are zero.

    >>> import tvtf as tf
    >>> tf.linalg.tensor_diag([1, 2]).numpy()
    array([[1, 0],
           [0, 2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/tensor_diag
    """
    x = convert_to_tensor(diagonal)
    shape = x._type.shape
    if not shape:
        raise ArgumentError("Input must be at least rank 1, got 0")
    flat = bind.reshape(x, shape=(size_of(shape),))
    return bind.reshape(diagonal_matrix(flat), shape=(*shape, *shape))


_DIAGONAL_DTYPES = (bfloat16, float16, float32, float64, int32, int64, complex64, complex128)


@export("linalg.tensor_diag_part")
def tensor_diag_part(input: Any, name: str | None = None) -> Tensor:
    """Returns the diagonal, of shape (d...), of a tensor of shape (d..., d...).

    An element is on the diagonal if both halves of its index agree.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the rank is odd, or the halves of the shape differ.

    >>> import tvtf as tf
    >>> tf.linalg.tensor_diag_part([[1, 2], [3, 4]]).numpy()
    array([1, 4], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/tensor_diag_part
    """
    x = convert_to_tensor(input)
    shape = x._type.shape
    half = x.ndim // 2
    require_dtype(x._type, _DIAGONAL_DTYPES, "input")
    if x.ndim % 2 or not (half or state.trace is None):
        raise ArgumentError(f"The rank of the tensor should be even and positive, got shape {brackets(shape)}").for_op(
            "DiagPart"
        )
    if not agree_shape(shape[:half], shape[half:]):
        raise ArgumentError(f"Invalid shape {brackets(shape)}: its halves do not match").for_op("DiagPart")
    size = size_of(shape[:half])
    # With both halves of the axes flattened, the elements are the diagonal of a matrix.
    flat = bind.take_diagonal(bind.reshape(x, shape=(size, size)), first=0, second=1)
    return bind.reshape(flat, shape=shape[:half])


@export("linalg.normalize")
def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Divides a tensor by its norm, and returns the result and the norm, whose reduced axes have size one.

    Args:
      tensor, ord, axis: as for `tf.norm`.

    >>> import tvtf as tf
    >>> unit, length = tf.linalg.normalize([3., 4.])
    >>> unit.numpy(), length.numpy()
    (array([0.6, 0.8], dtype=float32), array([5.], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/normalize
    """
    x = convert_to_tensor(tensor)
    magnitude = as_dtype_of(norm(x, ord=ord, axis=axis, keepdims=True), x)
    return bind.divide(x, magnitude), magnitude
