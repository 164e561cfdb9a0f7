"""Ops that join and split tensors: concat, stack, split, unstack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, hooks, primitive
from tvtf.core.shape import (
    Dim,
    TensorType,
    agree_dim,
    assume_dim,
    brackets,
    is_static_shape,
    same_dim,
    simplify_dim,
    size_of,
)
from tvtf.core.tensor import Tensor, convert_to_tensor, first_dtype, is_tensor
from tvtf.core.text_format import HOLE
from tvtf.core.thread_state import executing_eagerly, state
from tvtf.dtypes import COMPILED, DType
from tvtf.ops.dims import scalar_of
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import at_least, attributes, integers
from tvtf.ops.rules import (
    attribute_int,
    bind,
    canonical_axis,
    dims_value,
    draw,
    is_computed,
    kernel,
    require_same_dtype,
    static_int,
    static_value,
    stretch,
)

# -- concat


def _concat_type(*parts: TensorType, axis: int) -> TensorType:
    """Checks the parts of a concatenation, and returns the type of the result.

    The parts' sizes along the axis are added up. For example, ``(2, 3)`` and ``(2, 4)`` along axis 1 give ``(2, 7)``.
    """
    _require_one_dtype(parts)
    first = parts[0].shape
    if not first:
        raise ArgumentError("ConcatOp : Can't concatenate scalars (use tf.stack instead)")
    axis = concat_axis(axis, len(first))
    total = first[axis]
    for i, part in enumerate(parts):
        _require_concatenable(first, part.shape, axis, i)
        if i > 0:
            total = total + part.shape[axis]
    return TensorType((*first[:axis], simplify_dim(total), *first[axis + 1 :]), parts[0].dtype)


def _require_one_dtype(parts: Sequence[TensorType]) -> None:
    require_same_dtype(parts, in_list="values")


def concat_axis(axis: int, rank: int) -> int:
    """Returns the axis of a concatenation as a non-negative int, after checking that it is in range."""
    if not -rank <= axis < rank:
        raise ArgumentError(
            f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {axis}"
        )
    return axis % rank


def _require_concatenable(first: tuple[Dim, ...], shape: tuple[Dim, ...], axis: int, index: int) -> None:
    """Checks that the input at ``index`` of a concatenation has the first input's dims, except along ``axis``."""
    shapes = f"shape[0] = {brackets(first)} vs. shape[{index}] = {brackets(shape)}"
    if len(first) != len(shape):
        raise ArgumentError(f"ConcatOp : Ranks of all input tensors should match: {shapes}")
    for i, (first_dim, dim) in enumerate(zip(first, shape)):
        if i != axis and not agree_dim(first_dim, dim):
            raise ArgumentError(f"ConcatOp : Dimension {i} in both shapes must be equal: {shapes}")


def _concat_vjp(cotangent: Tensor, y: Tensor, *parts: Tensor, axis: int) -> tuple[Tensor, ...]:
    return bind.split(cotangent, sizes=tuple(part._type.shape[axis] for part in parts), axis=axis)


def _with_batch_axis(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> list[Tensor]:
    return [stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)]


@primitive(
    name="concat",
    tf_name="ConcatV2",
    type=_concat_type,
    numpy=lambda *parts, axis: np.concatenate(parts, axis),
    lower=kernel("array.concat"),
    vjp=_concat_vjp,
    batch=lambda size, inputs, batched, *, axis: bind.concat(*_with_batch_axis(size, inputs, batched), axis=axis + 1),
    onnx=lambda emitter, inputs, outputs, types, *, axis: emitter.node("Concat", inputs, outputs, axis=axis),
    value=lambda *parts, axis: _known_concatenated(parts, axis),
    samples=lambda: [
        Sample((draw(0, (2, 3)), draw(1, (2, 1)), draw(2, (2, 2))), {"axis": 1}, COMPILED),
        Sample((draw(0, (2,)), draw(1, (0,))), {"axis": 0}, COMPILED),
        Sample((draw(0, (3, 2)),), {"axis": 0}, COMPILED),
        Sample((draw(0, (2, 3)), draw(1, (4, 3))), {"axis": 0}, COMPILED, symbolic=(("n", None), ("m", None))),
    ],
)
def concat_all(values: Sequence[Tensor], axis: int) -> Any:
    """Concatenates tensors of one rank along ``axis``."""
    return tuple(values), {"axis": axis}


