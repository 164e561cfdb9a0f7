"""Matrix products: matmul, matvec, tensordot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive, table
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, broadcast_shapes, size_of
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import (
    FLOATING,
    NUMERIC,
    DType,
    as_dtype,
    bfloat16,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int16,
    int32,
    int64,
)
from tvtf.ops import blas
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes
from tvtf.ops.rules import (
    bind,
    draw,
    kernel,
    not_among,
    optional_flag,
    require_dtype,
    require_same_dtype,
    static_value,
    unbroadcast,
)
from tvtf.ops.softmax import upcast

MATMUL_TYPES = NUMERIC
_OUTPUTS = (bfloat16, float16, float32, float64, int16, int32, int64, complex64, complex128)


def _matmul_type(
    a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool, output_type: DType | None
) -> TensorType:
    """Checks ranks, inner dims and batches of a product; the errors are those of TensorFlow's kernel and graph."""
    if output_type is None:
        require_same_dtype((a, b), "ab")
    elif output_type not in _OUTPUTS:
        raise not_among(output_type, _OUTPUTS, "Tout", "Tout")
    require_dtype(a, MATMUL_TYPES, "a")
    for i, x in enumerate((a, b)):
        if len(x.shape) < 2:
            raise ArgumentError(
                f"In[{i}] ndims must be >= 2",
                graph=ValueError,
                traced=f"Shape must be at least rank 2 but is rank {len(x.shape)}: {'ab'[i]} is shaped "
                f"{brackets(x.shape)}",
            )
    rows, inner = a.shape[-2:][:: -1 if transpose_a else 1]
    inner_b, columns = b.shape[-2:][:: -1 if transpose_b else 1]
    shapes = f"{brackets(a.shape)}, {brackets(b.shape)}"
    if not agree_dim(inner, inner_b):
        raise ArgumentError(
            f"Matrix size-incompatible: In[0]: {brackets(a.shape)}, In[1]: {brackets(b.shape)}",
            graph=ValueError,
            traced=f"Dimensions must be equal, but are {inner} and {inner_b} for {{op}} with input shapes: {shapes}.",
        )
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if batch is None:
        raise ArgumentError(
            f"In[0] and In[1] must have compatible batch dimensions: {brackets(a.shape)} vs. {brackets(b.shape)}",
            graph=ValueError,
            traced=f"Batch dimensions must be equal or 1 for {{op}} with input shapes: {shapes}.",
        )
    return TensorType((*batch, rows, columns), output_type or a.dtype)


def _swapped(x: np.ndarray, swap: bool) -> np.ndarray:
    return np.swapaxes(x, -1, -2) if swap else x


def _matmul_array(
    a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool, output_type: DType | None
) -> np.ndarray:
    """Multiplies batches of matrices in NumPy, in the dtype ``output_type`` if it is given."""
    if output_type is not None:
        a, b = a.astype(output_type.np), b.astype(output_type.np)
    return blas.product(_swapped(upcast(a), transpose_a), _swapped(upcast(b), transpose_b))


def product(a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False) -> Tensor:
    """Multiplies two tensors of one dtype by the primitive ``matmul``."""
    return bind.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b, output_type=None)


def conjugate(x: Tensor) -> Tensor:
    return bind.conj(x) if x.dtype.is_complex else x


def _matmul_vjp(
    cotangent: Tensor,
    y: Tensor,
    a: Tensor,
    b: Tensor,
    *,
    transpose_a: bool,
    transpose_b: bool,
    output_type: DType | None,
) -> tuple[Any, Any]:
    """Returns a function for the cotangent of each operand of a matrix product.

    The functions are called only for the cotangents that are needed.

    Args:
      cotangent: the cotangent of the product.
      y: the product.
      a, b: the operands.
      transpose_a, transpose_b: whether the product is of transposed operands.
      output_type: the dtype to which the operands are cast, or None.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    if not a.dtype.is_differentiable:  # integers
        return None, None
    if output_type is not None:  # the product was computed from operands cast to this dtype
        cotangent = table["cast"](cotangent, a.dtype)
    arguments = (cotangent, a, b, transpose_a, transpose_b)
    return partial(_cotangent_of_first, *arguments), partial(_cotangent_of_second, *arguments)


def _cotangent_of_first(cotangent: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """Returns the cotangent of a matrix product's first operand: ``cotangent`` times the second one, transposed."""
    b = conjugate(b)
    grad = product(b, cotangent, transpose_b, True) if transpose_a else product(cotangent, b, False, not transpose_b)
    return unbroadcast(grad, a)


