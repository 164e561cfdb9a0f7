"""Causal attention of long sequences with its gradient: a head's scores don't fit the cache, and half of them are masked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload


class Size(NamedTuple):
    batch: int
    heads: int
    time: int
    width: int


def operands(size: Size) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=tuple(size)).astype(np.float32) for _ in range(3)]


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    inputs = [tf.constant(x) for x in operands(size)]
    hidden = tf.constant(np.triu(np.full((size.time, size.time), -1e9, np.float32), 1))

    @function
    def step(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([q, k, v])
            scores = tf.matmul(q, k, transpose_b=True) * size.width**-0.5 + hidden
            loss = tf.reduce_sum(tf.square(tf.matmul(tf.nn.softmax(scores), v)))
        return tape.gradient(loss, [q, k, v])

    return lambda: step(*inputs)


def jax(jax: Any, size: Size) -> Call:
    inputs = [jax.numpy.asarray(x.transpose(0, 2, 1, 3)) for x in operands(size)]

    def loss(q: Any, k: Any, v: Any) -> Any:
        return jax.numpy.sum(jax.numpy.square(jax.nn.dot_product_attention(q, k, v, is_causal=True)))

    step = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    return lambda: jax.block_until_ready(step(*inputs))


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    inputs = [torch.from_numpy(x).requires_grad_() for x in operands(size)]

    @compiled
    def loss(q: Any, k: Any, v: Any) -> Any:
        return torch.sum(torch.square(torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)))

    return lambda: torch.autograd.grad(loss(*inputs), inputs)


def forward_tensorflow(tf: Any, function: Any, size: Size) -> Call:
    inputs = [tf.constant(x) for x in operands(size)]
    hidden = tf.constant(np.triu(np.full((size.time, size.time), -1e9, np.float32), 1))

    @function
    def run(q: Any, k: Any, v: Any) -> Any:
        return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * size.width**-0.5 + hidden), v)

    return lambda: run(*inputs)


def forward_jax(jax: Any, size: Size) -> Call:
    inputs = [jax.numpy.asarray(x.transpose(0, 2, 1, 3)) for x in operands(size)]
    run = jax.jit(lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True))
    return lambda: run(*inputs).block_until_ready()


def forward_torch(torch: Any, compiled: Any, size: Size) -> Call:
    inputs = [torch.from_numpy(x) for x in operands(size)]
    run = compiled(lambda q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    return torch.inference_mode()(lambda: run(*inputs))


def _workload(time: int, forward: bool) -> Workload:
    programs = (forward_tensorflow, forward_jax, forward_torch) if forward else (tensorflow, jax, torch)
    return Workload(
        name=f"attention-{time}" + ("" if forward else "-grad"),
        title=f"causal attention of {time}" + ("" if forward else " with its gradient") + ", 8 heads of 64",
        full=Size(2, 4, time, 64),
        tiny=Size(1, 2, 5, 3),
        tensorflow=programs[0],
        jax=programs[1],
        torch=programs[2],
        goal="<= 0.67x the best",
    )


WORKLOADS = [_workload(time, forward) for time in (512, 1024, 2048) for forward in (True, False)]
