"""TE kernel of a product of two tensors summed over shared labels."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, cast, compute, reduce_axis


def contract(a: te.Tensor, b: te.Tensor, *, equation: str) -> te.Tensor:
    """Computes an einsum of two tensors without transposing them. ``equation`` is, for example, "ij,jk->ik".

    Products are summed over all labels that the result lacks.
    """
    operand_labels, result_labels = equation.split("->")
    a_labels, b_labels = operand_labels.split(",")
    # Sizes of one label may be unknown in an operand only. The result has those of the first operand, as in its type.
    a_extents, b_extents = dict(zip(a_labels, a.shape)), dict(zip(b_labels, b.shape))
    result_extents, summed_extents = b_extents | a_extents, a_extents | b_extents
    summed_labels = [label for label in dict.fromkeys(a_labels + b_labels) if label not in result_labels]
    reduction_axes = {label: reduce_axis(summed_extents[label], f"k_{label}") for label in summed_labels}
    dtype = accumulator_dtype(str(a.dtype))

    def element_at(*index: Any) -> Any:
        """Computes an element of the result: the sum over the contracted labels of products of elements."""
        index_of_label = dict(zip(result_labels, index))
        for label, axis in reduction_axes.items():
            index_of_label[label] = axis.var
        a_index = [index_of_label[label] for label in a_labels]
        b_index = [index_of_label[label] for label in b_labels]
        term = as_dtype(a(*a_index), dtype) * as_dtype(b(*b_index), dtype)
        return te.sum(term, axis=list(reduction_axes.values())) if reduction_axes else term

    shape = [result_extents[label] for label in result_labels]
    result = compute(shape, element_at, "contract") if shape else te.compute((), element_at, name="contract")
    return cast(result, str(a.dtype))


def take_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    """Reads the diagonal of two axes of equal extent; the axis ``second`` is removed.

    An einsum such as "ii->i" needs it. For axes 0 and 2, element (i, j) of the result is ``x[i, j, i]``.
    """
    shape = [extent for axis, extent in enumerate(x.shape) if axis != second]

    def element_at(*index: Any) -> Any:
        return x(*index[:second], index[first], *index[second:])

    return compute(shape, element_at, "take_diagonal")


def put_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    """Inserts an axis ``second``, and puts the elements of ``x`` on the diagonal of the axes ``first`` and ``second``.

    Other elements are 0. For example, a vector becomes a diagonal matrix.
    """
    shape = [*x.shape[:second], x.shape[first], *x.shape[second:]]
    zero = tirx.const(0, str(x.dtype))

    def element_at(*index: Any) -> Any:
        source = index[:second] + index[second + 1 :]  # the index without the new axis
        return tirx.Select(index[first] == index[second], x(*source), zero)

    return compute(shape, element_at, "put_diagonal")
