"""Ops that pad, repeat and reorder elements: pad, tile, repeat, reverse, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, incompatible_shapes
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, may_be_same, same_dim, simplify_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import COMPILED, int32, int64
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.cast import cast_tensor
from tvtf.ops.dims import scalar_of
from tvtf.ops.getitem import scalars_of
from tvtf.ops.indexing import without_rows
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import integer_tensor, integers, operands
from tvtf.ops.rules import (
    bind,
    dims_value,
    draw,
    is_computed,
    kernel,
    not_among,
    number,
    require_same_dtype,
    static_dims,
    static_int,
    static_value,
    stretch,
)

Pairs = tuple[tuple[Dim, Dim], ...]


def _pad_type(x: TensorType, value: TensorType, *, paddings: Pairs) -> TensorType:
    """Checks the paddings, a pair of non-negative sizes for each axis, and returns the type of a pad's result.

    For example, shape ``(3,)`` and paddings ``((1, 2),)`` give ``(6,)``.
    """
    require_same_dtype((x, value), ("input", "constant_values"))
    if len(paddings) != len(x.shape):
        raise ArgumentError(
            f"The first dimension of paddings must be the rank of inputs[{len(paddings)},2] {brackets(x.shape)}"
        )
    for before, after in paddings:
        if any(isinstance(amount, int) and amount < 0 for amount in (before, after)):
            raise ArgumentError(f"Paddings must be non-negative: {before} {after}")
    padded_dims = tuple(simplify_dim(dim + before + after) for dim, (before, after) in zip(x.shape, paddings))
    return TensorType(padded_dims, x.dtype)


def _pad_vjp(cotangent: Tensor, y: Tensor, x: Tensor, value: Tensor, *, paddings: Pairs) -> tuple[Tensor, Tensor]:
    """Returns the cotangents of ``x`` (a slice of the result's) and of the padding value (the sum of the rest)."""
    begin = tuple(low for low, _ in paddings)
    ones = (1,) * len(paddings)
    x_cotangent = bind.strided_slice(cotangent, begin=begin, size=x._type.shape, strides=ones, checked=())
    all_axes = {"axis": tuple(range(cotangent.ndim)), "keepdims": False}
    value_cotangent = bind.subtract(bind.reduce_sum(cotangent, **all_axes), bind.reduce_sum(x_cotangent, **all_axes))
    return x_cotangent, value_cotangent


def _pad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, paddings: Pairs) -> Tensor:
    """Maps ``pad`` over a leading batch axis of ``size`` items, which isn't padded.

    The primitive accepts one scalar as padding. Padding values that differ by item are inserted by a select.
    """
    x, value = inputs
    x_batched, value_batched = batched
    x = stretch(size, x, x_batched)
    all_paddings = ((0, 0), *paddings)
    if not value_batched:
        return bind.pad(x, value, paddings=all_paddings)
    true = EagerTensor(np.array(True))
    false = EagerTensor(np.array(False))
    true_elements = bind.broadcast_to(true, shape=x._type.shape)
    is_element = bind.pad(true_elements, false, paddings=all_paddings)  # else padding
    zero = EagerTensor(np.zeros((), x.dtype.np))
    value_of_item = bind.reshape(value, shape=(size, *(1,) * (x.ndim - 1)))
    padded_x = bind.pad(x, zero, paddings=all_paddings)
    return bind.select(is_element, padded_x, value_of_item)


def _pad_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, paddings: Pairs) -> None:
    """Emits ONNX's Pad for ``pad``, which adds elements before and after each axis."""
    # ``types`` isn't needed here, but all ONNX rules receive it
    if not paddings:  # a scalar has no axis to pad
        emitter.node("Identity", inputs[:1], outputs)
        return
    x, value = inputs
    # ONNX lists the paddings before all axes first, then the paddings after all axes
    pads = (*(low for low, _ in paddings), *(high for _, high in paddings))
    emitter.node("Pad", [x, emitter.shape(pads), value], outputs)


