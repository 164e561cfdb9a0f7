"""LAPACK's threads while compiled code waits for it."""

import threading

import numpy as np
import pytest

import tvtf as tf
from tvtf.ops import blas, solve


@pytest.fixture
def two_threads():
    """Every library at two threads, and back to what it had."""
    libraries = blas.libraries()
    before = [library.get_num_threads() for library in libraries]
    for library in libraries:
        library.set_num_threads(2)
    yield libraries
    for library, number in zip(libraries, before):
        library.set_num_threads(number)


def _numbers():
    return {library.get_num_threads() for library in blas.libraries()}


def test_a_compiled_function_has_one_thread_factor_a_small_matrix(two_threads, monkeypatch):
    seen, cholesky = [], np.linalg.cholesky
    monkeypatch.setattr(solve.np.linalg, "cholesky", lambda a: (seen.append(_numbers()), cholesky(a))[1])
    tf.function(tf.linalg.cholesky)(tf.eye(32))
    assert seen == [{1}]
    assert _numbers() == {2}


def test_large_matrices_have_all_threads(two_threads):
    with blas.one_thread([np.zeros(blas.SMALL + 1)]):
        assert _numbers() == {2}


def test_the_last_of_several_calls_gives_threads_back(two_threads):
    started, ended = threading.Event(), threading.Event()

    def call():
        with blas.one_thread([np.eye(32)]):
            started.set()
            ended.wait(10)

    with blas.one_thread([np.eye(32)]):
        other = threading.Thread(target=call)
        other.start()
        started.wait(10)
    assert _numbers() == {1}
    ended.set()
    other.join()
    assert _numbers() == {2}
