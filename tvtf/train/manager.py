"""Defines `CheckpointManager`, which keeps the newest checkpoints of a folder and deletes older ones."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable
from typing import Any, Final

from tvtf.core.log import logger
from tvtf.errors import DataLossError, NotFoundError
from tvtf.fileio import atomic_file
from tvtf.train import bundle, checkpoint_state
from tvtf.train.checkpoint import Checkpoint, CheckpointOptions, PathLike

SECONDS_AN_HOUR: Final = 3600.0


class CheckpointManager:
    """Numbers, lists and deletes the checkpoints of one folder.

    Args:
      checkpoint: the `Checkpoint` to save.
      directory: the folder; its ``checkpoint`` file stores the list across restarts.
      max_to_keep: the number of checkpoints to keep; None keeps all.
      keep_checkpoint_every_n_hours: a checkpoint that would be deleted is preserved for ever if the last preserved one is
        at least this much older.
      checkpoint_name: start of the file names.
      step_counter: an integer variable that counts training steps.
      checkpoint_interval: save only if this many steps have passed since the last checkpoint.
      init_fn: called by `restore_or_initialize` when there is no checkpoint.
      last_checkpoint_step: the step of the last checkpoint, for ``checkpoint_interval``.

    Raises:
      ValueError: ``max_to_keep`` is not positive, or there is an interval without a step counter.

    >>> import tempfile
    >>> from tvtf.state.module import Module
    >>> manager = CheckpointManager(Checkpoint(model=Module()), tempfile.mkdtemp(), max_to_keep=3)
    >>> manager.restore_or_initialize() is None, manager.checkpoints
    (True, [])

    Source: https://www.tensorflow.org/api_docs/python/tf/train/CheckpointManager
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        directory: PathLike,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ) -> None:
        """Manages the checkpoints in ``directory``, including those that its state file lists."""
        _check_arguments(max_to_keep, checkpoint_interval, step_counter)
        self._checkpoint = checkpoint
        self._directory = os.fspath(directory)
        self._max_to_keep, self._keep_hours = max_to_keep, keep_checkpoint_every_n_hours
        self._prefix = os.path.join(self._directory, checkpoint_name)
        self._step_counter, self._interval, self._last_step = step_counter, checkpoint_interval, last_checkpoint_step
        self._init_fn = init_fn
        self._active: dict[str, float] = {}
        self._latest: str | None = None
        self._last_preserved = time.time() - 1.0
        self._recover(checkpoint_state.get_checkpoint_state(self._directory))

    def _recover(self, recorded: Any) -> None:
        """Takes over the checkpoints that an earlier process recorded in the folder's state file.

        Checkpoints that are not newer than the last preserved checkpoint are left out, so they are never deleted. A
        timestamp in the future counts as the current time.
        """
        if recorded is None:
            return
        now = time.time()
        self._latest = recorded.model_checkpoint_path
        self._last_preserved = min(recorded.last_preserved_timestamp, now)
        paths = recorded.all_model_checkpoint_paths
        # Files of older versions of TensorFlow have no timestamps.
        timestamps = recorded.all_model_checkpoint_timestamps or [self._last_preserved] * len(paths)
        paths_and_times = ((path, min(timestamp, now)) for path, timestamp in zip(paths, timestamps))
        self._active = {path: timestamp for path, timestamp in paths_and_times if timestamp > self._last_preserved}

    @property
    def directory(self) -> str:
        """The folder."""
        return self._directory

    @property
    def checkpoint(self) -> Checkpoint:
        """The `Checkpoint` that is saved."""
        return self._checkpoint

    @property
    def checkpoint_interval(self) -> int | None:
        """The least number of steps between two checkpoints."""
        return self._interval

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the newest checkpoint, or None."""
        return self._latest

    @property
    def checkpoints(self) -> list[str]:
        """The prefixes of the checkpoints that may still be deleted, from oldest to newest."""
        return list(self._active)

    def save(
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Saves a checkpoint, records it in the folder's state file, then deletes surplus ones.

        Args:
          checkpoint_number: an integer or integer variable for the name, by default the checkpoint's `save_counter`.
          check_interval: save only if ``checkpoint_interval`` steps have passed.
          options: see `CheckpointOptions`.

        Returns:
          The prefix written, or None if no save was due.

        Raises:
          ResourceExhaustedError: the disk is full; all older checkpoints are unchanged.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/CheckpointManager#save
        """
        step = self._step_now()
        if step is not None and not self._is_due(step, check_interval):
            return None
        with self._checkpoint._counted() as counter:
            number = counter if checkpoint_number is None else _as_int(checkpoint_number)
            path = self._checkpoint.write(f"{self._prefix}-{number}", options)
            self._record(path)
        self._last_step = step
        return path

    def _step_now(self) -> int | None:
        return None if self._interval is None else _as_int(self._step_counter)

    def _is_due(self, step: int, check_interval: bool) -> bool:
        if self._last_step is None or self._interval is None:
            return True
        return step != self._last_step and not (check_interval and step < self._last_step + self._interval)

    def _record(self, path: str) -> None:
        """Records a new checkpoint in the folder's state file, and deletes the oldest ones above ``max_to_keep``.

        The state file is written before old checkpoints are deleted. Thus it always lists the newest checkpoint.
        """
        self._active.pop(path, None)
        self._active[path] = time.time()
        self._latest = path
        self._write_state()
        if self._delete_surplus():
            self._write_state()

    def _write_state(self) -> None:
        """Writes the folder's state file, which lists the checkpoints and their times."""
        checkpoint_state.update_checkpoint_state(
            self._directory,
            self._latest or "",
            list(self._active),
            list(self._active.values()),
            self._last_preserved,
        )

    def _delete_surplus(self) -> bool:
        """Deletes the oldest checkpoints until ``max_to_keep`` are left, and returns whether there were more.

        With ``keep_checkpoint_every_n_hours``, a checkpoint that much newer than the last preserved one is preserved,
        too.
        """
        surplus = len(self._active) - (self._max_to_keep or len(self._active))
        for path in list(self._active)[: max(surplus, 0)]:
            timestamp = self._active.pop(path)
            if self._keep_hours and timestamp - self._keep_hours * SECONDS_AN_HOUR >= self._last_preserved:
                self._last_preserved = timestamp
            else:
                _delete(path)
        return surplus > 0

    def restore_or_initialize(self) -> str | None:
        """Restores the newest undamaged checkpoint, or calls ``init_fn`` if there is no checkpoint.

        A damaged checkpoint is logged, and the previous one is tried. TensorFlow leaves that to the user.

        Returns:
          The prefix restored, or None.

        Raises:
          DataLossError: every checkpoint is damaged; nothing was restored.
          NotFoundError: every checkpoint is damaged, and files of the newest are missing.

        Source: https://www.tensorflow.org/api_docs/python/tf/train/CheckpointManager#restore_or_initialize
        """
        if self._latest is None:
            if self._init_fn is not None:
                self._init_fn()
            return None
        path = self._restore_first_undamaged(dict.fromkeys([self._latest, *reversed(self._active)]))
        self._last_step = self._step_now()
        return path

    def _restore_first_undamaged(self, paths: dict[str, None]) -> str:
        """Restores the first undamaged checkpoint among ``paths``, and returns the checkpoint's prefix.

        If the newest checkpoint is damaged, only the training since the previous one is lost. If all checkpoints are
        damaged, the first error is raised.
        """
        failures: list[Exception] = []
        for path in paths:
            try:
                self._checkpoint.restore(path)
            except (DataLossError, NotFoundError) as failure:
                logger.warning("%s can't be restored, trying the previous one: %s", path, failure)
                failures.append(failure)
            else:
                return path
        raise failures[0]


def _check_arguments(max_to_keep: int | None, interval: int | None, step_counter: Any) -> None:
    if max_to_keep is not None and max_to_keep <= 0:
        raise ValueError(f"Expected a positive integer or `None` for `max_to_keep`, got {max_to_keep}.")
    if interval is not None and step_counter is None:
        raise ValueError("`step_counter` should be passed if `checkpoint_interval` is not None.")


def _as_int(number: Any) -> int:
    return int(number.numpy() if hasattr(number, "numpy") else number)


def _delete(prefix: str) -> None:
    """Deletes a checkpoint; its index is removed first, because data files without an index are no checkpoint."""
    atomic_file.remove(bundle.index_name(prefix))
    for path in glob.glob(glob.escape(prefix) + ".data-?????-of-?????"):
        atomic_file.remove(path)
