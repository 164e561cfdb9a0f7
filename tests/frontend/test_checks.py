"""Composed functions raise the same errors for values eagerly and compiled: arguments, constants, in branches, loops, gradients."""

import numpy as np
import pytest

import tvtf as tf

R = tf.RaggedTensor
PIXELS = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)


def ragged(make, **more):
    return lambda x: getattr(R, make)([1, 2, 3], x, **more).to_tensor()


def sparse(indices, dense_shape=(2, 3)):
    return tf.SparseTensor(tf.cast(indices, tf.int64), tf.ones([2]), dense_shape)


RAISING = {
    "row lengths": (ragged("from_row_lengths"), [2, 3], [2, 1]),
    "negative row lengths": (ragged("from_row_lengths"), [4, -1], [2, 1]),
    "row splits that fall": (ragged("from_row_splits"), [0, 5, 3], [0, 2, 3]),
    "row splits from 1": (ragged("from_row_splits"), [1, 2, 3], [0, 2, 3]),
    "row splits beyond": (ragged("from_row_splits"), [0, 2, 4], [0, 2, 3]),
    "row starts": (ragged("from_row_starts"), [0, 2, 9], [0, 2, 2]),
    "row limits that fall": (ragged("from_row_limits"), [2, 1, 3], [0, 2, 3]),
    "row limits beyond": (ragged("from_row_limits"), [2, 4], [0, 3]),
    "row ids": (ragged("from_value_rowids"), [0, 2, 1], [0, 0, 2]),
    "number of rows": (lambda n: R.from_value_rowids([1, 2, 3], [0, 1, 2], nrows=n).to_tensor(), 2, 4),
    "uniform rows": (lambda n: R.from_uniform_row_length([1, 2, 3, 4], 2, nrows=n).to_tensor(), 3, 2),
    "dynamic_partition": (lambda x: tf.dynamic_partition([1, 2, 3], x, 2)[0], [0, 5, 1], [0, 1, 1]),
    "unravel_index": (lambda x: tf.unravel_index(x, [3, 4]), 100, 11),
    "negative unravel_index": (lambda x: tf.unravel_index(x, [3, 4]), -1, 0),
    "invert_permutation beyond": (tf.math.invert_permutation, [0, 0, 5], [1, 0, 2]),
    "invert_permutation twice": (tf.math.invert_permutation, [0, 1, 1], [2, 0, 1]),
    "reverse_sequence below": (lambda x: tf.reverse_sequence([[1, 2, 3]], x, seq_axis=1), [-1], [3]),
    "reverse_sequence beyond": (lambda x: tf.reverse_sequence([[1, 2, 3]], x, seq_axis=1), [4], [0]),
    "confusion_matrix below": (lambda x: tf.math.confusion_matrix([0, 1], x, 2), [-1, 0], [1, 0]),
    "confusion_matrix beyond": (lambda x: tf.math.confusion_matrix([0, 1], x, 2), [2, 0], [1, 0]),
    "histogram": (lambda x: tf.histogram_fixed_width([0.0, 1.0], x, 3), [1.0, 1.0], [0.0, 1.0]),
    "bincount": (lambda x: tf.math.bincount(x), [-1, 2], [1, 2]),
    "sparse bincount": (lambda x: tf.sparse.bincount(x).values, [-1, 2], [1, 2]),
    "fill_empty_rows": (lambda x: tf.sparse.fill_empty_rows(sparse(x), 0.0)[1], [[0, 0], [2, 0]], [[0, 0], [1, 0]]),
    "crop_and_resize": (
        lambda x: tf.image.crop_and_resize(PIXELS, x, [0], [2, 2]),
        [[0.0, 0.0, np.nan, 1.0]],
        [[0.0, 0.0, 1.0, 1.0]],
    ),
    "random_crop": (lambda x: tf.shape(tf.image.random_crop(PIXELS[0], x)), [5, 2, 1], [2, 2, 1]),
    "from_sparse": (lambda x: R.from_sparse(sparse(x)).to_tensor(), [[0, 0], [1, 1]], [[0, 0], [0, 1]]),
    "all_candidate_sampler": (
        lambda x: tf.random.all_candidate_sampler(tf.cast(x, tf.int64), 1, 3, True)[1],
        [[5]],
        [[1]],
    ),
    "segment_sum": (lambda x: tf.math.segment_sum([1.0, 2.0], x), [1, 0], [0, 1]),
    "sparse segment_sum": (lambda x: tf.sparse.segment_sum([1.0, 2.0], x, [0, 0]), [0, 2], [0, 1]),
    "sparse_softmax": (
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=x, logits=[[1.0, 2.0]]),
        [2],
        [1],
    ),
}


