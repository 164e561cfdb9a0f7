"""Arranging and creating tensors: shapes that are unknown while tracing, axes, errors."""

import numpy as np
import pytest

import tvtf as tf

X = np.arange(12, dtype=np.float32).reshape(3, 4)
UNKNOWN = [tf.TensorSpec([None, None], tf.float32)]

SHAPES = {
    "reshape to the batch": lambda x: tf.reshape(x, [tf.shape(x)[0], -1]),
    "reshape by products": lambda x: tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1]]),
    "zeros of the batch": lambda x: tf.zeros([tf.shape(x)[0], 5]),
    "ones like": lambda x: tf.ones_like(x),
    "fill": lambda x: tf.fill(tf.shape(x), 3.0),
    "range": lambda x: tf.range(tf.shape(x)[0]),
    "range backwards": lambda x: tf.range(tf.shape(x)[0], 0, -2),
    "range of floats": lambda x: tf.range(tf.shape(x)[0], 0.0, -2.0),
    "size": lambda x: tf.size(x),
    "concat": lambda x: tf.concat([x, x[:1], x], 0),
    "stack": lambda x: tf.stack([x, x], axis=-1),
    "list of tensors": lambda x: tf.convert_to_tensor([[x[0, 0], 1], [2, x[1, 1]]]),
    "split": lambda x: tf.split(x, 2, axis=1)[1],
    "split by sizes": lambda x: tf.split(x, [1, -1])[1],
    "squeeze": lambda x: tf.squeeze(x[:1], [0]),
    "tile": lambda x: tf.tile(x, [2, 1]),
    "repeat": lambda x: tf.repeat(x, 2, axis=1),
    "pad": lambda x: tf.pad(x, [[1, 0], [0, 2]], constant_values=7),
    "reflect": lambda x: tf.pad(x, [[1, 2], [0, 0]], "REFLECT"),
    "symmetric": lambda x: tf.pad(x, [[0, 0], [2, 3]], "SYMMETRIC"),
    "reverse": lambda x: tf.reverse(x, [0, 1]),
    "roll": lambda x: tf.roll(x, [1, -2], [0, 1]),
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, 1), 4),
    "eye": lambda x: tf.eye(tf.shape(x)[0]),
    "meshgrid": lambda x: tf.meshgrid(x[0], x[:, 0])[1],
    "sequence_mask": lambda x: tf.sequence_mask([1, 2], tf.shape(x)[0]),
    "band_part": lambda x: tf.linalg.band_part(x, 1, 0),
    "broadcast_dynamic_shape": lambda x: tf.zeros(tf.broadcast_dynamic_shape(tf.shape(x), [1, 1])),
    "ensure_shape": lambda x: tf.ensure_shape(x, [None, 4]),
}


@pytest.mark.parametrize("call", SHAPES.values(), ids=SHAPES)
def test_compiled_with_unknown_dims_is_eager(call):
    eager = call(tf.constant(X))
    compiled = tf.function(call, input_signature=UNKNOWN)(tf.constant(X))
    assert compiled.dtype is eager.dtype
    np.testing.assert_array_equal(compiled.numpy(), eager.numpy())


RESHAPED = {
    "expand": lambda x, d: [d[0], d[1], 1, d[2], d[3], d[4]],
    "merge within": lambda x, d: [d[0], d[1] * d[2], d[3], d[4]],
    "flatten": lambda x, d: [-1],
    "swap ends": lambda x, d: [d[4], d[1], d[2], d[3], d[0]],
    "split a known one": lambda x, d: [d[0], d[1], 2, 3, d[3] * d[4]],
}


@pytest.mark.parametrize("dims", RESHAPED.values(), ids=RESHAPED)
@pytest.mark.parametrize("shape", [(2, 3, 6, 1, 2), (1, 0, 6, 2, 1)], ids=["full", "empty"])
def test_reshapes_of_many_unknown_dims(dims, shape):
    def call(x):
        return tf.reshape(x, dims(x, tf.unstack(tf.shape(x), 5)))

    x = tf.reshape(tf.range(int(np.prod(shape))), shape)
    compiled = tf.function(call, input_signature=[tf.TensorSpec([None, None, 6, None, None], tf.int32)])(x)
    np.testing.assert_array_equal(compiled.numpy(), call(x).numpy())


def test_known_shapes_are_constants_while_tracing():
    @tf.function
    def double(x):
        for _ in range(int(tf.shape(x)[0] if False else x.shape[0])):
            x = x + x
        return tf.reshape(x, [tf.shape(x)[1], tf.shape(x)[0]])

    assert double(tf.constant(X)).shape == (4, 3)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_mirrors_are_numpys(mode):
    padded = tf.pad(X, [[2, 1], [0, 3]], mode).numpy()
    np.testing.assert_array_equal(padded, np.pad(X, [[2, 1], [0, 3]], mode.lower()))


def test_mirrors_have_the_gradient_of_their_copies():
    x = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.pad(x, [[2, 2]], "REFLECT"))
    assert tape.gradient(y, x).numpy().tolist() == [2, 3, 2]


def test_stop_gradient_cuts():
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * tf.stop_gradient(x)
    assert tape.gradient(y, x).numpy() == 3


def test_identity_of_a_variable_outlives_an_update():
    v = tf.Variable([1.0])
    kept = tf.identity(v)
    v.assign([2.0])
    assert kept.numpy().tolist() == [1]


