"""Reductions: empty inputs, NaN, long sums, ties and zeros in gradients."""

import numpy as np
import pytest

import tvtf as tf

NAN = float("nan")
BOTH = pytest.mark.parametrize("run", [lambda f: f, tf.function], ids=["eager", "compiled"])


@BOTH
@pytest.mark.parametrize(
    ("reduce", "empty"),
    [
        (tf.reduce_sum, 0.0),
        (tf.reduce_prod, 1.0),
        (tf.reduce_mean, NAN),
        (tf.reduce_max, -np.inf),
        (tf.reduce_min, np.inf),
        (tf.reduce_logsumexp, -np.inf),
    ],
)
def test_no_elements(run, reduce, empty):
    found = run(lambda one: reduce(tf.zeros([0, 3]) + one, axis=0))(tf.constant(1.0))
    np.testing.assert_array_equal(found.numpy(), np.full(3, empty, np.float32))


@BOTH
@pytest.mark.parametrize("values", [[1, NAN, 2], [NAN, 1, 2], [1, 2, NAN], [NAN, NAN], [NAN, -np.inf]])
def test_nan_is_an_extreme_but_no_place(run, values):
    x = tf.constant(values, tf.float32)
    assert np.isnan(run(lambda x: tf.reduce_max(x))(x).numpy())
    assert np.isnan(run(lambda x: tf.reduce_min(x))(x).numpy())
    best = [v if v == v else -np.inf for v in values]
    assert run(lambda x: tf.argmax(x))(x).numpy() == np.argmax(best)


@BOTH
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_short_floats_add_up_in_float32(run, dtype):
    ones = tf.cast(tf.ones([5000]), dtype)
    assert float(run(lambda x: tf.reduce_sum(x))(ones)) == pytest.approx(5000, rel=4e-3)
    assert float(run(lambda x: tf.reduce_mean(x))(ones)) == 1


@BOTH
def test_a_long_sum_keeps_its_ones(run):
    assert run(lambda x: tf.reduce_sum(x))(tf.ones([20_000_000])).numpy() == 20_000_000


@BOTH
def test_integer_means_go_towards_zero(run):
    mean = run(lambda x: tf.reduce_mean(x))
    assert mean(tf.constant([-1, -2, -4])).numpy() == -2
    assert mean(tf.constant([200, 200], tf.uint8)).numpy() == 200


def test_the_first_of_equal_elements_wins():
    assert tf.argmax([1, 5, 5]).numpy() == 1
    assert tf.argmin([[2, 1, 1]], axis=1, output_type=tf.int32).numpy().tolist() == [1]


def gradients(call, x):
    """First and second derivative of the sum of ``call``."""
    x = tf.constant(x)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = call(x)
        first = inner.gradient(y, x)
        total = tf.reduce_sum(first)
    return first.numpy().tolist(), outer.gradient(total, x).numpy().tolist()


def test_products_with_zeros_have_gradients_of_every_order():
    assert gradients(tf.reduce_prod, [2.0, 0.0, 3.0])[0] == [0, 6, 0]
    assert gradients(tf.reduce_prod, [2.0, 0.0, 3.0])[1] == [3, 5, 2]
    assert gradients(tf.reduce_prod, [0.0, 0.0, 3.0])[1] == [3, 3, 0]


def test_running_products_with_zeros_have_gradients():
    assert gradients(tf.math.cumprod, [2.0, 0.0, 3.0])[0] == [1, 8, 0]


def test_equal_extremes_share_the_gradient():
    x = tf.constant([1.0, 5.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_max(x)
    assert tape.gradient(y, x).numpy().tolist() == [0, 0.5, 0.5]


def test_logsumexp_does_not_overflow():
    assert tf.reduce_logsumexp([1000.0, 1000.0]).numpy() == pytest.approx(1000 + np.log(2))
    assert tf.reduce_logsumexp([np.inf, 1.0]).numpy() == np.inf


@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_scans_exclusive_and_reversed(exclusive, reverse):
    x = [1.0, 2.0, 4.0]
    sums = [0, 1, 3] if exclusive else [1, 3, 7]
    back = [6, 4, 0] if exclusive else [7, 6, 4]
    found = tf.cumsum(x, exclusive=exclusive, reverse=reverse)
    assert found.numpy().tolist() == (back if reverse else sums)
    logs = tf.math.cumulative_logsumexp(x, exclusive=exclusive, reverse=reverse).numpy()
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(logs, np.log(tf.cumsum(np.exp(x), exclusive=exclusive, reverse=reverse)), rtol=1e-6)


def test_norms_and_statistics():
    x = [[1.0, -2.0], [3.0, 4.0]]
    for order, axis in ((1, 0), (np.inf, 1), (2, 1), ("euclidean", None)):
        expected = np.linalg.norm(x, None if order == "euclidean" else order, axis)
        np.testing.assert_allclose(tf.norm(x, order, axis).numpy(), expected, rtol=1e-6)
    for order in ("fro", 1, np.inf):
        expected = np.linalg.norm(x, order, (0, 1))
        np.testing.assert_allclose(tf.norm(x, order, (0, 1)).numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(tf.math.reduce_std(x, 0).numpy(), np.std(x, 0), rtol=1e-6)
    assert tf.math.reduce_variance([1 + 2j, 3]).dtype is tf.float64
    assert tf.math.count_nonzero(["", "a"]).numpy() == 1


def test_errors_in_tensorflows_words():
    with pytest.raises(tf.errors.InvalidArgumentError) as message:
        tf.argmax([1.0], axis=5)
    assert str(message.value).startswith("Expected dimension in the range [-1, 1), but got 5 [Op:ArgMax]")
    with pytest.raises(tf.errors.InvalidArgumentError) as message:
        tf.argmax(tf.zeros([0, 3]), 0)
    assert str(message.value).startswith("Reduction axis 0 is empty in shape [0,3] [Op:ArgMax]")
    with pytest.raises(tf.errors.InvalidArgumentError) as message:
        tf.cumsum([1.0], axis=1)
    assert str(message.value).startswith("ScanOp: Expected scan axis in the range [-1, 1), but got 1 [Op:Cumsum]")
    with pytest.raises(TypeError) as message:
        tf.math.reduce_std([1, 2])
    assert str(message.value) == "Input must be either real or complex. Received integer type <dtype: 'int32'>."
    with pytest.raises(ValueError) as message:
        tf.norm([1.0], ord="q")
    assert str(message.value) == "'ord' must be a supported vector norm, got q"


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.complex64])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((301, 70, 3), (0, 1)), ((301, 70, 3), (0,)), ((5000, 1, 7), (0, 1)), ((3, 9000), (0,)), ((20_001,), (0,))],
)
def test_long_sums_over_leading_axes(dtype, shape, axis):
    x = (np.random.default_rng(0).normal(size=shape) * 50).astype(dtype)
    exact = x.astype(np.complex128 if dtype is np.complex64 else np.int64 if x.dtype.kind == "i" else np.float64)
    for keepdims in (False, True):
        found = tf.reduce_sum(x, axis, keepdims)
        wanted = exact.sum(axis, keepdims=keepdims).astype(dtype)
        assert found.dtype.as_numpy_dtype is dtype
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=0.02)