@primitive(
    name="pad",
    tf_name="PadV2",
    type=_pad_type,
    numpy=lambda x, value, *, paddings: np.pad(x, paddings, constant_values=value[()]) if paddings else x,
    lower=kernel("array.pad"),
    vjp=_pad_vjp,
    batch=_pad_batch,
    onnx=_pad_nodes,
    samples=lambda: [
        Sample(
            (draw(0, s), draw(1, ())), {"paddings": p}, COMPILED, symbolic=(("n", None), ()) if len(s) == 2 else None
        )
        for s, p in (((2, 3), ((1, 0), (0, 2))), ((3,), ((2, 2),)), ((), ()), ((0, 2), ((1, 1), (0, 0))))
    ],
)
def pad_around(x: Tensor, value: Tensor, paddings: Pairs) -> Any:
    """Pads ``x`` with ``value`` before and after it along every axis."""
    return (x, value), {"paddings": paddings}


@export("pad")
def pad(
    tensor: Any, paddings: Any, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    """Pads a tensor: puts elements before and after it along each axis.

    Args:
      tensor: tensor of rank r.
      paddings: r pairs (before, after) of ints.
      mode: "CONSTANT" puts ``constant_values``; "REFLECT" mirrors without the edge, "SYMMETRIC" with it.
      constant_values: scalar of the tensor's dtype.

    >>> import tvtf as tf
    >>> tf.pad([1, 2, 3], [[1, 2]]).numpy()
    array([0, 1, 2, 3, 0, 0], dtype=int32)
    >>> tf.pad([1, 2, 3], [[2, 1]], "REFLECT").numpy()
    array([3, 2, 1, 2, 3, 2], dtype=int32)

    Raises:
      ValueError: the mode is not supported.
      InvalidArgumentError: (ValueError while tracing) the paddings don't fit the tensor.

    Source: https://www.tensorflow.org/api_docs/python/tf/pad
    """
    mode_name = mode.upper()
    x = operands(tensor, constant_values)[0] if is_tensor(constant_values) else convert_to_tensor(tensor)
    if mode_name not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        expected = '"CONSTANT", "REFLECT", or "SYMMETRIC"'
        raise ValueError(f"Value of argument `mode` expected to be one of {expected}. Received `mode` = {mode_name}")
    pairs = _pairs(paddings, x)
    if mode_name == "CONSTANT":
        if x.dtype is bool_dtype and type(constant_values) is int and constant_values == 0:
            constant_values = False  # the default 0 must serve every dtype, though bool takes no other number
        return bind.pad(*operands(x, constant_values), paddings=pairs)
    for axis, (before, after) in enumerate(pairs):
        x = _mirror_padded(x, axis, before, after, int(mode_name == "REFLECT"))
    return x


def _pairs(paddings: Any, x: Tensor) -> Pairs:
    """Converts the argument ``paddings`` of ``tf.pad`` to a pair ``(before, after)`` of dims for each axis of ``x``.

    Raises TensorFlow's error unless ``paddings`` is a matrix with a row for each axis and two columns.
    """
    rows = dims_value(integers(paddings, "paddings"), "paddings")
    is_matrix = isinstance(rows, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in rows)
    if not is_matrix or any(len(row) != 2 for row in rows):
        raise ArgumentError(f"paddings must be a matrix with 2 columns: {brackets(np.shape(rows))}").for_op("Pad")
    pairs = tuple(tuple(static_dims(list(row), "paddings")) for row in rows)
    if len(pairs) != x.ndim:
        raise ArgumentError(
            f"The first dimension of paddings must be the rank of inputs[{len(pairs)},2] {brackets(x.shape)}"
        ).for_op("Pad")
    return pairs


def _mirror_padded(x: Tensor, axis: int, before: Dim, after: Dim, skipped: int) -> Tensor:
    """Pads one axis with its own elements in reverse order, as ``tf.pad`` does in the modes that mirror.

    Args:
      x: the tensor to pad.
      axis: the axis to pad.
      before, after: the numbers of elements to add.
      skipped: 1 for the mode "REFLECT", which omits the edge element, and 0 for "SYMMETRIC".
    """
    extent = x._type.shape[axis]
    are_known = all(isinstance(dim, int) for dim in (extent, before, after))
    if are_known and max(before, after) > extent - skipped:
        required, found = ("less than", "not less than") if skipped else ("no greater than", "greater than")
        message = f"paddings must be {required} the dimension size: {before}, {after} {found} {extent}"
        raise ArgumentError(message).for_op("MirrorPad")
    parts = [x]
    # The stride of -1 reverses the elements.
    if not (isinstance(before, int) and before == 0):
        parts.insert(0, part(x, axis, before - 1 + skipped, before, -1))
    if not (isinstance(after, int) and after == 0):
        parts.append(part(x, axis, extent - 1 - skipped, after, -1))
    return bind.concat(*parts, axis=axis) if len(parts) > 1 else x


def part(x: Tensor, axis: int, begin: Dim, size: Dim, step: int = 1) -> Tensor:
    """Slices one axis of ``x``: ``size`` elements starting at ``begin``, ``step`` apart.

    The bounds aren't checked: the caller must know that the elements exist.
    """
    begins: list[Dim] = [0] * x.ndim
    sizes = list(x._type.shape)
    strides = [1] * x.ndim
    begins[axis], sizes[axis], strides[axis] = begin, size, step
    return bind.strided_slice(x, begin=tuple(begins), size=tuple(sizes), strides=tuple(strides), checked=())


# -- tile and repeat


def _tile_type(x: TensorType, *, multiples: tuple[Dim, ...]) -> TensorType:
    """Checks ``multiples``, a non-negative count for each axis, and returns the type of a tile's result.

    For example, shape ``(2, 3)`` and multiples ``(1, 2)`` give ``(2, 6)``.
    """
    if len(multiples) != len(x.shape):
        raise ArgumentError(
            f"Expected multiples argument to be a vector of length {len(x.shape)} but got length {len(multiples)}"
        )
    for i, count in enumerate(multiples):
        if isinstance(count, int) and count < 0:
            raise ArgumentError(f"Expected multiples[{i}] >= 0, but got {count}")
    tiled_dims = tuple(simplify_dim(dim * count) for dim, count in zip(x.shape, multiples))
    return TensorType(tiled_dims, x.dtype)


def _tile_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, multiples: tuple[Dim, ...]) -> Tensor:
    """Sums the cotangent over the copies, after reshaping each axis to (copies, elements)."""
    split_dims = tuple(d for count, dim in zip(multiples, x._type.shape) for d in (count, dim))
    copies = bind.reshape(cotangent, shape=split_dims)
    return bind.reduce_sum(copies, axis=tuple(range(0, len(split_dims), 2)), keepdims=False)


