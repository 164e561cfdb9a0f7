"""Reads checkpoints without the program that wrote them."""

from __future__ import annotations

import os
from typing import Any

from tvtf.train.bundle import Reader
from tvtf.train.checkpoint_state import PathLike, latest_checkpoint


def load_checkpoint(ckpt_dir_or_file: PathLike) -> Reader:
    """Opens a checkpoint, or the newest one of a folder.

    Args:
      ckpt_dir_or_file: a prefix or a folder.

    Returns:
      A reader with ``get_tensor(key)``, ``has_tensor(key)``, ``get_variable_to_shape_map()`` and
      ``get_variable_to_dtype_map()``.

    Raises:
      ValueError: the folder has no checkpoint.
      NotFoundError: no checkpoint has this prefix.
      DataLossError: the checkpoint is damaged.

    >>> import tempfile
    >>> from tvtf.train import bundle
    >>> prefix = tempfile.mkdtemp() + "/ckpt"
    >>> bundle.write(prefix, {"step": 3})
    >>> load_checkpoint(prefix).get_tensor("step")
    array(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/train/load_checkpoint
    """
    return Reader(_find(os.fspath(ckpt_dir_or_file)))


def _find(path: str) -> str:
    """Returns the prefix of a folder's newest checkpoint; a path that is no folder is a prefix already."""
    if not os.path.isdir(path):
        return path
    newest = latest_checkpoint(path)
    if newest is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}")
    return newest


def list_variables(ckpt_dir_or_file: PathLike) -> list[tuple[str, list[int]]]:
    """Returns (key, shape) of each array of a checkpoint, sorted by key; see `load_checkpoint` for the errors.

    >>> import tempfile
    >>> from tvtf.train import bundle
    >>> prefix = tempfile.mkdtemp() + "/ckpt"
    >>> bundle.write(prefix, {"step": 3, "rates": [0.5, 0.25]})
    >>> list_variables(prefix)
    [('rates', [2]), ('step', [])]

    Source: https://www.tensorflow.org/api_docs/python/tf/train/list_variables
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: PathLike, name: str) -> Any:
    """Returns one array of a checkpoint; a suffix ``:0`` of the name is ignored.

    Raises:
      NotFoundError: the checkpoint has no such key.

    >>> import tempfile
    >>> from tvtf.train import bundle
    >>> prefix = tempfile.mkdtemp() + "/ckpt"
    >>> bundle.write(prefix, {"step": 3})
    >>> load_variable(prefix, "step:0")
    array(3)

    Source: https://www.tensorflow.org/api_docs/python/tf/train/load_variable
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))
