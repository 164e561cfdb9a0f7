"""Shared parts of primitives computed by LAPACK: type checks, kernels over batches, the algebra of their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, WithoutKernel
from tvtf.core.primitive import Sample, table
from tvtf.core.shape import Dim, TensorType, agree_dim, agree_shape, brackets
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import DType, complex64, complex128, float16, float32, float64, type_name
from tvtf.ops.blas import serial
from tvtf.ops.host import host_primitive
from tvtf.ops.linalg import conjugate
from tvtf.ops.rules import bind, require_dtype, stretch, zeros_like

REAL_MATRICES = (float64, float32)
COMPLEX_MATRICES = (complex64, complex128)
MATRICES = (*REAL_MATRICES, *COMPLEX_MATRICES)


def lapack_primitive(**columns: Any) -> Callable[..., Any]:
    """Returns a decorator that declares a primitive on matrices, such as an inverse, computed by LAPACK.

    The matrices lie in the last two axes of the inputs, and the other axes are batches. Compiled code calls the NumPy
    kernel.
    """

    def declare(front: Callable[..., Any]) -> Any:
        columns.setdefault("batch", _batch(columns.get("name") or front.__name__))
        columns.setdefault("why_not", {"onnx": "ONNX has no operator for this function of a matrix"})
        columns["numpy"] = serial(columns["numpy"])
        return host_primitive(**columns)(front)

    return declare


def _batch(name: str) -> Callable[..., Any]:
    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
        return table[name].bind(*(stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)), **attrs)

    return rule


# -- types


def require_matrices(
    x: TensorType,
    index: str = " 0",
    domain: Sequence[DType] = MATRICES,
    name: str = "input",
    allowed: Sequence[DType] = (*MATRICES, float16),
) -> None:
    """Checks that an input of an op is of rank 2 or more, and of a dtype in ``domain``.

    A dtype in ``allowed`` but not in ``domain`` gets another error: TensorFlow's op accepts it, but has no kernel.
    ``name`` and ``index`` are the name and the number of the input in errors.
    """
    if domain == MATRICES and x.dtype in allowed and x.dtype not in domain:
        raise WithoutKernel(type_name(x.dtype), map(type_name, domain))
    require_dtype(x, domain, name)
    if len(x.shape) < 2:
        raise ArgumentError(
            f"Input tensor{index} must have rank >= 2, got {len(x.shape)}",
            graph=ValueError,
            traced=f"Shape must be at least rank 2 but is rank {len(x.shape)} for {{op}} with input shapes: "
            f"{brackets(x.shape)}.",
        )


def require_square(x: TensorType, message: str = "Input matrix must be square.") -> None:
    if not agree_dim(*x.shape[-2:]):
        raise ArgumentError(message, ValueError, unequal(*x.shape[-2:], x))


def unequal(a: Dim, b: Dim, *types: TensorType) -> str:
    """Returns the message of TensorFlow's graphs for dims that differ."""
    shapes = ", ".join(brackets(type_.shape) for type_ in types)
    return f"Dimensions must be equal, but are {a} and {b} for {{op}} with input shapes: {shapes}."


def square_type(x: TensorType, **_: Any) -> TensorType:
    """Checks the type of square matrices: the type rule of functions from square matrices to square matrices."""
    require_matrices(x)
    require_square(x)
    return x


def require_same_batches(a: TensorType, b: TensorType) -> None:
    """Checks that two stacks of matrices have the same batch dims, without broadcasting."""
    if not agree_shape(a.shape[:-2], b.shape[:-2]):
        raise ArgumentError(
            f"All input tensors must have the same outer dimensions, but got {brackets(a.shape)} and {brackets(b.shape)}.",
            graph=ValueError,
            traced=f"Shapes must be equal for {{op}} with input shapes: {brackets(a.shape)}, {brackets(b.shape)}.",
        )


# -- kernels


def each(function: Callable[..., Any], *arrays: np.ndarray) -> Any:
    """Applies ``function`` to each matrix of a batch, and stacks the results. Several batches broadcast.

    If the function returns a tuple, the result is a tuple of batches.
    """
    if all(array.ndim == 2 for array in arrays):
        return function(*arrays)
    batch = np.broadcast_shapes(*(array.shape[:-2] for array in arrays))
    matrix_lists = []  # of each array, with one axis for the batch
    for array in arrays:
        matrix_shape = array.shape[-2:]
        matrix_lists.append(np.broadcast_to(array, batch + matrix_shape).reshape(-1, *matrix_shape))
    results = [function(*matrices) for matrices in zip(*matrix_lists)]
    if isinstance(results[0], tuple):
        return tuple(_stacked(part, batch) for part in zip(*results))
    return _stacked(results, batch)


def _stacked(parts: Sequence[np.ndarray], batch: tuple[int, ...]) -> np.ndarray:
    return np.stack(parts).reshape(batch + parts[0].shape)