def test_diagonals():
    square = tf.linalg.diag([1, 2], k=-1)
    assert square.numpy().tolist() == [[0, 0, 0], [1, 0, 0], [0, 2, 0]]
    assert tf.linalg.diag_part(square, k=-1).numpy().tolist() == [1, 2]
    assert tf.linalg.set_diag(X, [7.0, 8.0, 9.0], k=1).numpy()[:, 1:].diagonal().tolist() == [7, 8, 9]


def test_blocks_of_space_come_back():
    image = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)
    deep = tf.nn.space_to_depth(image, 2)
    assert deep.shape == (2, 2, 3, 12)
    np.testing.assert_array_equal(tf.nn.depth_to_space(deep, 2).numpy(), image)


ERRORS = {
    "reshape": (
        lambda: tf.transpose(X, [0]),
        "transpose expects a vector of size 2. But input(1) is a vector of size 1",
    ),
    "missing axis": (lambda: tf.transpose(X, [0, 0]), "1 is missing from {0,0}."),
    "axis outside": (lambda: tf.transpose(X, [0, 2]), "2 is out of range [0 .. 2)"),
    "expand_dims": (lambda: tf.expand_dims(X, 5), "Tried to expand dim index 5 for tensor with 2 dimensions."),
    "squeeze": (lambda: tf.squeeze(X, [0]), "Can not squeeze dim[0], expected a dimension of 1, got 3"),
    "concat ranks": (
        lambda: tf.concat([X, X[0]], 0),
        "ConcatOp : Ranks of all input tensors should match: shape[0] = [3,4] vs. shape[1] = [4]",
    ),
    "concat dims": (
        lambda: tf.concat([X, X[:2]], 1),
        "ConcatOp : Dimension 0 in both shapes must be equal: shape[0] = [3,4] vs. shape[1] = [2,4]",
    ),
    "concat scalars": (lambda: tf.concat([1.0, 2.0], 0), "ConcatOp : Can't concatenate scalars (use tf.stack instead)"),
    "stack": (
        lambda: tf.stack([X, X[:2]]),
        "Shapes of all inputs must match: values[0].shape = [3,4] != values[1].shape = [2,4]",
    ),
    "unstack": (lambda: tf.unstack(X, 2), "Input shape axis 0 must equal 2, got shape [3,4]"),
    "one_hot axis": (lambda: tf.one_hot([0], 3, axis=4), "Expected axis to be -1 or between [0, 2).  But received: 4"),
    "one_hot depth": (lambda: tf.one_hot([0], -1), "depth must be non-negative, got: -1"),
    "range sign": (lambda: tf.range(3, 0), "Requires start <= limit when delta > 0: 3/0"),
    "range delta": (lambda: tf.range(1, 2, 0), "Requires delta != 0: 0"),
    "fill": (lambda: tf.fill([-1], 1), "Dimension -1 must be >= 0"),
    "pad": (lambda: tf.pad([1, 2], [[1, -1]]), "Paddings must be non-negative: 1 -1"),
    "reflect": (
        lambda: tf.pad([1, 2, 3], [[3, 3]], "REFLECT"),
        "paddings must be less than the dimension size: 3, 3 not less than 3",
    ),
    "tile": (lambda: tf.tile(X, [2]), "Expected multiples argument to be a vector of length 2 but got length 1"),
    "reverse": (lambda: tf.reverse(X, [0, 0]), "axis 0 specified more than once."),
    "roll": (lambda: tf.roll(X, 1, 3), "axis 3 is out of range"),
    "band_part": (
        lambda: tf.linalg.band_part(X, 9, 1),
        "num_lower must be negative or less or equal to number of rows (3) got: 9",
    ),
}


@pytest.mark.parametrize(("call", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_in_tensorflows_words(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError) as expected:
        call()
    assert str(expected.value).startswith(message + " [Op:")


def test_the_same_error_is_a_value_error_while_tracing():
    with pytest.raises(ValueError, match="ConcatOp : Dimension 0 in both shapes must be equal"):
        tf.function(lambda: tf.concat([X, X[:2]], 1))()


def test_range_to_an_unknown_dim_in_fractions():
    f = tf.function(lambda x: tf.range(0, tf.shape(x)[0], 0.5), input_signature=UNKNOWN)
    assert f(X).numpy().tolist() == np.arange(0, len(X), 0.5).tolist()


@pytest.mark.parametrize(
    "part",
    [
        pytest.param(lambda x, i: x[i] * 2.0, id="computed"),
        pytest.param(lambda x, i: x[i], id="taken", marks=pytest.mark.sweep),
    ],
)
def test_hundreds_of_tensors_are_stacked(part):
    """Kernels of many arguments and stages: recursion, and passes that compare all stages with all, would not end."""
    values = np.arange(300, dtype=np.float32)
    stacked = tf.function(lambda x: tf.stack([part(x, i) for i in range(300)]), autograph=False)
    np.testing.assert_array_equal(stacked(values), [part(values, i) for i in range(300)])


@pytest.mark.parametrize("options", [{"k": (-1, 1)}, {"k": (0, 2), "align": "LEFT_LEFT"}, {"num_rows": 8}, {"k": 1}])
def test_diag_of_unknown_sizes_is_that_of_known_ones(options):
    diagonals = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
    of_unknown = tf.function(lambda x: tf.linalg.diag(x, **options), input_signature=[tf.TensorSpec([None, None])])
    np.testing.assert_array_equal(of_unknown(diagonals), tf.linalg.diag(diagonals, **options))
