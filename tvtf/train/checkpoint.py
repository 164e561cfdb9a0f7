"""Defines `Checkpoint`, which saves and restores everything reachable from a few objects, in TensorFlow's file format."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from tvtf.core.variable_lock import Lock
from tvtf.errors import NotFoundError
from tvtf.state.autotrackable import AutoTrackable, NoDependency, Trackable
from tvtf.state.variable import Variable
from tvtf.train import bundle, checkpoint_state, object_graph
from tvtf.train.by_name import NameBasedStatus
from tvtf.train.restoration import Restoration, outside_trace
from tvtf.train.status import CheckpointLoadStatus, InitializationOnlyStatus

PathLike = str | os.PathLike[str]
Status = CheckpointLoadStatus | InitializationOnlyStatus | NameBasedStatus

SAVED_MODELS = ("saved_model.json", "saved_model.pb")
"""The files that identify a saved model's folder: tvtf's and TensorFlow's."""

_writing = Lock()
Value = TypeVar("Value")


@dataclass(frozen=True)
class CheckpointOptions:
    """Options of saving and restoring.

    Args:
      experimental_write_callbacks: functions called with the path after a checkpoint is written.
      experimental_skip_slot_variables: don't restore an optimizer's slot variables.
      experimental_io_device, enable_async, experimental_enable_async_checkpoint, experimental_sharding_callback: accepted;
        without effect: one process writes one shard, and has finished when the call returns.

    Source: https://www.tensorflow.org/api_docs/python/tf/train/CheckpointOptions
    """

    experimental_write_callbacks: tuple[Callable[[str], Any], ...] | list[Callable[[str], Any]] = ()
    experimental_skip_slot_variables: bool = False
    experimental_io_device: str | None = None
    enable_async: bool = False
    experimental_enable_async_checkpoint: bool = False
    experimental_sharding_callback: Any = None


