"""What ``tensor[...]`` means, and the functions that slice: strided_slice, slice."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import defer_unknown_rank, export
from tvtf.core.shape import Dim, agree_dim, brackets, same_shape
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, read_if_variable
from tvtf.core.thread_state import state
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import int64
from tvtf.ops.dims import at_least_zero, ceil_div, dim_max, dim_min, from_end, proves, scalar_of
from tvtf.ops.indexing import boolean_mask, without_rows
from tvtf.ops.operands import attributes, integers
from tvtf.ops.rules import bind, is_computed, static_dims, static_value, with_constant_sizes

MSG_INDEX = (
    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
    "indices, got {!r}"
)


class AxisSlice(NamedTuple):
    """What a slice takes of one axis, before new axes are inserted and indexed ones removed."""

    begin: Dim
    size: Dim
    step: int
    dynamic: Tensor | None = None
    checked: bool = False


@defer_unknown_rank
def getitem(x: Tensor, key: Any) -> Tensor:
    """Computes ``x[key]``.

    The key is a boolean mask, or consists of ints, slices, ``...``, None and scalar integer tensors.
    """
    if is_mask(key):
        return boolean_mask(x, key)
    try:
        tensor, axes, shape = _resolved(x, key)
        return _apply(tensor, axes, shape)
    except ArgumentError as error:
        raise error.for_op("StridedSlice") from None


def _resolved(x: Tensor, key: Any) -> tuple[Tensor, list[AxisSlice], tuple[Dim, ...]]:
    """Resolves ``x[key]``: returns the tensor to slice, the slice of each of its axes, and the shape of the result.

    A slice with bounds computed at run time is taken here, by a gather, so the returned slice of that axis is ``:``.
    """
    keys = key if isinstance(key, (list, tuple)) else [key]
    entries = _without_ellipsis([_entry(k) for k in keys], x.ndim)
    axis = 0
    for position, entry in enumerate(entries):
        if entry is None:  # a new axis of the result: it is no axis of x
            continue
        if isinstance(entry, builtins.slice) and axis < x.ndim:
            bounds = entry.start, entry.stop, entry.step
            if any(map(is_computed, bounds)):
                x = _gather_slice(x, entry, axis)
                entries[position] = builtins.slice(None)
        axis += 1
    slices, shape = axis_slices(x._type.shape, tuple(entries))
    return x, slices, shape


def _gather_slice(x: Tensor, bounds: builtins.slice, axis: int) -> Tensor:
    """Computes the slice ``bounds`` of ``x`` along ``axis`` by a gather, for bounds or a step computed at run time.

    Bounds are clamped as in Python. How depends on the sign of the step, which is known only at run time.
    """
    zero, one = convert_to_tensor(0, int64), convert_to_tensor(1, int64)
    extent = bind.cast(scalar_of(x._type.shape[axis]), dtype=int64)
    step = one if bounds.step is None else _as_int64(bounds.step)
    is_forward = bind.greater(step, zero)
    # Bounds are between 0 and extent, or between -1 and extent - 1 for a negative step.
    low = bind.select(is_forward, zero, bind.negative(one))
    high = bind.select(is_forward, extent, bind.subtract(extent, one))

    def clamp(bound: Any) -> Tensor:
        return bind.minimum(bind.maximum(_from_start(bound, extent), low), high)  # type: ignore[no-any-return]

    start = bind.select(is_forward, low, high) if bounds.start is None else clamp(bounds.start)
    stop = bind.select(is_forward, high, low) if bounds.stop is None else clamp(bounds.stop)
    # (stop - start) / step, rounded up
    size = bind.negative(bind.floordiv(bind.subtract(start, stop), step))
    (count,) = static_dims(bind.maximum(size, zero), "slice")
    numbers = bind.range(size=count, start=0, delta=1, dtype=int64)
    indices = bind.add(start, bind.multiply(numbers, step))
    return bind.gather(without_rows(x), indices, axis=axis, batch_dims=0)


def _as_int64(number: Any) -> Tensor:
    return bind.cast(number, dtype=int64) if isinstance(number, Tensor) else bind.cast(scalar_of(number), dtype=int64)


def _from_start(bound: Any, extent: Tensor) -> Tensor:
    """Returns a slice's bound counted from the start; a negative one counts from the end."""
    index = _as_int64(bound)
    return bind.select(bind.less(index, convert_to_tensor(0, int64)), bind.add(index, extent), index)


