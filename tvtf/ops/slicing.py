"""The primitives that slicing calls: static slices and windows at computed starts, with their gradients."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, is_static_shape, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.dtypes import COMPILED
from tvtf.ops.dims import at_least_zero, scalar_of
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import bind, draw, kernel, number, stretch

# -- the primitive: in every axis `size` elements from `begin` in steps of `strides`


def numpy_index(begin: Sequence[int], size: Sequence[int], strides: Sequence[int]) -> tuple[builtins.slice, ...]:
    """Returns the NumPy index of a slice that takes ``size`` elements of each axis from ``begin`` by ``strides``."""
    return tuple(map(_numpy_slice, begin, size, strides))


def _numpy_slice(begin: int, size: int, step: int) -> builtins.slice:
    """Returns the NumPy slice that takes ``size`` elements from ``begin`` in steps of ``step``."""
    if size == 0:
        return builtins.slice(0, 0)
    stop = begin + size * step
    return builtins.slice(begin, None if stop < 0 else stop, step)  # a negative stop would count from the end


def _strided_numpy(x: np.ndarray, *, begin: Any, size: Any, strides: Any, checked: Any) -> np.ndarray:
    """Computes ``strided_slice`` of an array, after a bounds check of the ``checked`` axes."""
    for axis in checked:
        if not 0 <= begin[axis] <= x.shape[axis] - size[axis]:
            raise ArgumentError(f"slice index {begin[axis]} of dimension {axis} out of bounds.")
    return x[numpy_index(begin, size, strides)].copy()


def _strided_guard(x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> list[tuple[Tensor, str]]:
    """Checks at run time that the slice lies within the ``checked`` axes."""
    return [_index_guard(x, axis, begin[axis], size[axis]) for axis in checked]


def _index_guard(x: Tensor, axis: int, begin: Dim, size: Dim) -> tuple[Tensor, str]:
    """Returns the run-time check that a slice lies within an axis: a pair of the condition and the error's message.

    ``begin`` may be negative: an index that counts from the end of the axis may lie before the start.
    """
    extent = scalar_of(x._type.shape[axis])
    first = scalar_of(begin)
    end = scalar_of(simplify_dim(begin + size))
    zero = EagerTensor(np.array(0))
    is_inside = bind.logical_and(bind.less_equal(end, extent), bind.greater_equal(first, zero))
    return is_inside, f"slice index of dimension {axis} out of bounds."


def _strided_vjp(
    cotangent: Tensor, y: Tensor, x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any
) -> Tensor:
    """Returns the cotangent of the sliced tensor: zeros with ``cotangent`` at the elements that were taken."""
    return bind.strided_slice_grad(cotangent, shape=x._type.shape, begin=begin, strides=strides)


def _strided_batch(
    size_: Dim, inputs: Any, batched: Any, *, begin: Any, size: Any, strides: Any, checked: Any
) -> Tensor:
    """Computes ``strided_slice`` for a leading batch axis (the batch rule for ``vectorized_map``).

    The batch axis is taken as a whole. The op's own axes move by one.

    Args:
      size_: the number of items.
      inputs: the primitive's input.
      batched: whether it has the batch axis.
      begin, size, strides: an item for each axis.
      checked: the axes that are checked at run time.
    """
    # ``size_`` and ``batched`` aren't needed here, but all batch rules receive them
    (x,) = inputs
    batch_size, *_ = x._type.shape
    checked_axes = tuple(axis + 1 for axis in checked)
    return bind.strided_slice(
        x, begin=(0, *begin), size=(batch_size, *size), strides=(1, *strides), checked=checked_axes
    )


_BEFORE_FIRST = int(np.iinfo(np.int64).min)
"""The end of a backward slice that reaches the first element: ONNX counts -1 from the end of the axis."""


def _strided_nodes(
    emitter: NodeEmitter,
    inputs: Names,
    outputs: Names,
    types: RuleTypes,
    *,
    begin: Any,
    size: Any,
    strides: Any,
    checked: Any,
) -> None:
    """Emits ONNX's Slice for ``strided_slice``.

    The op has the begin, size and stride of each axis. ONNX needs starts, ends, axes and steps.
    """
    # ``types`` and ``checked`` aren't needed here, but all ONNX rules receive them
    if not begin:  # a scalar has no axis to slice
        emitter.node("Identity", inputs, outputs)
        return
    bounds = [_onnx_bounds(*axis_slice) for axis_slice in zip(begin, size, strides)]
    starts, ends, steps = zip(*bounds)
    (x,) = inputs
    start_vector = emitter.shape(starts)
    end_vector = emitter.shape(ends)
    if any(step < 0 and not isinstance(end, int) for end, step in zip(ends, steps)):
        is_before_first = emitter.computed("Less", [end_vector, emitter.const(np.array(0))])
        end_vector = emitter.computed("Where", [is_before_first, emitter.const(np.array(_BEFORE_FIRST)), end_vector])
    axes = emitter.const(np.arange(len(begin)))
    step_vector = emitter.const(np.array(steps))
    emitter.node("Slice", [x, start_vector, end_vector, axes, step_vector], outputs)


def _onnx_bounds(begin: Dim, size: Dim, stride: int) -> tuple[Dim, Dim, int]:
    """Returns start, end and step of ONNX's Slice for ``size`` elements of an axis from ``begin``.

    A backward slice that reaches the first element gets the end `_BEFORE_FIRST`, unless only the running model knows it.
    """
    if isinstance(size, int) and size == 0:
        return 0, 0, 1
    end = simplify_dim(begin + size * stride)
    if isinstance(end, int) and end < 0:
        end = _BEFORE_FIRST
    return begin, end, stride


@primitive(
    name="strided_slice",
    type=lambda x, *, begin, size, strides, checked: TensorType(size, x.dtype),
    numpy=_strided_numpy,
    lower=kernel("array.strided_slice"),
    vjp=_strided_vjp,
    batch=_strided_batch,
    onnx=_strided_nodes,
    guard=_strided_guard,
    value=lambda x, *, begin, size, strides, checked: (
        x.known[numpy_index(begin, size, strides)] if x.known is not None and is_static_shape((*begin, *size)) else None
    ),
    samples=lambda: [
        Sample((draw(0, s),), {"begin": b, "size": n, "strides": d, "checked": ()}, COMPILED)
        for s, b, n, d in (
            ((4, 5), (1, 0), (2, 5), (1, 1)),
            ((4, 5), (0, 4), (2, 3), (2, -2)),
            ((3,), (2,), (3,), (-1,)),
            ((3,), (0,), (0,), (1,)),
            ((), (), (), ()),
        )
    ],
)
def canonical_slice(x: Tensor, begin: Any, size: Any, strides: Any, checked: Any) -> Any:
    """Takes ``size`` elements of every axis from ``begin`` in steps of ``strides``.

    The axes ``checked`` get a bounds check at run time.
    """
    return (x,), {"begin": begin, "size": size, "strides": strides, "checked": checked}


def _grad_numpy(cotangent: np.ndarray, *, shape: Any, begin: Any, strides: Any) -> np.ndarray:
    """Makes zeros of ``shape`` with the cotangent at the elements that the slice takes."""
    result = np.zeros(shape, cotangent.dtype)
    result[numpy_index(begin, cotangent.shape, strides)] = cotangent
    return result


def _grad_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, shape: Any, begin: Any, strides: Any) -> Tensor:
    """Returns the cotangent of the slice's cotangent: the slice itself."""
    return bind.strided_slice(cotangent, begin=begin, size=x._type.shape, strides=strides, checked=())


