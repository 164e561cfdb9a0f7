"""Iterates over datasets in traced functions: a loop calls the host to test for another element, then for the element."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.specialization import UnknownDataset
from tvtf.core.tensor import Tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.data.base import Dataset, OwnedIterator
from tvtf.data.dataset_arguments import in_traces, number_of, object_of
from tvtf.data.structure import Element, array_getter, arrays
from tvtf.data.traced_datasets import DeferredDataset
from tvtf.dtypes import bool as bool_
from tvtf.dtypes import int64
from tvtf.errors import OutOfRangeError
from tvtf.frontend.autograph.loops import Steps
from tvtf.frontend.host.python_call import traced
from tvtf.ops.host import on_failure
from tvtf.state.random_streams import drawn_in_loop


class _PeekingIteration:
    """An iteration that reads one element ahead, to know whether there is another one."""

    def __init__(self, source: Iterator[Element]) -> None:
        self.source = source
        self.peeked: list[Element] = []
        self.thread = threading.get_ident()
        self.depth = state.depth

    def more(self) -> bool:
        if not self.peeked:
            self.peeked = list(itertools.islice(self.source, 1))
        return bool(self.peeked)

    def take(self) -> Element:
        if not self.more():
            raise _at_the_end()
        return self.peeked.pop()


def _at_the_end() -> OutOfRangeError:
    return OutOfRangeError(None, "IteratorGetNext", "End of sequence")


_running: dict[int, _PeekingIteration] = {}
_numbers = itertools.count()


def _begin(source: Any) -> tuple[np.ndarray, ...]:
    """Starts an iteration in a run of a traced loop, and returns its number."""
    number = next(_numbers)
    _running[number] = _PeekingIteration(iter(source))
    return (np.array(number),)


def _end(number: np.ndarray) -> tuple[()]:
    """Forgets the iteration of a loop that has ended."""
    del _running[int(number)]
    return ()


def _forget_failed(depth: int) -> None:
    """Forgets this thread's iterations above ``depth``, whose loops ended with an error."""
    for number, iteration in list(_running.items()):
        if iteration.thread == threading.get_ident() and iteration.depth > depth:
            del _running[number]


on_failure.append(_forget_failed)


class SymbolicDataset(Dataset):
    """A dataset parameter of a trace, which serves many datasets: only running code can iterate it."""

    def __init__(self, number: Tensor, element_spec: Any) -> None:
        self.number = number
        self._element_spec = element_spec

    def as_argument(self) -> tuple[Tensor, Any]:
        return self.number, self._number_type()

    def require_value(self) -> None:
        raise UnknownDataset

    @property
    def size(self) -> int:  # type: ignore[override]
        raise UnknownDataset

    def handles(self) -> Iterator[Any]:
        raise UnknownDataset


class SymbolicIterator(OwnedIterator):
    """An iterator parameter of a trace, which serves many iterators."""

    def __init__(self, number: Tensor, element_spec: Any) -> None:
        self.number = number
        self._element_spec = element_spec

    as_argument = SymbolicDataset.as_argument
    require_value = SymbolicDataset.require_value

    @property
    def element_spec(self) -> Any:  # type: ignore[override]
        return self._element_spec


def _lookup(source: Any) -> tuple[list[Tensor], Callable[..., Any]]:
    """Returns how a traced program finds a dataset or iterator in each run: tensors, and a function of their values.

    The tensors are a parameter of the trace (the object's number), or those from which the dataset is built. An object
    that is known while tracing needs no tensors.
    """
    if isinstance(source, (SymbolicDataset, SymbolicIterator)):
        return [source.number], object_of
    if isinstance(source, DeferredDataset):
        return source.tensors, source.build
    return [], lambda: source


def _assigns_variables(source: Any) -> bool:
    """Returns whether taking an element of a dataset or iterator is known to assign Variables.

    Nothing is known of a parameter of the trace: an assignment then raises an error if the program uses the Variable.
    """
    if isinstance(source, (SymbolicDataset, SymbolicIterator)):
        return False
    dataset = source if isinstance(source, Dataset) else getattr(source, "_dataset", None)
    return dataset is not None and dataset.assigns_variables()


