"""Sums and other reductions over several axes."""

from __future__ import annotations

from math import prod
from operator import attrgetter

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive, Shape


def reduction(name: str, shape: Shape, axis: int | tuple[int, ...] | None, how: tuple[str, str, str]) -> Primitive:
    """A reduction over axes, by its name in each framework's namespace."""
    own, third, fourth = map(attrgetter, how)
    axes = range(len(shape)) if axis is None else [axis] if isinstance(axis, int) else axis
    result_size = prod(size for place, size in enumerate(shape) if place not in [a % len(shape) for a in axes])
    return Primitive(
        f"{name} {'x'.join(map(str, shape))} over {'all' if axis is None else axis}",
        [Operand(shape)],
        lambda tf, x: own(tf)(x, axis),
        lambda jax, x: third(jax)(x, axis),
        lambda torch, x: fourth(torch)(x) if axis is None else fourth(torch)(x, axis),
        result_size,
    )


SUM = ("reduce_sum", "numpy.sum", "sum")
LARGEST = ("reduce_max", "numpy.max", "amax")
SUMS = [
    (SQUARE, None), (SQUARE, 1), (SQUARE, 0), ((64, 256, 64), 1), ((64, 256, 64), (0, 2)), ((64, 256, 64), (0, 1)),
    ((64, 256, 64), 0), ((64, 256, 64), 2), ((64, 256, 64), (1, 2)),
    ((250_000, 4), 1), ((250_000, 4), 0), ((4, 250_000), 1), ((4, 250_000), 0), ((100_000, 10), 1), ((40, 50), 1),
]  # fmt: skip
REDUCTIONS = [
    *(reduction("sum", shape, axis, SUM) for shape, axis in SUMS),
    *(reduction("max", shape, axis, LARGEST) for shape, axis in (SUMS[0], SUMS[1], SUMS[2], SUMS[6])),
    reduction("mean", SQUARE, 1, ("reduce_mean", "numpy.mean", "mean")),
    reduction("prod", SQUARE, 1, ("reduce_prod", "numpy.prod", "prod")),
    reduction("argmax", SQUARE, 1, ("argmax", "numpy.argmax", "argmax")),
    reduction("argmax", SQUARE, 0, ("argmax", "numpy.argmax", "argmax")),
    reduction("argmin", (64, 256, 64), 1, ("argmin", "numpy.argmin", "argmin")),
    reduction("logsumexp", SQUARE, 1, ("reduce_logsumexp", "scipy.special.logsumexp", "logsumexp")),
    reduction("logsumexp", SQUARE, 0, ("reduce_logsumexp", "scipy.special.logsumexp", "logsumexp")),
]
