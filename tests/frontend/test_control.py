"""tf.cond, tf.while_loop and similar functions: eager == traced, gradients == finite differences, complete error messages."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.graph.loop_dce import trim_loops
from tvtf.passes.graph.simplify import simplify

X = np.array([0.5, -0.3, 0.9])


def difference(function, x, step=1e-6):
    """The gradient of a scalar function by central differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        found[place] = (float(function(tf.constant(up))) - float(function(tf.constant(down)))) / (2 * step)
    return found


def gradient(function):
    @tf.function(autograph=False)
    def differentiated(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return differentiated


def branching(x):
    return tf.reduce_sum(tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(x) * x, lambda: x * x * x))


def counted(x):
    _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, tf.sin(y) * x), (0, x))
    return tf.reduce_sum(y)


def limited(x):
    (y,) = tf.while_loop(lambda y: tf.reduce_sum(y) < 1e9, lambda y: (y * y + x,), (x,), maximum_iterations=3)
    return tf.reduce_sum(y)


def no_turns(x):
    _, y = tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * x), (0, x))
    return tf.reduce_sum(y * y)


def nested(x):
    def turn(i, y):
        y = tf.cond(tf.reduce_sum(y) > 1.0, lambda: tf.sin(y) * x, lambda: y * y + x)
        _, y = tf.while_loop(lambda j, y: j < i, lambda j, y: (j + 1, y * x + 0.1), (0, y))
        return i + 1, y

    return tf.reduce_sum(tf.while_loop(lambda i, y: i < 3, turn, (0, x))[1])


def mapped(x):
    return tf.reduce_sum(tf.map_fn(lambda v: v * v * x, x))


def scanned(x):
    return tf.reduce_sum(tf.scan(lambda a, v: a * v + 1.0, x) * x)


def folded(x):
    return tf.foldr(lambda a, v: a * v + tf.sin(a), x)


def recurrent(x):
    weights = tf.reshape(x, [3, 1]) * tf.reshape(x, [1, 3])
    turn = lambda i, y: (i + 1, tf.tanh(tf.matmul(y, weights) + y))  # noqa: E731
    return tf.reduce_sum(tf.while_loop(lambda i, y: i < 3, turn, (0, tf.reshape(x, [1, 3])))[1])


PROGRAMS = [branching, counted, limited, no_turns, nested, mapped, scanned, folded, recurrent]


@pytest.mark.parametrize("program", PROGRAMS)
def test_compiled_equals_eager(program):
    for values in (X, -X):
        np.testing.assert_allclose(tf.function(program)(tf.constant(values)), program(tf.constant(values)), rtol=1e-12)


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_are_those_of_finite_differences_to_second_order(program):
    first = gradient(program)
    np.testing.assert_allclose(first(tf.constant(X)), difference(program, X), rtol=1e-6, atol=1e-8)
    weights = np.array([1.0, 2.0, -1.0])

    def slope(x):
        return tf.reduce_sum(first(x) * weights)

    np.testing.assert_allclose(gradient(slope)(tf.constant(X)), difference(slope, X), rtol=1e-5, atol=1e-7)


def test_the_untaken_branch_does_not_run():
    v = tf.Variable(1.0)

    @tf.function
    def step(x):
        return tf.cond(x > 0.0, lambda: v.assign_add(x), lambda: v.assign(-x))

    assert float(step(tf.constant(2.0))) == 3.0
    assert float(v) == 3.0
    assert float(step(tf.constant(-5.0))) == 5.0
    assert float(v) == 5.0


def test_a_loop_carries_the_variables_it_assigns():
    v, scale = tf.Variable(1.0), tf.Variable(2.0)

    @tf.function
    def grow(n):
        def turn(i):
            v.assign(v * scale)
            return (i + 1,)

        tf.while_loop(lambda i: i < n, turn, (0,))
        return v + 1.0

    assert float(grow(tf.constant(5))) == 33.0
    assert float(v) == 32.0
    assert float(scale) == 2.0


def test_gradients_of_variables_and_captured_tensors_add_up_over_turns():
    v, big = tf.Variable([1.0, 2.0]), tf.constant(np.ones(100, np.float32))

    @tf.function
    def slopes(n):
        with tf.GradientTape() as tape:
            tape.watch(big)
            _, y = tf.while_loop(
                lambda i, y: i < n, lambda i, y: (i + 1, y + tf.reduce_sum(big * big) * v), (0, tf.zeros([2]))
            )
        return tape.gradient(y, [v, big])

    by_v, by_big = slopes(tf.constant(3))
    assert by_v.numpy().tolist() == [300.0, 300.0]
    assert by_big.numpy().tolist() == [18.0] * 100


