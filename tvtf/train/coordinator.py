"""``tf.train.Coordinator``: threads that stop together.

Source: https://www.tensorflow.org/api_docs/python/tf/train/Coordinator
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tvtf.core.log import logger
from tvtf.core.variable_lock import Lock
from tvtf.errors import OutOfRangeError

_POLL_SECONDS = 0.01


class Coordinator:
    """Has several threads stop together: one asks, the others look, and whoever joins them gets what one of them raised.

    Args:
      clean_stop_exception_types: exceptions that end the work without being an error: by default the end of a queue.

    >>> coordinator = Coordinator()
    >>> def work():
    ...     with coordinator.stop_on_exception():
    ...         raise ValueError("no more")
    >>> thread = threading.Thread(target=work)
    >>> thread.start()
    >>> coordinator.join([thread])
    Traceback (most recent call last):
    ValueError: no more

    Source: https://www.tensorflow.org/api_docs/python/tf/train/Coordinator
    """

    def __init__(self, clean_stop_exception_types: Iterable[type[BaseException]] | None = None) -> None:
        self._clean = (OutOfRangeError,) if clean_stop_exception_types is None else tuple(clean_stop_exception_types)
        self._lock = Lock()
        self._stop = threading.Event()
        self._raised: BaseException | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Asks all to stop; the first exception, or ``sys.exc_info()``, that comes with it is what `join` raises.

        Raises:
          Exception: ``ex`` itself, if the threads were joined already.
        """
        raised = ex[1] if isinstance(ex, tuple) else ex
        if isinstance(raised, self._clean):
            raised = None
        with self._lock:
            if self._joined and raised is not None:
                raise raised
            if not self._stop.is_set():
                self._raised = raised
                self._stop.set()

    def clear_stop(self) -> None:
        """Forgets that a stop was asked for, and why."""
        with self._lock:
            self._joined, self._raised = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits up to ``timeout`` seconds; whether a stop was asked for."""
        return self._stop.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Has `join` wait for this thread, too."""
        with self._lock:
            self._threads.add(thread)

    @property
    def joined(self) -> bool:
        """Whether `join` has ended since the last `clear_stop`."""
        return self._joined

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Inside, an exception asks all to stop and goes no further."""
        try:
            yield
        except BaseException:
            self.request_stop(sys.exc_info())

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Waits until the threads end, or until they had ``stop_grace_period_secs`` after a stop was asked for.

        Raises:
          RuntimeError: some still run then, and ``ignore_live_threads`` is False.
          Exception: what `request_stop` was given.
        """
        with self._lock:
            waiting = self._threads.union(threads or ())
        while _alive(waiting) and not self._stop.wait(_POLL_SECONDS):
            pass
        until = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            thread.join(max(0.0, until - time.monotonic()))
        with self._lock:
            self._joined, self._threads = True, set()
        self.raise_requested_exception()
        _tell(_alive(waiting), ignore_live_threads)

    def raise_requested_exception(self) -> None:
        """Raises what `request_stop` was given, if it was given an exception."""
        if self._raised is not None:
            raise self._raised


def _alive(threads: Iterable[threading.Thread]) -> list[str]:
    return [thread.name for thread in threads if thread.is_alive()]


def _tell(stragglers: list[str], ignored: bool) -> None:
    if not stragglers:
        return
    text = f"Coordinator stopped with threads still running: {' '.join(stragglers)}"
    if not ignored:
        raise RuntimeError(text)
    logger.info(text)