def _grad_batch(size: Dim, inputs: Any, batched: Any, *, shape: Any, begin: Any, strides: Any) -> Tensor:
    """Computes the gradient of a slice for a batch, whose axis comes first and is taken whole."""
    return bind.strided_slice_grad(inputs[0], shape=(size, *shape), begin=(0, *begin), strides=(1, *strides))


def _grad_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, shape: Any, begin: Any, strides: Any
) -> None:
    """Emits ONNX nodes for strided_slice's gradient, which places the cotangent into zeros of ``shape``.

    Along each axis, a step above 1 interleaves zeros, and a negative step reverses the axis. Then all axes are padded.

    Args:
      shape: the shape of the sliced tensor.
      begin, strides: an item for each axis.
    """
    (value,) = inputs
    (cotangent_type,), _ = types
    zero = emitter.const(np.zeros((), cotangent_type.dtype.np))
    sizes = list(cotangent_type.shape)
    for axis, stride in enumerate(strides):
        value = _interleave_zeros(emitter, value, zero, sizes, axis, abs(stride))
        if stride < 0:
            value = _reversed(emitter, value, axis)
    if not shape:
        emitter.node("Identity", [value], outputs)
        return
    low, high = [], []
    for dim, first, count, stride in zip(shape, begin, sizes, strides):
        lowest = first if stride > 0 else first - (count - 1)  # a backward slice begins at its last element
        low.append(lowest)
        high.append(dim - lowest - count)
    emitter.node("Pad", [value, emitter.shape((*low, *high)), zero], outputs)


