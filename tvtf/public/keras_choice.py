"""Decides whether ``import keras`` may mean Keras on tvtf.

Source: https://keras.io/getting_started/#configuring-your-backend
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tvtf.public import tensorflow_view

KERAS = "keras"


def is_free() -> bool:
    """Returns whether ``import keras`` may load Keras on tvtf.

    It may not if Keras is imported already, if TensorFlow itself is installed, or if another backend is chosen.
    """
    return KERAS not in sys.modules and _is_tensorflow_tvtf() and chosen_backend() == "tensorflow"


def _is_tensorflow_tvtf() -> bool:
    """Returns whether ``import tensorflow`` can't import TensorFlow itself: it is not installed, or replaced by tvtf."""
    return sys.modules.get("tensorflow") is tensorflow_view.find("tensorflow") or find_spec("tensorflow") is None


def chosen_backend() -> str:
    """Returns the name of the backend that the user chose for Keras, ``"tensorflow"`` by default.

    It is read from the environment variable KERAS_BACKEND, or from Keras's configuration file.
    """
    if "KERAS_BACKEND" in os.environ:
        return os.environ["KERAS_BACKEND"]
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    try:
        return str(json.loads(Path(home, "keras.json").read_text(encoding="utf-8"))["backend"])
    except (OSError, ValueError, KeyError, TypeError):  # there is no file, or it has no backend
        return "tensorflow"