def _known_concatenated(parts: Sequence[Any], axis: int) -> np.ndarray | None:
    known = [part.known for part in parts]
    return None if any(value is None for value in known) else np.concatenate(known, axis)


@export("concat")
def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Concatenates tensors along an existing axis.

    Args:
      values: tensors of one dtype and rank, equal in every dim but ``axis``.
      axis: int in [-rank, rank).

    Returns:
      A tensor whose dim ``axis`` is the sum of the inputs'.

    >>> import tvtf as tf
    >>> tf.concat([[[1, 2]], [[3, 4]]], 0).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the ranks or the other dims differ, or an input is a scalar.

    Source: https://www.tensorflow.org/api_docs/python/tf/concat
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise ValueError("concat: Expected at least 1 tensor in `values`, but got none; pass a non-empty list")
    if len(values) == 1:
        return bind.identity(convert_to_tensor(values[0]))
    tensors = as_one_dtype(values)
    axis, rank = static_int(axis, "axis"), tensors[0].ndim
    return bind.concat(*tensors, axis=axis + rank if -rank <= axis < 0 else axis)


def as_one_dtype(values: Sequence[Any], dtype: DType | None = None) -> list[Tensor]:
    """Converts values to tensors of one dtype: that of the first tensor among them, else the one inferred from all."""
    common_dtype = next((value.dtype for value in values if is_tensor(value)), dtype)
    if common_dtype is None:
        common_dtype = _inferred(values)
    return [
        convert_to_tensor(value) if is_tensor(value) else convert_to_tensor(value, common_dtype) for value in values
    ]


def _inferred(values: Sequence[Any]) -> DType:
    """Returns the first floating dtype of Python values, else the first dtype."""
    inferred = [convert_to_tensor(value).dtype for value in values]
    return next((dtype for dtype in inferred if dtype.is_differentiable), inferred[0])


# -- stack


def _stack_type(*parts: TensorType, axis: int) -> TensorType:
    """Checks that all parts of a stack have the same shape, and returns the type of the result.

    For example, two parts of shape ``(3,)`` stacked along axis 0 give ``(2, 3)``.
    """
    _require_one_dtype(parts)
    first = parts[0].shape
    for i, part in enumerate(parts):
        if len(part.shape) != len(first) or not all(map(agree_dim, first, part.shape)):
            first_text, part_text = brackets(first), brackets(part.shape)
            raise ArgumentError(
                f"Shapes of all inputs must match: values[0].shape = {first_text} != values[{i}].shape = {part_text}",
                graph=ValueError,
                traced=f"Dimension 0 in both shapes must be equal: shapes are {first_text} and {part_text}.",
            )
    return TensorType((*first[:axis], len(parts), *first[axis:]), parts[0].dtype)


def _stack_vjp(cotangent: Tensor, y: Tensor, *parts: Tensor, axis: int) -> tuple[Tensor, ...]:
    pieces = bind.split(cotangent, sizes=(1,) * len(parts), axis=axis)
    return tuple(bind.reshape(piece, shape=x._type.shape) for piece, x in zip(pieces, parts))


def _stack_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axis: int) -> None:
    expanded = [emitter.computed("Unsqueeze", [name, emitter.const(np.array([axis]))]) for name in inputs]
    emitter.node("Concat", expanded, outputs, axis=axis)


@primitive(
    name="stack",
    tf_name="Pack",
    type=_stack_type,
    numpy=lambda *parts, axis: np.stack(parts, axis),
    lower=kernel("array.stack"),
    vjp=_stack_vjp,
    batch=lambda size, inputs, batched, *, axis: bind.stack(*_with_batch_axis(size, inputs, batched), axis=axis + 1),
    onnx=_stack_nodes,
    value=lambda *parts, axis: _known_stacked(parts, axis),
    samples=lambda: [
        Sample((draw(0, (2, 3)), draw(1, (2, 3))), {"axis": 1}, COMPILED, symbolic=(("n", None), ("n", None))),
        Sample((draw(0, ()), draw(1, ()), draw(2, ())), {"axis": 0}, COMPILED),
        Sample((draw(0, (0,)),), {"axis": 1}, COMPILED),
    ],
)
def stack_all(values: Sequence[Tensor], axis: int) -> Any:
    """Stacks tensors of one shape along a new axis."""
    return tuple(values), {"axis": axis}


