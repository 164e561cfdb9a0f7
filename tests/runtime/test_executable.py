"""Libraries loaded from disk: a machine per thread, errors that end in an exception."""

import threading

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.dlpack_view import tensor_of, to_handle
from tvtf.frontend.function.executor import executable_for
from tvtf.runtime.executable import Executable


@pytest.fixture(scope="module")
def doubled():
    concrete = tf.function(lambda x: x * 2.0, autograph=False).get_concrete_function(tf.TensorSpec([None]))
    return executable_for(concrete.module())


def call(executable, values):
    (found,) = executable.function()(to_handle(np.array(values, np.float32)))
    return tensor_of(found).numpy().tolist()


def test_a_call_returns_tensors(doubled):
    assert call(doubled, [1.0, 2.0]) == [2.0, 4.0]


def test_the_function_is_made_once_per_thread(doubled):
    here = [doubled.function(), doubled.function()]
    there = []
    thread = threading.Thread(target=lambda: there.append(doubled.function()))
    thread.start()
    thread.join()
    assert here[0] is here[1]
    assert here[0] is not there[0]


def test_threads_have_their_own_machines(doubled):
    wrong = []

    def work(n):
        for _ in range(50):
            if call(doubled, [n] * (n + 1)) != [2.0 * n] * (n + 1):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_an_error_leaves_the_machine_usable(doubled):
    with pytest.raises(Exception, match="does not|mismatch|ndim|shape"):
        doubled.function()(to_handle(np.zeros((2, 2), np.float32)))
    assert call(doubled, [3.0]) == [6.0]


def test_a_file_that_is_no_library(tmp_path):
    bad = tmp_path / "bad.so"
    bad.write_bytes(b"no library")
    with pytest.raises((RuntimeError, OSError)):
        Executable(bad)


def test_results_outlive_their_executable():
    concrete = tf.function(lambda x: x - 5.0, autograph=False).get_concrete_function(tf.TensorSpec([3]))
    result = concrete(tf.ones([3]))
    del concrete
    assert result.numpy().tolist() == [-4.0] * 3
