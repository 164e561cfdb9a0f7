"""Sums in one pass, and values computed where they are read: where norms have them, with the same values, and where not."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.analysis.recomputable import Recomputable
from tvtf.passes.analysis.use_def import Graph
from tvtf.passes.graph.memory_traffic import reduce_traffic
from tvtf.passes.graph.simplify import simplify

X, G = np.random.default_rng(0).normal(size=(2, 60, 5, 33)).astype("float32")
SCALE = np.linspace(0.5, 1.5, 33, dtype="float32")


def simplified(function, *arguments):
    return simplify(tf.function(function, autograph=False).get_concrete_function(*arguments).module())


def joined(function, *arguments) -> int:
    return reduce_traffic(simplified(function, *arguments)).script().count("tvtf.column_sums")


def recomputed(function, *arguments) -> list[str]:
    main = simplified(function, *arguments)["main"]
    return [use.name for use in Recomputable(Graph(main)).values.values()]


def same_values(function, *arguments):
    for a, b in zip(tf.function(function, autograph=False)(*arguments), function(*arguments)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def norm_gradients(x, g, scale):
    with tf.GradientTape() as tape:
        tape.watch([x, scale])
        mean, variance = tf.nn.moments(x, [0, 1])
        y = tf.nn.batch_normalization(x, mean, variance, scale, scale, 1e-3)
    return tape.gradient(y, [x, scale], output_gradients=g)


def written_out(x, g, scale):
    """A batch norm as its formula says, whose gradient has four sums; ``x`` is the result of a kernel."""
    with tf.GradientTape() as tape:
        tape.watch([x, scale])
        z = tf.exp(x)
        mean, variance = tf.nn.moments(z, [0, 1], keepdims=True)
        y = tf.nn.relu((z - mean) * tf.math.rsqrt(variance + 1e-3) * scale + scale)
    return (y, *tape.gradient(y, [x, scale], output_gradients=g))


@pytest.mark.parametrize("norm", [norm_gradients, written_out])
def test_the_gradient_of_a_batch_norm_sums_once(norm):
    arguments = [tf.constant(value) for value in (X, G, SCALE)]
    assert joined(norm, *arguments) == 1
    same_values(norm, *arguments)


def test_a_batch_norm_keeps_only_its_result_in_memory():
    arguments = [tf.constant(value) for value in (X, G, SCALE)]
    assert recomputed(written_out, *arguments) == ["subtract", "multiply", "multiply", "multiply"]
    function = tf.function(written_out, autograph=False)
    text = function.ir(*arguments, after="fuse-kernels").text.partition("kernels\n")[0]
    # The exponential, its mean, the variance's root, the norm; the gradient of relu, four sums, one of scale, the gradient.
    assert text.count(" = ") == 8, text


def both(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(x * g, [0, 1])


def products_first(x, g):
    return tf.reduce_sum(x * g, [0, 1]), tf.reduce_sum(g, [0, 1])


def three(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(-(x * g), [0, 1]), tf.reduce_sum((x - g) * x, [0, 1])


@pytest.mark.parametrize("sums", [both, products_first, three])
def test_sums_of_the_same_tensors(sums):
    x, g = tf.constant(X), tf.constant(G)
    assert joined(sums, x, g) == 1
    same_values(sums, x, g)


@pytest.mark.parametrize("count", [4, 5, 9])
def test_at_most_four_sums_are_one_pass(count):
    def sums(x, g):
        return tuple(tf.reduce_sum((g + float(i)) * x, [0, 1]) for i in range(count))

    x, g = tf.constant(X), tf.constant(G)
    assert joined(sums, x, g) == -(-count // 4) - (count % 4 == 1)
    same_values(sums, x, g)


def test_sizes_that_the_program_computes_stay():
    def sums(x, g, n):
        return *both(x, g), tf.ones([n, 2])

    arguments = tf.constant(X), tf.constant(G), tf.constant(3)
    assert joined(sums, *arguments) == 1
    assert tf.function(sums, autograph=False)(*arguments)[2].shape == [3, 2]


def of_other_axes(x, g):
    return tf.reduce_sum(g, [0]), tf.reduce_sum(x * g, [0, 1])


def of_rows(x, g):
    return tf.reduce_sum(g, [2]), tf.reduce_sum(x * g, [2])


def of_products_read_again(x, g):
    product = x * g
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(product, [0, 1]), product


def of_what_is_made_for_the_sum(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(tf.sin(x) * g, [0, 1])


def before_the_other_operand(x, g):
    total = tf.reduce_sum(g, [0, 1])
    other = x + total
    return total, tf.reduce_sum(other * g, [0, 1]), other


def of_four_tensors(x, g):
    return tf.reduce_sum(g, [0, 1]), tf.reduce_sum(g * (x + tf.sin(x)) * tf.cos(g), [0, 1]), tf.sin(x), tf.cos(g)


@pytest.mark.parametrize(
    "sums",
    [
        of_other_axes,
        of_rows,
        of_products_read_again,
        of_what_is_made_for_the_sum,
        before_the_other_operand,
        of_four_tensors,
    ],
    ids=lambda f: f.__name__,
)
def test_other_sums_stay(sums):
    assert joined(sums, tf.constant(X), tf.constant(G)) == 0


def of_a_loop(x, g):
    """The same in a loop's body, of which the sizes of a result are computed."""

    def body(i, total, seen):
        centered = tf.exp(x) - total
        return i + 1, total + tf.reduce_sum(centered, 0) + tf.reduce_sum(centered * x, 0), tf.boolean_mask(g, g > 0)

    state = (0, tf.zeros(X.shape[1:]), g[0, 0])
    shapes = (tf.TensorShape([]), tf.TensorShape(X.shape[1:]), tf.TensorShape([None]))
    return tf.while_loop(lambda i, *_: i < 2, body, state, shape_invariants=shapes)[1:]


