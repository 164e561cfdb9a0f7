"""Pipelines that threads run: how many at once, in which order, and how they end."""

import gc
import os
import signal
import threading
import warnings

import numpy as np
import pytest

import tvtf as tf
from tvtf.data import parallel

Dataset = tf.data.Dataset
WAIT = 30


def in_python(run):
    return lambda x: tf.numpy_function(run, [x], tf.TensorSpec([], tf.int64))


def test_the_requested_number_of_elements_is_computed_at_once():
    together = threading.Barrier(3)

    def meet(x):
        together.wait(WAIT)
        return x

    found = Dataset.range(6).map(in_python(meet), num_parallel_calls=3)
    assert [int(x) for x in found] == list(range(6))


def test_elements_come_as_they_are_ready_where_order_does_not_matter():
    second_came = threading.Event()

    def run(x):
        if x == 0:
            second_came.wait(WAIT)
        return x

    found = iter(Dataset.range(2).map(in_python(run), num_parallel_calls=2, deterministic=False))
    assert int(next(found)) == 1
    second_came.set()
    assert int(next(found)) == 0


def test_a_failure_is_raised_at_its_element():
    def run(x):
        if x == 1:
            raise ValueError("one is too many")
        return x

    found = iter(Dataset.range(3).map(in_python(run), num_parallel_calls=3))
    assert int(next(found)) == 0
    with pytest.raises(tf.errors.InvalidArgumentError, match="one is too many"):
        next(found)
    assert int(next(found)) == 2


def test_open_datasets_are_iterated_at_once():
    together = threading.Barrier(2)

    def inner(x):
        return Dataset.from_tensors(x).map(in_python(lambda n: (together.wait(WAIT), n)[1]))

    found = Dataset.range(2).interleave(inner, cycle_length=2, num_parallel_calls=2)
    assert sorted(int(x) for x in found) == [0, 1]


def test_threads_end_with_their_dataset(monkeypatch):
    monkeypatch.setattr(parallel, "LONG_SECONDS", 0.0)
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", 0.0)
    before = threading.active_count()
    found = iter(Dataset.range(100).map(lambda x: x + 1, num_parallel_calls=4))
    assert [int(next(found)) for _ in range(3)] == [1, 2, 3]
    assert threading.active_count() > before
    del found
    gc.collect()
    for thread in threading.enumerate():
        if thread.name.startswith("tvtf.data"):
            thread.join(WAIT)
    assert not any(t.name.startswith("tvtf.data") for t in threading.enumerate())


def test_a_deterministic_argument_without_parallel_calls_is_reported():
    with pytest.warns(UserWarning, match="no effect unless the `num_parallel_calls`"):
        Dataset.range(3).map(lambda x: x, deterministic=True)


def test_parallel_batches_are_those_of_one_thread():
    rows = Dataset.from_tensor_slices(np.arange(50).reshape(25, 2))
    found = [b.numpy().tolist() for b in rows.batch(4, num_parallel_calls=3)]
    assert found == [b.numpy().tolist() for b in rows.batch(4)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_threads_of_its_own():
    dataset = tf.data.Dataset.range(4).map(lambda x: x * 2, num_parallel_calls=2)
    assert list(dataset.as_numpy_iterator()) == [0, 2, 4, 6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of any fork beside threads
        child = os.fork()
        if not child:
            signal.alarm(30)
            os._exit(0 if list(dataset.as_numpy_iterator()) == [0, 2, 4, 6] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_functions_tried_out_repeat_no_random_numbers_of_other_threads():
    tf.random.set_seed(1)
    found = []

    def draw():
        found.append(float(tf.random.uniform([])))

    def drawn_elsewhere(x):
        thread = threading.Thread(target=draw)
        thread.start()
        thread.join()
        return Dataset.from_tensors(x)

    list(Dataset.range(2).flat_map(drawn_elsewhere))
    draw()
    assert len(set(found)) == len(found)


def test_a_function_that_fails_when_tried_out_leaves_the_random_numbers():
    def failing(_):
        tf.random.uniform([])
        raise ValueError("no elements")

    def number():
        return float(tf.random.uniform([]))

    tf.random.set_seed(1)
    expected = number()
    tf.random.set_seed(1)
    with pytest.raises(ValueError, match="no elements"):  # int(x) can't be traced
        Dataset.range(2).flat_map(lambda x: Dataset.from_tensors(tf.numpy_function(failing, [int(x)], tf.int64)))
    assert number() == expected