def _interleave_zeros(emitter: NodeEmitter, value: str, zero: str, sizes: list[Dim], axis: int, stride: int) -> str:
    """Emits ONNX nodes that insert ``stride - 1`` zeros between the elements of an axis. Returns the result's name.

    A new axis is padded to ``stride`` elements and merged into the old one. The zeros after the last element are sliced
    off. ``sizes[axis]`` is updated.
    """
    if stride == 1:
        return value
    new_axis = axis + 1
    with_axis = emitter.computed("Unsqueeze", [value, emitter.const(np.array([new_axis]))])
    rank = len(sizes) + 1
    pads = [0] * (2 * rank)
    pads[rank + new_axis] = stride - 1  # ONNX lists the paddings before all axes first, then those after all axes
    padded = emitter.computed("Pad", [with_axis, emitter.const(np.array(pads)), zero])
    merged_size = sizes[axis] * stride
    merged = emitter.computed("Reshape", [padded, emitter.shape((*sizes[:axis], merged_size, *sizes[axis + 1 :]))])
    sizes[axis] = at_least_zero(merged_size - (stride - 1))
    start = emitter.const(np.array([0]))
    end = emitter.shape((sizes[axis],))
    return emitter.computed("Slice", [merged, start, end, emitter.const(np.array([axis]))])


def _reversed(emitter: NodeEmitter, value: str, axis: int) -> str:
    """Emits an ONNX Slice that reverses an axis, and returns its name."""
    # Start, end, axis and step; the smallest int64 as the end takes the first element, too.
    bounds = [emitter.const(np.array([bound])) for bound in (-1, np.iinfo(np.int64).min, axis, -1)]
    return emitter.computed("Slice", [value, *bounds])


@primitive(
    name="strided_slice_grad",
    type=lambda cotangent, *, shape, begin, strides: TensorType(shape, cotangent.dtype),
    numpy=_grad_numpy,
    lower=kernel("array.strided_slice_grad"),
    vjp=_grad_vjp,
    batch=_grad_batch,
    onnx=_grad_nodes,
    samples=lambda: [
        Sample((draw(0, n),), {"shape": s, "begin": b, "strides": d}, COMPILED)
        for n, s, b, d in (
            ((2, 5), (4, 5), (1, 0), (1, 1)),
            ((2, 3), (4, 5), (0, 4), (2, -2)),
            ((0,), (3,), (0,), (1,)),
        )
    ],
)
def canonical_slice_grad(cotangent: Tensor, shape: Any, begin: Any, strides: Any) -> Any:
    """Returns zeros of ``shape`` with ``cotangent`` at the elements that the slice takes."""
    return (cotangent,), {"shape": shape, "begin": begin, "strides": strides}


# -- an element or window whose start the program computes


def _dynamic_type(x: TensorType, *starts: TensorType, axes: Any, sizes: Any, wrap: bool) -> TensorType:
    """Checks that windows of known size fit the axes of ``x``. The result has the windows' sizes."""
    for axis, size in zip(axes, sizes):
        extent = x.shape[axis]
        # A loop over the elements of an empty tensor doesn't run, so what it reads is checked at run time only.
        if isinstance(extent, int) and isinstance(size, int) and size > extent > 0:
            raise ArgumentError(f"Expected size[{axis}] in [0, {extent}], but got {size}")
    return TensorType(_shape_with_sizes(x.shape, axes, sizes), x.dtype)