def is_mask(key: Any) -> bool:
    """Returns whether a key of ``x[key]`` is a tensor or array of booleans."""
    dtype = getattr(key, "dtype", None)
    return dtype is not None and (dtype == "bool" if not isinstance(key, np.ndarray) else dtype == np.bool_)


def _entry(key: Any) -> Any:
    """Checks an entry of the key in ``x[key]``, and returns it: None, Ellipsis, a slice or a number.

    Numbers are converted to ints, dims or scalar tensors.
    """
    if key is None or key is Ellipsis:
        return key
    if isinstance(key, builtins.slice):
        bounds = [None if bound is None else _number(bound) for bound in (key.start, key.stop, key.step)]
        return builtins.slice(*bounds)
    if isinstance(key, (bool, np.bool_)):  # a single bool is no index
        raise ValueError("mask cannot be scalar.")
    return _number(key)


def _number(value: Any) -> Any:
    """Converts an index in ``x[index]`` to an int or symbolic dim, or to a scalar tensor.

    A tensor remains one only if it is computed at run time. Raises TypeError for anything but an integer.
    """
    index = read_if_variable(value)
    if isinstance(index, Tensor):
        if not index.dtype.is_integer or index.ndim:
            raise TypeError(MSG_INDEX.format(value))
        return _scalar_value(index)
    if is_dim(index):
        return index
    is_scalar = getattr(index, "ndim", 0) == 0
    if isinstance(index, (str, float)) or not hasattr(index, "__index__") or not is_scalar:
        raise TypeError(MSG_INDEX.format(value))
    return index.__index__()


def _scalar_value(value: Tensor) -> Any:
    if isinstance(value, EagerTensor):
        return int(value)
    known = with_constant_sizes(value).known if isinstance(value, SymbolicTensor) else None
    return value if known is None else known.item()


def axis_slices(dims: Sequence[Dim], key: Any) -> tuple[list[AxisSlice], tuple[Dim, ...]]:
    """Resolves the key of ``x[key]`` for an ``x`` of the shape ``dims``.

    Returns the slice of each axis of ``x``, and the shape of the result.
    """
    keys = key if isinstance(key, (list, tuple)) else [key]
    entries = _without_ellipsis([_entry(k) for k in keys], len(dims))
    slices: list[AxisSlice] = []
    shape: list[Dim] = []
    for entry in entries:
        if entry is None:  # a new axis of size 1
            shape.append(1)
            continue
        axis = len(slices)
        if not dims:
            raise ArgumentError("Attempting to slice scalar input.")
        if axis >= len(dims):
            raise ArgumentError(f"Index out of range using input dim {axis}; input has only {len(dims)} dims")
        if isinstance(entry, builtins.slice):
            axis_slice = _sliced_axis(entry, dims[axis], axis)
            shape.append(axis_slice.size)
        else:  # an index removes its axis from the result
            axis_slice = _indexed_axis(entry, dims[axis], axis)
        slices.append(axis_slice)
    return slices, tuple(shape)


def _without_ellipsis(entries: list[Any], rank: int) -> list[Any]:
    """Replaces the ellipsis of a key by full slices, so that the key indexes ``rank`` axes.

    A key without ellipsis is completed by full slices at its end.
    """
    ellipsis_positions = [i for i, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipsis_positions) > 1:
        raise ArgumentError("Multiple ellipses in slice spec not allowed")
    # None inserts a new axis, and indexes no axis
    indexed_axis_count = sum(entry is not None and entry is not Ellipsis for entry in entries)
    full_slices = [builtins.slice(None)] * (rank - indexed_axis_count)
    position = ellipsis_positions[0] if ellipsis_positions else len(entries)
    return [*entries[:position], *full_slices, *entries[position + 1 :]]


def _indexed_axis(index: Any, extent: Dim, axis: int) -> AxisSlice:
    """Returns the :class:`AxisSlice` of one element of an axis.

    An index that can't be proved to be in range while tracing is checked at run time.
    """
    if isinstance(index, Tensor):  # a dynamic slice selects the element at run time
        return AxisSlice(0, extent, 1, dynamic=index)
    begin = from_end(index, extent)
    if isinstance(begin, int) and isinstance(extent, int) and not 0 <= begin < extent:
        raise ArgumentError(f"slice index {begin} of dimension {axis} out of bounds.")
    return AxisSlice(begin, 1, 1, checked=not _lies_within(begin, extent))


def _lies_within(begin: Dim, extent: Dim) -> bool:
    return proves(begin >= 0, begin) and proves(begin < extent, begin, extent)


