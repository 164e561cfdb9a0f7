"""Handlers of public functions for ragged tensors, which the functions for dense tensors reject.

A handler is called with the public function and its arguments if one of the arguments holds a ragged tensor. It returns the
result, or NotImplemented: then the next handler is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

from tvtf.composites.ragged import structure
from tvtf.composites.ragged.broadcasting import broadcast_rows
from tvtf.composites.ragged.build import bounding_shape, gather_rows
from tvtf.composites.ragged.dynamic_shape import DynamicRaggedShape
from tvtf.composites.ragged.formatting import ragged_format
from tvtf.composites.ragged.joining import single_rows
from tvtf.composites.ragged.kernels import dim, ranges
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.primitive import public_names
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import bool as boolean
from tvtf.dtypes import int32, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind, ones_like, static_int, zeros_like

Handler = Callable[..., Any]


def holds_ragged(value: Any) -> bool:
    """Returns whether an argument is a ragged tensor or shape, or a list that contains one."""
    return isinstance(value, (RaggedTensor, DynamicRaggedShape)) or (
        isinstance(value, (list, tuple)) and any(map(holds_ragged, value))
    )


# -- elementwise

UNARY = (
    *(
        "abs",
        "negative",
        "sign",
        "square",
        "sqrt",
        "exp",
        "log",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sigmoid",
        "floor",
        "ceil",
        "round",
    ),
    *(
        "math.rsqrt",
        "math.log1p",
        "math.expm1",
        "math.reciprocal",
        "math.erf",
        "math.is_nan",
        "math.is_inf",
        "math.is_finite",
    ),
    *(
        "cast",
        "identity",
        "stop_gradient",
        "zeros_like",
        "ones_like",
        "clip_by_value",
        "nn.relu",
        "math.logical_not",
        "as_string",
    ),
    *("strings.lower", "strings.upper", "strings.strip", "strings.length", "strings.to_number", "strings.substr"),
    *("strings.regex_replace", "strings.regex_full_match", "strings.to_hash_bucket", "strings.to_hash_bucket_fast"),
    *("strings.to_hash_bucket_strong", "strings.unicode_transcode", "strings.unicode_script", "io.decode_base64"),
    *("io.encode_base64", "acos", "asin", "atan", "sinh", "cosh", "nn.softplus", "nn.elu", "nn.leaky_relu"),
    *("dtypes.saturate_cast", "math.real", "math.imag", "bitwise.invert", "bitcast", "math.conj", "math.angle"),
    *("acosh", "asinh", "atanh", "cosh", "math.digamma", "math.lgamma", "math.erfc", "math.erfinv", "math.erfcinv"),
    *("math.log_sigmoid", "math.ndtri", "math.rint", "math.softplus", "math.softsign", "math.special.sinc"),
    *("math.bessel_i0", "math.bessel_i0e", "math.bessel_i1", "math.bessel_i1e", "math.reciprocal_no_nan"),
    *("nn.relu6", "nn.selu", "nn.gelu", "nn.silu", "nn.swish", "nn.softsign", "nn.dropout", "debugging.check_numerics"),
    *("nn.experimental.stateless_dropout", "image.adjust_brightness", "image.adjust_gamma", "strings.as_string"),
    *("image.convert_image_dtype", "image.random_brightness", "image.stateless_random_brightness"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "pow", "equal", "not_equal", "less", "less_equal"),
    *("greater", "greater_equal", "logical_and", "logical_or", "math.logical_xor", "math.floordiv", "math.floormod"),
    *("math.divide_no_nan", "math.squared_difference", "math.truediv", "atan2", "math.multiply_no_nan"),
    *("math.xdivy", "math.xlogy", "math.xlog1py", "math.zeta", "math.nextafter", "dtypes.complex"),
    *("bitwise.left_shift", "bitwise.right_shift", "truncatediv", "truncatemod", "math.igamma", "math.igammac"),
    *("bitwise.bitwise_and", "bitwise.bitwise_or", "bitwise.bitwise_xor"),
)

ASSERTIONS = (
    *(
        "assert_equal",
        "assert_none_equal",
        "assert_less",
        "assert_less_equal",
        "assert_greater",
        "assert_greater_equal",
    ),
    "assert_near",
)


def dispatch_elementwise(function: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
    """Applies an elementwise function to the innermost values of its first argument, a ragged tensor.

    Returns NotImplemented, so that the next handler is tried, if the first argument isn't ragged.
    """
    if x is None and not args:
        # The first argument was passed by keyword. Its name differs from function to function.
        name = next(iter(signature(function).parameters))
        x = kwargs.get(name)
        kwargs = {keyword: value for keyword, value in kwargs.items() if keyword != name}
    if not holds_ragged(x):
        return NotImplemented
    return x.with_flat_values(function(x.flat_values, *args, **kwargs))


def binary(function: Any, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
    """Applies an elementwise function to two tensors, one or both of them ragged, broadcast to the same rows."""
    a = kwargs.pop("x", x) if x is None else x
    b = kwargs.pop("y", y) if y is None else y
    flat_a, flat_b, partition_result = broadcast_operands(a, b)
    return partition_result(function(flat_a, flat_b, **kwargs))


def assert_elementwise(function: Any, x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies an assertion to two tensors, one or both of them ragged."""
    flat_a, flat_b, _ = broadcast_operands(x, y)
    return function(flat_a, flat_b, *args, **kwargs)