def _shape_with_sizes(shape: Sequence[Dim], axes: Sequence[int], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns a shape with the sizes of ``axes`` replaced."""
    window_sizes = dict(zip(axes, sizes))
    return tuple(window_sizes.get(i, dim) for i, dim in enumerate(shape))


def _window(shape: Sequence[int], starts: Sequence[np.ndarray], axes: Any, sizes: Any, wrap: bool) -> Any:
    """Checks that dynamic_slice's window lies within ``shape``, and returns the window's NumPy index.

    The window has ``sizes`` elements along ``axes``. With ``wrap``, a negative start counts from the end.
    """
    index = [builtins.slice(None)] * len(shape)
    for start, axis, size in zip(starts, axes, sizes):
        extent = shape[axis]
        position = int(start)
        if wrap and position < 0:
            position += extent
        if not 0 <= position <= extent - size:
            raise ArgumentError(f"slice index {int(start)} of dimension {axis} out of bounds.")
        index[axis] = builtins.slice(position, position + size)
    return tuple(index)


def _dynamic_guard(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> list[tuple[Tensor, str]]:
    """Checks at run time that the window lies within each of its axes."""
    extents = [x._type.shape[axis] for axis in axes]
    return [_window_guard(*spec, wrap) for spec in zip(extents, starts, axes, sizes)]


def _place_guard(cotangent: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool) -> list[tuple[Tensor, str]]:
    """Checks at run time that the window into which ``cotangent`` is written lies within each of its axes."""
    sizes = [cotangent._type.shape[axis] for axis in axes]
    return [_window_guard(*spec, wrap) for spec in zip(extents, starts, axes, sizes)]


def _window_guard(extent: Dim, start: Tensor, axis: int, size: Dim, wrap: bool) -> tuple[Tensor, str]:
    """Returns the run-time check that dynamic_slice's window lies within an axis.

    The check is a pair of the condition and the error's message. A start known while tracing is part of the message.

    Args:
      extent: the size of the axis.
      start: the first index of the window, a scalar.
      axis: the axis, for the error.
      size: the size of the window.
      wrap: whether a negative start counts from the end of the axis.
    """
    dims = (extent, extent - size, 0)
    extent_scalar, last_start, zero = (bind.cast(scalar_of(dim), dtype=start.dtype) for dim in dims)
    position = start
    if wrap:
        position = bind.select(bind.less(start, zero), bind.add(start, extent_scalar), start)
    is_inside = bind.logical_and(bind.less_equal(zero, position), bind.less_equal(position, last_start))
    known = getattr(start, "known", None)
    start_text = "" if known is None else f" {known}"
    return is_inside, f"slice index{start_text} of dimension {axis} out of bounds."


def _dynamic_numpy(x: np.ndarray, *starts: np.ndarray, axes: Any, sizes: Any, wrap: bool) -> np.ndarray:
    """Computes ``dynamic_slice``: copies a window of an array, after a bounds check."""
    return x[_window(x.shape, starts, axes, sizes, wrap)].copy()


def _dynamic_vjp(
    cotangent: Tensor, y: Tensor, x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool
) -> tuple[Any, ...]:
    """Returns the cotangent of ``x``, which is zero outside the window; the starts have none.

    Args:
      cotangent: the cotangent of the window ``y``.
      y: the window; not used.
      x: the sliced tensor.
      starts: the start of the window along each of ``axes``.
      axes: the sliced axes.
      sizes: the sizes of the window along them.
      wrap: whether a negative start counts from the end.
    """
    grad = bind.dynamic_slice_grad(
        cotangent, *starts, axes=axes, extents=tuple(x._type.shape[axis] for axis in axes), wrap=wrap
    )
    return grad, *(None for _ in starts)


def _dynamic_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axes: Any, sizes: Any, wrap: bool
) -> None:
    """Emits ONNX's Slice for ``dynamic_slice``, with bounds computed at run time.

    Args:
      axes: the sliced axes.
      sizes: the sizes of the window along them.
      wrap: whether a negative start counts from the end; not used.
    """
    x, *starts = inputs
    (x_type, *_), _ = types
    begin = _starts(emitter, starts, x_type.shape, axes)
    end = emitter.computed("Add", [begin, emitter.shape(sizes)])
    emitter.node("Slice", [x, begin, end, emitter.const(np.array(axes))], outputs)


def _starts(emitter: NodeEmitter, starts: Sequence[str], shape: Sequence[Dim], axes: Sequence[int]) -> str:
    """Emits ONNX nodes that combine scalar start indices to one int64 vector, and returns its name.

    Negative starts are counted from the end of their axis.
    """
    vectors = []  # of one element each
    for start in starts:
        int64_start = emitter.computed("Cast", [start], to=7)  # ONNX's number for int64
        vectors.append(emitter.computed("Unsqueeze", [int64_start, emitter.const(np.array([0]))]))
    begins = emitter.computed("Concat", vectors, axis=0)
    is_negative = emitter.computed("Less", [begins, emitter.const(np.array([0]))])
    extents = emitter.shape(tuple(shape[axis] for axis in axes))
    from_end = emitter.computed("Add", [begins, extents])
    return emitter.computed("Where", [is_negative, from_end, begins])


def _dynamic_batch(size: Dim, inputs: Any, batched: Any, *, axes: Any, sizes: Any, wrap: bool) -> Tensor:
    """Maps ``dynamic_slice`` over a leading batch axis of ``size`` items.

    If all items share the starts, one slice covers all items. Otherwise the windows are gathered, axis by axis.

    Args:
      size: the number of items.
      inputs: the sliced tensor, and a start for each sliced axis.
      batched: for each input, whether its first axis is that of the items.
      axes, sizes: the sliced axes, and the size of the window along each of them.
      wrap: whether negative starts count from the end of an axis.
    """
    x, *starts = inputs
    x_batched, *starts_batched = batched
    shifted_axes = tuple(axis + 1 for axis in axes)
    if not any(starts_batched):
        return bind.dynamic_slice(x, *starts, axes=shifted_axes, sizes=sizes, wrap=wrap)
    starts = [stretch(size, start, is_batched) for start, is_batched in zip(starts, starts_batched)]
    if not x_batched and tuple(axes) == (0,):
        # Windows of one tensor over its first axis are gathered from it, without a copy for each item.
        indices = _window_indices(starts[0], sizes[0], x._type.shape[0], wrap)
        return bind.gather(x, indices, axis=0, batch_dims=0)
    x = stretch(size, x, x_batched)
    for start, axis, window_size in zip(starts, shifted_axes, sizes):
        indices = _window_indices(start, window_size, x._type.shape[axis], wrap)
        x = bind.gather(x, indices, axis=axis, batch_dims=1)
    return x


def _window_indices(starts: Tensor, count: Dim, extent: Dim, wrap: bool) -> Tensor:
    """Returns the indices of windows of ``count`` elements, along a new last axis: start, start + 1, ...

    With ``wrap``, a negative start counts from the end of an axis of size ``extent``.
    """
    if wrap:
        from_end = bind.add(starts, bind.cast(scalar_of(extent), dtype=starts.dtype))
        starts = bind.select(bind.less(starts, number(0, starts)), from_end, starts)
    offsets = bind.range(size=count, start=0, delta=1, dtype=starts.dtype)
    column = bind.reshape(starts, shape=(*starts._type.shape, 1))
    return bind.add(column, offsets)


_INDEX_SAMPLES = (((4, 5), (1,), (1,), (-1,)), ((4, 5), (0, 1), (2, 3), (2, 1)), ((3,), (0,), (1,), (2,)))


@primitive(
    name="dynamic_slice",
    tf_name="StridedSlice",
    type=_dynamic_type,
    numpy=_dynamic_numpy,
    lower=kernel("indexing.dynamic_slice"),
    vjp=_dynamic_vjp,
    batch=_dynamic_batch,
    onnx=_dynamic_nodes,
    guard=_dynamic_guard,
    samples=lambda: [
        Sample(
            (draw(0, s), *(np.array(start, "int32") for start in at)), {"axes": a, "sizes": n, "wrap": True}, COMPILED
        )
        for s, a, n, at in _INDEX_SAMPLES
    ],
)
def window(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> Any:
    """Takes ``sizes`` elements of ``axes`` from starts that the program computes.

    With ``wrap``, negative starts count from the end.
    """
    return (x, *starts), {"axes": axes, "sizes": sizes, "wrap": wrap}


def _place_numpy(cotangent: np.ndarray, *starts: np.ndarray, axes: Any, extents: Any, wrap: bool) -> np.ndarray:
    """Makes zeros, of size ``extents`` along ``axes``, with ``cotangent`` in the window at ``starts``."""
    result = np.zeros(_shape_with_sizes(cotangent.shape, axes, extents), cotangent.dtype)
    result[_window(result.shape, starts, axes, [cotangent.shape[axis] for axis in axes], wrap)] = cotangent
    return result


def _place_vjp(
    cotangent: Tensor, y: Tensor, x: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool
) -> tuple[Any, ...]:
    """Returns the cotangent of ``cotangent``: the window itself; the starts have none."""
    sizes = tuple(x._type.shape[axis] for axis in axes)
    return bind.dynamic_slice(cotangent, *starts, axes=axes, sizes=sizes, wrap=wrap), *(None for _ in starts)


def _place_batch(size: Dim, inputs: Any, batched: Any, *, axes: Any, extents: Any, wrap: bool) -> Any:
    """Computes the gradient for a batch of items that share the starts; others are computed one by one."""
    if any(batched[1:]):
        return NotImplemented
    return bind.dynamic_slice_grad(*inputs, axes=tuple(axis + 1 for axis in axes), extents=extents, wrap=wrap)


def _place_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, axes: Any, extents: Any, wrap: bool
) -> None:
    """Emits ONNX's Pad for dynamic_slice's gradient, which places the cotangent of the slice into zeros.

    The padding before an axis is the start of the window, the padding after it is the remainder of the axis.

    Args:
      axes: the sliced axes.
      extents: the sizes of the sliced tensor along them.
      wrap: whether a negative start counts from the end.
    """
    # ``wrap`` isn't needed here, but all ONNX rules receive it
    cotangent, *starts = inputs
    (cotangent_type, *_), (result_type,) = types
    window_sizes = tuple(cotangent_type.shape[axis] for axis in axes)
    before = _starts(emitter, starts, result_type.shape, axes)
    total = emitter.computed("Sub", [emitter.shape(extents), emitter.shape(window_sizes)])
    after = emitter.computed("Sub", [total, before])
    paddings = emitter.computed("Concat", [before, after], axis=0)
    zero = emitter.const(np.zeros((), cotangent_type.dtype.np))
    emitter.node("Pad", [cotangent, paddings, zero, emitter.const(np.array(axes))], outputs)


@primitive(
    name="dynamic_slice_grad",
    tf_name="StridedSliceGrad",
    type=lambda cotangent, *starts, axes, extents, wrap: TensorType(
        _shape_with_sizes(cotangent.shape, axes, extents), cotangent.dtype
    ),
    numpy=_place_numpy,
    lower=kernel("indexing.dynamic_slice_grad"),
    vjp=_place_vjp,
    batch=_place_batch,
    onnx=_place_nodes,
    guard=_place_guard,
    samples=lambda: [
        Sample(
            (draw(0, _shape_with_sizes(s, a, n)), *(np.array(start, "int32") for start in at)),
            {"axes": a, "extents": tuple(s[i] for i in a), "wrap": True},
            COMPILED,
        )
        for s, a, n, at in _INDEX_SAMPLES
    ],
)
def window_grad(cotangent: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool) -> Any:
    """Returns zeros with the cotangent in the window at ``starts``; the result has sizes ``extents`` along ``axes``."""
    return (cotangent, *starts), {"axes": axes, "extents": extents, "wrap": wrap}
