"""Exports trained functions as ONNX models, runs these in ONNX Runtime, and compares the results with tvtf's."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf

ERRORS_ONLY = 3
"""ONNX Runtime's log level for errors and above."""


def has_onnxruntime() -> bool:
    """Whether the ``train`` extra's ONNX Runtime is installed."""
    return importlib.util.find_spec("onnxruntime") is not None


def inference_difference(fn: Any, path: Path, *args: Any) -> float:
    """Exports a function of one result to ``path``; returns the largest difference of ONNX Runtime's result from tvtf's."""
    model = tf.onnx.export(fn, path=path)
    feeds = {value.name: arg.numpy() for value, arg in zip(model.graph.input, args)}
    return largest_difference(_run(path, feeds), [fn(*args).numpy()])


def step_difference(step: Any, path: Path, *args: Any) -> float:
    """Exports a training step to ONNX, runs it once there and in tvtf, and returns the largest difference.

    Its results and the Variables that it updates are compared; the Variables keep their values.
    """
    concrete = step.get_concrete_function(*args)
    model = tf.onnx.export(concrete, path=path)
    updated = [variable for variable, _ in concrete.results.updates]
    state = [v for v in concrete.captures if any(v is updated_variable for updated_variable in updated)]
    before = [v.numpy() for v in state]  # the step changes them, and ONNX's model takes them as inputs
    values = [arg.numpy() for arg in args] + before
    actual = _run(path, {value.name: array for value, array in zip(model.graph.input, values)})
    expected = [result.numpy() for result in step(*args)] + [v.numpy() for v in updated]
    for variable, value in zip(state, before):
        variable.assign(value)
    return largest_difference(actual, expected)


def largest_difference(first: Sequence[Any], second: Sequence[Any]) -> float:
    """Returns the largest absolute difference between two lists of arrays of equal shapes.

    >>> largest_difference([np.array([1.0, 2.0])], [np.array([1.0, 2.5])])
    0.5

    Raises:
      ValueError: the lists' lengths or the arrays' shapes differ.
    """
    for x, y in zip(first, second, strict=True):
        if np.shape(x) != np.shape(y):
            raise ValueError(f"results of shapes {np.shape(x)} and {np.shape(y)} can't be compared")
    return max(float(np.max(np.abs(np.subtract(x, y, dtype=np.float64)), initial=0.0)) for x, y in zip(first, second))


def _run(path: Path, feeds: dict[str, Any]) -> list[Any]:
    """Runs an ONNX model's file with ONNX Runtime on inputs by name; returns its outputs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # raised inside onnxruntime's own import
        import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERRORS_ONLY
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, {name: np.asarray(value) for name, value in feeds.items()}))
