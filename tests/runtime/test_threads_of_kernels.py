"""The threads of parallel kernels: every task once, errors brought to the caller, several callers, forks."""

import ctypes
import os
import platform
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pool_writer
import pytest

from tvtf.runtime import pool

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() not in pool._MACHINES, reason="TVM's own pool runs here"
)
THREADS = 4
KERNEL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """A pool of this module's own, whatever cores there are."""
    file = tmp_path_factory.mktemp("pool") / "threads.so"
    pool._build(pool._source(), file)
    library = ctypes.CDLL(str(file))
    pool._configure(library, THREADS)
    return library


def test_the_code_is_that_of_the_c_file():
    """By the digest of pool.c, and where the clang that wrote it is there by its text."""
    text = pool_writer.TRANSLATED.read_text()
    assert text.startswith(pool_writer.head()), "run make pool"
    assert pool_writer.translated() in (None, text)


def launch(library, run, tasks=0):
    """Runs ``run(task, count)`` as a kernel would be; its result is the kernel's status."""

    def kernel(task, environment, _):
        return run(task, (environment[1] or 0) & 0xFFFFFFFF) or 0

    return library.tvtf_pool_launch(KERNEL(kernel), None, tasks)


@pytest.mark.parametrize("requested, count", [(0, THREADS), (1, 1), (3, 3), (1000, 1000), (70_000, 70_000)])
def test_every_task_runs_once(library, requested, count):
    seen = []
    assert launch(library, lambda task, n: seen.append((task, n)), requested) == 0
    assert sorted(seen) == [(task, count) for task in range(count)]


def test_tasks_run_at_the_same_time(library):
    together = threading.Barrier(THREADS)
    launch(library, lambda *_: together.wait(30) and None)
    assert not together.broken


def test_a_blocked_thread_does_not_delay_others(library):
    """The caller begins what others have not; one task is kept back by another thread until all others are done."""
    rest = threading.Event()
    done, here = [], threading.get_ident()

    def run(task, count):
        if threading.get_ident() != here and not rest.is_set() and not done.count("kept"):
            done.append("kept")
            rest.wait(30)
        else:
            time.sleep(0.001)
            done.append(task)
            if len(done) == count:
                rest.set()

    launch(library, run, 40)
    assert rest.is_set() and len(done) == 40


def test_an_error_comes_to_the_caller(library):
    """Kernels leave their error with the thread that met it."""
    raised = ctypes.CDLL(None).TVMFFIErrorSetRaisedFromCStr

    def run(task, _):
        if task == 2:
            raised(b"ValueError", b"task two")
        return -(task == 2)

    assert launch(library, run) == -1
    place = ctypes.c_void_p()
    ctypes.CDLL(None).TVMFFIErrorMoveFromRaised(ctypes.byref(place))
    assert place.value
    assert launch(library, lambda *_: 0) == 0


def test_callers_beside_each_other(library):
    """More of them than jobs that the pool holds at once."""
    seen: list[Counter] = [Counter() for _ in range(16)]

    def call(own):
        for _ in range(20):
            launch(library, lambda task, n: own.update([task] * (THREADS // n)))

    callers = [threading.Thread(target=call, args=(own,)) for own in seen]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert [own.total() for own in seen] == [20 * THREADS] * 16


def test_a_kernel_within_a_kernel(library):
    seen = []
    launch(library, lambda task, _: launch(library, lambda inner, _: seen.append((task, inner))))
    assert len(seen) == len(set(seen)) == THREADS**2


def test_sleeping_threads_wake(library):
    launch(library, lambda *_: None)
    time.sleep(0.05)
    together = threading.Barrier(THREADS)
    launch(library, lambda *_: together.wait(30) and None)
    assert not together.broken


PROGRAM = """
    import os, signal, sys
    import tvtf as tf

    product = tf.function(lambda x: tf.matmul(x, x), autograph=False)
    x = tf.ones([256, 256])

    def is_right():
        return float(product(x)[3, 5]) == 256.0

    assert is_right()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        os._exit(0 if is_right() and len(os.listdir("/proc/self/task")) > 1 else 3)
    _, status = os.waitpid(child, 0)
    print(is_right(), status)
"""


def test_a_forked_child_has_threads_of_its_own(own_cache):
    done = subprocess.run(
        # Python 3.12 and later warn of any fork beside threads.
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", textwrap.dedent(PROGRAM)],
        env=os.environ | {"TVTF_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout.strip(), done.stderr) == ("True 0", "")
