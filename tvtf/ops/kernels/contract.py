"""TE kernel of a product of two tensors summed over shared labels."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, cast, compute, reduce_axis


def contract(a: te.Tensor, b: te.Tensor, *, equation: str) -> te.Tensor:
    """Computes an einsum of two tensors without transposing them. ``equation`` is, for example, "ij,jk->ik".

    Products are summed over all labels that the result lacks.
    """
    operands, result = equation.split("->")
    left, right = operands.split(",")
    extents = dict(zip(left, a.shape)) | dict(zip(right, b.shape))
    # a reduction axis for each label that the result lacks
    summed = {
        label: reduce_axis(extents[label], f"k_{label}") for label in dict.fromkeys(left + right) if label not in result
    }
    dtype = accumulator_dtype(str(a.dtype))

    def body(*index: Any) -> Any:
        """Computes an element of the result: the sum over the contracted labels of products of elements."""
        index_of_label = {**dict(zip(result, index)), **{label: axis.var for label, axis in summed.items()}}
        x, y = (
            as_dtype(t(*(index_of_label[label] for label in labels)), dtype) for t, labels in ((a, left), (b, right))
        )
        return te.sum(x * y, axis=list(summed.values())) if summed else x * y

    shape = [extents[label] for label in result]
    return cast(compute(shape, body, "contract") if shape else te.compute((), body, name="contract"), str(a.dtype))


def take_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    """Reads the diagonal of two axes of equal extent; the axis ``second`` is removed."""
    shape = [d for i, d in enumerate(x.shape) if i != second]

    def body(*index: Any) -> Any:
        return x(*index[:second], index[first], *index[second:])

    return compute(shape, body, "take_diagonal")


def put_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    """Inserts an axis ``second``, and puts the elements of ``x`` on the diagonal of the axes ``first`` and ``second``.

    Other elements are 0. For example, a vector becomes a diagonal matrix.
    """
    shape = [*x.shape[:second], x.shape[first], *x.shape[second:]]
    zero = tirx.const(0, str(x.dtype))

    def body(*index: Any) -> Any:
        source = index[:second] + index[second + 1 :]  # the index without the new axis
        return tirx.Select(index[first] == index[second], x(*source), zero)

    return compute(shape, body, "put_diagonal")
