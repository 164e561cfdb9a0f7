"""Importing TVM, which takes most of the time in which a program starts: without what nobody asked for."""

from __future__ import annotations

import gc
import importlib
import os
import sys

AUTOLOAD = "TVM_DEVICE_BACKEND_AUTOLOAD"
"""TVM's switch for importing the code of every backend it knows; ``target.cuda_target`` loads the one it needs."""


def load_tvm() -> None:
    """Imports TVM, if that was not done: without its backends, and without looking for garbage where there is none yet."""
    if "tvm" in sys.modules:
        return
    asked, collects = os.environ.get(AUTOLOAD), gc.isenabled()
    os.environ.setdefault(AUTOLOAD, "0")
    gc.disable()
    try:
        importlib.import_module("tvm")
    finally:
        if asked is None:
            del os.environ[AUTOLOAD]
        if collects:
            gc.enable()
