"""Random numbers from a seed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive

SEED = [Operand((2,), 1, 9, "int32")]


def jax_random(name: str, *limits: float) -> Callable[..., Any]:
    def drawn(jax: Any, seed: Any) -> Any:
        key = jax.random.wrap_key_data(seed.astype("uint32"))
        return getattr(jax.random, name)(key, *limits, SQUARE)

    return drawn


RANDOM = [
    Primitive(
        "uniform", SEED, lambda tf, seed: tf.random.stateless_uniform(SQUARE, seed), jax_random("uniform"),
        lambda torch, _: torch.rand(SQUARE), prod(SQUARE),
    ),
    Primitive(
        "normal", SEED, lambda tf, seed: tf.random.stateless_normal(SQUARE, seed), jax_random("normal"),
        lambda torch, _: torch.randn(SQUARE), prod(SQUARE),
    ),
    Primitive(
        "truncated normal", SEED, lambda tf, seed: tf.random.stateless_truncated_normal(SQUARE, seed),
        jax_random("truncated_normal", -2.0, 2.0),
        lambda torch, _: torch.nn.init.trunc_normal_(torch.empty(SQUARE), a=-2.0, b=2.0), prod(SQUARE),
    ),
]  # fmt: skip
