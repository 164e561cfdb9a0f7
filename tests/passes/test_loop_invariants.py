"""Loop-invariant values are computed before the loop."""

import numpy as np
import pytest
import tvm

import tvtf as tf
from tvtf.passes.pipeline import lower
from tvtf.runtime.target import host_target

RNG = np.random.default_rng(11)


def values(*shape):
    return tf.constant(RNG.normal(0, 0.1, shape).astype(np.float32))


def loop_of(function, *args) -> str:
    """The text of the one kernel of a function's loop."""
    mod = lower(tf.function(function, autograph=False).get_concrete_function(*args).module(), host_target())
    (kernel,) = [f for v, f in mod.functions_items() if isinstance(f, tvm.tirx.PrimFunc) and v.name_hint == "loop"]
    return kernel.script()


def turns(count, body, *start):
    return tf.while_loop(lambda i, *_: i < count, lambda i, *s: (i + 1, *body(i, *s)), (0, *start))[1:]


def recurrent(x, w):
    return turns(3, lambda _i, h: (tf.tanh(tf.matmul(h, w, transpose_b=True)),), x)[0]


def test_weights_are_packed_before_the_loop():
    x, w = values(20, 300), values(300, 300)
    text = loop_of(recurrent, x, w)
    assert "given_1[" in text and "given_1[" not in text[text.index("while going") :]
    np.testing.assert_allclose(tf.function(recurrent)(x, w), recurrent(x, w), rtol=1e-4, atol=1e-5)


def test_gradients_of_such_a_loop_are_the_eager_ones():
    x, w = values(20, 300), values(300, 300)

    def gradient(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            y = recurrent(x, w)
        return tape.gradient(y, w)

    np.testing.assert_allclose(tf.function(gradient)(x, w), gradient(x, w), rtol=1e-3, atol=1e-4)


def test_what_a_turn_changes_is_packed_in_it():
    x, w = values(20, 300), values(300, 300)

    def function(x, w):
        return turns(3, lambda _i, h, w: (tf.matmul(h, w, transpose_b=True), w * 2.0), x, w)[0]

    np.testing.assert_allclose(tf.function(function)(x, w), function(x, w), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_state_that_becomes_what_lasts_does_so_after_the_first_turn(count):
    x, y = values(7, 9), values(7, 9)

    def function(x, y):
        return turns(count, lambda _i, a, b: (a + b, y * 3.0), x, x)

    for got, want in zip(tf.function(function)(x, y), function(x, y)):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_loops_in_loops_keep_what_lasts():
    x, w = values(20, 300), values(300, 300)

    def function(x, w):
        return turns(2, lambda _i, h: (recurrent(h, w) + x,), x)[0]

    np.testing.assert_allclose(tf.function(function)(x, w), function(x, w), rtol=1e-4, atol=1e-5)
