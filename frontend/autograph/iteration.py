"""What a converted ``for`` runs over on the device: ranges, tensors by leading axis, these enumerated or zipped."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvtf.core.composite import is_ragged
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.tensor import MSG_ITERATE, EagerTensor, SymbolicTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype
from tvtf.errors import OperatorNotAllowedInGraphError
from tvtf.ops import create
from tvtf.ops.rules import bind
from tvtf.ops.stack import stack_read


class Range:
    """The bounds of a ``range`` or ``tf.range``, for loops."""

    def __init__(self, start: Any, limit: Any, delta: Any, size: Any = None) -> None:
        self.start, self.limit, self.delta = start, limit, delta
        self.size = size

    @classmethod
    def of(cls, start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None) -> Range:
        first, last = (0, start) if limit is None else (start, limit)
        kind = as_dtype(dtype) if dtype is not None else create.range_dtype((first, last, delta))
        return cls(*(create.bound_as(x, kind) for x in (first, last, delta)))

    def ascending(self) -> bool | None:
        """The sign of the step, where it is known."""
        step = constant_value(self.delta)
        return None if step is None else bool(step >= 0)


class Leading(NamedTuple):
    """A tensor's slices along its first axis."""

    tensor: Tensor

    def size(self) -> Any:
        """None where the rank is unknown."""
        shape = self.tensor._type.shape
        return None if isinstance(shape, AnyShape) else shape[0]

    def length(self) -> Tensor:
        """The size as an int32 scalar of the trace."""
        size = self.size()
        if isinstance(size, int):
            return convert_to_tensor(size)
        return stack_read.bind(bind.shape(self.tensor, dtype=as_dtype("int32")), convert_to_tensor(0))

    def at(self, index: Tensor) -> Tensor:
        return stack_read.bind(self.tensor, index)


class _OfLoops:
    """What gives its elements to converted loops alone."""

    def __iter__(self) -> Iterator[Any]:
        raise OperatorNotAllowedInGraphError(MSG_ITERATE)


@dataclass(frozen=True)
class Enumerated(_OfLoops):
    """``enumerate`` over something iterated on the device."""

    iterable: Any
    start: Any

    def parts(self) -> list[Any]:
        return [self.iterable]

    def element(self, index: Tensor, values: list[Any]) -> Any:
        return bind.add(index, convert_to_tensor(self.start, index.dtype)), values[0]


@dataclass(frozen=True)
class Zipped(_OfLoops):
    """``zip`` over things iterated on the device; sequences of Python are stacked."""

    iterables: Sequence[Any]

    def parts(self) -> list[Any]:
        return list(self.iterables)

    def element(self, index: Tensor, values: list[Any]) -> Any:
        return tuple(values)


def is_iterated(value: Any) -> bool:
    """Whether a loop over ``value`` is one of the device's."""
    return isinstance(value, (SymbolicTensor, Range, Enumerated, Zipped))


def has_steps(value: Any) -> bool:
    """Whether ``value`` gives a traced loop its elements itself, as datasets and traced ragged tensors do."""
    return hasattr(value, "_traced_steps") or (is_ragged(value) and not value.is_eager())


def constant_value(x: Any) -> Any:
    """The number that a scalar holds, where that is known while tracing; else None."""
    if isinstance(x, SymbolicTensor):
        known = x.known
        return known.item() if known is not None and isinstance(known.item(), int) else None
    return x.eager_array().item() if isinstance(x, EagerTensor) else x


_ranges: dict[int, tuple[weakref.ref[SymbolicTensor], Range]] = {}


def known_range(start: Any, limit: Any, delta: Any, dtype: Any) -> Any:
    """``tf.range`` of these bounds: a tensor whose bounds are remembered."""
    made = create.arange(start, limit, delta, dtype)
    if _depends_on_data(start, limit, delta):
        _remember(made, Range.of(start, limit, delta, dtype))
        return made
    if isinstance(made, SymbolicTensor):
        first, last = (0, start) if limit is None else (start, limit)
        begin, end, step = (_bound(x, made) for x in (first, last, delta))
        if begin is not None and end is not None and step is not None:
            _remember(made, Range(begin, end, step, made._type.shape[0]))
    return made


def _remember(made: SymbolicTensor, bounds: Range) -> None:
    key = id(made)
    _ranges[key] = weakref.ref(made, lambda _: _ranges.pop(key, None)), bounds


def _bound(x: Any, like: Tensor) -> Tensor | None:
    if isinstance(x, Tensor):
        return bind.cast(x, dtype=like.dtype) if x.dtype is not like.dtype else x
    return convert_to_tensor(x, like.dtype) if isinstance(x, (int, float)) else None


def _depends_on_data(*bounds: Any) -> bool:
    values = [b._as_tensor() if hasattr(b, "_as_tensor") else b for b in bounds]
    return any(isinstance(v, SymbolicTensor) and v.known is None for v in values)


def remembered_range(value: Any) -> Range | None:
    """The bounds of a tensor that ``tf.range`` made."""
    if isinstance(value, Range):
        return value
    reference, bounds = _ranges.get(id(value), (None, None))
    return bounds if reference is not None and reference() is value else None
