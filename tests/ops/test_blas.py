"""The threads of BLAS and LAPACK while ops wait for them."""

import threading

import numpy as np
import pytest
import scipy.linalg

import tvtf as tf
from tvtf.ops import blas


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


@pytest.fixture
def factors(monkeypatch):
    """The threads at each factor that LAPACK is asked for."""
    seen, find = [], scipy.linalg.get_lapack_funcs
    monkeypatch.setattr(scipy.linalg, "get_lapack_funcs", lambda *given: (seen.append(_numbers()), find(*given))[1])
    return seen


def test_a_compiled_function_has_one_thread_factor_a_small_matrix(two_threads, factors):
    tf.function(tf.linalg.cholesky)(tf.eye(32))
    assert factors == [{1}]
    assert _numbers() == {2}


@pytest.fixture
def products(monkeypatch):
    """The threads at each product that NumPy is asked for."""
    seen, matmul = [], np.matmul
    monkeypatch.setattr(blas.np, "matmul", lambda a, b: (seen.append(_numbers()), matmul(a, b))[1])
    return seen


def test_an_eager_factor_of_a_small_matrix_has_one_thread(two_threads, factors):
    for size in (2, 32, 600):
        tf.linalg.cholesky(tf.eye(size))
    assert factors == [{2}, {1}, {2}]


def test_an_eager_product_has_one_thread_where_openblas_would_take_more(two_threads, products):
    for rows in (2, 512):
        tf.ones((rows, 32)) @ tf.ones((32, 64))
    assert products == [{2}, {1}]
    assert _numbers() == {2}


def test_threads_come_back_after_an_error(two_threads):
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.linalg.inv(tf.zeros((40, 40)))
    assert _numbers() == {2}


def test_the_last_of_several_calls_gives_threads_back(two_threads):
    started, ended = threading.Event(), threading.Event()

    def call():
        with blas.OneThread():
            started.set()
            ended.wait(10)

    with blas.OneThread():
        other = threading.Thread(target=call)
        other.start()
        started.wait(10)
    assert _numbers() == {1}
    ended.set()
    other.join()
    assert _numbers() == {2}
