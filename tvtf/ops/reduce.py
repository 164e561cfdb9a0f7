"""Reductions over axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Primitive, Sample, primitive
from tvtf.core.shape import TensorType, brackets, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import COMPILED, NUMERIC, REAL, DType, as_dtype, int16, int32, int64, uint16
from tvtf.dtypes import bool as boolean
from tvtf.ops.dims import scalar_of
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes, one_of, operand
from tvtf.ops.rules import (
    batch_axes,
    bind,
    canonical_axes,
    draw,
    kernel,
    number,
    reduced_shape,
    reduction,
    require_dtype,
    static_int,
    static_value,
)
from tvtf.ops.scan import conjugate, wide_type

P = ParamSpec("P")


def expand_reduced(cotangent: Tensor, x: Tensor, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Broadcasts a reduction's cotangent to the shape of its input."""
    shape = x._dims
    is_aligned = keepdims or len(axis) == len(shape)
    aligned = cotangent if is_aligned else bind.reshape(cotangent, shape=reduced_shape(shape, axis, True))
    return bind.broadcast_to(aligned, shape=shape)


def reduction_samples(domain: Any, **options: Any) -> Any:
    """Returns a function that makes test samples of a reduction over one, two or no axes.

    ``domain`` is the dtypes to test, and ``options`` are further fields of a sample.
    """
    # Pairs of a shape and the reduced axes.
    cases = (((3,), (0,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)), ((2, 3), ()), ((), ()))

    def make() -> list[Sample]:
        """Builds a sample for each case, one of an empty input and one of symbolic dims."""
        dtypes = tuple(domain)
        samples = []
        for seed, (shape, axes) in enumerate(cases):
            attrs = {"axis": axes, "keepdims": bool(seed % 2)}  # both values in turn
            samples.append(Sample((draw(seed, shape),), attrs, dtypes, **options))
        empty_attrs = {"axis": (0,), "keepdims": True}
        samples.append(Sample((draw(5, (0, 3)),), empty_attrs, dtypes, gradient=False))
        symbolic_attrs = {"axis": (1,), "keepdims": False}
        samples.append(Sample((draw(6, (2, 3)),), symbolic_attrs, dtypes, symbolic=(("n", "m"),), **options))
        return samples

    return make


def _reduction_op(
    name: str, domain: Sequence[DType], *, numpy: Callable[..., Any], **columns: Any
) -> Callable[[Callable[P, Any]], Primitive[P]]:
    """Declares a reduction under TensorFlow's name.

    ``Max`` is ``tf.reduce_max``, ONNX's ReduceMax and the kernel ``reduce.max``. ``columns`` are more of the
    primitive's rules.
    """
    public_name = f"reduce_{name.lower()}"

    def onnx_rule(
        emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: tuple[int, ...], keepdims: bool
    ) -> None:
        emitter.reduce(f"Reduce{name}", inputs, outputs, axis, keepdims)

    columns = {
        "onnx": onnx_rule,
        "samples": reduction_samples(domain),
        "public": (public_name, f"math.{public_name}"),
    } | columns
    return primitive(
        tf_name=name,
        type=reduction(domain),
        numpy=numpy,
        lower=kernel(f"reduce.{name.lower()}"),
        batch=batch_axes(public_name),
        **columns,
    )


def front(input_tensor: Any, axis: Any, keepdims: bool) -> Any:
    """Converts the arguments of a reduction to its inputs and attributes, after a check for repeated axes."""
    x = convert_to_tensor(input_tensor)
    canonical = canonical_axes(axis, x.ndim)
    if axis is not None and len(canonical) < np.size(static_value(axis, "axis")):
        _raise_repeated_axis(np.ravel(static_value(axis, "axis")), x.ndim)
    return (x,), {"axis": canonical, "keepdims": bool(keepdims)}


def _raise_repeated_axis(axes: Any, rank: int) -> None:
    """Raises the error for an axis given twice, possibly once as a negative number."""
    canonical = [int(each) % rank for each in axes]
    repeated = next(each for i, each in enumerate(canonical) if each in canonical[:i])
    raise ArgumentError(f"Invalid reduction arguments: Axes contains duplicate dimension: {repeated}").for_op("Reduce")


_LONG_ROW = 4096
"""The minimum row length at which NumPy adds rows at full speed; many short rows take seven times as long."""


