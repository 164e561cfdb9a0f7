"""Datasets in traced functions: a loop asks the host whether there is another element, then for it."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.context import state
from tvtf.data.base import OwnedIterator
from tvtf.data.structure import Element, arrays
from tvtf.dtypes import bool as bool_
from tvtf.dtypes import int64
from tvtf.errors import OutOfRangeError
from tvtf.frontend.autograph.repeats import Steps
from tvtf.frontend.host import traced
from tvtf.ops.host import on_failure
from tvtf.spec import TensorSpec
from tvtf.tensor import Tensor


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
            raise OutOfRangeError(None, "IteratorGetNext", "End of sequence [Op:IteratorGetNext] name: ")
        return self.waiting.pop()


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


class DatasetSteps(Steps):
    """The elements of one run of a traced loop."""

    may_lose_shapes = True

    def __init__(self, source: Any) -> None:
        self.spec = source.element_spec
        (self.number,) = traced(lambda: _begun(source), [], [TensorSpec([], int64)])
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
    spec = iterator.element_spec
    found = traced(lambda: tuple(arrays(iterator.get_next())), [], nest.flatten(spec, expand_composites=True))
    return nest.pack_sequence_as(spec, list(found), expand_composites=True)
