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
    """Applies ``combine`` (``te.sum``, ...) over the axes, and copies elements if there are none."""
    extents = dims(x)
    rest = [d for i, d in enumerate(extents) if i not in axis]
    shape = [1 if i in axis else d for i, d in enumerate(extents)] if keepdims else rest
    if not axis:
        return compute(shape, lambda *i: x(*i), "reduce")
    inner = {a: reduce_axis(extents[a], f"k{a}") for a in axis}

    def source(index: tuple[Any, ...]) -> Any:
        outer = iter(index)
        if keepdims:
            return widen(x(*(inner.get(i, o) for i, o in enumerate(index))))
        return widen(x(*(inner[i] if i in inner else next(outer) for i in range(len(extents)))))

    total = compute(shape, lambda *i: combine(source(i), axis=list(inner.values())), "reduce")
    return narrowed(total, x.dtype)


def narrowed(tensor: te.Tensor, dtype: str) -> te.Tensor:
    if str(tensor.dtype) == str(dtype):
        return tensor
    return compute(tensor.shape, lambda *i: tensor(*i).astype(dtype), "narrow")


def sum(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return reduce(x, axis, keepdims, te.sum)


def sum_to(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    """Sums along the axes of size 1 in ``shape``.

    For a symbolic dim the number of steps is computed: it is 1 if the axis isn't reduced.
    """
    old_shape, new_shape = dims(x), [simplify_dim(d) for d in shape]
    steps = [simplify_dim(long(wide) // tirx.max(long(d), long(1))) for wide, d in zip(old_shape, new_shape)]
    along = {a: reduce_axis(n, f"k{a}") for a, n in enumerate(steps) if not same_dim(old_shape[a], new_shape[a])}

    def source(index: tuple[Any, ...]) -> Any:
        return widen(x(*(i + along[a] if a in along else i for a, i in enumerate(index))))

    if not along:
        return compute(new_shape, lambda *i: x(*i), "sum_to")
    return narrowed(compute(new_shape, lambda *i: te.sum(source(i), axis=list(along.values())), "sum_to"), x.dtype)


def prod(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:
    return reduce(x, axis, keepdims, _PROD)


def max(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    """Computes the largest element; NaN if there is one."""
    return reduce(x, axis, keepdims, _MAX)


def min(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    """Computes the smallest element; NaN if there is one."""
    return reduce(x, axis, keepdims, _MIN)


def any(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return _as_bool(reduce(_as_bytes(x), axis, keepdims, _ANY))


def all(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:  # noqa: A001 - the op's name
    return _as_bool(reduce(_as_bytes(x), axis, keepdims, _ALL))


def mean(x: te.Tensor, *, axis: tuple[int, ...], keepdims: bool) -> te.Tensor:
    """Divides sums, of floats in at least float32, of integers in int64 towards zero; no elements give NaN, or 0."""
    count = long(1)
    for a in axis:
        count = count * long(x.shape[a])
    integer = "int" in str(x.dtype)
    wide = "uint64" if str(x.dtype) == "uint64" else "int64" if integer else accumulator_dtype(str(x.dtype))
    total = reduce(cast(x, wide), axis, keepdims, te.sum)
    known = simplify_dim(count)
    is_empty = isinstance(known, int) and known == 0
    divisor = (tirx.max(count, long(1)) if integer else count).astype(wide)

    def element(*i: Any) -> Any:
        if integer:
            return tirx.truncdiv(total(*i), divisor)
        return tirx.const(float("nan"), wide) if is_empty else total(*i) / divisor

    return narrowed(compute(total.shape, element, "mean"), str(x.dtype))


def variance_about(x: te.Tensor, center: te.Tensor, *, axis: tuple[int, ...]) -> te.Tensor:
    """Computes the mean squared distance from ``center``, with reduced axes of size 1."""

    def square(*i: Any) -> Any:
        deviation = widen(x(*i)) - widen(center(*(0 if a in axis else at for a, at in enumerate(i))))
        return deviation * deviation

    return narrowed(mean(compute(x.shape, square, "squares"), axis=axis, keepdims=True), str(x.dtype))


def column_sums(*operands: te.Tensor, formulas: tuple[Any, ...], axis: tuple[int, ...]) -> list[te.Tensor]:
    """Computes all sums as rows of one reduction, so that each operand is read once."""
    shape = dims(operands[0])
    inner = {a: reduce_axis(shape[a], f"k{a}") for a in axis}
    operators = OPERATORS | {"rounded_product": lambda x, y: scalar.rounded_first(x * y)}

    def term(which: Any, *index: Any) -> Any:
        outer = iter(index)
        at = [inner[a] if a in inner else next(outer) for a in range(len(shape))]
        items = [x(*broadcast_index(x, at, shape)) for x in operands]
        values = [computed(formula, items, operators) for formula in formulas]
        chosen = values[-1]
        for row in range(len(values) - 2, -1, -1):
            chosen = tirx.Select(which == row, values[row], chosen)
        return te.sum(chosen, axis=list(inner.values()))

    rest = [d for a, d in enumerate(shape) if a not in axis]
    rows = compute([len(formulas), *rest], term, "column_sums")

    def row(which: int) -> te.Tensor:
        return compute(rest, lambda *i: rows(long(which), *i), "column_sum")

    return [row(which) for which in range(len(formulas))]


def argmax(x: te.Tensor, *, axis: int, output_type: str) -> te.Tensor:
    return _arg(x, axis, output_type, _LARGEST, False)


def argmin(x: te.Tensor, *, axis: int, output_type: str) -> te.Tensor:
    return _arg(x, axis, output_type, _SMALLEST, True)


def _arg(x: te.Tensor, axis: int, output_type: str, combine: Callable[..., Any], lowest: bool) -> te.Tensor:
    """Computes the first index of the best element, ignoring NaN; 0 where nothing beats infinity, as in Eigen."""
    values = cast(x, accumulator_dtype(str(x.dtype)) if str(x.dtype) != "bool" else "int8")
    best = reduce(values, (axis,), False, combine)
    extent = long(x.shape[axis])
    step = reduce_axis(extent, "place")
    # Narrow places fill vectors with as many elements as float32 does.
    narrow = "int32" if isinstance(extent, tirx.IntImm) and int(extent) <= MOST_NARROW else "int64"

    def place(*i: Any) -> Any:
        same = values(*i[:axis], step, *i[axis:]) == best(*i)
        return te.min(tirx.Select(same, step.var.astype(narrow), extent.astype(narrow)), axis=[step])

    first = compute(best.shape, place, "first")
    edge = _infinity(str(values.dtype), not lowest)

    def element(*i: Any) -> Any:
        result = first(*i) if edge is None else tirx.Select(best(*i) == edge, tirx.const(0, narrow), first(*i))
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
