"""Repeated eager steps of an optimizer are compiled from the third on, with the same results."""

import numpy as np
import optimizer_programs
import pytest

import tvtf as tf
from tvtf.frontend.library import plain_optimizers as optimizers
from tvtf.frontend.library.plain_optimizers import repeated

SIZE = repeated.WORTH_COMPILING


def steps(optimizer, between=lambda optimizer, step: None, count=5):
    w, b = optimizer_programs.stepped(tf, optimizer, SIZE, between, count)
    return [w.numpy(), b.numpy(), *(v.numpy() for v in optimizer.variables)]


def compiled_functions(optimizer):
    return list(optimizer._repeated.compiled.values())


MAKERS = [
    lambda: optimizers.Adam(0.01),
    lambda: optimizers.SGD(optimizers.schedules.ExponentialDecay(0.1, 2, 0.5), momentum=0.9),
    lambda: optimizers.AdamW(0.01, weight_decay=0.1, global_clipnorm=1.0),
]


@pytest.mark.parametrize("make", MAKERS, ids=["Adam", "SGD", "AdamW"])
def test_compiled_steps_are_the_eager_ones(monkeypatch, make):
    optimizer = make()
    found = steps(optimizer)
    assert len(compiled_functions(optimizer)) == 1
    monkeypatch.setattr(repeated, "WORTH_COMPILING", 10**9)
    plain = make()
    for x, y in zip(found, steps(plain), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-7)
    assert not compiled_functions(plain)


def test_settings_changed_between_steps_count(monkeypatch):
    def between(optimizer, step):
        optimizer.beta_1 = 0.9 if step < 3 else 0.5
        optimizer.learning_rate = 0.1 / (step + 1)

    found = steps(optimizers.Adam(), between, 7)
    monkeypatch.setattr(repeated, "WORTH_COMPILING", 10**9)
    for x, y in zip(found, steps(optimizers.Adam(), between, 7), strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-6, atol=1e-7)


def test_a_users_update_runs_in_every_step():
    calls = []

    class Own(optimizers.SGD):
        def update_step(self, gradient, variable, learning_rate):
            calls.append(variable)
            super().update_step(gradient, variable, learning_rate)

    steps(Own(0.1))
    assert len(calls) == 10


def test_a_users_learning_rate_is_called_in_every_step():
    rates = []
    steps(optimizers.SGD(lambda: rates.append(0.1) or 0.1))
    assert len(rates) >= 5


def test_a_tape_sees_what_a_step_reads():
    v = tf.Variable(tf.ones([SIZE]))
    optimizer = optimizers.SGD(0.5)
    for _ in range(4):
        with tf.GradientTape() as tape:
            optimizer.apply([tf.ones([SIZE])], [v])
            y = v * 3.0
        np.testing.assert_array_equal(tape.gradient(y, v), np.full(SIZE, 3.0))
    assert not compiled_functions(optimizer)
    assert v.numpy()[0] == -1
