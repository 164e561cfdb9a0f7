"""TensorBoard's messages: its package is an extra."""

from __future__ import annotations

import importlib
from typing import Any


def proto(name: str) -> Any:
    """A module of ``tensorboard`` by its name within the package.

    Raises:
      ImportError: the extra is not installed.
    """
    try:
        return importlib.import_module(f"tensorboard.{name}")
    except ModuleNotFoundError as error:
        if error.name != "tensorboard":
            raise
        raise ImportError("tf.summary writes TensorBoard's messages: pip install 'tvtf[tensorboard]'") from None
