"""Public functions on ragged tensors: what a function of dense ones does where it refuses them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.dtypes import int32, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.cast import cast
from tvtf.ops.indexing import gather
from tvtf.ops.rules import bind, ones_like, static_int, zeros_like
from tvtf.primitive import Primitive, exports, public_names
from tvtf.ragged.build import bounding_shape, check_same_rows, from_tensor, gather_rows
from tvtf.ragged.joining import as_ragged, concat_all, single_rows, stack_all
from tvtf.ragged.kernels import dim, ranges
from tvtf.ragged.tensor import RaggedTensor
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor

Handler = Callable[..., Any]


def holds_ragged(value: Any) -> bool:
    """Whether an argument is a ragged tensor, or a list with one in it."""
    return isinstance(value, RaggedTensor) or (isinstance(value, (list, tuple)) and any(map(holds_ragged, value)))


def _install(path: str, handler: Handler) -> None:
    function = public_names().get(path)
    if isinstance(function, Primitive):
        function.composites = _guarded(function, handler)
    elif function is not None:
        wrapped = _with_ragged(function, handler)
        for name in [name for name, each in exports.items() if each is function]:
            exports[name] = wrapped


def _guarded(function: Any, handler: Handler) -> Handler:
    def run(args: Any, kwargs: Any) -> Any:
        if not any(map(holds_ragged, (*args, *kwargs.values()))):
            return NotImplemented
        return handler(function, *args, **kwargs)

    return run


def _with_ragged(function: Any, handler: Handler) -> Handler:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(map(holds_ragged, (*args, *kwargs.values()))):
            return handler(function, *args, **kwargs)
        return function(*args, **kwargs)

    return run


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
    *("dtypes.saturate_cast", "math.real", "math.imag", "bitwise.invert"),
)
BINARY = (
    *("add", "subtract", "multiply", "divide", "maximum", "minimum", "pow", "equal", "not_equal", "less", "less_equal"),
    *("greater", "greater_equal", "logical_and", "logical_or", "math.logical_xor", "math.floordiv", "math.floormod"),
    *("math.divide_no_nan", "math.squared_difference", "math.truediv", "atan2", "math.multiply_no_nan"),
    *("bitwise.bitwise_and", "bitwise.bitwise_or", "bitwise.bitwise_xor"),
)


def unary(function: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``function`` of the innermost values of its first argument."""
    if x is None:
        name = next(k for k, v in kwargs.items() if holds_ragged(v))
        x = kwargs.pop(name)
        return x.with_flat_values(function(**{name: x.flat_values}, **kwargs))
    return x.with_flat_values(function(x.flat_values, *args, **kwargs))


def binary(function: Any, x: Any = None, y: Any = None, **kwargs: Any) -> Any:
    """``function`` of two tensors, of which one is ragged: the other has the same rows, or is broadcast to them."""
    a = kwargs.pop("x", x) if x is None else x
    b = kwargs.pop("y", y) if y is None else y
    first = a if isinstance(a, RaggedTensor) else b
    if isinstance(a, RaggedTensor) and isinstance(b, RaggedTensor):
        a, b = _same_rank(a, b)
        check_same_rows([a, b])
        return a.with_flat_values(function(a.flat_values, b.flat_values, **kwargs))
    flat = [v.flat_values if isinstance(v, RaggedTensor) else _spread(v, first) for v in (a, b)]
    return first.with_flat_values(function(*flat, **kwargs))


def _same_rank(a: RaggedTensor, b: RaggedTensor) -> tuple[RaggedTensor, RaggedTensor]:
    depth = max(a.ragged_rank, b.ragged_rank)
    return as_ragged(a, depth), as_ragged(b, depth)


def _spread(value: Any, rows: RaggedTensor) -> Any:
    """A dense operand as one for the innermost values: a scalar, one value a row, or of the inner dims alone."""
    if not is_tensor(value) and not isinstance(value, (list, tuple, np.ndarray)):
        return value
    tensor = value if isinstance(value, Tensor) else convert_to_tensor(value, dtype_hint=rows.dtype)
    rank = rows.shape.rank or 0
    inner = rows.flat_values.ndim - 1
    if tensor.ndim <= inner:
        return tensor
    shape = (*(1,) * (rank - tensor.ndim), *tensor._type.shape)
    tensor = bind.reshape(tensor, shape=shape) if len(shape) != tensor.ndim else tensor
    if any(d != 1 for d in shape[1 : rank - inner]):
        raise InvalidArgumentError(
            None, "Assert", f"Unable to broadcast: dimension size mismatch in dimension 1: {shape} beside {rows.shape}"
        )
    flat = bind.reshape(tensor, shape=(shape[0], *shape[rank - inner :]))
    if shape[0] == 1:
        return flat
    ids = rows.value_rowids()
    inner_rows: Any = rows.values
    while isinstance(inner_rows, RaggedTensor):
        ids = gather(ids, inner_rows.value_rowids())
        inner_rows = inner_rows.values
    return gather(flat, ids)


