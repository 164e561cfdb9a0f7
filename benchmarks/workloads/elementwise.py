"""A chain of elementwise functions with a sum at its end: fused, it reads memory once; else it writes intermediates."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload


def values(size: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, size).astype(np.float32)


def tensorflow(tf: Any, function: Any, size: int) -> Call:
    x = tf.constant(values(size))
    chain = function(lambda x: tf.reduce_sum(tf.tanh(x * 2.0 + 1.0) * tf.exp(-x * x)))
    return lambda: chain(x)


def jax(jax: Any, size: int) -> Call:
    x = jax.numpy.asarray(values(size))
    chain = jax.jit(lambda x: jax.numpy.sum(jax.numpy.tanh(x * 2.0 + 1.0) * jax.numpy.exp(-x * x)))
    return lambda: chain(x).block_until_ready()


def torch(torch: Any, compiled: Any, size: int) -> Call:
    x = torch.from_numpy(values(size))
    chain = compiled(lambda x: torch.sum(torch.tanh(x * 2.0 + 1.0) * torch.exp(-x * x)))
    return torch.inference_mode()(lambda: chain(x))


WORKLOADS = [
    Workload(
        "elementwise", "elementwise chain and sum, 4M floats", 4_000_000, 1000, tensorflow, jax, torch, goal="<= 1,000"
    )
]
