"""The frameworks' operations under common names, over which the other networks are written, and their training steps.

Images are NHWC in TensorFlow and JAX, and PyTorch's own order in its fastest layout for a CPU, so that channels are the
axis ``ops.channels``. A network takes its weights from ``ops`` in the order in which it uses them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workload import Call
from benchmarks.workloads.training import adam_jax, adam_torch, sgd_jax, step_torch

RATE = 1e-2
EPSILON = 1e-3
LETTERS = "DHW"


class Ops:
    """The weights of a network, created in its first run, and operations written over names that frameworks share."""

    images_channels = -1

    def __init__(self) -> None:
        self.channels = self.images_channels
        self.made: list[Any] = []
        self.left: Any = None
        self.rng = np.random.default_rng(0)

    def weight(self, *shape: int, kind: str = "") -> Any:
        """Returns the next weight; ``kind`` is "conv" for a filter in HWIO layout, "transposed" for one in HWOI."""
        if self.left is not None:
            return next(self.left)
        scale = np.prod([*shape[:-2], shape[-1 if kind == "transposed" else -2]]) ** -0.5 if len(shape) > 1 else 0.1
        self.made.append(self.variable(self.rng.normal(0, scale, shape).astype(np.float32), kind))
        return self.made[-1]

    def over(self, weights: Any) -> None:
        self.left, self.channels = iter(weights), self.images_channels

    def tokens(self, x: Any) -> Any:
        """Flattens an image's positions to one axis; channels are last from here on."""
        return self.reshape(x, (x.shape[0], -1, x.shape[-1]))

    def image(self, x: Any, shape: tuple[int, ...]) -> Any:
        """Returns rows as images of a shape, NHWC."""
        return self.reshape(x, shape)

    def signal(self, x: Any) -> Any:
        """Returns a sequence of positions as an image of one dim."""
        return x

    def variable(self, value: np.ndarray, kind: str) -> Any:
        raise NotImplementedError

    def scales(self, x: Any) -> tuple[Any, Any]:
        """A factor and an offset for each channel."""
        count = int(x.shape[self.channels])
        return self.along(self.weight(count) + 1.0, x), self.along(self.weight(count), x)

    def along(self, value: Any, x: Any) -> Any:
        return value

    def dense(self, x: Any, width: int) -> Any:
        return x @ self.weight(int(x.shape[-1]), width) + self.weight(width)

    def conv(self, x: Any, width: int, window: int = 3, stride: int = 1, dilation: int = 1, groups: int = 1) -> Any:
        inputs = int(x.shape[self.channels])
        w = self.weight(*(window,) * (len(x.shape) - 2), inputs // groups, width, kind="conv")
        return self.convolved(x, w, window, stride, dilation, groups)

    def upconv(self, x: Any, width: int, window: int = 2) -> Any:
        """A transposed convolution of stride 2."""
        inputs = int(x.shape[self.channels])
        w = self.weight(window, window, width, inputs, kind="transposed")
        return self.widened(x, w, window)

    def batch_norm(self, x: Any) -> Any:
        return self.normed(x, tuple(i for i in range(len(x.shape)) if i != self.channels % len(x.shape)))

    def instance_norm(self, x: Any) -> Any:
        return self.normed(x, tuple(i for i in range(1, len(x.shape)) if i != self.channels % len(x.shape)))

    def layer_norm(self, x: Any) -> Any:
        return self.normed(x, (len(x.shape) + self.channels % len(x.shape) - len(x.shape),))

    def normed(self, x: Any, axes: tuple[int, ...]) -> Any:
        scale, offset = self.scales(x)
        mean, variance = self.moments(x, axes)
        return (x - mean) * self.rsqrt(variance + EPSILON) * scale + offset


class TensorFlow(Ops):
    """The operations in TensorFlow, and so in tvtf."""

    def __init__(self, tf: Any) -> None:
        super().__init__()
        self.tf = tf
        self.relu, self.tanh, self.sigmoid, self.rsqrt = tf.nn.relu, tf.tanh, tf.sigmoid, tf.math.rsqrt
        self.exp, self.softmax, self.reshape, self.transpose = tf.exp, tf.nn.softmax, tf.reshape, tf.transpose
        self.gelu = lambda x: tf.nn.gelu(x, approximate=False)
        self.gather, self.stack, self.softplus = tf.gather, tf.stack, tf.math.softplus

    def variable(self, value: np.ndarray, kind: str) -> Any:
        return self.tf.Variable(value)

    def convolved(self, x: Any, w: Any, window: int, stride: int, dilation: int, groups: int) -> Any:
        tf = self.tf
        if groups == x.shape[-1] > 1:
            flat = tf.reshape(w, (window, window, groups, -1))
            return tf.nn.depthwise_conv2d(x, flat, (1, stride, stride, 1), "SAME", dilations=(dilation,) * 2)
        return tf.nn.convolution(x, w, stride, "SAME", dilations=dilation)

    def causal(self, x: Any, width: int, window: int, dilation: int) -> Any:
        w = self.weight(window, int(x.shape[-1]), width, kind="conv")
        x = self.tf.pad(x, [[0, 0], [(window - 1) * dilation, 0], [0, 0]])
        return self.tf.nn.convolution(x, w, 1, "VALID", dilations=dilation)

    def widened(self, x: Any, w: Any, window: int) -> Any:
        batch, height, width, _ = x.shape
        return self.tf.nn.conv2d_transpose(x, w, (batch, 2 * height, 2 * width, w.shape[2]), 2, "SAME")

    def moments(self, x: Any, axes: tuple[int, ...]) -> Any:
        return self.tf.nn.moments(x, axes, keepdims=True)

    def join(self, xs: Any) -> Any:
        return self.tf.concat(xs, -1)

    def split(self, x: Any, count: int) -> Any:
        return self.tf.split(x, count, -1)

    def pool(self, x: Any) -> Any:
        rank = len(x.shape) - 2
        return self.tf.nn.max_pool(x, 2, 2, "SAME") if rank < 3 else self.tf.nn.max_pool3d(x, 2, 2, "SAME")

    def mean(self, x: Any, keepdims: bool = False) -> Any:
        """Returns the mean over all positions of an image."""
        return self.tf.reduce_mean(x, tuple(range(1, len(x.shape) - 1)), keepdims)

    def most(self, x: Any) -> Any:
        """Returns the maximum over all positions of an image."""
        return self.tf.reduce_max(x, tuple(range(1, len(x.shape) - 1)))

    def lengths(self, x: Any) -> Any:
        return self.tf.reduce_sum(x * x, -1, keepdims=True)

    def upsampled(self, x: Any) -> Any:
        return self.tf.repeat(self.tf.repeat(x, 2, 1), 2, 2)

    def average(self, x: Any) -> Any:
        return self.tf.reduce_mean(x)

    def cross_entropy(self, x: Any, y: Any) -> Any:
        return self.tf.reduce_mean(self.tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x))

    def zeros(self, *shape: int) -> Any:
        return self.tf.zeros(shape)


