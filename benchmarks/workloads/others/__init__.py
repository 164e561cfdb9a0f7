"""Training steps of networks of other kinds and of odd sizes: ``python -m benchmarks others``."""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.workload import Workload
from benchmarks.workloads.others import kinds, networks
from benchmarks.workloads.others.frameworks import (
    in_jax,
    in_tensorflow,
    in_torch,
    results_in_jax,
    results_in_tensorflow,
    results_in_torch,
)
from benchmarks.workloads.others.sizes import Images, Sequences, Vectors, data

SIZES: dict[str, tuple[Any, Any, Any]] = {
    "unet": (networks.unet, Images(4, (64, 64), 3, (16, 32, 64), compared=1), Images(1, (8, 8), 3, (2, 3, 4), compared=1)),
    "resnext": (networks.resnext, Images(16, (32, 32), 3, (64, 128, 256), 32), Images(2, (8, 8), 3, (8, 16), 2)),
    "densenet": (networks.densenet, Images(33, (31, 31), 3, (24, 4, 4), 12), Images(2, (7, 7), 3, (3, 2, 1), 2)),
    "convnext": (networks.convnext, Images(8, (56, 56), 3, (48, 96)), Images(2, (8, 8), 3, (3, 4))),
    "style": (networks.style, Images(1, (126, 126), 3, (17, 34), compared=3), Images(1, (10, 10), 3, (2, 3), compared=3)),
    "dilated": (networks.dilated, Images(7, (57, 57), 3, (17, 48)), Images(2, (9, 9), 3, (2, 3))),
    "volumes": (networks.volumes, Images(4, (16, 31, 31), 3, (16, 32)), Images(1, (4, 5, 5), 2, (2, 3))),
    "wavenet": (networks.wavenet, Images(7, (1000,), 1, (48,)), Images(2, (40,), 1, (3,))),
    "vit": (networks.vision_transformer, Images(33, (32, 32), 3, (192, 4), 3), Images(2, (8, 8), 3, (6, 4), 2)),
    "gru": (networks.gru, Sequences(33, 31, 1000, 64, 100), Sequences(2, 3, 10, 4, 5)),
    "both-ways": (networks.both_ways, Sequences(7, 31, 1000, 64, 100), Sequences(2, 3, 10, 4, 5)),
    "embedded": (networks.embedded, Sequences(100, 57, 20000, 64, 48), Sequences(2, 3, 10, 4, 5)),
    "autoencoder": (networks.autoencoder, Vectors(100, 784, 400, 20), Vectors(2, 9, 5, 3)),
    "adversary": (
        networks.adversary,
        Images(33, (28, 28), 3, (48, 24), latent=(7, 7, 17)),
        Images(2, (8, 8), 3, (3, 2), latent=(2, 2, 3)),
    ),
    "mobile": (kinds.mobile, Images(128, (32, 32), 3, (16, 32, 64, 128)), Images(2, (8, 8), 3, (2, 3))),
    "digits": (kinds.digits, Images(128, (29, 29), 1, (7, 13, 37)), Images(2, (9, 9), 1, (2, 3, 4))),
    "hourglass": (kinds.hourglass, Images(16, (56, 56), 3, (7, 13, 37), compared=3), Images(1, (8, 8), 3, (2, 3), compared=3)),
    "mixer": (kinds.mixer, Images(16, (40, 40), 3, (72, 4)), Images(2, (8, 8), 3, (3, 4))),
    "phrases": (kinds.phrases, Sequences(50, 41, 3000, 50, 37), Sequences(2, 6, 10, 4, 5)),
    "contrasted": (kinds.contrasted, Vectors(128, 300, 200, 50), Vectors(2, 9, 5, 3)),
    "crossed": (kinds.crossed, Sequences(128, 13, 5000, 8, 100), Sequences(2, 3, 10, 4, 5)),
}  # fmt: skip


def workload(name: str) -> Workload:
    network, full, tiny = SIZES[name]
    title = f"{name} on {'x'.join(map(str, data(full)[0].shape))}, SGD step"
    return step(name, title, network, full, tiny, goal="<= 0.67x the best")


def step(name: str, title: str, network: Any, full: Any, tiny: Any, goal: str = "", has_adam: bool = False) -> Workload:
    """The workload of a training step of ``network(operations, size, *data)``, by Adam or by gradient descent."""
    return Workload(
        name=f"{name}-step",
        title=title,
        full=full,
        tiny=tiny,
        tensorflow=partial(in_tensorflow, network, data, has_adam=has_adam),
        jax=partial(in_jax, network, data, has_adam=has_adam),
        torch=partial(in_torch, network, data, has_adam=has_adam),
        goal=goal,
    )


def inference(name: str, title: str, network: Any, full: Any, tiny: Any) -> Workload:
    """The workload of the results of ``network(operations, size, *data)``."""
    return Workload(
        name=f"{name}-inference",
        title=title,
        full=full,
        tiny=tiny,
        tensorflow=partial(results_in_tensorflow, network, data),
        jax=partial(results_in_jax, network, data),
        torch=partial(results_in_torch, network, data),
    )


WORKLOADS = [workload(name) for name in SIZES]
