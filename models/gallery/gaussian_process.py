"""A Gaussian process whose length scale, amplitude and noise are learned from the data.

The data are a sample of such a process, so that the trained values can be compared with the true ones. The loss is the
negative log likelihood of the data with the function integrated out: a product with an inverse and a log-determinant,
both computed from one Cholesky factor, through which the gradient goes.

Source: Rasmussen and Williams 2006, Gaussian Processes for Machine Learning, algorithm 2.1, https://gaussianprocess.org/gpml/
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture

POINTS = 160
TRUE = {"length": 0.7, "amplitude": 1.3, "noise": 0.25}
GUESS = {"length": 2.0, "amplitude": 0.5, "noise": 1.0}


class GaussianProcess(tf.Module):
    """A prior over functions of one number: close inputs have close values."""

    def __init__(self, length: float, amplitude: float, noise: float) -> None:
        """Sets the initial hyperparameters: length scale and amplitude of the kernel, and deviation of the noise."""
        super().__init__(name="gaussian_process")
        # All three are positive and their scale is unknown, so their logarithms are trained.
        logarithms: list[Any] = [
            tf.Variable(math.log(value), dtype=tf.float64, name=name)
            for name, value in (("length", length), ("amplitude", amplitude), ("noise", noise))
        ]
        self.log_length, self.log_amplitude, self.log_noise = logarithms

    def kernel(self, a: Any, b: Any) -> Any:
        """Returns the covariance of the function's values at ``a`` and at ``b``."""
        distance = (a[:, None] - b[None, :]) / tf.exp(self.log_length)
        return tf.exp(2.0 * self.log_amplitude - 0.5 * distance**2)

    def factor(self, x: Any) -> Any:
        """Returns the Cholesky factor of the covariance of measurements at ``x``, noise included."""
        noise = tf.exp(2.0 * self.log_noise) * tf.ones_like(x)
        return tf.linalg.cholesky(self.kernel(x, x) + tf.linalg.diag(noise))

    def loss(self, x: Any, y: Any) -> Any:
        """Returns the negative log likelihood of the values ``y`` at ``x`` per point, in nats."""
        factor = self.factor(x)  # Cholesky's, of the covariance matrix
        # y' K^-1 y = |L^-1 y|^2: no inverse is formed, and rounding stays small.
        whitened = tf.linalg.triangular_solve(factor, y[:, None])
        log_determinant = 2.0 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
        total = 0.5 * (tf.reduce_sum(whitened**2) + log_determinant) + 0.5 * POINTS * math.log(2.0 * math.pi)
        return total / POINTS

    def predict(self, x: Any, y: Any, at: Any) -> tuple[Any, Any]:
        """Returns mean and standard deviation of the function at other positions, given measurements ``y`` at ``x``."""
        factor, across = self.factor(x), self.kernel(x, at)
        mean = tf.transpose(across) @ tf.linalg.cholesky_solve(factor, y[:, None])
        explained = tf.reduce_sum(tf.linalg.triangular_solve(factor, across) ** 2, axis=0)
        variance = tf.exp(2.0 * self.log_amplitude) - explained
        return mean[:, 0], tf.sqrt(variance)

    def learned(self) -> dict[str, float]:
        logarithms = (self.log_length, self.log_amplitude, self.log_noise)
        return {name: math.exp(float(value)) for name, value in zip(TRUE, logarithms)}


def data(seed: int) -> tuple[Any, Any]:
    """Returns positions from 0 to 12 with a gap between 6 and 8, and a noisy sample of a process at them."""
    rng = np.random.default_rng(seed)
    x = np.sort(np.concatenate([rng.uniform(0, 6, POINTS // 2), rng.uniform(8, 12, POINTS // 2)]))
    factor = GaussianProcess(**TRUE).factor(tf.constant(x))
    return tf.constant(x), tf.linalg.matvec(factor, rng.normal(size=POINTS))


def main(folder: Path, steps: int = 200, seed: int = 0) -> dict[str, float]:
    """Trains the hyperparameters; draws the function with its uncertainty, and the hyperparameters over the steps."""
    x, y = data(seed)
    process, optimizer = GaussianProcess(**GUESS), tf.optimizers.Adam(0.05)

    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            loss = process.loss(x, y)
        variables = process.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    way, losses = [process.learned()], []
    for _ in range(steps):
        losses.append(float(step()))
        way.append(process.learned())

    at = tf.linspace(tf.constant(-1.0, tf.float64), 13.0, 300)
    mean, deviation = (value.numpy() for value in process.predict(x, y, at))
    with picture(folder / "gaussian_process.png", columns=2) as (left, right):
        left.plot(x, y, ".", color="0.6", markersize=3, label="data")
        left.plot(at, mean, label="mean")
        left.fill_between(at, mean - 2 * deviation, mean + 2 * deviation, alpha=0.3, label="two deviations")
        left.legend(fontsize=7)
        for name, value in TRUE.items():
            (drawn,) = right.plot([at_step[name] for at_step in way], label=name)
            right.axhline(value, color=drawn.get_color(), linestyle=":")
        right.set(xlabel="step", title="learned, and true (dotted)")
        right.legend(fontsize=7)
    return {**process.learned(), "first loss": losses[0], "loss": losses[-1]}