def _sliced_axis(part: builtins.slice, extent: Dim, axis: int) -> AxisSlice:
    """Returns the :class:`AxisSlice` of a Python slice of an axis.

    Its step must be known while tracing, because the sign of the step decides how bounds are clamped.

    Args:
      part: the slice.
      extent: the size of the axis.
      axis: the index of the axis, for error messages.
    """
    step = 1 if part.step is None else part.step
    if not isinstance(step, int):
        error = TypeError(f"slice of dimension {axis}: the step must be a number known while tracing, but is {step}")
        raise unknown_size(error)
    if step == 0:
        raise ArgumentError(f"strides[{axis}] must be non-zero")
    return _forward(part, extent, step) if step > 0 else _backward(part, extent, step)


def _forward(part: builtins.slice, extent: Dim, step: int) -> AxisSlice:
    start = 0 if part.start is None else _clamped(part.start, extent, 0, extent)
    stop = extent if part.stop is None else _clamped(part.stop, extent, 0, extent)
    return AxisSlice(start, at_least_zero(ceil_div(stop - start, step)), step)


def _backward(part: builtins.slice, extent: Dim, step: int) -> AxisSlice:
    start = extent - 1 if part.start is None else _clamped(part.start, extent, -1, extent - 1)
    stop = -1 if part.stop is None else _clamped(part.stop, extent, -1, extent - 1)
    return AxisSlice(start, at_least_zero(ceil_div(start - stop, -step)), step)


def _clamped(index: Any, extent: Dim, low: int, high: Dim) -> Dim:
    """Clamps a slice's bound to [low, high], leaving out the comparison that an int's sign decides."""
    position = from_end(index, extent)
    if isinstance(index, int) and index >= 0:
        return dim_min(position, high)
    return dim_max(position if isinstance(index, int) else dim_min(position, high), low)


def _apply(x: Tensor, axes: list[AxisSlice], shape: tuple[Dim, ...]) -> Tensor:
    """Emits the ops of ``x[key]``: a dynamic slice for computed indices, a strided slice, and a reshape.

    ``axes`` has the slice of each axis of ``x``. The reshape to ``shape`` inserts new axes and removes indexed axes.
    """
    dynamic = [axis.dynamic for axis in axes if axis.dynamic is not None]
    if dynamic:  # first, together with fixed indices, so that only the selected elements are copied
        index_dtype = dynamic[0].dtype.np
        starts: dict[int, Tensor] = {}
        for i, axis in enumerate(axes):
            if axis.dynamic is not None:
                starts[i] = axis.dynamic
            elif _is_index(axis):
                starts[i] = EagerTensor(np.array(axis.begin, index_dtype))
        x = bind.dynamic_slice(x, *starts.values(), axes=tuple(starts), sizes=(1,) * len(starts), wrap=True)
        axes = [AxisSlice(0, 1, 1) if i in starts else axis for i, axis in enumerate(axes)]
    begin = tuple(axis.begin for axis in axes)
    size = tuple(axis.size for axis in axes)
    strides = tuple(axis.step for axis in axes)
    checked = tuple(i for i, axis in enumerate(axes) if axis.checked)
    if not takes_all(x._type.shape, begin, size, strides):
        x = bind.strided_slice(x, begin=begin, size=size, strides=strides, checked=checked)
    has_shape = len(shape) == x.ndim and not dynamic and same_shape(shape, x._type.shape)
    return x if has_shape else bind.reshape(x, shape=shape)


def _is_index(axis: AxisSlice) -> bool:
    """Returns whether a slice takes a single, statically known element of an axis."""
    return axis.dynamic is None and isinstance(axis.begin, int) and axis.size == 1


def takes_all(shape: Sequence[Dim], begin: Sequence[Dim], size: Sequence[Dim], strides: Sequence[int]) -> bool:
    from_start = all(isinstance(start, int) and start == 0 and stride == 1 for start, stride in zip(begin, strides))
    return from_start and same_shape(shape, size)


def _getitem_eagerly(x: EagerTensor, key: Any) -> Tensor:
    """Computes ``x[key]`` by NumPy if nothing is traced or recorded and NumPy gives the key the same meaning.

    Otherwise ``Tensor.__getitem__`` computes it and raises the errors. ``tf.experimental.numpy`` may replace that
    method.
    """
    entries = key if type(key) is tuple else (key,)
    is_plain = state.trace is None and not state.tapes
    if not is_plain or not all(map(_is_basic, entries)) or x._array.dtype == object:
        return Tensor.__getitem__(x, key)
    try:
        part = x._array[key]
    except IndexError:
        return Tensor.__getitem__(x, key)
    # A copy, because tensors own their memory; a single element is a NumPy scalar.
    return EagerTensor(part.copy() if type(part) is np.ndarray else np.asarray(part))


