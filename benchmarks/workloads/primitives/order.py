"""Sorting, and primitives that sort only in part, such as top-k."""

from __future__ import annotations

from benchmarks.workloads.primitives.record import Operand, Primitive

ORDER = [
    Primitive(
        "sort rows", [Operand((1000, 1000))], lambda tf, x: tf.sort(x), lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0], 1_000_000,
    ),
    Primitive(
        "sort", [Operand((200_000,))], lambda tf, x: tf.sort(x), lambda jax, x: jax.numpy.sort(x),
        lambda torch, x: torch.sort(x)[0], 200_000,
    ),
    Primitive(
        "argsort rows", [Operand((1000, 1000))], lambda tf, x: tf.argsort(x), lambda jax, x: jax.numpy.argsort(x),
        lambda torch, x: torch.argsort(x), 1_000_000,
    ),
    Primitive(
        "top 10 of 1000", [Operand((1000, 1000))], lambda tf, x: tf.math.top_k(x, 10)[0],
        lambda jax, x: jax.lax.top_k(x, 10)[0], lambda torch, x: torch.topk(x, 10)[0], 10_000,
    ),
]  # fmt: skip
