"""Python called by compiled code: functions, printing, queues, parsing."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Returns names that old pickles look up here: the folder was a module once."""
    if name not in ("numpy_function", "py_function"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.python_call"), name)
