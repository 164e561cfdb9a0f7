"""Defines summary writers, and the default writer, step and recording condition of a thread."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tvtf.core.primitive import export
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.tensorboard_protos import proto
from tvtf.core.variable_lock import Lock
from tvtf.fileio import tfrecord
from tvtf.fileio.atomic_file import named_failures

_numbers = itertools.count()
MSG_CLOSED = "SummaryWriter is already closed"


class _Active(threading.local):
    """The default writer and step of this thread, and its recording condition."""

    def __init__(self) -> None:
        self.writer: SummaryWriter | None = None
        self.step: Any = None
        self.recording: Any = True


active = _Active()


@export("summary.SummaryWriter")
class SummaryWriter:
    """A writer of summaries; see ``tf.summary.create_file_writer``.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = tf.summary.create_file_writer(folder)
    ...     print(isinstance(writer, tf.summary.SummaryWriter))
    ...     writer.close()
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/SummaryWriter
    """

    def set_as_default(self, step: Any = None) -> None:
        """Makes this the default writer of this thread, and ``step`` its default step if set.

        Raises:
          RuntimeError: the writer is closed.
        """
        self._check_open()
        active.writer = self
        if step is not None:
            active.step = step

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """Sets the default writer and step for the ``with`` block; flushes at its end.

        Raises:
          RuntimeError: the writer is closed.
        """
        outer_writer, outer_step = active.writer, active.step
        self.set_as_default(step)
        try:
            yield self
            self.flush()
        finally:
            active.writer = outer_writer
            if step is not None:
                active.step = outer_step

    def init(self) -> None:
        """Does nothing: a new writer is ready."""

    def flush(self) -> None:
        """Writes buffered events to the file."""

    def close(self) -> None:
        """Flushes and closes the file; later events are dropped."""

    def write_event(self, step: int, **what: Any) -> None:
        """Adds an event with the current time: ``summary``, ``graph_def`` or ``tagged_run_metadata``."""

    def _check_open(self) -> None:
        """Raises RuntimeError if the writer is closed."""


class _NoWriter(SummaryWriter):
    """A writer that writes nothing, so that summaries return False."""


class _FileWriter(SummaryWriter):
    """A writer of an event file; a finalizer writes the buffered events if it is never closed."""

    def __init__(self, folder: str, max_queue: int, flush_seconds: float, suffix: str) -> None:
        """Creates an event file in a folder.

        Its name has the time, host, process and a number, and ends with ``suffix``.
        """
        self._events = proto("compat.proto.event_pb2")
        self.max_queue, self.flush_seconds = max_queue, flush_seconds
        with named_failures(str(folder), "make"):
            Path(folder).mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}{suffix}"
        self._lock = Lock()
        self._buffer: list[bytes] = []
        self._path = os.path.join(folder, name)
        with named_failures(self._path, "write"):
            self._file = open(self._path, "ab")  # noqa: SIM115 - lives as long as the writer
        # Writes the buffered events when the writer is closed or garbage collected.
        self._closing = weakref.finalize(self, _write_all, self._file, self._buffer)
        self._add(self._events.Event(wall_time=time.time(), file_version="brain.Event:2"))
        self.flush()

    def write_event(self, step: int, **content: Any) -> None:
        self._add(self._events.Event(wall_time=time.time(), step=step, **content))

    def _add(self, event: Any) -> None:
        """Buffers an event; flushes if the buffer is full or the last flush is too long ago."""
        with self._lock:
            if not self._closing.alive:  # the writer is closed
                return
            self._buffer.append(tfrecord.framed(event.SerializeToString()))
            if len(self._buffer) > self.max_queue or time.monotonic() > self._due:
                self._flush()

    _due = float("inf")

    def flush(self) -> None:
        with self._lock:
            if self._closing.alive:
                self._flush()

    def _flush(self) -> None:
        """Writes the buffered events to the file. The caller holds the lock."""
        with named_failures(self._path, "write"):
            self._file.write(b"".join(self._buffer))
            self._buffer.clear()
            self._file.flush()
        self._due = time.monotonic() + self.flush_seconds

    def close(self) -> None:
        with self._lock, named_failures(self._path, "write"):
            self._closing()

    def _check_open(self) -> None:
        if not self._closing.alive:
            raise RuntimeError(MSG_CLOSED)


def _write_all(file: IO[bytes], records: list[bytes]) -> None:
    with file:
        file.write(b"".join(records))


@export("summary.create_file_writer")
def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
    experimental_trackable: bool = False,
    experimental_mesh: Any = None,
) -> SummaryWriter:
    """Returns a writer of an event file in the folder ``logdir``, which is created if missing.

    Args:
      max_queue: the number of events that are buffered, 10 by default.
      flush_millis: the longest time between flushes while events are written, 120,000 by default.
      filename_suffix: end of the file's name, ``.v2`` by default.
      name, experimental_trackable, experimental_mesh: accepted without effect.

    Raises:
      ImportError: the ``tensorboard`` extra is not installed.
      ValueError: ``logdir`` is None.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with tf.summary.create_file_writer(folder).as_default():
    ...         print(bool(tf.summary.scalar("loss", 0.5, step=1)))
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/create_file_writer
    """
    if logdir is None:
        raise ValueError("Argument `logdir` cannot be None")
    seconds = 120.0 if flush_millis is None else flush_millis / 1000
    suffix = ".v2" if filename_suffix is None else filename_suffix
    return _FileWriter(_text(logdir), 10 if max_queue is None else max_queue, seconds, suffix)


def _text(path: Any) -> str:
    text = os.fspath(path) if isinstance(path, (str, bytes, os.PathLike)) else convert_to_tensor(path).numpy()
    return os.fsdecode(text)


@export("summary.create_noop_writer")
def create_noop_writer() -> SummaryWriter:
    """Returns a writer that writes nothing.

    >>> import tvtf as tf
    >>> with tf.summary.create_noop_writer().as_default():
    ...     print(bool(tf.summary.scalar("loss", 0.5, step=1)))
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/create_noop_writer
    """
    return _NoWriter()


def writing() -> SummaryWriter | None:
    """Returns this thread's writer if it writes to a file."""
    return active.writer if isinstance(active.writer, _FileWriter) else None