def test_unknown_dims_go_through_branches_and_loops():
    @tf.function(input_signature=[tf.TensorSpec([None, 2]), tf.TensorSpec([], tf.int32)])
    def grown(x, n):
        y = x + 1.0
        step = lambda x: tf.cond(tf.reduce_sum(x) < 10.0, lambda: x + y, lambda: -x)  # noqa: E731
        return tf.while_loop(lambda i, x: i < n, lambda i, x: (i + 1, step(x)), (0, x))[1]

    assert grown(tf.constant([[1.0, 2.0]]), tf.constant(4)).numpy().tolist() == [[-3.0, -5.0]]
    assert grown(tf.ones([3, 2]), tf.constant(1)).shape == (3, 2)


def test_a_million_turns():
    @tf.function
    def count(n):
        return tf.while_loop(lambda i: i < n, lambda i: (i + 1,), (0,))[0]

    assert int(count(tf.constant(1_000_000))) == 1_000_000


def test_ten_thousand_turns_backwards():
    @tf.function
    def slope(x, n):
        with tf.GradientTape() as tape:
            tape.watch(x)
            _, y = tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, y + tf.sin(x)), (0, x))
        return tape.gradient(y, x)

    np.testing.assert_allclose(slope(tf.constant(0.5, tf.float64), tf.constant(10_000)), 1 + 10_000 * np.cos(0.5))


def test_a_loop_with_its_gradient_runs_forward_once():
    @tf.function
    def slope(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            limit = tf.cast(x[0, 0], tf.int32) + 2
            _, y = tf.while_loop(lambda i, y: i < limit, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), (0, x))
        return y, tape.gradient(y, w)

    mod = simplify(slope.get_concrete_function(tf.ones([2, 2]), tf.ones([2, 2])).module())
    products = {v.name_hint: f.script().count("tvtf.matmul") for v, f in trim_loops(mod).functions_items()}
    counting, forward, backward = (n for name, n in products.items() if "cond" not in name and name != "main")
    assert sorted((counting, forward, backward)) == [0, 1, 2]


def test_a_loop_that_counts_to_a_number_is_not_counted_first():
    @tf.function
    def slope(x, w):
        with tf.GradientTape() as tape:
            tape.watch(w)
            _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), (0, x))
        return y, tape.gradient(y, w)

    mod = simplify(slope.get_concrete_function(tf.ones([2, 2]), tf.ones([2, 2])).module())
    functions = {v.name_hint: f.script() for v, f in trim_loops(mod).functions_items()}
    products = [f.count("tvtf.matmul") for name, f in functions.items() if "cond" not in name and name != "main"]
    assert sorted(products) == [1, 2]