@primitive(
    name="tile",
    type=_tile_type,
    numpy=lambda x, *, multiples: np.tile(x, multiples) if multiples else x,
    lower=kernel("array.tile"),
    vjp=_tile_vjp,
    batch=lambda size, inputs, batched, *, multiples: bind.tile(inputs[0], multiples=(1, *multiples)),
    onnx=lambda emitter, inputs, outputs, types, *, multiples: (
        emitter.node("Tile", [inputs[0], emitter.shape(multiples)], outputs)
        if multiples
        else emitter.node("Identity", inputs, outputs)
    ),
    samples=lambda: [
        Sample((draw(0, s),), {"multiples": m}, COMPILED)
        for s, m in (((2, 3), (2, 1)), ((3,), (3,)), ((), ()), ((2,), (0,)), ((1, 2), (2, 2)))
    ],
)
def tile_by(x: Tensor, multiples: tuple[Dim, ...]) -> Any:
    """Repeats ``x`` ``multiples`` times along every axis."""
    return (x,), {"multiples": multiples}


@export("tile")
def tile(input: Any, multiples: Any, name: str | None = None) -> Tensor:
    """Repeats a tensor as a whole along every axis.

    Args:
      input: tensor of rank r.
      multiples: r ints, or scalars computed from shapes.

    >>> import tvtf as tf
    >>> tf.tile([1, 2], [2]).numpy()
    array([1, 2, 1, 2], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the number of multiples is not r, or a multiple is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/tile
    """
    return bind.tile(convert_to_tensor(input), multiples=static_dims(multiples, "multiples", is_vector=True))


