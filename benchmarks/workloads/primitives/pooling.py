"""Pooling of images, channels last, and its gradients."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from benchmarks.workloads.primitives.record import Operand, Primitive, Shape

IMAGES = (32, 32, 32, 64)
WINDOWS = ((2, 2, "VALID"), (3, 2, "SAME"), (3, 1, "SAME"))


def results(extent: int, size: int, step: int, padding: str) -> int:
    return -(-extent // step) if padding == "SAME" else (extent - size) // step + 1


def around(extent: int, size: int, step: int, padding: str) -> tuple[int, int]:
    """TensorFlow's padding: the odd row comes last."""
    total = max(0, (results(extent, size, step, padding) - 1) * step + size - extent) if padding == "SAME" else 0
    return total // 2, total - total // 2


def channels_first(x: Any) -> Any:
    return x.permute(0, 3, 1, 2)


def padded(torch: Any, x: Any, low: int, high: int, value: float) -> tuple[Any, int]:
    """Pads images as far as PyTorch's symmetric padding, which is returned too, can't express it."""
    if low == high:
        return x, low
    return torch.nn.functional.pad(x, (low, high, low, high), value=value), 0


class Pool:
    """A pooling of IMAGES, written for each framework."""

    def __init__(self, kind: str, size: int, step: int, padding: str) -> None:
        self.kind, self.size, self.step, self.padding = kind, size, step, padding
        self.around = around(IMAGES[1], size, step, padding)
        extent = results(IMAGES[1], size, step, padding)
        self.shape: Shape = (IMAGES[0], extent, extent, IMAGES[3])

    @property
    def name(self) -> str:
        return f"{self.kind} pool {self.size}x{self.size} step {self.step} {self.padding}"

    def tensorflow(self, tf: Any, x: Any) -> Any:
        return getattr(tf.nn, f"{self.kind}_pool2d")(x, self.size, self.step, self.padding)

    def tensorflow_gradient(self, tf: Any, x: Any, ct: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = self.tensorflow(tf, x)
        return tape.gradient(y, x, output_gradients=ct)

    def jax(self, jax: Any, x: Any) -> Any:
        window, steps = (1, self.size, self.size, 1), (1, self.step, self.step, 1)

        def reduced(values: Any, start: float, combine: Any) -> Any:
            return jax.lax.reduce_window(values, start, combine, window, steps, self.padding)

        if self.kind == "max":
            return reduced(x, -float("inf"), jax.lax.max)
        return reduced(x, 0.0, jax.lax.add) / reduced(jax.numpy.ones(x.shape, x.dtype), 0.0, jax.lax.add)

    def jax_gradient(self, jax: Any, x: Any, ct: Any) -> Any:
        return jax.vjp(lambda x: self.jax(jax, x), x)[1](ct)[0]

    def torch(self, torch: Any, x: Any) -> Any:
        values, more = self.torch_input(torch, x)
        if self.kind == "max":
            return torch.nn.functional.max_pool2d(values, self.size, self.step, more).permute(0, 2, 3, 1)
        pooled = torch.nn.functional.avg_pool2d(values, self.size, self.step, more, count_include_pad=False)
        return pooled.permute(0, 2, 3, 1)

    def torch_input(self, torch: Any, x: Any) -> tuple[Any, int]:
        return padded(torch, channels_first(x), *self.around, -float("inf") if self.kind == "max" else 0.0)

    def torch_gradient(self, torch: Any, x: Any, ct: Any) -> Any:
        values, more = self.torch_input(torch, x)
        window, given = ([self.size] * 2, [self.step] * 2, [more] * 2), channels_first(ct)
        if self.kind == "max":
            places = torch.ops.aten.max_pool2d_with_indices(values, *window)[1]
            found = torch.ops.aten.max_pool2d_with_indices_backward(given, values, *window, [1, 1], False, places)
        else:
            found = torch.ops.aten.avg_pool2d_backward(given, values, *window, False, False, None)
        low = self.around[0] - more
        return found[:, :, low : low + IMAGES[1], low : low + IMAGES[2]].permute(0, 2, 3, 1)


def forward(pool: Pool, torch: Callable[..., Any] | None) -> Primitive:
    return Primitive(pool.name, [Operand(IMAGES)], pool.tensorflow, pool.jax, torch, prod(pool.shape))


def gradient(pool: Pool, torch: Callable[..., Any] | None) -> Primitive:
    operands = [Operand(IMAGES), Operand(pool.shape)]
    name = f"{pool.name}, gradient"
    return Primitive(name, operands, pool.tensorflow_gradient, pool.jax_gradient, torch, prod(IMAGES))


POOLS = [Pool(kind, *window) for kind in ("max", "avg") for window in WINDOWS]


def same_divisor(pool: Pool) -> bool:
    """Whether PyTorch divides by the same number of values: padding added by hand counts as values there."""
    return pool.kind == "max" or pool.around[0] == pool.around[1]


POOLING = [
    each
    for pool in POOLS
    for each in (
        forward(pool, pool.torch if same_divisor(pool) else None),
        gradient(pool, pool.torch_gradient if same_divisor(pool) else None),
    )
]
