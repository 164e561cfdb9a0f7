"""A training step of a perceptron of many narrow layers with Adam: the overhead of many small kernels and Variables."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload
from benchmarks.workloads.training import adam_jax, adam_tensorflow, adam_torch, cross_entropy_jax, step_torch

RATE = 1e-3


class Size(NamedTuple):
    batch: int
    width: int
    layers: int


def weights(size: Size) -> list[np.ndarray]:
    """Returns kernel and bias of each layer."""
    rng, kernel = np.random.default_rng(0), (size.width, size.width)
    made = [
        w for _ in range(size.layers) for w in (rng.normal(0, 1 / size.width**0.5, kernel), np.full(size.width, 0.01))
    ]
    return [w.astype(np.float32) for w in made]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=(size.batch, size.width)).astype(np.float32), rng.integers(0, size.width, size.batch)


def logits(relu: Any, weights: Any, x: Any) -> Any:
    *hidden, last, bias = weights
    for kernel, offset in zip(hidden[::2], hidden[1::2]):
        x = relu(x @ kernel + offset)
    return x @ last + bias


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, y = map(tf.constant, data(size))
    return adam_tensorflow(tf, function, partial(logits, tf.nn.relu), weights(size), RATE, x, y)


def jax(jax: Any, size: Size) -> Call:
    x, y = map(jax.numpy.asarray, data(size))

    def loss_of(params: Any, x: Any, y: Any) -> Any:
        return cross_entropy_jax(jax, logits(jax.nn.relu, params, x), y)

    return adam_jax(jax, loss_of, weights(size), RATE, x, y)


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    x, y = map(torch.from_numpy, data(size))
    params = [torch.from_numpy(w).requires_grad_() for w in weights(size)]
    loss_of = compiled(lambda x, y: torch.nn.functional.cross_entropy(logits(torch.relu, params, x), y))
    return step_torch(adam_torch(torch, params, RATE), loss_of, x, y)


WORKLOADS = [
    Workload(
        name="deep",
        title="MLP of 20 layers of 32 units, batch 32, Adam step",
        full=Size(batch=32, width=32, layers=20),
        tiny=Size(batch=2, width=3, layers=2),
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        goal="<= 0.67x the best",
    )
]
