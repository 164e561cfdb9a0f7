"""NumPy's products of vectors and matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvtf.arrays.convert import broadcast, numpy_like, requested_dtype, tf, to_common_dtype, to_tensor
from tvtf.arrays.create import diagonal
from tvtf.arrays.reductions import total
from tvtf.arrays.shaping import moveaxis
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor

MATRICES = "[[1, 2], [3, 4]], [[5, 6], [7, 8]]"
VECTORS = "[1, 2, 3], [4, 5, 6]"


def _contracted(axis_of_second: Callable[[int], int]) -> Callable[..., Tensor]:
    """Creates NumPy's ``dot`` or ``inner``, which contracts the last axis of the first argument.

    ``axis_of_second`` returns the contracted axis of the second argument, given its rank. A scalar argument is
    multiplied.
    """

    def product(a: Any, b: Any) -> Tensor:
        a, b = to_common_dtype(a, b)
        if a.ndim == 0 or b.ndim == 0:
            return a * b
        return tf.tensordot(a, b, [[-1], [axis_of_second(b.ndim)]])

    return product


dot = numpy_like("dot", shows=MATRICES)(_contracted(lambda rank: -1 if rank == 1 else -2))
numpy_like("inner", shows=MATRICES)(_contracted(lambda rank: -1))


@numpy_like("matmul", shows=MATRICES)
def matmul(x1: Any, x2: Any) -> Tensor:
    """Returns the product of matrices; a vector is a row on the left and a column on the right."""
    x1, x2 = to_common_dtype(x1, x2)
    try:
        if x2.ndim == 1:
            return tf.tensordot(x1, x2, 1)
        if x1.ndim == 1:
            return tf.tensordot(x1, x2, [[0], [-2]])
        return tf.matmul(x1, x2)
    except tf.errors.InvalidArgumentError as error:
        # NumPy raises ValueError for shapes that don't match.
        raise ValueError(str(error)) from error


@numpy_like("tensordot", shows=f"{MATRICES}, 1")
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    return tf.tensordot(*to_common_dtype(a, b), axes)


@numpy_like("outer", shows=VECTORS)
def outer(a: Any, b: Any) -> Tensor:
    a, b = to_common_dtype(a, b)
    return tf.reshape(a, [-1, 1]) * tf.reshape(b, [-1])


@numpy_like("vdot", shows=VECTORS)
def vdot(a: Any, b: Any) -> Tensor:
    a, b = (tf.reshape(x, [-1]) for x in to_common_dtype(a, b))
    return dot(tf.math.conj(a), b)


@numpy_like("kron", shows=MATRICES)
def kron(a: Any, b: Any) -> Tensor:
    """Returns the Kronecker product: a block ``a[i, j] * b`` for each element of ``a``."""
    a, b = to_common_dtype(a, b)
    rank = max(a.ndim, b.ndim)
    a_dims = [1] * (rank - a.ndim) + list(tf.unstack(tf.shape(a)))
    b_dims = [1] * (rank - b.ndim) + list(tf.unstack(tf.shape(b)))
    # In shapes (m0, 1, m1, 1, ...) and (1, n0, 1, n1, ...) all pairs of elements meet, in the result's order.
    a_shape, b_shape, result_shape = [], [], []
    for a_dim, b_dim in zip(a_dims, b_dims):
        a_shape += [a_dim, 1]
        b_shape += [1, b_dim]
        result_shape.append(a_dim * b_dim)
    products = tf.reshape(a, a_shape) * tf.reshape(b, b_shape)
    return tf.reshape(products, result_shape)


def _as_3d(x: Tensor, axis: int) -> tuple[Tensor, bool]:
    """Prepares an operand of a cross product: moves vectors to the last axis, and pads them with 0 to three elements.

    Returns the tensor, and whether the vectors had two elements.
    """
    x = moveaxis(x, axis, -1)
    if x.shape[-1] is None:
        raise unknown_size(ValueError(f"vectors to multiply must be of known size, but have shape {x.shape}"))
    is_planar = x.shape[-1] == 2
    if is_planar:
        no_padding = [0, 0]
        one_zero_at_end = [0, 1]
        x = tf.pad(x, [no_padding] * (x.ndim - 1) + [one_zero_at_end])
    return x, is_planar


@numpy_like("cross", shows=VECTORS)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    a, b = to_common_dtype(a, b)
    (a, a_is_planar), (b, b_is_planar) = _as_3d(a, axisa), _as_3d(b, axisb)
    c = tf.linalg.cross(*broadcast(a, b))
    # NumPy returns only the third element for vectors in the plane, as the others are zero.
    return c[..., 2] if a_is_planar and b_is_planar else moveaxis(c, -1, axisc)


@numpy_like("trace", shows="[[1, 2], [3, 4]]")
def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    a = to_tensor(a, requested_dtype(dtype))
    if offset == 0 and (axis1 % a.ndim, axis2 % a.ndim) == (a.ndim - 2, a.ndim - 1):
        return tf.linalg.trace(a)
    return total(diagonal(a, offset, axis1, axis2), -1, dtype)


@numpy_like("einsum", shows="'ij,jk->ik', [[1, 2], [3, 4]], [[5, 6], [7, 8]]")
def einsum(subscripts: str, *operands: Any, **kwargs: Any) -> Tensor:
    """Returns the sum of products that Einstein's notation describes."""
    casting, optimize = kwargs.get("casting", "safe"), kwargs.get("optimize", False)
    if casting not in ("safe", "no"):
        raise ValueError(
            f'Invalid value for argument `casting`. Expected casting="safe" or casting="no". Received: casting={casting}'
        )
    if optimize not in (False, True, "greedy", "optimal"):
        raise ValueError(
            'Invalid value for argument `optimize`. Expected one of {True, "greedy", "optimal"}. '
            f"Received: optimize={optimize}"
        )
    tensors = to_common_dtype(*operands) if casting == "safe" else map(to_tensor, operands)
    order = "optimal" if optimize == "optimal" else "greedy"
    return tf.einsum(subscripts, *tensors, optimize=order)