class Jax(Ops):
    """The operations in JAX."""

    def __init__(self, jax: Any) -> None:
        super().__init__()
        self.jax, self.np = jax, jax.numpy
        self.relu, self.tanh, self.sigmoid, self.rsqrt = jax.nn.relu, jax.numpy.tanh, jax.nn.sigmoid, jax.lax.rsqrt
        self.exp, self.softmax, self.reshape = jax.numpy.exp, jax.nn.softmax, jax.numpy.reshape
        self.transpose, self.gelu = jax.numpy.transpose, lambda x: jax.nn.gelu(x, approximate=False)
        self.gather, self.stack, self.softplus = lambda t, i: t[i], jax.numpy.stack, jax.nn.softplus

    def variable(self, value: np.ndarray, kind: str) -> Any:
        return self.np.asarray(value)

    def _names(self, rank: int) -> tuple[str, str, str]:
        letters = LETTERS[3 - rank :]
        return f"N{letters}C", f"{letters}IO", f"N{letters}C"

    def convolved(self, x: Any, w: Any, window: int, stride: int, dilation: int, groups: int) -> Any:
        rank = x.ndim - 2
        return self.jax.lax.conv_general_dilated(
            x, w, (stride,) * rank, "SAME", rhs_dilation=(dilation,) * rank, dimension_numbers=self._names(rank),
            feature_group_count=groups,
        )  # fmt: skip

    def causal(self, x: Any, width: int, window: int, dilation: int) -> Any:
        w = self.weight(window, int(x.shape[-1]), width, kind="conv")
        return self.jax.lax.conv_general_dilated(
            x, w, (1,), [((window - 1) * dilation, 0)], rhs_dilation=(dilation,), dimension_numbers=self._names(1)
        )

    def widened(self, x: Any, w: Any, window: int) -> Any:
        return self.jax.lax.conv_transpose(
            x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True
        )

    def moments(self, x: Any, axes: tuple[int, ...]) -> Any:
        return x.mean(axes, keepdims=True), x.var(axes, keepdims=True)

    def join(self, xs: Any) -> Any:
        return self.np.concatenate(xs, -1)

    def split(self, x: Any, count: int) -> Any:
        return self.np.split(x, count, -1)

    def pool(self, x: Any) -> Any:
        window = (1, *(2,) * (x.ndim - 2), 1)
        return self.jax.lax.reduce_window(x, -np.inf, self.jax.lax.max, window, window, "SAME")

    def mean(self, x: Any, keepdims: bool = False) -> Any:
        return x.mean(tuple(range(1, x.ndim - 1)), keepdims=keepdims)

    def most(self, x: Any) -> Any:
        return x.max(tuple(range(1, x.ndim - 1)))

    def lengths(self, x: Any) -> Any:
        return self.np.sum(x * x, -1, keepdims=True)

    def upsampled(self, x: Any) -> Any:
        return self.np.repeat(self.np.repeat(x, 2, 1), 2, 2)

    def average(self, x: Any) -> Any:
        return x.mean()

    def cross_entropy(self, x: Any, y: Any) -> Any:
        return -self.np.mean(self.np.take_along_axis(self.jax.nn.log_softmax(x), y[:, None], axis=1))

    def zeros(self, *shape: int) -> Any:
        return self.np.zeros(shape)


