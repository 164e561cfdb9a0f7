"""The rules of simplify: modules before and after each, and modules that must not change."""

import numpy as np
import pytest
import tvm

import tvtf as tf
from tvtf.core.primitive import table
from tvtf.ir.interpreter import evaluate
from tvtf.passes.graph.runtime_checks import insert_guards
from tvtf.passes.graph.simplify import BROADCASTING, RULES, simplify


def module(body, *specs):
    specs = specs or (tf.TensorSpec([2, 3]),)
    return tf.function(body, autograph=False).get_concrete_function(*specs).module()


def ops(mod):
    return [str(b.value.op.name) for block in mod["main"].body.blocks for b in block.bindings if hasattr(b.value, "op")]


def calls(mod):
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    return [(str(v.op.name), str(v.attrs)) for v in values if hasattr(v, "op")]


SPEC = tf.TensorSpec([2, 3])
PAIRS = {
    "times one": (lambda x: x * 1.0 + x, lambda x: x + x),
    "one times": (lambda x: 1.0 * x + x, lambda x: x + x),
    "over one": (lambda x: x / 1.0 + x, lambda x: x + x),
    "minus zero": (lambda x: (x - 0.0) + x, lambda x: x + x),
    "reshape to itself": (lambda x: tf.reshape(x, [2, 3]) + x, lambda x: x + x),
    "reshape twice": (lambda x: tf.reshape(tf.reshape(x, [6]), [3, 2]), lambda x: tf.reshape(x, [3, 2])),
    "broadcast to itself": (lambda x: tf.broadcast_to(x, [2, 3]) + x, lambda x: x + x),
    "cast to itself": (lambda x: tf.cast(x, tf.float32) + x, lambda x: x + x),
    "negated twice": (lambda x: tf.negative(-x) + x, lambda x: x + x),
    "transposed back": (lambda x: tf.transpose(tf.transpose(x)) + x, lambda x: x + x),
    "transposed twice": (
        lambda x: tf.transpose(tf.transpose(tf.reshape(x, [1, 2, 3]), [2, 0, 1]), [1, 0, 2]),
        lambda x: tf.transpose(tf.reshape(x, [1, 2, 3]), [0, 2, 1]),
    ),
    "summed over nothing": (lambda x: tf.reduce_sum(x, axis=[]) + x, lambda x: x + x),
    "all rows gathered": (lambda x: tf.gather(x, tf.range(2)) + x, lambda x: x + x),
    "all columns gathered": (lambda x: tf.gather(x, tf.range(3), axis=1) + x, lambda x: x + x),
    "identity": (lambda x: tf.identity(x) + x, lambda x: x + x),
    "stop_gradient": (lambda x: tf.stop_gradient(x) + x, lambda x: x + x),
    "broadcast operand": (lambda x: x + tf.broadcast_to(x[:1], [2, 3]), lambda x: x + x[:1]),
    "common": (lambda x: tf.sin(x) + tf.sin(x), lambda x: (lambda y: y + y)(tf.sin(x))),
    "dead": (lambda x: (tf.cos(x), tf.sin(x))[1], lambda x: tf.sin(x)),
    "constants": (lambda x: x + (tf.constant(2.0) * 3.0 + 1.0), lambda x: x + 7.0),
}


@pytest.mark.parametrize("label", PAIRS)
def test_before_and_expected(label):
    before, expected = (simplify(module(body, SPEC)) for body in PAIRS[label])
    tvm.ir.assert_structural_equal(before, expected, map_free_vars=True)


@pytest.mark.parametrize("label", PAIRS)
def test_it_does_something(label):
    before = module(PAIRS[label][0], SPEC)
    assert len(ops(simplify(before))) < len(ops(before))


LEFT_ALONE = {
    "plus zero": (lambda x: x + 0.0, ["tvtf.add"]),  # -0.0 + 0.0 is 0.0
    "times zero": (lambda x: x * 0.0, ["tvtf.multiply"]),  # NaN stays NaN
    "minus itself": (lambda x: x - x, ["tvtf.subtract"]),  # infinity gives NaN
    "over itself": (lambda x: x / x, ["tvtf.divide"]),
    "zero minus": (lambda x: 0.0 - x, ["tvtf.subtract"]),
    "minus negative zero": (lambda x: x - -0.0, ["tvtf.subtract"]),  # -0.0 gives 0.0
    "one over": (lambda x: 1.0 / x, ["tvtf.divide"]),
    "cast there and back": (lambda x: tf.cast(tf.cast(x, tf.int32), tf.float32), ["tvtf.cast", "tvtf.cast"]),
    "a wide operand": (lambda x: tf.broadcast_to(x[:1], [2, 3]) * 2.0, None),
}


@pytest.mark.parametrize("label", LEFT_ALONE)
def test_values_are_kept_exactly(label):
    body, expected = LEFT_ALONE[label]
    before = module(body, SPEC)
    after = simplify(before)
    if expected is not None:
        assert ops(after) == expected
    awkward = tf.constant([[0.0, -0.0, np.nan], [np.inf, -np.inf, 1e-45]])
    (a,), (b,) = (evaluate(mod, "main", [awkward]) for mod in (before, after))
    assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize("rows", [4, None])
def test_products_over_all_rows_read_them_where_they_lie(rows):
    def product(x, y):
        return tf.matmul(tf.reshape(x, [-1, 3]), tf.reshape(y, [-1, 3]), transpose_a=True)

    spec = tf.TensorSpec([rows, 5, 3])
    assert ops(simplify(module(lambda x: product(x, tf.sin(x)), spec))) == ["tvtf.sin", "tvtf.contract"]


