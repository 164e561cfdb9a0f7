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
    part = variable._as_tensor()[key]
    if not is_mask(key):
        part._slice_of = (variable, key)
    return part


class _Assigner:
    """A descriptor of ``assign`` and its like, which only slices of Variables have.

    Other tensors raise AttributeError.
    """

    def __init__(self, name: str, combine: str | None) -> None:
        self.name, self.combine = name, combine

    def __get__(self, tensor: Any, owner: Any) -> Any:
        """Returns the method ``assign`` of a slice of a Variable."""
        try:
            variable, key = tensor._slice_of
        except AttributeError:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}") from None

        def assign(value: Any, name: str | None = None, read_value: bool = True) -> Any:
            with variable.lock:
                return variable.assign(self._new_value(variable, key, value), read_value=read_value)

        return assign

    def _new_value(self, variable: Variable, key: Any, value: Any) -> Tensor:
        current, new = variable._as_tensor(), convert_to_tensor(value, variable.dtype)
        return with_slice(current, key, new if self.combine is None else getattr(bind, self.combine)(current[key], new))


def with_slice(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """Returns ``x`` with ``x[key]`` replaced; the value is broadcast to the slice.

    Raises:
      InvalidArgumentError: it does not broadcast (ValueError while tracing).
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
    """Writes the slice by a scatter over its leading axes, up to the last that is not taken whole."""
    dims = x._type.shape
    partial = [i for i, (axis_slice, dim) in enumerate(zip(axes, dims)) if not _is_whole(axis_slice, dim)]
    if not partial:
        return bind.reshape(value, shape=dims)
    depth = partial[-1] + 1
    lead = tuple(1 if a.dynamic is not None else a.size for a in axes[:depth])
    rows = bind.reshape(value, shape=(*lead, *dims[depth:]))
    return bind.tensor_scatter_update(x, _places(axes[:depth], lead, dims), rows)


def _is_whole(axis_slice: AxisSlice, dim: Dim) -> bool:
    return axis_slice.dynamic is None and takes_all((dim,), (axis_slice.begin,), (axis_slice.size,), (axis_slice.step,))


def _places(axes: Sequence[AxisSlice], lead: tuple[Dim, ...], dims: Sequence[Dim]) -> Tensor:
    """Returns the index vectors of the taken slices in the leading axes, shape ``(*lead, len(axes))``."""
    columns = [_column(axis, axis_slice, lead, dims[axis]) for axis, axis_slice in enumerate(axes)]
    if all(isinstance(c, np.ndarray) for c in columns):
        return EagerTensor(np.stack([np.broadcast_to(c, lead) for c in columns], axis=-1))
    broadcast_columns = [bind.broadcast_to(convert_to_tensor(c), shape=lead) for c in columns]
    return bind.stack(*broadcast_columns, axis=len(lead))


def _column(axis: int, axis_slice: AxisSlice, lead: tuple[Dim, ...], dim: Dim) -> Any:
    """Returns the taken indices of one axis, in a shape that broadcasts to ``lead``."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(lead))
    if axis_slice.dynamic is not None:
        at = bind.cast(axis_slice.dynamic, dtype=int64)
        zero, extent = EagerTensor(np.array(0)), bind.reshape(_steps(1, dim, 1), shape=())
        return bind.reshape(bind.select(bind.less(at, zero), bind.add(at, extent), at), shape=shape)
    if isinstance(axis_slice.begin, int) and isinstance(axis_slice.size, int):
        return (axis_slice.begin + axis_slice.step * np.arange(axis_slice.size)).reshape(shape)
    return bind.reshape(_steps(axis_slice.size, axis_slice.begin, axis_slice.step), shape=shape)


def _steps(size: Dim, start: Dim, delta: int) -> Tensor:
    return bind.range(size=size, start=start, delta=delta, dtype=int64)


for _name, _combine in (("assign", None), ("assign_add", "add"), ("assign_sub", "subtract")):
    setattr(Tensor, _name, _Assigner(_name, _combine))
setattr(Variable, "__getitem__", slice_of_variable)  # noqa: B010 - declared for type checkers, set here
