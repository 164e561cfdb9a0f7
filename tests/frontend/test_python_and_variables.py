"""Variables assigned in Python called by a function: the function sees the new value, as in TensorFlow, or an error is raised."""

import threading

import numpy as np
import pytest
from covering import covering

import tvtf as tf

WAYS = {"py": tf.py_function, "numpy": tf.numpy_function}


def python(action, way=tf.py_function, result=None):
    """Calls Python for its effect."""

    def run():
        action()
        return None if result is None else np.float32(7)

    return way(run, [], [] if result is None else result)


# Programs of a Variable v, and of a way to call Python.


def between(v, call):
    v.assign_add(1.0)
    call(lambda: v.assign(100.0))
    return v.assign_add(1.0)


def added_by_python(v, call):
    v.assign_add(1.0)
    call(lambda: v.assign_add(10.0))
    call(lambda: v.assign(v * 2.0))
    return v + 1.0


def read_before(v, call):
    before = v.read_value()
    call(lambda: v.assign(100.0))
    return before + v


def given_back(v, call):
    before = v.read_value()
    call(lambda: v.assign(100.0))
    return before


def not_used_later(v, call):
    before = v * 3.0
    call(lambda: v.assign(100.0))
    return before


def only_assigned_later(v, call):
    call(lambda: v.assign(100.0))
    v.assign(5.0)
    return v * 1.0


def in_a_branch(v, call):
    v.assign_add(1.0)
    if v > 0.0:
        call(lambda: v.assign(v + 100.0))
    else:
        v.assign_add(5.0)
    return v + 1.0


def beside_a_branch(v, call):
    v.assign_add(1.0)
    if v < 0.0:
        call(lambda: v.assign(v + 100.0))
    else:
        v.assign_add(5.0)
    return v + 1.0


def assigned_in_a_branch_too(v, call):
    if v > -1.0:
        v.assign_add(1.0)
        call(lambda: v.assign(v * 3.0))
        v.assign_add(1.0)
    return v * 2.0


def in_a_loop(v, call):
    total = tf.constant(0.0)
    for _ in tf.range(3):
        total += v
        call(lambda: v.assign_add(1.0))
    return total


def in_a_loop_that_assigns(v, call):
    total = tf.constant(0.0)
    v.assign_add(7.0)
    for i in tf.range(3):
        v.assign_add(1.0)
        call(lambda: v.assign(v * 2.0))
        total += v
        if i > 1:
            v.assign(v * 10.0)
    v.assign_add(1.0)
    return total


def in_a_loop_in_a_loop(v, call):
    total = tf.constant(0.0)
    for _ in tf.range(2):
        total += v
        for _ in tf.range(2):
            call(lambda: v.assign_add(1.0))
        v.assign(v * 2.0)
        for _ in tf.range(2):
            v.assign_add(0.5)
    return total + v


def in_a_condition(v, call):
    steps = tf.constant(0)
    while v < 5.0:
        call(lambda: v.assign_add(1.0))
        steps += 1
    return tf.cast(steps, tf.float32) + v


def before_a_loop(v, call):
    call(lambda: v.assign(2.0))
    for _ in tf.range(3):
        v.assign(v * 3.0)
    return v * 1.0


def in_a_function(v, call):
    @tf.function
    def inner():
        call(lambda: v.assign_add(100.0))

    v.assign_add(1.0)
    inner()
    v.assign_add(1.0)
    inner()
    return v + 1.0


def in_a_function_in_a_loop(v, call):
    @tf.function
    def inner():
        v.assign_add(1.0)
        call(lambda: v.assign(v * 2.0))
        return v + 1.0

    total = tf.constant(0.0)
    for _ in tf.range(3):
        total += inner()
    return total + v


def by_a_compiled_function(v, call):
    inner = tf.function(lambda: v.assign_add(100.0))
    v.assign_add(1.0)
    call(inner)
    return v + 1.0


def after_recomputing(v, call):
    @tf.recompute_grad
    def inner(x):
        call(lambda: v.assign_add(1.0))
        return x * v

    return inner(tf.constant(3.0)) + v


PROGRAMS = [
    between, added_by_python, read_before, given_back, not_used_later, only_assigned_later, in_a_branch, beside_a_branch,
    assigned_in_a_branch_too, in_a_loop, in_a_loop_that_assigns, in_a_loop_in_a_loop, in_a_condition, before_a_loop,
    in_a_function, in_a_function_in_a_loop, by_a_compiled_function, after_recomputing,
]  # fmt: skip


