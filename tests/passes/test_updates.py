"""Optimizer updates are fused with the gradient's kernel, read the right values, and run as early as possible."""

import numpy as np
import pytest
from tvm import ir, relax

import tvtf as tf
from tvtf.frontend.function import executor
from tvtf.passes import pipeline
from tvtf.passes.lower.fuse_optimizer_update import fuse_updates
from tvtf.runtime.target import emulated_gpu_target, host_target

CALL_TIR = ir.Op.get("relax.call_tir")
X = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)


def weights(count):
    return [tf.Variable(np.sin(np.arange(16, dtype=np.float32) + i).reshape(4, 4)) for i in range(count)]


def adam(variables, x):
    """A step through as many layers as there are Variables."""
    optimizer = tf.optimizers.Adam(0.1)
    optimizer.build(variables)

    def step():
        with tf.GradientTape() as tape:
            y = x
            for v in variables:
                y = tf.tanh(tf.matmul(y, v))
            loss = tf.reduce_sum(y * y)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    return step


def updated(step):
    """The module that compiling ``step`` makes, up to the phase."""
    mod = tf.function(step, autograph=False).get_concrete_function().code().module()
    with host_target():
        for phase in pipeline.phases(host_target()):
            mod = phase.run(mod)
            if phase.name == "updates":
                return mod


def kernels_called(mod):
    """The names of the kernels and functions that ``main`` calls, in order."""
    values = [b.value for block in mod["main"].body.blocks for b in block.bindings]
    calls = [v.args[0] if v.op == CALL_TIR else v.op for v in values if isinstance(v, relax.Call)]
    return [call.name_hint for call in calls if isinstance(call, ir.GlobalVar)]


def test_a_step_of_adam_is_one_kernel_per_variable_shared_by_equal_ones():
    made = updated(adam(weights(3), tf.constant(X)))
    called = [name for name in kernels_called(made) if name.endswith("_update")]
    assert len(called) == 3 and len(set(called)) == 1
    assert all(len(made[name].ret_ty.fields) == 3 for name in called)


def test_an_update_comes_before_the_gradients_of_the_layers_below():
    called = kernels_called(updated(adam(weights(3), tf.constant(X))))
    first = next(i for i, name in enumerate(called) if name.endswith("_update"))
    assert any(name.startswith("matmul") and not name.endswith("_update") for name in called[first:])


def test_plain_functions_are_left_alone():
    mod = updated(lambda: tf.sin(tf.constant(X)) + 1.0)
    assert fuse_updates(mod) is mod


def put(v, value):
    v.assign(value, read_value=False)


def momentum(v, m):
    slope = tf.matmul(tf.transpose(v), v)
    put(m, m * 0.9 + slope)
    put(v, v - 0.01 * m)


def gradient_read_elsewhere(v, m):
    slope = tf.matmul(v, v) * 0.1
    put(m, m * 0.9 + slope)
    put(v, v - 0.01 * m + tf.reduce_sum(slope))


def old_value_read_later(v, m):
    old = v + 0.0
    put(m, m * 0.9 + tf.matmul(v, v) * 0.1)
    put(v, v - 0.01 * m)
    put(m, m + tf.matmul(old, m) * 0.01)


def new_value_in_a_product(v, m):
    put(m, m * 0.9 + tf.sin(v))
    put(v, v - 0.01 * tf.matmul(m, v))


def one_value_for_both(v, m):
    made = tf.sin(v) + m
    put(v, made)
    put(m, made)


def twice(v, m):
    for _ in range(2):
        momentum(v, m)


def swapped(v, m):
    old = v * 1.0
    put(v, m * 1.0)
    put(m, old)


def row_broadcast(v, m):
    put(m, m * 0.9 + v[0])
    put(v, v - 0.01 * m)


BODIES = [
    *(momentum, gradient_read_elsewhere, old_value_read_later, new_value_in_a_product, one_value_for_both, twice),
    *(swapped, row_broadcast),
]


def after_two(body, wrap):
    variables = weights(2)
    step = wrap(lambda: body(*variables))
    step()
    step()
    return [v.numpy() for v in variables]


@pytest.mark.parametrize("body", BODIES)
def test_values_are_those_of_eager_steps(body):
    found = after_two(body, lambda f: tf.function(f, autograph=False))
    np.testing.assert_allclose(found, after_two(body, lambda f: f), rtol=1e-5, atol=1e-6)


def test_values_are_those_of_eager_steps_on_a_gpu(monkeypatch):
    monkeypatch.setattr(executor, "target_of", lambda device: emulated_gpu_target())
    test_values_are_those_of_eager_steps(momentum)


def test_the_machine_leaves_new_values_where_variables_lie():
    variables = weights(2)
    step = tf.function(adam(variables, tf.constant(X)), autograph=False)
    step()
    call = step.get_concrete_function().code()
    assert call.updates_in_new_memory[None] == []


def test_a_gradient_over_sizes_that_no_value_has_alone():
    """Its operands have 3 rows for each of a batch, whose size only the dataset tells."""
    inputs = np.sin(np.arange(5 * 3 * 4, dtype=np.float32)).reshape(5, 3, 4)
    pipeline_of = tf.TensorSpec([None, 3, 4])
    dataset = tf.data.Dataset.from_generator(lambda: iter([inputs[:4], inputs]), output_signature=pipeline_of)

    def after_two(wrap):
        v, w = weights(2)

        def step(elements):
            with tf.GradientTape() as tape:
                y = tf.matmul(tf.reshape(elements.get_next(), [-1, 4]), v)
                loss = tf.reduce_sum(tf.tanh(tf.matmul(y, w)))
            for x, gradient in zip((v, w), tape.gradient(loss, [v, w])):
                x.assign_sub(0.01 * gradient)

        elements, call = iter(dataset), wrap(step)
        call(elements)
        call(elements)
        return [v.numpy(), w.numpy()]

    np.testing.assert_allclose(after_two(tf.function), after_two(lambda f: f), rtol=1e-5, atol=1e-6)


def test_the_gradient_of_a_bias_is_summed_where_it_is_used():
    v, b = tf.Variable(np.ones((4, 3), np.float32)), tf.Variable(np.zeros(3, np.float32))
    x = np.arange(8, dtype=np.float32).reshape(2, 4)

    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.tanh(tf.matmul(tf.constant(x), v) * 0.1 + b))
        for variable, gradient in zip((v, b), tape.gradient(loss, (v, b))):
            variable.assign_sub(0.5 * gradient)
        return loss

    called = kernels_called(updated(step))
    assert sum(name.endswith("_update") for name in called) == 2
    assert any(name.startswith("reduce_sum") and name.endswith("_update") for name in called)
    slope = 1.0 - np.tanh(x @ np.ones((4, 3)) * 0.1) ** 2
    tf.function(step)()
    np.testing.assert_allclose(b.numpy(), -0.5 * slope.sum(0), rtol=1e-5)