@export("repeat")
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeats each element along ``axis``, or of the flattened tensor if it is None.

    Args:
      input: tensor.
      repeats: int, or ints, one for each element along the axis. They may be computed by the program.
      axis: int in [-rank, rank).

    >>> import tvtf as tf
    >>> tf.repeat([1, 2], [2, 3]).numpy()
    array([1, 1, 2, 2, 2], dtype=int32)

    Raises:
      ValueError: the number of repeats is not that of elements along the axis, or the axis is out of range.
      TypeError: the repeats are no integers, or the axis is no int.

    Source: https://www.tensorflow.org/api_docs/python/tf/repeat
    """
    x = convert_to_tensor(input)
    if axis is None:
        x, axis = bind.reshape(x, shape=(size_of(x._type.shape),)), 0
    elif not isinstance(axis, int):
        raise TypeError(f"Argument `axis` must be an int. Received `axis` = {axis} of type {type(axis).__name__}")
    if not x.ndim:
        x = bind.reshape(x, shape=(1,))
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"axis={axis} out of bounds: expected {-x.ndim}<=axis<{x.ndim}")
    axis, counts = axis % x.ndim, integer_tensor(repeats, "repeats")
    if counts.ndim > 1:
        raise ValueError(f"Shape {counts.shape} must have rank at most 1")
    if counts._type.shape in ((), (1,)):
        (count,) = static_dims(cast_tensor(counts, int64) if is_computed(counts) else counts, "repeats")
        return _repeated_equally(x, count, axis)
    extent, length = x._type.shape[axis], counts._type.shape[0]
    is_known = isinstance(counts, EagerTensor)
    if not (agree_dim(extent, length) if is_known else may_be_same(extent, length)):
        raise incompatible_shapes(ValueError(f"Dimensions {extent} and {length} are not compatible"))
    if not is_known and not same_dim(extent, length):  # at run time there may be a single count, too
        counts = bind.broadcast_to(counts, shape=(extent,))
    return _repeated_by_counts(x, counts, axis)


def _repeated_equally(x: Tensor, count: Dim, axis: int) -> Tensor:
    """Repeats each element of an axis ``count`` times, by broadcasting along a new axis that is then merged."""
    shape = x._type.shape
    with_axis = bind.reshape(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    copies = bind.broadcast_to(with_axis, shape=(*shape[: axis + 1], count, *shape[axis + 1 :]))
    return bind.reshape(copies, shape=(*shape[:axis], simplify_dim(shape[axis] * count), *shape[axis + 1 :]))


def _repeated_by_counts(x: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Repeats each slice of ``x`` along an axis by its own count. A negative count is 0.

    Slice i of the result is the first slice of ``x`` for which the running sum of counts exceeds i.
    """
    if isinstance(counts, EagerTensor):
        numbers = np.maximum(counts.eager_array(), 0).astype(np.int64)
        rows = EagerTensor(np.repeat(np.arange(len(numbers)), numbers))
        return bind.gather(without_rows(x), rows, axis=axis, batch_dims=0)
    counts = bind.cast(counts, dtype=int64)
    counts = bind.maximum(counts, number(0, counts))
    running_sums = bind.cumsum(counts, axis=0, exclusive=False, reverse=False)
    # Not the last running sum: there is none without slices.
    total = bind.reduce_sum(counts, axis=(0,), keepdims=False)
    (size,) = static_dims(total, "repeats")
    positions = bind.range(size=size, start=0, delta=1, dtype=int64)
    indices = bind.searchsorted(running_sums, positions, side="right", out_type=int64)
    return bind.gather(without_rows(x), indices, axis=axis, batch_dims=0)


# -- reverse and roll


