"""Ops that create tensors: fill, zeros, ones, range, linspace, one_hot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, brackets, broadcast_shapes
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.text_format import HOLE
from tvtf.core.thread_state import state
from tvtf.dtypes import COMPILED, DType, as_dtype, float32, int32, int64, string
from tvtf.ops.dims import at_least_zero, ceil_div, scalar_of
from tvtf.ops.math import as_quotient
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes
from tvtf.ops.rules import (
    as_dims,
    bind,
    draw,
    is_computed,
    kernel,
    number,
    require_dtype,
    require_same_dtype,
    size_argument,
    static_dims,
    static_value,
    stretch,
)


def checked_dims(shape: Any, what: str = "shape") -> tuple[Dim, ...]:
    """Converts a shape argument to dims and checks that none is negative."""
    dims = static_dims(shape, what)
    for dim in dims:
        if isinstance(dim, int) and dim < 0:
            raise ArgumentError(f"Dimension {dim} must be >= 0").for_op("Fill")
    return dims


@export("fill")
def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Tensor:
    """Returns a tensor of shape ``dims`` with ``value``, a scalar, as each element; ``layout`` is ignored.

    >>> import tvtf as tf
    >>> tf.fill([2], 9).numpy()
    array([9, 9], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) a dim is negative, or the value is not a scalar.

    Source: https://www.tensorflow.org/api_docs/python/tf/fill
    """
    scalar = convert_to_tensor(value)
    # A vector of one element passes eagerly only.
    if scalar.ndim and (state.trace is not None or scalar.shape != (1,)):
        raise ArgumentError(f"value must be a scalar, but got shape {brackets(scalar.shape)}").for_op("Fill")
    return bind.broadcast_to(bind.reshape(scalar, shape=()), shape=checked_dims(dims, "dims"))


def _filled(shape: Any, value: Any, dtype: Any) -> Tensor:
    element_dtype = as_dtype(dtype)
    element = b"" if element_dtype is string and value == 0 else value
    return bind.broadcast_to(EagerTensor(np.array(element, element_dtype.np)), shape=checked_dims(shape))


@export("zeros")
def zeros(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Returns a tensor of zeros (False, empty strings) of a shape, which may hold scalars computed from shapes.

    >>> import tvtf as tf
    >>> tf.zeros([2], tf.int32).numpy()
    array([0, 0], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/zeros
    """
    return _filled(shape, 0, dtype)


