"""Loops whose condition is a tensor: many scalar iterations, and fewer with the gradient through them."""

from __future__ import annotations

from typing import Any

from benchmarks.workload import Call, Workload


def scalar_tensorflow(tf: Any, function: Any, count: int) -> Call:
    @function
    def run(count: Any) -> Any:
        i, x = tf.constant(0), tf.constant(1.0)
        while i < count:
            x = x * 0.999 + 0.5
            i += 1
        return x

    limit = tf.constant(count)
    return lambda: run(limit)


def scalar_jax(jax: Any, count: int) -> Call:
    def body(carry: Any) -> Any:
        i, x = carry
        return i + 1, x * 0.999 + 0.5

    @jax.jit
    def run(count: Any) -> Any:
        return jax.lax.while_loop(lambda carry: carry[0] < count, body, (0, jax.numpy.float32(1.0)))[1]

    limit = jax.numpy.int32(count)
    return lambda: run(limit).block_until_ready()


def gradient_tensorflow(tf: Any, function: Any, count: int) -> Call:
    @function
    def gradient(w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            i, x = tf.constant(0), tf.constant(0.5)
            while i < count:
                x = tf.tanh(w * x)
                i += 1
        return tape.gradient(x, w)

    w = tf.constant(1.01)
    return lambda: gradient(w)


def gradient_jax(jax: Any, count: int) -> Call:
    def final(w: Any) -> Any:
        return jax.lax.fori_loop(0, count, lambda _, x: jax.numpy.tanh(w * x), jax.numpy.float32(0.5))

    gradient = jax.jit(jax.grad(final))
    w = jax.numpy.float32(1.01)
    return lambda: gradient(w).block_until_ready()


def gradient_torch(torch: Any, compiled: Any, count: int) -> Call | None:
    if compiled is torch.compile:  # it would unroll the loop
        return None
    w = torch.tensor(1.01, requires_grad=True)

    def gradient() -> Any:
        x = torch.tensor(0.5)
        for _ in range(count):
            x = torch.tanh(w * x)
        return torch.autograd.grad(x, w)[0]

    return gradient


WORKLOADS = [
    Workload("loop", "while loop, 20,000 scalar iterations", 20_000, 20, scalar_tensorflow, scalar_jax, goal="<= 100"),
    Workload(
        "loop-gradient",
        "while loop, 200 iterations, gradient",
        200,
        5,
        gradient_tensorflow,
        gradient_jax,
        gradient_torch,
        goal="<= 250",
    ),
]
