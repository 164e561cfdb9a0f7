"""Softmax, scans, normalisation: primitives along an axis whose result has the operand's shape."""

from __future__ import annotations

from math import prod
from operator import attrgetter
from typing import Any

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive, Shape


def along(name: str, shape: Shape, axis: int, how: tuple[str, str, str]) -> Primitive:
    """A function of a tensor and an axis whose result has the tensor's shape."""
    own, third, fourth = map(attrgetter, how)
    return Primitive(
        f"{name} {'x'.join(map(str, shape))} along {axis}",
        [Operand(shape, 0.5, 1.5)],
        lambda tf, x: own(tf)(x, axis),
        lambda jax, x: third(jax)(x, axis),
        lambda torch, x: fourth(torch)(x, axis),
        prod(shape),
    )


def layer_norm(tf: Any, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, None, None, 1e-3)


def jax_standard(jax: Any, x: Any, axis: int) -> Any:
    return (x - x.mean(axis, keepdims=True)) * jax.lax.rsqrt(x.var(axis, keepdims=True) + 1e-3)


ROWS = [
    *(along("softmax", shape, axis, ("nn.softmax", "nn.softmax", "softmax")) for shape, axis in (
        (SQUARE, 1), (SQUARE, 0), ((100_000, 10), 1), ((8, 1_000_000 // 8), 1))),
    along("log_softmax", SQUARE, 1, ("nn.log_softmax", "nn.log_softmax", "log_softmax")),
    along("cumsum", SQUARE, 1, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumsum", SQUARE, 0, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumsum", (1_000_000,), 0, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumsum", (64, 256, 64), 1, ("cumsum", "numpy.cumsum", "cumsum")),
    along("cumprod", SQUARE, 1, ("math.cumprod", "numpy.cumprod", "cumprod")),
    Primitive(
        "layer norm", [Operand(SQUARE)], layer_norm, lambda jax, x: jax_standard(jax, x, 1),
        lambda torch, x: torch.nn.functional.layer_norm(x, (SQUARE[1],), eps=1e-3), prod(SQUARE),
    ),
]  # fmt: skip
