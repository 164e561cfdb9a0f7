"""Ops that pad, repeat and reorder elements: pad, tile, repeat, reverse, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, simplify_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import COMPILED, int32, int64
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.dims import scalar_of
from tvtf.ops.getitem import scalars_of
from tvtf.ops.indexing import without_rows
from tvtf.ops.operands import integers
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
    """Checks one pair of non-negative paddings for each axis."""
    require_same_dtype((x, value), ("input", "constant_values"))
    if len(paddings) != len(x.shape):
        raise ArgumentError(
            f"The first dimension of paddings must be the rank of inputs[{len(paddings)},2] {brackets(x.shape)}"
        )
    for low, high in paddings:
        if any(isinstance(p, int) and p < 0 for p in (low, high)):
            raise ArgumentError(f"Paddings must be non-negative: {low} {high}")
    return TensorType(tuple(simplify_dim(d + a + b) for d, (a, b) in zip(x.shape, paddings)), x.dtype)


def _pad_vjp(ct: Tensor, y: Tensor, x: Tensor, value: Tensor, *, paddings: Pairs) -> tuple[Tensor, Tensor]:
    """Slices the inner part for ``x``; the padding value gets the sum of the rest."""
    begin, ones = tuple(low for low, _ in paddings), (1,) * len(paddings)
    inner = bind.strided_slice(ct, begin=begin, size=x._type.shape, strides=ones, checked=())
    all_axes = {"axis": tuple(range(ct.ndim)), "keepdims": False}
    return inner, bind.subtract(bind.reduce_sum(ct, **all_axes), bind.reduce_sum(inner, **all_axes))


def _pad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, paddings: Pairs) -> Tensor:
    """Pads all but the batch axis; a batched padding value is selected in, for the primitive takes a scalar."""
    x = stretch(size, inputs[0], batched[0])
    if not batched[1]:
        return bind.pad(x, inputs[1], paddings=((0, 0), *paddings))
    inside = bind.broadcast_to(EagerTensor(np.array(True)), shape=x._type.shape)
    flags = bind.pad(inside, EagerTensor(np.array(False)), paddings=((0, 0), *paddings))
    zero = EagerTensor(np.zeros((), x.dtype.np))
    value = bind.reshape(inputs[1], shape=(size, *(1,) * (x.ndim - 1)))
    return bind.select(flags, bind.pad(x, zero, paddings=((0, 0), *paddings)), value)


def _pad_nodes(emitter: Any, inputs: Any, outputs: Any, types: Any, *, paddings: Pairs) -> None:
    if not paddings:
        emitter.node("Identity", inputs[:1], outputs)
        return
    pads = (*(low for low, _ in paddings), *(high for _, high in paddings))
    emitter.node("Pad", [inputs[0], emitter.shape(pads), inputs[1]], outputs)


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
    """Elements put around a tensor.

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
      ValueError: for another mode.
      InvalidArgumentError: (ValueError while tracing) for paddings that don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/pad
    """
    x, how = convert_to_tensor(tensor), mode.upper()
    if how not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        expected = '"CONSTANT", "REFLECT", or "SYMMETRIC"'
        raise ValueError(f"Value of argument `mode` expected to be one of {expected}. Received `mode` = {how}")
    pairs = _pairs(paddings, x)
    if how == "CONSTANT":
        if x.dtype is bool_dtype and type(constant_values) is int and constant_values == 0:
            constant_values = False  # the default 0 must serve every dtype, though bool takes no other number
        return bind.pad(x, convert_to_tensor(constant_values, x.dtype), paddings=pairs)
    for axis, (low, high) in enumerate(pairs):
        x = _mirrored(x, axis, low, high, int(how == "REFLECT"))
    return x


def _pairs(paddings: Any, x: Tensor) -> Pairs:
    """Returns paddings as pairs of dims, one for each axis."""
    rows = dims_value(integers(paddings, "paddings"), "paddings")
    if not isinstance(rows, (list, tuple)) or not all(isinstance(row, (list, tuple)) and len(row) == 2 for row in rows):
        raise ArgumentError(f"paddings must be a matrix with 2 columns: {brackets(np.shape(rows))}").for_op("Pad")
    pairs = tuple(tuple(static_dims(list(row), "paddings")) for row in rows)
    if len(pairs) != x.ndim:
        raise ArgumentError(
            f"The first dimension of paddings must be the rank of inputs[{len(pairs)},2] {brackets(x.shape)}"
        ).for_op("Pad")
    return pairs


def _mirrored(x: Tensor, axis: int, low: Dim, high: Dim, edge: int) -> Tensor:
    """Pads one axis by reversed slices of it, without its edge element where ``edge`` is 1."""
    extent = x._type.shape[axis]
    known = all(isinstance(d, int) for d in (extent, low, high))
    if known and (low > extent - edge or high > extent - edge):
        words = ("less than", "not less than") if edge else ("no greater than", "greater than")
        message = f"paddings must be {words[0]} the dimension size: {low}, {high} {words[1]} {extent}"
        raise ArgumentError(message).for_op("MirrorPad")
    parts = [x]
    if not (isinstance(low, int) and low == 0):
        parts.insert(0, part(x, axis, low - 1 + edge, low, -1))
    if not (isinstance(high, int) and high == 0):
        parts.append(part(x, axis, extent - 1 - edge, high, -1))
    return bind.concat(*parts, axis=axis) if len(parts) > 1 else x


def part(x: Tensor, axis: int, begin: Dim, size: Dim, step: int = 1) -> Tensor:
    """Takes ``size`` elements along one axis from ``begin``, and all of the others."""
    shape, rank = x._type.shape, x.ndim
    return bind.strided_slice(
        x,
        begin=tuple(begin if i == axis else 0 for i in range(rank)),
        size=tuple(size if i == axis else d for i, d in enumerate(shape)),
        strides=tuple(step if i == axis else 1 for i in range(rank)),
        checked=(),
    )


# -- tile and repeat


def _tile_type(x: TensorType, *, multiples: tuple[Dim, ...]) -> TensorType:
    """Checks one count of repeats per axis, none negative; each size is multiplied by its count."""
    if len(multiples) != len(x.shape):
        raise ArgumentError(
            f"Expected multiples argument to be a vector of length {len(x.shape)} but got length {len(multiples)}"
        )
    for i, m in enumerate(multiples):
        if isinstance(m, int) and m < 0:
            raise ArgumentError(f"Expected multiples[{i}] >= 0, but got {m}")
    return TensorType(tuple(simplify_dim(d * m) for d, m in zip(x.shape, multiples)), x.dtype)


def _tile_vjp(ct: Tensor, y: Tensor, x: Tensor, *, multiples: tuple[Dim, ...]) -> Tensor:
    """Sums the cotangent over the copies, with each axis reshaped to (copies, elements)."""
    dims = tuple(d for m, own in zip(multiples, x._type.shape) for d in (m, own))
    copies = bind.reshape(ct, shape=dims)
    return bind.reduce_sum(copies, axis=tuple(range(0, len(dims), 2)), keepdims=False)


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
      InvalidArgumentError: (ValueError while tracing) for another number of multiples or negative ones.

    Source: https://www.tensorflow.org/api_docs/python/tf/tile
    """
    return bind.tile(convert_to_tensor(input), multiples=static_dims(multiples, "multiples", is_vector=True))


