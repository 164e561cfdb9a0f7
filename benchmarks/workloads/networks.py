"""A residual and a depthwise network, written once over the few operations that each framework supplies. NHWC."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

CLASSES = 10
EPSILON = 1e-3


class Size(NamedTuple):
    """``net`` is ``residual`` or ``depthwise``; ``widths`` are its stages' channels, ``depth`` the blocks of each."""

    net: str
    batch: int
    side: int
    widths: tuple[int, ...]
    depth: int = 2


class Layer(NamedTuple):
    """A convolution and its norm: window, channels, results, step; a depthwise one has as many results as channels."""

    window: int
    channels: int
    results: int
    step: int = 1
    is_depthwise: bool = False

    @property
    def padding(self) -> int:
        return self.window // 2

    @property
    def filter(self) -> tuple[int, ...]:
        return (self.window, self.window, 1 if self.is_depthwise else self.channels, self.results)


class Block(NamedTuple):
    """Layers in sequence, all but the last followed by relu; ``shortcut`` is added to their result."""

    layers: tuple[Layer, ...]
    shortcut: tuple[Layer, ...] | None = None
    ends_with_relu: bool = True

    @property
    def all_layers(self) -> tuple[Layer, ...]:
        return self.layers + (self.shortcut or ())


def blocks(size: Size) -> list[Block]:
    """Returns the blocks of the network, from the first convolution to the last stage."""
    first = size.widths[0]
    made = [Block((Layer(3, 3, first, 2 if size.net == "depthwise" else 1),))]
    block = {"residual": residual, "depthwise": inverted}[size.net]
    channels = first
    for stage, width in enumerate(size.widths):
        for number in range(size.depth):
            made.append(block(channels, width, 2 if stage and not number else 1))
            channels = width
    return made


def residual(channels: int, results: int, step: int) -> Block:
    """ResNet-18's block: two 3x3 convolutions and a shortcut."""
    changes = step > 1 or channels != results
    shortcut = (Layer(1, channels, results, step),) if changes else ()
    return Block((Layer(3, channels, results, step), Layer(3, results, results)), shortcut)


def inverted(channels: int, results: int, step: int) -> Block:
    """MobileNetV2's block: widened six times, a depthwise 3x3 convolution, narrowed again."""
    wide = 6 * channels
    layers = (Layer(1, channels, wide), Layer(3, wide, wide, step, True), Layer(1, wide, results))
    return Block(layers, () if step == 1 and channels == results else None, False)


class Operations(NamedTuple):
    """A framework's operations: ``convolved(x, filter, layer)``, ``normed(y, scale, offset, mean, variance)``, ..."""

    convolved: Callable[[Any, Any, Layer], Any]
    normed: Callable[..., Any]
    relu: Callable[[Any], Any]
    mean: Callable[[Any], Any]


def logits(size: Size, operations: Operations, weights: Sequence[Any], x: Any) -> Any:
    left = iter(weights)
    for block in blocks(size):
        x = _block(block, operations, left, x)
    return operations.mean(x) @ next(left) + next(left)


def _block(block: Block, operations: Operations, weights: Iterator[Any], x: Any) -> Any:
    """Computes a block: its layers, and the sum with the shortcut if there is one."""
    y = x
    for layer in block.layers:
        is_last = layer is block.layers[-1]
        y = _layer(layer, operations, weights, y)
        y = y if is_last else operations.relu(y)
    if block.shortcut is not None:
        for layer in block.shortcut:
            x = _layer(layer, operations, weights, x)
        y = y + x
    return operations.relu(y) if block.ends_with_relu else y


def _layer(layer: Layer, operations: Operations, weights: Iterator[Any], x: Any) -> Any:
    y = operations.convolved(x, next(weights), layer)
    return operations.normed(y, *(next(weights) for _ in range(4)))


def all_layers(size: Size) -> list[Layer]:
    return [layer for block in blocks(size) for layer in block.all_layers]


def weights(size: Size) -> list[np.ndarray]:
    """Per layer the filter, then the norm's scale, offset, mean and variance; the dense layer's two last."""
    rng = np.random.default_rng(0)
    made: list[np.ndarray] = []
    for layer in all_layers(size):
        made.append(rng.normal(0, np.prod(layer.filter[:-1]) ** -0.5, layer.filter))
        made += [rng.uniform(0.5, 1.5, layer.results), *rng.normal(0, 0.1, (2, layer.results))]
        made.append(rng.uniform(0.5, 1.5, layer.results))
    made += [rng.normal(0, 0.05, (size.widths[-1], CLASSES)), np.zeros(CLASSES)]
    return [w.astype(np.float32) for w in made]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    images = rng.normal(size=(size.batch, size.side, size.side, 3)).astype(np.float32)
    return images, rng.integers(0, CLASSES, size.batch)


def in_tensorflow(tf: Any, trains: bool = False) -> Operations:
    """Returns the operations in TensorFlow; with ``trains``, norms use the batch's own statistics."""

    def convolved(x: Any, w: Any, layer: Layer) -> Any:
        around = [[0, 0], [layer.padding] * 2, [layer.padding] * 2, [0, 0]]
        if not layer.is_depthwise:
            return tf.nn.conv2d(x, w, layer.step, around)
        w = tf.reshape(w, (layer.window, layer.window, layer.channels, 1))
        return tf.nn.depthwise_conv2d(tf.pad(x, around), w, (1, layer.step, layer.step, 1), "VALID")

    def normed(y: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        if trains:
            mean, variance = tf.nn.moments(y, (0, 1, 2))
        return tf.nn.batch_normalization(y, mean, variance, offset, scale, EPSILON)

    return Operations(convolved, normed, tf.nn.relu, lambda x: tf.reduce_mean(x, (1, 2)))


def in_jax(jax: Any, trains: bool = False) -> Operations:
    """Returns the operations in JAX; with ``trains``, norms use the batch's own statistics."""

    def convolved(x: Any, w: Any, layer: Layer) -> Any:
        groups = layer.channels if layer.is_depthwise else 1
        around, names = [(layer.padding, layer.padding)] * 2, ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            x, w, (layer.step,) * 2, around, dimension_numbers=names, feature_group_count=groups
        )

    def normed(y: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        if trains:
            mean, variance = y.mean((0, 1, 2)), y.var((0, 1, 2))
        factor = scale / jax.numpy.sqrt(variance + EPSILON)
        return y * factor + (offset - mean * factor)

    return Operations(convolved, normed, jax.nn.relu, lambda x: x.mean((1, 2)))


def in_torch(torch: Any, trains: bool = False) -> Operations:
    """Returns the operations in PyTorch; with ``trains``, norms use the batch's own statistics."""
    functional = torch.nn.functional

    def convolved(x: Any, w: Any, layer: Layer) -> Any:
        return functional.conv2d(x, w, None, layer.step, layer.padding, 1, layer.channels if layer.is_depthwise else 1)

    def normed(y: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        statistics = (None, None) if trains else (mean, variance)
        return functional.batch_norm(y, *statistics, scale, offset, trains, eps=EPSILON)

    return Operations(convolved, normed, functional.relu, lambda x: x.mean((2, 3)))


def torch_weights(torch: Any, size: Size) -> list[Any]:
    """Returns filters in PyTorch's shapes, in its fastest layout for a CPU."""

    def moved(w: np.ndarray) -> Any:
        w = torch.from_numpy(w)
        return w.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last) if w.ndim == 4 else w

    return [moved(w) for w in weights(size)]


def torch_images(torch: Any, size: Size) -> Any:
    images = torch.from_numpy(data(size)[0])
    return images.permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
