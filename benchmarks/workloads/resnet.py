"""The time to compile the training step of ResNet-18."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, SelfTimed, Workload

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
RATE = 1e-3


class Size(NamedTuple):
    """The sizes of the network: batch, image side, classes, and the blocks and channels of its stages."""

    batch: int
    side: int
    classes: int = 1000
    blocks: int = 2
    stages: tuple[tuple[int, int], ...] = STAGES


def kernels(size: Size) -> Iterator[tuple[int, ...]]:
    """The shapes of the weights, in the order in which they are used: convolutions, then the dense layer."""
    yield 7, 7, 3, 64
    channels = 64
    for width, _ in size.stages:
        for block in range(size.blocks):
            yield 3, 3, channels, width
            yield 3, 3, width, width
            if block == 0 and channels != width:
                yield 1, 1, channels, width
            channels = width
    yield channels, size.classes


def weights(size: Size) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(0, (2 / np.prod(s[:-1])) ** 0.5, s).astype(np.float32) for s in kernels(size)]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    images = rng.normal(size=(size.batch, size.side, size.side, 3)).astype(np.float32)
    return images, rng.integers(0, size.classes, size.batch)


class Network:
    """The network on Variables, batch normalization with the batch's own statistics."""

    def __init__(self, tf: Any, size: Size) -> None:
        self.tf, self.size = tf, size
        self.kernels = [tf.Variable(w) for w in weights(size)]
        widths = [w.shape[-1] for w in self.kernels[:-1]]
        self.scales = [tf.Variable(np.ones(n, np.float32)) for n in widths]
        self.shifts = [tf.Variable(np.zeros(n, np.float32)) for n in widths]

    @property
    def variables(self) -> list[Any]:
        return [*self.kernels, *self.scales, *self.shifts]

    def logits(self, x: Any) -> Any:
        tf, layers = self.tf, iter(zip(self.kernels, self.scales, self.shifts))
        x = tf.nn.max_pool2d(tf.nn.relu(self.normalized(x, next(layers), 2)), 3, 2, "SAME")
        for width, stride in self.size.stages:
            for block in range(self.size.blocks):
                step = stride if block == 0 else 1
                y = tf.nn.relu(self.normalized(x, next(layers), step))
                y = self.normalized(y, next(layers), 1)
                x = tf.nn.relu(y + (x if x.shape[-1] == width else self.normalized(x, next(layers), step)))
        return tf.matmul(tf.reduce_mean(x, [1, 2]), self.kernels[-1])

    def normalized(self, x: Any, layer: Any, stride: int) -> Any:
        kernel, scale, shift = layer
        y = self.tf.nn.conv2d(x, kernel, stride, "SAME")
        mean, variance = self.tf.nn.moments(y, [0, 1, 2])
        return self.tf.nn.batch_normalization(y, mean, variance, shift, scale, 1e-5)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    network = Network(tf, size)
    x, y = map(tf.constant, data(size))

    @function
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=network.logits(x))
            loss = tf.reduce_mean(losses)
        for variable, gradient in zip(network.variables, tape.gradient(loss, network.variables)):
            variable.assign_sub(RATE * gradient)
        return loss

    return lambda: step(x, y)


def compiled(tf: Any, function: Callable[..., Any], size: Size) -> SelfTimed:
    """Returns the time of the first call of a new step minus that of a later one, without compiled code on disk."""

    def first_call() -> float:
        with tempfile.TemporaryDirectory() as folder, cache_folder(folder):
            step = tensorflow(tf, function, size)
            first, later = (timed(step) for _ in range(2))
        return first - later

    return SelfTimed(first_call)


def timed(step: Call) -> float:
    started = time.perf_counter()
    np.asarray(step())
    return time.perf_counter() - started


@contextmanager
def cache_folder(folder: str) -> Iterator[None]:
    """Uses another folder as the cache of compiled code."""
    before = os.environ.get("TVTF_CACHE_DIR")
    os.environ["TVTF_CACHE_DIR"] = folder
    try:
        yield
    finally:
        del os.environ["TVTF_CACHE_DIR"]
        if before is not None:
            os.environ["TVTF_CACHE_DIR"] = before


WORKLOADS = [
    Workload(
        name="compile",
        title="compiling a ResNet-18 step, 8x64x64",
        full=Size(8, 64),
        tiny=Size(2, 16, 10, 1, STAGES[:2]),
        tensorflow=compiled,
        goal="<= 20 s",
    ),
]
