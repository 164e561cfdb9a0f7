"""A long short-term memory over a sequence, written as a loop of cells, with the gradient of its weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload


class Size(NamedTuple):
    steps: int
    batch: int
    inputs: int
    hidden: int


def given(size: Size) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the sequence, the weights of all four gates, and their bias."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(size.steps, size.batch, size.inputs))
    w = rng.normal(0, 0.1, (size.inputs + size.hidden, 4 * size.hidden))
    return x.astype(np.float32), w.astype(np.float32), np.zeros(4 * size.hidden, np.float32)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    x, w, b = map(tf.constant, given(size))

    @function
    def gradients(x: Any, w: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            h, c = tf.zeros([size.batch, size.hidden]), tf.zeros([size.batch, size.hidden])
            for t in tf.range(size.steps):
                z = tf.matmul(tf.concat([x[t], h], axis=1), w) + b
                i, f, g, o = tf.split(z, 4, axis=1)
                c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
                h = tf.sigmoid(o) * tf.tanh(c)
            loss = tf.reduce_mean(h * h)
        dw, db = tape.gradient(loss, [w, b])
        return tf.concat([dw, db[None]], axis=0)

    return lambda: gradients(x, w, b)


def jax(jax: Any, size: Size) -> Call:
    np, nn = jax.numpy, jax.nn
    x, w, b = map(np.asarray, given(size))

    def loss_of(w: Any, b: Any, x: Any) -> Any:
        def cell(carry: Any, x: Any) -> Any:
            h, c = carry
            i, f, g, o = np.split(np.concatenate([x, h], axis=1) @ w + b, 4, axis=1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * np.tanh(g)
            return (nn.sigmoid(o) * np.tanh(c), c), None

        zeros = np.zeros((size.batch, size.hidden))
        (h, _), _ = jax.lax.scan(cell, (zeros, zeros), x)
        return np.mean(h * h)

    @jax.jit
    def gradients(w: Any, b: Any, x: Any) -> Any:
        dw, db = jax.grad(loss_of, argnums=(0, 1))(w, b, x)
        return np.concatenate([dw, db[None]])

    return lambda: gradients(w, b, x).block_until_ready()


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    x, w, b = map(torch.from_numpy, given(size))
    w.requires_grad_(), b.requires_grad_()

    @compiled
    def cell(x: Any, h: Any, c: Any) -> Any:
        i, f, g, o = torch.chunk(torch.cat([x, h], dim=1) @ w + b, 4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def gradients() -> Any:
        h = c = torch.zeros(size.batch, size.hidden)
        for t in range(size.steps):
            h, c = cell(x[t], h, c)
        dw, db = torch.autograd.grad(torch.mean(h * h), [w, b])
        return torch.cat([dw, db[None]])

    return gradients


WORKLOADS = [
    Workload(
        name="lstm",
        title="LSTM 64x128, 50 steps of 128, gradient",
        full=Size(50, 64, 128, 128),
        tiny=Size(3, 2, 4, 5),
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        goal="1.5x ahead",
    )
]
