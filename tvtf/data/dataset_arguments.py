"""Passes datasets and iterators to traced functions as numbers (object IDs), by which running code finds the objects."""

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
    """What datasets and iterators do in a trace; ``traced_iteration``, which imports them, sets these functions."""

    dataset: Callable[[Tensor, Any], Any]
    """Returns the symbolic dataset of a number."""
    iterator: Callable[[Tensor, Any], Any]
    """Returns the symbolic iterator of a number."""
    steps: Callable[[Any], Any]
    """Starts the iteration of a traced loop over a dataset or iterator."""
    begin: Callable[[Any], Any]
    """Returns a symbolic iterator of a dataset that restarts in each run."""
    next: Callable[[Any], Any]
    """Returns the next element of an iterator, computed in each run."""


in_traces = InTraces()


class NumberType:
    """What a trace depends on of a dataset or iterator argument: its kind and element spec. Equal ones are one object.

    So the key of a call is compared by identity: comparing the specs took 3 us of the 30 us of a training step's Python.
    """

    _in_use: ClassVar[WeakValueDictionary[Any, NumberType]] = WeakValueDictionary()

    def __init__(self, kind: str, element_spec: Any) -> None:
        self.kind, self.element_spec = kind, element_spec

    @classmethod
    def of(cls, kind: str, element_spec: Any) -> NumberType:
        """Returns the number type of all objects of a kind ("dataset" or "iterator") and element spec."""
        key = kind, structure_key(element_spec), tuple(nest.flatten(element_spec))
        with _lock:
            return cls._in_use.setdefault(key, cls(kind, element_spec))

    def __reduce__(self) -> tuple[Any, ...]:
        """Makes copies and unpickled number types the one object again."""
        return NumberType.of, (self.kind, self.element_spec)


class NumberedObject:
    """An object that is passed to a traced function as a number, so that one trace serves all objects of an element spec."""

    number_kind: ClassVar[str]
    element_spec: Any

    def as_argument(self) -> tuple[Tensor, Any]:
        """Returns the object's number, and what a trace depends on: its kind and element spec."""
        return EagerTensor(np.array(number_of(self), int64.np)), self._number_type()

    def _number_type(self) -> NumberType:
        """Returns the properties of this argument on which a trace depends. They are cached until the element spec changes."""
        spec = self.element_spec
        cached_spec, number_type = self.__dict__.get("_cached_number_type", (None, None))
        if number_type is None or cached_spec is not spec:
            number_type = NumberType.of(self.number_kind, spec)
            self.__dict__["_cached_number_type"] = (spec, number_type)
        return number_type  # type: ignore[no-any-return]

    def from_argument(self, number: Tensor) -> Any:
        """Returns the object of a number; during tracing, a symbolic object that stands for all of this type."""
        if isinstance(number, EagerTensor):
            return object_of(number.eager_array())
        return (in_traces.dataset if self.number_kind == "dataset" else in_traces.iterator)(number, self.element_spec)

    def argument_spec(self) -> Any:
        """Returns the type spec that signatures show."""
        return self

    @property
    def _type_spec(self) -> Any:
        return self.argument_spec()

    def require_value(self) -> None:
        """Raises UnknownDataset if the object is symbolic and stands for many."""


def number_of(value: Any) -> int:
    """Returns the number (ID) by which a traced function refers to an object, such as a dataset.

    A new object gets the next number. Only weak references are stored, so numbered objects can still be freed.
    """
    number = _numbers.get(value)
    if number is not None:
        return number
    with _lock:
        number = _numbers.get(value)  # another thread may have numbered it meanwhile
        if number is None:
            number = _numbers[value] = next(_count)
            _objects[number] = value
        return number


def object_of(number: np.ndarray) -> Any:
    """Returns the object of a number."""
    return _objects[int(number)]
