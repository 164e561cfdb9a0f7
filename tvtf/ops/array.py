"""Ops on shapes and layout: reshape, broadcast_to, transpose, squeeze, identity, ensure_shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.argument_error import ArgumentError
from tvtf.core.composite import CompositeTensor
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import Sample, export, hooks, primitive
from tvtf.core.shape import (
    Dim,
    TensorType,
    as_shape,
    brackets,
    is_static_shape,
    may_be_same,
    same_dim,
    show_shape,
    simplify_dim,
    size_of,
)
from tvtf.core.specialization import Level, UnknownSize, unknown_size
from tvtf.core.tensor import Tensor, constant, convert_to_tensor
from tvtf.core.text_format import HOLE
from tvtf.core.thread_state import state
from tvtf.dtypes import COMPILED, DType, as_dtype, int32, int64
from tvtf.ops.dims import scalar_of, stretching_guard
from tvtf.ops.extents import require_countable
from tvtf.ops.onnx_nodes import Names, NodeEmitter
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.rules import (
    bind,
    draw,
    is_computed,
    kernel,
    not_among,
    number,
    require_dtype,
    scalar,
    static_dims,
    static_int,
    static_value,
    unbroadcast,
    variadic_inputs,
)


def _reshape_type(x: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    """Returns the type of a reshape's result, after checking that the numbers of elements agree if both are static."""
    target = filled(x.shape, shape)
    size, requested = size_of(x.shape), size_of(target)
    if isinstance(size, int) and isinstance(requested, int) and size != requested:
        raise ArgumentError(_size_mismatch(size, requested))
    return TensorType(target, x.dtype)


def _size_mismatch(size: int | str, requested: int | str) -> str:
    return f"Input to reshape is a tensor with {size} values, but the requested shape has {requested}"


def _reshape_guard(x: Tensor, *, shape: tuple[Dim, ...]) -> list[tuple[Any, ...]]:
    """Returns the run-time check of a reshape: both shapes have the same number of elements.

    There is no check if the trace can prove it. A check is a tuple of the condition, the error's message, and the sizes
    that fill the message's placeholders.
    """
    size = size_of(x._type.shape)
    requested = size_of(filled(x._type.shape, shape))
    if same_dim(size, requested):
        return []
    size_text, requested_text = [dim if isinstance(dim, int) else HOLE for dim in (size, requested)]
    message = _size_mismatch(size_text, requested_text)
    sizes_in_message = [scalar_of(dim) for dim in (size, requested) if not isinstance(dim, int)]
    is_equal = bind.equal(scalar_of(size), scalar_of(requested))
    return [(is_equal, message, *sizes_in_message)]