def _sum_array(x: np.ndarray, *, axis: tuple[int, ...], keepdims: Any) -> np.ndarray:
    """Computes ``reduce_sum`` in NumPy, in an accumulation dtype.

    For a large contiguous array and leading axes, the sum is one of rows. NumPy adds long rows faster.
    """
    are_leading_axes = axis == tuple(range(len(axis)))
    if x.size < 4 * _LONG_ROW or not are_leading_axes or not x.flags.c_contiguous:
        return np.add.reduce(x, axis, wide_type(x), keepdims=keepdims)
    row_shape = x.shape[len(axis) :]
    total = _summed_rows(x.reshape(-1, math.prod(row_shape)), wide_type(x))
    reduced_dims = (1,) * len(axis) if keepdims else ()
    return total.reshape(reduced_dims + row_shape)


def _summed_rows(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Computes the sum of a matrix's rows.

    Groups of short rows are joined to long rows. Adding the long rows first is faster and rounds less.
    """
    rows, columns = x.shape
    rows_per_group = _LONG_ROW // columns
    if columns == 1 or rows_per_group < 2:
        return np.sum(x, 0, dtype)
    grouped_row_count = rows // rows_per_group * rows_per_group
    long_rows = x[:grouped_row_count].reshape(-1, rows_per_group * columns)
    sum_of_long_rows = np.sum(long_rows, 0, dtype)
    sum_of_groups = np.sum(sum_of_long_rows.reshape(rows_per_group, columns), 0, dtype)
    sum_of_remaining_rows = np.sum(x[grouped_row_count:], 0, dtype)
    return sum_of_groups + sum_of_remaining_rows


@_reduction_op(
    "Sum",
    NUMERIC,
    numpy=_sum_array,
    vjp=lambda cotangent, y, x, *, axis, keepdims: expand_reduced(cotangent, x, axis, keepdims),
)
def reduce_sum(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Computes the sum over axes; over all if ``axis`` is None.

    Args:
      input_tensor: numeric tensor.
      axis: int or ints in [-rank, rank), or None.
      keepdims: keep reduced axes with size 1.

    Returns:
      A tensor of the same dtype.

    >>> import tvtf as tf
    >>> tf.reduce_sum([[1, 2], [3, 4]], axis=0).numpy()
    array([4, 6], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_sum
    """
    return front(input_tensor, axis, keepdims)


# -- mean


def _mean_array(x: np.ndarray, *, axis: tuple[int, ...], keepdims: Any) -> np.ndarray:
    """Computes ``reduce_mean`` in NumPy: the sum divided by the number of elements.

    Quotients of integers are rounded towards zero, as in TensorFlow.
    """
    count = math.prod(x.shape[each] for each in axis)
    if x.dtype.kind not in "iu":
        sum_dtype = wide_type(x)
        return _sum_array(x, axis=axis, keepdims=keepdims) / sum_dtype.type(count)
    sum_dtype = np.dtype(np.uint64 if x.dtype == np.uint64 else np.int64)
    total = np.sum(x, axis=axis, keepdims=keepdims, dtype=sum_dtype)
    divisor = sum_dtype.type(max(count, 1))  # at least 1: the mean of no integers is 0
    return np.sign(total) * (np.abs(total) // divisor)  # of the absolute value, because // rounds down


def _mean_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Returns the cotangent of a mean's input: each element gets an equal share."""
    return expand_reduced(shared(cotangent, x, axis), x, axis, keepdims)


def shared(total: Tensor, x: Tensor, axis: tuple[int, ...]) -> Tensor:
    """Divides a total over axes of ``x`` by the number of elements along them."""
    count = size_of(x._type.shape[each] for each in axis)
    if isinstance(count, int):
        return bind.multiply(total, number(1 / max(count, 1), x))
    return bind.divide(total, bind.cast(scalar_of(count), dtype=x.dtype))


def _mean_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: tuple[int, ...], keepdims: bool
) -> None:
    """Emits ONNX nodes for ``reduce_mean``: ReduceMean, or for empty reduction axes a sum.

    ONNX runtimes compute different means of empty axes.
    """
    (x_type,), _ = types
    count = size_of(x_type.shape[each] for each in axis)
    if not isinstance(count, int) or count:
        emitter.reduce("ReduceMean", inputs, outputs, axis, keepdims)
        return
    total = emitter.reduced("ReduceSum", inputs, axis, keepdims)
    # The sum is 0: integers keep it, floats become 0 / 0, which is NaN.
    if x_type.dtype.is_integer:
        emitter.node("Identity", [total], outputs)
    else:
        emitter.node("Div", [total, total], outputs)


@_reduction_op(
    "Mean",
    NUMERIC,
    numpy=_mean_array,
    vjp=_mean_vjp,
    onnx=_mean_nodes,
)
def reduce_mean(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Computes the mean over axes. Means of integers are rounded towards zero, as in TensorFlow.

    Args:
      input_tensor: numeric tensor.
      axis: int or ints in [-rank, rank), or None for all.
      keepdims: keep reduced axes with size 1.

    Returns:
      A tensor of the same dtype. The mean of no elements is NaN.

    >>> import tvtf as tf
    >>> tf.reduce_mean([[1., 2.], [3., 4.]], axis=0).numpy()
    array([2., 3.], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_mean
    """
    return front(input_tensor, axis, keepdims)


# -- the largest and the smallest


def _extreme(ufunc: np.ufunc, value_of_empty: Callable[[np.dtype], Any]) -> Callable[..., np.ndarray]:
    """Returns the NumPy kernel of a maximum or minimum. ``value_of_empty(dtype)`` is the result of no elements."""

    def reduce_array(x: np.ndarray, *, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
        return ufunc.reduce(x, axis=axis, keepdims=keepdims, initial=value_of_empty(x.dtype))

    return reduce_array


def lowest(dtype: np.dtype) -> Any:
    """Returns the smallest integer of a dtype, or -inf."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else dtype.type(-np.inf)


def highest(dtype: np.dtype) -> Any:
    """Returns the largest integer of a dtype, or inf."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else dtype.type(np.inf)


def _extreme_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Divides the cotangent of a maximum or minimum equally among the elements that equal it, as in TensorFlow."""
    is_extreme = bind.cast(bind.equal(x, expand_reduced(y, x, axis, keepdims)), dtype=x.dtype)
    count = bind.reduce_sum(is_extreme, axis=axis, keepdims=keepdims)
    return bind.multiply(is_extreme, expand_reduced(bind.divide(cotangent, count), x, axis, keepdims))


@_reduction_op(
    "Max",
    REAL,
    numpy=_extreme(np.maximum, lowest),
    vjp=_extreme_vjp,
)
def reduce_max(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Computes the largest element over axes. It is NaN if an element is NaN.

    For no elements it is -inf, or the smallest integer.

    Args:
      input_tensor: real tensor.
      axis: int or ints in [-rank, rank), or None for all.
      keepdims: keep reduced axes with size 1.

    Returns:
      A tensor of the same dtype.

    >>> import tvtf as tf
    >>> tf.reduce_max([[1, 2], [3, 4]], axis=1).numpy()
    array([2, 4], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_max
    """
    return front(input_tensor, axis, keepdims)


@_reduction_op(
    "Min",
    REAL,
    numpy=_extreme(np.minimum, highest),
    vjp=_extreme_vjp,
)
def reduce_min(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Computes the smallest element over axes. It is NaN if an element is NaN.

    For no elements it is inf, or the largest integer. The arguments are those of `tf.reduce_max`.

    >>> import tvtf as tf
    >>> tf.reduce_min([[1, 2], [3, 4]], axis=1).numpy()
    array([1, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_min
    """
    return front(input_tensor, axis, keepdims)


# -- product


def _prod_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, axis: tuple[int, ...], keepdims: bool) -> Tensor:
    """Returns the cotangent of reduce_prod's input: the result's cotangent times the product of all other elements.

    Two cumulative products give the product of the elements before, and of the elements after each element. Dividing
    the whole product by the element would fail for zeros.
    """
    # ``y`` isn't needed here, but all gradient rules receive it.
    # The reduced axes are moved to the front and flattened to one.
    kept_axes = tuple(i for i in range(x.ndim) if i not in axis)
    perm = (*axis, *kept_axes)
    transposed_dims = tuple(x._type.shape[i] for i in perm)
    count = size_of(transposed_dims[: len(axis)])
    transposed = bind.transpose(x, perm=perm)
    flat = bind.reshape(transposed, shape=(count, *transposed_dims[len(axis) :]))
    before = bind.cumprod(conjugate(flat), axis=0, exclusive=True, reverse=False)
    after = bind.cumprod(conjugate(flat), axis=0, exclusive=True, reverse=True)
    others = bind.reshape(bind.multiply(before, after), shape=transposed_dims)
    inverse_perm = tuple(int(i) for i in np.argsort(perm))
    others = bind.transpose(others, perm=inverse_perm)
    return bind.multiply(expand_reduced(cotangent, x, axis, keepdims), others)


@_reduction_op(
    "Prod",
    NUMERIC,
    numpy=lambda x, *, axis, keepdims: np.prod(x, axis=axis, keepdims=keepdims, dtype=wide_type(x)),
    vjp=_prod_vjp,
    value=lambda x, *, axis, keepdims: (
        None if x.known is None else np.asarray(np.prod(x.known, axis=axis, keepdims=keepdims), object)
    ),
)
def reduce_prod(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Computes the product over axes. It is 1 for no elements. The arguments are those of `tf.reduce_sum`.

    >>> import tvtf as tf
    >>> tf.reduce_prod([[1, 2], [3, 4]], axis=1).numpy()
    array([ 2, 12], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_prod
    """
    return front(input_tensor, axis, keepdims)


# -- flags


def _bool_front(input_tensor: Any, axis: Any, keepdims: bool) -> Any:
    """Converts the arguments of a reduction of bools, which takes no other dtype."""
    return front(operand(input_tensor, boolean), axis, keepdims)


def _any_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: tuple[int, ...], keepdims: bool
) -> None:
    """Emits ONNX nodes for reduce_any: a sum of int32 numbers, cast to bool.

    ONNX's reductions of bools are recent and not in every runtime.
    """
    # ``types`` isn't needed here, but all ONNX rules receive it
    (x,) = inputs
    count_of_true = emitter.reduced("ReduceSum", [emitter.cast(x, int32)], axis, keepdims)
    emitter.node("Cast", [count_of_true], outputs, to=9)  # ONNX's number for bool


def _all_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: tuple[int, ...], keepdims: bool
) -> None:
    """Emits ONNX nodes for reduce_all, as ``not any(not x)`` by :func:`_any_nodes`."""
    any_negated = emitter.temp()
    negated = emitter.computed("Not", inputs)
    _any_nodes(emitter, [negated], [any_negated], types, axis=axis, keepdims=keepdims)
    emitter.node("Not", [any_negated], outputs)


@_reduction_op(
    "Any",
    (boolean,),
    numpy=lambda x, *, axis, keepdims: np.any(x, axis=axis, keepdims=keepdims),
    onnx=_any_nodes,
    samples=reduction_samples((boolean,), gradient=False),
)
def reduce_any(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Returns whether any element over axes is True. The result is False for no elements.

    >>> import tvtf as tf
    >>> tf.reduce_any([[True, False], [False, False]], axis=1).numpy()
    array([ True, False])

    Raises:
      TypeError: the tensor is not bool.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_any
    """
    return _bool_front(input_tensor, axis, keepdims)


@_reduction_op(
    "All",
    (boolean,),
    numpy=lambda x, *, axis, keepdims: np.all(x, axis=axis, keepdims=keepdims),
    onnx=_all_nodes,
    samples=reduction_samples((boolean,), gradient=False),
)
def reduce_all(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Any:
    """Returns whether all elements over axes are True. The result is True for no elements.

    >>> import tvtf as tf
    >>> tf.reduce_all([[True, False], [True, True]], axis=1).numpy()
    array([False,  True])

    Raises:
      TypeError: the tensor is not bool.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/reduce_all
    """
    return _bool_front(input_tensor, axis, keepdims)


# -- where the largest and the smallest are


def _arg_type(x: TensorType, *, axis: int, output_type: DType) -> TensorType:
    """Checks the axis of argmax or argmin, which isn't negative here, and returns the type of the result.

    An empty axis is an error if the result has elements.
    """
    require_dtype(x, COMPILED, "input")
    rank = len(x.shape)
    if not 0 <= axis < rank:
        raise ArgumentError(f"Expected dimension in the range [{-rank}, {rank}), but got {axis}")
    extent = x.shape[axis]
    result_shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    is_empty = isinstance(extent, int) and extent == 0
    if is_empty and size_of(result_shape) != 0:
        raise ArgumentError(f"Reduction axis {axis} is empty in shape [{','.join(map(str, x.shape))}]")
    return TensorType(result_shape, output_type)


def _arg_array(find: Any, worst: Any) -> Any:
    """Returns the NumPy kernel of argmax or argmin.

    ``find`` is NumPy's function. It would return the index of a NaN, but Eigen's reducer ignores NaN. So NaN is
    replaced by ``worst(dtype)``, such as minus infinity for argmax.
    """

    def find_index(x: np.ndarray, *, axis: int, output_type: DType) -> np.ndarray:
        """Returns the index of the first extreme element along an axis. NaN is never extreme."""
        if not x.shape[axis]:  # then there are no results
            result_shape = (*x.shape[:axis], *x.shape[axis + 1 :])
            return np.zeros(result_shape, output_type.np)
        may_have_nan = x.dtype.kind not in "biu"
        comparable = np.where(np.isnan(x), worst(x.dtype), x) if may_have_nan else x
        return find(comparable, axis)

    return find_index


def _arg_guard(x: Tensor, *, axis: int, output_type: DType) -> list[tuple[Tensor, str]]:
    """Returns the run-time check of argmax or argmin for an axis of unknown size, if any.

    The axis must not be empty if the result has elements. The check is a pair of the condition and the error's message.
    """
    # ``output_type`` isn't needed here, but all rules of the op receive it
    shape = x._type.shape
    extent = shape[axis]
    if isinstance(extent, int):
        return []
    zero = EagerTensor(np.array(0))
    result_size = size_of((*shape[:axis], *shape[axis + 1 :]))
    has_extent = bind.greater(scalar_of(extent), zero)
    has_no_result = bind.equal(scalar_of(result_size), zero)
    is_valid = bind.logical_or(has_extent, has_no_result)
    return [(is_valid, f"Reduction axis {axis} is empty in shape {brackets(shape)}")]


def _arg_samples() -> list[Sample]:
    """Returns test samples of argmax and argmin, one of them with an empty input."""
    # Pairs of a shape and an axis.
    cases = (((3,), 0), ((2, 3, 4), 1), ((2, 5), 1), ((0, 3), 1))
    samples = []
    for seed, (shape, axis) in enumerate(cases):
        attrs = {"axis": axis, "output_type": int64}
        samples.append(Sample((draw(seed, shape),), attrs, tuple(REAL), gradient=False))
    return samples


def _arg_nodes(op: str) -> Any:
    """Returns the ONNX rule that emits the node ``op``: ArgMax or ArgMin.

    ONNX's result always has the dtype int64. The rule casts it to the output type.
    """

    def onnx_rule(
        emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: int, output_type: DType
    ) -> None:
        """Emits ONNX's ArgMax or ArgMin, whose int64 indices are cast to ``output_type``."""
        indices = emitter.computed(op, inputs, axis=axis, keepdims=0)
        if output_type is not int64:
            indices = emitter.cast(indices, output_type)
        emitter.node("Identity", [indices], outputs)

    return onnx_rule


def _arg_front(input: Any, axis: Any, output_type: Any) -> Any:
    """Converts the arguments of argmax and argmin; a negative axis counts from the end."""
    x = convert_to_tensor(input)
    index = static_int(0 if axis is None else axis, "axis")
    return (x,), {"axis": index + x.ndim if -x.ndim <= index < 0 else index, "output_type": as_dtype(output_type)}


def _arg_op(name: str, find: Any, worst: Any) -> Callable[[Callable[P, Any]], Primitive[P]]:
    """Returns a decorator that declares argmax or argmin.

    Args:
      name: TensorFlow's and ONNX's name, such as "ArgMax".
      find: NumPy's function.
      worst: ``worst(dtype)`` is the value that ``find`` finds only if all elements have it; it replaces NaN.
    """
    public_name = name.lower()
    return primitive(
        tf_name=name,
        type=_arg_type,
        numpy=_arg_array(find, worst),
        lower=kernel(f"reduce.{public_name}"),
        guard=_arg_guard,
        batch=batch_axes(public_name),
        onnx=_arg_nodes(name),
        samples=_arg_samples,
        public=(public_name, f"math.{public_name}"),
    )


@_arg_op("ArgMax", np.argmax, lowest)
@attributes(output_type=one_of(int16, uint16, int32, int64))
def argmax(input: Any, axis: Any = None, output_type: Any = int64, name: str | None = None) -> Any:
    """Returns the index of the first largest element along ``axis`` (by default 0). NaN is ignored.

    Args:
      input: tensor.
      axis: int in [-rank, rank).
      output_type: int32, int64, int16 or uint16.

    Returns:
      A tensor of ``output_type`` without the axis.

    >>> import tvtf as tf
    >>> tf.argmax([[1, 5, 5], [7, 2, 3]], axis=1).numpy()
    array([1, 0])

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range or empty.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/argmax
    """
    return _arg_front(input, axis, output_type)


@_arg_op("ArgMin", np.argmin, highest)
@attributes(output_type=one_of(int32, int64))
def argmin(input: Any, axis: Any = None, output_type: Any = int64, name: str | None = None) -> Any:
    """Returns the index of the first smallest element along ``axis`` (by default 0). NaN is ignored.

    Args:
      input: tensor.
      axis: int in [-rank, rank).
      output_type: int32 or int64.

    Returns:
      A tensor of ``output_type`` without the axis.

    >>> import tvtf as tf
    >>> tf.argmin([[1, 5, 5], [7, 2, 3]], axis=1).numpy()
    array([0, 1])

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range or empty.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/argmin
    """
    return _arg_front(input, axis, output_type)
