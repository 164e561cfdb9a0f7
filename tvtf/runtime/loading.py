"""Loads native libraries so that they are unloaded after their last use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm_ffi


def load_library(path: Path) -> Any:
    """Loads a library file of any name as a module; it is unloaded when the last reference to the module is gone.

    ``tvm_ffi.load_module`` by default keeps a library loaded until the process ends.
    """
    return tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(str(path), "so")
