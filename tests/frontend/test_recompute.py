"""``tf.recompute_grad``: less memory for the same numbers. Its semantics are in tests/parity/recompute.py, too."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.thread_state import debug_settings

WIDTH, BATCH, BLOCKS = 8, 64, 10


def mlp(wrap):
    """Blocks with a hidden layer of four widths, and their weights."""
    rng = np.random.RandomState(0)
    weights = [
        tf.Variable(rng.randn(*s).astype("f") / 8)
        for _ in range(BLOCKS)
        for s in ((WIDTH, 4 * WIDTH), (4 * WIDTH, WIDTH))
    ]
    pairs = zip(weights[::2], weights[1::2])
    return [wrap(lambda x, w=w, u=u: x + tf.matmul(tf.nn.gelu(tf.matmul(x, w)), u)) for w, u in pairs], weights


def loss_of(blocks, x):
    for block in blocks:
        x = block(x)
    return tf.reduce_mean(x * x)


def step_of(wrap):
    blocks, weights = mlp(wrap)

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = loss_of(blocks, x)
        return loss, tape.gradient(loss, weights)

    return step


def plain(f):
    return f


X = tf.constant(np.random.RandomState(1).randn(BATCH, WIDTH).astype("f"))
HIDDEN = BATCH * 4 * WIDTH * 4


def test_the_plan_of_a_training_step_keeps_the_borders_of_blocks_alone():
    kept, recomputed = (step_of(wrap).memory(X) for wrap in (plain, tf.recompute_grad))
    assert kept.arena >= BLOCKS * 2 * HIDDEN
    assert recomputed.arena <= 6 * HIDDEN + BLOCKS * HIDDEN // 4 < kept.arena * 0.7


def test_numbers_are_the_same_to_the_bit():
    (loss, gradients), (expected, others) = (step_of(wrap)(X) for wrap in (tf.recompute_grad, plain))
    assert loss.numpy() == expected.numpy()
    assert all(np.array_equal(a, b) for a, b in zip(gradients, others))


def test_eager_numbers_are_the_same_to_the_bit():
    found = []
    for wrap in (plain, tf.recompute_grad):
        blocks, weights = mlp(wrap)
        with tf.GradientTape() as tape:
            loss = loss_of(blocks, X)
        found.append([loss, *tape.gradient(loss, weights)])
    assert all(np.array_equal(a, b) for a, b in zip(*found))


def test_eager_tapes_keep_one_record_for_a_call():
    block = tf.recompute_grad(lambda x: tf.sin(tf.sin(tf.sin(x))))
    with tf.GradientTape() as tape:
        tape.watch(X)
        block(X)
    assert len(tape.records) == 1


def test_a_tape_around_a_compiled_function_is_given_the_borders_alone():
    sizes = []
    for wrap in (plain, tf.recompute_grad):
        blocks, weights = mlp(wrap)
        function = tf.function(lambda x, blocks=blocks: loss_of(blocks, x))
        with tf.GradientTape() as tape:
            loss = function(X)
        tape.gradient(loss, weights)
        (pair,) = function.get_concrete_function(X)._pure._forward_backward.values()
        sizes.append(sum(np.prod(t.shape) for t in pair.forward.graph.output_types))
    assert sizes[1] <= (BLOCKS + 1) * BATCH * WIDTH + 1 < sizes[0] / 4


def test_the_body_of_a_loop():
    weight = tf.Variable(0.9)

    def run(wrap):
        block = wrap(lambda x: tf.sin(tf.sin(x) * weight))

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in tf.range(4):
                    if tf.reduce_sum(y) > 0.0:
                        y = block(y)
                loss = tf.reduce_sum(y)
            return loss, *tape.gradient(loss, [x, weight])

        return step(tf.constant([0.5, 1.0]))

    for found, expected in zip(run(tf.recompute_grad), run(plain)):
        assert np.allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("trace", [plain, tf.function])
def test_a_tensor_of_the_outside_and_an_option_have_gradients(trace):
    @trace
    def gradients(x, y, z):
        block = tf.recompute_grad(lambda a, option: a * y * option)
        with tf.GradientTape() as tape:
            tape.watch([x, y, z])
            found = block(x, option=z)
        return tape.gradient(found, [x, y, z])

    assert list(map(float, gradients(*map(tf.constant, (2.0, 3.0, 5.0))))) == [15.0, 10.0, 6.0]


def test_second_order_in_a_function():
    @tf.function
    def second(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.recompute_grad(lambda a: a * a * a)(x)
            first = tape.gradient(y, x)
        return outer.gradient(first, x)

    assert float(second(tf.constant(3.0))) == 18.0


@pytest.mark.parametrize("trace", [plain, tf.function])
def test_forward_mode(trace):
    weight = tf.Variable(2.0)

    @trace
    def moved(x):
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = tf.recompute_grad(lambda a: a * a * weight)(x)
        return accumulator.jvp(y)

    assert float(moved(tf.constant(3.0))) == 12.0


def test_what_a_function_assigns_and_draws_it_does_once():
    mean = tf.Variable(0.0, trainable=False)

    @tf.recompute_grad
    def block(x):
        mean.assign_add(tf.reduce_mean(x))
        return tf.nn.dropout(x, 0.5) * x

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = block(x)
        return y, tape.gradient(y, x)

    y, dx = gradient(tf.fill([256], 3.0))
    assert mean.numpy() == 3.0
    assert np.array_equal(dx.numpy(), y.numpy() * 2 / 3)


def test_an_argument_that_comes_back_lies_in_memory_of_its_own():
    weight = tf.Variable([1.0, 2.0])

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            y = tf.recompute_grad(lambda a: a * weight)(x)
        return tape.gradient(y, weight)

    x = tf.constant([3.0, 4.0])
    assert not np.shares_memory(gradient(x).numpy(), x.numpy())


def test_rows_stay_rows():
    table = tf.Variable(np.ones((5, 2), "f"))

    @tf.function
    def gradient(i):
        with tf.GradientTape() as tape:
            y = tf.recompute_grad(lambda k: tf.gather(table, k) * 2.0)(i)
        return tape.gradient(y, table)

    assert isinstance(gradient(tf.constant([1, 1])), tf.IndexedSlices)


def test_effects_and_passes_agree(monkeypatch):
    """Each pass is held to the numbers of the dialect before it."""
    monkeypatch.setattr(debug_settings, "verify", True)

    @tf.recompute_grad
    def block(x):
        tf.debugging.assert_positive(x)
        return tf.sqrt(x) * x

    @tf.function
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = block(block(x))
        return tape.gradient(y, x)

    assert np.allclose(gradient(tf.constant([4.0])), [2.25 * 4.0**1.25], rtol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError):
        gradient(tf.constant([-4.0]))


def test_a_function_for_any_rank():
    @tf.function(input_signature=[tf.TensorSpec(None)])
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda a: tf.reduce_sum(a * a))(x)
        return tape.gradient(y, x)

    assert gradient(tf.constant([[1.0, 2.0]])).numpy().tolist() == [[2.0, 4.0]]


def test_vectorized_map():
    @tf.recompute_grad
    def square(a):
        return a * a

    assert tf.vectorized_map(square, tf.constant([1.0, 3.0])).numpy().tolist() == [1.0, 9.0]
