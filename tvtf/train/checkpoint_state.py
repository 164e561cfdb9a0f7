"""Reads and writes the ``checkpoint`` file of a folder: text that lists its checkpoints and names the newest one.

Source: ``checkpoint_state.proto`` and ``tensorflow/python/checkpoint/checkpoint_management.py``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

from google.protobuf import text_format

from tvtf.core.log import logger
from tvtf.fileio import atomic_file
from tvtf.train import bundle
from tvtf.train.checkpoint_protos import CheckpointState

STATE_FILE: Final = "checkpoint"

PathLike = str | os.PathLike[str]


def get_checkpoint_state(checkpoint_dir: PathLike, latest_filename: str | None = None) -> Any:
    """Returns the state of a folder, with paths joined to the folder, or None if it is missing or can't be parsed.

    Args:
      checkpoint_dir: the folder.
      latest_filename: the name of the state file, ``checkpoint`` by default.

    Returns:
      A message with ``model_checkpoint_path``, ``all_model_checkpoint_paths``, ``all_model_checkpoint_timestamps`` and
      ``last_preserved_timestamp``, or None.

    Raises:
      ValueError: the file names no newest checkpoint.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> update_checkpoint_state(folder, folder + "/ckpt-1")
    >>> os.path.basename(get_checkpoint_state(folder).model_checkpoint_path)
    'ckpt-1'

    Source: https://www.tensorflow.org/api_docs/python/tf/train/get_checkpoint_state
    """
    folder = os.fspath(checkpoint_dir)
    path = os.path.join(folder, latest_filename or STATE_FILE)
    if not os.path.isfile(path):
        return None
    state = _parse(path)
    if state is not None and not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {folder}: {path} names no model_checkpoint_path.")
    return state and _with_joined_paths(state, folder)


def _parse(path: str) -> Any:
    """Reads a folder's state file, which lists its checkpoints.

    Logs a warning and returns None if it can't be parsed.
    """
    with atomic_file.named_failures(path, "read"), open(path, "rb") as file:
        content = file.read()
    try:
        return text_format.Parse(content.decode(), CheckpointState())
    except (text_format.ParseError, UnicodeDecodeError) as cause:
        logger.warning("%s: Checkpoint ignored, it can't be parsed: %s", path, cause)
        return None


def _with_joined_paths(state: Any, folder: str) -> Any:
    """Replaces the paths in a folder's checkpoint state, which may be relative to the folder, by joined ones."""
    state.model_checkpoint_path = os.path.join(folder, state.model_checkpoint_path)
    paths = [os.path.join(folder, path) for path in state.all_model_checkpoint_paths]
    del state.all_model_checkpoint_paths[:]
    state.all_model_checkpoint_paths.extend(paths)
    return state


def update_checkpoint_state(
    save_dir: PathLike,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] = (),
    all_model_checkpoint_timestamps: Sequence[float] = (),
    last_preserved_timestamp: float | None = None,
) -> None:
    """Writes the state file atomically, with paths relative to its folder.

    Args:
      save_dir: the folder.
      model_checkpoint_path: the newest checkpoint; it is appended to the list if it is not its last.
      all_model_checkpoint_paths: checkpoints from oldest to newest.
      all_model_checkpoint_timestamps: seconds since the epoch, one for each path.
      last_preserved_timestamp: the time of the last checkpoint that will never be deleted.

    Raises:
      ValueError: the numbers of paths and timestamps differ.
      RuntimeError: the newest checkpoint has the name of the state file.
      ResourceExhaustedError: the disk is full; the old file is unchanged.

    Source: https://www.tensorflow.org/api_docs/python/tf/compat/v1/train/update_checkpoint_state
    """
    folder = os.fspath(save_dir)
    paths = list(all_model_checkpoint_paths)
    if paths[-1:] != [model_checkpoint_path]:
        paths.append(model_checkpoint_path)
    _check_state_update(folder, model_checkpoint_path, paths, all_model_checkpoint_timestamps)
    state = CheckpointState(
        model_checkpoint_path=_relative(model_checkpoint_path, folder),
        all_model_checkpoint_paths=[_relative(path, folder) for path in paths],
        all_model_checkpoint_timestamps=list(all_model_checkpoint_timestamps),
        last_preserved_timestamp=last_preserved_timestamp,
    )
    atomic_file.replace(os.path.join(folder, STATE_FILE), text_format.MessageToString(state).encode())


def _check_state_update(folder: str, newest: str, paths: list[str], timestamps: Sequence[float]) -> None:
    """Checks the arguments of an update of a folder's state file.

    Raises:
      ValueError: the timestamps are not as many as the paths.
      RuntimeError: the newest checkpoint has the state file's name.
    """
    if timestamps and len(timestamps) != len(paths):
        raise ValueError(
            f"Checkpoint timestamps, if provided, must match checkpoint paths (got paths {paths} and timestamps "
            f"{list(timestamps)})"
        )
    if os.path.abspath(newest) == os.path.abspath(os.path.join(folder, STATE_FILE)):
        raise RuntimeError(
            f"Save path '{newest}' conflicts with path used for checkpoint state. Please use a different save path."
        )


def _relative(path: str, folder: str) -> str:
    """Returns a path relative to the folder, if both are absolute or both relative."""
    return os.path.relpath(path, folder) if os.path.isabs(path) == os.path.isabs(folder) else path


def latest_checkpoint(checkpoint_dir: PathLike, latest_filename: str | None = None) -> str | None:
    """Returns the prefix of a folder's newest checkpoint, or None.

    >>> latest_checkpoint("/no/such/folder") is None
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/train/latest_checkpoint
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    prefix = str(state.model_checkpoint_path)
    if os.path.exists(bundle.index_name(prefix)):
        return prefix
    logger.error("Couldn't match files for checkpoint %s", prefix)
    return None
