"""tensor[...], slices, gather and scatter: NumPy's values, TensorFlow's error messages."""

import numpy as np
import pytest

import tvtf as tf

GRID = np.arange(24, dtype=np.float32).reshape(4, 6)
UNKNOWN = [tf.TensorSpec([None, None], tf.float32)]

KEYS = {
    "row": np.s_[1],
    "last row": np.s_[-1],
    "element": np.s_[2, -3],
    "window": np.s_[1:3, 2:5],
    "open ends": np.s_[1:, :-2],
    "steps": np.s_[::2, 1::3],
    "backwards": np.s_[::-1, ::-2],
    "backwards window": np.s_[3:0:-1, 4:1:-1],
    "past the end": np.s_[2:99, -99:2],
    "nothing": np.s_[3:1],
    "ellipsis": np.s_[..., 1],
    "new axes": np.s_[None, :, None, 2],
    "whole": np.s_[:, :],
}


def raised(error, call):
    with pytest.raises(error) as text:
        call()
    return str(text.value)


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_getitem_is_numpys_eagerly_and_compiled_with_unknown_dims(key):
    def pick(x):
        return x[key]

    expected = GRID[key]
    np.testing.assert_array_equal(pick(tf.constant(GRID)).numpy(), expected)
    with tf.GradientTape():  # which the fast path of eager tensors leaves to the op
        np.testing.assert_array_equal(pick(tf.constant(GRID)).numpy(), expected)
    np.testing.assert_array_equal(tf.function(pick)(tf.constant(GRID)).numpy(), expected)
    np.testing.assert_array_equal(tf.function(pick, input_signature=UNKNOWN)(tf.constant(GRID)).numpy(), expected)


@pytest.mark.parametrize("key", [np.s_[1:3, ::-2], np.s_[-1], np.s_[::2, None]])
def test_getitem_gradient_puts_the_cotangent_back(key):
    x = tf.constant(GRID)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x[key] * x[key])
    expected = np.zeros_like(GRID)
    expected[key] = 2 * GRID[key]
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), expected)


@pytest.mark.parametrize("place", [0, 3, -1])
def test_an_index_that_the_program_computes(place):
    @tf.function
    def pick(x, i):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x[i, 1]
        return y, tape.gradient(y, x)

    value, gradient = pick(tf.constant(GRID), tf.constant(place))
    assert value.numpy() == GRID[place, 1]
    assert np.argwhere(gradient.numpy()).tolist() == [[place % 4, 1]]


def test_a_variable_is_indexed_like_its_value():
    assert tf.Variable(GRID)[1:3, -1].numpy().tolist() == GRID[1:3, -1].tolist()


def test_a_boolean_mask_selects_eagerly():
    assert tf.constant([1, 2, 3])[tf.constant([True, False, True])].numpy().tolist() == [1, 3]


def test_a_traced_mask_keeps_as_many_as_it_finds_and_lets_gradients_through():
    @tf.function
    def masked(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            kept = x[x > 1.0]
        values, places = tf.unique(kept)
        return kept * 2.0, tf.size(kept), tape.gradient(kept, x), values, places

    for given in ([1.0, 2.0, 3.0, 2.0], [0.0], [5.0, 5.0]):
        kept = [v for v in given if v > 1.0]
        distinct = list(dict.fromkeys(kept))
        found = [t.numpy().tolist() for t in masked(tf.constant(given))]
        expected = [[2 * v for v in kept], len(kept), [float(v > 1.0) for v in given]]
        assert found == [*expected, distinct, [distinct.index(v) for v in kept]]


INDEX = (
    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
    "indices, got "
)


@pytest.mark.parametrize(
    ("key", "error", "message"),
    [
        (1.0, TypeError, INDEX + "1.0"),
        ("a", TypeError, INDEX + "'a'"),
        (np.array([0, 1]), TypeError, INDEX + "array([0, 1])"),
        (True, ValueError, "mask cannot be scalar."),
        (((0, 1),), TypeError, INDEX + "(0, 1)"),
        (5, tf.errors.InvalidArgumentError, "slice index 5 of dimension 0 out of bounds. [Op:StridedSlice] name: "),
        (
            (0, 0, 1),
            tf.errors.InvalidArgumentError,
            "Index out of range using input dim 2; input has only 2 dims [Op:StridedSlice] name: ",
        ),
        (
            (..., ...),
            tf.errors.InvalidArgumentError,
            "Multiple ellipses in slice spec not allowed [Op:StridedSlice] name: ",
        ),
        (np.s_[::0], tf.errors.InvalidArgumentError, "strides[0] must be non-zero [Op:StridedSlice] name: "),
    ],
)
def test_bad_keys_in_tensorflows_words(key, error, message):
    assert raised(error, lambda: tf.constant(GRID)[key]) == message


def test_strided_slice_masks():
    x = tf.constant(GRID)
    picked = tf.strided_slice(x, [0, 1, 0], [0, 2, 9], [1, 1, 2], ellipsis_mask=1, new_axis_mask=0, shrink_axis_mask=2)
    np.testing.assert_array_equal(picked.numpy(), GRID[..., 1, 0:9:2])


@pytest.mark.parametrize(
    ("begin", "size", "message"),
    [
        ([0, 1], [2, 9], "Expected size[1] in [0, 5], but got 9"),
        ([5, 1], [0, 1], "Expected begin[0] in [0, 4], but got 5"),
    ],
)
def test_slice_rejects_windows_outside(begin, size, message):
    assert raised(tf.errors.InvalidArgumentError, lambda: tf.slice(GRID, begin, size)).startswith(message)


# -- gather


@pytest.mark.parametrize(("axis", "batch_dims"), [(0, 0), (1, 0), (2, 0), (1, 1), (2, 1), (2, 2)])
def test_gather_and_its_gradient(axis, batch_dims):
    params = np.random.default_rng(0).normal(size=(2, 3, 4))
    shape = {0: (2, 2), 1: (2, 2), 2: (2, 3, 2)}[batch_dims]
    indices = np.random.default_rng(1).integers(0, params.shape[axis], shape)
    x = tf.constant(params)

    def value(x):
        return tf.gather(x, indices, axis=axis, batch_dims=batch_dims)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = value(x)
        total = tf.reduce_sum(y * y)
    expected = np.zeros_like(params)
    for place in np.ndindex(*y.shape.as_list()):
        at = indices[place[:batch_dims] + place[axis : axis + indices.ndim - batch_dims]]
        source = (*place[:axis], at, *place[axis + indices.ndim - batch_dims :])
        assert y.numpy()[place] == params[source]
        expected[source] += 2 * params[source]
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(total, x)), expected)
    np.testing.assert_array_equal(tf.function(value)(x).numpy(), y.numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.gather([1, 2, 3], [0, 7]), "indices[1] = 7 is not in [0, 3)"),
        (lambda: tf.gather([1, 2, 3], -1), "indices = -1 is not in [0, 3)"),
        (lambda: tf.gather([1, 2, 3], [[0, 7]]), "indices[0,1] = 7 is not in [0, 3)"),
        (lambda: tf.gather_nd(GRID, [[0, 1], [1, 9]]), "indices[1] = [1, 9] does not index into param shape [4,6]"),
        (lambda: tf.scatter_nd([[0], [5]], [1, 2], [3]), "indices[1] = [5] does not index into shape [3]"),
        (lambda: tf.math.unsorted_segment_sum([1, 2], [0, 5], 3), "segment_ids[1] = 5 is out of range [0, 3)"),
    ],
)
def test_indices_out_of_range_are_named(call, message):
    assert raised(tf.errors.InvalidArgumentError, call).startswith(message + " [Op:")


