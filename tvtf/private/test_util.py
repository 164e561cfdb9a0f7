"""Names of ``tensorflow.python.framework.test_util``: tests that run in a graph and eagerly.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/framework/test_util.py
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from inspect import isclass
from typing import Any

import tvtf
from tvtf.public.test import TestCase

Test = Callable[..., Any]


def run_in_graph_and_eager_modes(func: Test | None = None, **_: Any) -> Any:
    """Decorates a test method to run twice: first in a TensorFlow 1 graph with a session, then eagerly."""

    def decorate(test: Test) -> Test:
        """Wraps a test method.

        Raises:
          ValueError: ``test`` is a class.
        """
        if isclass(test):
            raise ValueError(
                "`run_in_graph_and_eager_modes` only supports test methods. "
                "Did you mean to use `run_all_in_graph_and_eager_modes`?"
            )

        @wraps(test)
        def run_twice(self: Any, *args: Any, **kwargs: Any) -> None:
            """Runs the test in a graph, and then eagerly."""
            with suppress(unittest.SkipTest):  # the eager run reports that the test is skipped
                _run_in_graph(test, self, *args, **kwargs)
            self.tearDown()
            self.setUp()
            with tvtf.init_scope():
                test(self, *args, **kwargs)

        return run_twice

    return decorate if func is None else decorate(func)


def _run_in_graph(test: Test, self: Any, *args: Any, **kwargs: Any) -> None:
    """Runs a test method of the test case ``self`` in a new TensorFlow 1 graph, with a session."""
    with tvtf.Graph().as_default(), self.test_session():
        test(self, *args, **kwargs)
    self.__dict__.pop("_cached_session", None)  # the session belongs to this graph


def run_all_in_graph_and_eager_modes(cls: type) -> type:
    """Decorates a test case class: each of its test methods runs twice, in a TensorFlow 1 graph and eagerly."""
    for name in dir(cls):
        test = getattr(cls, name)
        if callable(test) and name.startswith(unittest.TestLoader.testMethodPrefix) and name != "test_session":
            setattr(cls, name, run_in_graph_and_eager_modes(test))
    return cls


def deprecated_graph_mode_only(func: Any = None) -> Any:
    """Decorates a test method, or all test methods of a class, to run only in a TensorFlow 1 graph."""
    if func is None:  # used as ``@deprecated_graph_mode_only()``
        return deprecated_graph_mode_only
    if isclass(func):
        for name in dir(func):
            test = getattr(func, name)
            if callable(test) and name.startswith(unittest.TestLoader.testMethodPrefix) and name != "test_session":
                setattr(func, name, deprecated_graph_mode_only(test))
        return func

    @wraps(func)
    def run_in_graph(self: Any, *args: Any, **kwargs: Any) -> None:
        with tvtf.Graph().as_default():
            func(self, *args, **kwargs)

    return run_in_graph


def _skipped(reason: str) -> Callable[..., Any]:
    """Returns a decorator that skips a test. The decorator can be used with or without a call, ``@skip`` or ``@skip()``."""

    def decorate(func: Any = None, *_: Any) -> Any:
        return decorate if func is None else unittest.skip(reason)(func)

    return decorate


def _unchanged(func: Any = None, *_: Any, **__: Any) -> Any:
    """Decorates a test without effect, in place of TensorFlow's decorators whose condition always holds in tvtf."""
    return func if callable(func) else _unchanged


def disable_all(reason: str) -> Callable[[Any], Any]:
    """Returns a decorator that skips a test, and reports the reason."""

    def decorate(func: Any = None) -> Any:
        return unittest.skip(reason)(func)

    return decorate


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    return bool(tvtf.config.list_physical_devices("GPU"))


NAMES: dict[str, dict[str, Any]] = {
    "python.framework.test_util": {
        "IsBuiltWithROCm": lambda: False,
        "InstallStackTraceHandler": lambda: None,
        "TensorFlowTestCase": TestCase,
        "build_as_function_and_v1_graph": run_in_graph_and_eager_modes,
        "deprecated_graph_mode_only": deprecated_graph_mode_only,
        "disable_cudnn_autotune": _unchanged,
        "disable_xla": disable_all,
        "enable_control_flow_v2": _unchanged,
        "enable_eager_op_as_function": _unchanged,
        "enable_v2": _unchanged,
        "is_gpu_available": is_gpu_available,
        "is_xla_enabled": lambda: False,
        "run_all_in_graph_and_eager_modes": run_all_in_graph_and_eager_modes,
        "run_all_in_deprecated_graph_mode_only": deprecated_graph_mode_only,
        "run_deprecated_v1": deprecated_graph_mode_only,
        "run_in_graph_and_eager_modes": run_in_graph_and_eager_modes,
        "run_v1_only": lambda reason, func=None: _skipped(reason) if func is None else _skipped(reason)(func),
        "run_v2_only": _unchanged,
        "skip_if_error": _unchanged,
        "with_control_flow_v2": _unchanged,
        "xla_allow_fallback": lambda reason: _unchanged,
    },
}
