"""A generative adversarial network that learns all eight modes of points on a ring.

The generator makes points from noise, the critic distinguishes them from true points, and each is trained against the
other. The usual failure is that the generator covers one mode only. Here a gradient penalty keeps the critic smooth: its
loss includes the squared gradient of its output at true points, so the gradient of the weights is one of second order.

Source: Goodfellow et al. 2014, https://arxiv.org/abs/1406.2661; Mescheder, Geiger and Nowozin 2018 (the slope), https://arxiv.org/abs/1801.04406
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

import tvtf as tf
from tvtf.models.pictures import picture

SPOTS = 8
RADIUS = 2.0
SPREAD = 0.15
NOISE = 2
BATCH = 256
SLOPE = 0.05
"""The weight of the gradient penalty in the critic's loss: larger values are more stable, and slower."""
SAMPLES = 2000


def truth(count: Any) -> Any:
    """Returns points around the modes on a ring, float32 ``(count, 2)``."""
    angles = tf.cast(tf.random.uniform([count], maxval=SPOTS, dtype=tf.int32), tf.float32) * (2.0 * math.pi / SPOTS)
    return RADIUS * tf.stack([tf.cos(angles), tf.sin(angles)], axis=1) + tf.random.normal([count, 2], stddev=SPREAD)


def network(inputs: int, outputs: int, name: str) -> Any:
    layers = tf.keras.layers
    hidden = [layers.Dense(96, activation="relu") for _ in range(3)]
    return tf.keras.Sequential([layers.Input((inputs,)), *hidden, layers.Dense(outputs)], name=name)


def main(folder: Path, steps: int = 4000, seed: int = 0) -> dict[str, float]:
    """Trains, counts the modes that the generator covers, and draws points halfway, at the end, and true ones."""
    tf.keras.utils.set_random_seed(seed)
    generator, critic = network(NOISE, 2, "generator"), network(2, 1, "critic")
    # Without momentum, each network follows the present state of the other; smaller steps let them converge.
    rate = tf.keras.optimizers.schedules.CosineDecay(2e-3, steps)
    makes, judges = (tf.keras.optimizers.Adam(rate, beta_1=0.0) for _ in range(2))

    @tf.function
    def step() -> tuple[Any, Any]:
        """Trains both networks on a batch of real and generated points; returns their losses."""
        real, noise = truth(BATCH), tf.random.normal([BATCH, NOISE])
        with tf.GradientTape() as for_generator, tf.GradientTape() as for_critic:
            generated = generator(noise, training=True)
            with tf.GradientTape() as penalty_tape:
                penalty_tape.watch(real)
                real_logits = critic(real, training=True)
            gradient_penalty = tf.reduce_mean(tf.reduce_sum(penalty_tape.gradient(real_logits, real) ** 2, axis=1))
            generated_logits = critic(generated, training=True)
            # softplus(-x) is the cross-entropy of "real" at the logit x, softplus(x) that of "generated".
            critic_loss = (
                tf.reduce_mean(tf.nn.softplus(-real_logits) + tf.nn.softplus(generated_logits))
                + SLOPE * gradient_penalty
            )
            generator_loss = tf.reduce_mean(tf.nn.softplus(-generated_logits))
        for tape, loss, model, optimizer in (
            (for_critic, critic_loss, critic, judges),
            (for_generator, generator_loss, generator, makes),
        ):
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return generator_loss, critic_loss

    noise, samples = tf.random.normal([SAMPLES, NOISE]), {}
    for number in range(1, steps + 1):
        step()
        if number in (max(steps // 20, 1), steps):
            samples[f"after {number} steps"] = generator(noise).numpy()
    samples["true"] = truth(SAMPLES).numpy()
    draw(folder / "gan.png", samples)
    near, spots = hits(samples[f"after {steps} steps"])
    return {"spots hit": spots, "near a spot": near, "near a spot, of true points": hits(samples["true"])[0]}


def hits(points: np.ndarray) -> tuple[float, int]:
    """Measures how well generated points match the modes of the true distribution.

    Returns the fraction of points within three standard deviations of a mode, and the number of modes that have at least a
    quarter of their share of points.
    """
    angles = 2.0 * math.pi * np.arange(SPOTS) / SPOTS
    modes = RADIUS * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    distances = np.linalg.norm(points[:, None] - modes, axis=2)
    is_near = distances.min(axis=1) < 3 * SPREAD
    counts = np.bincount(distances.argmin(axis=1)[is_near], minlength=SPOTS)
    return float(is_near.mean()), int((counts > len(points) / SPOTS / 4).sum())


def draw(path: Path, samples: dict[str, np.ndarray]) -> None:
    with picture(path, columns=len(samples), size=(7.5, 2.7)) as panels:
        for panel, (title, points) in zip(panels, samples.items()):
            panel.plot(*points.T, ".", markersize=1.5, alpha=0.4)
            panel.set(title=title, xlim=(-3, 3), ylim=(-3, 3), aspect="equal")
