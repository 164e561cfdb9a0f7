"""A physics-informed network that solves Burgers' equation without examples of solutions.

The network is the solution u(t, x): it is trained until it fulfils the equation u_t + u u_x = nu u_xx, whose derivatives come
from tapes, at new random points in each step. Initial and boundary values are built in rather than learned: u is
-sin(pi x) at t = 0, and 0 at x = -1 and 1, whatever the weights are.

Source: Raissi, Perdikaris and Karniadakis 2019, https://doi.org/10.1016/j.jcp.2018.10.045
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture

VISCOSITY = 0.03
"""The viscosity, small enough for a front of a few hundredths to form in the middle."""
POINTS = 1024
WIDTH = 32
RATE = 5e-3


class Solution(tf.Module):
    """u(t, x), with three hidden layers; tanh, since the equation has second derivatives."""

    def __init__(self, seed: int) -> None:
        """Creates the weights of a dense network from a point (t, x) to the solution there."""
        super().__init__(name="solution")
        rng = np.random.default_rng(seed)
        sizes = (2, WIDTH, WIDTH, WIDTH, 1)
        self.kernels = [
            tf.Variable(rng.normal(size=s, scale=s[0] ** -0.5), dtype=tf.float32) for s in zip(sizes, sizes[1:])
        ]
        self.biases = [tf.Variable(tf.zeros([size])) for size in sizes[1:]]

    def __call__(self, t: Any, x: Any) -> Any:
        """Returns the solution at points (t, x), with the initial and boundary values built in."""
        y = tf.stack([2.0 * t - 1.0, x], axis=1)
        for kernel, bias in zip(self.kernels[:-1], self.biases[:-1]):
            y = tf.tanh(y @ kernel + bias)
        y = (y @ self.kernels[-1] + self.biases[-1])[:, 0]
        return -tf.sin(math.pi * x) + t * (1.0 - x**2) * y

    def residual(self, t: Any, x: Any) -> Any:
        """Returns the residual of Burgers' equation, u_t + u u_x - viscosity u_xx, at each point: 0 for a solution."""
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch([t, x])
                u = self(t, x)
            # Each output depends on its own point only, so the gradient of the sum has the derivative at each point.
            u_x = inner.gradient(u, x)
            u_t = inner.gradient(u, t)
        u_xx = outer.gradient(u_x, x)
        return u_t + u * u_x - VISCOSITY * u_xx


def exact(t: float, x: np.ndarray) -> np.ndarray:
    """Computes the exact solution of Burgers' equation at a time ``t``, to compare the network's with.

    The Cole-Hopf transformation gives it as the ratio of two integrals, computed by Gauss-Hermite quadrature.
    """
    if t == 0:
        return -np.sin(math.pi * x)
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    shift = math.sqrt(4.0 * VISCOSITY * t) * nodes
    start = x[:, None] - shift
    # The largest exponent is subtracted in numerator and denominator, so that exponentials stay finite.
    exponent = -np.cos(math.pi * start) / (2.0 * math.pi * VISCOSITY)
    factor = weights * np.exp(exponent - exponent.max(axis=1, keepdims=True))
    return -(factor * np.sin(math.pi * start)).sum(axis=1) / factor.sum(axis=1)


def main(folder: Path, steps: int = 3000, seed: int = 0) -> dict[str, float]:
    """Trains, compares the network with the exact solution, and draws both."""
    tf.random.set_seed(seed)
    solution = Solution(seed)
    rate = tf.optimizers.schedules.ExponentialDecay(RATE, decay_steps=max(steps // 10, 1), decay_rate=0.7)
    optimizer = tf.optimizers.Adam(rate)

    @tf.function
    def step() -> Any:
        t, x = tf.random.uniform([POINTS]), tf.random.uniform([POINTS], -1.0, 1.0)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(solution.residual(t, x) ** 2)
        variables = solution.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    losses = [float(step()) for _ in range(steps)]

    times, places = np.linspace(0.0, 1.0, 41), np.linspace(-1.0, 1.0, 201)
    t, x = (grid.astype(np.float32) for grid in np.meshgrid(times, places, indexing="ij"))
    found = solution(tf.constant(t.ravel()), tf.constant(x.ravel())).numpy().reshape(t.shape)
    true = np.stack([exact(time, places) for time in times])
    with picture(folder / "pinn.png", columns=2) as (left, right):
        left.pcolormesh(times, places, found.T, cmap="coolwarm", rasterized=True)
        left.set(xlabel="t", ylabel="x", title="u(t, x)")
        for row in (0, 10, 20, 40):
            (drawn,) = right.plot(places, found[row], label=f"t = {times[row]:g}")
            right.plot(places, true[row], ":", color="black")
        right.set(xlabel="x", title="the network, and exact (dotted)")
        right.legend(fontsize=7)
    error = float(np.linalg.norm(found - true) / np.linalg.norm(true))
    return {"relative error": error, "first loss": losses[0], "loss": losses[-1]}
