"""The convolutional network of the training and inference workloads, in each framework's words. Images are NHWC."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Size(NamedTuple):
    """The sizes of the network: batch, image side, channels of both convolutions, hidden units and classes."""

    batch: int
    side: int = 28
    first: int = 32
    second: int = 64
    hidden: int = 128
    classes: int = 10

    @property
    def features(self) -> int:
        """Returns the number of features after two unpadded 3x3 convolutions, each with a 2x2 pooling."""
        return self.second * (((self.side - 2) // 2 - 2) // 2) ** 2


def weights(size: Size) -> list[np.ndarray]:
    """Returns the weights, as NumPy arrays: a kernel and a bias for each layer."""
    rng = np.random.default_rng(0)
    kernels = (3, 3, 1, size.first), (3, 3, size.first, size.second)
    shapes = *kernels, (size.features, size.hidden), (size.hidden, size.classes)
    made = []
    for shape in shapes:
        made += [rng.normal(0, np.prod(shape[:-1]) ** -0.5, shape), np.zeros(shape[-1])]
    return [w.astype(np.float32) for w in made]


def data(size: Size) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    images = rng.normal(size=(size.batch, size.side, size.side, 1)).astype(np.float32)
    return images, rng.integers(0, size.classes, size.batch)


def logits_tensorflow(tf: Any, weights: Any, x: Any) -> Any:
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, k1, 1, "VALID") + b1), 2, 2, "VALID")
    x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, k2, 1, "VALID") + b2), 2, 2, "VALID")
    x = tf.nn.relu(tf.matmul(tf.reshape(x, [-1, w3.shape[0]]), w3) + b3)
    return tf.matmul(x, w4) + b4


def logits_jax(jax: Any, weights: Any, x: Any) -> Any:
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    x = _pooled_jax(jax, jax.nn.relu(_convolved_jax(jax, x, k1) + b1))
    x = _pooled_jax(jax, jax.nn.relu(_convolved_jax(jax, x, k2) + b2))
    x = jax.nn.relu(x.reshape(x.shape[0], -1) @ w3 + b3)
    return x @ w4 + b4


def _convolved_jax(jax: Any, x: Any, kernel: Any) -> Any:
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _pooled_jax(jax: Any, x: Any) -> Any:
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def torch_weights(torch: Any, size: Size) -> list[Any]:
    """Returns the kernels in PyTorch's shapes, in its fastest layout for a CPU; the rows of dense layers are in NHWC order."""
    made = [torch.from_numpy(w) for w in weights(size)]
    for i in (0, 2):
        made[i] = made[i].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    return made


def torch_images(torch: Any, images: np.ndarray) -> Any:
    return torch.from_numpy(images).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)


def logits_torch(torch: Any, weights: Any, x: Any) -> Any:
    k1, b1, k2, b2, w3, b3, w4, b4 = weights
    nn = torch.nn.functional
    x = nn.max_pool2d(nn.relu(nn.conv2d(x, k1, b1)), 2)
    x = nn.max_pool2d(nn.relu(nn.conv2d(x, k2, b2)), 2)
    x = nn.relu(x.permute(0, 2, 3, 1).reshape(x.shape[0], -1) @ w3 + b3)
    return x @ w4 + b4
