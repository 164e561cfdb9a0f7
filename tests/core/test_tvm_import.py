"""TVM is imported without what tvtf doesn't need, wherever tvtf first names it; other imports are found by Python."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest
from covering import covering
from fork_server import ForkServer

FLOWS = {
    "a function": "tf.function(lambda x: x + 1, autograph=False)(tf.ones(2))",
    "a heavy eager op": "tf.nn.conv2d(tf.ones((8, 64, 64, 16)), tf.ones((3, 3, 16, 32)), 1, 'SAME')",
    "a pipeline": "list(tf.data.Dataset.range(3).map(tf.square))",
    "a graph": "tf.Graph().as_default()",
    "devices": "tf.config.list_physical_devices()",
    "a saved model's reader": "tf.saved_model.load",
    "ONNX": "from tvtf import onnx; onnx.export",
    "a map": "tf.vectorized_map(tf.square, tf.ones(3))",
}


def run(program: str, folder: object) -> str:
    """Runs a program with a package called torch, which prints when it is imported; returns what is printed."""
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r})\n{textwrap.dedent(program)}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.fixture
def torch(tmp_path):
    package = tmp_path / "torch"
    package.mkdir()
    # As little as tvm_ffi asks of PyTorch.
    (package / "__init__.py").write_text("print('torch'); import types; Tensor = dtype = type('T', (), {})\n")
    return tmp_path


@pytest.fixture(scope="module")
def server():
    with ForkServer("import sys\nimport tvtf as tf\n") as started:
        yield started


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS.keys())
def test_tvtf_imports_tvm_without_torch(server, torch, flow):
    program = f"sys.path.insert(0, {str(torch)!r}); {flow}\nprint('tvm' in sys.modules, 'torch' in sys.modules)"
    done = server.run(program, torch)
    assert done.stdout.strip() == "True False", done.stderr


def test_torch_is_there_afterwards_and_in_other_threads_meanwhile(torch):
    printed = run(
        """
        import threading
        from tvtf.core import tvm_import
        def load():
            import torch
        with tvm_import._quick_import():
            thread = threading.Thread(target=load)
            thread.start()
            thread.join()
        del sys.modules["torch"]
        with tvm_import._quick_import():
            try:
                import torch
            except ImportError as error:
                print(error)
        import torch
        """,
        torch,
    )
    assert printed.splitlines() == ["torch", "tvtf imports TVM without torch", "torch"]


def test_the_loader_and_the_environment_are_as_if_python_had_imported_tvm(torch):
    printed = run(
        """
        import gc, os, tvtf as tf
        tf.function(lambda x: x + 1, autograph=False)(tf.ones(2))
        import tvm, tvm_ffi
        print(*(type(m.__spec__.loader).__name__ + type(m.__loader__).__name__ for m in (tvm, tvm_ffi)))
        print(gc.isenabled(), os.environ.get("TVM_DEVICE_BACKEND_AUTOLOAD"), len(tvm.__file__) > 0)
        """,
        torch,
    )
    loaders = "SourceFileLoaderSourceFileLoader"
    assert printed.splitlines() == [f"{loaders} {loaders}", "True None True"]


def test_finding_tvm_is_left_to_python_where_others_import_it():
    printed = run(
        """
        import tvtf
        from importlib.util import find_spec
        print(type(find_spec("tvm").loader).__name__)
        """,
        "",
    )
    assert printed == "SourceFileLoader"


INTERRUPTED = """
    import os, signal, threading, tvtf as tf
    {weights}
    threading.Timer({delay}, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    try:
        {first}
        threading.Event().wait(20)
    except KeyboardInterrupt:
        print("interrupted", end=" ")
    print(float(tf.reduce_sum(tf.function(lambda x: tf.nn.conv2d(x, weights, 1, "SAME"))(tf.ones((1, 19, 21, 8))))) != 0)
"""


@covering(
    first=["tf.config.list_physical_devices('GPU')", "tf.nn.conv2d(tf.ones((1, 99, 99, 8)), weights, 1, 'SAME')"],
    delay=[0.03, 0.1, 0.2],
)
def test_ctrl_c_during_the_import_leaves_tvm_usable(first, delay):
    weights = "weights = tf.ones((3, 3, 8, 8))"
    # Shells start jobs in the background with Ctrl-C ignored.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + textwrap.dedent(INTERRUPTED)
    assert run(program.format(weights=weights, first=first, delay=delay), "") == "interrupted True"
