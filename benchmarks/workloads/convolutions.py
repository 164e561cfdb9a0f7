"""Single convolutions of many kinds, and their two gradients, in each framework's own layout. Images are NHWC."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from benchmarks.workload import Call, Workload


class Shape(NamedTuple):
    """A convolution with "SAME" padding, of one to three spatial dims; ``groups`` 0 means depthwise."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    groups: int = 1

    @property
    def rank(self) -> int:
        return len(self.x) - 2

    @property
    def y(self) -> tuple[int, ...]:
        return (self.x[0], *(-(-size // self.stride) for size in self.x[1:-1]), self.w[-1])

    @property
    def operations(self) -> float:
        return 2.0 * prod(self.y) * prod(self.w[:-1])

    @property
    def padding(self) -> list[tuple[int, int]]:
        """TensorFlow's "SAME": the odd zero comes last."""
        sizes = zip(self.x[1:-1], self.y[1:-1], self.w[:-2])
        totals = [
            max(0, (out - 1) * self.stride + (window - 1) * self.dilation + 1 - size) for size, out, window in sizes
        ]
        return [(total // 2, total - total // 2) for total in totals]


def square(batch: int, side: int, channels: int, window: int, results: int, **how: int) -> Shape:
    groups = how.get("groups", 1)
    return Shape((batch, side, side, channels), (window, window, channels // groups, results), **how)


def depthwise(batch: int, side: int, channels: int, window: int, stride: int = 1) -> Shape:
    return square(batch, side, channels, window, channels, stride=stride, groups=channels)


SHAPES = {
    "3x3-1to32": square(64, 28, 1, 3, 32),
    "3x3-3to64": square(32, 32, 3, 3, 64),
    "7x7s2-3to64": square(4, 224, 3, 7, 64, stride=2),
    "3x3s2-3to32": square(4, 224, 3, 3, 32, stride=2),
    "3x3-64": square(8, 56, 64, 3, 64),
    "3x3-128": square(8, 28, 128, 3, 128),
    "3x3-256": square(8, 14, 256, 3, 256),
    "3x3-512": square(8, 7, 512, 3, 512),
    "3x3-64-one": square(1, 56, 64, 3, 64),
    "3x3-256-one": square(1, 14, 256, 3, 256),
    "3x3s2-64to128": square(8, 56, 64, 3, 128, stride=2),
    "1x1s2-64to128": square(8, 56, 64, 1, 128, stride=2),
    "1x1-256to64": square(8, 28, 256, 1, 64),
    "1x1-96to576": square(8, 14, 96, 1, 576),
    "1x1-96to576-one": square(1, 14, 96, 1, 576),
    "5x5-20to50": square(64, 12, 20, 5, 50),
    "3x3-37to53": Shape((8, 27, 31, 37), (3, 3, 37, 53)),
    "3x3d2-128": square(8, 28, 128, 3, 128, dilation=2),
    "3x3g4-128": square(8, 28, 128, 3, 128, groups=4),
    "3x3g32-128": square(8, 28, 128, 3, 128, groups=32),
    "depth3x3-144": depthwise(8, 56, 144, 3),
    "depth3x3s2-96": depthwise(8, 112, 96, 3, 2),
    "depth3x3-576-one": depthwise(1, 14, 576, 3),
    "depth7x7-192": depthwise(8, 28, 192, 7),
    "1d-k3-64": Shape((16, 1024, 64), (3, 64, 64)),
    "1d-k80s4-1to64": Shape((16, 8000, 1), (80, 1, 64), 4),
    "1d-k2d64-64": Shape((8, 4096, 64), (2, 64, 64), 1, 64),
    "3d-k3-32to64": Shape((2, 16, 28, 28, 32), (3, 3, 3, 32, 64)),
    "3d-k3-3to32": Shape((2, 16, 56, 56, 3), (3, 3, 3, 3, 32)),
    "4x4s2-128to256": square(8, 16, 128, 4, 256, stride=2),
    "2x2s2-64to128": square(4, 64, 64, 2, 128, stride=2),
}
TINY = {name: shape._replace(x=(1, *(5 for _ in shape.x[1:-1]), shape.x[-1])) for name, shape in SHAPES.items()}
WAYS = ("forward", "dx", "dw")


def operands(shape: Shape) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Input, filter and the result's gradient."""
    rng = np.random.default_rng(0)
    scales = 1.0, prod(shape.w[:-1]) ** -0.5, prod(shape.y) ** -0.5
    return tuple(rng.normal(0, s, e).astype(np.float32) for s, e in zip(scales, (shape.x, shape.w, shape.y)))


def tensorflow(way: str, tf: Any, function: Any, shape: Shape) -> Call:
    x, w, dy = map(tf.constant, operands(shape))
    convolve = partial(_tensorflow_of(tf, shape), shape)

    def gradient(x: Any, w: Any, dy: Any) -> Any:
        source = x if way == "dx" else w
        with tf.GradientTape() as tape:
            tape.watch(source)
            y = convolve(x, w)
        return tape.gradient(y, source, dy)

    run = function((lambda x, w, dy: convolve(x, w)) if way == "forward" else gradient)
    return lambda: run(x, w, dy)


def _tensorflow_of(tf: Any, shape: Shape) -> Any:
    if shape.groups == shape.x[-1] > 1:
        return partial(_depthwise_tensorflow, tf)
    how = {"strides": shape.stride, "padding": "SAME", "dilations": shape.dilation}
    return lambda _shape, x, w: tf.nn.convolution(x, w, **how)


def _depthwise_tensorflow(tf: Any, shape: Shape, x: Any, w: Any) -> Any:
    w = tf.reshape(w, (*shape.w[:-2], shape.x[-1], 1))
    return tf.nn.depthwise_conv2d(x, w, (1, shape.stride, shape.stride, 1), "SAME")


def jax(way: str, jax: Any, shape: Shape) -> Call:
    x, w, dy = map(jax.numpy.asarray, operands(shape))
    letters = "DHW"[3 - shape.rank :]
    how = {
        "window_strides": (shape.stride,) * shape.rank,
        "padding": "SAME",
        "rhs_dilation": (shape.dilation,) * shape.rank,
        "dimension_numbers": (f"N{letters}C", f"{letters}IO", f"N{letters}C"),
        "feature_group_count": shape.groups,
    }

    def convolve(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(x, w, **how)

    def run(x: Any, w: Any, dy: Any) -> Any:
        return convolve(x, w) if way == "forward" else jax.vjp(convolve, x, w)[1](dy)[way == "dw"]

    compiled = jax.jit(run)
    return lambda: compiled(x, w, dy).block_until_ready()


def torch(way: str, torch: Any, _compiled: Any, shape: Shape) -> Call:
    """PyTorch's own operator; uneven zeros are made beforehand, outside the time, and those of a gradient left out."""
    x, w, dy = operands(shape)
    x, padding = _evenly_padded(x, shape)
    x, dy, w = (torch.from_numpy(each) for each in (x, dy, w))
    x, dy = (_channels_second(torch, each, shape.rank) for each in (x, dy))
    w = _fastest(torch, w.permute(shape.rank + 1, shape.rank, *range(shape.rank)), shape.rank)
    stride, dilation, zeros = ([size] * shape.rank for size in (shape.stride, shape.dilation, 0))
    if way == "forward":
        operator = torch.ops.aten.convolution
        return torch.inference_mode()(
            lambda: operator(x, w, None, stride, padding, dilation, False, zeros, shape.groups)
        )
    wanted = [way == "dx", way == "dw", False]
    backward = partial(torch.ops.aten.convolution_backward, dy, x, w, None, stride, padding, dilation, False, zeros)
    if way == "dw":
        return torch.inference_mode()(lambda: backward(shape.groups, wanted)[1])
    inside = (..., *(slice(low - own, low - own + size) for (low, _), own, size in _sides(shape, padding)))
    return torch.inference_mode()(lambda: backward(shape.groups, wanted)[0][inside])


def _sides(shape: Shape, padding: Sequence[int]) -> list[tuple[tuple[int, int], int, int]]:
    """Zeros around each spatial dim, those that PyTorch itself makes, and the dim's size."""
    return list(zip(shape.padding, padding, shape.x[1:-1], strict=True))


def _evenly_padded(x: np.ndarray, shape: Shape) -> tuple[np.ndarray, list[int]]:
    if all(low == high for low, high in shape.padding):
        return x, [low for low, _high in shape.padding]
    return np.pad(x, [(0, 0), *shape.padding, (0, 0)]), [0] * shape.rank


def _channels_second(torch: Any, x: Any, rank: int) -> Any:
    return _fastest(torch, x.permute(0, rank + 1, *range(1, rank + 1)), rank)


def _fastest(torch: Any, x: Any, rank: int) -> Any:
    if rank == 1:
        return x.contiguous()
    return x.contiguous(memory_format=torch.channels_last if rank == 2 else torch.channels_last_3d)


def workloads(names: Sequence[str] = tuple(SHAPES)) -> list[Workload]:
    """Returns the workloads of the convolutions with these names: forward, and both gradients."""
    return [
        Workload(
            name=f"conv-{name}-{way}",
            title=f"convolution {name}, {way}",
            full=SHAPES[name],
            tiny=TINY[name],
            tensorflow=partial(tensorflow, way),
            jax=partial(jax, way),
            torch=partial(torch, way),
            goal="<= 0.67x the best",
            operations=SHAPES[name].operations,
        )
        for name in names
        for way in WAYS
    ]


WORKLOADS = workloads()