def _cotangent_of_second(cotangent: Tensor, a: Tensor, b: Tensor, transpose_a: bool, transpose_b: bool) -> Tensor:
    """Returns the cotangent of the second operand of a matrix product.

    A single second matrix may be shared by a batch of first matrices. Then the rows of the batch are merged, and one
    product computes the cotangent.

    Args:
      cotangent: the cotangent of the product.
      a, b: the operands.
      transpose_a, transpose_b: whether the product is of transposed operands.
    """
    a = conjugate(a)
    is_shared = b.ndim == 2 and a.ndim > 2
    if is_shared and not transpose_a:
        a = _as_rows(a)
        cotangent = _as_rows(cotangent)
    if transpose_b:
        b_cotangent = product(cotangent, a, True, transpose_a)
    else:
        b_cotangent = product(a, cotangent, not transpose_a, False)
    return unbroadcast(b_cotangent, b)


def _as_rows(x: Tensor) -> Tensor:
    return table["reshape"](x, (-1, x._type.shape[-1]))


def _matmul_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Tensor:
    rank = max(x.ndim - is_batched for x, is_batched in zip(inputs, batched))
    return bind.matmul(*(lifted(x, rank) if is_batched else x for x, is_batched in zip(inputs, batched)), **attrs)


def lifted(x: Tensor, rank: int) -> Tensor:
    """Inserts axes of size 1 after the batch axis, so that ``rank`` axes follow it."""
    shape = x._type.shape
    return bind.reshape(x, shape=(shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))


def _matmul_onnx(
    emitter: NodeEmitter,
    inputs: Names,
    outputs: Names,
    types: RuleTypes,
    *,
    transpose_a: bool,
    transpose_b: bool,
    output_type: DType | None,
) -> None:
    """Emits ONNX's MatMul for a matrix product, after transposes of the operands where the op's flags demand them.

    MatMul has no flags for transposed operands.

    Args:
      transpose_a, transpose_b: whether each operand is transposed.
      output_type: the dtype to compute in, or None for that of the operands.
    """
    operands = []
    input_types, _ = types
    for operand, input_type, is_transposed in zip(inputs, input_types, (transpose_a, transpose_b)):
        if output_type is not None:
            operand = emitter.cast(operand, output_type)
        if is_transposed:
            operand = _transposed_onnx(emitter, operand, len(input_type.shape))
        operands.append(operand)
    emitter.node("MatMul", operands, outputs)


def _transposed_onnx(emitter: NodeEmitter, name: str, rank: int) -> str:
    return emitter.computed("Transpose", [name], perm=[*range(rank - 2), rank - 1, rank - 2])


def _matmul_samples() -> list[Sample]:
    """Returns test samples of matmul: transposed operands, batches that broadcast, sizes of 0, and a symbolic dim."""
    # The operands' shapes, transpose_a and transpose_b.
    cases = (
        ((2, 3), (3, 4), False, False), ((3, 2), (3, 4), True, False), ((2, 3), (4, 3), False, True),
        ((3, 2), (4, 3), True, True), ((2, 1, 2, 3), (3, 3, 2), False, False), ((2, 2, 3), (3, 2), False, False),
        ((0, 3), (3, 2), False, False), ((2, 0), (0, 3), False, False),
    )  # fmt: skip
    samples = [_matmul_sample(seed, *case) for seed, case in enumerate(cases)]
    symbolic_dims = (("n", None), (None, None))
    samples.append(_matmul_sample(20, (2, 3), (3, 2), False, False, symbolic=symbolic_dims))
    return samples


