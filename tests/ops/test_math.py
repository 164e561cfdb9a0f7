"""Edge cases of elementwise functions that samples don't cover: NaN, zeros, limits of integers, errors."""

import itertools

import numpy as np
import onnx_support
import pytest

import tvtf as tf
from tvtf.dtypes import NUMERIC
from tvtf.onnx import export
from tvtf.ops import compare

NAN, INF = float("nan"), float("inf")


def both(function, *args):
    """The eager and the compiled result, which must be the same but for rounding."""
    tensors = [tf.constant(a) for a in args]
    eager, compiled = function(*tensors).numpy(), tf.function(function)(*tensors).numpy()
    np.testing.assert_allclose(compiled, eager, rtol=1e-6)
    return eager


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.maximum(x, 1.0),
        lambda x: tf.maximum(1.0, x),
        lambda x: tf.minimum(x, 1.0),
        lambda x: tf.clip_by_value(x, 0.0, 1.0),
        tf.nn.relu,
        tf.nn.relu6,
        tf.nn.elu,
        tf.sign,
        tf.tanh,
        tf.sigmoid,
        tf.nn.softplus,
    ],
)
def test_nan_stays(function):
    assert np.isnan(both(function, np.array([NAN], np.float32))).all()


def test_nan_differs_from_itself():
    x = np.array([NAN, 1.0], np.float32)
    np.testing.assert_array_equal(both(lambda x: x != tf.identity(x), x), [True, False])
    np.testing.assert_array_equal(both(lambda x: x == tf.identity(x), x), [False, True])
    np.testing.assert_array_equal(both(tf.math.is_nan, x), [True, False])


@pytest.mark.parametrize("function", [tf.tanh, tf.math.log1p, tf.math.expm1, tf.sinh, tf.asinh, tf.nn.elu])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_arguments_keep_their_digits(function, dtype):
    x = np.array([1e-30, -1e-20, 1e-10], dtype)
    np.testing.assert_allclose(both(function, x), x, rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: x // y, [-(2**31), 3, -4]),
        (lambda x, y: x % y, [0, 1, 1]),
        (tf.truncatediv, [-(2**31), 3, -3]),
        (tf.truncatemod, [0, 1, -1]),
    ],
)
def test_integer_division_at_its_limits(function, expected):
    x, y = np.array([-(2**31), 7, -7], np.int32), np.array([-1, 2, 2], np.int32)
    np.testing.assert_array_equal(both(function, x, y), expected)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (lambda x, y: x // y, "FloorDiv"),
        (lambda x, y: x % y, "FloorMod"),
        (tf.truncatediv, "TruncateDiv"),
        (tf.truncatemod, "TruncateMod"),
    ],
)
def test_integers_divided_by_zero_are_rejected_eagerly_and_compiled(function, op):
    args = tf.constant([1, 2]), tf.constant([1, 0])
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"^Integer division by zero \[Op:{op}\]"):
        function(*args)
    with pytest.raises(tf.errors.InvalidArgumentError, match="^Integer division by zero"):
        tf.function(function)(*args)


def test_integer_powers_wrap_around_and_reject_negative_exponents():
    base, exponent = np.array([3, -7, 2, 0], np.int32), np.array([40, 3, 31, 0], np.int32)
    np.testing.assert_array_equal(both(tf.pow, base, exponent), np.power(base, exponent))
    with pytest.raises(tf.errors.InvalidArgumentError, match="^Integers to negative integer powers are not allowed"):
        tf.pow(2, -1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="^Integers to negative integer powers are not allowed"):
        tf.function(tf.pow)(tf.constant(2), tf.constant(-1))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint32, np.uint64])
def test_what_has_no_sign_is_not_negated(dtype):
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=f"Value for attr 'T' of {dtype.__name__} is not in the list"
    ):
        -tf.constant([0, 1, 7], dtype)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: tf.bitwise.left_shift(x, 33), [-(2**31), 0]),
        (lambda x: tf.bitwise.left_shift(x, -1), [1, -8]),
        (lambda x: tf.bitwise.right_shift(x, 1), [0, -4]),
        (lambda x: tf.bitwise.right_shift(x, 40), [0, -1]),
    ],
)
def test_shift_counts_are_clamped(function, expected):
    np.testing.assert_array_equal(both(function, np.array([1, -8], np.int32)), expected)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: tf.math.divide_no_nan(1.0, x), [0.0, 0.5]),
        (lambda x: tf.math.multiply_no_nan(NAN, x) * 0.0, [0.0, NAN]),
        (lambda x: tf.math.xlogy(x, 0.0 * x), [0.0, -INF]),
        (lambda x: tf.math.xdivy(x, 0.0 * x), [0.0, INF]),
        (lambda x: tf.math.xlog1py(x, -x / 2.0), [0.0, -INF]),
    ],
)
def test_zero_times_anything_is_zero(function, expected):
    np.testing.assert_array_equal(both(function, np.array([0.0, 2.0], np.float32)), expected)


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (lambda x: tf.maximum(x, 1.0), 1.0, 1.0),
        (lambda x: tf.minimum(x, 1.0), 1.0, 1.0),
        (tf.nn.relu, 0.0, 0.0),
        (tf.nn.relu6, 6.0, 0.0),
        (tf.abs, 0.0, 0.0),
        (lambda x: tf.pow(x, 2.0), -3.0, -6.0),
        (lambda x: tf.pow(2.0, x), 3.0, 8 * np.log(2.0)),
        (lambda x: tf.pow(x, 0.0), 0.0, np.nan),
    ],
)
def test_gradients_at_ties_and_edges_are_tensorflows(function, at, expected):
    x = tf.constant(at)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    np.testing.assert_allclose(tape.gradient(y, x), expected, rtol=1e-6)


