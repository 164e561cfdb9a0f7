"""A plugin for pytest that has Keras's own tests run on tvtf: ``pytest -p tests.keras.on_tvtf --assert=plain --pyargs keras``."""

import importlib.util
import socket
import sys
from types import ModuleType

import pytest

import tvtf.keras  # noqa: F401  # before a test imports Keras
from tvtf import private
from tvtf.public import tensorflow_view

MARKS = ("requires_trainable_backend", "skipif_backend", "multi_device", "uses_pydataset", "openvino")
OTHER_PACKAGES = (
    "torch",
    "orbax",
    "orbax_checkpoint",
    "tensorflow",
    "tf2onnx",
    "jax2onnx",
    "onnxruntime",
    "ai_edge_litert",
    "litert_torch",
)
"""What some tests compare with or write for, and Keras does without: where it isn't installed, they don't count."""
TWO_DEVICES = "it wants several devices, and tvtf runs a program on one"
EXPECTED = {
    "test_legacy_load_skips_missing_nested_containers": "it reads a file that Keras's repository has, and its wheel lacks",
    "test_variable_numpy_scalar": TWO_DEVICES,
    "test_swap_ema_weights_with_tf_distribute": TWO_DEVICES,
    "test_moments_sync_with_distribution_strategy0": TWO_DEVICES,
    "test_moments_sync_with_distribution_strategy1": TWO_DEVICES,
}
"""Tests that fail, by the end of their name, with the reason."""
EXPECTED_IN = {
    "backend/jax/distribution_lib_test.py": "it wants four of JAX's devices",
    "backend/tensorflow/distribute_test.py": TWO_DEVICES,
    "backend/tensorflow/optimizer_distribute_test.py": TWO_DEVICES,
}
"""Files whose tests fail, each of them, by the end of the path, with the reason."""


def pytest_configure(config):
    tensorflow_view.add(private.names(), private.BEHIND)  # tests name some of TensorFlow's private modules
    for mark in MARKS:
        config.addinivalue_line("markers", f"{mark}: Keras's")


def pytest_ignore_collect(collection_path):
    """Files that import another package at their head."""
    return True if "torch" in collection_path.name and importlib.util.find_spec("torch") is None else None


def pytest_collection_modifyitems(items):
    for item in items:
        reasons = [reason for name, reason in EXPECTED.items() if item.name.endswith(name)]
        reasons += [reason for path, reason in EXPECTED_IN.items() if item.path.as_posix().endswith(path)]
        for reason in reasons:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=False))


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector):
    """Files that import such a package where they begin."""
    report = (yield).get_result()
    if report.failed:
        _skip_for_what_is_missing(report, collector.path, report.call.excinfo.value.__cause__)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if report.failed and call.excinfo is not None:
        _skip_for_what_is_missing(report, item.path, call.excinfo.value)


def _skip_for_what_is_missing(report, path, error):
    """Counts a test neither way that wants a package or a file of the network which can't be had here."""
    wanted = _package_wanted(error)
    reason = f"it needs {wanted}, which isn't installed" if wanted else _file_wanted(error)
    if reason:
        report.outcome = "skipped"
        report.longrepr = (str(path), 0, f"Skipped: {reason}")


def _file_wanted(error):
    """That a test downloads something, as trained weights, where the host's name can't even be resolved."""
    cause = error
    while cause is not None and not isinstance(cause, socket.gaierror):
        cause = cause.__cause__ or cause.__context__
    return None if cause is None else f"there is no network: {error}"


def _package_wanted(error):
    """The package that a test is for, and that isn't installed."""
    if not isinstance(error, ImportError):
        return None
    message = (error.name or "", *str(error).replace("`", " ").replace("'", " ").split())
    found = (word.partition(".")[0].replace("-", "_") for word in message)
    return next((name for name in found if name in OTHER_PACKAGES and importlib.util.find_spec(name) is None), None)


def skip_if_backend(given_backend, reason):
    return pytest.mark.skipif(given_backend == "tensorflow", reason=reason)


# Keras's repository has a file of this name at its root, from which tests import; its wheel doesn't.
_conftest = ModuleType("conftest")
_conftest.skip_if_backend = skip_if_backend
sys.modules.setdefault("conftest", _conftest)
