"""Cumulative sums and products along an axis, and the linear recurrence by which their gradients are computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, show_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import FLOATING, NUMERIC
from tvtf.ops.dims import at_least_zero
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind, draw, kernel, number, require_dtype, require_same_dtype, static_int, stretch

NO_ONNX = "ONNX has no running product before opset 26, and no recurrence but Loop and Scan"


def wide_type(x: np.ndarray) -> np.dtype:
    """Returns the dtype to accumulate in: float32 for 16-bit floats, else the array's."""
    return np.dtype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x.dtype


def _scan_type(x: TensorType, *, axis: int, exclusive: bool, reverse: bool) -> TensorType:
    """Checks the input and the axis of a cumulative op, and returns the type of the result: the input's type."""
    require_dtype(x, NUMERIC)
    rank = len(x.shape)
    if not 0 <= axis < rank:
        raise ArgumentValueError(f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {axis}")
    return x


def _scan_numpy(accumulate: Any, start: int) -> Any:
    """Returns the NumPy kernel of a cumulative op, such as cumsum.

    ``accumulate(x, axis, dtype)`` is NumPy's function. ``start`` is the first element of an exclusive result.
    """

    def scan(x: np.ndarray, *, axis: int, exclusive: bool, reverse: bool) -> np.ndarray:
        """Accumulates along ``axis``. A reverse scan flips the axis before and after."""
        ordered = np.flip(x, axis) if reverse else x
        total = accumulate(ordered, axis, wide_type(x))
        if exclusive and total.shape[axis]:
            # Each element is replaced by the one before it.
            total = np.roll(total, 1, axis)
            total[(slice(None),) * axis + (0,)] = start
        return np.flip(total, axis) if reverse else total

    return scan


def _scan_batch(name: str) -> Any:
    """Returns the batch rule of a cumulative op, whose axis comes one later in a batch."""

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, axis: int, **attrs: Any) -> Tensor:
        return getattr(bind, name)(inputs[0], axis=axis + 1, **attrs)

    return rule


def _scan_samples() -> list[Sample]:
    """Returns test samples of cumulative ops: exclusive, reverse, with an empty axis, and with a symbolic size."""
    # The shape, the axis, exclusive and reverse.
    cases = (((4,), 0, False, False), ((2, 3), 1, True, False), ((3, 2), 0, False, True), ((2, 3, 2), 1, True, True))
    samples = []
    for seed, (shape, axis, exclusive, reverse) in enumerate(cases):
        attrs = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
        samples.append(Sample((draw(seed, shape),), attrs, NUMERIC))
    empty_attrs = {"axis": 0, "exclusive": True, "reverse": False}
    samples.append(Sample((draw(9, (0, 2)),), empty_attrs, NUMERIC))
    symbolic_attrs = {"axis": 0, "exclusive": False, "reverse": False}
    samples.append(Sample((draw(8, (3, 2)),), symbolic_attrs, NUMERIC, symbolic=(("n", None),)))
    return samples


def _scan_front(x: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
    """Converts the arguments of a scan. A negative axis counts from the end."""
    tensor = convert_to_tensor(x)
    index = static_int(axis, "axis")
    index = index + tensor.ndim if -tensor.ndim <= index < 0 else index
    return (tensor,), {"axis": index, "exclusive": bool(exclusive), "reverse": bool(reverse)}


def _cumsum_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: int, exclusive: bool, reverse: bool
) -> None:
    """Emits ONNX's CumSum, whose options ``exclusive`` and ``reverse`` are ints."""
    options = {"exclusive": int(exclusive), "reverse": int(reverse)}
    emitter.node("CumSum", [inputs[0], emitter.const(np.array(axis))], outputs, **options)


