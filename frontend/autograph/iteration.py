"""The iterables of a converted ``for`` in a graph: ranges, tensors by leading axis, and these enumerated or zipped."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvtf.core.composite import is_ragged
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.tensor import MSG_ITERATE, EagerTensor, SymbolicTensor, Tensor, convert_to_tensor, read_if_variable
from tvtf.dtypes import as_dtype
from tvtf.errors import OperatorNotAllowedInGraphError
from tvtf.ops import create
from tvtf.ops.rules import bind
from tvtf.ops.stack import stack_read


class Range:
    """The bounds of a ``range`` or ``tf.range`` as scalar tensors, over which a loop of the graph counts.

    ``size`` is the number of elements if it is known while tracing, else None.
    """

    def __init__(self, start: Any, limit: Any, delta: Any, size: Any = None) -> None:
        self.start, self.limit, self.delta = start, limit, delta
        self.size = size

    @classmethod
    def of(cls, start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None) -> Range:
        """Returns the range of these bounds, converted to a common dtype. With one bound, the range starts at 0."""
        first, last = (0, start) if limit is None else (start, limit)
        common_dtype = as_dtype(dtype) if dtype is not None else create.range_dtype((first, last, delta))
        return cls(*(create.bound_as(x, common_dtype) for x in (first, last, delta)))

    def __iter__(self) -> Iterator[Tensor]:
        """Raises TensorFlow's error: a comprehension, which isn't converted, iterates in Python."""
        raise OperatorNotAllowedInGraphError(MSG_ITERATE)

    def ascending(self) -> bool | None:
        """Returns whether the range counts up, which is known only for a constant step. Returns None otherwise."""
        step = constant_value(self.delta)
        return None if step is None else bool(step >= 0)


class Leading(NamedTuple):
    """The slices of a tensor along its first axis, as the elements of a loop."""

    tensor: Tensor

    def size(self) -> Any:
        """Returns the number of slices, an int or symbolic dim, or None if the rank is unknown."""
        shape = self.tensor._type.shape
        return None if isinstance(shape, AnyShape) else shape[0]

    def length(self) -> Tensor:
        """Returns the number of slices as an int32 scalar tensor."""
        size = self.size()
        if isinstance(size, int):
            return convert_to_tensor(size)
        return stack_read.bind(bind.shape(self.tensor, dtype=as_dtype("int32")), convert_to_tensor(0))

    def at(self, index: Tensor) -> Tensor:
        return stack_read.bind(self.tensor, index)


class _OfLoops:
    """An iterable of the graph: only loops that AutoGraph converts can iterate over it."""

    def __iter__(self) -> Iterator[Any]:
        raise OperatorNotAllowedInGraphError(MSG_ITERATE)


@dataclass(frozen=True)
class Enumerated(_OfLoops):
    """``enumerate`` over a graph iterable."""

    iterable: Any
    start: Any

    def parts(self) -> list[Any]:
        """Returns the iterable in a list, as for ``Zipped``."""
        return [self.iterable]

    def element(self, index: Tensor, values: list[Any]) -> Any:
        """Returns the pair (``start + index``, element) of the element at ``index``, which is in ``values``."""
        return bind.add(index, convert_to_tensor(self.start, index.dtype)), values[0]


@dataclass(frozen=True)
class Zipped(_OfLoops):
    """``zip`` over graph iterables; Python sequences among them are stacked."""

    iterables: Sequence[Any]

    def parts(self) -> list[Any]:
        return list(self.iterables)

    def element(self, index: Tensor, values: list[Any]) -> Any:
        return tuple(values)


def is_iterated(value: Any) -> bool:
    """Returns whether a loop over ``value`` becomes a loop of the graph, which runs when the program runs."""
    return isinstance(value, (SymbolicTensor, Range, Enumerated, Zipped))


def has_steps(value: Any) -> bool:
    """Returns whether a traced loop iterates over ``value`` in the value's own way.

    Datasets and ragged tensors of a trace do: see ``Steps`` in loops.py.
    """
    return hasattr(value, "_traced_steps") or (is_ragged(value) and not value.is_eager())


def constant_value(x: Any) -> Any:
    """Returns the value of a scalar if it is known while tracing, else None."""
    if isinstance(x, SymbolicTensor):
        dims = x.known  # an array of dims, which may be symbolic
        return dims.item() if dims is not None and isinstance(dims.item(), int) else None
    return x.eager_array().item() if isinstance(x, EagerTensor) else x


_ranges: dict[int, tuple[weakref.ref[SymbolicTensor], Range]] = {}
"""The bounds of tensors that ``tf.range`` made, by the tensor's id."""


def known_range(start: Any, limit: Any, delta: Any, dtype: Any) -> Any:
    """Returns ``tf.range`` of these bounds, and records the bounds for a loop that iterates over the tensor.

    The loop then adds ``delta`` to a counter instead of reading the elements from memory.

    Args:
      start, limit, delta, dtype: the arguments of ``tf.range``. If ``limit`` is None, ``start`` is the limit.
    """
    tensor = create.arange(start, limit, delta, dtype)
    if _depends_on_data(start, limit, delta):
        _remember(tensor, Range.of(start, limit, delta, dtype))
        return tensor
    if not isinstance(tensor, SymbolicTensor):
        return tensor
    if limit is None:  # range(n) starts at 0
        start, limit = 0, start
    start_tensor = _bound(start, tensor)
    limit_tensor = _bound(limit, tensor)
    delta_tensor = _bound(delta, tensor)
    if start_tensor is not None and limit_tensor is not None and delta_tensor is not None:
        _remember(tensor, Range(start_tensor, limit_tensor, delta_tensor, tensor._type.shape[0]))
    return tensor


def _remember(tensor: SymbolicTensor, bounds: Range) -> None:
    """Records the bounds of a tensor that ``tf.range`` made, as long as the tensor exists."""
    key = id(tensor)
    _ranges[key] = weakref.ref(tensor, lambda _: _ranges.pop(key, None)), bounds


def _bound(x: Any, like: Tensor) -> Tensor | None:
    """Returns a bound of a range as a tensor of the dtype of ``like``, or None if it is neither a tensor nor a number."""
    if isinstance(x, Tensor):
        return bind.cast(x, dtype=like.dtype) if x.dtype is not like.dtype else x
    return convert_to_tensor(x, like.dtype) if isinstance(x, (int, float)) else None


def _depends_on_data(*bounds: Any) -> bool:
    """Returns whether a bound of a range is computed at run time, and not only from shapes."""
    values = [read_if_variable(bound) for bound in bounds]
    return any(isinstance(value, SymbolicTensor) and value.known is None for value in values)


def remembered_range(value: Any) -> Range | None:
    """Returns the recorded bounds of a tensor that ``tf.range`` made, None for other values."""
    if isinstance(value, Range):
        return value
    reference, bounds = _ranges.get(id(value), (None, None))
    # Another object may have the id of a tensor that no longer exists.
    return bounds if reference is not None and reference() is value else None
