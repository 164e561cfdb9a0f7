"""Optimizers do Keras's arithmetic, eagerly and compiled, in the memory of their Variables; checkpoints hold their slots."""

from types import SimpleNamespace

import golden_filters
import numpy as np
import optimizer_programs
import pytest
from covering import covering

import tvtf as tf
from tvtf.frontend.library import plain_optimizers as optimizers
from tvtf.rng import keras_initializers
from tvtf.train import Checkpoint

NAMESPACES = {
    "tf": tf,
    "plain": SimpleNamespace(
        optimizers=optimizers, initializers=keras_initializers, Variable=tf.Variable, constant=tf.constant
    ),
}
in_each = pytest.mark.parametrize("space", NAMESPACES.values(), ids=NAMESPACES.keys())
MAKERS = [(name, options) for name, variants in optimizer_programs.OPTIMIZERS.items() for options in variants]
LOOSER = golden_filters.LOOSER["optimizers"]
make = pytest.mark.parametrize("name, options", MAKERS, ids=lambda value: str(value))


@in_each
def test_results_are_keras_results(space):
    expected = optimizer_programs.golden()
    found = list(optimizer_programs.results(space))
    assert [name for name, _ in found] == [name for name, _ in expected]
    for (name, values), (_, theirs) in zip(found, expected):
        np.testing.assert_allclose(values, theirs, rtol=LOOSER.relative, atol=LOOSER.absolute, err_msg=name)
    assert [list(each) for each in found] != expected, "the tolerance is not needed"


class Model:
    """A layer and its training step."""

    def __init__(self, optimizer, compiled):
        weight, bias = optimizer_programs.start()
        self.weight, self.bias = tf.Variable(weight, name="w"), tf.Variable(bias, name="b")
        self.optimizer = optimizer
        self.step = tf.function(self.run) if compiled else self.run

    def run(self, x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(tf.matmul(x, self.weight) + self.bias))
        variables = [self.weight, self.bias]
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    def train(self, steps):
        x = tf.constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
        for _ in range(steps):
            self.step(x)
        return np.concatenate([self.weight.numpy().ravel(), self.bias.numpy()])

    def addresses(self):
        """Where every tensor lies; the step counter's 8 bytes are none."""
        variables = [self.weight, self.bias, *self.optimizer.variables]
        tensors = [v if isinstance(v, tf.Variable) else v.value for v in variables if v.ndim]
        return [v._array.ctypes.data for v in tensors]


def made(name, options, space=NAMESPACES["plain"]):
    return getattr(space.optimizers, name)(learning_rate=0.05, **options)


@covering(maker={f"{name}-{options}": (name, options) for name, options in MAKERS}, space=NAMESPACES)
def test_compiled_steps_are_eager_steps_in_the_same_memory(maker, space):
    name, options = maker
    eager, compiled = Model(made(name, options, space), False), Model(made(name, options, space), True)
    compiled.train(2)
    before = compiled.addresses()
    np.testing.assert_allclose(compiled.train(2), eager.train(4), rtol=1e-5, atol=1e-6)
    assert compiled.addresses() == before
    assert int(compiled.optimizer.iterations) == 4


@in_each
def test_checkpoint_holds_slots_also_those_not_made_yet(tmp_path, space):
    first = Model(space.optimizers.Adam(0.05), True)
    first.train(2)
    path = Checkpoint(optimizer=first.optimizer, w=first.weight, b=first.bias).save(tmp_path / "ckpt")
    expected = first.train(2)
    second = Model(space.optimizers.Adam(0.5), True)
    status = Checkpoint(optimizer=second.optimizer, w=second.weight, b=second.bias).restore(path)
    found = second.train(2)
    status.assert_consumed()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert int(second.optimizer.iterations) == 4 and float(second.optimizer.learning_rate) == pytest.approx(0.05)


