"""The layers of these models, as plain ``tf.Module`` subclasses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import tvtf as tf

Shape = tuple[int, ...]


def uniform(rng: np.random.Generator, shape: Shape, fan_in: int, fan_out: int) -> np.ndarray:
    """Returns initial weights by Glorot and Bengio 2010, equation 16."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    return rng.uniform(-bound, bound, shape).astype(np.float32)


class Dense(tf.Module):
    """``x @ kernel + bias`` over the last axis: float32 ``(..., inputs)`` to ``(..., outputs)``."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.kernel = tf.Variable(uniform(rng, (inputs, outputs), inputs, outputs), name="kernel")
        self.bias = tf.Variable(np.zeros(outputs, np.float32), name="bias")

    def __call__(self, x: Any) -> Any:
        return tf.matmul(x, self.kernel) + self.bias


class Conv2D(tf.Module):
    """A convolution that keeps height and width: float32 ``(n, h, w, inputs)`` to ``(n, h, w, outputs)``."""

    def __init__(self, rng: np.random.Generator, size: int, inputs: int, outputs: int, name: str | None = None) -> None:
        """Creates the kernel, of shape (size, size, inputs, outputs), and the bias."""
        super().__init__(name=name)
        taps = size * size
        weights = uniform(rng, (size, size, inputs, outputs), taps * inputs, taps * outputs)
        self.kernel = tf.Variable(weights, name="kernel")
        self.bias = tf.Variable(np.zeros(outputs, np.float32), name="bias")

    def __call__(self, x: Any) -> Any:
        return tf.nn.conv2d(x, self.kernel, strides=1, padding="SAME") + self.bias


class LayerNorm(tf.Module):
    """Normalises the last axis to mean 0 and variance 1, then scales and shifts it (Ba, Kiros and Hinton 2016)."""

    def __init__(self, width: int, name: str | None = None) -> None:
        super().__init__(name=name)
        self.gamma = tf.Variable(np.ones(width, np.float32), name="gamma")
        self.beta = tf.Variable(np.zeros(width, np.float32), name="beta")

    def __call__(self, x: Any) -> Any:
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        return centred * tf.math.rsqrt(variance + 1e-5) * self.gamma + self.beta
