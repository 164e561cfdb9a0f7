"""A plugin for pytest that has Keras's own tests run on tvtf: ``pytest -p tests.keras.on_tvtf --assert=plain --pyargs keras``."""

import sys
from types import ModuleType

import pytest

import tvtf.keras  # noqa: F401  # before a test imports Keras

MARKS = ("requires_trainable_backend", "skipif_backend", "multi_device", "uses_pydataset", "openvino")


def pytest_configure(config):
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: Keras's")


def skip_if_backend(given_backend, reason):
    return pytest.mark.skipif(given_backend == "tensorflow", reason=reason)


# Keras's repository has a file of this name at its root, from which tests import; its wheel doesn't.
_conftest = ModuleType("conftest")
_conftest.skip_if_backend = skip_if_backend
sys.modules.setdefault("conftest", _conftest)
