"""Eager ops that are compiled: which ones, after how many calls, and that results don't change."""

import ctypes

import numpy as np
import pytest

import tvtf as tf
from tvtf.core.primitive import table
from tvtf.frontend.function import eager_compile
from tvtf.runtime.heap import keep_freed_memory

LARGE = (300, 300)
assert np.prod(LARGE) >= eager_compile.WORTH_WHEN_REPEATED


@pytest.fixture
def compiled(monkeypatch):
    """The names of what was compiled for eager ops in this test."""
    names, make = [], eager_compile._compiled.__wrapped__
    monkeypatch.setattr(eager_compile, "_compiled", lambda *kind: (names.append(kind[0]), make(*kind))[1])
    eager_compile._call_counter.cache_clear()
    return names


def drawn(seed, shape=LARGE):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def test_repeated_choices_run_compiled_with_the_same_bits(compiled):
    condition, x, y = drawn(0) > 0, drawn(1), drawn(2)
    x[0, :3] = np.nan, np.inf, -np.inf
    given = [tf.constant(v) for v in (condition, x, y)]
    for times in range(4):
        assert compiled == ["select"] * max(times - 2, 0)
        np.testing.assert_array_equal(tf.where(*given).numpy(), np.where(condition, x, y))


def test_repeated_products_run_compiled(compiled):
    a, b = drawn(3), drawn(4)
    for _ in range(3):
        found = tf.matmul(a, b, transpose_b=True).numpy()
        np.testing.assert_allclose(found, a.astype(np.float64) @ b.T, rtol=1e-4, atol=1e-4)
    assert compiled == ["matmul"]


def test_other_kinds_count_for_themselves(compiled):
    for rows in range(5):
        tf.nn.relu(tf.zeros([LARGE[0] + rows, *LARGE[1:]]))
    assert not compiled


def test_small_operands_and_strings_are_not_compiled(compiled):
    texts = tf.fill(LARGE, "a")
    for _ in range(4):
        tf.nn.relu([-1.0, 2.0])
        tf.where(texts == "a", texts, "b")
    assert not compiled


def test_a_convolution_is_compiled_at_once(compiled):
    x, w = drawn(5, (1, 64, 64, 8)), drawn(6, (1, 1, 8, 2))
    found = tf.nn.conv2d(x, w, 1, "VALID").numpy()
    np.testing.assert_allclose(found, x @ w[0, 0], rtol=1e-4, atol=1e-5)
    assert compiled == ["conv"]


@pytest.mark.parametrize(("prim", "run"), [
    ("conv_input_grad", lambda x, w: tf.nn.conv2d(x, w, 1, "VALID")),
    ("matmul", lambda x, w: tf.matmul(x, w[0, 0])),
])  # fmt: skip
def test_a_tape_computes_only_requested_gradients(monkeypatch, prim, run):
    x, w = tf.ones([1, 2, 2, 3]), tf.Variable(tf.ones([1, 1, 3, 2]))
    with tf.GradientTape(persistent=True) as tape:
        y = run(x, w)
    count, kernel = [], table[prim].numpy
    monkeypatch.setattr(table[prim], "numpy", lambda *args, **attrs: (count.append(1), kernel(*args, **attrs))[1])
    np.testing.assert_array_equal(tape.gradient(y, w), np.full([1, 1, 3, 2], 4.0))
    assert len(count) == (prim == "matmul")


def test_the_heap_of_who_has_settled_it_is_left_alone(monkeypatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda name: pytest.fail("asked for the C library"))
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "1000000")
    keep_freed_memory.__wrapped__()