@export("summary.flush")
def flush(writer: SummaryWriter | None = None, name: str | None = None) -> None:
    """Flushes ``writer``, or the default one.

    >>> import tvtf as tf
    >>> tf.summary.flush()

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/flush
    """
    writer = active.writer if writer is None else writer
    if writer is not None:
        writer.flush()


@export("summary.experimental.get_step")
def get_step() -> Any:
    """Returns the default step of this thread.

    >>> import tvtf as tf
    >>> with tf.summary.create_noop_writer().as_default(step=3):
    ...     print(tf.summary.experimental.get_step())
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/experimental/get_step
    """
    return active.step


@export("summary.experimental.set_step")
def set_step(step: Any) -> None:
    """Sets the default step of this thread: a number, a tensor, or a Variable that is read at each write.

    >>> import tvtf as tf
    >>> tf.summary.experimental.set_step(3)
    >>> tf.summary.experimental.get_step()
    3
    >>> tf.summary.experimental.set_step(None)

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/experimental/set_step
    """
    active.step = step


@export("summary.record_if")
@contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Records summaries of the ``with`` block only if ``condition``, a bool, bool tensor or function of one, is true.

    >>> import tvtf as tf
    >>> with tf.summary.record_if(False):
    ...     print(tf.summary.should_record_summaries())
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/record_if
    """
    outer_condition, active.recording = active.recording, condition
    try:
        yield
    finally:
        active.recording = outer_condition


def recording() -> Any:
    """Returns the recording condition: a bool or a bool tensor."""
    condition: Callable[[], Any] | Any = active.recording
    return condition() if callable(condition) else condition


@export("summary.should_record_summaries")
def should_record_summaries() -> Any:
    """Returns whether summaries are recorded: False without a default writer; a tensor if the condition is one.

    >>> import tvtf as tf
    >>> tf.summary.should_record_summaries()
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/summary/should_record_summaries
    """
    return recording() if writing() else False