@pytest.mark.parametrize("function", [tf.floor, tf.math.ceil, tf.math.rint])
def test_rounding_has_no_gradient(function):
    x = tf.constant(1.5)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert tape.gradient(y, x) is None


def test_where_broadcasts_and_takes_the_tensors_dtype():
    found = tf.where([[True], [False]], tf.constant([1.0, 2.0]), 0)
    np.testing.assert_array_equal(found, [[1, 2], [0, 0]])
    assert found.dtype is tf.float32
    with pytest.raises(ValueError, match="^x and y must both be non-None or both be None.$"):
        tf.where(True, None, 1.0)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"^condition \[3\], then \[2\], and else \[\] must be broadcastable \[Op:SelectV2\]",
    ):
        tf.where([True, False, True], [1.0, 2.0], 0.0)


def test_logic_rejects_integers():
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"^cannot compute LogicalAnd as input #1\(zero-based\) was expected to be a bool tensor",
    ):
        tf.logical_and(tf.constant(True), tf.constant(1))


def test_clipping_wants_bounds_that_fit_and_lets_the_lower_one_win():
    np.testing.assert_array_equal(tf.clip_by_value([1.0, 5.0], 2.0, 1.0), [2, 2])
    with pytest.raises(ValueError, match=r"^Shapes \(2,\) and \(3, 2\) are incompatible$"):
        tf.clip_by_value([1.0, 5.0], tf.zeros([3, 2]), 1.0)


def test_sums_of_tensors_want_one_shape():
    np.testing.assert_array_equal(tf.add_n([tf.constant([1, 2]), tf.constant([3, 4])]), [4, 6])
    with pytest.raises(
        ValueError,
        match="^Inputs must be an iterable of at least one Tensor/IndexedSlices with the same dtype and shape.$",
    ):
        tf.add_n([])
    with pytest.raises(ValueError, match=r"^Shapes \(3,\) and \(2,\) are incompatible$"):
        tf.math.accumulate_n([[1, 2]], shape=[3])


def test_complex_gradients_conjugate():
    x = tf.constant(1 + 2j)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.abs(x)
    np.testing.assert_allclose(tape.gradient(y, x), (1 + 2j) / np.sqrt(5))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.math.real(x * x)
    np.testing.assert_allclose(tape.gradient(y, x), 2 - 4j)


@pytest.mark.parametrize(("function", "inverse"), [(tf.math.erfinv, tf.math.erf), (tf.math.ndtri, lambda x: x)])
def test_inverses_reach_their_ends(function, inverse):
    ends = both(function, np.array([1.0, 2.0], np.float32))
    assert ends[0] == INF
    assert np.isnan(ends[1])


def test_compiled_quantiles_of_denormal_probabilities():
    probabilities = tf.constant(np.array([1e-320, 1e-310, 1e-300]))
    expected = tf.math.ndtri(probabilities)
    np.testing.assert_allclose(tf.function(tf.math.ndtri)(probabilities), expected, rtol=1e-7)


@pytest.mark.parametrize("run", [tf.where, tf.function(tf.where)])
def test_where_of_a_condition_alone_gives_its_indices(run):
    for condition in ([[True, False], [False, True]], [[False, False]]):
        found = run(tf.constant(condition))
        np.testing.assert_array_equal(found, np.argwhere(condition))
        assert found.dtype is tf.int64


@pytest.mark.parametrize("dtype", [*NUMERIC, tf.bool], ids=lambda d: d.name)
def test_a_choice_among_many_elements_is_that_among_few(dtype):
    """Large operands are chosen from by their bits: special values and broadcasting as np.where has them."""
    condition = np.random.default_rng(0).random((70, 1, 80)) > 0.5
    values = np.array([0, -0.0, 1, 3, 100] if dtype.is_integer or dtype.is_bool else [0, -0.0, np.nan, -np.inf, 3])
    x, y = (np.resize(np.roll(values, n), shape).astype(dtype.np) for n, shape in enumerate(((70, 3, 1), (80,))))
    assert condition.size > compare._MASK_THRESHOLD
    chosen = tf.where(condition, x, y).numpy()
    expected = np.where(condition, x, y)
    assert (chosen.dtype, chosen.shape) == (expected.dtype, expected.shape)
    assert chosen.tobytes() == expected.tobytes()


def test_the_angle_of_zeros_and_infinities_is_numpys_in_onnx_too():
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan], np.float32)
    y, x = (np.array(each) for each in zip(*itertools.product(special, special)))
    function = tf.function(lambda y, x: tf.atan2(y, x))
    (exported,) = onnx_support.run_model(export(function, tf.constant(y), tf.constant(x)), [y, x])
    for found in (function(y, x).numpy(), exported):
        np.testing.assert_allclose(found, np.arctan2(y, x), rtol=1e-6)