def broadcast_operands(a: Any, b: Any) -> tuple[Any, Any, Callable[[Tensor], Any]]:
    """Broadcasts two operands, at least one of them ragged, for a binary elementwise function.

    Returns the innermost values of both operands, and a function that partitions the result's values into rows.
    """
    first_ragged = a if isinstance(a, RaggedTensor) else b
    if not isinstance(a, (RaggedTensor, Tensor)):
        a = convert_to_tensor(a, dtype_hint=b.dtype)
    if not isinstance(b, (RaggedTensor, Tensor)):
        b = convert_to_tensor(b, dtype_hint=a.dtype)
    if not _need_no_broadcast(a, b):
        return broadcast_rows(a, b)
    flat_a = a.flat_values if isinstance(a, RaggedTensor) else a
    flat_b = b.flat_values if isinstance(b, RaggedTensor) else b
    return flat_a, flat_b, first_ragged.with_flat_values


def _need_no_broadcast(a: Any, b: Any) -> bool:
    """Returns whether the innermost values of two operands can be combined directly, without broadcasting of rows.

    This holds if both operands have the same row splits, or if one operand is dense and has a lower rank than the other
    operand's innermost values.
    """
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        ragged, dense = (b, a) if isinstance(a, Tensor) else (a, b)
        return bool(dense.ndim < ragged.flat_values.ndim)
    splits_a, splits_b = a.nested_row_splits, b.nested_row_splits
    # The same tensors: whether the values of two tensors are equal is unknown while tracing.
    return len(splits_a) == len(splits_b) and all(x is y for x, y in zip(splits_a, splits_b))


# -- reductions

SEGMENTS = {
    "reduce_sum": "unsorted_segment_sum",
    "reduce_prod": "unsorted_segment_prod",
    "reduce_max": "unsorted_segment_max",
    "reduce_min": "unsorted_segment_min",
}