def both(program, call, around=lambda run, v: run()):
    """The results and what v holds after each of three calls, traced and eagerly."""
    found = []
    for traced in (True, False):
        v = tf.Variable(0.5)
        function = tf.function(lambda: program(v, call))  # noqa: B023
        tf.config.run_functions_eagerly(not traced)
        try:
            found.append([(float(around(function, v)), float(v)) for _ in range(3)])
        finally:
            tf.config.run_functions_eagerly(False)
    return found


@covering(
    shifts=2,
    program={program.__name__: program for program in PROGRAMS},
    way=list(WAYS),
    result={"nothing": None, "any rank": tf.float32, "typed": tf.TensorSpec([])},
)
def test_a_function_sees_what_python_assigned(program, way, result):
    traced, eager = both(program, lambda action: python(action, WAYS[way], result))
    assert traced == eager


@covering(program={program.__name__: program for program in PROGRAMS}, result={"nothing": None, "any rank": tf.float32})
def test_it_does_under_tapes_and_so_does_the_gradient(program, result):
    gradients = []

    def taped(run, v):
        with tf.GradientTape() as tape:
            y = run()
        gradient = tape.gradient(y, v)
        gradients.append(None if gradient is None else float(gradient))
        return y

    traced, eager = both(program, lambda action: python(action, result=result), taped)
    assert traced == eager
    assert gradients[:3] == gradients[3:]


@pytest.mark.parametrize("inside", [True, False], ids=["within", "around"])
def test_gradients_by_a_variable_that_is_read_again(inside):
    v = tf.Variable(2.0)

    def loss():
        before = v * v
        python(lambda: v.assign_add(1.0))
        return before + v * v * v

    @tf.function
    def gradient():
        with tf.GradientTape() as tape:
            y = loss()
        return tape.gradient(y, v)

    if inside:
        assert float(gradient()) == 2 * 2 + 3 * 9
    else:
        with tf.GradientTape() as tape:
            y = tf.function(loss)()
        assert float(tape.gradient(y, v)) == 2 * 2 + 3 * 9
    assert float(v) == 3.0


def test_training_with_python_on_the_way():
    def trained(log):
        w, seen = tf.Variable([1.0, -1.0]), []

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((w * x - 2.0) ** 2)
            if log:
                tf.py_function(lambda value: seen.append(float(value)), [loss], [])
            w.assign_sub(0.1 * tape.gradient(loss, w))
            if log:
                tf.py_function(lambda: seen.append(w.numpy()[0]) and None, [], [])
            return loss

        losses = [float(step(tf.constant([1.0, 2.0]))) for _ in range(4)]
        return losses, w.numpy().tolist(), seen

    plain, logged = trained(log=False), trained(log=True)
    assert logged[:2] == plain[:2]
    assert len(logged[2]) == 8


def test_what_others_were_given_stays():
    v = tf.Variable([1.0, 2.0])
    kept = []

    @tf.function
    def f():
        v.assign_add([1.0, 1.0])
        python(lambda: kept.append(v.read_value()))
        v.assign_add([1.0, 1.0])
        python(lambda: kept.append(v.read_value()))
        return v.assign_add([1.0, 1.0])

    kept.append(v.read_value())
    f()
    with tf.GradientTape():
        f()
    assert [x.numpy()[0] for x in kept] == [1.0, 2.0, 3.0, 5.0, 6.0]
    assert v.numpy()[0] == 7.0


def test_an_assertion_after_python_leaves_what_was_assigned_before():
    v = tf.Variable(0.0)

    @tf.function
    def f(x):
        v.assign_add(1.0)
        python(lambda: v.assign_add(10.0))
        v.assign_add(100.0)
        tf.debugging.assert_positive(x)
        v.assign_add(1000.0)

    with pytest.raises(tf.errors.InvalidArgumentError):
        f(tf.constant(-1.0))
    assert float(v) == 111.0


def test_a_variable_of_unknown_shape_is_read_in_its_new_one():
    v = tf.Variable([1.0], shape=[None])

    @tf.function
    def f():
        v.assign(tf.concat([v, v], 0))
        python(lambda: v.assign(tf.concat([v, v], 0)))
        return tf.shape(v)[0], tf.reduce_sum(v)

    assert [int(x) for x in f()] == [4, 4]
    assert [int(x) for x in f()] == [16, 16]


# Threads that Python waits for.


