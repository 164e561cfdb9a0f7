"""Importing TVM, which takes most of the time in which a program starts: without what nobody asked for."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

AUTOLOAD = "TVM_DEVICE_BACKEND_AUTOLOAD"
"""TVM's switch for importing the code of every backend it knows; ``target.cuda_target`` loads the one it needs."""


def load_tvm() -> None:
    """Imports TVM, if that was not done: without its backends, and without looking for garbage where there is none yet."""
    if "tvm" in sys.modules:
        return
    asked = os.environ.get(AUTOLOAD)
    os.environ.setdefault(AUTOLOAD, "0")
    try:
        with without_collection():
            importlib.import_module("tvm")
    finally:
        if asked is None:
            del os.environ[AUTOLOAD]


@contextmanager
def without_collection() -> Iterator[None]:
    """Python doesn't look for garbage within: where much is made and kept, it looks in vain, again and again."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
