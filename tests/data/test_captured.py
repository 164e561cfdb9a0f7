"""Functions of datasets in a tf.function: tensors that they, or functions that they call, capture."""

import functools

import pytest

import tvtf as tf
from tvtf.data.captured_tensors import captured_tensors


def elements():
    return tf.data.Dataset.range(3).map(lambda e: tf.cast(e, tf.float32))


def total(dataset):
    return dataset.reduce(0.0, lambda a, b: a + b)


def nested_function(x):
    @tf.function
    def inner(e):
        return e + x

    return total(elements().map(lambda e: inner(e)))


def a_function_itself(x):
    return total(elements().map(tf.function(lambda e: e + x)))


def a_default(x):
    return total(elements().map(lambda e, x=x: e + x))


def a_partial(x):
    return total(elements().map(functools.partial(lambda a, b: a + b, x)))


def functions_of_functions(x):
    def shifted(e):
        return e + x

    def doubled(e):
        return shifted(e) * 2.0

    return total(elements().map(doubled).filter(lambda e: shifted(e) > 3.0))


def containers(x):
    listed, named = [x, x * 2.0], {"b": x}
    return total(elements().map(lambda e: e * listed[0] + listed[1] + named["b"]))


def one_that_calls_itself(x):
    def power(e, times):
        return e if times == 0 else power(e, times - 1) * x

    return total(elements().map(lambda e: power(e, 2)))


def a_loop(x):
    found = tf.constant(0.0)
    for e in elements().map(lambda e: e * x):
        found += e
    return found


PROGRAMS = [
    nested_function,
    a_function_itself,
    a_default,
    a_partial,
    functions_of_functions,
    containers,
    one_that_calls_itself,
    a_loop,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_what_they_hold_is_found_when_the_function_runs(program):
    run = tf.function(program)
    for x in (2.0, -1.5):
        assert run(tf.constant(x)).numpy() == program(tf.constant(x)).numpy()


def test_what_holds_no_tensors_stays_the_same_object():
    calls = []

    def counted(e):
        calls.append(1)
        return e

    @tf.function
    def run(x):
        return total(elements().map(lambda e: counted(e) * x))

    assert run(tf.constant(2.0)).numpy() == 6.0
    assert calls


def test_functions_that_hold_themselves_are_looked_into_once():
    def even(n):
        return n == 0 or odd(n - 1)

    def odd(n):
        return n != 0 and even(n - 1)

    assert captured_tensors(even) == []
