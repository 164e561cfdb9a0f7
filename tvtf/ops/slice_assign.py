"""``variable[key].assign(value)``: a slice of a Variable knows where it was taken, and writes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.shape import Dim, brackets, broadcast_shapes, same_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.getitem import Taken, is_mask, taken_by, takes_all
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


def slice_of_variable(variable: Variable, key: Any) -> Tensor:
    """``variable[key]``, which can be assigned to."""
    part = variable._as_tensor()[key]
    if not is_mask(key):
        part._slice_of = (variable, key)
    return part


class _Assigner:
    """A method of the slices of Variables; other tensors have none."""

    def __init__(self, name: str, combine: str | None) -> None:
        self.name, self.combine = name, combine

    def __get__(self, tensor: Any, owner: Any) -> Any:
        try:
            variable, key = tensor._slice_of
        except AttributeError:
            raise AttributeError(f"{owner.__name__!r} object has no attribute {self.name!r}") from None

        def assign(value: Any, name: str | None = None, read_value: bool = True) -> Any:
            with variable.lock:
                return variable.assign(self._whole(variable, key, value), read_value=read_value)

        return assign

    def _whole(self, variable: Variable, key: Any, value: Any) -> Tensor:
        now, new = variable._as_tensor(), convert_to_tensor(value, variable.dtype)
        return with_slice(now, key, new if self.combine is None else getattr(bind, self.combine)(now[key], new))


def with_slice(x: Tensor, key: Any, value: Tensor) -> Tensor:
    """``x`` with ``x[key]`` replaced; the value is broadcast to the slice.

    Raises:
      InvalidArgumentError: it does not broadcast (ValueError while tracing).
    """
    try:
        axes, shape = taken_by(x._type.shape, key)
        if broadcast_shapes(shape, value._type.shape) != shape:
            raise ArgumentError(
                f"Cannot broadcast input shape {brackets(value._type.shape)} into final shape {brackets(shape)}"
            )
    except ArgumentError as refusal:
        raise refusal.told_by("ResourceStridedSliceAssign") from None
    if not same_shape(value._type.shape, shape):
        value = bind.broadcast_to(value, shape=shape)
    return _replaced(x, axes, value)


def _replaced(x: Tensor, axes: Sequence[Taken], value: Tensor) -> Tensor:
    dims = x._type.shape
    partial = [i for i, (taken, dim) in enumerate(zip(axes, dims)) if not _is_whole(taken, dim)]
    if not partial:
        return bind.reshape(value, shape=dims)
    depth = partial[-1] + 1
    lead = tuple(1 if a.dynamic is not None else a.size for a in axes[:depth])
    rows = bind.reshape(value, shape=(*lead, *dims[depth:]))
    return bind.tensor_scatter_update(x, _places(axes[:depth], lead, dims), rows)


def _is_whole(taken: Taken, dim: Dim) -> bool:
    return taken.dynamic is None and takes_all((dim,), (taken.begin,), (taken.size,), (taken.step,))


def _places(axes: Sequence[Taken], lead: tuple[Dim, ...], dims: Sequence[Dim]) -> Tensor:
    """The index vectors of what is taken of the leading axes, shape ``(*lead, len(axes))``."""
    columns = [_column(axis, taken, lead, dims[axis]) for axis, taken in enumerate(axes)]
    if all(isinstance(c, np.ndarray) for c in columns):
        return EagerTensor(np.stack([np.broadcast_to(c, lead) for c in columns], axis=-1))
    wide = [bind.broadcast_to(convert_to_tensor(c), shape=lead) for c in columns]
    return bind.stack(*wide, axis=len(lead))


def _column(axis: int, taken: Taken, lead: tuple[Dim, ...], dim: Dim) -> Any:
    """What is taken of one axis, in a shape that broadcasts to ``lead``."""
    shape = tuple(size if i == axis else 1 for i, size in enumerate(lead))
    if taken.dynamic is not None:
        at = bind.cast(taken.dynamic, dtype=int64)
        zero, extent = EagerTensor(np.array(0)), bind.reshape(_steps(1, dim, 1), shape=())
        return bind.reshape(bind.select(bind.less(at, zero), bind.add(at, extent), at), shape=shape)
    if isinstance(taken.begin, int) and isinstance(taken.size, int):
        return (taken.begin + taken.step * np.arange(taken.size)).reshape(shape)
    return bind.reshape(_steps(taken.size, taken.begin, taken.step), shape=shape)


def _steps(size: Dim, start: Dim, delta: int) -> Tensor:
    return bind.range(size=size, start=start, delta=delta, dtype=int64)


for _name, _combine in (("assign", None), ("assign_add", "add"), ("assign_sub", "subtract")):
    setattr(Tensor, _name, _Assigner(_name, _combine))
setattr(Variable, "__getitem__", slice_of_variable)  # noqa: B010 - declared for checkers, given here