def test_two_gradients_of_one_loop():
    @tf.function
    def slopes(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            _, y, z = tf.while_loop(lambda i, *_: i < 3, lambda i, y, z: (i + 1, y * x, z + y), (0, x, x))
        return y, tape.gradient(y, x), tape.gradient(z, x)

    assert [float(t) for t in slopes(tf.constant(2.0))] == [16.0, 32.0, 1.0 + 1.0 + 4.0 + 12.0]


def test_gradients_of_slices_stay_linear_in_the_rows():
    x = tf.constant(np.random.default_rng(0).normal(size=(3000, 2)))

    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.zeros([2], tf.float64)
            for row in x:
                total = total * 0.99 + row * row
        return tape.gradient(total, x)

    np.testing.assert_allclose(slope(x), 2 * x.numpy() * (0.99 ** np.arange(2999, -1, -1))[:, None])


def test_gradients_of_rows_read_by_index_are_added_where_they_lie():
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.zeros([2])
            for i in tf.range(3):
                total = total * 0.5 + x[i] * x[-1 - i] + tf.gather(x, i)
            y = tf.reduce_sum(total * total)
        return tape.gradient(y, x)

    traced, x = tf.function(slope), tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    np.testing.assert_allclose(traced(x), slope(x), rtol=1e-6)
    ir = traced.relax(x)
    assert ir.count("tvtf.stack_add_rows") == 3
    assert "tvtf.dynamic_slice_grad" not in ir and "segment_sum" not in ir


@pytest.mark.parametrize(
    "term",
    [
        lambda x, i: x[i, 1],
        lambda x, i: tf.reduce_sum(tf.gather(x, [i, 0])),
        lambda x, i: tf.gather_nd(x, [[i, 1], [i, 0]])[0],
        lambda x, i: tf.cond(i > 1, lambda: x[i, 0] * x[0, 1], lambda: tf.reduce_sum(x[i])),
    ],
)
def test_no_turn_makes_a_whole_cotangent(term):
    @tf.function(autograph=False)
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            step = lambda i, total: (i + 1, total + term(x, i) ** 2)  # noqa: E731
            y = tf.while_loop(lambda i, _: i < 97, step, (0, 0.0))[1]
        return tape.gradient(y, x)

    module = slope.get_concrete_function(tf.TensorSpec([97, 2])).graph.module()
    back = next(f.script() for v, f in module.functions_items() if v.name_hint == "while_grad")
    calls = [line.split("=")[0] for line in back.splitlines() if "T.Call(" in line]
    made = [line for line in calls if "R.Tensor((97, 2)" in line or "R.Tensor((194," in line]
    assert made and all("stack_add_rows" in line for line in made)


def test_a_window_of_computed_size_in_a_loop():
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + tf.reduce_sum(x[i : i + 2] ** 2)), (0, 0.0))[
                1
            ]
        return tape.gradient(y, x)

    x = tf.range(5.0)
    assert tf.function(slope)(x).numpy().tolist() == slope(x).numpy().tolist() == [0.0, 4.0, 8.0, 6.0, 0.0]


def test_integers_have_no_gradient():
    @tf.function
    def slopes(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            i, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x))
        return tape.gradient(y, x)

    assert float(slopes(tf.constant(2.0))) == 32.0


@pytest.mark.parametrize("index", [-1, 0, 1, 2, 9])
def test_switch_case(index):
    branches = [lambda: 10, lambda: 20, lambda: 30]
    expected = 30 if index not in (0, 1) else (10, 20)[index]
    assert int(tf.switch_case(tf.constant(index), branches)) == expected
    assert int(tf.function(lambda i: tf.switch_case(i, branches))(tf.constant(index))) == expected
    default = tf.function(lambda i: tf.switch_case(i, {1: lambda: 1, 0: lambda: 0}, default=lambda: 7))
    assert int(default(tf.constant(index))) == (index if index in (0, 1) else 7)


def test_case():
    def program(x):
        return tf.case([(x > 5, lambda: 1), (x > 3, lambda: 2)], default=lambda: 3)

    compiled = tf.function(program)
    for x, expected in ((9, 1), (4, 2), (0, 3)):
        assert program(tf.constant(x)) == expected
        assert int(compiled(tf.constant(x))) == expected


def test_case_without_a_true_predicate_fails_when_it_runs():
    compiled = tf.function(lambda x: tf.case([(x > 5, lambda: 1), (x > 3, lambda: 2)]))
    assert int(compiled(tf.constant(4))) == 2
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of conditions evaluated as True"):
        compiled(tf.constant(0))
    with pytest.raises(tf.errors.InvalidArgumentError, match="None of conditions evaluated as True"):
        tf.case([(tf.constant(False), lambda: 1)])


def test_eager_loops_are_python():
    seen = []
    result = tf.while_loop(lambda i: i < 3, lambda i: (seen.append(int(i)) or i + 1,), (tf.constant(0),))
    assert seen == [0, 1, 2]
    assert int(result[0]) == 3


