"""Parallel mapping and prefetching of dataset elements: threads compute them in parallel, or before they are consumed."""

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

from tvtf.core.thread_count import available_cores
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import Dataset
from tvtf.errors import InvalidArgumentError
from tvtf.state.random_streams import Drawer, drawing, working_for

CHEAP_SECONDS = 1e-4
"""An element that takes less time is cheap, and is computed by the consumer: handing an element over from another thread
costs 30 to 70 us (measured on two cores)."""
STREAK = 8
"""After this many cheap elements in a row the consumer computes the following ones; after as many others, threads do."""
LONG_SECONDS = 1e-3
"""A single element that takes more time switches to threads at once, unless it is the first."""


class Debug:
    """Whether users' functions run eagerly and elements one after the other (``tf.data.experimental.enable_debug_mode``)."""

    on = False


debug = Debug()


class Workers:
    """A pool of ``calls`` threads that compute elements; -1 means one thread per core."""

    def __init__(self, calls: Any, deterministic: bool | None, op: str) -> None:
        count = int_argument(calls, "num_parallel_calls")
        if count < 1 and count != -1:
            raise InvalidArgumentError(None, op, f"num_parallel_calls must be greater than zero. [Op:{op}]")
        self.count = available_cores() if count == -1 else count
        self.in_order = deterministic is not False
        self._pools: dict[int, ThreadPoolExecutor] = {}

    @property
    def pool(self) -> ThreadPoolExecutor:
        """Returns the thread pool of this process, shared by all iterations.

        Threads are reused because each thread has its own virtual machine for compiled code. Threads don't survive a
        fork. Therefore a child process creates its own pool.
        """
        process = os.getpid()
        if process not in self._pools:
            self._pools[process] = ThreadPoolExecutor(self.count, "tvtf.data")
        return self._pools[process]

    def results(self, function: Callable[[Any], Any], items: Iterator[Any], may_block: bool = True) -> Iterator[Any]:
        """Returns an iterator over ``function(item)``, computed by threads.

        If ``may_block`` is False, the thread that consumes the results computes cheap results itself.
        """
        return _Results(self, function, items, may_block)


def warn_unused(deterministic: bool | None) -> None:
    """Warns that ``deterministic`` has no effect without ``num_parallel_calls``."""
    if deterministic is not None and not debug.on:
        warnings.warn(
            "The `deterministic` argument has no effect unless the `num_parallel_calls` argument is specified.",
            stacklevel=3,
        )


class Pace:
    """Decides whether the consumer or threads compute the next element, by the measured times of the last ones.

    Starting a thread takes as long as computing many cheap elements, so the consumer computes the first ones. If elements may
    block (``may_block``), threads compute all of them.
    """

    def __init__(self, may_block: bool) -> None:
        self.may_block = may_block
        self.is_threaded = may_block
        self._streak = 0
        self._is_first = True

    def record(self, elapsed: float) -> None:
        """Records how many seconds an element took, and chooses the consumer or threads for the next element.

        The choice changes after STREAK elements in a row that suit the other, or after a single element longer than
        LONG_SECONDS.
        """
        is_first, self._is_first = self._is_first, False
        is_cheap = elapsed < CHEAP_SECONDS
        suits_other = is_cheap if self.is_threaded else not is_cheap
        # The first element may be slow only because it prepared the others. Threads started for it would stay, and
        # next to compiled code, which uses all cores, even cheap elements would take longer in threads.
        if is_first or self.may_block or not suits_other:
            self._streak = 0
            return
        self._streak += 1
        is_long = elapsed > LONG_SECONDS and not self.is_threaded
        if self._streak == STREAK or is_long:
            self.is_threaded = not self.is_threaded
            self._streak = 0


class _Results(Iterator[Any]):
    """The results of a function for each item, in order or as they finish.

    An error is raised in place of its element.
    """

    def __init__(self, workers: Workers, function: Callable[[Any], Any], items: Iterator[Any], may_block: bool) -> None:
        self.workers, self.function, self.items = workers, function, items
        self.pace = Pace(may_block)
        self.running: deque[Future[Any]] = deque()

    def __next__(self) -> Any:
        """Returns the next result: a future's from the thread pool, or one computed here while elements are cheap."""
        if not (self.pace.is_threaded or self.running):
            elapsed, result = _timed(self.function, next(self.items))
            self.pace.record(elapsed)
            return result
        self._submit()
        if not self.running:
            raise StopIteration
        done = self.running[0] if self.workers.in_order else _first_done(self.running)
        self.running.remove(done)
        self._submit()  # keeps the thread busy while the consumer uses this result
        elapsed, result = done.result()
        self.pace.record(elapsed)
        return result

    def _submit(self) -> None:
        """Submits items to the thread pool until each of its threads has an item.

        If the source raises an error instead of returning an item, a failed future is queued in place of the item.
        """
        while self.pace.is_threaded and len(self.running) < self.workers.count:
            try:
                self.running.append(self.workers.pool.submit(_timed_for, drawing(), self.function, next(self.items)))
            except StopIteration:
                return
            except Exception as error:  # raised when the consumer reaches this item, after the results before it
                failed: Future[Any] = Future()
                failed.set_exception(error)
                self.running.append(failed)

    def __del__(self) -> None:
        for future in self.running:
            future.cancel()


