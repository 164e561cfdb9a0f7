"""``tf.saved_model``: saves and loads models that run without their Python code.

A saved model is a folder with a description of the objects and functions (``saved_model.json``: the IR, with checksums), the
Variables as a checkpoint in TensorFlow's format (``variables/``), assets, and optionally compiled libraries.

Source: https://www.tensorflow.org/api_docs/python/tf/saved_model
"""

from __future__ import annotations

import os
import sys as _sys
from typing import Any

from tvtf.api.namespaces import install as _install
from tvtf.api.namespaces import make_lazy as _make_lazy
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved import layout
from tvtf.saved.asset import Asset
from tvtf.saved.reader import LoadOptions, load
from tvtf.saved.signatures import DEFAULT as DEFAULT_SERVING_SIGNATURE_DEF_KEY
from tvtf.saved.writer import SaveOptions, save

ASSETS_DIRECTORY = layout.ASSETS
ASSETS_KEY = "saved_model_assets"
CLASSIFY_INPUTS = "inputs"
CLASSIFY_METHOD_NAME = "tensorflow/serving/classify"
CLASSIFY_OUTPUT_CLASSES = "classes"
CLASSIFY_OUTPUT_SCORES = "scores"
DEBUG_DIRECTORY = "debug"
DEBUG_INFO_FILENAME_PB = "saved_model_debug_info.pb"
GPU = "gpu"
PREDICT_INPUTS = "inputs"
PREDICT_METHOD_NAME = "tensorflow/serving/predict"
PREDICT_OUTPUTS = "outputs"
REGRESS_INPUTS = "inputs"
REGRESS_METHOD_NAME = "tensorflow/serving/regress"
REGRESS_OUTPUTS = "outputs"
SAVED_MODEL_FILENAME_PB = "saved_model.pb"
SAVED_MODEL_FILENAME_PBTXT = "saved_model.pbtxt"
SAVED_MODEL_SCHEMA_VERSION = 1
SERVING = "serve"
TPU = "tpu"
TRAINING = "train"
VARIABLES_DIRECTORY = "variables"
VARIABLES_FILENAME = "variables"


def contains_saved_model(export_dir: Any) -> bool:
    """Returns whether a folder contains a model that `load` can read.

    >>> contains_saved_model("/nowhere")
    False

    Source: https://www.tensorflow.org/api_docs/python/tf/saved_model/contains_saved_model
    """
    return os.path.isfile(os.path.join(os.fspath(export_dir), layout.FILE))


__all__ = [
    "DEFAULT_SERVING_SIGNATURE_DEF_KEY",
    "Asset",
    "LoadOptions",
    "SaveOptions",
    "SavedModuleError",
    "contains_saved_model",
    "load",
    "save",
    *(name for name in dir() if name.isupper()),
]
_make_lazy(_sys.modules[__name__], "saved_model")
_install()
