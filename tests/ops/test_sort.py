"""Sorting: stable, NaN last, every type, lengths known or not."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.dtypes import REAL

UNKNOWN = [tf.TensorSpec([None, None], tf.float32)]


def values(dtype, count=300):
    drawn = np.random.default_rng(0).integers(0, 100, (3, count))
    return tf.constant(drawn.astype(dtype.np))


@pytest.mark.parametrize("dtype", REAL, ids=lambda d: d.name)
def test_compiled_sort_of_every_type(dtype):
    x = values(dtype)
    expected = np.sort(x.numpy().astype(np.float64), 1)
    both = tf.function(lambda x: (tf.sort(x, axis=1), tf.sort(x, axis=1, direction="DESCENDING")))(x)
    np.testing.assert_array_equal(both[0].numpy().astype(np.float64), expected)
    np.testing.assert_array_equal(both[1].numpy().astype(np.float64), expected[:, ::-1])


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("count", [1, 2, 3, 63, 64, 65])
def test_equal_elements_keep_their_order_at_lengths_unknown_while_tracing(direction, count):
    x = tf.cast(values(tf.int32, count) // 10, tf.float32)

    def places(x):
        return tf.argsort(x, direction=direction)

    keys = x.numpy() if direction == "ASCENDING" else -x.numpy()
    expected = np.argsort(keys, -1, kind="stable")
    np.testing.assert_array_equal(places(x).numpy(), expected)
    np.testing.assert_array_equal(tf.function(places, input_signature=UNKNOWN)(x).numpy(), expected)


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.int8, tf.int32, tf.int64], ids=str)
def test_long_rows_keep_the_order_of_equal_elements(dtype, direction):
    drawn = np.random.default_rng(1).integers(-9, 10, (4, 700)).astype("float64")
    if dtype.is_floating:
        drawn[0, ::5], drawn[1, ::7], drawn[2, ::9], drawn[3, ::3] = np.nan, -0.0, np.inf, -np.inf
        drawn[0, ::10] = -np.float64("nan")
    x = tf.cast(tf.constant(drawn), dtype)
    found = tf.function(lambda x: tf.argsort(x, direction=direction))(x)
    np.testing.assert_array_equal(found.numpy(), tf.argsort(x, direction=direction, stable=True).numpy())


@pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "compiled"])
def test_nan_counts_as_the_largest(run):
    x = tf.constant([3.0, np.nan, -np.inf, np.inf, 1.0])
    np.testing.assert_array_equal(run(lambda x: tf.sort(x))(x).numpy(), [-np.inf, 1, 3, np.inf, np.nan])
    np.testing.assert_array_equal(
        run(lambda x: tf.sort(x, direction="DESCENDING"))(x).numpy(), [np.nan, np.inf, 3, 1, -np.inf]
    )


def test_another_axis():
    x = values(tf.float32, 7)
    np.testing.assert_array_equal(tf.sort(x, axis=0).numpy(), np.sort(x.numpy(), 0))


@pytest.mark.parametrize("k", [1, 5, 64, 65])
def test_the_largest_of_rows_in_any_order(k):
    drawn = values(tf.float32, 100).numpy()
    rows = np.stack([*drawn, np.sort(drawn[0]), np.sort(drawn[1])[::-1], np.zeros(100, "float32")])
    rows[1, [3, 50]] = np.nan
    x = tf.constant(rows)
    found, expected = tf.function(lambda x: tf.math.top_k(x, k))(x), tf.math.top_k(x, k)
    for own, theirs in zip(found, expected):
        np.testing.assert_array_equal(own.numpy(), theirs.numpy())


def test_top_k_and_the_gradient_to_its_places():
    x = tf.constant([[1.0, 5.0, 3.0], [7.0, 2.0, 7.0]])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            best, places = tf.math.top_k(x, 2)
            y = tf.reduce_sum(best * tf.constant([10.0, 1.0]))
        return best, places, tape.gradient(y, x)

    best, places, gradient = step(x)
    assert best.numpy().tolist() == [[5, 3], [7, 7]]
    assert places.numpy().tolist() == [[1, 2], [0, 2]]
    assert gradient.numpy().tolist() == [[0, 10, 1], [10, 0, 1]]


def test_sort_sends_the_gradient_back_to_where_elements_were():
    x = tf.constant([3.0, 1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sort(x) * tf.constant([1.0, 10.0, 100.0]))
    assert tape.gradient(y, x).numpy().tolist() == [100, 1, 10]


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_is_numpys(side):
    edges, wanted = np.array([1.0, 3.0, 3.0, 5.0], np.float32), np.array([0.0, 3.0, 4.0, 9.0], np.float32)
    found = tf.function(lambda e, w: tf.searchsorted(e, w, side))(tf.constant(edges), tf.constant(wanted))
    assert found.numpy().tolist() == np.searchsorted(edges, wanted, side).tolist()


def test_in_top_k_as_tensorflow():
    assert tf.math.in_top_k([0, 1], [[1.0, 2.0], [3.0, 3.0]], 1).numpy().tolist() == [False, True]
    assert tf.math.in_top_k([5, 0], [[1.0, 2.0], [np.nan, 2.0]], 1).numpy().tolist() == [False, False]


def test_unique_keeps_the_order_of_first_occurrence():
    y, idx, count = tf.unique_with_counts([7, 1, 7, 2])
    assert (y.numpy().tolist(), idx.numpy().tolist(), count.numpy().tolist()) == ([7, 1, 2], [0, 1, 0, 2], [2, 1, 1])


def test_bincount_and_permutations():
    assert tf.math.bincount([1, 1, 3], weights=[1.0, 2.0, 3.0]).numpy().tolist() == [0, 3, 0, 3]
    assert tf.math.bincount([1, 1, 3], minlength=6).numpy().tolist() == [0, 2, 0, 1, 0, 0]
    assert tf.math.bincount([[1, 2], [0, 0]], axis=-1).numpy().tolist() == [[0, 1, 1], [2, 0, 0]]
    assert tf.math.invert_permutation([2, 0, 1]).numpy().tolist() == [1, 2, 0]


ERRORS = {
    "too many": (
        lambda: tf.math.top_k([1.0, 2.0], 3),
        "input must have at least k columns. Had 2, needed 3 [Op:TopKV2]",
    ),
    "negative": (lambda: tf.math.top_k([1.0], -1), "Need k >= 0, got -1 [Op:TopKV2]"),
    "scalar": (lambda: tf.math.top_k(1.0, 1), "input must be >= 1-D, got shape [] [Op:TopKV2]"),
    "no permutation": (
        lambda: tf.math.invert_permutation([2, 0, 5]),
        "5 is not between 0 and 3 [Op:InvertPermutation]",
    ),
    "repeated": (lambda: tf.math.invert_permutation([2, 0, 0]), "0 is duplicated in the input. [Op:InvertPermutation]"),
    "negative count": (lambda: tf.math.bincount([-1]), "Input arr must be non-negative! [Op:DenseBincount]"),
}


@pytest.mark.parametrize(("call", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_in_tensorflows_words(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as text:
        call()
    assert str(text.value).startswith(message)


def test_directions_and_sides():
    with pytest.raises(ValueError) as text:
        tf.sort([1, 2], direction="x")
    assert str(text.value) == "Argument `direction` should be one of ASCENDING, DESCENDING. Received: direction=x"
    with pytest.raises(ValueError) as text:
        tf.searchsorted([1, 3], [1], side="x")
    assert str(text.value) == "Argument `side` must be either 'right' or 'left'. Received: `side` = 'x'."
