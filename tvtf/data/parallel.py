"""Work done by threads: elements computed ahead of time, and several at once."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import Full, Queue
from typing import Any

from tvtf.data.argument_conversion import number
from tvtf.data.base import Dataset
from tvtf.errors import InvalidArgumentError

BRIEF = 1e-4
"""Seconds: an element that is computed in less costs more to hand over from another thread (30 to 70 us on two cores)."""
TRIED = 8
"""So many elements in a row that are brief, or are not, decide who computes those that follow: the consumer, or threads."""
LONG = 1e-3
"""Seconds: one element that takes so long has threads compute those that follow."""


class Debug:
    """Whether users' functions run eagerly, and all elements one after the other (``tf.data.experimental.enable_debug_mode``)."""

    on = False


debug = Debug()


class Workers:
    """Threads that compute elements, ``calls`` at once; the system's cores tell how many where that is -1."""

    def __init__(self, calls: Any, deterministic: bool | None, op: str) -> None:
        count = number(calls, "num_parallel_calls")
        if count < 1 and count != -1:
            raise InvalidArgumentError(None, op, f"num_parallel_calls must be greater than zero. [Op:{op}]")
        self.count = (os.cpu_count() or 1) if count == -1 else count
        self.in_order = deterministic is not False
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Kept for all iterations: each thread has a machine of its own for the code it runs. A forked child has its own."""
        process = os.getpid()
        if process not in self._pools:
            self._pools[process] = ThreadPoolExecutor(self.count, "tvtf.data")
        return self._pools[process]

    def results(self, function: Callable[[Any], Any], items: Iterator[Any], waits: bool = True) -> Iterator[Any]:
        """``function`` of each item; one that never ``waits`` for others is called by who asks, where that is quicker."""
        return _Results(self, function, items, waits)


def warn_unused(deterministic: bool | None) -> None:
    if deterministic is not None and not debug.on:
        warnings.warn(
            "The `deterministic` argument has no effect unless the `num_parallel_calls` argument is specified.",
            stacklevel=3,
        )


class Pace:
    """Who computes the next element of an iteration, by how long the last ones took.

    Starting a thread takes as long as many brief elements, so the consumer begins, unless elements may wait for something.
    """

    def __init__(self, waits: bool) -> None:
        self.waits = waits
        self.is_threaded = waits
        self._others = 0

    def note(self, elapsed: float) -> None:
        """Counts an element that took so many seconds."""
        if self.waits or (elapsed < BRIEF) is not self.is_threaded:
            self._others = 0
            return
        self._others += 1
        if self._others == TRIED or (elapsed > LONG and not self.is_threaded):
            self.is_threaded, self._others = not self.is_threaded, 0


class _Results(Iterator[Any]):
    """A function of each item, in their order or as they come; a failure is told where its element would stand."""

    def __init__(self, workers: Workers, function: Callable[[Any], Any], items: Iterator[Any], waits: bool) -> None:
        self.workers, self.function, self.items = workers, function, items
        self.pace = Pace(waits)
        self.running: deque[Future[Any]] = deque()

    def __next__(self) -> Any:
        if not (self.pace.is_threaded or self.running):
            elapsed, found = _timed(self.function, next(self.items))
            self.pace.note(elapsed)
            return found
        self._fill()
        if not self.running:
            raise StopIteration
        done = self.running[0] if self.workers.in_order else _first_done(self.running)
        self.running.remove(done)
        self._fill()
        elapsed, found = done.result()
        self.pace.note(elapsed)
        return found

    def _fill(self) -> None:
        while self.pace.is_threaded and len(self.running) < self.workers.count:
            try:
                self.running.append(self.workers.pool.submit(_timed, self.function, next(self.items)))
            except StopIteration:
                return
            except Exception as error:
                failed: Future[Any] = Future()
                failed.set_exception(error)
                self.running.append(failed)

    def __del__(self) -> None:
        for future in self.running:
            future.cancel()


def _timed(function: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """The seconds that a call takes, and its result."""
    began = time.perf_counter()
    result = function(*given)
    return time.perf_counter() - began, result


def _first_done(running: deque[Future[Any]]) -> Future[Any]:
    done = wait(running, return_when=FIRST_COMPLETED).done
    return next(future for future in running if future in done)


class Ready(Dataset):
    """A dataset whose handles are the elements, computed by threads."""

    value = Dataset.value
    batch_value = Dataset.batch_value


class AsTheyCome(Iterator[Any]):
    """The elements of several iterators as threads, one for each, have them; ``count`` are open at once."""

    def __init__(self, sources: Iterator[Iterator[Any]], count: int, ahead: int) -> None:
        self._sources = sources
        self._queue: Queue[tuple[str, Any]] = Queue(ahead)
        self._stop = threading.Event()
        self._open = 0
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        source = next(self._sources, None)
        if source is not None:
            self._open += 1
            threading.Thread(target=_fill, args=(source, self._queue, self._stop), daemon=True).start()

    def __next__(self) -> Any:
        while self._open:
            kind, what = self._queue.get()
            if kind == "element":
                return what
            if kind == "failure":
                raise what
            self._open -= 1
            self._start()
        raise StopIteration

    def __del__(self) -> None:
        self._stop.set()


class Ahead(Iterator[Any]):
    """An iterator whose elements a thread computes ahead of time; it ends with the iterator.

    Where they are brief the thread ends, and who asks for an element computes it; if it ``waits`` for something, a thread begins.
    """

    def __init__(self, source: Iterator[Any], count: int, waits: bool = False) -> None:
        self._source, self._count = source, count
        self._stop = threading.Event()
        self._done = False
        self._pace = Pace(False)
        self._queue: Queue[tuple[str, Any]] | None = self._started() if waits else None

    def _started(self) -> Queue[tuple[str, Any]]:
        queue: Queue[tuple[str, Any]] = Queue(self._count)
        given = (self._source, queue, self._stop, TRIED)
        threading.Thread(target=_fill, args=given, daemon=True).start()
        return queue

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        if self._queue is None:
            return self._computed()
        kind, what = self._queue.get()
        if kind == "element":
            return what
        if kind == "brief":
            self._queue, self._pace = None, Pace(False)
            return self._computed()
        if kind == "end":
            self._done = True
            raise StopIteration
        raise what

    def _computed(self) -> Any:
        elapsed, found = _timed(next, self._source)
        self._pace.note(elapsed)
        if self._pace.is_threaded:
            self._queue = self._started()
        return found

    def __del__(self) -> None:
        self._stop.set()


def _fill(source: Iterator[Any], queue: Queue[tuple[str, Any]], stop: threading.Event, tried: int = 0) -> None:
    """Goes on after a failure: what comes after it may be wanted, too. Ends after ``tried`` brief elements in a row."""
    brief = 0
    while not tried or brief < tried:
        began = time.perf_counter()
        try:
            item = "element", next(source)
        except StopIteration:
            item = "end", None
        except Exception as error:
            item = "failure", error
        brief = brief + 1 if time.perf_counter() - began < BRIEF else 0
        if not _put(queue, item, stop) or item[0] == "end":
            return
    _put(queue, ("brief", None), stop)


def _put(queue: Queue[tuple[str, Any]], item: tuple[str, Any], stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            queue.put(item, timeout=0.1)
            return True
        except Full:
            continue
    return False