@export("ones")
def ones(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Returns a tensor of ones (True) of a shape, which may hold scalars computed from shapes.

    >>> import tvtf as tf
    >>> tf.ones([2]).numpy()
    array([1., 1.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/ones
    """
    if as_dtype(dtype) is string:
        raise TypeError("ones: Expected a numeric or bool dtype, but got string; use tf.fill")
    return _filled(shape, 1, dtype)


@export("zeros_like")
def zeros_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Returns a tensor of zeros with the shape of ``input``, and its dtype if none is given.

    >>> import tvtf as tf
    >>> tf.zeros_like([1., 2.]).numpy()
    array([0., 0.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/zeros_like
    """
    x = convert_to_tensor(input)
    return zeros(x._type.shape, dtype or x.dtype)


@export("ones_like")
def ones_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Returns a tensor of ones with the shape of ``input``, and its dtype if none is given.

    >>> import tvtf as tf
    >>> tf.ones_like([5, 6]).numpy()
    array([1, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/ones_like
    """
    x = convert_to_tensor(input)
    return ones(x._type.shape, dtype or x.dtype)


# -- range

MOST_KNOWN = 1 << 12
"""Limit of elements for which a trace keeps a range's values.

Ranges that axes and shapes are computed from are short.
"""


def _range_array(*, size: int, start: Any, delta: Any, dtype: DType) -> np.ndarray:
    """Computes a range ``start + i * delta``. Integers are computed in int64, so they wrap only at the final cast."""
    computed = np.int64 if dtype.is_integer else dtype.np
    values = np.arange(size, dtype=np.int64 if computed is np.int64 else None).astype(computed, copy=False)
    values *= np.asarray(delta, computed)
    values += np.asarray(start, computed)
    return values


def _range_value(*, size: Dim, start: Any, delta: Any, dtype: DType) -> np.ndarray | None:
    """Returns the values of a short integer range, which may hold symbolic dims."""
    if not isinstance(size, int) or size > MOST_KNOWN or not dtype.is_integer:
        return None
    if isinstance(start, int) and isinstance(delta, int) and abs(start) + size * abs(delta) < 1 << 63:
        return _range_array(size=size, start=start, delta=delta, dtype=dtype).astype(dtype.np)
    return np.array([start + i * delta for i in range(size)], object)


@primitive(
    name="range",
    type=lambda *, size, start, delta, dtype: TensorType((size,), dtype),
    numpy=_range_array,
    lower=kernel("array.arithmetic"),
    batch=lambda size, inputs, batched, **attrs: bind.range(**attrs),
    onnx=lambda emitter, inputs, outputs, types, *, size, start, delta, dtype: _range_nodes(
        emitter, outputs, size, start, delta, dtype
    ),
    value=_range_value,
    samples=lambda: [
        Sample((), {"size": n, "start": a, "delta": d, "dtype": t}, (), gradient=False)
        for n, a, d, t in ((3, 0, 1, int32), (0, 0, 1, int64), (4, 1.5, -0.25, float32))
    ],
    why_not={"vjp": "no inputs"},
)
def arithmetic(size: Dim, start: Any, delta: Any, dtype: DType) -> Any:
    """Returns ``start + i * delta`` for i in [0, size)."""
    return (), {"size": size, "start": start, "delta": delta, "dtype": dtype}


def _range_nodes(emitter: NodeEmitter, outputs: Names, size: Dim, start: Any, delta: Any, dtype: DType) -> None:
    """Emits ONNX nodes for a range of ``size`` numbers: ``start + delta * i`` for i = 0, 1, ...

    ONNX's Range computes the indices i. Integers are computed in int64.
    """
    compute_dtype = int64 if dtype.is_integer else dtype
    count = emitter.computed("Squeeze", [emitter.shape((size,))])
    zero = emitter.const(np.array(0))
    one = emitter.const(np.array(1))
    index = emitter.computed("Range", [zero, count, one])
    if isinstance(start, (int, float)):
        first = emitter.const(np.array(start, compute_dtype.np))
    else:  # a symbolic dim
        first = _scalar_dim(emitter, start)
    if compute_dtype is not int64:
        index = emitter.cast(index, compute_dtype)
    step = emitter.const(np.array(delta, compute_dtype.np))
    distance = emitter.computed("Mul", [index, step])
    values = emitter.computed("Add", [distance, first])
    if compute_dtype is not dtype:
        values = emitter.cast(values, dtype)
    emitter.node("Identity", [values], outputs)


def _scalar_dim(emitter: NodeEmitter, dim: Dim) -> str:
    """Emits a dim as an ONNX scalar."""
    return emitter.computed("Squeeze", [emitter.shape((dim,))])


@export("range")
def arange(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Returns numbers from ``start`` up to, but without, ``limit`` in steps of ``delta``; a single argument is the limit.

    Args:
      start: number, or scalar tensor.
      limit: the same.
      delta: the same, not zero.
      dtype: of the result; otherwise that of the arguments (int32 before int64 before float32 before float64).

    Returns:
      A vector of ``max(ceil((limit - start) / delta), 0)`` elements.

    >>> import tvtf as tf
    >>> tf.range(3, 18, 5).numpy()
    array([ 3,  8, 13], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) ``delta`` is zero or has the wrong sign.

    Source: https://www.tensorflow.org/api_docs/python/tf/range
    """
    start, limit = (0, start) if limit is None else (start, limit)
    kind = as_dtype(dtype) if dtype is not None else range_dtype((start, limit, delta))
    if dtype is not None:
        start, limit, delta = (bound_as(bound, kind) if is_tensor(bound) else bound for bound in (start, limit, delta))
    start, limit, delta = (_number(bound, kind if dtype is not None else float32) for bound in (start, limit, delta))
    if is_computed(limit) and kind.is_integer and not any(map(is_computed, (start, delta))) and _ascends(start, delta):
        limit = as_dims(limit, "limit")
    if any(map(is_computed, (start, limit, delta))):
        return _computed_range(start, limit, delta, kind)
    bounds = zip((start, limit, delta), ("start", "limit", "delta"))
    first, last, step = (_bound(value, what, kind) for value, what in bounds)
    if _are_fractions_and_dims((first, last, step)):
        return _computed_range(start, limit, delta, kind)
    return bind.range(size=_range_size(first, last, step, kind), start=first, delta=step, dtype=kind)


def _are_fractions_and_dims(bounds: Sequence[Any]) -> bool:
    """Returns whether a range's bounds mix symbolic dims with fractions: its size is no expression of dims then."""
    numbers = [bound for bound in bounds if isinstance(bound, (int, float))]
    return len(numbers) < len(bounds) and not (
        bounds[2] in numbers and all(float(bound).is_integer() for bound in numbers)
    )


def _ascends(start: Any, delta: Any) -> bool:
    """Returns whether a range from 0 has a positive step: then only a negative limit is an error, and dims aren't negative."""
    first, step = static_value(start, "start"), static_value(delta, "delta")
    return isinstance(first, int) and first == 0 and isinstance(step, int) and step > 0


def _computed_range(start: Any, limit: Any, delta: Any, dtype: DType) -> Tensor:
    """Computes ``tf.range`` for bounds or a step that are computed at run time.

    The program checks that the step is not 0, and that the step has the sign of ``limit - start``.
    """
    bounds = []
    for bound in (start, limit, delta):
        # A Python float would become float32, and lose digits of a wider dtype.
        tensor = convert_to_tensor(bound, dtype if type(bound) is float else None)
        bounds.append(bind.cast(tensor, dtype=dtype))
    first, last, step = bounds
    zero = number(0, step)
    bind.guard(bind.not_equal(step, zero), step, message=f"Requires delta != 0: {HOLE}", shown=1)
    negative_distance = bind.subtract(first, last)
    signs = bind.multiply(bind.sign(negative_distance), bind.sign(step))
    is_valid = bind.less_equal(signs, zero)
    message = f"Requires start <= limit when delta > 0, and start >= limit when delta < 0: {HOLE}/{HOLE} by {HOLE}"
    bind.guard(is_valid, first, last, step, message=message, shown=3)
    # ceil((last - first) / step) as -floor((first - last) / step)
    if dtype.is_integer:
        size = bind.negative(bind.floordiv(negative_distance, step))
    else:
        float_size = bind.negative(bind.floor(bind.divide(negative_distance, step)))
        size = bind.cast(float_size, dtype=int64)
    (count,) = static_dims(size, "size")
    index = bind.range(size=count, start=0, delta=1, dtype=int64)
    return bind.add(first, bind.multiply(bind.cast(index, dtype=dtype), step))


def bound_as(bound: Any, kind: DType) -> Tensor:
    """Converts a bound to a tensor of a dtype, casting a tensor of another dtype as TensorFlow does."""
    if is_tensor(bound):
        tensor = convert_to_tensor(bound)
        return tensor if tensor.dtype is kind else bind.cast(tensor, dtype=kind)
    return convert_to_tensor(bound, kind)


def range_dtype(bounds: Sequence[Any]) -> DType:
    """Returns the dtype of ``tf.range``: the widest of its arguments' dtypes, by TensorFlow's order."""
    from_narrow_to_wide = ("int32", "int64", "float16", "bfloat16", "float32", "float64")
    names = [convert_to_tensor(bound).dtype.name for bound in bounds]
    for name in names:
        if name not in from_narrow_to_wide:
            raise TypeError(f"range: Expected numbers, but got dtype {name}")
    widest_name = max(names, key=from_narrow_to_wide.index)
    return as_dtype(widest_name)


def _number(bound: Any, kind: DType) -> Any:
    """Rounds a Python float to a dtype.

    Without a given dtype that is float32, even where other arguments are wider, as in TensorFlow.
    """
    return convert_to_tensor(bound, kind).eager_array().item() if type(bound) is float else bound


def _bound(value: Any, name: str, dtype: DType) -> Any:
    """Converts the start, limit or step of a range to a number of the range's dtype, or to a symbolic dim.

    ``name`` is the argument's name in errors.
    """
    shape = convert_to_tensor(value).shape
    if shape.rank:
        raise ArgumentError(f"{name} must be a scalar, not shape {brackets(shape)}").for_op("Range")
    known = static_value(value, name)
    if not isinstance(known, (int, float)):  # a symbolic dim
        return known
    if dtype.is_integer:  # a number that the dtype can't hold wraps around
        return int(convert_to_tensor(int(known), dtype).eager_array())
    return float(dtype.np.type(known))


def _range_size(start: Any, limit: Any, delta: Any, dtype: DType) -> Dim:
    """Returns the number of elements of a range from ``start`` up to, but without, ``limit`` in steps of ``delta``.

    The number is symbolic if ``start`` or ``limit`` is a symbolic dim.
    """
    if delta == 0:
        raise ArgumentError("Requires delta != 0: 0").for_op("Range")
    if isinstance(start, (int, float)) and isinstance(limit, (int, float)):
        return _static_range_size(start, limit, delta, dtype)
    # Dims are integers, so the arithmetic of dims takes no floats.
    first, end, step = [int(value) if isinstance(value, float) else value for value in (start, limit, delta)]
    distance = end - first if step > 0 else first - end
    return at_least_zero(ceil_div(distance, abs(step)))


def _static_range_size(start: Any, limit: Any, delta: Any, dtype: DType) -> int:
    """Returns the number of elements of a range with known bounds: ``ceil((limit - start) / delta)``.

    Floats are divided in the range's dtype, because its rounding can change the result.
    """
    if (limit - start) * delta < 0:
        requirement = "start <= limit when delta > 0" if delta > 0 else "start >= limit when delta < 0"
        raise ArgumentError(f"Requires {requirement}: {start}/{limit}").for_op("Range")
    if all(isinstance(bound, int) for bound in (start, limit, delta)):
        return -((start - limit) // delta)  # the quotient is rounded up
    first, last, step = map(dtype.np.type, (start, limit, delta))
    return math.ceil(float((last - first) / step))


@export("linspace", "lin_space")
def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """Returns ``num`` evenly spaced values from ``start`` to ``stop``, both included, along a new axis.

    Args:
      start: float scalar or tensor; integers become float64.
      stop: of the same shape and dtype.
      num: positive int.
      axis: where the new axis goes.

    >>> import tvtf as tf
    >>> tf.linspace(0., 1., 3).numpy()
    array([0. , 0.5, 1. ], dtype=float32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) ``num`` is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/linspace
    """
    first = convert_to_tensor(start)
    last = convert_to_tensor(stop, first.dtype)
    if first.dtype.is_integer:
        first, last = as_quotient(first), as_quotient(last)
    count = size_argument(num, "num")
    if isinstance(count, int) and count < 0:
        raise ArgumentError(f"Requires start <= limit when delta > 0: 1/{count}").for_op("Range")
    if first.ndim != last.ndim:  # the new axis is one of the shape to which both broadcast
        shape = broadcast_shapes(first._type.shape, last._type.shape)
        if shape is None:
            raise ArgumentError(f"Incompatible shapes: {brackets(first.shape)} vs. {brackets(last.shape)}").for_op(
                "LinSpace"
            )
        first, last = (bind.broadcast_to(x, shape=shape) for x in (first, last))
    axis = axis % (first.ndim + 1)
    first, last = _expanded(first, axis), _expanded(last, axis)
    index = bind.range(size=count, start=0, delta=1, dtype=int64)
    index = bind.reshape(index, shape=tuple(count if i == axis else 1 for i in range(first.ndim)))
    last_index = bind.maximum(bind.cast(scalar_of(count - 1), dtype=int64), number(1, index))
    step = bind.divide(bind.subtract(last, first), bind.cast(last_index, dtype=first.dtype))
    between = bind.add(first, bind.multiply(step, bind.cast(index, dtype=first.dtype)))
    # The ends stay exact, also infinite ones.
    values = bind.select(bind.greater_equal(index, last_index), last, between)
    return bind.select(bind.less_equal(index, number(0, index)), first, values)


def _expanded(x: Tensor, axis: int) -> Tensor:
    dims = x._type.shape
    return bind.reshape(x, shape=(*dims[:axis], 1, *dims[axis:]))


# -- one_hot


def _one_hot_type(indices: TensorType, on: TensorType, off: TensorType, *, depth: Dim, axis: int) -> TensorType:
    """Checks the arguments of one_hot, and returns the type of the result.

    Args:
      indices: the type of the indices.
      on, off: the types of the scalars for the element at the index, and for all other elements.
      depth: the size of the new axis of the result.
      axis: the position of the new axis.
    """
    require_dtype(indices, tuple(map(as_dtype, ("uint8", "int8", "int32", "int64"))), "indices")
    require_same_dtype((on, off), ("on_value", "off_value"))
    for name, value in (("on_value", on), ("off_value", off)):
        if value.shape:
            raise ArgumentError(f"{name} must be a scalar, but got: {brackets(value.shape)}")
    rank = len(indices.shape)
    if not 0 <= axis <= rank:
        raise ArgumentError(f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {axis}")
    if isinstance(depth, int) and depth < 0:
        raise ArgumentError(f"depth must be non-negative, got: {depth}")
    return TensorType((*indices.shape[:axis], depth, *indices.shape[axis:]), on.dtype)


def _one_hot_array(indices: np.ndarray, on: np.ndarray, off: np.ndarray, *, depth: int, axis: int) -> np.ndarray:
    steps = np.arange(depth).reshape([-1 if i == axis else 1 for i in range(indices.ndim + 1)])
    return np.where(np.expand_dims(indices.astype(np.int64), axis) == steps, on, off)


def _one_hot_vjp(
    cotangent: Tensor, y: Tensor, indices: Tensor, on: Tensor, off: Tensor, *, depth: Dim, axis: int
) -> Any:
    """Sums the cotangent over the elements that are ``on``, and over those that are ``off``."""
    one = EagerTensor(np.asarray(1, on.dtype.np))
    zero = EagerTensor(np.asarray(0, on.dtype.np))
    cotangent_of_on = bind.multiply(cotangent, bind.one_hot(indices, one, zero, depth=depth, axis=axis))
    cotangent_of_off = bind.multiply(cotangent, bind.one_hot(indices, zero, one, depth=depth, axis=axis))
    all_axes = {"axis": tuple(range(cotangent.ndim)), "keepdims": False}
    return None, bind.reduce_sum(cotangent_of_on, **all_axes), bind.reduce_sum(cotangent_of_off, **all_axes)


def _one_hot_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, depth: Dim, axis: int) -> Tensor:
    """Maps one_hot over a leading batch axis of ``size`` items (the batch rule for ``vectorized_map``).

    The primitive accepts one value ``on`` and one ``off``. Values that differ by item are selected by one-hot bools.
    """
    indices, on, off = inputs
    indices_batched, on_batched, off_batched = batched
    if not (on_batched or off_batched):
        return bind.one_hot(*inputs, depth=depth, axis=axis + 1)
    indices = stretch(size, indices, indices_batched)
    true = EagerTensor(np.array(True))
    false = EagerTensor(np.array(False))
    is_on = bind.one_hot(indices, true, false, depth=depth, axis=axis + 1)
    value_shape = (size, *(1,) * (is_on.ndim - 1))  # broadcasts the value of an item to all its elements
    if on_batched:
        on = bind.reshape(on, shape=value_shape)
    if off_batched:
        off = bind.reshape(off, shape=value_shape)
    return bind.select(is_on, on, off)


def _one_hot_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, depth: Dim, axis: int
) -> None:
    """Emits ONNX nodes for one_hot: compares the indices with 0 to ``depth - 1`` along the new axis.

    ONNX's OneHot doesn't fit: it counts negative indices from the end and accepts no scalar.
    """
    indices, on, off = inputs
    (indices_type, *_), _ = types
    index = emitter.computed("Cast", [indices], to=7)  # int64
    expanded = emitter.computed("Unsqueeze", [index, emitter.const(np.array([axis]))])
    bounds = [emitter.const(np.array(0)), _scalar_dim(emitter, depth), emitter.const(np.array(1))]
    positions = emitter.computed("Range", bounds)
    shape = [1] * (len(indices_type.shape) + 1)
    shape[axis] = -1
    aligned = emitter.computed("Reshape", [positions, emitter.const(np.array(shape))])
    is_on = emitter.computed("Equal", [expanded, aligned])
    emitter.node("Where", [is_on, on, off], outputs)


@primitive(
    name="one_hot",
    type=_one_hot_type,
    numpy=_one_hot_array,
    lower=kernel("array.one_hot"),
    vjp=_one_hot_vjp,
    batch=_one_hot_batch,
    onnx=_one_hot_nodes,
    samples=lambda: [
        Sample((np.array(i, t), draw(0, ()), draw(1, ())), {"depth": 3, "axis": a}, COMPILED)
        for i, t, a in (([0, 2, -1, 7], "int32", 1), ([[1], [0]], "int64", 0), (1, "uint8", 0), ([], "int32", 1))
    ],
)
def one_hot_between(indices: Tensor, on: Tensor, off: Tensor, depth: Dim, axis: int) -> Any:
    """Returns ``on`` where the new axis equals the index, else ``off``."""
    return (indices, on, off), {"depth": depth, "axis": axis}


@export("one_hot")
@attributes(axis=int)
def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: int | None = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """Encodes indices as one-hot vectors in a new axis of ``depth`` elements.

    ``on_value`` at the index, ``off_value`` elsewhere and for indices out of range.

    Args:
      indices: uint8, int8, int32 or int64 tensor.
      depth: int, or a scalar computed from shapes.
      on_value: scalar, one where None.
      off_value: scalar, zero where None.
      axis: the new axis's position, the last where None or -1.
      dtype: that of the values, float32 where nothing says otherwise.

    >>> import tvtf as tf
    >>> tf.one_hot([0, 2], 3).numpy()
    array([[1., 0., 0.],
           [0., 0., 1.]], dtype=float32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range, or the depth is negative.
      TypeError: the dtypes of the values differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/one_hot
    """
    x = convert_to_tensor(indices, dtype_hint=int64)
    values = [None if value is None else convert_to_tensor(value, dtype_hint=dtype) for value in (on_value, off_value)]
    on, off = _on_and_off(values, None if dtype is None else as_dtype(dtype))
    axis = x.ndim if axis in (None, -1) else axis
    return bind.one_hot(x, on, off, depth=size_argument(depth, "depth"), axis=axis)


def _on_and_off(values: list[Any], dtype: DType | None) -> tuple[Tensor, Tensor]:
    """Returns the values ``on`` and ``off`` of one_hot as scalar tensors of the same dtype.

    ``values`` are the two arguments. None stands for the defaults 1 and 0. If ``dtype`` is None, the dtype is that of a
    given value, or float32.
    """
    on, off = values
    for name, value in (("on_value", on), ("off_value", off)):
        if value is not None and dtype is not None and value.dtype is not dtype:
            raise TypeError(f"dtype {value.dtype!s} of {name} does not match dtype parameter {dtype!s}")
    if on is not None and off is not None and on.dtype is not off.dtype:
        raise TypeError(f"dtype {on.dtype!s} of on_value does not match dtype {off.dtype!s} of off_value")
    value_dtype = next((value.dtype for value in values if value is not None), None)
    result_dtype = dtype or value_dtype or float32
    if on is None:
        on = EagerTensor(np.array(1, result_dtype.np))
    if off is None:
        off = EagerTensor(np.array(0, result_dtype.np))
    return on, off