def _known_stacked(parts: Sequence[Any], axis: int) -> np.ndarray | None:
    """Evaluates a stack while tracing, for arithmetic with shapes. Returns None unless all parts are known then.

    The elements may be symbolic dims, so the array holds objects.
    """
    known_values = [part.known for part in parts]
    if any(value is None for value in known_values):
        return None
    result = np.empty((len(known_values), *known_values[0].shape), object)
    for i, value in enumerate(known_values):
        result[i] = value[()] if value.ndim == 0 else value  # the element itself of an array of rank 0
    return np.moveaxis(result, 0, axis)


@export("parallel_stack")
def parallel_stack(values: Any, name: str = "parallel_stack") -> Tensor:
    """Stacks tensors along a new first axis, as `stack` does. Works only while tracing, as in TensorFlow.

    Raises:
      RuntimeError: the call is not traced.

    >>> import tvtf as tf
    >>> tf.function(lambda: tf.parallel_stack([[1, 2], [3, 4]]))().numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/parallel_stack
    """
    if state.trace is None:
        raise RuntimeError("tf.parallel_stack() is not compatible with eager execution.")
    return stack(values)


@export("stack")
def stack(values: Any, axis: int = 0, name: str = "stack") -> Tensor:
    """Stacks tensors of one shape along a new axis.

    Args:
      values: tensors of one dtype and shape; Python numbers take the tensors' dtype.
      axis: int in [-rank - 1, rank], the new axis's position.

    >>> import tvtf as tf
    >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes differ.
      ValueError: the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/stack
    """
    if is_tensor(values) and axis == 0:
        return convert_to_tensor(values)
    if is_tensor(values):
        values = unstack(values)
    if axis == 0 and not _holds_tensor(values):
        packed = _as_constant(values)
        if packed is not None:
            return packed
    tensors = [
        value if is_tensor(value) else hooks.pack(value, None) if _holds_tensor(value) else value for value in values
    ]
    tensors = as_one_dtype(tensors)
    rank = tensors[0].ndim + 1
    axis = attribute_int(axis, "axis", -(2**31))
    if not -rank <= axis < rank:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-rank}, {rank})")
    return bind.stack(*tensors, axis=axis % rank)


def _as_constant(values: Any) -> Tensor | None:
    """Converts Python and NumPy values to one constant.

    Returns None if shapes differ, because stack has its own error.
    """
    try:
        return convert_to_tensor(values)
    except (TypeError, ValueError):
        return None


def flattened(x: Tensor) -> Tensor:
    return bind.reshape(x, shape=(size_of(x._type.shape),))


