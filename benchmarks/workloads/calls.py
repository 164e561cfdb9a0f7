"""The overhead of a call that computes next to nothing: a traced function, an eager op, an eager tape."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from benchmarks.workload import Call, Workload

SIZE = 100


def traced_tensorflow(tf: Any, function: Any, size: None) -> Call:
    return partial(function(lambda x: x + 1.0), tf.constant(3.0))


def traced_jax(jax: Any, size: None) -> Call:
    return partial(jax.jit(lambda x: x + 1.0), jax.numpy.float32(3.0))


def traced_torch(torch: Any, compiled: Any, size: None) -> Call:
    return torch.inference_mode()(partial(compiled(lambda x: x + 1.0), torch.tensor(3.0)))


def variables_tensorflow(tf: Any, function: Any, size: int) -> Call:
    variables = [tf.Variable(np.float32(i)) for i in range(size)]
    return partial(function(lambda x: tf.add_n([x * v for v in variables])), tf.constant(3.0))


def variables_jax(jax: Any, size: int) -> Call:
    values = [jax.numpy.float32(i) for i in range(size)]
    return partial(jax.jit(lambda values, x: sum(x * v for v in values)), values, jax.numpy.float32(3.0))


def variables_torch(torch: Any, compiled: Any, size: int) -> Call:
    values = [torch.tensor(float(i)) for i in range(size)]
    return torch.inference_mode()(partial(compiled(lambda x: sum(x * v for v in values)), torch.tensor(3.0)))


def add_tensorflow(tf: Any, function: Any, size: None) -> Call:
    x, y = tf.constant(3.0), tf.constant(2.0)
    return lambda: x + y


def add_jax(jax: Any, size: None) -> Call:
    x, y = jax.numpy.float32(3.0), jax.numpy.float32(2.0)
    return lambda: x + y


def add_torch(torch: Any, compiled: Any, size: None) -> Call:
    x, y = torch.tensor(3.0), torch.tensor(2.0)
    return lambda: x + y


def values() -> np.ndarray:
    return np.linspace(-1.0, 1.0, SIZE, dtype=np.float32)


def tape_tensorflow(tf: Any, function: Any, size: None) -> Call:
    x = tf.constant(values())

    def gradient() -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.multiply(tf.sin(x), x))
        return tape.gradient(y, x)

    return gradient


def tape_jax(jax: Any, size: None) -> Call:
    x = jax.numpy.asarray(values())
    return partial(jax.grad(lambda x: jax.numpy.sum(jax.numpy.sin(x) * x)), x)


def tape_torch(torch: Any, compiled: Any, size: None) -> Call:
    x = torch.tensor(values(), requires_grad=True)

    def gradient() -> Any:
        return torch.autograd.grad((torch.sin(x) * x).sum(), x)[0]

    return gradient


WORKLOADS = [
    Workload(
        name="call",
        title="call of a small function",
        full=None,
        tiny=None,
        tensorflow=traced_tensorflow,
        jax=traced_jax,
        torch=traced_torch,
        goal="<= 5, then 3.5",
    ),
    Workload(
        name="variables",
        title="call of a function of 50 variables",
        full=50,
        tiny=3,
        tensorflow=variables_tensorflow,
        jax=variables_jax,
        torch=variables_torch,
        goal="<= 8",
    ),
    Workload("add", "eager add", None, None, add_tensorflow, add_jax, add_torch, is_eager=True, goal="<= 2, then 1.5"),
    Workload(
        "tape",
        "eager tape: sin, multiply, sum",
        None,
        None,
        tape_tensorflow,
        tape_jax,
        tape_torch,
        is_eager=True,
        goal="<= 21",
    ),
]
