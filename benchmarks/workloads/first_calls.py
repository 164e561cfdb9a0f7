"""The programs of the table "first call": training steps of deep networks, and others that users start with."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from benchmarks.workload import Workload
from benchmarks.workloads import mlp, residual, transformer
from benchmarks.workloads.others import inference, networks
from benchmarks.workloads.others import step as training_step
from benchmarks.workloads.others import workload as other
from benchmarks.workloads.others.sizes import CLASSES, Images

MOBILENET = ((16, 1, 1, 1), (24, 2, 2, 6), (32, 3, 2, 6), (64, 4, 2, 6), (96, 3, 1, 6), (160, 3, 2, 6), (320, 1, 1, 6))
"""Width, repetitions, stride and expansion of each stage (Sandler et al. 2018, table 2)."""
RESNET = (3, 4, 6, 3)
"""Blocks of each stage of ResNet-50 (He et al. 2016, table 1)."""


def resnet50(ops: Any, size: Images, x: Any, y: Any) -> Any:
    return networks.classified(ops, _resnet50(ops, size, x, ops.batch_norm), y)


def resnet50_results(ops: Any, size: Images, x: Any, _y: Any) -> Any:
    """The network as it is used: statistics of batches are constants, which its norms' factors and offsets contain."""

    def scaled(x: Any) -> Any:
        factor, offset = ops.scales(x)
        return x * factor + offset

    return ops.dense(_resnet50(ops, size, x, scaled), CLASSES)


def _resnet50(ops: Any, size: Images, x: Any, norm: Callable[[Any], Any]) -> Any:
    """He et al. 2016, with the stride in the 3x3 convolution. ``size.widths`` are the blocks' inner widths."""
    convolved = partial(_convolved, ops, norm=norm)
    x = ops.pool(convolved(x, size.widths[0], window=7, stride=2))
    for stage, (width, count) in enumerate(zip(size.widths, RESNET)):
        for block in range(count):
            stride = 2 if stage and not block else 1
            z = convolved(convolved(x, width, window=1), width, stride=stride)
            z = norm(ops.conv(z, 4 * width, 1))
            x = ops.relu(z + (x if block else norm(ops.conv(x, 4 * width, 1, stride))))
    return ops.mean(x)


def convolutional_vae(ops: Any, size: Images, x: Any, noise: Any) -> Any:
    """Kingma and Welling 2014 with the layers of TensorFlow's tutorial; ``noise`` has two numbers for each image.

    Source: https://www.tensorflow.org/tutorials/generative/cvae
    """
    z = x
    for width in size.widths:
        z = ops.relu(ops.conv(z, width, stride=2))
    side, narrow = size.sides[0] // 4, size.widths[0]
    latent = ops.dense(ops.reshape(ops.tokens(z), (size.batch, -1)), 4)
    mean, log_variance = latent[:, :2], latent[:, 2:]
    z = noise * ops.exp(0.5 * log_variance) + mean
    z = ops.image(ops.relu(ops.dense(z, side * side * narrow)), (size.batch, side, side, narrow))
    for width in reversed(size.widths):
        z = ops.relu(ops.upconv(z, width, 3))
    logits = ops.conv(z, size.channels)
    divergence = mean * mean + ops.exp(log_variance) - log_variance
    return ops.average(ops.softplus(logits) - x * logits) + ops.average(divergence)


def mobilenet_v2(ops: Any, size: Images, x: Any, y: Any) -> Any:
    """Sandler et al. 2018: ``size.widths`` are the first and the last width, ``size.groups`` divides those between."""
    first, last = size.widths
    x = _convolved(ops, x, first, stride=2)
    for width, count, stride, factor in MOBILENET:
        for block in range(count):
            x = _inverted(ops, x, max(1, width // size.groups), factor, 1 if block else stride)
    return networks.classified(ops, ops.mean(_convolved(ops, x, last, window=1)), y)


def _inverted(ops: Any, x: Any, width: int, factor: int, stride: int) -> Any:
    channels = int(x.shape[ops.channels])
    wide = channels * factor
    z = _convolved(ops, x, wide, window=1) if factor > 1 else x
    z = _convolved(ops, z, wide, stride=stride, groups=wide)
    z = ops.batch_norm(ops.conv(z, width, 1))
    return x + z if stride == 1 and channels == width else z


def _convolved(ops: Any, x: Any, width: int, norm: Callable[[Any], Any] | None = None, **how: Any) -> Any:
    return ops.relu((norm or ops.batch_norm)(ops.conv(x, width, **how)))


def _step(name: str, title: str, network: Any, full: Images, tiny: Images) -> Workload:
    title = f"{title}, training step, {full.batch}x{full.sides[0]}x{full.sides[1]}"
    return training_step(name, title, network, full, tiny)


def _listed(workloads: list[Workload], name: str) -> Workload:
    return next(workload for workload in workloads if workload.name == name)


WORKLOADS = [
    _step("resnet50", "ResNet-50", resnet50, Images(8, (128, 128), 3, (64, 128, 256, 512)), Images(1, (32, 32), 3, (2, 3))),
    _step("mobilenet-v2", "MobileNetV2", mobilenet_v2, Images(8, (128, 128), 3, (32, 1280)), Images(1, (32, 32), 3, (2, 3), 16)),
    _step(
        "unet-128",
        "U-Net",
        networks.unet,
        Images(4, (128, 128), 3, (16, 32, 64, 128), compared=1),
        Images(1, (8, 8), 3, (2, 3, 4), compared=1),
    ),
    inference(
        "resnet50",
        "ResNet-50, inference, 1x224x224",
        resnet50_results,
        Images(1, (224, 224), 3, (64, 128, 256, 512)),
        Images(1, (32, 32), 3, (2, 3)),
    ),
    training_step(
        "vae",
        "convolutional VAE, Adam step, 32x28x28",
        convolutional_vae,
        Images(32, (28, 28), 1, (32, 64), latent=(2,)),
        Images(2, (8, 8), 1, (2, 3), latent=(2,)),
        has_adam=True,
    ),
    _listed(residual.WORKLOADS, "residual-1"),
    _listed(transformer.WORKLOADS, "transformer"),
    other("both-ways"),
    other("adversary"),
    _listed(mlp.WORKLOADS, "mlp"),
]  # fmt: skip