def _matmul_sample(seed: int, a: Any, b: Any, ta: bool, tb: bool, **options: Any) -> Sample:
    attrs = {"transpose_a": ta, "transpose_b": tb, "output_type": None}
    return Sample((draw(seed, a), draw(seed + 40, b)), attrs, (*FLOATING, int32, int64), **options)


@primitive(
    tf_name="MatMul",
    type=_matmul_type,
    numpy=_matmul_array,
    lower=lambda a, b, *, output_type, **attrs: kernel("matmul.matmul")(a, b, out_dtype=output_type, **attrs),
    vjp=_matmul_vjp,
    batch=_matmul_batch,
    onnx=_matmul_onnx,
    samples=_matmul_samples,
    heavy="repeated",
    broadcasts="batches",
    public=("matmul", "linalg.matmul"),
)
@attributes(a_is_sparse=bool, b_is_sparse=bool, grad_a=bool, grad_b=bool)
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Any:
    """Returns the matrix product of the last two axes; leading axes are batches and broadcast.

    Args:
      a: numeric tensor, shape (..., m, k).
      b: tensor of the same dtype, shape (..., k, n).
      transpose_a, transpose_b: take the operand's last two axes swapped.
      adjoint_a, adjoint_b: swapped and conjugated.
      a_is_sparse, b_is_sparse, grad_a, grad_b: accepted as in TensorFlow; they change no result.
      output_type: dtype of the result where it differs from the operands', e.g. int32 for int8 ones.

    Returns:
      A tensor of shape (..., m, n). 16-bit floats are summed in float32.

    Raises:
      ValueError: both transpose and adjoint are requested for an operand.
      InvalidArgumentError: (ValueError while tracing) the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.matmul([[1, 2]], [[3], [4]]).numpy()
    array([[11]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/matmul
    """
    for which, transpose, adjoint in (("a", transpose_a, adjoint_a), ("b", transpose_b, adjoint_b)):
        if transpose and adjoint:
            raise ValueError(
                f"Only one of `transpose_{which}` and `adjoint_{which}` can be True. "
                f"Received `transpose_{which}`={transpose}, `adjoint_{which}`={adjoint}."
            )
    x, y = _operands(a, b)
    x, y = conjugate(x) if adjoint_a else x, conjugate(y) if adjoint_b else y
    batches = x.ndim > 2 or y.ndim > 2
    attrs = {
        "transpose_a": _is_swapped(transpose_a, adjoint_a, batches, ("transpose_a", "adj_x")),
        "transpose_b": _is_swapped(transpose_b, adjoint_b, batches, ("transpose_b", "adj_y")),
    }
    return (x, y), {**attrs, "output_type": _other_type(x, output_type)}


def _is_swapped(transpose: Any, adjoint: Any, batches: bool, names: tuple[str, str]) -> bool:
    """Returns whether matmul swaps the last two axes of an operand, which ``transpose`` or ``adjoint`` demands.

    TensorFlow's ops for matrices, and for batches of matrices, have attributes of different names. ``names`` has both,
    and ``batches`` selects the second. Errors show the name.
    """
    if transpose is False and adjoint is False:  # the usual case
        return False
    # The attribute of TensorFlow's op must be a bool. The other flag is only tested for truth.
    matrix_attribute, batch_attribute = names
    if batches:
        return bool(transpose) or optional_flag(adjoint, batch_attribute)
    return bool(adjoint) or optional_flag(transpose, matrix_attribute)


def _other_type(x: Tensor, output_type: Any) -> DType | None:
    """Returns the result's dtype if it differs from the operand's, else None."""
    requested = None if output_type is None else as_dtype(output_type)
    return None if requested is x.dtype else requested


