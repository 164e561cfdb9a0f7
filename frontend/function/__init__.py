"""The call path of ``tf.function``: binds a call to a trace, compiles it, and runs it."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Returns names that old pickles look up here: the folder was a module once."""
    if name not in ("Function", "function"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.polymorphic_function"), name)
