"""Elements that are cheap to compute are computed in the consumer's thread."""

import math
import threading

import pytest

import tvtf as tf
from tvtf.data import parallel


def elements(threads, count=40):
    for i in range(count):
        threads.append(threading.current_thread())
        yield i


def source(threads):
    return tf.data.Dataset.from_generator(lambda: elements(threads), output_signature=tf.TensorSpec([], tf.int32))


def computed_by_consumer(threads):
    return [thread is threading.current_thread() for thread in threads]


def test_cheap_elements_take_no_thread(monkeypatch):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", math.inf)
    threads = []
    assert [int(x) for x in source(threads).prefetch(2)] == list(range(40))
    assert all(computed_by_consumer(threads))


def test_elements_that_are_not_cheap_are_prefetched(monkeypatch):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(parallel, "LONG_SECONDS", math.inf)
    threads = []
    assert [int(x) for x in source(threads).prefetch(2)] == list(range(40))
    own = parallel.STREAK + 1  # the first doesn't count
    assert computed_by_consumer(threads) == [True] * own + [False] * (40 - own)


def test_a_long_element_has_the_next_ones_prefetched_until_they_are_cheap(monkeypatch):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", math.inf)
    monkeypatch.setattr(parallel, "LONG_SECONDS", 0.0)
    pace = parallel.Pace(may_block=False)
    pace.record(1.0)
    pace.record(1.0)
    assert not pace.is_threaded  # nothing is longer than what is cheap here
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", 0.0)
    threads = []
    prefetched = iter(source(threads).prefetch(2))
    assert [int(next(prefetched)), int(next(prefetched))] == [0, 1]
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", math.inf)
    assert [int(x) for x in prefetched] == list(range(2, 40))
    own = computed_by_consumer(threads)
    assert own[0] and own[1] and not own[2] and own[-1]


def test_a_first_element_that_takes_long_starts_no_thread(monkeypatch):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", 0.1)
    pace = parallel.Pace(may_block=False)
    for elapsed in (5.0, *[0.0] * 20):
        pace.record(elapsed)
        assert not pace.is_threaded


@pytest.mark.parametrize("cheap_seconds", [math.inf, 0.0])
@pytest.mark.parametrize("deterministic", [True, False])
def test_mapped_elements(monkeypatch, cheap_seconds, deterministic):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", cheap_seconds)
    mapped = tf.data.Dataset.range(50).map(lambda x: x * 2, num_parallel_calls=2, deterministic=deterministic)
    assert sorted(int(x) for x in mapped) == list(range(0, 100, 2))


@pytest.mark.parametrize("cheap_seconds", [math.inf, 0.0])
def test_a_failure_stands_where_its_element_would(monkeypatch, cheap_seconds):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", cheap_seconds)
    divided = tf.data.Dataset.range(20, -5, -1).map(lambda x: 100 // x, num_parallel_calls=2).prefetch(2)
    found, iterator = [], iter(divided)
    with pytest.raises(tf.errors.InvalidArgumentError, match="ivision by zero"):
        while True:
            found.append(int(next(iterator)))
    assert found == [100 // x for x in range(20, 0, -1)]
    assert int(next(iterator)) == -100


def test_functions_that_call_python_stay_in_threads(monkeypatch):
    monkeypatch.setattr(parallel, "CHEAP_SECONDS", math.inf)
    threads = []

    def noted(x):
        threads.append(threading.current_thread())
        return x

    mapped = tf.data.Dataset.range(30).map(lambda x: tf.py_function(noted, [x], tf.int64), num_parallel_calls=2)
    assert [int(x) for x in mapped] == list(range(30))
    assert threading.current_thread() not in threads[1:]  # the first one is for its type
