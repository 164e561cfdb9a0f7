"""Defines ``tf.profiler.experimental``: a timeline of when functions were traced, compiled and called.

The timeline is written in two formats: Chrome's trace format (open it in https://ui.perfetto.dev) and ``xplane``, which
TensorBoard's profile page reads. ``fn.profile`` times the kernels within a call.

Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental
"""

from __future__ import annotations

import functools
import gzip
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from tvtf.core.log import logger
from tvtf.core.primitive import export
from tvtf.errors import AlreadyExistsError, UnavailableError
from tvtf.fileio.atomic_file import named_failures
from tvtf.summary import xplane

_WATCHED = {"trace": "trace", "code": "compile", "call": "call", "_call_recorded": "call under a tape"}
"""The timed methods of concrete functions, and their names in the timeline."""


@export("profiler.experimental.ProfilerOptions")
class ProfilerOptions(NamedTuple):
    """Levels of detail, accepted without effect: a profile always has the host's events.

    >>> import tvtf as tf
    >>> tf.profiler.experimental.ProfilerOptions(host_tracer_level=3).host_tracer_level
    3

    Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental/ProfilerOptions
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


class _Profile:
    """The events of one profile; as long as it runs, it replaces methods of concrete functions by timed ones."""

    def __init__(self, folder: str) -> None:
        """Starts the profile: replaces methods of concrete functions, ``_WATCHED``, by ones that record calls."""
        from tvtf.frontend.function.concrete_function import ConcreteFunction

        self.folder = folder
        self.events: list[dict[str, Any]] = []
        self.watched = ConcreteFunction
        self.original = {name: vars(ConcreteFunction)[name] for name in _WATCHED}
        for name, method in self.original.items():
            setattr(ConcreteFunction, name, self._recorded(method, _WATCHED[name]))

    def _recorded(self, method: Any, event_name: str) -> Any:
        """Wraps a method of concrete functions: each call is recorded as an event ``<function> <event_name>``."""
        function = method.__func__ if isinstance(method, classmethod) else method

        @functools.wraps(function)
        def recorded(owner: Any, *args: Any, **kwargs: Any) -> Any:
            # A class method receives the class, and then the function that it traces.
            function_object = args[0] if isinstance(owner, type) else owner
            with _Span(self, f"{function_object.name} {event_name}", {}):
                return function(owner, *args, **kwargs)

        return classmethod(recorded) if isinstance(method, classmethod) else recorded

    def stop(self) -> None:
        """Restores the original methods."""
        for name, method in self.original.items():
            setattr(self.watched, name, method)

    def save(self) -> None:
        """Writes the recorded events to two files: ``trace.json.gz`` for Chrome and Perfetto, ``xplane.pb`` for TensorBoard."""
        folder = Path(self.folder, "plugins", "profile", time.strftime("%Y_%m_%d_%H_%M_%S"))
        host = socket.gethostname()
        path = folder / f"{host}.trace.json.gz"
        with named_failures(str(path), "write"):
            folder.mkdir(parents=True, exist_ok=True)
            with gzip.open(path, "wt") as file:
                json.dump({"displayTimeUnit": "ns", "traceEvents": self.events}, file)
            (folder / f"{host}.xplane.pb").write_bytes(xplane.encoded(self.events, host))


class _Span:
    """A context manager that records one event, from entering to leaving it."""

    def __init__(self, profile: _Profile, name: str, arguments: dict[str, Any]) -> None:
        self.profile, self.name, self.arguments = profile, name, arguments

    def __enter__(self) -> None:
        self.begin = time.perf_counter_ns()

    def __exit__(self, *_: object) -> None:
        micros = self.begin / 1e3, (time.perf_counter_ns() - self.begin) / 1e3
        place = {"pid": os.getpid(), "tid": threading.get_ident(), "args": self.arguments}
        self.profile.events.append({"ph": "X", "name": self.name, "ts": micros[0], "dur": micros[1], **place})


class _Running:
    """The profile that runs in this process, if any."""

    profile: _Profile | None = None


@export("profiler.experimental.start")
def start(logdir: str, options: ProfilerOptions | None = None) -> None:
    """Starts a profile, which :func:`stop` writes below ``logdir``.

    Raises:
      AlreadyExistsError: a profile is running already.

    >>> import tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tf.profiler.experimental.start(folder)
    ...     tf.profiler.experimental.stop()

    Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental/start
    """
    if _Running.profile is not None:
        raise AlreadyExistsError(None, None, "Another profiler is running.")
    _Running.profile = _Profile(os.fspath(logdir))


@export("profiler.experimental.stop")
def stop(save: bool = True) -> None:
    """Ends the profile and writes it, unless ``save`` is false, as ``LOGDIR/plugins/profile/TIME/HOST.trace.json.gz`` and
    ``HOST.xplane.pb``.

    Raises:
      UnavailableError: no profile is running.

    >>> import tvtf as tf
    >>> tf.profiler.experimental.start("not/written")
    >>> tf.profiler.experimental.stop(save=False)

    Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental/stop
    """
    profile, _Running.profile = _Running.profile, None
    if profile is None:
        raise UnavailableError(None, None, "Cannot export profiling results. No profiler is running.")
    profile.stop()
    if save:
        profile.save()


def stop_in(folder: str | None) -> None:
    """Stops the profiler as :func:`stop` does, and writes to ``folder`` if :func:`start` got no folder.

    Without any folder, the profile is dropped with a warning.
    """
    if _Running.profile is not None:
        _Running.profile.folder = _Running.profile.folder or folder or ""
        if not _Running.profile.folder:
            logger.warning("The profile is dropped: no `profiler_outdir` was passed to trace_on() or trace_export().")
    stop(save=_Running.profile is not None and bool(_Running.profile.folder))


@export("profiler.experimental.Profile")
class Profile:
    """A context manager that profiles its block.

    >>> import os, tempfile
    >>> import tvtf as tf
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with tf.profiler.experimental.Profile(folder), tf.profiler.experimental.Trace("step", step_num=1):
    ...         y = tf.constant(1) + 1
    ...     print(os.listdir(os.path.join(folder, "plugins")))
    ['profile']

    Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental/Profile
    """

    def __init__(self, logdir: str, options: ProfilerOptions | None = None) -> None:
        self.logdir = logdir

    def __enter__(self) -> None:
        start(self.logdir)

    def __exit__(self, *_: object) -> None:
        stop()


@export("profiler.experimental.Trace")
class Trace:
    """A context manager that adds an event to the running profile, if any.

    Args:
      name: the event's name.
      **kwargs: further properties of the event, such as ``step_num``.

    >>> import tvtf as tf
    >>> with tf.profiler.experimental.Trace("train", step_num=1):
    ...     y = tf.constant(1) + 1

    Source: https://www.tensorflow.org/api_docs/python/tf/profiler/experimental/Trace
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self.name, self.arguments = name, kwargs
        self._span: _Span | None = None

    def __enter__(self) -> Trace:
        if _Running.profile is not None:
            self._span = _Span(_Running.profile, self.name, self.arguments)
            self._span.__enter__()
        return self

    def set_metadata(self, **kwargs: Any) -> None:
        """Adds properties to the event."""
        self.arguments.update(kwargs)

    def __exit__(self, *_: object) -> None:
        if self._span is not None:
            self._span.__exit__()