@pytest.mark.parametrize("places", [[0, 7], [-1, 0], [2**31 - 1, -(2**31)]])
def test_compiled_gather_never_reads_outside(places):
    @tf.function
    def pick(x, i):
        return tf.gather(x, i)

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices are not in \[0, 3\)"):
        pick(tf.constant([1.0, 2.0, 3.0]), tf.constant(places))


def test_scatter_adds_repeated_places_and_update_keeps_the_last():
    assert tf.scatter_nd([[1], [1], [0]], [2, 3, 4], [3]).numpy().tolist() == [4, 5, 0]
    x = tf.constant([1.0, 2.0, 3.0])
    assert tf.tensor_scatter_nd_update(x, [[1], [1]], [8.0, 9.0]).numpy().tolist() == [1, 9, 3]
    assert tf.tensor_scatter_nd_sub(x, [[1]], [8.0]).numpy().tolist() == [1, -6, 3]
    assert tf.tensor_scatter_nd_min(x, [[1], [2]], [8.0, 0.0]).numpy().tolist() == [1, 2, 0]


def test_segments():
    data, ids = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [0, 0, 2]
    assert tf.math.segment_sum(data, ids).numpy().tolist() == [[4, 6], [0, 0], [5, 6]]
    assert tf.math.segment_mean(data, ids).numpy().tolist() == [[2, 3], [0, 0], [5, 6]]
    assert tf.math.segment_max(data, ids).numpy().tolist() == [[3, 4], [0, 0], [5, 6]]
    assert tf.math.unsorted_segment_sum(data, [1, -1, 1], 2).numpy().tolist() == [[0, 0], [6, 8]]
    rejected = raised(tf.errors.InvalidArgumentError, lambda: tf.math.segment_sum(data, [1, 0, 2]))
    assert rejected.startswith("segment ids are not increasing [Op:SegmentSum]")


@pytest.mark.parametrize("columns", [1, 3, 64, 256])
def test_rows_that_collide_are_combined_in_order(columns):
    """Enough work for many tasks, each of which goes over all rows with columns of its own."""
    rng = np.random.default_rng(0)
    places = tf.constant(rng.integers(0, 50, (900, 1)))
    x, updates = (tf.constant(rng.standard_normal((rows, columns)).astype("float32")) for rows in (50, 900))

    def combined(x, places, updates):
        flat = tf.reshape(places, [-1])
        return (
            tf.tensor_scatter_nd_add(x, places, updates),
            tf.tensor_scatter_nd_update(x, places, updates),
            tf.math.unsorted_segment_sum(updates, flat, 50),
            tf.math.unsorted_segment_max(updates, flat, 50),
        )

    found = tf.function(combined)(x, places, updates)
    for own, expected in zip(found, combined(x, places, updates)):
        np.testing.assert_allclose(own.numpy(), expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [5, 35], ids=["few rows", "in row blocks"])
def test_many_updates_of_wide_rows(rows):
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(rows, 66)), rng.normal(size=(500, 66))
    i = rng.integers(0, rows, (500, 1))
    set_, added, summed = x.copy(), x.copy(), np.zeros_like(x)
    for at, row in zip(i[:, 0], u):
        set_[at] = row
        added[at] += row
        summed[at] += row

    @tf.function
    def run(x, i, u):
        sums = tf.math.unsorted_segment_sum(u, i[:, 0], rows)
        return tf.tensor_scatter_nd_update(x, i, u), tf.tensor_scatter_nd_add(x, i, u), sums

    for found, expected in zip(run(x, i, u), (set_, added, summed)):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
