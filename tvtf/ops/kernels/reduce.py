"""TE kernels of reductions; 16-bit floats accumulate in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvtf.core.shape import same_dim, simplify_dim
from tvtf.ops.column_sums import OPERATORS, computed
from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import accumulator_dtype, cast, compute, long, reduce_axis
from tvtf.ops.kernels.scalar import broadcast_index, dims, widen

MOST_NARROW = 2**31 - 1


def reduce(x: te.Tensor, axis: tuple[int, ...], keepdims: bool, combine: Callable[..., Any]) -> te.Tensor:
    """Reduces a tensor over axes by the TE reducer ``combine``, such as ``te.sum``. Without axes it copies the tensor.

    16-bit floats are accumulated in float32.
    """
    extents = dims(x)
    if keepdims:
        shape = [1 if i in axis else extent for i, extent in enumerate(extents)]
    else:
        shape = [extent for i, extent in enumerate(extents) if i not in axis]
    if not axis:
        return compute(shape, lambda *index: x(*index), "reduce")
    reduction_axes = {i: reduce_axis(extents[i], f"k{i}") for i in axis}

    def element(*index: Any) -> Any:
        """Combines the elements of x at an index of the result and all indices along the reduced axes."""
        remaining = iter(index)
        x_index = []
        for i in range(len(extents)):
            if i not in reduction_axes:
                x_index.append(next(remaining))
                continue
            x_index.append(reduction_axes[i])
            if keepdims:
                next(remaining)  # the index along the axis of size 1
        return combine(widen(x(*x_index)), axis=list(reduction_axes.values()))

    return narrowed(compute(shape, element, "reduce"), x.dtype)


def narrowed(tensor: te.Tensor, dtype: str) -> te.Tensor:
    """Casts a result from its accumulation dtype to the op's dtype."""
    if str(tensor.dtype) == str(dtype):
        return tensor
    return compute(tensor.shape, lambda *i: tensor(*i).astype(dtype), "narrow")


