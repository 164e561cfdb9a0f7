"""Matrix products of which only a part is read: the rest is not computed, and values stay the same."""

import numpy as np
import pytest
from covering import covering

import tvtf as tf
from tvtf.passes.graph.loop_dce import trim_loops
from tvtf.passes.graph.matmul_slicing import cut_products
from tvtf.passes.graph.simplify import simplify

A, B = (np.random.default_rng(0).normal(size=shape).astype("float32") for shape in ((5, 6, 8), (5, 8, 12)))


def products(function, *arguments) -> list[tuple[int, ...]]:
    module = tf.function(function, autograph=False).get_concrete_function(*arguments).module()
    return products_of(cut_products(simplify(module)))


def products_of(module) -> list[tuple[int, ...]]:
    """The shapes of all products."""
    bindings = [b for f in module.functions.values() for block in f.body.blocks for b in block.bindings]
    found = [b.var.ty for b in bindings if getattr(getattr(b.value, "op", None), "name", "") == "tvtf.matmul"]
    return [tuple(int(d) for d in ty.shape.values) for ty in found]


@covering(
    shifts=2,
    case=[
        (2, [3, 4, 5], [1], (5, 6, 4)),
        (2, [3, 4, 5], [1, 2], (5, 6, 9)),
        (2, [3, 4, 3, 2], [0, 2], (5, 6, 10)),
        (1, [1, 3, 2], [2], (5, 2, 12)),
        (1, [1, 3, 2], [0, 2], (5, 6, 12)),
        (0, [1, 4], [0], (5, 6, 12)),
    ],
    turned_a=[False, True],
    turned_b=[False, True],
)
def test_pieces(case, turned_a, turned_b):
    axis, sizes, read, shape = case

    def pieces(a, b):
        product = tf.matmul(a, b, transpose_a=turned_a, transpose_b=turned_b)
        parts = tf.split(product, sizes, axis)
        return [parts[i] for i in read]

    a = tf.constant(A.swapaxes(1, 2).copy() if turned_a else A)
    b = tf.constant(B.swapaxes(1, 2).copy() if turned_b else B)
    assert products(pieces, a, b) == [shape]
    for found, wanted in zip(tf.function(pieces, autograph=False)(a, b), pieces(a, b)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_pieces_beside_sizes_that_the_program_computes():
    def piece(a, b):
        rows = tf.boolean_mask(a, a[:, 0, 0] > 0.0)
        return tf.split(tf.matmul(rows, b[0]), [3, 4, 5], 2)[1]

    found = tf.function(piece, autograph=False)(tf.constant(A), tf.constant(B))
    np.testing.assert_allclose(found, piece(tf.constant(A), tf.constant(B)), rtol=1e-5, atol=1e-5)


def read_as_a_whole(a, b):
    product = tf.matmul(a, b)
    return tf.split(product, 2, 2)[0], product


def all_read(a, b):
    return tf.split(tf.matmul(a, b), 2, 2)


def no_product(a, b):
    return tf.split(tf.matmul(a, b) + 1.0, 2, 2)[0]


@pytest.mark.parametrize("function", [read_as_a_whole, all_read, no_product])
def test_whole_products_stay(function):
    assert products(function, tf.constant(A), tf.constant(B)) == [(5, 6, 12)]


def test_a_cell_needs_the_gradient_of_its_state_only():
    x, w = tf.constant(A), tf.constant(np.random.default_rng(1).normal(size=(11, 3)).astype("float32"))

    def gradient(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            h = tf.zeros([6, 3])
            for t in tf.range(5):
                h = tf.tanh(tf.concat([x[t], h], 1) @ w)
            loss = tf.reduce_sum(h * h)
        return tape.gradient(loss, w)

    traced = tf.function(gradient)
    trimmed = trim_loops(simplify(traced.get_concrete_function(x, w).module()))
    assert (6, 11) in products_of(trimmed)
    assert (6, 11) not in products_of(cut_products(trimmed))
    np.testing.assert_allclose(traced(x, w), gradient(x, w), rtol=1e-4, atol=1e-5)