def test_learning_rate_may_be_set_or_be_a_variable_a_function_or_a_schedule():
    w = tf.Variable(1.0)
    optimizer = optimizers.SGD(1.0)
    optimizer.learning_rate = 0.5
    optimizer.apply_gradients([(tf.constant(1.0), w)])
    assert float(w) == 0.5
    rate = tf.Variable(0.25)
    optimizers.SGD(rate).apply_gradients([(tf.constant(1.0), w)])
    optimizers.SGD(lambda: 0.125).apply_gradients([(tf.constant(1.0), w)])
    assert float(w) == 0.125
    decayed = optimizers.SGD(optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 0.0]))
    for _ in range(2):
        decayed.apply_gradients([(tf.constant(1.0), w)])
    assert float(w) == -0.875 and float(decayed.learning_rate) == 0.0
    with pytest.raises(TypeError, match="hence its learning rate is not settable"):
        decayed.learning_rate = 0.1


@in_each
def test_schedule_advances_in_compiled_code(space):
    schedule = space.optimizers.schedules.CosineDecay(0.1, 4, warmup_target=0.2, warmup_steps=2)
    rate = tf.function(lambda step: schedule(step), autograph=False)
    for step in range(8):
        step = tf.constant(step, tf.int64)
        np.testing.assert_allclose(rate(step), schedule(step), rtol=1e-5)


def test_variables_without_gradient_stay_with_a_warning():
    v, w = tf.Variable(1.0, name="v"), tf.Variable(2.0, name="w")
    with pytest.warns(UserWarning) as caught:
        optimizers.SGD(0.5).apply_gradients([(None, v), (tf.constant(1.0), w)])
    assert str(caught[0].message) == (
        "Gradients do not exist for variables ['v:0'] when minimizing the loss. If using `model.compile()`, did you "
        "forget to provide a `loss` argument?"
    )
    assert float(v) == 1.0 and float(w) == 1.5


@in_each
def test_weight_decay_leaves_excluded_variables_alone(space):
    v, w, x = (tf.Variable(1.0, name=name) for name in ("kernel", "bias", "other"))
    optimizer = space.optimizers.AdamW(0.1, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_list=[x], var_names=["bias"])
    optimizer.apply_gradients([(tf.constant(0.0), u) for u in (v, w, x)])
    assert [float(u) for u in (v, w, x)] == pytest.approx([0.95, 1.0, 1.0])


def test_weight_decay_exclusions_are_set_before_the_first_step():
    optimizer = optimizers.AdamW(0.1)
    optimizer.build([tf.Variable(1.0)])
    with pytest.raises(ValueError) as caught:
        optimizer.exclude_from_weight_decay(var_names=["x"])
    assert str(caught.value) == "`exclude_from_weight_decay()` can only be configured before the optimizer is built."


def test_minimize():
    w = tf.Variable(2.0)
    optimizers.SGD(0.25).minimize(lambda: w * w, [w])
    assert float(w) == 1.0
    with tf.GradientTape() as tape:
        loss = w * w
    optimizers.SGD(0.25).minimize(loss, lambda: [w], tape=tape)
    assert float(w) == 0.5
    with pytest.raises(ValueError, match="`tape` is required when a `Tensor` loss is passed."):
        optimizers.SGD(0.25).minimize(loss, [w])


@in_each
def test_apply_without_variables_uses_those_it_was_built_with(space):
    w = tf.Variable([1.0, 1.0])
    optimizer = space.optimizers.SGD(0.5)
    optimizer.build([w])
    optimizer.apply([tf.constant([1.0, 2.0])])
    optimizer.apply([])
    assert w.numpy().tolist() == [0.5, 0.0] and int(optimizer.iterations) == 1


@in_each
def test_constraints_scaling_and_half_precision(space):
    w = tf.Variable(1.0, constraint=lambda value: tf.maximum(value, 0.5))
    optimizer = space.optimizers.SGD(1.0, loss_scale_factor=4.0)
    optimizer.apply_gradients([(tf.constant(8.0), w)])
    assert float(w) == 0.5 and float(optimizer.scale_loss(tf.constant(1.0))) == 4.0
    half = tf.Variable(np.float16(1.0))
    adam = space.optimizers.Adam(0.1, global_clipnorm=1.0)
    adam.apply_gradients([(tf.constant(2.0, tf.float16), half)])
    assert half.dtype is tf.float16 and float(half) == pytest.approx(0.9, abs=1e-2)