def _is_basic(entry: Any) -> bool:
    """Returns whether an entry of a slice spec is an int, a slice of ints, ``...`` or None."""
    kind = type(entry)
    if kind is builtins.slice:
        start = type(entry.start)
        stop = type(entry.stop)
        step = type(entry.step)
        return start in _BOUNDS and stop in _BOUNDS and step in _BOUNDS and entry.step != 0
    return kind is int or entry is None or entry is Ellipsis


_BOUNDS = (int, type(None))
setattr(Tensor, "__getitem__", getitem)  # noqa: B010 - declared for type checkers, set here
setattr(EagerTensor, "__getitem__", _getitem_eagerly)  # noqa: B010 - as for Tensor


@export("strided_slice")
@attributes(begin_mask=int, end_mask=int, ellipsis_mask=int, new_axis_mask=int, shrink_axis_mask=int)
def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Computes ``input_[begin:end:strides, ...]``; bit i of each mask changes entry i.

    Args:
      input_: tensor.
      begin, end, strides: ints, one for each entry, or integer tensors.
      begin_mask, end_mask: the bound is left out.
      ellipsis_mask: the entry is ``...``.
      new_axis_mask: the entry is ``None``.
      shrink_axis_mask: the entry is the single index ``begin``.

    >>> import tvtf as tf
    >>> tf.strided_slice([1, 2, 3, 4], [0], [4], [2]).numpy()
    array([1, 3], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) a stride is zero, or an index is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/strided_slice
    """
    _require_vectors(begin, end, begin if strides is None else strides)
    first, last = scalars_of(begin), scalars_of(end)
    steps = [1] * len(first) if strides is None else scalars_of(strides)

    def entry(i: int) -> Any:
        """Returns entry ``i`` of the key in ``input_[key]``: ``...``, None, an index or a slice.

        Bit ``i`` of the masks selects which. A bit of ``begin_mask`` or ``end_mask`` means an open end of the slice.
        """
        if ellipsis_mask >> i & 1:
            return Ellipsis
        if new_axis_mask >> i & 1:
            return None
        if shrink_axis_mask >> i & 1:
            return first[i]
        low = None if begin_mask >> i & 1 else first[i]
        high = None if end_mask >> i & 1 else last[i]
        return builtins.slice(low, high, steps[i])

    try:
        x = convert_to_tensor(input_)
        return _apply(*_resolved(x, [entry(i) for i in range(len(first))]))
    except ArgumentError as error:
        raise error.for_op("StridedSlice") from None


def _require_vectors(begin: Any, end: Any, strides: Any) -> None:
    """Raises TensorFlow's error unless the arguments of strided_slice are vectors of one length.

    Args:
      begin, end, strides: the arguments.
    """
    shapes = [_shape_of_numbers(argument) for argument in (begin, end, strides)]
    are_vectors = all(len(shape) == 1 for shape in shapes)
    if not are_vectors or not all(agree_dim(shape[0], shapes[0][0]) for shape in shapes):
        begin_text, end_text, strides_text = map(brackets, shapes)
        raise ArgumentError(
            f"Expected begin, end, and strides to be 1D equal size tensors, but got shapes {begin_text}, {end_text}, "
            f"and {strides_text} instead."
        ).for_op("StridedSlice")


def _shape_of_numbers(values: Any) -> Sequence[Dim]:
    """Returns the shape of an argument that is a list of numbers or a tensor."""
    if isinstance(values, (list, tuple)) and not any(isinstance(each, (list, tuple)) for each in values):
        return (len(values),)
    return convert_to_tensor(values)._type.shape


@export("slice")
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Slices a tensor: takes ``size`` elements of every axis, starting at ``begin``; a size of -1 takes all that follow.

    Args:
      input_: tensor of rank r.
      begin: r ints, or integer tensors that the program computes.
      size: r ints, or integer tensors.

    >>> import tvtf as tf
    >>> tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [2, -1]).numpy()
    array([[2, 3],
           [5, 6]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the window does not lie inside the tensor.

    Source: https://www.tensorflow.org/api_docs/python/tf/slice
    """
    x = convert_to_tensor(input_)
    shapes = [_shape_of_numbers(integers(begin, "begin")), _shape_of_numbers(integers(size, "size"))]
    if not all(len(shape) == 1 and agree_dim(shape[0], x.ndim) for shape in shapes):
        begin_shape, size_shape = (brackets(shape) for shape in shapes)
        raise ArgumentError(
            f"Expected begin and size arguments to be 1-D tensors of size {x.ndim}, but got shapes {begin_shape} and "
            f"{size_shape} instead."
        ).for_op("Slice")
    return _windowed_slice(x, scalars_of(begin), scalars_of(size))