@export("reverse")
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverses the elements along the axes.

    >>> import tvtf as tf
    >>> tf.reverse([1, 2, 3], [0]).numpy()
    array([3, 2, 1], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) an axis is out of range or given twice.

    Source: https://www.tensorflow.org/api_docs/python/tf/reverse
    """
    x = convert_to_tensor(tensor)
    if not x.ndim and state.trace is None:  # TensorFlow's kernel returns a scalar before it checks the axes
        return x
    axes = [static_int(index, "axis") for index in np.ravel(static_value(integers(axis, "axis"), "axis"))]
    for i, index in enumerate(axes):
        if not -x.ndim <= index < x.ndim:
            raise ArgumentError(f"'axis'[{i}] = {index} is out of valid range [0, {x.ndim - 1}]").for_op("ReverseV2")
        axes[i] = index % x.ndim
        if axes[i] in axes[:i]:
            raise ArgumentError(f"axis {axes[i]} specified more than once.").for_op("ReverseV2")
    shape = x._type.shape
    begin = tuple(dim - 1 if i in axes else 0 for i, dim in enumerate(shape))
    strides = tuple(-1 if i in axes else 1 for i in range(x.ndim))
    return bind.strided_slice(x, begin=begin, size=shape, strides=strides, checked=())


def _require_integers(x: Tensor, name: str) -> None:
    """Checks the dtype of the argument ``name`` of `tf.roll`, ``shift`` or ``axis``."""
    if x.dtype not in (int32, int64):
        raise not_among(x.dtype, (int32, int64), f"T{name}", name).for_op("Roll")


@export("roll")
def roll(input: Any, shift: Any, axis: Any, name: str | None = None) -> Tensor:
    """Rotates the elements along the axes: those beyond one end are inserted at the other.

    Args:
      input: tensor.
      shift: int or ints, or an integer tensor.
      axis: int or ints, one for each shift.

    >>> import tvtf as tf
    >>> tf.roll([1, 2, 3], 1, 0).numpy()
    array([3, 1, 2], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) an axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/roll
    """
    x = convert_to_tensor(input)
    for name, argument in ("shift", shift), ("axis", axis):
        if isinstance(argument, (Tensor, np.ndarray, np.generic, float)):
            _require_integers(convert_to_tensor(argument), name)
    axis_value = static_value(axis, "axis")
    axes = [static_int(axis_number, "axis") for axis_number in np.ravel(axis_value)]
    shifts = scalars_of(shift)
    if np.ndim(axis_value) != (1 if isinstance(shift, (list, tuple)) else convert_to_tensor(shift).ndim) or len(
        axes
    ) != len(shifts):
        raise ArgumentError("shift and axis must have the same size")
    for axis_number, amount in zip(axes, shifts):
        if not -x.ndim <= axis_number < x.ndim:
            raise ArgumentError(f"axis {axis_number} is out of range").for_op("Roll")
        x = (
            _rolled_by_int(x, amount, axis_number % x.ndim)
            if isinstance(amount, int)
            else _rolled_by_tensor(x, scalar_of(amount) if is_dim(amount) else amount, axis_number % x.ndim)
        )
    return x


def _rolled_by_tensor(x: Tensor, shift: Tensor, axis: int) -> Tensor:
    """Rolls an axis by a shift that is computed at run time: gathers element i from ``(i - shift) % size``."""
    extent = x._type.shape[axis]
    indices = bind.range(size=extent, start=0, delta=1, dtype=int64)
    size = bind.cast(scalar_of(extent), dtype=int64)
    modulus = bind.maximum(size, number(1, indices))  # at least 1: the axis may be empty when the program runs
    unwrapped = bind.subtract(indices, bind.cast(shift, dtype=int64))
    source_indices = bind.floormod(unwrapped, modulus)
    return bind.gather(without_rows(x), source_indices, axis=axis, batch_dims=0)


def _rolled_by_int(x: Tensor, shift: int, axis: int) -> Tensor:
    """Rolls an axis by a shift that is known while tracing: the last ``shift`` elements become the first."""
    extent = x._type.shape[axis]
    if not isinstance(extent, int):  # the extent may be 0 at run time, and a remainder by 0 ends the process
        return _rolled_by_tensor(x, EagerTensor(np.array(shift)), axis)
    if extent == 0 or shift % extent == 0:
        return x
    moved_count = shift % extent
    remaining_count = extent - moved_count
    moved = part(x, axis, remaining_count, moved_count)
    remaining = part(x, axis, 0, remaining_count)
    return bind.concat(moved, remaining, axis=axis)