class Torch(Ops):
    """The operations in PyTorch, on images whose channels are the second axis."""

    def __init__(self, torch: Any) -> None:
        super().__init__()
        self.torch, self.nn = torch, torch.nn.functional
        self.relu, self.tanh, self.sigmoid, self.rsqrt = torch.relu, torch.tanh, torch.sigmoid, torch.rsqrt
        self.exp, self.softmax = torch.exp, lambda x: torch.softmax(x, -1)
        self.reshape, self.transpose, self.gelu = torch.reshape, torch.permute, self.nn.gelu
        self.gather, self.stack, self.softplus = lambda t, i: t[i], torch.stack, self.nn.softplus

    def tokens(self, x: Any) -> Any:
        self.channels = -1
        return x.flatten(2).permute(0, 2, 1)

    def image(self, x: Any, shape: tuple[int, ...]) -> Any:
        self.channels = 1
        return x.reshape(shape).permute(0, 3, 1, 2)

    def signal(self, x: Any) -> Any:
        self.channels = 1
        return x.permute(0, 2, 1)

    def variable(self, value: np.ndarray, kind: str) -> Any:
        w = self.torch.from_numpy(value)
        if kind:
            w = w.permute(w.ndim - 1, w.ndim - 2, *range(w.ndim - 2))
            w = w.contiguous() if w.ndim < 4 else w.contiguous(memory_format=self.layout(w.ndim))
        return w.requires_grad_()

    def layout(self, rank: int) -> Any:
        return self.torch.channels_last if rank == 4 else self.torch.channels_last_3d

    def along(self, value: Any, x: Any) -> Any:
        return value if self.channels == -1 else value.reshape(-1, *(1,) * (x.ndim - 2))

    def convolved(self, x: Any, w: Any, window: int, stride: int, dilation: int, groups: int) -> Any:
        rank = x.ndim - 2
        x, padding = self._padded(x, window, stride, dilation)
        return getattr(self.nn, f"conv{rank}d")(x, w, None, stride, padding, dilation, groups)

    def _padded(self, x: Any, window: int, stride: int, dilation: int) -> tuple[Any, list[int]]:
        """Pads images for "SAME" where the padding is uneven; returns them and the symmetric padding that remains."""
        totals = [
            max(0, (-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size) for size in x.shape[2:]
        ]
        if all(total % 2 == 0 for total in totals):
            return x, [total // 2 for total in totals]
        pads = [each for total in reversed(totals) for each in (total // 2, total - total // 2)]
        return self.nn.pad(x, pads), [0] * len(totals)

    def causal(self, x: Any, width: int, window: int, dilation: int) -> Any:
        w = self.weight(window, int(x.shape[1]), width, kind="conv")
        return self.nn.conv1d(self.nn.pad(x, ((window - 1) * dilation, 0)), w, dilation=dilation)

    def widened(self, x: Any, w: Any, window: int) -> Any:
        before = (window - 2) // 2
        y = self.nn.conv_transpose2d(x, w, None, 2, before)
        return y[:, :, : 2 * x.shape[2], : 2 * x.shape[3]]

    def normed(self, x: Any, axes: tuple[int, ...]) -> Any:
        """Normalizes with PyTorch's own operator."""
        if self.channels == -1:
            scale, offset = self.weight(x.shape[-1]) + 1.0, self.weight(x.shape[-1])
            return self.nn.layer_norm(x, x.shape[-1:], scale, offset, EPSILON)
        scale, offset = self.weight(x.shape[1]) + 1.0, self.weight(x.shape[1])
        if 0 in axes:
            return self.nn.batch_norm(x, None, None, scale, offset, True, eps=EPSILON)
        if axes == (1,):
            moved = x.permute(0, *range(2, x.ndim), 1)
            y = self.nn.layer_norm(moved, moved.shape[-1:], scale, offset, EPSILON)
            return y.permute(0, x.ndim - 1, *range(1, x.ndim - 1))
        return self.nn.instance_norm(x, weight=scale, bias=offset, eps=EPSILON)

    def layer_norm(self, x: Any) -> Any:
        return self.normed(x, (self.channels % x.ndim,))

    def join(self, xs: Any) -> Any:
        return self.torch.cat(xs, self.channels)

    def split(self, x: Any, count: int) -> Any:
        return self.torch.chunk(x, count, self.channels)

    def pool(self, x: Any) -> Any:
        return getattr(self.nn, f"max_pool{x.ndim - 2}d")(x, 2, ceil_mode=True)

    def mean(self, x: Any, keepdims: bool = False) -> Any:
        axes = range(2, x.ndim) if self.channels == 1 else range(1, x.ndim - 1)
        return x.mean(tuple(axes), keepdim=keepdims)

    def most(self, x: Any) -> Any:
        return x.amax(tuple(range(2, x.ndim)))

    def lengths(self, x: Any) -> Any:
        return self.torch.sum(x * x, -1, keepdim=True)

    def upsampled(self, x: Any) -> Any:
        return self.nn.interpolate(x, scale_factor=2)

    def average(self, x: Any) -> Any:
        return x.mean()

    def cross_entropy(self, x: Any, y: Any) -> Any:
        return self.nn.cross_entropy(x, y)

    def zeros(self, *shape: int) -> Any:
        return self.torch.zeros(shape)


Network = Callable[..., Any]
"""``network(ops, size, *data)`` gives the loss."""


def in_tensorflow(network: Network, data: Any, tf: Any, function: Any, size: Any, has_adam: bool = False) -> Call:
    """A training step, by Adam or by gradient descent."""
    inputs, ops = [tf.constant(each) for each in data(size)], TensorFlow(tf)
    network(ops, size, *inputs)
    variables = list(ops.made)
    adam = tf.optimizers.Adam(RATE) if has_adam else None
    if adam is not None:
        adam.build(variables)

    @function
    def step(*inputs: Any) -> Any:
        ops.over(variables)
        with tf.GradientTape() as tape:
            loss = network(ops, size, *inputs)
        gradients = tape.gradient(loss, variables)
        if adam is not None:
            adam.apply_gradients(zip(gradients, variables))
            return loss
        for variable, gradient in zip(variables, gradients):
            if isinstance(gradient, tf.IndexedSlices):
                variable.scatter_sub(tf.IndexedSlices(RATE * gradient.values, gradient.indices))
            else:
                variable.assign_sub(RATE * gradient)
        return loss

    return lambda: step(*inputs)


def in_jax(network: Network, data: Any, jax: Any, size: Any, has_adam: bool = False) -> Call:
    """A training step in JAX, by Adam or by gradient descent."""
    inputs, ops = [jax.numpy.asarray(each) for each in data(size)], Jax(jax)
    network(ops, size, *inputs)

    def loss_of(weights: Any, *inputs: Any) -> Any:
        ops.over(weights)
        return network(ops, size, *inputs)

    return (adam_jax if has_adam else sgd_jax)(jax, loss_of, list(ops.made), RATE, *inputs)


def in_torch(network: Network, data: Any, torch: Any, compiled: Any, size: Any, has_adam: bool = False) -> Call:
    """A training step in PyTorch, by Adam or by gradient descent."""
    ops = Torch(torch)
    inputs = [_in_torch(ops, each) for each in data(size)]
    network(ops, size, *inputs)
    weights = list(ops.made)
    optimizer = adam_torch(torch, weights, RATE) if has_adam else torch.optim.SGD(weights, lr=RATE)

    @compiled
    def loss_of(weights: Any, *inputs: Any) -> Any:
        ops.over(weights)
        return network(ops, size, *inputs)

    return step_torch(optimizer, loss_of, weights, *inputs)


def results_in_tensorflow(network: Network, data: Any, tf: Any, function: Any, size: Any) -> Call:
    """The network's results alone; its weights are Variables."""
    inputs, ops = [tf.constant(each) for each in data(size)], TensorFlow(tf)
    network(ops, size, *inputs)
    variables = list(ops.made)

    @function
    def results(*inputs: Any) -> Any:
        ops.over(variables)
        return network(ops, size, *inputs)

    return lambda: results(*inputs)


def results_in_jax(network: Network, data: Any, jax: Any, size: Any) -> Call:
    """The network's results alone, in JAX."""
    inputs, ops = [jax.numpy.asarray(each) for each in data(size)], Jax(jax)
    network(ops, size, *inputs)
    weights = list(ops.made)

    @jax.jit
    def results(weights: Any, *inputs: Any) -> Any:
        ops.over(weights)
        return network(ops, size, *inputs)

    return lambda: results(weights, *inputs).block_until_ready()


def results_in_torch(network: Network, data: Any, torch: Any, compiled: Any, size: Any) -> Call:
    """The network's results alone, in PyTorch."""
    ops = Torch(torch)
    inputs = [_in_torch(ops, each) for each in data(size)]
    network(ops, size, *inputs)
    weights = list(ops.made)

    @compiled
    def results(weights: Any, *inputs: Any) -> Any:
        ops.over(weights)
        return network(ops, size, *inputs)

    return torch.inference_mode()(lambda: results(weights, *inputs))


def _in_torch(ops: Torch, value: np.ndarray) -> Any:
    """Moves the channels of images and signals, the float inputs of three or more dims, to the second axis."""
    x = ops.torch.from_numpy(value)
    if value.dtype != np.float32 or x.ndim < 3:
        return x
    ops.images_channels = ops.channels = 1
    x = x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))
    return x.contiguous() if x.ndim < 4 else x.contiguous(memory_format=ops.layout(x.ndim))