def awaited(action):
    """Python that waits for a thread, which must not wait for the function."""

    def run():
        thread = threading.Thread(target=action, daemon=True)
        thread.start()
        thread.join(30)
        assert not thread.is_alive()

    return run


def test_python_may_wait_for_threads_that_use_the_variables():
    v = tf.Variable([0.0] * 8)
    add = tf.function(lambda: v.assign_add([1.0] * 8))
    seen = []

    @tf.function
    def f():
        v.assign_add([10.0] * 8)
        python(awaited(lambda: seen.append(v.numpy()[0])))
        python(awaited(lambda: v.assign_add([1.0] * 8)))
        python(awaited(add))
        return v.assign_add([100.0] * 8)

    assert f().numpy().tolist() == [112.0] * 8
    assert seen == [10.0]
    assert v.numpy().tolist() == [112.0] * 8


def test_memory_that_a_call_goes_on_with_is_left_to_it():
    v = tf.Variable(np.zeros(1000, np.float32))
    add = tf.function(lambda: v.assign_add(tf.ones([1000])))

    @tf.function
    def f():
        before = v * 1.0
        python(awaited(add))
        python(awaited(lambda: v.assign_add(tf.ones([1000]))))
        return before + 0.0 * v, v - before

    add()
    for count in (1.0, 3.0, 5.0):
        before, change = f()
        assert before.numpy().tolist() == [count] * 1000
        assert change.numpy().tolist() == [2.0] * 1000


def test_a_dataset_s_python_may_wait_for_threads_that_read_the_variables():
    v = tf.Variable(2.0)

    def rows():
        for i in range(3):
            awaited(v.numpy)()
            yield float(i)

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([]))

    @tf.function
    def f():
        total = tf.constant(0.0)
        for row in dataset:
            total += row * v
        return total

    assert float(f()) == 6.0


def test_python_beside_a_dataset_may_assign_what_is_used_after_it():
    v = tf.Variable(0.0)
    rows = iter(tf.data.Dataset.range(9))

    @tf.function
    def f():
        total = tf.constant(0.0)
        for row in tf.data.Dataset.range(3):
            python(lambda: v.assign_add(10.0))
            total += v + tf.cast(row, tf.float32)
        first = next(rows)
        v.assign(1.0)
        python(lambda: v.assign_add(5.0))
        return total, v * 2.0, first

    assert [float(each) for each in f()] == [63.0, 12.0, 0.0]
    assert [float(each) for each in f()] == [81.0, 12.0, 1.0]
    assert float(v) == 6.0


# What is refused: Python of a dataset is no barrier, and a Variable that is passed in is not known when it is traced.


def test_a_dataset_s_python_may_not_assign_what_is_used_after_it():
    v = tf.Variable(0.0, name="v")

    def rows():
        for i in range(3):
            v.assign(10.0)
            yield float(i)

    dataset = tf.data.Dataset.from_generator(rows, output_signature=tf.TensorSpec([]))

    @tf.function
    def f():
        total = tf.constant(0.0)
        for row in dataset:
            total += row + v
        return total

    with pytest.raises(
        tf.errors.UnimplementedError, match="v:0 can't be assigned by a Python function that a tf.function"
    ):
        f()


def test_a_variable_that_is_passed_in_may_not_be_assigned():
    v = tf.Variable(0.0, name="v")

    @tf.function
    def f(variable):
        variable.assign_add(1.0)
        python(lambda: v.assign(100.0))
        return variable.assign_add(1.0)

    with pytest.raises(tf.errors.UnimplementedError, match="v:0 can't be assigned"):
        f(v)


def test_gradients_of_what_was_read_before_python_was_called():
    w, calls = tf.Variable(3.0), tf.Variable(0)

    def two(_):
        calls.assign_add(1)
        return 2.0

    def one():
        number = tf.py_function(lambda: 1.0, [], tf.float32)
        number.set_shape([])
        return number

    @tf.function
    def of_elements(iterator):
        with tf.GradientTape() as tape:
            total = 0.0
            for _ in tf.range(3):
                total += w * w * next(iterator)
        return tape.gradient(total, w)

    @tf.function
    def of_python():
        with tf.GradientTape() as tape:
            total = w * one()
            for _ in tf.range(3):
                total += w * w * one()
        return tape.gradient(total, w)

    assert float(of_elements(iter(tf.data.Dataset.range(3).map(two)))) == 36
    assert float(of_python()) == 19
    assert int(calls) == 3