def test_configuration_makes_an_equal_optimizer():
    for name, options in MAKERS:
        optimizer = made(name, options)
        again = optimizers.deserialize(optimizers.serialize(optimizer))
        assert type(again) is type(optimizer) and again.get_config() == optimizer.get_config()
    scheduled = optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 5, 0.5))
    assert float(optimizers.SGD.from_config(scheduled.get_config()).learning_rate) == pytest.approx(0.1)
    assert isinstance(optimizers.get("rmsprop"), optimizers.RMSprop) and optimizers.get(scheduled) is scheduled


@in_each
def test_own_optimizers_override_two_methods(space):
    class Signed(space.optimizers.Optimizer):
        def update_step(self, gradient, variable, learning_rate):
            variable.assign(variable - tf.sign(gradient) * learning_rate)

    w = tf.Variable([1.0, 1.0])
    Signed(0.25).apply_gradients([(tf.constant([3.0, -3.0]), w)])
    assert w.numpy().tolist() == [0.75, 1.25]


def unknown_variable():
    optimizer = optimizers.SGD(0.5)
    optimizer.build([tf.Variable(1.0)])
    optimizer.apply_gradients([(tf.constant(1.0), tf.Variable(2.0, name="new"))])


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: optimizers.SGD(1),
            "Argument `learning_rate` should be float, or an instance of LearningRateSchedule, or a callable (that takes in "
            "the current iteration value and returns the corresponding learning rate value). Received instead: "
            "learning_rate=1",
        ),
        (lambda: optimizers.SGD(0.1, momentum=2.0), "`momentum` must be a float between [0, 1]."),
        (lambda: optimizers.SGD(0.1, decays=2), "Argument(s) not recognized: {'decays': 2}"),
        (
            lambda: optimizers.Adam(clipnorm=1.0, clipvalue=2.0),
            "Only one of `clipnorm`, `clipvalue` and `global_clipnorm` can be set. Received: clipnorm=1.0, clipvalue=2.0, "
            "global_clipnorm=None",
        ),
        (
            lambda: optimizers.AdamW(weight_decay=None),
            "Argument `weight_decay` must be a float. Received: weight_decay=None",
        ),
        (
            lambda: optimizers.SGD().apply_gradients([(None, tf.Variable(1.0))]),
            "No gradients provided for any variable.",
        ),
        (
            lambda: optimizers.SGD().apply([tf.constant(1.0)]),
            "When passing `grads` without `variables`, the optimizer must already be built on a list of variables. Call "
            "`optimizer.build(trainable_variables)` first. ",
        ),
        (
            unknown_variable,
            "Unknown variable: <tf.Variable 'new:0' shape=() dtype=float32, numpy=2.0>. This optimizer can only be called "
            "for the variables it was originally built with. When working with a new set of variables, you should recreate "
            "a new optimizer instance.",
        ),
        (lambda: optimizers.get("sgdd"), "Could not interpret optimizer identifier: sgdd"),
        (
            lambda: optimizers.schedules.ExponentialDecay(0.1, 0, 0.5),
            "Argument `decay_steps` must be > 0. Received: decay_steps=0",
        ),
        (
            lambda: optimizers.schedules.PiecewiseConstantDecay([1], [0.5]),
            "The length of boundaries should be 1 less than the length of values. Received: boundaries=[1] of length 1, and "
            "values=[0.5] of length 1.",
        ),
    ],
)
def test_bad_arguments_are_rejected(call, message):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == message


@in_each
def test_variables_that_are_arguments_have_slots(space):
    """A function is traced twice where its first trace makes the slots: by then others stand for its Variables."""
    passed, captured = tf.Variable([1.0, 2.0]), tf.Variable([1.0, 2.0])
    pair = space.optimizers.Adam(0.1), space.optimizers.Adam(0.1)

    def update(optimizer, variable):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(variable * variable)
        optimizer.apply_gradients([(tape.gradient(loss, variable), variable)])

    with_argument = tf.function(lambda v: update(pair[0], v))
    without = tf.function(lambda: update(pair[1], captured))
    for _ in range(3):
        with_argument(passed)
        without()
    assert passed.numpy().tolist() == captured.numpy().tolist()


def test_tensors_are_no_variables():
    x = tf.constant([1.0])
    with pytest.raises(TypeError, match="^an optimizer updates Variables, but was given a gradient for <tf.Tensor"):
        optimizers.SGD(0.1).apply_gradients([(x, x)])