def outcome(call):
    try:
        return np.asarray(call()).tolist()
    except (tf.errors.InvalidArgumentError, ValueError) as error:
        return type(error).__name__


def in_a_branch(function, x):
    return tf.cond(tf.size(x) > 0, lambda: function(x), lambda: tf.identity(function(x)))


NAMED = (
    *("row lengths", "row splits beyond", "row ids", "dynamic_partition", "unravel_index", "invert_permutation beyond"),
    *("reverse_sequence below", "random_crop"),
)
OTHERS = [pytest.param(name, marks=pytest.mark.sweep) for name in RAISING if name not in NAMED]


@pytest.mark.parametrize("name", [*NAMED, *OTHERS])
def test_compiled_code_raises_where_eager_code_raises(name):
    function, wrong, right = RAISING[name]
    traced = tf.function(function, autograph=False)
    assert outcome(lambda: function(tf.constant(wrong))) in ("InvalidArgumentError", "ValueError")
    assert outcome(lambda: traced(tf.constant(wrong))) == "InvalidArgumentError"
    assert outcome(lambda: traced(tf.constant(right))) == outcome(lambda: function(tf.constant(right)))


@pytest.mark.sweep
@pytest.mark.parametrize("name", RAISING)
def test_constants_and_branches_raise_where_eager_code_raises(name):
    function, wrong, _ = RAISING[name]
    rejected = ("InvalidArgumentError", "ValueError")
    assert outcome(tf.function(lambda: function(tf.constant(wrong)), autograph=False)) in rejected
    branch = tf.function(lambda x: in_a_branch(function, x), autograph=False)
    assert outcome(lambda: branch(tf.constant(wrong))) == "InvalidArgumentError"


def test_a_branch_that_does_not_run_raises_nothing():
    @tf.function
    def run(x, flag):
        return tf.math.invert_permutation(x) if flag else x

    assert run(tf.constant([5, 5]), tf.constant(False)).numpy().tolist() == [5, 5]
    with pytest.raises(tf.errors.InvalidArgumentError, match="each of 0, ..., n - 1 once"):
        run(tf.constant([5, 5]), tf.constant(True))


def test_a_loop_raises_in_the_wrong_iteration():
    @tf.function
    def run(n):
        total = 0
        for i in tf.range(n):
            total += tf.reduce_sum(tf.unravel_index(i, [2, 2]))
        return total

    assert run(4).numpy() == 4
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        run(5)


def gradient_alone(function):
    """The gradient of a function in a program that needs nothing else of it."""

    def run(x, *others):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x, *others)
        return tape.gradient(y, x)

    return tf.function(run)


@pytest.mark.parametrize(
    ("function", "wrong", "right"),
    [
        (lambda x, at: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=at, logits=x), [3], [1]),
        (lambda x, at: x[0, at[0]] * 2.0, [3], [1]),
        (lambda x, at: tf.reverse_sequence(x, at, seq_axis=1) * 2.0, [4], [2]),
        (lambda x, at: tf.gather(x, at, axis=1) * 2.0, [3], [1]),
    ],
)
def test_gradients_raise_where_their_functions_raise(function, wrong, right):
    x, run = tf.constant([[1.0, 2.0, 3.0]]), gradient_alone(function)
    assert run(x, tf.constant(right)).shape == [1, 3]
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(x, tf.constant(wrong))


def test_a_vectorized_map_raises_for_a_row():
    rows = tf.constant([[0, 1], [1, 1]])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.function(lambda x: tf.vectorized_map(tf.math.invert_permutation, x))(rows)
    assert tf.vectorized_map(tf.math.invert_permutation, rows[:1]).numpy().tolist() == [[0, 1]]


def test_a_dense_batch_by_a_ragged_one_raises():
    ragged = tf.RaggedTensor.from_row_splits(tf.ones([3, 2]), [0, 1, 3])
    with pytest.raises(NotImplementedError, match="tf.matmul of ragged tensors takes matrices"):
        tf.matmul(tf.ones([2, 3, 4]), ragged)