@export("repeat")
def repeat(input: Any, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeats each element along ``axis``, or of the flattened tensor if it is None.

    Args:
      input: tensor.
      repeats: int, or ints known while tracing, one for each element along the axis.
      axis: int in [-rank, rank).

    >>> import tvtf as tf
    >>> tf.repeat([1, 2], [2, 3]).numpy()
    array([1, 1, 2, 2, 2], dtype=int32)

    Raises:
      ValueError: where the number of repeats is not that of elements.

    Source: https://www.tensorflow.org/api_docs/python/tf/repeat
    """
    x = convert_to_tensor(input)
    if axis is None:
        x, axis = bind.reshape(x, shape=(size_of(x._type.shape),)), 0
    axis = static_int(axis, "axis") % max(x.ndim, 1)
    if not x.ndim:
        x = bind.reshape(x, shape=(1,))
    if is_computed(repeats) and not repeats.dtype.is_integer:
        raise TypeError(f"Argument `tensor` (name: repeats) must be of type integer, but is {repeats!r}")
    if _are_computed(repeats):
        return _repeated_by_tensor(x, convert_to_tensor(repeats), axis)
    values = dims_value(repeats, "repeats")
    counts = list(values) if isinstance(values, (list, tuple)) else [values]
    if any(count is None for count in counts):
        convert_to_tensor(repeats)
    return _repeated(x, counts[0], axis) if len(counts) == 1 else _repeated_each(x, counts, axis)


def _repeated(x: Tensor, count: Dim, axis: int) -> Tensor:
    shape = x._type.shape
    lifted = bind.reshape(x, shape=(*shape[: axis + 1], 1, *shape[axis + 1 :]))
    wide = bind.broadcast_to(lifted, shape=(*shape[: axis + 1], count, *shape[axis + 1 :]))
    return bind.reshape(wide, shape=(*shape[:axis], simplify_dim(shape[axis] * count), *shape[axis + 1 :]))


def _repeated_each(x: Tensor, counts: list[int], axis: int) -> Tensor:
    """Repeats the elements of an axis by known counts: a gather at constant indices."""
    extent = x._type.shape[axis]
    if extent != len(counts):
        raise ValueError(f"Dimensions {extent} and {len(counts)} are not compatible")
    places = EagerTensor(np.repeat(np.arange(len(counts)), counts))
    return bind.gather(without_rows(x), places, axis=axis, batch_dims=0)


def _are_computed(repeats: Any) -> bool:
    """Returns whether the program computes several numbers of repeats."""
    if isinstance(repeats, (list, tuple)):
        return len(repeats) > 1 and any(map(is_computed, repeats))
    return is_computed(repeats) and repeats._type.shape not in ((), (1,))


def _repeated_by_tensor(x: Tensor, counts: Tensor, axis: int) -> Tensor:
    """Repeats rows by counts that the program computes: row i of the result is found among the counts' running sums."""
    if not agree_dim(x._type.shape[axis], counts._type.shape[0]):
        raise ValueError(f"Dimensions {x._type.shape[axis]} and {counts._type.shape[0]} are not compatible")
    ends = bind.cumsum(bind.cast(counts, dtype=int64), axis=0, exclusive=False, reverse=False)
    (size,) = static_dims(bind.reduce_max(ends, axis=(0,), keepdims=False), "repeats")
    places = bind.searchsorted(ends, bind.range(size=size, start=0, delta=1, dtype=int64), side="right", out_type=int64)
    return bind.gather(without_rows(x), places, axis=axis, batch_dims=0)


# -- reverse and roll


@export("reverse")
def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Reverses the elements along the axes.

    >>> import tvtf as tf
    >>> tf.reverse([1, 2, 3], [0]).numpy()
    array([3, 2, 1], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) for an axis out of range or given twice.

    Source: https://www.tensorflow.org/api_docs/python/tf/reverse
    """
    x = convert_to_tensor(tensor)
    if not x.ndim and state.trace is None:  # TensorFlow's kernel returns a scalar before it checks the axes
        return x
    axes = [static_int(a, "axis") for a in np.ravel(static_value(integers(axis, "axis"), "axis"))]
    for i, a in enumerate(axes):
        if not -x.ndim <= a < x.ndim:
            raise ArgumentError(f"'axis'[{i}] = {a} is out of valid range [0, {x.ndim - 1}]").for_op("ReverseV2")
        axes[i] = a % x.ndim
        if axes[i] in axes[:i]:
            raise ArgumentError(f"axis {axes[i]} specified more than once.").for_op("ReverseV2")
    shape = x._type.shape
    begin = tuple(d - 1 if i in axes else 0 for i, d in enumerate(shape))
    strides = tuple(-1 if i in axes else 1 for i in range(x.ndim))
    return bind.strided_slice(x, begin=begin, size=shape, strides=strides, checked=())


def _require_integers(x: Tensor, name: str) -> None:
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
      InvalidArgumentError: (ValueError while tracing) for an axis out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/roll
    """
    x = convert_to_tensor(input)
    for name, argument in ("shift", shift), ("axis", axis):
        if isinstance(argument, (Tensor, np.ndarray, np.generic, float)):
            _require_integers(convert_to_tensor(argument), name)
    places = static_value(axis, "axis")
    axes, shifts = [static_int(a, "axis") for a in np.ravel(places)], scalars_of(shift)
    if np.ndim(places) != (1 if isinstance(shift, (list, tuple)) else convert_to_tensor(shift).ndim) or len(
        axes
    ) != len(shifts):
        raise ArgumentError("shift and axis must have the same size")
    for a, s in zip(axes, shifts):
        if not -x.ndim <= a < x.ndim:
            raise ArgumentError(f"axis {a} is out of range").for_op("Roll")
        x = _rolled(x, s, a % x.ndim) if isinstance(s, int) else _rolled_by_tensor(x, s, a % x.ndim)
    return x


def _rolled_by_tensor(x: Tensor, shift: Tensor, axis: int) -> Tensor:
    extent = x._type.shape[axis]
    places = bind.range(size=extent, start=0, delta=1, dtype=int64)
    modulus = bind.maximum(bind.cast(scalar_of(extent), dtype=int64), number(1, places))
    moved = bind.floormod(bind.subtract(places, bind.cast(shift, dtype=int64)), modulus)
    return bind.gather(without_rows(x), moved, axis=axis, batch_dims=0)


def _rolled(x: Tensor, shift: int, axis: int) -> Tensor:
    """Rolls by a shift known while tracing: the last ``shift`` elements come first."""
    extent = x._type.shape[axis]
    if not isinstance(extent, int):  # the extent may be 0 at run time, and a remainder by 0 ends the process
        return _rolled_by_tensor(x, EagerTensor(np.array(shift)), axis)
    if extent == 0 or shift % extent == 0:
        return x
    moved = shift % extent
    last, first = part(x, axis, extent - moved, moved), part(x, axis, 0, extent - moved)
    return bind.concat(last, first, axis=axis)