@tf.function
def assigned_before_a_branch(v, x):
    """The branch may fail for other sizes, so the assignment is written before it."""
    y = x * v
    v.assign(v * 10.0)
    scaled = tf.cond(tf.reduce_sum(y) > 0.0, lambda: y[::-1], lambda: y)
    v.assign_add(scaled)
    return y


def test_a_gradient_sees_the_value_that_was_read_before_an_early_write():
    v, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 5.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = assigned_before_a_branch(v, x)
        z = assigned_before_a_branch(v, y)
    np.testing.assert_array_equal(tape.gradient(y, x), [1.0, 2.0])
    np.testing.assert_array_equal(tape.gradient(z, x), [20.0, 46.0])
    np.testing.assert_array_equal(tape.gradient(z, y), [20.0, 23.0])


def test_a_branch_that_runs_again_for_its_gradient_writes_no_variable():
    """The gradient's code has the value from before the call where the branch has the Variable's memory."""
    v, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 5.0])

    def assigned():
        v.assign_add(x)
        return tf.gather(x * v, [1, 0])

    def outer():
        y = tf.cond(tf.reduce_sum(x) > 100.0, lambda: x * v, assigned)
        return y * v

    function = tf.function(lambda: tf.cond(tf.reduce_sum(x) > 0.0, outer, lambda: x))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function()
    of_x, of_v = tape.gradient(y, [x, v])
    np.testing.assert_array_equal(y, [140.0, 84.0])
    np.testing.assert_array_equal(of_x, [28.0, 28.0])
    np.testing.assert_array_equal(of_v, [56.0, 32.0])


@pytest.mark.parametrize("watched", [True, False])
def test_a_tensor_read_under_a_tape_keeps_its_value_through_an_early_write(watched):
    v, x = tf.Variable([1.0, 2.0]), tf.constant([3.0, 5.0])
    with tf.GradientTape(watch_accessed_variables=watched) as tape:
        tape.watch(x)
        read = v.read_value()
        square = v * v
        assigned_before_a_branch(v, x)
    np.testing.assert_array_equal(read, [1.0, 2.0])
    np.testing.assert_array_equal(v, [20.0, 23.0])
    if watched:
        np.testing.assert_array_equal(tape.gradient(square, v), [2.0, 4.0])


def assigned_in_a_branch_and_a_loop(v, w, x):
    """The loop may fail, so that assignments are written before it, and in its iterations."""
    y = x
    product = x
    if tf.reduce_sum(x) < 100.0:
        v.assign(0.5 * v)
        y = v * w
    for i in tf.range(2):
        if tf.reduce_sum(x) > 100.0:
            break
        v.assign(2.0 + v)
        product = product * y
        y = y + x[i]
    return product


def test_a_gradient_that_runs_a_loop_again_writes_no_recorded_value():
    v, w, x = tf.Variable([1.0, -2.0]), tf.Variable([3.0, 5.0]), tf.constant([0.5, 2.0])
    compiled = tf.function(assigned_in_a_branch_and_a_loop)
    gradients = []
    for run in (assigned_in_a_branch_and_a_loop, compiled):
        v.assign([1.0, -2.0])
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                product = run(v, w, x)
            first = tape.gradient(product, [v, w, x])
        gradients.append([*first, *outer.gradient(first[1], [v, w, x])])
        np.testing.assert_array_equal(v, [4.5, 3.0])
    for of_eager, of_compiled in zip(*gradients, strict=True):
        np.testing.assert_allclose(of_compiled, of_eager, rtol=1e-5)


def test_a_branch_that_runs_again_for_its_gradient_finds_the_results_for_nan():
    """Python isn't called once more because NaN isn't equal to itself."""
    calls = []

    def double(x):
        calls.append(x)
        return x * 2.0

    v1 = tf.compat.v1
    with v1.Graph().as_default():
        x, chosen = v1.placeholder(tf.float32, [2]), v1.placeholder(tf.bool, [])
        y = tf.cond(
            chosen, lambda: tf.reduce_sum(tf.py_function(double, [x], tf.float32) ** 2), lambda: tf.reduce_sum(x)
        )
        (gradient,) = v1.gradients(y, x)
        counts = []
        for first in (1.0, float("nan")):
            calls.clear()
            v1.Session().run([y, gradient], {x: [first, 2.0], chosen: True})
            counts.append(len(calls))
    assert counts[0] == counts[1]
