"""A product of two square matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload


def operands(size: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.uniform(0, 1, (size, size)).astype(np.float32) for _ in range(2)]


def tensorflow(tf: Any, function: Any, size: int) -> Call:
    a, b = map(tf.constant, operands(size))
    product = function(lambda a, b: tf.matmul(a, b))
    return lambda: product(a, b)


def jax(jax: Any, size: int) -> Call:
    a, b = map(jax.numpy.asarray, operands(size))
    product = jax.jit(lambda a, b: a @ b)
    return lambda: product(a, b).block_until_ready()


def torch(torch: Any, compiled: Any, size: int) -> Call:
    a, b = map(torch.from_numpy, operands(size))
    product = compiled(lambda a, b: a @ b)
    return torch.inference_mode()(lambda: product(a, b))


WORKLOADS = [Workload("matmul", "matmul 1024^3", 1024, 8, tensorflow, jax, torch, goal="<= 4,500")]