def reduction(name: str) -> Handler:
    """Returns the implementation of the reduction ``name``, such as "reduce_sum", for ragged tensors."""

    def reduce(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        """Reduces a ragged tensor along one axis after the other.

        The innermost axis comes first. The indices of the outer axes then stay the same.

        Args:
          function: the reduction of dense tensors.
          input_tensor: the ragged tensor.
          axis: an axis or a list of axes; None for all.
          keepdims: whether reduced axes are kept with size 1.
          kwargs: other arguments of the reduction.
        """
        rank = input_tensor.shape.rank or 0
        if axis is None:
            result = function(input_tensor.flat_values, None, False, **kwargs)
            return bind.reshape(result, shape=(1,) * rank) if keepdims else result
        axes = axis if isinstance(axis, (list, tuple)) else [axis]
        requested = {_nonnegative_axis(static_int(each, "axis"), rank) for each in axes}
        result = input_tensor
        for reduced_axis in sorted(requested, reverse=True):
            result = _reduced(name, function, result, reduced_axis, keepdims)
        return result

    return reduce


def _nonnegative_axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return axis % rank


def mean(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
    total = public_names()["reduce_sum"]
    ones = input_tensor.with_flat_values(ones_like(input_tensor.flat_values))
    return total(input_tensor, axis, keepdims) / total(ones, axis, keepdims)


def bool_reduction(reduction_name: str) -> Handler:
    """Returns the implementation of ``tf.reduce_any`` or ``tf.reduce_all`` for ragged tensors.

    Segment reductions take numbers only. So bools are reduced as integers by the reduction with the public name
    ``reduction_name``, such as the sum for "any".
    """

    def reduce(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        names = public_names()
        numbers = input_tensor.with_flat_values(bind.cast(input_tensor.flat_values, dtype=int32))
        return names["cast"](names[reduction_name](numbers, axis, keepdims), boolean)

    return reduce


def _reduced(name: str, function: Any, value: Any, axis: int, keepdims: bool) -> Any:
    """Reduces a ragged or dense tensor along one axis; ``name`` is the reduction, and ``function`` its dense version."""
    if not isinstance(value, RaggedTensor):
        return function(value, axis, keepdims)
    if axis > 1:
        return value.with_values(_reduced(name, function, value.values, axis - 1, keepdims))
    if axis == 1:
        return _reduce_each_row(name, value, keepdims)
    result = _reduce_across_rows(name, value)
    return public_names()["expand_dims"](result, 0) if keepdims else result


def _reduce_each_row(name: str, value: RaggedTensor, keepdims: bool) -> Any:
    """Reduces a ragged tensor along axis 1, each row to one element."""
    result = _reduce_segments(name, value.values, value.value_rowids(), dim(value.row_splits, 0) - 1)
    if not keepdims:
        return result
    return single_rows(result) if isinstance(result, RaggedTensor) else public_names()["expand_dims"](result, 1)


def _reduce_across_rows(name: str, value: RaggedTensor) -> Any:
    """Reduces a ragged tensor along axis 0: the elements at the same position of all rows to one element."""
    columns = cast(positions_in_rows(value), int64)
    return _reduce_segments(name, value.values, columns, bounding_shape(value)[1])


def positions_in_rows(value: RaggedTensor) -> Tensor:
    """Returns the index of each value in its row."""
    lengths = value.row_lengths()
    _, offsets = ranges(zeros_like(lengths), lengths)
    return offsets


def _reduce_segments(name: str, values: Any, ids: Tensor, count: Tensor) -> Any:
    """Reduces all rows with the same id to one row, element by element.

    Rows are aligned at their start. A segment's result is as long as its longest row.

    Args:
      name: the reduction.
      values: the rows, a ragged or dense tensor.
      ids: the segment id of each row.
      count: the number of segments.
    """
    if not isinstance(values, RaggedTensor):
        return public_names()[f"math.{SEGMENTS[name]}"](values, ids, count)
    # First all segments have the length of the longest row. Then they are cut to their own lengths.
    max_length = cast(bounding_shape(values)[1], int64)
    segment_of_value = gather(cast(ids, int64), cast(values.value_rowids(), int64))
    position_in_segment = cast(positions_in_rows(values), int64)
    padded_ids = segment_of_value * max_length + position_in_segment
    padded = _reduce_segments(name, values.values, padded_ids, cast(count, int64) * max_length)
    lengths = _reduce_segments("reduce_max", cast(values.row_lengths(), int64), ids, count)
    lengths = bind.maximum(lengths, zeros_like(lengths))  # an empty segment has the least number as its maximum
    counts = bind.reshape(count, shape=(1,))
    _, segment_numbers = ranges(zeros_like(counts), counts)
    starts = cast(segment_numbers, int64) * max_length
    splits, value_indices = ranges(starts, starts + lengths)
    gather_padded: Any = gather_rows if isinstance(padded, RaggedTensor) else gather
    return RaggedTensor(gather_padded(padded, value_indices), cast(splits, values.row_splits.dtype))


def segment_reduction(reduction_name: str) -> Handler:
    """Returns ``tf.math.unsorted_segment_sum`` and others for ragged data; the ids may be ragged like the data."""

    def reduce(function: Any, data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
        data, ids = _data_and_ids(data, segment_ids)
        return _reduce_segments(reduction_name, data, ids, convert_to_tensor(num_segments))

    return reduce


def _data_and_ids(data: Any, ids: Any) -> tuple[Any, Tensor]:
    """Removes the leading ragged axes that data and segment ids share, after a check that their row splits are equal.

    Returns the data and the ids without these axes. The ids are then a dense tensor.
    """
    while isinstance(ids, RaggedTensor):
        if not isinstance(data, RaggedTensor):
            raise ValueError("If segment_ids is ragged, then data must be ragged")
        splits_of_ids = cast(ids.row_splits, int64)
        splits_of_data = cast(data.row_splits, int64)
        message = "segment_ids.shape must be a prefix of data.shape"
        public_names()["debugging.assert_equal"](splits_of_ids, splits_of_data, message=message)
        data, ids = data.values, ids.values
    return data, convert_to_tensor(ids)


def segment_mean(
    function: Any,
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    name: str | None = None,
    divisor: Handler = lambda sizes: sizes,
) -> Any:
    """Computes ``tf.math.unsorted_segment_mean`` of ragged data.

    The sum of each segment is divided by ``divisor(size)``, where the size is the number of its elements.
    """
    data, ids = _data_and_ids(data, segment_ids)
    count = convert_to_tensor(num_segments)
    if isinstance(data, RaggedTensor):
        ones: Any = data.with_flat_values(ones_like(data.flat_values))
    else:
        ones = ones_like(data)
    total = _reduce_segments("reduce_sum", data, ids, count)
    sizes = _reduce_segments("reduce_sum", ones, ids, count)
    if isinstance(total, RaggedTensor):
        return total.with_flat_values(total.flat_values / divisor(sizes.flat_values))
    return total / divisor(sizes)


def _add_operators() -> None:
    """Defines Python's operators, such as ``+`` and ``==``, as methods of RaggedTensor."""
    names = public_names()
    for operator, path in _OPERATORS.items():
        function = names[path]
        if operator in ("eq", "ne"):
            method = _equality(function, otherwise=operator == "ne")
        else:
            method = _operator(function)
        setattr(RaggedTensor, f"__{operator}__", method)
        if operator not in _COMPARISONS:
            setattr(RaggedTensor, f"__r{operator}__", _reflected_operator(function))
    for operator, path in {"neg": "negative", "abs": "abs", "invert": "math.logical_not"}.items():
        setattr(RaggedTensor, f"__{operator}__", _unary_operator(names[path]))


def _reflected_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method of an operator whose left operand isn't a ragged tensor, such as ``__radd__``."""
    return lambda self, other: binary(function, other, self)


def _unary_operator(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the method of a unary operator, such as ``__neg__``."""
    return lambda self: dispatch_elementwise(function, self)


def _operator(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: binary(function, self, other)


def _equality(function: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """Returns the method of the operator ``==`` or ``!=``, which compares ragged tensors by ``function``.

    The operator returns ``otherwise`` if the other operand is None or has an incompatible shape.
    """

    def compare(self: Any, other: Any) -> Any:
        """Compares elementwise. Returns ``otherwise`` for operands that can't be broadcast."""
        if other is None:
            return otherwise
        try:
            return binary(function, self, other)
        except (InvalidArgumentError, ValueError):
            return otherwise

    return compare


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "math.floordiv",
    "mod": "math.floormod",
    "pow": "pow",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "math.logical_xor",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}


HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(UNARY, dispatch_elementwise),
    **dict.fromkeys(BINARY, binary),
    **{f"debugging.{name}": assert_elementwise for name in ASSERTIONS},
    **{name: reduction(name) for name in SEGMENTS},
    **{f"math.{SEGMENTS[name]}": segment_reduction(name) for name in SEGMENTS},
    "math.unsorted_segment_mean": segment_mean,
    "math.unsorted_segment_sqrt_n": partial(segment_mean, divisor=bind.sqrt),
    "reduce_mean": mean,
    "reduce_any": bool_reduction("reduce_sum"),
    "reduce_all": bool_reduction("reduce_prod"),
    **structure.HANDLERS,
    "strings.format": ragged_format,
}
"""Public path -> its handler for ragged arguments (see ``tvtf/api/late_dispatch.py``)."""
takes = holds_ragged
_add_operators()
