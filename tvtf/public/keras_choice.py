"""Decides whether ``import keras`` may mean Keras on tvtf, and whether ``tf.keras`` is Keras 2.

Source: https://keras.io/getting_started/#configuring-your-backend
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from tvtf.api.namespaces import OF_KERAS
from tvtf.public import tensorflow_view

KERAS = "keras"
_KERAS_2 = "tf_keras.api._v2.keras"
_LAYERS = "tf_keras.api._v1.keras.__internal__.legacy.layers"
OF_KERAS_2 = {
    "keras": _KERAS_2,
    **{name: f"{_KERAS_2}.{name}" for name in OF_KERAS},
    "compat.v1.keras": "tf_keras.api._v1.keras",
    "compat.v1.layers": _LAYERS,
}
"""The modules of Keras 2, the package ``tf_keras``, by the path in TensorFlow that they have where Keras 2 is chosen."""


def is_keras_2() -> bool:
    """Returns whether the user chose Keras 2 for ``tf.keras``, by the environment variable TF_USE_LEGACY_KERAS.

    Source: https://www.tensorflow.org/guide/keras
    """
    return os.environ.get("TF_USE_LEGACY_KERAS") in {"true", "True", "1"}


def layers_of_tensorflow_1() -> dict[str, str]:
    """Returns the module for the private modules of TensorFlow 1's layers, by path; none if tf_keras isn't installed."""
    paths = (f"python.layers.{name}" for name in ("base", "convolutional", "core", "normalization", "pooling"))
    return dict.fromkeys(paths, _LAYERS) if find_spec("tf_keras") else {}


def package_like_keras_2() -> str:
    """Returns the package for ``tensorflow.python.keras``, TensorFlow's copy of an early Keras 2.

    It is Keras 2 if the package ``tf_keras``, whose modules are those of the copy, is installed, or else Keras 3, whose public
    modules are named in the same way. A path below ``tensorflow.python.keras`` is what editors insert for names of Keras.
    """
    return "tvtf.keras" if find_spec("tf_keras") is None else "tf_keras.src"


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
