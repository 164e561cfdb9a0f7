"""The call path of ``tf.function``: a call is bound to a trace, which is compiled and run."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Names that old pickles look up here: the folder was a module once."""
    if name not in ("Function", "function"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.polymorphic_function"), name)