@primitive(
    type=_scan_type,
    numpy=_scan_numpy(lambda x, axis, dtype: np.cumsum(x, axis, dtype=dtype), 0),
    lower=kernel("scan.cumsum"),
    vjp=lambda cotangent, y, x, *, axis, exclusive, reverse: bind.cumsum(
        cotangent, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
    batch=_scan_batch("cumsum"),
    onnx=_cumsum_nodes,
    samples=_scan_samples,
    public=("cumsum", "math.cumsum"),
)
@attributes(exclusive=bool, reverse=bool)
def cumsum(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Computes the running sum along ``axis``.

    Args:
      x: numeric tensor.
      axis: int in [-rank, rank).
      exclusive: whether each element is the sum of the elements before it, without itself.
      reverse: whether to begin at the end.

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.cumsum([1, 2, 3]).numpy()
    array([1, 3, 6], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cumsum
    """
    return _scan_front(x, axis, exclusive, reverse)


def conjugate(x: Tensor) -> Tensor:
    """Returns the conjugate of a complex tensor, and a real one as it is."""
    return bind.conj(x) if x.dtype.is_complex else x


def _cumprod_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, axis: int, exclusive: bool, reverse: bool) -> Tensor:
    """Returns the cotangent of cumprod's input.

    It is the product of the elements before, times a linear recurrence over the cotangents after. Unlike a quotient of
    products, this doesn't divide by the elements, which may be zero.

    Args:
      cotangent: the cotangent of the result.
      y: the result.
      x: the input.
      axis: the axis of the products.
      exclusive: whether a product leaves out the element at its own position.
      reverse: whether the products begin at the end of the axis.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    factors = conjugate(x)
    products_before = bind.cumprod(factors, axis=axis, exclusive=True, reverse=reverse)
    # Each element is replaced by the one that follows in the order of the product.
    direction = 1 if reverse else -1
    next_factors = moved_by_one(factors, axis, direction)
    next_cotangent = moved_by_one(cotangent, axis, direction) if exclusive else cotangent
    sums_after = bind.linear_recurrence(next_factors, next_cotangent, axis=axis, reverse=not reverse)
    return bind.multiply(products_before, sums_after)


def moved_by_one(x: Tensor, axis: int, direction: int) -> Tensor:
    """Shifts ``x`` by one along ``axis``, and fills the free position with zero.

    A ``direction`` of 1 shifts towards higher indices, -1 towards lower ones.
    """
    shape = x._type.shape
    size = (*shape[:axis], at_least_zero(shape[axis] - 1), *shape[axis + 1 :])
    first = (0,) * len(shape)
    second = (*first[:axis], 1, *first[axis + 1 :])
    read_from, write_to = (first, second) if direction == 1 else (second, first)
    strides = (1,) * len(shape)
    remaining = bind.strided_slice(x, begin=read_from, size=size, strides=strides, checked=())
    # The slice's gradient writes the elements into zeros.
    return bind.strided_slice_grad(remaining, shape=shape, begin=write_to, strides=strides)


@primitive(
    type=_scan_type,
    numpy=_scan_numpy(lambda x, axis, dtype: np.cumprod(x, axis, dtype=dtype), 1),
    lower=kernel("scan.cumprod"),
    vjp=_cumprod_vjp,
    batch=_scan_batch("cumprod"),
    samples=_scan_samples,
    public=("math.cumprod",),
    why_not={"onnx": NO_ONNX},
)
@attributes(exclusive=bool, reverse=bool)
def cumprod(x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None) -> Any:
    """Computes the running product along ``axis``. The gradient is also right for elements that are zero.

    Args:
      x: numeric tensor.
      axis: int in [-rank, rank).
      exclusive: whether each element is the product of the elements before it, without itself.
      reverse: whether to begin at the end.

    Returns:
      A tensor of the same shape and dtype.

    >>> import tvtf as tf
    >>> tf.math.cumprod([1, 2, 3]).numpy()
    array([1, 2, 6], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cumprod
    """
    return _scan_front(x, axis, exclusive, reverse)


def _recurrence_type(a: TensorType, b: TensorType, *, axis: int, reverse: bool) -> TensorType:
    """Checks that the factors ``a`` and terms ``b`` of a recurrence have the same dtype and shape."""
    require_same_dtype((a, b), ("a", "b"))
    require_dtype(a, NUMERIC)
    if len(a.shape) != len(b.shape) or not all(map(agree_dim, a.shape, b.shape)):
        raise ArgumentError(f"Expected a and b of one shape, but got {show_shape(a.shape)} and {show_shape(b.shape)}")
    return b


def _recurrence_numpy(a: np.ndarray, b: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """Computes the linear recurrence ``h[t] = a[t] * h[t - 1] + b[t]`` step by step, in the accumulation dtype.

    With ``reverse``, ``h[t + 1]`` replaces ``h[t - 1]``.
    """
    factors = np.moveaxis(a, axis, 0).astype(wide_type(a))
    terms = np.moveaxis(b, axis, 0).astype(wide_type(b))
    result = np.empty_like(terms)
    steps = range(len(terms))
    value = np.zeros(terms.shape[1:], terms.dtype)
    for step in reversed(steps) if reverse else steps:
        value = factors[step] * value + terms[step]
        result[step] = value
    return np.moveaxis(result, 0, axis)


def _recurrence_vjp(
    cotangent: Tensor, y: Tensor, a: Tensor, b: Tensor, *, axis: int, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``a`` and ``b``: ``b``'s is the recurrence run backwards over ``cotangent``."""
    towards_previous, towards_next = (1, -1) if reverse else (-1, 1)
    b_cotangent = bind.linear_recurrence(
        moved_by_one(conjugate(a), axis, towards_previous), cotangent, axis=axis, reverse=not reverse
    )
    return bind.multiply(b_cotangent, conjugate(moved_by_one(y, axis, towards_next))), b_cotangent


def _recurrence_batch(size: Dim, inputs: Any, batched: Any, *, axis: int, reverse: bool) -> Tensor:
    """Computes the recurrences of a batch at once, along an axis that comes one later."""
    batched_inputs = [stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)]
    return bind.linear_recurrence(*batched_inputs, axis=axis + 1, reverse=reverse)


@primitive(
    type=_recurrence_type,
    numpy=_recurrence_numpy,
    lower=kernel("scan.linear_recurrence"),
    vjp=_recurrence_vjp,
    batch=_recurrence_batch,
    samples=lambda: [
        Sample((draw(0, s), draw(1, s)), {"axis": a, "reverse": r}, FLOATING)
        for s, a, r in (((4,), 0, False), ((2, 3), 1, True), ((0, 2), 0, False))
    ],
    why_not={"onnx": NO_ONNX},
)
def linear_recurrence(a: Any, b: Any, axis: int = 0, reverse: bool = False) -> Any:
    """Computes ``h[t] = a[t] * h[t - 1] + b[t]`` along ``axis``, starting with h = 0."""
    return (convert_to_tensor(a), convert_to_tensor(b)), {"axis": axis, "reverse": reverse}


# -- log-sum-exp


def _logsum_type(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
    """Checks input and axis of a cumulative log-sum-exp, and returns the type of the result: the input's type."""
    require_dtype(x, FLOATING)
    rank = len(x.shape)
    if not 0 <= axis < rank:
        raise ArgumentValueError(f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {axis}")
    return x


def _logsum_numpy(x: np.ndarray, *, axis: int, reverse: bool) -> np.ndarray:
    """Computes the cumulative log-sum-exp by NumPy's logaddexp, in the accumulation dtype."""
    ordered = np.flip(x, axis) if reverse else x
    total = np.logaddexp.accumulate(ordered.astype(wide_type(x)), axis)
    return np.flip(total, axis) if reverse else total


def _logsum_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, axis: int, reverse: bool) -> Tensor:
    """Returns the cotangent of the input of a cumulative log-sum-exp, ``y[i] = log(sum(exp(x[: i + 1])))``.

    It is a linear recurrence with the factors ``exp(y[j] - y[j + 1])``. They are at most 1, so nothing overflows.
    """
    direction = 1 if reverse else -1
    next_y = moved_by_one(y, axis, direction)
    factors = bind.exp(_difference(y, next_y))
    sums_after = bind.linear_recurrence(factors, cotangent, axis=axis, reverse=not reverse)
    return bind.multiply(bind.exp(_difference(x, y)), sums_after)


def _difference(x: Tensor, y: Tensor) -> Tensor:
    """Returns ``x - y``, but -inf where x is -inf: there y may be -inf, too, and the difference NaN."""
    lowest = EagerTensor(np.array(-np.inf, x.dtype.np))
    return bind.select(bind.equal(x, lowest), lowest, bind.subtract(x, y))


@primitive(
    name="cumulative_logsumexp",
    type=_logsum_type,
    numpy=_logsum_numpy,
    lower=kernel("scan.cumulative_logsumexp"),
    vjp=_logsum_vjp,
    batch=_scan_batch("cumulative_logsumexp"),
    samples=lambda: [
        Sample((draw(0, s),), {"axis": a, "reverse": r}, FLOATING)
        for s, a, r in (((4,), 0, False), ((2, 3), 1, True), ((0, 2), 0, False))
    ],
    why_not={"onnx": NO_ONNX},
)
def running_logsumexp(x: Tensor, axis: int, reverse: bool) -> Any:
    """Computes ``log(cumsum(exp(x)))`` without overflow."""
    return (x,), {"axis": axis, "reverse": reverse}


@export("math.cumulative_logsumexp")
@attributes(exclusive=bool, reverse=bool)
def cumulative_logsumexp(
    x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Computes ``log(cumsum(exp(x)))`` along ``axis``, without overflow.

    Args:
      x: floating tensor.
      axis: int in [-rank, rank).
      exclusive: whether to leave out each element's own term. Then the first element is -inf.
      reverse: whether to begin at the end.

    >>> import tvtf as tf
    >>> tf.math.cumulative_logsumexp([0., 0.]).numpy()
    array([0.       , 0.6931472], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/cumulative_logsumexp
    """
    tensor = convert_to_tensor(x)
    index = static_int(axis, "axis")
    index = index + tensor.ndim if -tensor.ndim <= index < 0 else index
    total = bind.cumulative_logsumexp(tensor, axis=index, reverse=bool(reverse))
    return _made_exclusive(total, index, bool(reverse)) if exclusive else total


def _made_exclusive(total: Tensor, axis: int, reverse: bool) -> Tensor:
    """Converts a cumulative log-sum-exp to an exclusive one: shifts it by one along ``axis`` and inserts -inf.

    -inf is the logarithm of an empty sum. With ``reverse`` it is inserted at the end.
    """
    shape = total._type.shape
    extent = shape[axis]
    origin = (0,) * len(shape)
    strides = (1,) * len(shape)
    minus_infinity = number(-np.inf, total)
    inserted = bind.broadcast_to(minus_infinity, shape=(*shape[:axis], 1, *shape[axis + 1 :]))
    # All sums but the one that is shifted out.
    begin = (*origin[:axis], 1 if reverse else 0, *origin[axis + 1 :])
    size = (*shape[:axis], at_least_zero(extent - 1), *shape[axis + 1 :])
    remaining = bind.strided_slice(total, begin=begin, size=size, strides=strides, checked=())
    parts = (remaining, inserted) if reverse else (inserted, remaining)
    shifted = bind.concat(*parts, axis=axis)
    if isinstance(extent, int) and extent:
        return shifted
    # Of an axis that is empty, or may be at run time, the -inf is cut off.
    return bind.strided_slice(shifted, begin=origin, size=shape, strides=strides, checked=())
