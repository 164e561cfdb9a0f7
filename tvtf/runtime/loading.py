"""Loading native code so that it is unloaded when it is not used any more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tvm_ffi


def load_library(path: Path) -> Any:
    """The module in a file of any name; what it maps is given back when nobody holds it any more.

    ``tvm_ffi.load_module`` would hold it until the process ends, by default.
    """
    return tvm_ffi.get_global_func("ffi.Module.load_from_file.so")(str(path), "so")
