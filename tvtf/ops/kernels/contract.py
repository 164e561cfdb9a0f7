"""TE kernel of a product of two tensors summed over shared labels."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, cast, compute, reduce_axis


def contract(a: te.Tensor, b: te.Tensor, *, equation: str) -> te.Tensor:
    """Multiplies ``a`` and ``b`` and sums over the labels that the result lacks, without transposing operands."""
    operands, result = equation.split("->")
    left, right = operands.split(",")
    extents = dict(zip(left, a.shape)) | dict(zip(right, b.shape))
    summed = {k: reduce_axis(extents[k], f"k_{k}") for k in dict.fromkeys(left + right) if k not in result}
    dtype = accumulator_dtype(str(a.dtype))

    def body(*place: Any) -> Any:
        at = {**dict(zip(result, place)), **{k: axis.var for k, axis in summed.items()}}
        x, y = (as_dtype(t(*(at[k] for k in labels)), dtype) for t, labels in ((a, left), (b, right)))
        return te.sum(x * y, axis=list(summed.values())) if summed else x * y

    shape = [extents[k] for k in result]
    return cast(compute(shape, body, "contract") if shape else te.compute((), body, name="contract"), str(a.dtype))


def take_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    shape = [d for i, d in enumerate(x.shape) if i != second]

    def body(*place: Any) -> Any:
        return x(*place[:second], place[first], *place[second:])

    return compute(shape, body, "take_diagonal")


def put_diagonal(x: te.Tensor, *, first: int, second: int) -> te.Tensor:
    """Writes ``x`` on the diagonal of axis ``first`` and a new axis ``second``, among zeros."""
    shape = [*x.shape[:second], x.shape[first], *x.shape[second:]]
    zero = tirx.const(0, str(x.dtype))

    def body(*place: Any) -> Any:
        source = place[:second] + place[second + 1 :]
        return tirx.Select(place[first] == place[second], x(*source), zero)

    return compute(shape, body, "put_diagonal")