def filled(source: Sequence[Dim], target: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the target shape of a reshape after replacing -1 by the size that keeps the number of elements.

    For example, ``source`` (4, 3) and ``target`` (-1, 2) give (6, 2).
    """
    for axis, dim in enumerate(target):
        if isinstance(dim, int) and dim < -1:
            graph_message = f"Invalid value in tensor used for shape: {dim}"
            raise ArgumentError(f"Size {axis} must be non-negative, not {dim}", ValueError, graph_message)
    inferred = [axis for axis, dim in enumerate(target) if isinstance(dim, int) and dim < 0]
    if not inferred:
        return tuple(target)
    if len(inferred) > 1:
        raise ArgumentError(
            f"Only one input size may be -1, not both {inferred[0]} and {inferred[1]}: shape {show_shape(target)}"
        )
    (inferred_axis,) = inferred
    explicit = [dim for axis, dim in enumerate(target) if axis != inferred_axis]
    if 0 in explicit:  # then TensorFlow infers the -1 from the dims that aren't zero
        source = [dim for dim in source if dim != 0]
        explicit = [dim for dim in explicit if dim != 0]
    known, total = size_of(explicit), size_of(source)
    if isinstance(known, int) and isinstance(total, int) and total % known:
        raise ArgumentError(
            f"Input to reshape is a tensor with {total} values, but the requested shape requires a multiple of {known}"
        )
    shape = list(target)
    shape[inferred_axis] = simplify_dim(total // known)
    return tuple(shape)


@primitive(
    type=_reshape_type,
    numpy=lambda x, *, shape: x.reshape(shape),
    lower=kernel("array.reshape"),
    guard=_reshape_guard,
    vjp=lambda cotangent, y, x, *, shape: bind.reshape(cotangent, shape=x._type.shape),
    batch=lambda size, inputs, batched, *, shape: bind.reshape(
        inputs[0], shape=(size, *filled(inputs[0]._type.shape[1:], shape))
    ),
    onnx=lambda emitter, inputs, outputs, types, *, shape: emitter.node(
        "Reshape", [inputs[0], emitter.shape(types[1][0].shape)], outputs
    ),
    value=lambda x, *, shape: None if x.known is None or not is_static_shape(shape) else x.known.reshape(shape),
    samples=lambda: [
        Sample((draw(0, old_shape),), {"shape": new_shape}, COMPILED)
        for old_shape, new_shape in (((2, 3), (3, 2)), ((4,), (2, -1)), ((1,), ()), ((0, 3), (3, 0)))
    ],
    public=("reshape",),
)
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Any:
    """Changes the shape of a tensor. The elements keep their order. One dim may be -1: it is inferred.

    >>> import tvtf as tf
    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy()
    array([[1, 2],
           [3, 4]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the numbers of elements differ. If tracing does not know
        them, the program raises the error when it runs.

    Source: https://www.tensorflow.org/api_docs/python/tf/reshape
    """
    x = convert_to_tensor(tensor)
    if is_computed(shape):
        require_dtype(shape._type, (int32, int64), "shape")
    if is_computed(shape) and not isinstance(x._type.shape, AnyShape):
        shape = _filled_at_run_time(x, shape)
    return (x,), {"shape": filled(x._type.shape, static_dims(shape))}


def _filled_at_run_time(x: Tensor, computed: Any) -> Tensor:
    """Replaces a -1 in a reshape's target shape by the size that keeps the number of elements, at run time.

    ``computed`` is the target shape, an integer vector. :func:`filled` does the same for a shape that tracing knows.
    """
    sizes = bind.cast(computed, dtype=int64)
    is_inferred = bind.equal(sizes, number(-1, sizes))
    is_zero = bind.equal(sizes, number(0, sizes))
    bind.guard(_at_most_one(is_inferred), message="Only one input size may be -1")
    dims = shape_of(x, int64)
    # Next to a 0, TensorFlow infers the -1 from the dims that aren't zero.
    has_zero = bind.reduce_any(is_zero, axis=(0,), keepdims=False)
    product_of_nonzero_dims = _product(dims, bind.equal(dims, number(0, dims)))
    element_count = bind.select(has_zero, product_of_nonzero_dims, _product(dims))
    product_of_given_sizes = _product(sizes, bind.logical_or(is_inferred, is_zero))
    inferred_size = bind.floordiv(element_count, product_of_given_sizes)
    return bind.select(is_inferred, inferred_size, sizes)


def _at_most_one(flags: Tensor) -> Tensor:
    count = bind.reduce_sum(bind.cast(flags, dtype=int64), axis=(0,), keepdims=False)
    return bind.less_equal(count, number(1, count))


def _product(sizes: Tensor, excluded: Tensor | None = None) -> Tensor:
    """Returns the product of sizes, leaving out those where ``excluded`` is True."""
    counted = sizes if excluded is None else bind.select(excluded, number(1, sizes), sizes)
    return bind.reduce_prod(counted, axis=(0,), keepdims=False)


def _broadcast_type(x: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    """Checks that ``x`` broadcasts to ``shape``, as far as the trace knows the dims of both."""
    trailing = shape[len(shape) - len(x.shape) :]
    if len(trailing) < len(x.shape) or not all(_may_broadcast(dim, other) for dim, other in zip(x.shape, trailing)):
        raise ArgumentError(f"Incompatible shapes: {brackets(x.shape)} vs. {brackets(shape)}")
    return TensorType(shape, x.dtype)


def _may_broadcast(own: Dim, wide: Dim) -> bool:
    """Returns whether the dim ``own`` of an operand can be broadcast to the dim ``wide`` of the result.

    If the trace does not know, it speculates that both are equal.
    """
    if isinstance(own, int) and own == 1:
        return True
    if state.trace is not None and not same_dim(own, wide):
        state.trace.root.speculated_equalities.append((wide, own))
    return may_be_same(own, wide)


def _repeated(x: np.ndarray, *, shape: tuple[int, ...]) -> np.ndarray:
    result = np.empty(shape, x.dtype)
    result[...] = x
    return result


def _broadcast_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, shape: tuple[Dim, ...]) -> Tensor:
    """Inserts axes of size 1 after the batch axis, for broadcasting aligns shapes from the right."""
    dims = inputs[0]._type.shape
    lifted = bind.reshape(inputs[0], shape=(dims[0], *(1,) * (len(shape) - len(dims) + 1), *dims[1:]))
    return bind.broadcast_to(lifted, shape=(size, *shape))


MOST_KNOWN = 64
"""Limit of elements for which a trace keeps the value of a broadcast: shapes have fewer, data has more."""


def _known_broadcast(x: Any, *, shape: tuple[Dim, ...]) -> np.ndarray | None:
    """Evaluates ``broadcast_to`` while tracing, if the result is small and the elements are integers known then.

    Returns None otherwise. Programs build shapes by such broadcasts, for example ``tf.ones(tf.rank(x) - 1, tf.int32)``.
    """
    if x.known is None or not x._type.dtype.is_integer:
        return None
    if not is_static_shape(shape) or math.prod(shape) > MOST_KNOWN:
        return None
    return np.broadcast_to(np.asarray(x.known, object), shape)


@primitive(
    type=_broadcast_type,
    numpy=_repeated,
    lower=kernel("array.broadcast_to"),
    guard=lambda x, *, shape: stretching_guard(x._type.shape, shape),
    vjp=lambda cotangent, y, x, *, shape: unbroadcast(cotangent, x),
    value=_known_broadcast,
    batch=_broadcast_batch,
    onnx=lambda emitter, inputs, outputs, types, *, shape: emitter.node(
        "Expand", [inputs[0], emitter.shape(shape)], outputs
    ),
    samples=lambda: [
        Sample((draw(0, old_shape),), {"shape": new_shape}, COMPILED)
        for old_shape, new_shape in (((3,), (2, 3)), ((), (4,)), ((2, 1), (2, 5)), ((1, 3), (0, 3)))
    ],
    public=("broadcast_to",),
)
def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Any:
    """Broadcasts a tensor to ``shape`` by repeating it along axes of size 1 and new leading axes.

    >>> import tvtf as tf
    >>> tf.broadcast_to([1, 2], [2, 2]).numpy()
    array([[1, 2],
           [1, 2]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/broadcast_to
    """
    return (convert_to_tensor(input),), {"shape": static_dims(shape, is_vector=True)}


def _shape_type(x: TensorType, *, dtype: DType) -> TensorType:
    require_countable(x.shape, dtype)
    return TensorType((len(x.shape),), dtype)


def _shape_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, dtype: DType) -> Tensor:
    """Returns the shape without the batch axis, the same for every batch item."""
    batched_shape = bind.shape(inputs[0], dtype=dtype)
    item_shape = bind.strided_slice(batched_shape, begin=(1,), size=(inputs[0].ndim - 1,), strides=(1,), checked=())
    return bind.broadcast_to(item_shape, shape=(size, inputs[0].ndim - 1))


@primitive(
    name="shape",
    type=_shape_type,
    numpy=lambda x, *, dtype: np.array(x.shape, dtype.np),
    lower=kernel("array.shape"),
    vjp=lambda cotangent, y, x, *, dtype: None,
    batch=_shape_batch,
    onnx=lambda emitter, inputs, outputs, types, *, dtype: _shape_node(emitter, inputs, outputs, dtype),
    value=lambda x, *, dtype: np.array([*x._type.shape], object),
    samples=lambda: [Sample((draw(0, s),), {"dtype": int32}, COMPILED, gradient=False) for s in ((2, 3), (), (0,))],
)
def shape_of(input: Any, dtype: DType) -> Any:
    """Returns the shape as a vector of ``dtype``."""
    return (convert_to_tensor(input),), {"dtype": dtype}


def _shape_node(emitter: NodeEmitter, inputs: Names, outputs: Names, dtype: DType) -> None:
    """Emits ONNX's Shape, and a cast because Shape always returns int64."""
    dims = outputs[0] if dtype is int64 else emitter.temp()
    emitter.node("Shape", inputs, [dims])
    if dtype is not int64:
        emitter.node("Identity", [emitter.cast(dims, dtype)], outputs)


@export("shape")
@attributes(out_type=one_of(int32, int64))
def shape(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """Returns the shape of a tensor as a vector of ``out_type``. Unknown dims are computed when the program runs.

    >>> import tvtf as tf
    >>> tf.shape([[1, 2, 3]])
    <tf.Tensor: shape=(2,), dtype=int32, numpy=array([1, 3], dtype=int32)>

    Source: https://www.tensorflow.org/api_docs/python/tf/shape
    """
    x = convert_to_tensor(input)
    dtype = as_dtype(out_type)
    if is_static_shape(x._type.shape):
        require_countable(x._type.shape, dtype)
        return constant(np.array(x._type.shape, dtype.np))
    return shape_of(x, dtype)


@export("shape_n")
@attributes(out_type=one_of(int32, int64))
def shape_n(input: Sequence[Any], out_type: Any = int32, name: str | None = None) -> list[Tensor]:
    """Returns a list with the shape of each tensor as a vector.

    >>> import tvtf as tf
    >>> [s.numpy().tolist() for s in tf.shape_n([[1, 2], [[3]]])]
    [[2], [1, 1]]

    Source: https://www.tensorflow.org/api_docs/python/tf/shape_n
    """
    return [shape(x, out_type) for x in variadic_inputs(input, "input", "shape_n")]


@export("size")
@attributes(out_type=one_of(int32, int64))
def size(input: Any, out_type: Any = int32, name: str | None = None) -> Tensor:
    """Returns the number of elements, a scalar of ``out_type``.

    >>> import tvtf as tf
    >>> tf.size([[1, 2, 3]]).numpy()
    np.int32(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/size
    """
    x = convert_to_tensor(input)
    dtype = as_dtype(out_type)
    if is_static_shape(x._type.shape):
        require_countable((size_of(x._type.shape),), dtype)
        return constant(np.array(size_of(x._type.shape), dtype.np))
    return bind.reduce_prod(shape_of(x, dtype), axis=(0,), keepdims=False)


@export("rank")
def rank(input: Any, name: str | None = None) -> Tensor:
    """Returns the number of axes, an int32 scalar.

    >>> import tvtf as tf
    >>> tf.rank([[1, 2, 3]]).numpy()
    np.int32(2)

    Source: https://www.tensorflow.org/api_docs/python/tf/rank
    """
    return constant(convert_to_tensor(input).ndim, int32)


# -- the order of axes


def _transpose_type(x: TensorType, *, perm: tuple[int, ...]) -> TensorType:
    """Checks that ``perm`` is a permutation of the axes of ``x``, and returns the type of the transpose.

    The errors are TensorFlow's.
    """
    rank = len(x.shape)
    if len(perm) != rank:
        raise ArgumentError(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(perm)}",
            graph=ValueError,
            traced=f"Dimension must be {rank} but is {len(perm)} for the permutation {perm} of an input of shape "
            f"{show_shape(x.shape)}",
        )
    for axis in perm:
        if not 0 <= axis < rank:
            raise ArgumentError(f"{axis} is out of range [0 .. {rank})")
    for axis in range(rank):
        if axis not in perm:
            perm_text = ",".join(map(str, perm))
            raise ArgumentError(f"{axis} is missing from {{{perm_text}}}.")
    transposed_shape = tuple(x.shape[axis] for axis in perm)
    return TensorType(transposed_shape, x.dtype)


def inverse_permutation(perm: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(perm))


@primitive(
    type=_transpose_type,
    numpy=lambda x, *, perm: np.ascontiguousarray(x.transpose(perm)).reshape([x.shape[axis] for axis in perm]),
    lower=kernel("array.transpose"),
    vjp=lambda cotangent, y, x, *, perm: bind.transpose(cotangent, perm=inverse_permutation(perm)),
    batch=lambda size, inputs, batched, *, perm: bind.transpose(inputs[0], perm=(0, *(axis + 1 for axis in perm))),
    onnx=lambda emitter, inputs, outputs, types, *, perm: emitter.node("Transpose", inputs, outputs, perm=list(perm)),
    samples=lambda: [
        Sample((draw(0, a),), {"perm": b}, COMPILED, symbolic=None if len(a) != 2 else (("n", "m"),))
        for a, b in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((), ()), ((0, 3), (1, 0)))
    ],
    public=("transpose",),
)
def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Any:
    """Permutes the axes of a tensor: axis ``i`` of the result is axis ``perm[i]`` of ``a``.

    Args:
      a: tensor of shape (d0, ..., dn).
      perm: a permutation of the axes, negative ones counting from the end; reversed order where None.
      conjugate: also conjugate complex elements.

    Returns:
      A tensor of the same dtype.

    >>> import tvtf as tf
    >>> tf.transpose([[1, 2, 3], [4, 5, 6]]).numpy()
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) ``perm`` is not a permutation of the axes.

    Source: https://www.tensorflow.org/api_docs/python/tf/transpose
    """
    x = convert_to_tensor(a)
    if conjugate and x.dtype.is_complex:
        x = bind.conj(x)
    if perm is None:
        return (x,), {"perm": tuple(reversed(range(x.ndim)))}
    if isinstance(perm, Tensor) and perm.dtype not in (int32, int64):
        raise not_among(perm.dtype, (int32, int64), "Tperm", "perm")
    order = np.asarray(static_value(perm, "perm"))
    if order.ndim != 1:
        raise ArgumentError(f"perm must be rank 1, got shape {brackets(order.shape)}", ValueError).for_op("Transpose")
    axes = [static_int(axis, "perm") for axis in order]
    return (x,), {"perm": tuple(axis + x.ndim if axis < 0 else axis for axis in axes)}


@export("linalg.matrix_transpose")
def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """Swaps the last two axes of a tensor: transposes each matrix of a batch.

    >>> import tvtf as tf
    >>> tf.linalg.matrix_transpose([[1, 2]]).numpy()
    array([[1],
           [2]], dtype=int32)

    Raises:
      ValueError: the tensor's rank is below 2.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/matrix_transpose
    """
    x = convert_to_tensor(a)
    if x.ndim < 2:
        raise ValueError(
            f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {x!r} with shape: {x.shape}"
        )
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2], conjugate)


# -- axes of size 1


@export("expand_dims")
def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """Inserts an axis of size 1 at position ``axis`` of the result.

    Args:
      input: tensor of rank r.
      axis: int in [-r - 1, r].

    >>> import tvtf as tf
    >>> tf.expand_dims([1, 2], 0).shape
    TensorShape([1, 2])

    Raises:
      InvalidArgumentError: (ValueError while tracing) the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/expand_dims
    """
    x = convert_to_tensor(input)
    index = static_int(_single(axis), "axis")
    if not -x.ndim - 1 <= index <= x.ndim:
        raise ArgumentError(f"Tried to expand dim index {index} for tensor with {x.ndim} dimensions.").for_op(
            "ExpandDims"
        )
    index %= x.ndim + 1  # a negative axis counts from the end of the result's axes
    dims = x._type.shape
    return bind.reshape(x, shape=(*dims[:index], 1, *dims[index:]))


def _single(axis: Any) -> Any:
    """Unwraps the argument ``axis`` of expand_dims: a number, or nested lists or a tensor with a single element.

    For example, ``[[2]]`` gives 2.
    """
    value = static_value(axis, "axis")
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise ArgumentError("'dim' must be a tensor with a single value").for_op("ExpandDims")
        return _single(value[0])
    return axis


MSG_RUN_TIME_ONE = (
    "dim {axis} of the input turned out to be 1, which was unknown while tracing: the result was compiled with it. Tell "
    "the axes to take out as `axis`."
)


@export("squeeze")
def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Removes axes of size 1: the axes in ``axis``, or all axes of size 1 if ``axis`` is None.

    >>> import tvtf as tf
    >>> tf.squeeze([[[1, 2]]], [0]).shape
    TensorShape([1, 2])

    Raises:
      InvalidArgumentError: (ValueError while tracing) an axis doesn't have size 1 or is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/squeeze
    """
    x = convert_to_tensor(input)
    if axis is None or not np.size(axis):
        x = _guard_against_ones(x)
    dims = x._type.shape
    if axis is None:
        removed = _axes_of_size_one(dims)
    else:
        removed = _axes_to_remove(dims, np.ravel(static_value(axis, "axis")))
    if any(not same_dim(dims[i], 1) for i in removed):  # a dim unknown while tracing, which must be 1 at run time
        shape_with_ones = tuple(1 if i in removed else dim for i, dim in enumerate(dims))
        x = bind.ensure_shape(x, shape=shape_with_ones)
    remaining_dims = tuple(dim for i, dim in enumerate(dims) if i not in removed)
    return bind.reshape(x, shape=remaining_dims)


def _guard_against_ones(x: Tensor) -> Tensor:
    """Returns ``x`` with a run-time check that no dim that is unknown while tracing is 1.

    A squeeze of all axes would have to remove such a dim, but tracing fixes the rank of the result.

    Raises:
      UnknownSize: the trace may be specialized to the sizes of its calls instead.
    """
    # A trace made for the sizes of one call, level SHAPES, can't be made again for known sizes.
    may_be_specialized = state.trace is not None and state.trace.specialization.level is not Level.SHAPES
    if may_be_specialized and not is_static_shape(x._type.shape):
        error = unknown_size(ValueError(f"squeeze without an axis needs known sizes, but got shape {x.shape}"))
        if isinstance(error, UnknownSize):
            raise error
    for axis, dim in enumerate(x._type.shape):
        if not isinstance(dim, int):
            is_not_one = bind.not_equal(scalar_of(dim), scalar_of(1))
            x = bind.initialized(x, is_not_one, message=MSG_RUN_TIME_ONE.format(axis=axis))
    return x


def _axes_of_size_one(dims: Sequence[Dim]) -> set[int]:
    return {i for i, dim in enumerate(dims) if isinstance(dim, int) and dim == 1}


def _axes_to_remove(dims: Sequence[Dim], axes: Any) -> set[int]:
    """Returns the axes that squeeze removes: those in ``axes``, or all axes of size 1 if ``axes`` is empty.

    Raises an error for an axis that is out of range or has a known size other than 1.
    """
    rank = len(dims)
    removed = set()
    for axis in map(int, axes):
        if not -rank <= axis < rank:
            message = f"Tried to squeeze dim index {axis} for tensor with {rank} dimensions."
            raise ArgumentError(message).for_op("Squeeze")
        dim = dims[axis]
        if isinstance(dim, int) and dim != 1:
            message = f"Can not squeeze dim[{axis}], expected a dimension of 1, got {dim}"
            raise ArgumentError(message).for_op("Squeeze")
        removed.add(axis % rank)  # a negative axis counts from the end
    return removed or _axes_of_size_one(dims)


# -- the tensor itself


_SAME: dict[str, Any] = {
    "type": lambda x: x,
    "numpy": lambda x: x,
    "lower": scalar(lambda t, x: x),
    "vjp": lambda cotangent, y, x: cotangent,
    "onnx": "Identity",
    "value": lambda x: x.known,
    "samples": lambda: [Sample((draw(0, s),), {}, COMPILED) for s in ((2, 3), (), (0,))],
}
"""The columns of ops whose result is their input."""


@primitive(**_SAME, batch=lambda size, inputs, batched: bind.identity(inputs[0]), public=("identity",))
def identity(input: Any, name: str | None = None) -> Any:
    """Copies a tensor, so that later updates of a Variable don't change it.

    >>> import tvtf as tf
    >>> tf.identity([1, 2]).numpy()
    array([1, 2], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/identity
    """
    return (convert_to_tensor(input),), {}


def _identity_of_components(args: Any, kwargs: Any) -> Any:
    """Applies identity to the components of a composite tensor, of any class."""
    value = args[0] if args else kwargs.get("input")
    if not isinstance(value, CompositeTensor):
        return NotImplemented
    return nest.map_structure(identity, value, expand_composites=True)


identity.composites.append(_identity_of_components)


@primitive(**_SAME, batch=lambda size, inputs, batched: bind.apart(inputs[0]))
def apart(input: Any) -> Any:
    """Returns ``input`` as a value that no pass merges with it, so that computations on it are not shared.

    ``tf.recompute_grad`` recomputes on such values: sharing would keep the residuals that it is meant to drop.
    """
    return (convert_to_tensor(input),), {}


@primitive(
    type=lambda x: x,
    numpy=lambda x: x,
    lower=scalar(lambda t, x: x),
    vjp=lambda cotangent, y, x: None,
    batch=lambda size, inputs, batched: bind.stop_gradient(inputs[0]),
    onnx="Identity",
    value=lambda x: x.known,
    samples=lambda: [Sample((draw(0, s),), {}, COMPILED, gradient=False) for s in ((2, 3), (), (0,))],
    public=("stop_gradient",),
)
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """Returns its input. No gradient flows through it: it counts as a constant.

    >>> import tvtf as tf
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)

    Source: https://www.tensorflow.org/api_docs/python/tf/stop_gradient
    """
    return (convert_to_tensor(input),), {}


def _ensure_type(x: TensorType, *, shape: tuple[Dim, ...]) -> TensorType:
    """Returns the type of ``ensure_shape``'s result, after checking the static sizes of ``x``."""
    is_compatible = len(x.shape) == len(shape)
    for dim, expected in zip(x.shape, shape):
        if isinstance(dim, int) and isinstance(expected, int) and dim != expected:
            is_compatible = False
    if not is_compatible:
        raise ArgumentError(
            f"Shape of tensor input {brackets(x.shape)} is not compatible with expected shape {brackets(shape)}."
        )
    return TensorType(shape, x.dtype)


def _ensure_guard(x: Tensor, *, shape: tuple[Dim, ...]) -> list[tuple[Any, ...]]:
    """Checks at run time each dim that the trace could not prove equal to the expected one.

    A check is a tuple of the condition, the error's message, and the sizes that fill the message's placeholders.
    """
    actual = x._type.shape
    message_sizes = [scalar_of(dim) for dim in (*actual, *shape) if not isinstance(dim, int)]
    actual_text = brackets([dim if isinstance(dim, int) else HOLE for dim in actual])
    expected_text = brackets([dim if isinstance(dim, int) else HOLE for dim in shape])
    message = f"Shape of tensor {actual_text} is not compatible with expected shape {expected_text}."
    checks = []
    for dim, expected in zip(actual, shape):
        if not same_dim(dim, expected):
            is_equal = bind.equal(scalar_of(dim), scalar_of(expected))
            checks.append((is_equal, message, *message_sizes))
    return checks


@primitive(
    name="ensure_shape",
    type=_ensure_type,
    numpy=lambda x, *, shape: x,
    lower=kernel("array.ensure_shape"),
    vjp=lambda cotangent, y, x, *, shape: bind.ensure_shape(cotangent, shape=x._type.shape),
    batch=lambda size, inputs, batched, *, shape: bind.ensure_shape(inputs[0], shape=(size, *shape)),
    onnx=lambda emitter, inputs, outputs, types, *, shape: emitter.node("Identity", inputs, outputs),
    guard=_ensure_guard,
    samples=lambda: [Sample((draw(0, s),), {"shape": s}, COMPILED) for s in ((2, 3), (), (0,))],
)
def with_shape(x: Tensor, shape: tuple[Dim, ...]) -> Any:
    """Returns ``x`` with type shape ``shape``, after checking at run time that it has it."""
    return (x,), {"shape": shape}


def _with_checked_dims(x: Tensor, dims: tuple[Dim, ...]) -> Any:
    return bind.ensure_shape(x, shape=dims)


hooks.ensure_shape = _with_checked_dims


@export("ensure_shape")
def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """Returns ``x`` after a check of its shape, at run time if it is unknown while tracing.

    Args:
      x: tensor.
      shape: a shape; None stands for any dim.

    >>> import tvtf as tf
    >>> tf.ensure_shape([[1, 2]], [None, 2]).shape
    TensorShape([1, 2])

    Raises:
      InvalidArgumentError: (ValueError while tracing) the tensor doesn't have the shape.

    Source: https://www.tensorflow.org/api_docs/python/tf/ensure_shape
    """
    tensor = convert_to_tensor(x)
    expected = as_shape(shape)
    if expected.rank is None:
        return tensor
    if isinstance(tensor._type.shape, AnyShape):
        tensor = bind.identity(tensor)
        tensor.set_shape([None] * expected.rank)
    if expected.rank != tensor.ndim or not tensor.shape.is_compatible_with(expected):
        shapes = f"{brackets(tensor.shape)} is not compatible with expected shape {brackets(expected)}"
        raise ArgumentError(f"Shape of tensor input {shapes}.").for_op("EnsureShape")
    dims = tuple(dim if wanted is None else wanted for dim, wanted in zip(tensor._type.shape, expected))
    return bind.ensure_shape(tensor, shape=dims)
