"""Matrix products with batches."""

from __future__ import annotations

from tvm import ir, te

from tvtf.ops.kernels.common import Extent, accumulator_dtype, as_dtype, cast, compute, long, reduce_axis


def matmul(
    a: te.Tensor, b: te.Tensor, transpose_a: bool = False, transpose_b: bool = False, out_dtype: str | None = None
) -> te.Tensor:
    """Computes the product of two stacks of matrices, whose batch dims broadcast as in NumPy.

    Args:
        a: `[..., m, k]`, or `[..., k, m]` when transposed.
        b: `[..., k, n]`, or `[..., n, k]` when transposed.
        transpose_a: read the last two axes of `a` the other way round.
        transpose_b: read the last two axes of `b` the other way round.
        out_dtype: dtype of the result; that of `a` by default. Half types are summed in float32.

    Returns:
        `[..., m, n]`.

    Example:
        >>> x, w = te.placeholder((2, 3, 4), "float32"), te.placeholder((4, 5), "float32")
        >>> [int(extent) for extent in matmul(x, w).shape]
        [2, 3, 5]

    Source: numpy.matmul (batch dims); tf.linalg.matmul (transposes).
    """
    out_dtype = out_dtype or str(a.dtype)
    sum_dtype = accumulator_dtype(out_dtype)
    batch = _broadcast(list(a.shape[:-2]), list(b.shape[:-2]))
    rows, summed_extent = (a.shape[-1], a.shape[-2]) if transpose_a else (a.shape[-2], a.shape[-1])
    columns = b.shape[-2] if transpose_b else b.shape[-1]
    k = reduce_axis(summed_extent, "k")

    def element_at(*index: ir.Expr) -> ir.Expr:
        i, j = index[-2:]
        left_value = a(*_batch_index(a, index[:-2]), *((k, i) if transpose_a else (i, k)))
        right_value = b(*_batch_index(b, index[:-2]), *((j, k) if transpose_b else (k, j)))
        return te.sum(as_dtype(left_value, sum_dtype) * as_dtype(right_value, sum_dtype), axis=[k])

    return cast(compute([*batch, rows, columns], element_at, "matmul"), out_dtype)


def _broadcast(left: list[Extent], right: list[Extent]) -> list[Extent]:
    """Returns the batch dims to which the batch dims of both operands broadcast, by NumPy's rules."""
    rank = max(len(left), len(right))
    pairs = zip(_with_ones(left, rank), _with_ones(right, rank), strict=True)
    return [other if _is_one(extent) else extent for extent, other in pairs]


def _with_ones(extents: list[Extent], rank: int) -> list[Extent]:
    """Prepends extents of 1 up to a rank; for example, [3] and rank 2 give [1, 3]."""
    return [1] * (rank - len(extents)) + extents


def _is_one(extent: Extent) -> bool:
    """Returns whether an extent is the constant 1; a symbolic one is taken not to be."""
    return not isinstance(extent, ir.Expr) or (hasattr(extent, "value") and int(extent) == 1)


def _batch_index(x: te.Tensor, index: tuple[ir.Expr, ...]) -> list[ir.Expr]:
    """Converts the batch index of a broadcast result to the batch index of the operand ``x``: 0 in axes of extent 1."""
    extents = list(x.shape[:-2])
    own_index = index[len(index) - len(extents) :]
    return [long(0) if _is_one(extent) else index for extent, index in zip(extents, own_index, strict=True)]
