"""Arrays aligned for vector registers."""

import sys

import numpy as np
import pytest

import tvtf as tf
from tvtf.core import aligned_array


def starts_aligned(array):
    return array.__array_interface__["data"][0] % aligned_array.ALIGNMENT == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "bool", "int8"])
@pytest.mark.parametrize("shape", [(5000,), (3, 50, 77), (70, 70)])
def test_what_compiled_code_reads_begins_at_a_line_of_the_cache(shape, dtype):
    value = np.random.default_rng(0).integers(0, 2, shape).astype(tf.as_dtype(dtype).as_numpy_dtype)
    constant, variable = tf.constant(value.T.copy().T), tf.Variable(value, dtype=dtype)
    assert starts_aligned(constant._array)
    assert starts_aligned(variable._memory)
    np.testing.assert_array_equal(constant.numpy(), value)
    np.testing.assert_array_equal(variable.numpy(), value)


def test_rows_that_are_batched():
    (batch,) = tf.data.Dataset.from_tensor_slices(np.ones((50, 30, 3), "float32")).batch(50)
    assert starts_aligned(batch._array)
    np.testing.assert_array_equal(batch, np.ones((50, 30, 3)))


def test_a_view_of_it_counts_as_one_who_holds_it():
    array = aligned_array.empty((50, 60), np.dtype("float32"))
    before = sys.getrefcount(array)
    view = array.reshape(-1)[7:]
    assert sys.getrefcount(array) == before + 1
    assert view.base is array


def test_a_variable_is_not_changed_under_a_tensor_that_holds_its_memory():
    variable = tf.Variable(np.zeros((100, 100), "float32"))
    held = tf.reshape(variable, [-1])[5:]
    variable.assign_add(tf.ones((100, 100)))
    tf.function(lambda: variable.assign_add(tf.ones((100, 100))))()
    assert not held.numpy().any()
    assert (variable.numpy() == 2).all()


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_arrays_of_nothing_and_of_one(shape):
    assert aligned_array.empty(shape, np.dtype("float32")).shape == shape
    assert aligned_array.aligned_copy(np.zeros(shape), "int32").dtype == np.int32


def test_objects_are_left_to_numpy():
    texts = aligned_array.aligned_copy(np.full(3000, b"a", object))
    assert texts.tolist() == [b"a"] * 3000