# -- reductions

SEGMENTS = {
    "reduce_sum": "unsorted_segment_sum",
    "reduce_prod": "unsorted_segment_prod",
    "reduce_max": "unsorted_segment_max",
    "reduce_min": "unsorted_segment_min",
}


def reduction(name: str) -> Handler:
    """What ``tf.reduce_...`` does on ragged tensors."""

    def reduce(function: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Any:
        if axis is None:
            return function(input_tensor.flat_values, None, keepdims, **kwargs)
        rank = input_tensor.shape.rank or 0
        axes = axis if isinstance(axis, (list, tuple)) else [axis]
        wanted = sorted({static_int(a, "axis") % rank for a in axes}, reverse=True)
        found = input_tensor
        for each in wanted:
            found = _reduced(name, function, found, each, keepdims)
        return found

    return reduce


def _reduced(name: str, function: Any, value: Any, axis: int, keepdims: bool) -> Any:
    if not isinstance(value, RaggedTensor):
        return function(value, axis, keepdims)
    if axis > 1:
        return value.with_values(_reduced(name, function, value.values, axis - 1, keepdims))
    if name == "reduce_mean":
        total = _reduced("reduce_sum", public_names()["reduce_sum"], value, axis, keepdims)
        ones = value.with_flat_values(ones_like(value.flat_values))
        return total / _reduced("reduce_sum", public_names()["reduce_sum"], ones, axis, keepdims)
    if name in ("reduce_any", "reduce_all"):
        kind = "reduce_max" if name == "reduce_any" else "reduce_min"
        numbers = value.with_flat_values(bind.cast(value.flat_values, dtype=int32))
        found = _reduced(kind, public_names()[kind], numbers, axis, keepdims)
        limit = 0 if name == "reduce_any" else 1
        return found > limit if name == "reduce_any" else found >= limit
    return _over_columns(name, value) if axis == 0 else _over_rows(name, value, keepdims)


def _over_rows(name: str, value: RaggedTensor, keepdims: bool) -> Any:
    found = _segments(name, value.values, value.value_rowids(), dim(value.row_splits, 0) - 1)
    if not keepdims:
        return found
    return single_rows(found) if isinstance(found, RaggedTensor) else public_names()["expand_dims"](found, 1)


def _over_columns(name: str, value: RaggedTensor) -> Any:
    places = cast(positions_in_rows(value), int64)
    return _segments(name, value.values, places, bounding_shape(value)[1])


def positions_in_rows(value: RaggedTensor) -> Tensor:
    """The place of each value in its row."""
    lengths = value.row_lengths()
    return ranges(zeros_like(lengths), lengths)[1]


def _segments(name: str, values: Any, ids: Tensor, count: Tensor) -> Any:
    if not isinstance(values, RaggedTensor):
        return public_names()[f"math.{SEGMENTS[name]}"](values, ids, count)
    places = positions_in_rows(values)
    wide = bounding_shape(values)[1]
    outer = gather(cast(ids, int64), cast(values.value_rowids(), int64))
    merged = outer * cast(wide, int64) + cast(places, int64)
    lengths = _segments("reduce_max", cast(values.row_lengths(), int64), ids, count)
    lengths = bind.maximum(lengths, zeros_like(lengths))
    flat = _segments(name, values.values, merged, cast(count, int64) * cast(wide, int64))
    starts = cast(ranges(zeros_like(bind.reshape(count, shape=(1,))), bind.reshape(count, shape=(1,)))[1], int64) * wide
    splits, kept = ranges(starts, starts + lengths)
    return RaggedTensor(gather(flat, kept) if not isinstance(flat, RaggedTensor) else gather_rows(flat, kept), splits)


# -- structure


def _concat(function: Any, values: Any, axis: Any, name: str = "concat") -> Any:
    return concat_all(list(values), static_int(axis, "axis"))


def _stack(function: Any, values: Any, axis: int = 0, name: str = "stack") -> Any:
    return stack_all(list(values), axis)


def _gather(function: Any, params: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    if any(v for k, v in kwargs.items() if k in ("axis", "batch_dims")) or any(args):
        raise NotImplementedError("tf.gather of ragged tensors takes rows: axis=0 and no batch_dims")
    if isinstance(indices, RaggedTensor):
        return indices.with_flat_values(_gather(function, params, indices.flat_values))
    if not isinstance(params, RaggedTensor):
        return function(params, indices)
    places = cast(convert_to_tensor(indices), int64)
    if places.ndim == 0:
        return params[places]
    if places.ndim > 1:
        return _gather(function, params, from_tensor(places, None, None, places.ndim - 1, int64))
    return gather_rows(params, places)


def _boolean_mask(function: Any, tensor: Any, mask: Any, axis: Any = None, name: Any = None) -> Any:
    return public_names()["ragged.boolean_mask"](tensor, mask)


def _size(function: Any, input: Any, out_type: Any = None, name: Any = None) -> Any:
    return (
        cast(dim(input.flat_values, 0), out_type or int32)
        if input.flat_values.ndim == 1
        else function(input.flat_values)
    )


def _rank(function: Any, input: Any, name: Any = None) -> Any:
    return EagerTensor(np.array(input.shape.rank, np.int32))


def _expand_dims(function: Any, input: Any, axis: Any, name: Any = None) -> Any:
    place = static_int(axis, "axis") % ((input.shape.rank or 0) + 1)
    return input[(slice(None),) * place + (None,)] if place else input[None]


def _reverse(function: Any, tensor: Any, axis: Any, name: Any = None) -> Any:
    places = {static_int(a, "axis") % (tensor.shape.rank or 1) for a in axis}
    keys = [slice(None, None, -1) if i in places else slice(None) for i in range(max(places) + 1)]
    return tensor[tuple(keys)]


def _add_n(function: Any, inputs: Any, name: Any = None) -> Any:
    check_same_rows(inputs)
    return inputs[0].with_flat_values(function([i.flat_values for i in inputs]))


def _join(function: Any, inputs: Any, separator: str = "", name: Any = None) -> Any:
    rows = [i for i in inputs if isinstance(i, RaggedTensor)]
    check_same_rows(rows)
    flat = [i.flat_values if isinstance(i, RaggedTensor) else i for i in inputs]
    return rows[0].with_flat_values(function(flat, separator))


def _where(function: Any, condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    rows = [v for v in (condition, x, y) if isinstance(v, RaggedTensor)]
    check_same_rows(rows)
    flat = [v.flat_values if isinstance(v, RaggedTensor) else v for v in (condition, x, y)]
    if x is None:
        raise NotImplementedError("tf.where of a ragged condition needs x and y")
    return rows[0].with_flat_values(function(*flat))


def _add_operators() -> None:
    names = public_names()
    for operator, path in _OPERATORS.items():
        function = names[path]
        setattr(RaggedTensor, f"__{operator}__", lambda self, other, f=function: binary(f, self, other))
        if operator not in _COMPARISONS:
            setattr(RaggedTensor, f"__r{operator}__", lambda self, other, f=function: binary(f, other, self))
    for operator, path in {"neg": "negative", "abs": "abs", "invert": "math.logical_not"}.items():
        setattr(RaggedTensor, f"__{operator}__", lambda self, f=names[path]: unary(f, self))


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

_STRUCTURE: dict[str, Handler] = {
    "concat": _concat,
    "stack": _stack,
    "gather": _gather,
    "boolean_mask": _boolean_mask,
    "size": _size,
    "rank": _rank,
    "expand_dims": _expand_dims,
    "reverse": _reverse,
    "add_n": _add_n,
    "strings.join": _join,
    "where": _where,
}


def install() -> None:
    """Teaches public functions ragged tensors."""
    for path in UNARY:
        _install(path, unary)
    for path in BINARY:
        _install(path, binary)
    for name in (*SEGMENTS, "reduce_mean", "reduce_any", "reduce_all"):
        _install(name, reduction(name))
    for path, handler in _STRUCTURE.items():
        _install(path, handler)
    _add_operators()