def scalars_of(values: Any) -> list[Any]:
    """Returns the elements of a list or vector of integers as a list.

    An element that is known while tracing becomes an int, another one a scalar tensor.
    """
    if isinstance(values, (list, tuple)):
        return [_number(value) for value in values]
    vector = convert_to_tensor(values)
    if not vector.ndim:  # a scalar counts as a vector of one element
        return [_number(vector)]
    if not is_computed(vector):
        return list(static_value(vector, "begin"))
    (count,) = vector._type.shape
    if not isinstance(count, int):
        raise unknown_size(TypeError(f"how many numbers there are must be known while tracing, but got {vector!r}"))
    return [getitem(vector, i) for i in range(count)]


def _windowed_slice(x: Tensor, starts: list[Any], sizes: Sequence[Dim]) -> Tensor:
    """Computes ``tf.slice``. Each start is known while tracing or computed at run time.

    A strided slice crops the axes with known starts. A dynamic slice then crops the other axes.

    Args:
      x: the tensor.
      starts: the first index along each axis: an int, a symbolic dim, or a scalar tensor.
      sizes: the size of the result along each axis; -1 for all remaining elements.
    """
    dims = x._type.shape
    strides = (1,) * len(dims)
    window_sizes = tuple(_slice_size(i, dims[i], starts[i], size) for i, size in enumerate(sizes))
    dynamic_axes = tuple(i for i, start in enumerate(starts) if isinstance(start, Tensor))
    # The strided slice leaves the axes of the dynamic slice as they are.
    begin = tuple(0 if i in dynamic_axes else start for i, start in enumerate(starts))
    static_sizes = tuple(dims[i] if i in dynamic_axes else size for i, size in enumerate(window_sizes))
    if not takes_all(dims, begin, static_sizes, strides):
        static_axes = [i for i in range(len(dims)) if i not in dynamic_axes]
        # The axes that the trace can't prove to be in range.
        checked = tuple(i for i in static_axes if not _fits(begin[i], static_sizes[i], dims[i]))
        x = bind.strided_slice(x, begin=begin, size=static_sizes, strides=strides, checked=checked)
    if not dynamic_axes:
        return x
    dynamic_starts = [starts[i] for i in dynamic_axes]
    dynamic_sizes = tuple(window_sizes[i] for i in dynamic_axes)
    return bind.dynamic_slice(x, *dynamic_starts, axes=dynamic_axes, sizes=dynamic_sizes, wrap=False)


def _fits(begin: Dim, size: Dim, extent: Dim) -> bool:
    return proves(begin >= 0, begin) and proves(begin + size <= extent, begin, size, extent)


def _slice_size(axis: int, extent: Dim, begin: Any, size: Dim) -> Dim:
    """Checks known bounds of ``tf.slice``, and returns the number of elements that it selects along an axis.

    A ``size`` of -1 stands for all elements starting at ``begin``. A size computed at run time becomes a symbolic dim.
    """
    takes_rest = isinstance(size, int) and size == -1
    if isinstance(size, Tensor) or (isinstance(begin, Tensor) and takes_rest):
        remaining = bind.subtract(_as_int64(extent), _as_int64(begin))
        requested = _as_int64(size)
        size_tensor = bind.select(bind.equal(requested, convert_to_tensor(-1, int64)), remaining, requested)
        return static_dims(size_tensor, f"size[{axis}]")[0]
    if takes_rest:
        size = extent - begin
    if not (isinstance(extent, int) and isinstance(begin, int)):
        return size  # checked at run time
    if not 0 <= begin <= extent:
        raise ArgumentError(f"Expected begin[{axis}] in [0, {extent}], but got {begin}").for_op("Slice")
    if isinstance(size, int) and not 0 <= size <= extent - begin:
        raise ArgumentError(f"Expected size[{axis}] in [0, {extent - begin}], but got {size}").for_op("Slice")
    return size