def test_products_over_other_rows_stay():
    def product(x, y):
        return tf.matmul(tf.reshape(x, [-1, 3]), tf.reshape(y, [-1, 3]), transpose_a=True)

    specs = tf.TensorSpec([4, 5, 3]), tf.TensorSpec([5, 4, 3])
    assert ops(simplify(module(product, *specs))) == ["tvtf.reshape", "tvtf.reshape", "tvtf.matmul"]


IMAGE, WINDOW = tf.TensorSpec([2, 7, 8, 4]), tf.TensorSpec([3, 3, 4, 5])


def gradients_of(convolve):
    def step(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.reduce_sum(tf.sin(convolve(x, w)))
        return tape.gradient(y, [x, w])

    return step


@pytest.mark.parametrize("stride", [1, 2])
def test_convolutions_add_zeros_by_themselves(stride):
    around = [[0, 0], [1, 2], [2, 0], [0, 0]]
    padded = gradients_of(lambda x, w: tf.nn.conv2d(tf.pad(x, around), w, stride, "VALID"))
    expected = gradients_of(lambda x, w: tf.nn.conv2d(x, w, stride, around))
    before, after = (simplify(module(body, IMAGE, WINDOW)) for body in (padded, expected))
    assert sorted(calls(before)) == sorted(calls(after))


@pytest.mark.parametrize(
    "padded",
    [
        lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=1.0),
        lambda x: tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]], constant_values=-0.0),
        lambda x: tf.pad(x, [[1, 0], [1, 1], [1, 1], [0, 0]]),
        lambda x: tf.pad(x[..., :3], [[0, 0], [1, 1], [1, 1], [0, 1]]),
    ],
    ids=["ones", "negative zeros", "images", "channels"],
)
def test_other_pads_stay(padded):
    mod = simplify(module(lambda x, w: tf.nn.conv2d(padded(x), w, 1, "VALID"), IMAGE, WINDOW))
    assert "tvtf.pad" in ops(mod)


def test_a_part_of_a_gradient_stays_a_part():
    def part(y, w):
        return tf.nn.conv2d_transpose(y, w, [2, 7, 8, 4], 1, "SAME")[:, 3:]

    assert "tvtf.strided_slice" in ops(simplify(module(part, tf.TensorSpec([2, 7, 8, 5]), WINDOW)))


def test_random_numbers_of_a_map_are_drawn_at_once():
    mapped = simplify(module(lambda x: tf.vectorized_map(lambda row: row + tf.random.uniform([3], seed=1), x), SPEC))
    assert [op for op in ops(mapped) if op in ("tvtf.stateless_random_uniform", "tvtf.gather")] == [
        "tvtf.stateless_random_uniform"
    ]


def test_random_ops_are_not_shared():
    mod = simplify(module(lambda x: tf.random.uniform([2]) - tf.random.uniform([2]) + x[0, :2], SPEC))
    assert len(ops(mod)) > 3


def test_symbolic_shapes_compare_by_proof():
    spec = tf.TensorSpec([None, 3])
    assert ops(simplify(module(lambda x: tf.reshape(x, [-1, 3]) * 2.0, spec))) == ["tvtf.multiply"]


def test_every_rule_is_an_op():
    assert set(RULES) | BROADCASTING <= set(table)


# -- guards


def guards(mod):
    return [line for line in insert_guards(mod).script().splitlines() if "tvtf.guard" in line]


INDEX = tf.TensorSpec([], tf.int32)


def test_a_guard_stands_before_its_op():
    mod = module(lambda i: tf.gather(tf.constant([1.0, 2.0]), i), INDEX)
    names = ops(insert_guards(mod))
    assert names.index("tvtf.guard") < names.index("tvtf.gather")
    assert len(guards(mod)) == 1


def test_nothing_to_guard_is_left_as_it_is():
    mod = module(lambda x: x + 1.0, SPEC)
    assert insert_guards(mod).same_as(mod)


def test_a_guard_dies_with_its_op():
    mod = simplify(module(lambda i: (tf.gather(tf.constant([1.0, 2.0]), i), i + 1)[1], INDEX))
    assert guards(mod) == []


def test_a_guard_writes_what_was_assigned_before():
    v, w = tf.Variable(1.0), tf.Variable(1.0)

    @tf.function(autograph=False)
    def step(i):
        v.assign(2.0)
        picked = tf.gather(tf.constant([1.0, 2.0]), i)
        w.assign(picked)

    concrete = step.get_concrete_function(INDEX)
    (line,) = guards(concrete.module())
    assert 'T.Call("tvtf.guard", [reduce_all, assign, Variable], attrs={"message": "indices are not in [0, 2)' in line
    with pytest.raises(tf.errors.InvalidArgumentError):
        step(tf.constant(9))
    assert (v.numpy(), w.numpy()) == (2.0, 1.0)


@pytest.mark.parametrize("where", ["branch", "loop", "nested"])
def test_a_guard_inside_control_flow(where):
    def pick(i):
        return tf.gather(tf.constant([1.0, 2.0]), i)

    def in_branch(i):
        return tf.cond(i > 0, lambda: pick(i), lambda: 0.0)

    bodies = {
        "branch": in_branch,
        "loop": lambda i: tf.while_loop(lambda k, s: k < i, lambda k, s: (k + 1, s + pick(k)), (tf.constant(0), 0.0))[
            1
        ],
        "nested": lambda i: tf.while_loop(
            lambda k, s: k < i, lambda k, s: (k + 1, s + in_branch(k)), (tf.constant(0), 0.0)
        )[1],
    }
    f = tf.function(bodies[where], autograph=False)
    assert f(tf.constant(0)).numpy() == 0.0
    f(tf.constant(1))
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices"):
        f(tf.constant(9))
    assert f(tf.constant(0)).numpy() == 0.0
