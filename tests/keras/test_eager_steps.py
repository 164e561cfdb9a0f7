"""Repeated eager steps of Keras's optimizers are compiled from the third on, with the same results."""

import copy

import numpy as np
import optimizer_programs
import pytest

import tvtf as tf
from tvtf.frontend.library.plain_optimizers import repeated
from tvtf.keras.eager_steps import STEPS

SIZE = repeated.WORTH_COMPILING


def steps(optimizer, between=lambda optimizer, step: None, count=6):
    w, b = optimizer_programs.stepped(tf, optimizer, SIZE, between, count)
    return [w.numpy(), b.numpy(), *(np.asarray(v.value) for v in optimizer.variables)]


def compiled(optimizer):
    return list(vars(optimizer)[STEPS].compiled.values())


def makers():
    o = tf.keras.optimizers
    return {
        "Adam": lambda: o.Adam(0.01),
        "SGD": lambda: o.SGD(o.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9, nesterov=True),
        "AdamW": lambda: o.AdamW(0.01, weight_decay=0.1, global_clipnorm=1.0),
        "accumulating": lambda: o.RMSprop(0.01, gradient_accumulation_steps=2),
        "averaging": lambda: o.Adagrad(0.1, use_ema=True, ema_overwrite_frequency=4),
        "Ftrl": lambda: o.Ftrl(0.01, clipvalue=0.5),
    }


@pytest.mark.parametrize("name", ["Adam", "SGD", "AdamW", "accumulating", "averaging", "Ftrl"])
def test_compiled_steps_are_the_eager_ones(monkeypatch, name):
    optimizer = makers()[name]()
    found = steps(optimizer)
    assert len(compiled(optimizer)) == 1
    monkeypatch.setattr(repeated, "WORTH_COMPILING", 10**9)
    plain = makers()[name]()
    for x, y in zip(found, steps(plain), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)
    assert not compiled(plain)


def test_settings_changed_between_steps_count(monkeypatch):
    def between(optimizer, step):
        optimizer.beta_1 = 0.9 if step < 3 else 0.5
        optimizer.learning_rate = 0.1 / (step + 1)

    found = steps(tf.keras.optimizers.Adam(), between, 8)
    monkeypatch.setattr(repeated, "WORTH_COMPILING", 10**9)
    for x, y in zip(found, steps(tf.keras.optimizers.Adam(), between, 8), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-5, atol=1e-6)


def test_a_users_update_and_rate_run_in_every_step():
    calls = []

    class Own(tf.keras.optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            calls.append("step")
            super().update_step(gradient, variable, learning_rate)

    class Rate(tf.keras.optimizers.schedules.LearningRateSchedule):
        def __call__(self, step):
            calls.append("rate")
            return 0.1

    steps(Own(0.1), count=5)
    assert calls.count("step") == 10
    steps(tf.keras.optimizers.SGD(Rate()), count=5)
    assert calls.count("rate") >= 5


def test_a_copy_has_steps_of_its_own():
    optimizer = tf.keras.optimizers.SGD(0.1)
    steps(optimizer)
    other = copy.deepcopy(optimizer)
    assert vars(other).get(STEPS) is None and compiled(optimizer)


def losses(steps_to_do=8):
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((64,)), layers.Dense(200, activation="relu"), layers.Dense(1)])
    optimizer, found = tf.keras.optimizers.Adam(0.003), []
    x = tf.constant(np.random.default_rng(0).normal(size=(32, 64)).astype(np.float32))
    for _ in range(steps_to_do):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(x)[:, 0] - tf.reduce_sum(x, 1)) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        found.append(float(loss))
    assert int(optimizer.iterations) == steps_to_do
    return found, compiled(optimizer)


def test_a_model_learns_by_them(monkeypatch):
    found, functions = losses()
    monkeypatch.setattr(repeated, "WORTH_COMPILING", 10**9)
    expected, none = losses()
    assert functions and not none
    np.testing.assert_allclose(found, expected, rtol=1e-4)
