"""Training runs of optimizers, initializers and schedules, run by tvtf and by Keras: ``results(tf)`` gives (name, values)."""

from __future__ import annotations

import goldens
import numpy as np

OPTIMIZERS = {
    "SGD": [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}, {"clipvalue": 0.05}],
    "Adam": [
        {},
        {"amsgrad": True},
        {"clipnorm": 0.1},
        {"global_clipnorm": 0.1},
        {"weight_decay": 0.1},
        {"beta_1": 0.5},
    ],
    "AdamW": [{}, {"weight_decay": 0.2, "epsilon": 1e-3}],
    "RMSprop": [{}, {"momentum": 0.9}, {"centered": True}, {"centered": True, "momentum": 0.5, "rho": 0.8}],
}
SCHEDULES = {
    "ExponentialDecay": [(0.1, 4, 0.5), (0.1, 4, 0.5, True)],
    "CosineDecay": [(0.1, 10), (0.1, 10, 0.2), (0.0, 6, 0.0, "warm", 0.1, 4)],
    "PiecewiseConstantDecay": [([2, 5], [1.0, 0.5, 0.1])],
    "PolynomialDecay": [(0.1, 6), (0.1, 4, 0.01, 2.0, True)],
    "InverseTimeDecay": [(0.1, 4, 0.5), (0.1, 4, 0.5, True)],
}
INITIALIZERS = {
    "GlorotUniform": [{}], "GlorotNormal": [{}], "HeUniform": [{}], "HeNormal": [{}],
    "LecunUniform": [{}], "LecunNormal": [{}], "RandomUniform": [{}], "RandomNormal": [{"stddev": 2.0}],
    "TruncatedNormal": [{"mean": 1.0}], "Orthogonal": [{"gain": 2.0}],
    "VarianceScaling": [{}, {"scale": 2.0, "mode": "fan_out", "distribution": "untruncated_normal"},
                        {"input_axes": [0], "output_axes": [-1], "distribution": "uniform"}],
}  # fmt: skip
STEPS = 5


def results(tf):
    for name, variants in OPTIMIZERS.items():
        for options in variants:
            yield f"{name} {options}", trained(tf, getattr(tf.optimizers, name)(learning_rate=0.1, **options))
    for name, variants in SCHEDULES.items():
        for arguments in variants:
            schedule = getattr(tf.optimizers.schedules, name)(*arguments)
            yield f"{name} {arguments}", [float(schedule(tf.constant(step, "int64"))) for step in range(12)]
    schedule = tf.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    yield "Adam by schedule", trained(tf, tf.optimizers.Adam(schedule))
    for name, variants in INITIALIZERS.items():
        for options in variants:
            for shape in ((4, 6), (2, 3, 4)):
                made = getattr(tf.initializers, name)(seed=3, **options)(shape)
                yield f"{name} {options} {shape}", np.ravel(made).tolist()


def start():
    rng = np.random.default_rng(0)
    return rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=2).astype(np.float32)


def trained(tf, optimizer):
    """A weight and a bias after a few steps, whose gradients depend on them."""
    weight, bias = (tf.Variable(value) for value in start())
    for step in range(STEPS):
        gradients = [weight * 0.3 + float(step), bias * bias - 0.2]
        optimizer.apply_gradients(zip(gradients, [weight, bias]))
    return np.concatenate([weight.numpy().ravel(), bias.numpy()]).tolist()


def golden():
    """What Keras gave."""
    return goldens.read("optimizers")


def stepped(tf, optimizer, size, between, count):
    """A large and a small Variable after ``count`` eager steps; ``between(optimizer, step)`` is called before each."""
    w, b = tf.Variable(np.linspace(-1, 1, size, dtype=np.float32)), tf.Variable(tf.ones([3]))
    rng = np.random.default_rng(0)
    for step in range(count):
        between(optimizer, step)
        grads = [tf.constant(rng.normal(size=v.shape).astype(np.float32)) for v in (w, b)]
        optimizer.apply_gradients(zip(grads, (w, b)))
    return w, b