def sum(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return reduce(x, axis, keepdims, te.sum)


def sum_to(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    """Sums a tensor to ``shape``, the reverse of a broadcast: over the axes that have size 1 in ``shape``.

    Whether a symbolic dim is 1 is only known at run time. So each element of such an axis sums old dim / new dim
    elements, which is 1 if the axis isn't reduced.
    """
    new_shape = [simplify_dim(dim) for dim in shape]
    reduction_axes = {}
    for axis, (old_dim, new_dim) in enumerate(zip(dims(x), new_shape)):
        if not same_dim(old_dim, new_dim):
            count = simplify_dim(long(old_dim) // tirx.max(long(new_dim), long(1)))
            reduction_axes[axis] = reduce_axis(count, f"k{axis}")
    if not reduction_axes:
        return compute(new_shape, lambda *index: x(*index), "sum_to")

    def element(*index: Any) -> Any:
        # The index along a reduced axis is 0.
        x_index = [i + reduction_axes[axis] if axis in reduction_axes else i for axis, i in enumerate(index)]
        return te.sum(widen(x(*x_index)), axis=list(reduction_axes.values()))

    return narrowed(compute(new_shape, element, "sum_to"), x.dtype)


def prod(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:
    return reduce(x, axis, keepdims, _PROD)


def max(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    """Computes the largest element over axes; NaN if there is one."""
    return reduce(x, axis, keepdims, _MAX)


def min(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    """Computes the smallest element over axes; NaN if there is one."""
    return reduce(x, axis, keepdims, _MIN)


def any(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return _as_bool(reduce(_as_bytes(x), axis, keepdims, _ANY))


def all(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return _as_bool(reduce(_as_bytes(x), axis, keepdims, _ALL))


def mean(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:
    """Computes the mean over axes. The mean of no elements is NaN for floats, and 0 for integers.

    Floats are summed in float32 or float64. Integers are summed in 64 bits, and the quotient is truncated.
    """
    count = long(1)
    for reduced_axis in axis:
        count = count * long(x.shape[reduced_axis])
    static_count = simplify_dim(count)
    is_empty = isinstance(static_count, int) and static_count == 0
    is_integer = "int" in str(x.dtype)
    sum_dtype = _sum_dtype(str(x.dtype))
    total = reduce(cast(x, sum_dtype), axis, keepdims, te.sum)
    # Integers must not be divided by 0.
    divisor = (tirx.max(count, long(1)) if is_integer else count).astype(sum_dtype)

    def element(*i: Any) -> Any:
        if is_integer:
            return tirx.truncdiv(total(*i), divisor)
        return tirx.const(float("nan"), sum_dtype) if is_empty else total(*i) / divisor

    return narrowed(compute(total.shape, element, "mean"), str(x.dtype))


def _sum_dtype(dtype: str) -> str:
    """Returns the dtype in which the elements of a mean are summed."""
    if "int" not in dtype:
        return accumulator_dtype(dtype)
    return "uint64" if dtype == "uint64" else "int64"


def variance_about(x: te.Tensor, center: te.Tensor, *, axis: tuple[int, ...]) -> te.Tensor:
    """Computes the mean of ``(x - center)**2`` over the axes ``axis``.

    The reduced axes have size 1 in ``center`` and in the result.
    """

    def square(*i: Any) -> Any:
        center_index = [0 if position in axis else index for position, index in enumerate(i)]
        deviation = widen(x(*i)) - widen(center(*center_index))
        return deviation * deviation

    squares = compute(x.shape, square, "squares")
    return narrowed(mean(squares, axis=axis, keepdims=True), str(x.dtype))


def column_sums(*operands: te.Tensor, formulas: tuple[Any, ...], axis: tuple[int, ...]) -> list[te.Tensor]:
    """Computes several sums over the same axes, one for each formula of the operands.

    All sums are rows of one reduction, which reads each operand only once.
    """
    shape = dims(operands[0])
    reduction_axes = {each: reduce_axis(shape[each], f"k{each}") for each in axis}
    operators = OPERATORS | {"rounded_product": lambda x, y: scalar.rounded_first(x * y)}

    def sum_of_formula(formula_number: Any, *kept_index: Any) -> Any:
        """Returns one sum: of the values of a formula, over the reduced axes.

        Args:
          formula_number: the position of the formula, known only at run time.
          kept_index: the index along the axes that aren't reduced.
        """
        positions = iter(kept_index)
        element_index = [reduction_axes[a] if a in reduction_axes else next(positions) for a in range(len(shape))]
        operand_values = [x(*broadcast_index(x, element_index, shape)) for x in operands]
        *values, chosen = [computed(formula, operand_values, operators) for formula in formulas]
        # A chain of selections stands for `values[formula_number]`, which TE expressions don't have.
        for position, value in reversed([*enumerate(values)]):
            chosen = tirx.Select(formula_number == position, value, chosen)
        return te.sum(chosen, axis=list(reduction_axes.values()))

    kept_dims = [dim for i, dim in enumerate(shape) if i not in axis]
    rows = compute([len(formulas), *kept_dims], sum_of_formula, "column_sums")

    def row(row_number: int) -> te.Tensor:
        return compute(kept_dims, lambda *i: rows(long(row_number), *i), "column_sum")

    return [row(row_number) for row_number in range(len(formulas))]


def argmax(x: te.Tensor, *, axis: int, output_type: str) -> te.Tensor:
    return _arg_extreme(x, axis, output_type, _LARGEST, False)


def argmin(x: te.Tensor, *, axis: int, output_type: str) -> te.Tensor:
    return _arg_extreme(x, axis, output_type, _SMALLEST, True)


def _arg_extreme(x: te.Tensor, axis: int, output_type: str, combine: Callable[..., Any], lowest: bool) -> te.Tensor:
    """Computes the index of the first largest or smallest element along an axis; NaN is never chosen.

    If the largest element is -inf (for the smallest, +inf), the index is 0, as in Eigen. ``combine`` is the TE reducer
    that computes the extreme value, and ``lowest`` is True for the smallest element.
    """
    values = cast(x, accumulator_dtype(str(x.dtype)) if str(x.dtype) != "bool" else "int8")
    best = reduce(values, (axis,), False, combine)
    extent = long(x.shape[axis])
    index_axis = reduce_axis(extent, "place")
    # int32 indices fill a vector register with as many elements as float32 values do
    index_dtype = "int32" if isinstance(extent, tirx.IntImm) and int(extent) <= MOST_NARROW else "int64"

    def first_index(*i: Any) -> Any:
        """Computes the index of the first element that equals the row's extreme value."""
        is_best = values(*i[:axis], index_axis, *i[axis:]) == best(*i)
        # The minimum over the indices of the extreme value; other elements count as the extent.
        index = tirx.Select(is_best, index_axis.var.astype(index_dtype), extent.astype(index_dtype))
        return te.min(index, axis=[index_axis])

    first = compute(best.shape, first_index, "first")
    worst_value = _infinity(str(values.dtype), not lowest)

    def element(*i: Any) -> Any:
        """Casts the index to the result's dtype; it is 0 if no element is better than the worst value (infinity)."""
        result = first(*i)
        if worst_value is not None:
            result = tirx.Select(best(*i) == worst_value, tirx.const(0, index_dtype), result)
        return result.astype(output_type)

    return compute(best.shape, element, "arg")


def _infinity(dtype: str, negative: bool) -> Any:
    return tirx.const(float("-inf" if negative else "inf"), dtype) if "float" in dtype else None


def _as_bytes(x: te.Tensor) -> te.Tensor:
    return compute(x.shape, lambda *i: x(*i).astype("int8"), "bytes")


def _as_bool(x: te.Tensor) -> te.Tensor:
    return compute(x.shape, lambda *i: x(*i) != tirx.const(0, "int8"), "flags")


def _limit(dtype: str, lowest: bool) -> Any:
    """Returns the identity of a maximum (lowest) or a minimum."""
    if "float" in dtype:
        return tirx.const(float("-inf" if lowest else "inf"), dtype)
    return tirx.min_value(dtype) if lowest else tirx.max_value(dtype)


_PROD = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), "prod")
_MAX = te.comm_reducer(scalar.maximum, lambda dtype: _limit(dtype, True), "max")
_MIN = te.comm_reducer(scalar.minimum, lambda dtype: _limit(dtype, False), "min")
_ANY = te.comm_reducer(scalar.maximum, lambda dtype: tirx.const(0, dtype), "any")
_ALL = te.comm_reducer(scalar.minimum, lambda dtype: tirx.const(1, dtype), "all")
_LARGEST = te.comm_reducer(lambda a, b: tirx.Select(b > a, b, a), lambda dtype: _limit(dtype, True), "largest")
_SMALLEST = te.comm_reducer(lambda a, b: tirx.Select(b < a, b, a), lambda dtype: _limit(dtype, False), "smallest")
