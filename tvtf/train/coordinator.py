"""Defines ``tf.train.Coordinator``, which stops several threads together.

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
    """Stops several threads together: one requests a stop, the others check for it, and `join` raises the exception of the first.

    Args:
      clean_stop_exception_types: exceptions that end the work but are no error; by default OutOfRangeError.

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
        """Creates a coordinator of threads.

        Exceptions of ``clean_stop_exception_types`` stop the threads, but `join` doesn't raise them.
        """
        self._clean_stop_types = (
            (OutOfRangeError,) if clean_stop_exception_types is None else tuple(clean_stop_exception_types)
        )
        self._lock = Lock()
        self._stop = threading.Event()
        self._exception: BaseException | None = None
        self._joined = False
        self._threads: set[threading.Thread] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Requests that all threads stop; `join` raises the exception, or ``sys.exc_info()``, of the first request.

        Raises:
          Exception: ``ex`` itself, if the threads have been joined already.
        """
        exception = ex[1] if isinstance(ex, tuple) else ex  # a tuple is sys.exc_info(): type, exception, traceback
        if isinstance(exception, self._clean_stop_types):
            exception = None
        with self._lock:
            # After `join` nothing else will raise it.
            if self._joined and exception is not None:
                raise exception
            if not self._stop.is_set():
                self._exception = exception
                self._stop.set()

    def clear_stop(self) -> None:
        """Withdraws the request to stop."""
        with self._lock:
            self._joined, self._exception = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Returns whether a stop was requested."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Waits up to ``timeout`` seconds for a request to stop, and returns whether there was one."""
        return self._stop.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Adds a thread that `join` waits for."""
        with self._lock:
            self._threads.add(thread)

    @property
    def joined(self) -> bool:
        """Whether `join` has returned since the last `clear_stop`."""
        return self._joined

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Turns an exception of the ``with`` block into a request to stop."""
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
        """Waits until the threads end, or ``stop_grace_period_secs`` after a request to stop.

        Raises:
          RuntimeError: a thread still runs then, and ``ignore_live_threads`` is False.
          Exception: the exception passed to `request_stop`.
        """
        with self._lock:
            joining = self._threads.union(threads or ())
        # Threads may also end by themselves, which sets no event.
        while _alive(joining) and not self._stop.wait(_POLL_SECONDS):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in joining:
            thread.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            self._joined, self._threads = True, set()
        self.raise_requested_exception()
        _report_live_threads(_alive(joining), ignore_live_threads)

    def raise_requested_exception(self) -> None:
        """Raises the exception passed to `request_stop`, if any."""
        if self._exception is not None:
            raise self._exception


def _alive(threads: Iterable[threading.Thread]) -> list[str]:
    return [thread.name for thread in threads if thread.is_alive()]


def _report_live_threads(thread_names: list[str], ignore: bool) -> None:
    """Raises RuntimeError if threads still run after the coordinator stopped, or logs them if ``ignore`` is set."""
    if not thread_names:
        return
    text = f"Coordinator stopped with threads still running: {' '.join(thread_names)}"
    if not ignore:
        raise RuntimeError(text)
    logger.info(text)
