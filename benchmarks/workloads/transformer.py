"""A training step of a small causal transformer (Vaswani et al. 2017, normalised before each part) with Adam."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload
from benchmarks.workloads.training import adam_jax, adam_tensorflow, adam_torch, cross_entropy_jax, step_torch

RATE, EPSILON, MASKED = 1e-3, 1e-5, -1e9


class Size(NamedTuple):
    batch: int
    time: int
    width: int
    heads: int
    blocks: int
    symbols: int


def weights(size: Size) -> list[np.ndarray]:
    """Embedding, positions; for each block: scale, mixed, out, scale, wide, narrow; then a scale and the head."""
    rng, d = np.random.default_rng(0), size.width
    shapes = [(size.symbols, d), (size.time, d)]
    shapes += size.blocks * [(d,), (d, 3 * d), (d, d), (d,), (d, 4 * d), (4 * d, d)]
    shapes += [(d,), (d, size.symbols)]
    return [(np.ones(s) if len(s) == 1 else rng.normal(0, 0.05, s)).astype(np.float32) for s in shapes]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    tokens = np.random.default_rng(1).integers(0, size.symbols, (size.batch, size.time + 1))
    return tokens[:, :-1].copy(), tokens[:, 1:].copy()


def mask(size: Size) -> np.ndarray:
    return np.triu(np.full((size.time, size.time), MASKED, np.float32), k=1)


def logits(ops: Any, size: Size, weights: Any, tokens: Any, mask: Any) -> Any:
    """The network over the few functions that ``ops`` names in a framework's words."""
    embedding, positions, *blocks, last, head = weights
    x = ops.gather(embedding, tokens) + positions
    for at in range(0, len(blocks), 6):
        scale, mixed, out, second_scale, wide, narrow = blocks[at : at + 6]
        x = x + ops.matmul(attention(ops, size, ops.matmul(normalised(ops, x, scale), mixed), mask), out)
        x = x + ops.matmul(ops.relu(ops.matmul(normalised(ops, x, second_scale), wide)), narrow)
    return ops.matmul(normalised(ops, x, last), head)


def normalised(ops: Any, x: Any, scale: Any) -> Any:
    centred = x - ops.mean(x)
    return centred * ops.rsqrt(ops.mean(centred * centred) + EPSILON) * scale


def attention(ops: Any, size: Size, mixed: Any, mask: Any) -> Any:
    each = size.width // size.heads
    heads = ops.transpose(ops.reshape(mixed, (size.batch, size.time, 3, size.heads, each)), (2, 0, 3, 1, 4))
    query, key, value = heads[0], heads[1], heads[2]
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * (1 / math.sqrt(each)) + mask
    joined = ops.transpose(ops.matmul(ops.softmax(scores), value), (0, 2, 1, 3))
    return ops.reshape(joined, (size.batch, size.time, size.width))


class TensorFlowOps:
    def __init__(self, tf: Any) -> None:
        self.gather, self.matmul, self.relu, self.rsqrt = tf.gather, tf.matmul, tf.nn.relu, tf.math.rsqrt
        self.reshape, self.transpose, self.softmax = tf.reshape, tf.transpose, tf.nn.softmax
        self.mean = lambda x: tf.reduce_mean(x, axis=-1, keepdims=True)


class JaxOps:
    def __init__(self, jax: Any) -> None:
        jnp = jax.numpy
        self.gather, self.matmul, self.relu, self.rsqrt = lambda t, i: t[i], jnp.matmul, jax.nn.relu, jax.lax.rsqrt
        self.reshape, self.transpose, self.softmax = jnp.reshape, jnp.transpose, jax.nn.softmax
        self.mean = lambda x: jnp.mean(x, axis=-1, keepdims=True)


class TorchOps:
    def __init__(self, torch: Any) -> None:
        self.gather, self.matmul, self.relu, self.rsqrt = lambda t, i: t[i], torch.matmul, torch.relu, torch.rsqrt
        self.reshape, self.transpose = torch.reshape, torch.permute
        self.softmax = lambda x: torch.softmax(x, -1)
        self.mean = lambda x: torch.mean(x, -1, keepdim=True)


def tensorflow(tf: Any, function: Any, size: Size) -> Call:
    tokens, targets = map(tf.constant, data(size))
    ops, hidden = TensorFlowOps(tf), tf.constant(mask(size))

    def logits_of(variables: Any, tokens: Any) -> Any:
        return logits(ops, size, variables, tokens, hidden)

    return adam_tensorflow(tf, function, logits_of, weights(size), RATE, tokens, targets)


def jax(jax: Any, size: Size) -> Call:
    tokens, targets = map(jax.numpy.asarray, data(size))
    ops, hidden = JaxOps(jax), jax.numpy.asarray(mask(size))

    def loss_of(params: Any, tokens: Any, targets: Any) -> Any:
        return cross_entropy_jax(jax, logits(ops, size, params, tokens, hidden), targets)

    return adam_jax(jax, loss_of, weights(size), RATE, tokens, targets)


def torch(torch: Any, compiled: Any, size: Size) -> Call:
    tokens, targets = map(torch.from_numpy, data(size))
    params, ops = [torch.from_numpy(w).requires_grad_() for w in weights(size)], TorchOps(torch)
    hidden = torch.from_numpy(mask(size))

    @compiled
    def loss_of(tokens: Any, targets: Any) -> Any:
        found = logits(ops, size, params, tokens, hidden)
        return torch.nn.functional.cross_entropy(found.flatten(0, 1), targets.flatten())

    return step_torch(adam_torch(torch, params, RATE), loss_of, tokens, targets)


WORKLOADS = [
    Workload(
        name="transformer",
        title="transformer 8x64, 2 blocks of width 128, Adam step",
        full=Size(batch=8, time=64, width=128, heads=4, blocks=2, symbols=96),
        tiny=Size(batch=2, time=3, width=4, heads=2, blocks=1, symbols=5),
        tensorflow=tensorflow,
        jax=jax,
        torch=torch,
        goal="<= 0.67x the best",
    )
]
