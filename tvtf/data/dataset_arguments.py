"""Datasets and iterators as arguments of traced functions: numbers that tell running code which of them a call was given."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import int64
from tvtf.frontend.function.signature import structure_key

_lock = Lock()
_count = itertools.count()
_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_objects: WeakValueDictionary[int, Any] = WeakValueDictionary()


class InTraces:
    """What datasets and iterators are in a trace; ``traced_iteration``, which builds on them, fills it in."""

    dataset: Callable[[Tensor, Any], Any]
    """The dataset that a number stands for."""
    iterator: Callable[[Tensor, Any], Any]
    """The iterator that a number stands for."""
    steps: Callable[[Any], Any]
    """The iteration of a loop over a dataset or iterator."""
    begin: Callable[[Any], Any]
    """A new iterator of a dataset, at each run."""
    next: Callable[[Any], Any]
    """The next element of an iterator, at each run."""


in_traces = InTraces()


class Held:
    """What a traced function takes as a number: one trace serves all datasets, or all iterators, of an element spec."""

    held_kind: ClassVar[str]
    element_spec: Any

    def held_as(self) -> tuple[Tensor, Any]:
        """The number, and what a trace must know of the object."""
        return EagerTensor(np.array(number_of(self), int64.np)), self._held_type()

    def _held_type(self) -> Any:
        spec = self.element_spec
        known = self.__dict__.get("_type_held")
        if known is None or known[0] is not spec:
            known = self.__dict__["_type_held"] = spec, (self.held_kind, structure_key(spec), tuple(nest.flatten(spec)))
        return known[1]

    def held_by(self, number: Tensor) -> Any:
        """The object of a number; while tracing, what stands for all objects of this one's type."""
        if isinstance(number, EagerTensor):
            return object_of(number.eager_array())
        return (in_traces.dataset if self.held_kind == "dataset" else in_traces.iterator)(number, self.element_spec)

    def held_spec(self) -> Any:
        """How signatures show it."""
        return self

    @property
    def _type_spec(self) -> Any:
        return self.held_spec()

    def needs_itself(self) -> None:
        """Raises NeedsItself where the object is one of many."""


def number_of(held: Any) -> int:
    number = _numbers.get(held)
    if number is not None:
        return number
    with _lock:
        number = _numbers.get(held)
        if number is None:
            number = _numbers[held] = next(_count)
            _objects[number] = held
        return number


def object_of(number: np.ndarray) -> Any:
    return _objects[int(number)]