def _holds_tensor(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(is_tensor(item) or _holds_tensor(item) for item in value)


def pack(values: Any, dtype: DType | None) -> Tensor:
    """Packs a nested Python list that holds tensors into one tensor; its numbers take the tensors' dtype.

    Raises:
      TypeError: the list's tensors have several dtypes, and it isn't a list of eager tensors alone, which the op itself checks.
    """
    common_dtype = dtype or first_dtype(values)
    if not (executing_eagerly() and all(map(is_tensor, values))):
        for value in values:
            if is_tensor(value) and value.dtype is not common_dtype:
                raise TypeError(
                    f"Cannot convert a list containing a tensor of dtype {value.dtype} to {common_dtype} (Tensor is: {value!r})"
                )
    parts = [pack(value, common_dtype) if _holds_tensor(value) else value for value in values]
    return bind.stack(*as_one_dtype(parts, common_dtype), axis=0)


hooks.pack = pack

# -- split


def _total_message(total: Any) -> str:
    return (
        "Determined shape must either match input shape along split_dim exactly if fully specified, or be less than "
        f"the size of the input along split_dim if not fully specified.  Got: {total}"
    )


def _uneven_message(axis: int, extent: Any, count: int) -> str:
    return (
        f"Number of ways to split should evenly divide the split dimension, but got split_dim {axis} "
        f"(size = {extent}) and num_split {count}"
    )


def _split_type(x: TensorType, *, sizes: tuple[Dim, ...], axis: int) -> tuple[TensorType, ...]:
    """Checks that the sizes of a split's pieces add up to the size of the axis, and returns the pieces' types.

    Symbolic sizes are checked at run time.
    """
    rank = len(x.shape)
    if not 0 <= axis < rank:
        raise ArgumentError(f"-input rank({-rank}) <= split_dim < input rank ({rank}), but got {axis}")
    if not sizes:
        raise ArgumentError("Value for attr 'num_split' of 0 must be at least minimum 1")
    extent = x.shape[axis]
    first, *others = sizes
    total = simplify_dim(sum(others, first))  # the sum begins with a dim, not with the int 0
    if not assume_dim(total, extent) and is_static_shape((total, extent)):
        raise ArgumentError(_total_message(total))
    dims_before, dims_after = x.shape[:axis], x.shape[axis + 1 :]
    return tuple(TensorType((*dims_before, size, *dims_after), x.dtype) for size in sizes)


def _split_guard(x: Tensor, *, sizes: tuple[Dim, ...], axis: int) -> list[tuple[Any, ...]]:
    """Returns the run-time check that the sizes of a split add up to the size of the axis.

    No check is needed if tracing proves that. The check is a tuple of the condition, the error's message, and the
    number that fills the message's placeholder.
    """
    extent = x._type.shape[axis]
    first, *others = sizes
    total = simplify_dim(sum(others, first))  # the sum begins with a dim, not with the int 0
    if same_dim(total, extent):
        return []
    adds_up = bind.equal(scalar_of(total), scalar_of(extent))
    # TensorFlow has a message of its own for equal pieces
    even_size = simplify_dim(extent // len(sizes))
    if all(same_dim(size, even_size) for size in sizes):
        return [(adds_up, _uneven_message(axis, HOLE, len(sizes)), scalar_of(extent))]
    return [(adds_up, _total_message(HOLE), scalar_of(total))]


def _split_arrays(x: np.ndarray, *, sizes: tuple[int, ...], axis: int) -> tuple[np.ndarray, ...]:
    return tuple(part.copy() for part in np.split(x, np.cumsum(sizes)[:-1].astype(int), axis))


@primitive(
    name="split",
    tf_name="SplitV",
    type=_split_type,
    numpy=_split_arrays,
    lower=kernel("array.split"),
    vjp=lambda cotangents, ys, x, *, sizes, axis: bind.concat(*cotangents, axis=axis),
    batch=lambda size, inputs, batched, *, sizes, axis: bind.split(inputs[0], sizes=sizes, axis=axis + 1),
    onnx=lambda emitter, inputs, outputs, types, *, sizes, axis: emitter.node(
        "Split", [inputs[0], emitter.shape(sizes)], outputs, axis=axis
    ),
    guard=_split_guard,
    samples=lambda: [
        Sample((draw(0, (2, 5)),), {"sizes": (2, 3), "axis": 1}, COMPILED, symbolic=(("n", None),)),
        Sample((draw(0, (4,)),), {"sizes": (1, 0, 3), "axis": 0}, COMPILED),
        Sample((draw(0, (3, 2)),), {"sizes": (3,), "axis": 0}, COMPILED),
    ],
)
def split_all(value: Tensor, sizes: tuple[Dim, ...], axis: int) -> Any:
    """Splits ``value`` along ``axis`` into pieces of the given sizes."""
    return (value,), {"sizes": sizes, "axis": axis}


@export("split")
def split(
    value: Any, num_or_size_splits: Any, axis: Any = 0, num: int | None = None, name: str = "split"
) -> list[Tensor]:
    """Splits a tensor along ``axis`` into a number of equal pieces, or into pieces of the given sizes.

    Args:
      value: tensor.
      num_or_size_splits: int that divides the dim, or sizes that add up to it, one of which may be -1 if it is known while
      tracing; the program may compute them, if their number is known.
      axis: int in [-rank, rank).
      num: not needed; kept for TensorFlow's signature.

    Returns:
      A list of tensors.

    >>> import tvtf as tf
    >>> [p.numpy().tolist() for p in tf.split([1, 2, 3], [1, -1])]
    [[1], [2, 3]]

    Raises:
      InvalidArgumentError: (ValueError while tracing) the sizes don't add up to the axis's, or don't divide it.

    Source: https://www.tensorflow.org/api_docs/python/tf/split
    """
    x = convert_to_tensor(value)
    try:
        index = canonical_axis(axis, x.ndim)
        return list(bind.split(x, sizes=_split_sizes(x._type.shape, index, num_or_size_splits), axis=index))
    except ArgumentError as error:
        raise error.for_op("Split") from None


def _split_sizes(shape: Sequence[Dim], axis: int, requested: Any) -> tuple[Dim, ...]:
    """Returns the sizes of a split's pieces along ``axis``.

    ``requested`` is the number of equal pieces, or a list of sizes. One size may be -1, for the remaining elements. For
    example, an axis of 7 with sizes ``[2, -1]`` gives ``(2, 5)``.
    """
    extent = shape[axis]
    if is_computed(requested) and len(requested._type.shape) == 1 and isinstance(requested._type.shape[0], int):
        requested = unstack(requested)
    requested = (
        dims_value(requested, "num_or_size_splits")
        if isinstance(requested, (list, tuple))
        else static_value(requested, "num_or_size_splits")
    )
    integers(requested, "size_splits")
    if not isinstance(requested, (list, tuple)):
        return _equal_sizes(extent, static_int(requested, "num_or_size_splits"), axis)
    inferred = [i for i, size in enumerate(requested) if isinstance(size, int) and size == -1]
    if not inferred:
        return tuple(requested)
    if len(inferred) > 1:
        raise ArgumentError(f"There can only be one -1 in the input, but sizes are {list(requested)}")
    remaining = simplify_dim(extent - sum(size for i, size in enumerate(requested) if i != inferred[0]))
    if isinstance(remaining, int) and remaining < 0:
        raise ArgumentError(f"Sizes {list(requested)} add up to more than the {extent} elements along the axis")
    return tuple(remaining if i == inferred[0] else size for i, size in enumerate(requested))


def _equal_sizes(extent: Dim, count: int, axis: int) -> tuple[Dim, ...]:
    """Returns ``count`` equal sizes after checking that they divide the dim."""
    if count < 1:
        raise ArgumentError(f"Number of ways to split should be > 0, but got {count}")
    if isinstance(extent, int) and extent % count:
        raise ArgumentError(_uneven_message(axis, extent, count))
    return (simplify_dim(extent // count),) * count


@export("unstack")
@attributes(num=at_least(0))
def unstack(value: Any, num: int | None = None, axis: int = 0, name: str = "unstack") -> list[Tensor]:
    """Splits a tensor into its slices along ``axis``, which is removed: the inverse of :func:`stack`.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]

    Raises:
      ValueError: the axis is out of range, or the dim is unknown and ``num`` is not given.

    Source: https://www.tensorflow.org/api_docs/python/tf/unstack
    """
    x = convert_to_tensor(value)
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"Argument `axis` = {axis} not in range [{-x.ndim}, {x.ndim})")
    dims, axis = x._type.shape, axis % x.ndim
    count = dims[axis] if num is None else num
    if not isinstance(count, int):
        raise ValueError(f"Cannot infer argument `num` from shape {x.shape}")
    if not agree_dim(dims[axis], count):
        raise ArgumentError(f"Input shape axis {axis} must equal {num}, got shape {brackets(dims)}").for_op("Unpack")
    other_dims = (*dims[:axis], *dims[axis + 1 :])
    pieces = bind.split(x, sizes=(1,) * count, axis=axis) if count else ()
    return [bind.reshape(piece, shape=other_dims) for piece in pieces]