def test_in_loops():
    same_values(of_a_loop, tf.constant(X), tf.constant(G))


def of_one_kernel(x):
    y = tf.exp(x) - 1.0
    return tf.tanh(y) * y + tf.exp(x)


def of_two_tensors(x):
    y = tf.exp(x) + tf.sin(x)
    return tf.reduce_sum(y), tf.tanh(y) @ y, tf.exp(x), tf.sin(x)


def compared(x):
    y = tf.exp(x) * 3.0
    return tf.reduce_max(y, 0) == y, tf.exp(x)


def given_out(x):
    y = tf.exp(x) * 3.0
    return y, tf.reduce_sum(y, 0), tf.exp(x)


def of_an_argument(x):
    y = x * 3.0
    return tf.tanh(y) @ y, tf.reduce_sum(y, 0)


def of_a_product(x):
    """``y`` is rounded before it is added, so that each copy of ``z`` has the same bits."""
    y = tf.exp(x) * 3.0
    z = y + 1.0
    return tf.linalg.inv(tf.tanh(y)), tf.linalg.inv(tf.tanh(z)), tf.linalg.inv(tf.sin(tf.sqrt(z))), tf.exp(x)


CASES = {of_one_kernel: 0, of_two_tensors: 0, compared: 0, given_out: 0, of_an_argument: 0, of_a_product: 2}


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_what_is_recomputed(function):
    assert len(recomputed(function, tf.constant(X[:33, 0]))) == CASES[function]


def test_the_gradient_of_a_maximum_finds_it():
    def gradient(x, scale):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.exp(x) * scale
            total = tf.reduce_sum(tf.tanh(y)) + tf.reduce_sum(tf.reduce_max(y, 0))
        return (tape.gradient(total, x),)

    same_values(gradient, tf.constant(X[:, 0]), tf.constant(SCALE))


def test_sums_whose_first_formula_begins_with_a_small_operand():
    def sums(x):
        p = tf.sigmoid(x)
        return tf.reduce_sum(SCALE - p, (0, 1)), tf.reduce_sum(1.0 - p, (0, 1)), tf.reduce_sum(p, (0, 1)), p

    assert joined(sums, tf.constant(X)) == 1
    same_values(sums, tf.constant(X))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_has_the_same_bits_for_each_reader(dtype):
    """A product that is added to something may be rounded with the sum: then each reader would see another one."""
    x, scale = (tf.constant(each, dtype) for each in (X.reshape(-1, 33), SCALE))

    def differences(x, scale):
        x = tf.tanh(x)
        y = x * scale
        relu = tf.nn.relu(y)
        largest = tf.reduce_max(relu, axis=1, keepdims=True)
        return y - tf.stop_gradient(y), tf.sqrt(relu - y) * largest, y + (relu - y) - relu, x, tf.exp(y)

    assert "multiply" in recomputed(differences, x, scale)
    same, root, through, *_ = tf.function(differences)(x, scale)
    assert not np.any(same) and not np.any(np.isnan(root))
    np.testing.assert_array_equal(through, differences(x, scale)[2])


def test_a_sum_that_reads_an_item_of_a_later_branch_stands_alone():
    """An item of a tuple is no result of an op, but has its place among the bindings, too."""

    def sums(x, k):
        first = tf.reduce_sum(x * 2.0, 0)
        rows, row = tf.cond(k > 0, lambda: (x * 2.0, x[1]), lambda: (x * 3.0, x[0]))
        return first, tf.reduce_sum(x * row, 0), rows

    arguments = tf.constant(X[0]), tf.constant(1)
    assert joined(sums, *arguments) == 0
    same_values(sums, *arguments)