def plain(message):
    """The error's own lines, without the user's stack."""
    text = str(message)
    return text.split("\n\n", 2)[2] if text.startswith("in user code") else text


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        (lambda x: tf.cond(x > 0, lambda: x), TypeError, "cond(): 'false_fn' argument required"),
        (lambda x: tf.cond(x > 0, 1, lambda: x), TypeError, "'true_fn' must be callable."),
        (lambda x: tf.while_loop(1, lambda y: y, [x]), TypeError, "'cond' must be callable."),
        (lambda x: tf.while_loop(lambda y: y, 1, [x]), TypeError, "'body' must be callable."),
        (lambda x: tf.while_loop(lambda: True, list, []), ValueError, "'loop_vars' must be provided."),
        (
            lambda x: tf.cond(x > 0.0, lambda: x, lambda: None),
            ValueError,
            "Lengths of branch outputs of cond must match.\nlen(graphs[0].outputs): 1\nlen(graphs[1].outputs): 0\n",
        ),
        (
            lambda x: tf.while_loop(lambda y: True, lambda y: tf.cast(y, tf.int32), [x]),
            TypeError,
            "Loop var x:0 enters the loop with type tf.float32 but has type tf.int32 after 1 iteration. x:0 type "
            "should "
            "remain constant.",
        ),
        (
            lambda x: tf.while_loop(lambda y: True, lambda y: tf.reshape(y, [1]), [x]),
            ValueError,
            "Input tensor `x:0` enters the loop with shape (), but has shape (1,) after one iteration. To allow the "
            "shape "
            "to vary across iterations, use the `shape_invariants` argument of tf.while_loop to specify a "
            "less-specific "
            "shape.",
        ),
        (
            lambda x: tf.while_loop(lambda y: y, lambda y: y, [x]),
            TypeError,
            "While: the loop's condition must be a scalar of dtype bool, but has shape () and dtype float32; reduce "
            "it with "
            "tf.reduce_all or tf.reduce_any",
        ),
        (lambda x: tf.switch_case(1, [lambda: x]), TypeError, "'branch_index' must be a Tensor, got <class 'int'>"),
        (
            lambda x: tf.switch_case(tf.constant(1), {1: lambda: x, 2: lambda: x}),
            ValueError,
            "branch indices (keys) must form contiguous range of [0 to 2) but found {1,2}",
        ),
        (lambda x: tf.map_fn(lambda v: v, x), ValueError, None),
    ],
)
def test_errors_while_tracing(program, kind, message):
    traced = tf.function(lambda x: program(x), autograph=False)
    with pytest.raises(kind) as error:
        traced(tf.constant(1.0))
    if message is not None:
        assert str(error.value) == message


def test_branches_of_different_dtypes_are_reported_with_both():
    traced = tf.function(lambda x: tf.cond(x > 0.0, lambda: x, lambda: 1), autograph=False)
    with pytest.raises(TypeError) as error:
        traced(tf.constant(1.0))
    text = str(error.value)
    assert text.startswith(
        "true_fn and false_fn arguments to tf.cond must have the same number, type, and overall structure of return "
        "values."
    )
    assert text.endswith("have different types")


def test_ranks_that_change_are_rejected_in_compiled_loops_even_with_invariants():
    def grow(x):
        return tf.while_loop(lambda y: True, lambda y: tf.reshape(y, [1]), [x], shape_invariants=[tf.TensorShape(None)])

    with pytest.raises(NotImplementedError) as error:
        tf.function(grow, autograph=False)(tf.constant(1.0))
    assert str(error.value) == (
        "`x:0` enters the loop with shape (), but has shape <unknown> after one iteration: the rank of a tensor is known "
        "when a loop is compiled. Keep it, or run the loop eagerly."
    )


def test_run_time_sizes_are_computed_in_loops():
    @tf.function
    def f(x):
        total = 0.0
        for i in tf.range(3):
            above = tf.boolean_mask(x, x > tf.cast(i, tf.float32))
            total += tf.reduce_sum(above + tf.ones_like(above)) + tf.cast(tf.size(tf.unique(above)[0]), tf.float32)
        return total

    assert f(tf.constant([1.0, 2.0, 2.0, 5.0])).numpy() == 30.0 + 4 + 3 + 1


def test_sizes_that_turn_out_unequal_are_broadcast_or_reported():
    @tf.function
    def f(x, y):
        return tf.boolean_mask(x, x > 0) + tf.boolean_mask(y, y > 0)

    assert f(tf.constant([1.0, -1.0]), tf.constant([-1.0, 3.0])).numpy() == [4.0]
    assert f(tf.constant([1.0, -1.0]), tf.constant([1.0, 3.0])).numpy().tolist() == [2.0, 4.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2\] vs. \[3\]"):
        f(tf.constant([1.0, 2.0]), tf.constant([1.0, 3.0, 4.0]))


def test_the_gradient_of_a_loop_whose_shapes_change():
    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            shape = [tf.TensorShape([None])]
            (y,) = tf.while_loop(
                lambda y: tf.size(y) < 5, lambda y: (tf.concat([y, x], 0),), [x], shape_invariants=shape
            )
        return tape.gradient(y, x)

    assert slope(tf.constant([1.0, 2.0])).numpy().tolist() == [3.0, 3.0]