def _timed(function: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Calls a function and returns the seconds that the call took, and the function's result."""
    start = time.perf_counter()
    result = function(*args)
    return time.perf_counter() - start, result


def _timed_for(drawer: Drawer, function: Callable[..., Any], *args: Any) -> tuple[float, Any]:
    """Calls a function in a thread that works for another one, ``drawer``; see `_timed`."""
    with working_for(drawer):
        return _timed(function, *args)


def _first_done(running: deque[Future[Any]]) -> Future[Any]:
    """Waits until a future is done and returns the future; of several, the one submitted first."""
    done = wait(running, return_when=FIRST_COMPLETED).done
    return next(future for future in running if future in done)


class ComputedElements(Dataset):
    """A dataset whose handles are the elements, computed by threads."""

    value = Dataset.value
    batch_value = Dataset.batch_value


class UnorderedMerge(Iterator[Any]):
    """Merges several iterators: yields their elements in the order in which threads compute them.

    Args:
      sources: the iterators to merge.
      count: how many of these iterators are open at the same time; each has its own thread.
      ahead: the number of computed elements that may wait in the queue.
    """

    def __init__(self, sources: Iterator[Iterator[Any]], count: int, ahead: int) -> None:
        self._sources = sources
        self._queue: Queue[tuple[str, Any]] = Queue(ahead)
        self._stop = threading.Event()
        self._open = 0
        self._unstarted = count  # none before the first element is asked for: the iterator may never be used

    def _start(self) -> None:
        """Starts the thread of the next iterator, if there is one."""
        source = next(self._sources, None)
        if source is not None:
            self._open += 1
            threading.Thread(target=_fill_queue, args=(drawing(), source, self._queue, self._stop), daemon=True).start()

    def __next__(self) -> Any:
        """Returns the next element that any thread has put into the queue, or raises an iterator's error."""
        for _ in range(self._unstarted):
            self._start()
        self._unstarted = 0
        while self._open:
            kind, payload = self._queue.get()
            if kind == "element":
                return payload
            if kind == "failure":
                raise payload
            self._open -= 1  # kind is "end": an iterator is exhausted
            self._start()
        raise StopIteration

    def __del__(self) -> None:
        self._stop.set()


class PrefetchingIterator(Iterator[Any]):
    """Iterates over ``source`` while a thread computes up to ``count`` elements ahead of time.

    The thread ends when the iterator is deleted. If elements turn out to be cheap, the thread ends too, and the
    consumer computes the following elements. A thread computes the first elements only if they may block
    (``may_block``).
    """

    def __init__(self, source: Iterator[Any], count: int, may_block: bool = False) -> None:
        self._source, self._count = source, count
        self._stop = threading.Event()
        self._done = False
        self._pace = Pace(False)
        self._queue: Queue[tuple[str, Any]] | None = self._start_thread() if may_block else None

    def _start_thread(self) -> Queue[tuple[str, Any]]:
        """Starts a thread that computes elements, and returns the queue that the thread fills."""
        queue: Queue[tuple[str, Any]] = Queue(self._count)
        args = (drawing(), self._source, queue, self._stop, STREAK)
        threading.Thread(target=_fill_queue, args=args, daemon=True).start()
        return queue

    def __next__(self) -> Any:
        """Returns the next element, from the thread's queue or computed here.

        Raises the source's error in its place.
        """
        if self._done:
            raise StopIteration
        if self._queue is None:
            return self._compute_next()
        kind, payload = self._queue.get()
        if kind == "element":
            return payload
        if kind == "cheap":  # the thread has ended, because handing over an element takes as long as computing it
            self._queue = None
            self._pace = Pace(False)
            return self._compute_next()
        if kind == "end":
            self._done = True
            raise StopIteration
        raise payload

    def _compute_next(self) -> Any:
        """Computes the next element in the consumer's thread.

        Starts a thread for later elements if elements take long.
        """
        elapsed, element = _timed(next, self._source)
        self._pace.record(elapsed)
        if self._pace.is_threaded:
            self._queue = self._start_thread()
        return element

    def __del__(self) -> None:
        self._stop.set()


def _fill_queue(
    drawer: Drawer, source: Iterator[Any], queue: Queue[tuple[str, Any]], stop: threading.Event, limit: int = 0
) -> None:
    """Fills a queue with the elements of an iterator, as the body of a thread, which works for another one, ``drawer``."""
    with working_for(drawer):
        _fill(source, queue, stop, limit)


def _fill(source: Iterator[Any], queue: Queue[tuple[str, Any]], stop: threading.Event, limit: int) -> None:
    """Fills a queue with the elements of an iterator.

    Handing an element to another thread costs 30 to 70 us. If ``limit`` consecutive elements are computed faster than
    CHEAP_SECONDS, the thread ends with ``("cheap", None)``, and the consumer computes the rest itself.

    Args:
      source: the iterator; an error that it raises is queued in place of the element.
      queue: receives pairs ``(kind, payload)``; kind is "element", "failure", "cheap" or "end".
      stop: ends the thread when set, by the consumer.
      limit: the number of consecutive cheap elements that ends the thread; 0 for no limit.
    """
    cheap_count = 0
    while not limit or cheap_count < limit:
        start = time.perf_counter()
        payload: Any = None
        try:
            kind = "element"
            payload = next(source)
        except StopIteration:
            kind = "end"
        except Exception as error:  # not the end: the consumer may skip errors (``ignore_errors``)
            kind, payload = "failure", error
        is_cheap = time.perf_counter() - start < CHEAP_SECONDS
        cheap_count = cheap_count + 1 if is_cheap else 0
        was_put = _put(queue, (kind, payload), stop)
        if not was_put or kind == "end":
            return
    _put(queue, ("cheap", None), stop)


def _put(queue: Queue[tuple[str, Any]], item: tuple[str, Any], stop: threading.Event) -> bool:
    """Puts an item into a queue, waiting for space. Returns False, without the item added, once ``stop`` is set."""
    while not stop.is_set():
        try:
            queue.put(item, timeout=0.1)  # wakes up to check ``stop``
            return True
        except Full:
            continue
    return False