def begin_in_each_run(dataset: Dataset) -> OwnedIterator:
    """Returns the symbolic iterator of a traced ``iter(dataset)``; each run of the program begins a new iteration.

    The program refers to the iterator by number. Each thread keeps a reference to its latest iterator, so that the
    iterator isn't freed.
    """
    latest = threading.local()
    numbers, find = _lookup(dataset)

    def begin(*values: np.ndarray) -> tuple[np.ndarray, ...]:
        latest.iterator = OwnedIterator(find(*values))
        return (np.array(number_of(latest.iterator)),)

    (number,) = traced(begin, numbers, [TensorSpec([], int64)], is_barrier=_assigns_variables(dataset))
    return SymbolicIterator(number, dataset.element_spec)


class DatasetSteps(Steps):
    """The iteration of a traced loop over a dataset or iterator."""

    may_lose_shapes = True

    def __init__(self, source: Any) -> None:
        """Emits the start of an iteration over a dataset or iterator in the active trace."""
        self.spec = source.element_spec
        self.assigns = _assigns_variables(source)
        self._drawn = drawn_in_loop() if isinstance(source, Dataset) else None
        numbers, find = _lookup(source)

        def begin(*values: Any) -> tuple[np.ndarray, ...]:
            """Starts an iteration when the program runs, and returns its number."""
            return _begin(find(*values))

        (self.number,) = traced(begin, numbers, [TensorSpec([], int64)], is_barrier=self.assigns)
        self.position: Any = self._more()

    def _more(self) -> Tensor:
        def run(number: np.ndarray) -> tuple[np.ndarray, ...]:
            return (np.array(_running[int(number)].more()),)

        (result,) = traced(run, [self.number], [TensorSpec([], bool_)], is_barrier=self.assigns)
        return result

    def more(self) -> Any:
        return self.position

    def element(self) -> Element:
        flat = nest.flatten(self.spec, expand_composites=True)
        result = traced(lambda n: tuple(arrays(_running[int(n)].take())), [self.number], flat, is_barrier=self.assigns)
        return nest.pack_sequence_as(self.spec, list(result), expand_composites=True)

    def advance(self) -> None:
        self.position = self._more()

    def end(self) -> None:
        """Ends the iteration, and makes the random streams of the loop start again in the next run of the loop.

        TensorFlow converts a loop over a dataset to ``Dataset.reduce``, whose functions start again in each call.
        """
        traced(_end, [self.number], [])
        for stream in self._drawn() if self._drawn is not None else ():
            stream.restart_in_run()


def next_of(iterator: OwnedIterator) -> Element:
    """Returns the tensors of an iterator's next element; each run of the traced program takes one element.

    At the end of the iteration, the run raises an error.
    """
    arrays_of = array_getter(iterator.element_spec)

    def take(running: OwnedIterator) -> list[np.ndarray]:
        element = next(running, None)
        if element is None:
            raise _at_the_end()
        return arrays_of(element)

    return _call_in_each_run(iterator, take, iterator.element_spec)


def next_or(iterator: OwnedIterator, blanks: Sequence[np.ndarray]) -> tuple[Tensor, Element]:
    """Returns a bool tensor and an element: whether the iterator has a next element, and that element.

    After the last element, the bool is False and ``blanks`` replace the element.
    """
    arrays_of = array_getter(iterator.element_spec)

    def take(running: OwnedIterator) -> list[np.ndarray]:
        element = next(running, None)
        return [np.array(False), *blanks] if element is None else [np.array(True), *arrays_of(element)]

    return _call_in_each_run(iterator, take, (TensorSpec([], bool_), iterator.element_spec))


def single_of(dataset: Dataset, single: Callable[[Any], Element]) -> Element:
    """Returns the only element of a dataset that a run builds."""
    return _call_in_each_run(dataset, lambda running: arrays(single(running)), dataset.element_spec)


def _call_in_each_run(source: Any, take: Callable[[Any], list[np.ndarray]], spec: Any) -> Any:
    """Calls a function of a dataset or iterator in each run, and returns its arrays as tensors of ``spec``."""
    numbers, find = _lookup(source)
    flat = nest.flatten(spec, expand_composites=True)
    is_barrier = _assigns_variables(source)
    leaves = traced(lambda *values: tuple(take(find(*values))), numbers, flat, is_barrier=is_barrier)
    return nest.pack_sequence_as(spec, list(leaves), expand_composites=True)


in_traces.dataset, in_traces.iterator = SymbolicDataset, SymbolicIterator
in_traces.steps, in_traces.begin, in_traces.next = DatasetSteps, begin_in_each_run, next_of
