"""Hooks by which ``onnx.export`` accepts models: a library adds a function that converts its models to functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

finders: list[Callable[[Any, Any], tuple[Any, Any] | None]] = []
"""``(value, arguments) -> (function, arguments) | None``; None if the value is no model of the library."""


def function_of_model(value: Any, arguments: Any) -> tuple[Any, Any]:
    """Returns the function of a library's model, such as one of Keras, and the arguments to trace it with.

    A value that no library recognizes as a model is returned unchanged, with its arguments.
    """
    found = (find(value, arguments) for find in finders)
    return next((each for each in found if each is not None), (value, arguments))