class Checkpoint(AutoTrackable):
    """A group of objects whose variables are saved and restored together.

    Args:
      root: the object at which names start; by default this checkpoint.
      **kwargs: trackable objects, or lists, tuples and dicts of them; each becomes an edge of that name.

    Raises:
      ValueError: an argument can't be tracked, or ``root`` has another object of that name.

    >>> import tempfile
    >>> from tvtf.state.module import Module
    >>> checkpoint = Checkpoint(model=Module(name="model"))
    >>> path = checkpoint.write(tempfile.mkdtemp() + "/ckpt")
    >>> _ = checkpoint.read(path).assert_consumed()

    Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint
    """

    def __init__(self, root: Trackable | None = None, **kwargs: Any) -> None:
        """Stores the keyword arguments as attributes, which the checkpoint saves.

        If ``root`` is passed, the checkpoint saves ``root`` itself, with the other arguments as further children of
        ``root``.
        """
        # Of the checkpoint's own attributes only the keyword arguments are saved: the others are untracked.
        self._attached: dict[str, Trackable] = _untracked({})  # children of `root` that aren't its attributes
        self._save_counter: Any = _untracked(None)
        root = root() if isinstance(root, weakref.ref) else root  # a Keras model passes a weak reference to itself
        if root is not None:
            _check_trackable(root, "root")
            self._save_counter = _untracked(root._lookup_dependency("save_counter"))
            kwargs["root"] = root
        for name, value in sorted(kwargs.items()):
            setattr(self, name, value)
            _check_trackable(getattr(self, name), name)
        self._view = _untracked(object_graph.View(self if root is None else root, self._attached))
        if root is not None:
            self._attach(root, kwargs)

    def _attach(self, root: Trackable, names: dict[str, Any]) -> None:
        """Makes the constructor's arguments saved children of ``root``, unless ``root`` has them as attributes.

        Raises:
          ValueError: ``root`` has another object under one of the names.
        """
        for name in sorted(names):
            tracked = root._lookup_dependency(name)
            if tracked is None:
                self._attached[name] = getattr(self, name)
            elif tracked is not getattr(self, name):
                raise ValueError(
                    f"Cannot create a Checkpoint with keyword argument {name} if root.{name} already exists."
                )

    @property
    def save_counter(self) -> Any:
        """An int64 variable that starts at zero and numbers the checkpoints that `save` writes."""
        if self._save_counter is None:
            with outside_trace():  # the counter must outlive a function that is being traced
                counter = Variable(0, trainable=False, name="save_counter", dtype="int64")
            self._save_counter = _untracked(counter)
            self._attach_counter(counter)
        return self._save_counter

    def _attach_counter(self, counter: Trackable) -> None:
        """Makes the save counter a child of the checkpoint's root; restores it if a checkpoint was read before."""
        if self._view.root is self:
            self._track(counter, "save_counter")
        else:
            self._attached["save_counter"] = counter
            self._view.root._restore_deferred(counter, "save_counter")

    def write(self, file_prefix: PathLike, options: CheckpointOptions | None = None) -> str:
        """Writes ``file_prefix.index`` and its data file, replacing older ones atomically.

        Args:
          file_prefix: folder and start of the file names; a missing folder is created.
          options: see `CheckpointOptions`.

        Returns:
          ``file_prefix``, which `read` takes.

        Raises:
          ResourceExhaustedError: the disk is full; older files are unchanged, and no partial file is left.
          ValueError: a tracked list or dict was changed in a way that can't be restored.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#write
        """
        prefix = os.fspath(file_prefix)
        with _writing:
            bundle.write(prefix, object_graph.serialize(self._view))
        for callback in options.experimental_write_callbacks if options else ():
            callback(prefix)
        return prefix

    def sync(self) -> None:
        """Does nothing: saves and restores have finished when they return."""

    def save(self, file_prefix: PathLike, options: CheckpointOptions | None = None) -> str:
        """Increments `save_counter`, writes ``file_prefix-COUNTER``, and records it as the folder's newest checkpoint.

        Returns:
          The prefix written, which `restore` takes.

        Raises:
          ResourceExhaustedError: the disk is full; older checkpoints and `save_counter` are unchanged.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#save
        """
        prefix = os.fspath(file_prefix)
        with self._counted() as number:
            path = self.write(f"{prefix}-{number}", options)
            checkpoint_state.update_checkpoint_state(os.path.dirname(path), path)
        return path

    def _counted(self) -> _Counted:
        return _Counted(self.save_counter)

    def read(self, save_path: PathLike | None, options: CheckpointOptions | None = None) -> Status:
        """Restores the objects from a checkpoint of `write`; unlike `restore`, does not create `save_counter`.

        A checkpoint of TensorFlow 1, which has no graph of objects, is restored by the variables' names.

        Args:
          save_path: the prefix that `write` returned; None restores nothing.
          options: see `CheckpointOptions`.

        Returns:
          A status, whose methods check that all values or all objects were matched.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#read
        """
        if save_path is None:
            return InitializationOnlyStatus(self._view)
        reader = bundle.Reader(save_path)
        if not reader.has_tensor(object_graph.GRAPH_KEY):
            return NameBasedStatus(reader, self._view)
        graph = object_graph.parse(_serialized_graph(reader), reader.entries, reader.prefix)
        restoration = Restoration(graph, reader, bool(options and options.experimental_skip_slot_variables))
        # A restore that fails needs no warnings of unused values.
        restoration.report.silent = True
        restoration.restore(self._view.root, attached=self._attached)
        restoration.report.silent = False
        return CheckpointLoadStatus(restoration, self._view)

    def restore(self, save_path: PathLike | None, options: CheckpointOptions | None = None) -> Status:
        """Restores what `save` saved.

        The whole checkpoint is checked (its structure, every checksum, the shapes and dtypes of all matched objects)
        before the first value is assigned, so that an error leaves everything unchanged. Values of objects that don't
        exist yet are assigned when these are attached.

        Args:
          save_path: the result of `save` or `latest_checkpoint`, or a SavedModel's folder; None restores nothing.
          options: see `CheckpointOptions`.

        Returns:
          A status with ``assert_consumed()``, ``assert_existing_objects_matched()``, ``assert_nontrivial_match()`` and
          ``expect_partial()``.

        Raises:
          NotFoundError: the checkpoint or one of its files is missing.
          DataLossError: the checkpoint is truncated, damaged or contradicts itself.
          ValueError: the shapes of a variable and its value differ.
          InvalidArgumentError: the dtypes of a variable and its value differ.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/Checkpoint#restore
        """
        try:
            status = self.read(_inside_saved_model(save_path), options)
        except NotFoundError as cause:
            raise NotFoundError(
                None,
                None,
                f"Error when restoring from checkpoint or SavedModel at {save_path}: {cause.message}\nPlease "
                "double-check that the path is correct. You may be missing the checkpoint suffix (e.g. the '-1' in "
                "'path/to/ckpt-1').",
            ) from cause
        counter = self.save_counter
        if isinstance(status, NameBasedStatus):
            status.add_to_optionally_restored(counter)
        return status


class _Counted:
    """Increments a counter for the duration of a save, and restores it if the save fails."""

    def __init__(self, counter: Any) -> None:
        with outside_trace():
            self.counter = counter
            self.before = int(counter.numpy())

    def __enter__(self) -> int:
        self._set(self.before + 1)
        return self.before + 1

    def __exit__(self, kind: object, *exception: object) -> None:
        if kind is not None:
            self._set(self.before)

    def _set(self, value: int) -> None:
        with outside_trace():
            self.counter.assign(value)


def _untracked(value: Value) -> Value:
    """Wraps a value so that an attribute can hold it without an edge of the object graph."""
    return cast(Value, NoDependency(value))


def _serialized_graph(reader: bundle.Reader) -> bytes:
    value = reader.get_tensor(object_graph.GRAPH_KEY)
    return value if isinstance(value, bytes) else b""


def _inside_saved_model(path: PathLike | None) -> PathLike | None:
    """Returns the prefix of the checkpoint in a saved model's folder; other paths unchanged."""
    if path is None or not any(os.path.exists(os.path.join(path, name)) for name in SAVED_MODELS):
        return path
    return os.path.join(path, "variables", "variables")


def _check_trackable(value: Any, name: str) -> None:
    """Raises ValueError if an object that a checkpoint should save is not trackable.

    ``name`` is its argument's name.
    """
    if not isinstance(value, Trackable):
        raise ValueError(
            f"`Checkpoint` was expecting {name} to be a trackable object (an object derived from `Trackable`), got "
            f"{value!r} of type {type(value).__name__}. Pass a Variable, Module, Optimizer, or a list or dict of them."
        )