def _operands(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Converts two operands to tensors, the second to the first's dtype if it has none of its own."""
    a = convert_to_tensor(a)
    return a, convert_to_tensor(b, dtype_hint=a.dtype)


@export("linalg.matvec")
@attributes(a_is_sparse=bool, b_is_sparse=bool)
def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiplies matrices by vectors: shapes (..., m, k) and (..., k) to (..., m); arguments as :func:`matmul`.

    >>> import tvtf as tf
    >>> tf.linalg.matvec([[1, 2], [3, 4]], [1, 1]).numpy()
    array([3, 7], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/matvec
    """
    x, y = _operands(a, b)
    column = bind.reshape(y, shape=(*y._type.shape, 1))
    product_column = matmul(x, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return bind.reshape(product_column, shape=product_column._type.shape[:-1])


@export("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """Multiplies two tensors and sums over pairs of axes, as a matrix product of flattened tensors.

    Args:
      a: numeric tensor.
      b: tensor of the same dtype.
      axes: how many of a's last and b's first axes to sum over, or two lists (or ints): a's axes and b's.

    Returns:
      A tensor of a's remaining axes, then b's.

    Raises:
      ValueError: the axes don't pair up, or an axis is out of range.
      InvalidArgumentError: (ValueError while tracing) the sizes of paired axes differ.

    >>> import tvtf as tf
    >>> tf.tensordot([[1, 2]], [3, 4], 1).numpy()
    array([11], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensordot
    """
    x, y = _operands(a, b)
    first, second = _paired_axes(x, y, static_value(axes, "axes"))
    left, rows = _as_matrix(x, first, last=True)
    right, columns = _as_matrix(y, second, last=False)
    return table["reshape"](product(left, right), (*rows, *columns))


def _paired_axes(x: Tensor, y: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """Returns the summed axes of each operand of tensordot.

    ``axes`` is two lists of axes, or a number n: the last n axes of ``x`` and the first n axes of ``y``.
    """
    if isinstance(axes, (list, tuple)):
        return _listed_axes(x, y, axes)
    count = axes
    if count < 0:
        raise ValueError(f"`axes` must be at least 0. Received: {count}.")
    for operand in (x, y):
        if count > operand.ndim:
            raise ValueError(
                f"`axes` must not be larger than the number of dimensions of tensor {operand}.  Received {count}, "
                f"vs tensor dimensions {operand.ndim}."
            )
    last_axes_of_x = list(range(x.ndim - count, x.ndim))
    first_axes_of_y = list(range(count))
    return last_axes_of_x, first_axes_of_y


def _listed_axes(x: Tensor, y: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """Returns the lists of the contracted axes of both operands of ``tensordot``, after checking them."""
    if len(axes) != 2:
        raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
    x_axes, y_axes = axes
    x_axes = [x_axes] if isinstance(x_axes, int) else list(x_axes)
    y_axes = [y_axes] if isinstance(y_axes, int) else list(y_axes)
    if len(x_axes) != len(y_axes):
        raise ValueError(f"Different number of contraction axes `a` and `b`, {len(x_axes)} != {len(y_axes)}.")
    return [_existing(axis, x, "a") for axis in x_axes], [_existing(axis, y, "b") for axis in y_axes]


def _existing(axis: int, x: Tensor, name: str) -> int:
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"tensordot: axis {axis} of `{name}` is not in [{-x.ndim}, {x.ndim}): it has rank {x.ndim}")
    return axis % x.ndim


def _as_matrix(x: Tensor, summed: list[int], last: bool) -> tuple[Tensor, list[Dim]]:
    """Reshapes an operand of tensordot to a matrix. Returns the matrix and the sizes of the free axes.

    One axis of the matrix merges the ``summed`` axes, the other axis merges the free axes. The summed axis is the last
    axis if ``last``, else the first.
    """
    shape = x._type.shape
    free = [axis for axis in range(x.ndim) if axis not in summed]
    free_dims = [shape[axis] for axis in free]
    free_size = size_of(free_dims)
    summed_size = size_of(shape[axis] for axis in summed)
    if last:
        perm = [*free, *summed]
        matrix_shape = (free_size, summed_size)
    else:
        perm = [*summed, *free]
        matrix_shape = (summed_size, free_size)
    if perm != list(range(x.ndim)):
        x = table["transpose"](x, perm)
    return bind.reshape(x, shape=matrix_shape), free_dims
