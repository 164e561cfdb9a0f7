"""Casts of what does not fit, saturating casts and reinterpreted bits; compiled as eagerly."""

import numpy as np
import pytest

import tvtf as tf

HARD = np.array([np.nan, np.inf, -np.inf, 3e9, -3e9, 300.0, -1.0, 2.7, -2.7, 2.0**31, 1e19, 1e30], np.float64)
LOW32, LOW64 = -(2**31), -(2**63)

EXPECTED = {
    "int32": [LOW32] * 5 + [300, -1, 2, -2] + [LOW32] * 3,
    "int16": [0] * 5 + [300, -1, 2, -2] + [0] * 3,
    "uint8": [0] * 5 + [44, 255, 2, 254] + [0] * 3,
    "int64": [LOW64] * 3 + [3 * 10**9, -3 * 10**9, 300, -1, 2, -2, 2**31] + [LOW64] * 2,
    "uint64": [2**63] * 3 + [3 * 10**9, 2**64 - 3 * 10**9, 300, 2**64 - 1, 2, 2**64 - 2, 2**31, 10**19, 2**63],
    "bool": [True] * 12,
}


@pytest.mark.parametrize("target", EXPECTED)
def test_floats_that_do_not_fit_have_one_value_everywhere(target):
    for source in (HARD, HARD.astype(np.float32)):
        x = tf.constant(source)
        found, compiled = tf.cast(x, target), tf.function(lambda x: tf.cast(x, target))(x)
        if source.dtype == np.float64 or target != "uint64":
            np.testing.assert_array_equal(found, np.array(EXPECTED[target], target))
        np.testing.assert_array_equal(found, compiled)


def test_half_floats_reach_every_integer():
    x = tf.constant(np.array([np.inf, np.nan, -1.5, 255.0], np.float16))
    np.testing.assert_array_equal(tf.cast(x, tf.int32), [LOW32, LOW32, -1, 255])
    np.testing.assert_array_equal(tf.cast(x, tf.uint8), [0, 0, 255, 255])


def test_complex_numbers_lose_their_imaginary_part():
    np.testing.assert_array_equal(tf.cast(tf.constant([1.5 + 2j, 3j]), tf.float32), [1.5, 0])
    np.testing.assert_array_equal(tf.cast(tf.constant([1.5 + 2j, 3j]), tf.bool), [True, False])


def test_integers_wrap_around():
    assert tf.cast(tf.constant(300), tf.uint8).numpy() == 44
    assert tf.cast(tf.constant(-1), tf.uint64).numpy() == 2**64 - 1


@pytest.mark.parametrize(
    ("x", "dtype", "message"),
    [
        (tf.constant("a"), tf.float32, "Cast string to float is not supported [Op:Cast]"),
        (tf.constant(1.0), tf.string, "Cast float to string is not supported [Op:Cast]"),
    ],
)
def test_strings_are_not_cast(x, dtype, message):
    with pytest.raises(tf.errors.UnimplementedError) as rejected:
        tf.cast(x, dtype)
    assert str(rejected.value) == message


def test_an_unknown_dtype_is_rejected():
    with pytest.raises(TypeError, match="^Cannot convert the argument `type_value`: 'foo' to a TensorFlow DType.$"):
        tf.cast(1.0, "foo")


def test_the_gradient_of_a_cast_is_cast_back():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(x, tf.float64) * 3
    gradient = tape.gradient(y, x)
    assert gradient.dtype is tf.float32
    np.testing.assert_array_equal(gradient, [3, 3])


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([300.0, -5.0, 2.7], tf.uint8, [255, 0, 2]),
        ([3e9, -3e9, 1.5], tf.int32, [2**31 - 128, LOW32, 1]),
        ([1000, -1000, 5], tf.int8, [127, -128, 5]),
        ([-3, 5, 7], tf.uint16, [0, 5, 7]),
    ],
)
def test_saturating_casts_stop_at_the_limits(values, dtype, expected):
    np.testing.assert_array_equal(tf.saturate_cast(tf.constant(values), dtype), expected)


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([1.0, -2.5], np.float32), "int32"),
        (np.array([1.0, -2.5], np.float32), "uint8"),
        (np.arange(8, dtype=np.uint8).reshape(2, 4), "float32"),
        (np.arange(4, dtype=np.int32).reshape(2, 2), "float64"),
    ],
)
def test_bits_stay_the_same_eagerly_and_compiled(array, dtype):
    x = tf.constant(array)
    found, compiled = tf.bitcast(x, dtype), tf.function(lambda x: tf.bitcast(x, dtype))(x)
    assert found.numpy().tobytes() == array.tobytes() == compiled.numpy().tobytes()
    assert found.shape == compiled.shape


def test_a_last_axis_that_does_not_fill_the_dtype_is_rejected():
    with pytest.raises(tf.errors.InvalidArgumentError, match="^Cannot bitcast from 4 to 17: the last dim of"):
        tf.bitcast(tf.constant([1, 2, 3], tf.uint8), tf.uint16)


def test_equal_casts_of_nothing_share_a_kernel_without_arguments():
    less = tf.function(lambda x, y: (tf.cast(x, tf.int64) < 3, tf.cast(y, tf.int64) < 3))
    found = less(tf.constant([], tf.int32), tf.constant([], tf.int32))
    assert [x.shape for x in found] == [(0,), (0,)]