def with_lapack_error(text: str, function: Callable[..., Any], *args: Any) -> Any:
    """Calls ``function``, and converts LAPACK's error to an error with TensorFlow's text."""
    try:
        return function(*args)
    except np.linalg.LinAlgError:
        raise ArgumentError(text) from None


def singled(x: np.ndarray) -> np.ndarray:
    """Converts float16 matrices to float32, for LAPACK has no half precision."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


# -- algebra


def swapped(x: Tensor) -> Tensor:
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return bind.transpose(x, perm=order)


def adjoint(x: Tensor) -> Tensor:
    return conjugate(swapped(x))


def product(a: Tensor, b: Tensor) -> Tensor:
    return bind.matmul(a, b, transpose_a=False, transpose_b=False, output_type=None)


def products(*factors: Tensor) -> Tensor:
    first, *others = factors
    for factor in others:
        first = product(first, factor)
    return first


def added(a: Tensor, b: Tensor) -> Tensor:
    return bind.add(a, b)


def less(a: Tensor, b: Tensor) -> Tensor:
    return bind.subtract(a, b)


def lower_part(x: Tensor) -> Tensor:
    return bind.band_part(x, lower=-1, upper=0)


def upper_part(x: Tensor) -> Tensor:
    return bind.band_part(x, lower=0, upper=-1)


def diagonal(x: Tensor) -> Tensor:
    """Returns the diagonals of square matrices."""
    return bind.take_diagonal(x, first=x.ndim - 2, second=x.ndim - 1)


def diagonal_matrix(x: Tensor) -> Tensor:
    return bind.put_diagonal(x, first=x.ndim - 1, second=x.ndim)


def only_diagonal(x: Tensor) -> Tensor:
    return bind.band_part(x, lower=0, upper=0)


def below_diagonal(x: Tensor) -> Tensor:
    return less(lower_part(x), only_diagonal(x))


def scaled(x: Tensor, factor: float) -> Tensor:
    return bind.multiply(x, convert_to_tensor(factor, x.dtype))


def column(x: Tensor) -> Tensor:
    """Reshapes one number for each matrix of a batch to matrices of one element."""
    return bind.reshape(x, shape=(*x._type.shape, 1, 1))


def scaled_columns(x: Tensor, factors: Tensor) -> Tensor:
    """Multiplies each column of matrices by a factor."""
    *batch, size = factors._type.shape
    return bind.multiply(x, bind.reshape(factors, shape=(*batch, 1, size)))


def as_dtype_of(x: Tensor, like: Tensor) -> Tensor:
    """Casts ``x`` to the dtype of ``like``; a complex ``x`` is reduced to its real part if that is real."""
    if x.dtype.is_complex and not like.dtype.is_complex:
        return bind.real(x)
    return x if x.dtype is like.dtype else table["cast"](x, like.dtype)


def or_zeros(cotangent: Tensor | None, like: Tensor) -> Tensor:
    return zeros_like(like) if cotangent is None else cotangent


def block(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> Tensor:
    """Returns the block matrix ``[[a, b], [c, d]]``."""
    axis = a.ndim - 1
    return bind.concat(bind.concat(a, b, axis=axis), bind.concat(c, d, axis=axis), axis=axis - 1)


# -- samples


def matrix(seed: int, *shape: int, definite: bool = False) -> Callable[[DType], np.ndarray]:
    """Returns a function that draws matrices of a dtype for test samples. Their leading square is far from singular.

    With ``definite`` the matrices are Hermitian positive definite.
    """

    def draw(dtype: DType) -> np.ndarray:
        """Draws matrices for test samples: random elements between -1 and 1 plus a large diagonal.

        With ``definite``, they are multiplied by their conjugate transpose, which makes them positive definite.
        """
        if not (dtype.is_floating or dtype.is_complex):
            return np.ones(shape, dtype.np)
        random = np.random.default_rng(seed)
        values = random.uniform(-1, 1, shape)
        if dtype.is_complex:
            values = values + 1j * random.uniform(-1, 1, shape)
        rows, columns = shape[-2:]
        values = values + np.eye(rows, columns) * np.arange(3, 3 + columns)
        if definite:
            values = values @ np.conj(np.swapaxes(values, -1, -2))
        return values.astype(dtype.np)

    return draw


def samples_of(*shapes: tuple[int, ...], gradient: bool = True, **attrs: Any) -> list[Sample]:
    """Returns test samples of an op on one matrix: for each shape, one of real and one of complex numbers.

    Gradients are checked for real numbers only. Complex results, defined up to a phase, have tests of their own.
    """
    samples = []
    for seed, shape in enumerate(shapes):
        samples.append(Sample((matrix(seed, *shape),), attrs, REAL_MATRICES, gradient=gradient))
        samples.append(Sample((matrix(seed, *shape),), attrs, COMPLEX_MATRICES, gradient=False))
    return samples
