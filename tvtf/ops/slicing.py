"""The primitives behind slicing: static slices and windows at computed starts, with their gradients."""

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
from tvtf.ops.rules import bind, draw, kernel, number, stretch

# -- the primitive: in every axis `size` elements from `begin` in steps of `strides`


def numpy_index(begin: Sequence[int], size: Sequence[int], strides: Sequence[int]) -> tuple[builtins.slice, ...]:
    """Returns the NumPy index of a canonical slice."""
    return tuple(map(_numpy_slice, begin, size, strides))


def _numpy_slice(begin: int, size: int, step: int) -> builtins.slice:
    if size == 0:
        return builtins.slice(0, 0)
    stop = begin + size * step
    return builtins.slice(begin, None if stop < 0 else stop, step)


def _strided_numpy(x: np.ndarray, *, begin: Any, size: Any, strides: Any, checked: Any) -> np.ndarray:
    for axis in checked:
        if not 0 <= begin[axis] <= x.shape[axis] - size[axis]:
            raise ArgumentError(f"slice index {begin[axis]} of dimension {axis} out of bounds.")
    return x[numpy_index(begin, size, strides)].copy()


def _strided_guard(x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> list[tuple[Tensor, str]]:
    return [_index_guard(x, axis, begin[axis], size[axis]) for axis in checked]


def _index_guard(x: Tensor, axis: int, begin: Dim, size: Dim) -> tuple[Tensor, str]:
    """Checks at run time that the taken elements lie within the axis; a begin counted from the end may be negative."""
    extent, place, end = scalar_of(x._type.shape[axis]), scalar_of(begin), scalar_of(simplify_dim(begin + size))
    inside = bind.logical_and(bind.less_equal(end, extent), bind.greater_equal(place, EagerTensor(np.array(0))))
    return inside, f"slice index of dimension {axis} out of bounds."


def _strided_vjp(ct: Tensor, y: Tensor, x: Tensor, *, begin: Any, size: Any, strides: Any, checked: Any) -> Tensor:
    return bind.strided_slice_grad(ct, shape=x._type.shape, begin=begin, strides=strides)


def _strided_batch(
    size_: Dim, inputs: Any, batched: Any, *, begin: Any, size: Any, strides: Any, checked: Any
) -> Tensor:
    """Slices every batch item in the same way: the leading batch axis is not sliced."""
    return bind.strided_slice(
        inputs[0],
        begin=(0, *begin),
        size=(inputs[0]._type.shape[0], *size),
        strides=(1, *strides),
        checked=tuple(a + 1 for a in checked),
    )


def _strided_nodes(
    emitter: Any, inputs: Any, outputs: Any, types: Any, *, begin: Any, size: Any, strides: Any, checked: Any
) -> None:
    """Writes ONNX's Slice with explicit bounds for every axis."""
    if not begin:
        emitter.node("Identity", inputs, outputs)
        return
    bounds = [_onnx_bounds(*spec) for spec in zip(begin, size, strides)]
    first, last, steps = zip(*bounds)
    axes = emitter.const(np.arange(len(begin)))
    emitter.node(
        "Slice", [inputs[0], emitter.shape(first), emitter.shape(last), axes, emitter.const(np.array(steps))], outputs
    )


def _onnx_bounds(begin: Dim, size: Dim, step: int) -> tuple[Dim, Dim, int]:
    """Returns start, end and step of ONNX's Slice.

    For a backward slice that reaches the first element the end is the smallest int64: ONNX counts -1 from the end.
    """
    if isinstance(size, int) and size == 0:
        return 0, 0, 1
    end = simplify_dim(begin + size * step)
    return begin, int(np.iinfo(np.int64).min) if isinstance(end, int) and end < 0 else end, step


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

    ``checked`` axes need a bounds check.
    """
    return (x,), {"begin": begin, "size": size, "strides": strides, "checked": checked}


def _grad_numpy(ct: np.ndarray, *, shape: Any, begin: Any, strides: Any) -> np.ndarray:
    result = np.zeros(shape, ct.dtype)
    result[numpy_index(begin, ct.shape, strides)] = ct
    return result


def _grad_vjp(ct: Tensor, y: Tensor, x: Tensor, *, shape: Any, begin: Any, strides: Any) -> Tensor:
    return bind.strided_slice(ct, begin=begin, size=x._type.shape, strides=strides, checked=())


def _grad_batch(size: Dim, inputs: Any, batched: Any, *, shape: Any, begin: Any, strides: Any) -> Tensor:
    return bind.strided_slice_grad(inputs[0], shape=(size, *shape), begin=(0, *begin), strides=(1, *strides))


def _grad_nodes(emitter: Any, inputs: Any, outputs: Any, types: Any, *, shape: Any, begin: Any, strides: Any) -> None:
    """Writes ONNX nodes axis by axis: interleaves zeros for a step above 1, reverses for a negative one, then pads."""
    value = inputs[0]
    zero = emitter.const(np.zeros((), types[0][0].dtype.np))
    sizes = list(types[0][0].shape)
    for axis, step in enumerate(strides):
        value = _spread(emitter, value, zero, sizes, axis, abs(step))
        if step < 0:
            value = _reversed(emitter, value, axis)
    low = [b if s > 0 else b - (n - 1) for b, n, s in zip(begin, sizes, strides)]
    high = [d - b - n for d, b, n in zip(shape, low, sizes)]
    if not shape:
        emitter.node("Identity", [value], outputs)
        return
    emitter.node("Pad", [value, emitter.shape((*low, *high)), zero], outputs)


def _spread(emitter: Any, value: str, zero: str, sizes: list[Dim], axis: int, step: int) -> str:
    """Inserts ``step - 1`` zeros between the elements of an axis."""
    if step == 1:
        return value
    rank, count = len(sizes), sizes[axis]
    lifted, padded, flat, cut = (emitter.temp() for _ in range(4))
    emitter.node("Unsqueeze", [value, emitter.const(np.array([axis + 1]))], [lifted])
    pads = [0] * (2 * rank + 2)
    pads[rank + 1 + axis + 1] = step - 1
    emitter.node("Pad", [lifted, emitter.const(np.array(pads)), zero], [padded])
    emitter.node("Reshape", [padded, emitter.shape((*sizes[:axis], count * step, *sizes[axis + 1 :]))], [flat])
    sizes[axis] = at_least_zero(count * step - (step - 1))
    emitter.node(
        "Slice",
        [flat, emitter.const(np.array([0])), emitter.shape((sizes[axis],)), emitter.const(np.array([axis]))],
        [cut],
    )
    return cut


def _reversed(emitter: Any, value: str, axis: int) -> str:
    result = emitter.temp()
    bounds = [emitter.const(np.array([v])) for v in (-1, np.iinfo(np.int64).min, axis, -1)]
    emitter.node("Slice", [value, *bounds], [result])
    return result


@primitive(
    name="strided_slice_grad",
    type=lambda ct, *, shape, begin, strides: TensorType(shape, ct.dtype),
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
def canonical_slice_grad(ct: Tensor, shape: Any, begin: Any, strides: Any) -> Any:
    """Returns zeros of ``shape`` with ``ct`` at the elements that the slice takes."""
    return (ct,), {"shape": shape, "begin": begin, "strides": strides}


# -- an element or window whose start the program computes


def _dynamic_type(x: TensorType, *starts: TensorType, axes: Any, sizes: Any, wrap: bool) -> TensorType:
    for axis, size in zip(axes, sizes):
        extent = x.shape[axis]
        if isinstance(extent, int) and isinstance(size, int) and size > extent:
            raise ArgumentError(f"Expected size[{axis}] in [0, {extent}], but got {size}")
    return TensorType(_windowed(x.shape, axes, sizes), x.dtype)


def _windowed(shape: Sequence[Dim], axes: Sequence[int], sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    window_sizes = dict(zip(axes, sizes))
    return tuple(window_sizes.get(i, d) for i, d in enumerate(shape))


def _window(shape: Sequence[int], starts: Sequence[np.ndarray], axes: Any, sizes: Any, wrap: bool) -> Any:
    """Returns the NumPy index of a window, after checking that it lies inside."""
    place = [builtins.slice(None)] * len(shape)
    for start, axis, size in zip(starts, axes, sizes):
        at = int(start) + (shape[axis] if wrap and start < 0 else 0)
        if not 0 <= at <= shape[axis] - size:
            raise ArgumentError(f"slice index {int(start)} of dimension {axis} out of bounds.")
        place[axis] = builtins.slice(at, at + size)
    return tuple(place)


def _dynamic_guard(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> list[tuple[Tensor, str]]:
    return [_window_guard(x._type.shape[a], start, a, size, wrap) for start, a, size in zip(starts, axes, sizes)]


def _place_guard(ct: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool) -> list[tuple[Tensor, str]]:
    sizes = [ct._type.shape[a] for a in axes]
    return [_window_guard(*spec, wrap) for spec in zip(extents, starts, axes, sizes)]


def _window_guard(extent: Dim, start: Tensor, axis: int, size: Dim, wrap: bool) -> tuple[Tensor, str]:
    """Checks at run time that a window lies within its axis; the message shows the start if it is known."""
    extent_scalar, last, first = (bind.cast(scalar_of(d), dtype=start.dtype) for d in (extent, extent - size, 0))
    place = bind.select(bind.less(start, first), bind.add(start, extent_scalar), start) if wrap else start
    inside = bind.logical_and(bind.less_equal(first, place), bind.less_equal(place, last))
    known = getattr(start, "known", None)
    start_text = "" if known is None else f" {known}"
    return inside, f"slice index{start_text} of dimension {axis} out of bounds."


def _dynamic_numpy(x: np.ndarray, *starts: np.ndarray, axes: Any, sizes: Any, wrap: bool) -> np.ndarray:
    return x[_window(x.shape, starts, axes, sizes, wrap)].copy()


def _dynamic_vjp(
    ct: Tensor, y: Tensor, x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool
) -> tuple[Any, ...]:
    grad = bind.dynamic_slice_grad(ct, *starts, axes=axes, extents=tuple(x._type.shape[a] for a in axes), wrap=wrap)
    return grad, *(None for _ in starts)


def _dynamic_nodes(emitter: Any, inputs: Any, outputs: Any, types: Any, *, axes: Any, sizes: Any, wrap: bool) -> None:
    begin = _starts(emitter, inputs[1:], types[0][0].shape, axes)
    end = emitter.temp()
    emitter.node("Add", [begin, emitter.shape(sizes)], [end])
    emitter.node("Slice", [inputs[0], begin, end, emitter.const(np.array(axes))], outputs)


def _starts(emitter: Any, starts: Sequence[str], shape: Sequence[Dim], axes: Sequence[int]) -> str:
    """Writes the start indices as one int64 vector, negative ones counted from the end."""
    parts = []
    for start in starts:
        wide, vector = emitter.temp(), emitter.temp()
        emitter.node("Cast", [start], [wide], to=7)
        emitter.node("Unsqueeze", [wide, emitter.const(np.array([0]))], [vector])
        parts.append(vector)
    joined, negative, wrapped, result = (emitter.temp() for _ in range(4))
    emitter.node("Concat", parts, [joined], axis=0)
    emitter.node("Less", [joined, emitter.const(np.array([0]))], [negative])
    emitter.node("Add", [joined, emitter.shape(tuple(shape[a] for a in axes))], [wrapped])
    emitter.node("Where", [negative, wrapped, joined], [result])
    return result


def _dynamic_batch(size: Dim, inputs: Any, batched: Any, *, axes: Any, sizes: Any, wrap: bool) -> Tensor:
    """Slices the whole batch at once where its items share the starts.

    Otherwise it gathers each item's window, axis by axis.
    """
    x, *starts = inputs
    if not any(batched[1:]):
        return bind.dynamic_slice(x, *starts, axes=tuple(a + 1 for a in axes), sizes=sizes, wrap=wrap)
    shared = len(axes) == 1 and axes[0] == 0 and not batched[0]
    x = x if shared else stretch(size, x, batched[0])
    for start, is_batched, axis, count in zip(starts, batched[1:], axes, sizes):
        places = _places(stretch(size, start, is_batched), count, x._type.shape[axis if shared else axis + 1], wrap)
        x = bind.gather(x, places, axis=0 if shared else axis + 1, batch_dims=0 if shared else 1)
    return x


def _places(starts: Tensor, count: Dim, extent: Dim, wrap: bool) -> Tensor:
    """Returns the ``count`` indices that follow each start, along a new last axis."""
    if wrap:
        from_end = bind.add(starts, bind.cast(scalar_of(extent), dtype=starts.dtype))
        starts = bind.select(bind.less(starts, number(0, starts)), from_end, starts)
    column = bind.reshape(starts, shape=(*starts._type.shape, 1))
    return bind.add(column, bind.range(size=count, start=0, delta=1, dtype=starts.dtype))


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
        Sample((draw(0, s), *(np.array(b, "int32") for b in at)), {"axes": a, "sizes": n, "wrap": True}, COMPILED)
        for s, a, n, at in _INDEX_SAMPLES
    ],
)
def window(x: Tensor, *starts: Tensor, axes: Any, sizes: Any, wrap: bool) -> Any:
    """Takes ``sizes`` elements of ``axes`` from starts that the program computes.

    With ``wrap``, negative starts count from the end.
    """
    return (x, *starts), {"axes": axes, "sizes": sizes, "wrap": wrap}


def _place_numpy(ct: np.ndarray, *starts: np.ndarray, axes: Any, extents: Any, wrap: bool) -> np.ndarray:
    result = np.zeros(_windowed(ct.shape, axes, extents), ct.dtype)
    result[_window(result.shape, starts, axes, [ct.shape[a] for a in axes], wrap)] = ct
    return result


def _place_vjp(
    ct: Tensor, y: Tensor, x: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool
) -> tuple[Any, ...]:
    sizes = tuple(x._type.shape[a] for a in axes)
    return bind.dynamic_slice(ct, *starts, axes=axes, sizes=sizes, wrap=wrap), *(None for _ in starts)


def _place_batch(size: Dim, inputs: Any, batched: Any, *, axes: Any, extents: Any, wrap: bool) -> Any:
    if any(batched[1:]):
        return NotImplemented
    return bind.dynamic_slice_grad(*inputs, axes=tuple(a + 1 for a in axes), extents=extents, wrap=wrap)


def _place_nodes(emitter: Any, inputs: Any, outputs: Any, types: Any, *, axes: Any, extents: Any, wrap: bool) -> None:
    """Writes ONNX's Pad with computed paddings."""
    shape = types[1][0].shape
    begin = _starts(emitter, inputs[1:], shape, axes)
    rest, high, pads = emitter.temp(), emitter.temp(), emitter.temp()
    emitter.node("Sub", [emitter.shape(extents), emitter.shape(tuple(types[0][0].shape[a] for a in axes))], [rest])
    emitter.node("Sub", [rest, begin], [high])
    emitter.node("Concat", [begin, high], [pads], axis=0)
    zero = emitter.const(np.zeros((), types[0][0].dtype.np))
    emitter.node("Pad", [inputs[0], pads, zero, emitter.const(np.array(axes))], outputs)


@primitive(
    name="dynamic_slice_grad",
    tf_name="StridedSliceGrad",
    type=lambda ct, *starts, axes, extents, wrap: TensorType(_windowed(ct.shape, axes, extents), ct.dtype),
    numpy=_place_numpy,
    lower=kernel("indexing.dynamic_slice_grad"),
    vjp=_place_vjp,
    batch=_place_batch,
    onnx=_place_nodes,
    guard=_place_guard,
    samples=lambda: [
        Sample(
            (draw(0, _windowed(s, a, n)), *(np.array(b, "int32") for b in at)),
            {"axes": a, "extents": tuple(s[i] for i in a), "wrap": True},
            COMPILED,
        )
        for s, a, n, at in _INDEX_SAMPLES
    ],
)
def window_grad(ct: Tensor, *starts: Tensor, axes: Any, extents: Any, wrap: bool) -> Any:
    """Returns zeros with ``ct`` in the window, of size ``extents`` along ``axes``."""
    return (ct, *starts), {"axes": axes, "extents": extents, "wrap": wrap}
