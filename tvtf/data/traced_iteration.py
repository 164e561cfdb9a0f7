"""Datasets in traced functions: a loop asks the host whether there is another element, then for it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import Dataset, OwnedIterator
from tvtf.data.dataset_arguments import in_traces, number_of, object_of
from tvtf.data.structure import Element, arrays
from tvtf.data.traced_datasets import MadeDataset
from tvtf.dtypes import bool as bool_
from tvtf.dtypes import int64
from tvtf.errors import OutOfRangeError
from tvtf.frontend.autograph.repeats import Steps
from tvtf.frontend.function.signature import NeedsItself
from tvtf.frontend.host.python_call import traced
from tvtf.ops.host import on_failure


class _Ahead:
    """An iteration that can tell whether it has another element."""

    def __init__(self, source: Iterator[Element]) -> None:
        self.source = source
        self.waiting: list[Element] = []
        self.thread, self.depth = threading.get_ident(), state.depth

    def more(self) -> bool:
        if not self.waiting:
            self.waiting = list(itertools.islice(self.source, 1))
        return bool(self.waiting)

    def take(self) -> Element:
        if not self.more():
            raise _at_the_end()
        return self.waiting.pop()


def _at_the_end() -> OutOfRangeError:
    return OutOfRangeError(None, "IteratorGetNext", "End of sequence")


_running: dict[int, _Ahead] = {}
_numbers = itertools.count()


def _begun(source: Any) -> tuple[np.ndarray, ...]:
    number = next(_numbers)
    _running[number] = _Ahead(iter(source))
    return (np.array(number),)


def _ended(number: np.ndarray) -> tuple[()]:
    del _running[int(number)]
    return ()


def _abandoned(depth: int) -> None:
    """Ends this thread's iterations whose loops failed."""
    for number, ahead in list(_running.items()):
        if ahead.thread == threading.get_ident() and ahead.depth > depth:
            del _running[number]


on_failure.append(_abandoned)


class HeldDataset(Dataset):
    """A dataset in a trace that serves many: it can be iterated when the function runs, and has no elements before."""

    def __init__(self, number: Tensor, element_spec: Any) -> None:
        self.number = number
        self._element_spec = element_spec

    def held_as(self) -> tuple[Tensor, Any]:
        return self.number, self._held_type()

    def needs_itself(self) -> None:
        raise NeedsItself

    @property
    def size(self) -> int:  # type: ignore[override]
        raise NeedsItself

    def handles(self) -> Iterator[Any]:
        raise NeedsItself


class HeldIterator(OwnedIterator):
    """An iterator in a trace that serves many."""

    def __init__(self, number: Tensor, element_spec: Any) -> None:
        self.number = number
        self._element_spec = element_spec

    held_as = HeldDataset.held_as
    needs_itself = HeldDataset.needs_itself

    @property
    def element_spec(self) -> Any:  # type: ignore[override]
        return self._element_spec


def _found_by(source: Any) -> tuple[list[Tensor], Callable[..., Any]]:
    """Tensors, and how running code finds what is iterated by their values."""
    if isinstance(source, (HeldDataset, HeldIterator)):
        return [source.number], object_of
    if isinstance(source, MadeDataset):
        return source.tensors, source.build
    return [], lambda: source


def begun_at_each_run(dataset: Dataset) -> OwnedIterator:
    """The iterator that a traced ``iter(dataset)`` makes whenever it runs; a thread keeps its latest."""
    latest = threading.local()
    numbers, find = _found_by(dataset)

    def begin(*n: np.ndarray) -> tuple[np.ndarray, ...]:
        latest.iterator = OwnedIterator(find(*n))
        return (np.array(number_of(latest.iterator)),)

    (number,) = traced(begin, numbers, [TensorSpec([], int64)])
    return HeldIterator(number, dataset.element_spec)


class DatasetSteps(Steps):
    """The elements of one run of a traced loop."""

    may_lose_shapes = True

    def __init__(self, source: Any) -> None:
        self.spec = source.element_spec
        numbers, find = _found_by(source)
        (self.number,) = traced(lambda *n: _begun(find(*n)), numbers, [TensorSpec([], int64)])
        self.position: Any = self._more()

    def _more(self) -> Tensor:
        (found,) = traced(lambda n: (np.array(_running[int(n)].more()),), [self.number], [TensorSpec([], bool_)])
        return found

    def more(self) -> Any:
        return self.position

    def element(self) -> Element:
        flat = nest.flatten(self.spec, expand_composites=True)
        found = traced(lambda n: tuple(arrays(_running[int(n)].take())), [self.number], flat)
        return nest.pack_sequence_as(self.spec, list(found), expand_composites=True)

    def advance(self) -> None:
        self.position = self._more()

    def end(self) -> None:
        traced(_ended, [self.number], [])


def next_of(iterator: OwnedIterator) -> Element:
    """The next element, whenever the traced program comes by."""

    def take(found: OwnedIterator) -> list[np.ndarray]:
        element = next(found, None)
        if element is None:
            raise _at_the_end()
        return arrays(element)

    return _taken(iterator, take, iterator.element_spec)


def next_or(iterator: OwnedIterator, blanks: Sequence[np.ndarray]) -> tuple[Tensor, Element]:
    """Whether there is another element whenever the traced program comes by, and that element; at the end, ``blanks``."""

    def take(found: OwnedIterator) -> list[np.ndarray]:
        element = next(found, None)
        return [np.array(False), *blanks] if element is None else [np.array(True), *arrays(element)]

    return _taken(iterator, take, (TensorSpec([], bool_), iterator.element_spec))


def single_of(dataset: Dataset, single: Callable[[Any], Element]) -> Element:
    """The one element, of what the dataset is whenever the traced program comes by."""
    return _taken(dataset, lambda found: arrays(single(found)), dataset.element_spec)


def _taken(source: Any, take: Callable[[Any], list[np.ndarray]], spec: Any) -> Any:
    numbers, find = _found_by(source)
    found = traced(lambda *n: tuple(take(find(*n))), numbers, nest.flatten(spec, expand_composites=True))
    return nest.pack_sequence_as(spec, list(found), expand_composites=True)


in_traces.dataset, in_traces.iterator = HeldDataset, HeldIterator
in_traces.steps, in_traces.begin, in_traces.next = DatasetSteps, begun_at_each_run, next_of
