"""``variable[key].assign(value)``: a slice of a Variable remembers its key and can be assigned to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import Dim, brackets, broadcast_shapes, same_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.getitem import AxisSlice, axis_slices, is_mask, takes_all
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


def slice_of_variable(variable: Variable, key: Any) -> Tensor:
    """Returns ``variable[key]``, with the methods that assign to the slice."""
    result = variable.value()[key]
    if not is_mask(key):
        result._slice_of = (variable, key)
    return result


class _Assigner:
    """A descriptor of the method ``assign``, ``assign_add`` or ``assign_sub``, which only slices of Variables have.

    ``combine`` names the op that combines the old slice and the value; None replaces it. Other tensors raise
    AttributeError.
    """

    def __init__(self, name: str, combine: str | None) -> None:
        self.name, self.combine = name, combine

    def __get__(self, tensor: Any, owner: Any) -> Any:
        """Returns the method that assigns to a slice of a Variable, as in ``variable[key].assign(value)``.

        ``tensor`` is the slice. Other tensors have no such method.
        """
        try:
            variable, key = tensor._slice_of
        except AttributeError:  # the tensor is not a slice of a Variable
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}") from None

        def assign(value: Any, name: str | None = None, read_value: bool = True) -> Any:
            with variable.lock:
                return variable.assign(self._new_value(variable, key, value), read_value=read_value)

        return assign

    def _new_value(self, variable: Variable, key: Any, value: Any) -> Tensor:
        """Returns the Variable's value with the slice at ``key`` replaced, or combined with ``value``."""
        current = variable._as_tensor()
        new = convert_to_tensor(value, variable.dtype)
        return with_slice(current, key, new if self.combine is None else getattr(bind, self.combine)(current[key], new))


def with_slice(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """Returns a copy of ``x`` in which ``value``, broadcast to the slice, replaces ``x[key]``.

    Raises:
      InvalidArgumentError: the value doesn't broadcast (ValueError while tracing).
    """
    try:
        axes, shape = axis_slices(x._type.shape, key)
        if broadcast_shapes(shape, value._type.shape) != shape:
            raise ArgumentError(
                f"Cannot broadcast input shape {brackets(value._type.shape)} into final shape {brackets(shape)}"
            )
    except ArgumentError as error:
        raise error.for_op("ResourceStridedSliceAssign") from None
    if not same_shape(value._type.shape, shape):
        value = bind.broadcast_to(value, shape=shape)
    return _replaced(x, axes, value)


def _replaced(x: Tensor, axes: Sequence[AxisSlice], value: Tensor) -> Tensor:
    """Returns a copy of ``x`` in which ``value`` replaces a slice, given by the slice of each axis.

    It is computed by a scatter. Its index vectors have the leading axes, up to the last axis that isn't replaced as a
    whole.
    """
    dims = x._type.shape
    partial_axes = [i for i, (axis_slice, dim) in enumerate(zip(axes, dims)) if not _is_whole(axis_slice, dim)]
    if not partial_axes:
        return bind.reshape(value, shape=dims)
    index_depth = partial_axes[-1] + 1
    indexed_axes = axes[:index_depth]
    index_shape = tuple(1 if axis_slice.dynamic is not None else axis_slice.size for axis_slice in indexed_axes)
    index_vectors = _index_vectors(indexed_axes, index_shape, dims)
    updates = bind.reshape(value, shape=(*index_shape, *dims[index_depth:]))
    return bind.tensor_scatter_update(x, index_vectors, updates)


def _is_whole(axis_slice: AxisSlice, dim: Dim) -> bool:
    """Returns whether a slice takes all elements of its axis in order."""
    return axis_slice.dynamic is None and takes_all((dim,), (axis_slice.begin,), (axis_slice.size,), (axis_slice.step,))


def _index_vectors(axes: Sequence[AxisSlice], shape: tuple[Dim, ...], dims: Sequence[Dim]) -> Tensor:
    """Returns the index vectors of the elements that slices of the leading axes select.

    The result has the shape ``(*shape, len(axes))``, where ``shape`` has the sizes of the slices. ``dims`` are the
    sizes of the axes.
    """
    axis_indices = [_axis_indices(axis, axis_slice, shape, dims[axis]) for axis, axis_slice in enumerate(axes)]
    are_known = all(isinstance(indices, np.ndarray) for indices in axis_indices)
    if are_known:
        arrays = [np.broadcast_to(indices, shape) for indices in axis_indices]
        return EagerTensor(np.stack(arrays, axis=-1))
    tensors = [bind.broadcast_to(convert_to_tensor(indices), shape=shape) for indices in axis_indices]
    return bind.stack(*tensors, axis=len(shape))


def _axis_indices(axis: int, axis_slice: AxisSlice, shape: tuple[Dim, ...], dim: Dim) -> Any:
    """Returns the indices that a slice selects along one axis, in a shape that broadcasts to ``shape``.

    Indices known while tracing are a NumPy array, other indices a tensor.

    Args:
      axis: the axis of the sliced tensor.
      axis_slice: the slice of the axis.
      shape: the shape of the slice.
      dim: the size of the axis.
    """
    aligned_shape = tuple(size if i == axis else 1 for i, size in enumerate(shape))
    if axis_slice.dynamic is not None:
        index = bind.cast(axis_slice.dynamic, dtype=int64)
        # A computed index may be negative and then counts from the end.
        zero = EagerTensor(np.array(0))
        extent = bind.reshape(_int64_range(1, dim, 1), shape=())
        nonnegative = bind.select(bind.less(index, zero), bind.add(index, extent), index)
        return bind.reshape(nonnegative, shape=aligned_shape)
    begin, size, step = axis_slice.begin, axis_slice.size, axis_slice.step
    if isinstance(begin, int) and isinstance(size, int):
        return (begin + step * np.arange(size)).reshape(aligned_shape)
    return bind.reshape(_int64_range(size, begin, step), shape=aligned_shape)


def _int64_range(size: Dim, start: Dim, delta: int) -> Tensor:
    """Returns the int64 numbers ``start``, ``start + delta`` and so on, ``size`` of them."""
    return bind.range(size=size, start=start, delta=delta, dtype=int64)


for _name, _combine in (("assign", None), ("assign_add", "add"), ("assign_sub", "subtract")):
    setattr(Tensor, _name, _Assigner(_name, _combine))
setattr(Variable, "__getitem__", slice_of_variable)  # noqa: B010 - declared for type checkers, set here
