"""The sizes of the other networks, and their data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

CLASSES = 10


class Images(NamedTuple):
    """``sides`` are the extents of one image, of one to three dims; ``results`` the shape of what is compared."""

    batch: int
    sides: tuple[int, ...]
    channels: int
    widths: tuple[int, ...]
    groups: int = 1
    compared: int = 0
    latent: tuple[int, ...] = ()

    def data(self) -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        x = rng.normal(size=(self.batch, *self.sides, self.channels))
        if self.latent:
            return [x.astype(np.float32), rng.normal(size=(self.batch, *self.latent)).astype(np.float32)]
        if self.compared:
            y = rng.uniform(0, 1, (self.batch, *self.sides, self.compared))
            return [x.astype(np.float32), y.astype(np.float32)]
        return [x.astype(np.float32), rng.integers(0, CLASSES, self.batch)]


class Sequences(NamedTuple):
    """The sizes of a network over sequences of symbols."""

    batch: int
    steps: int
    symbols: int
    width: int
    hidden: int

    def data(self) -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        return [rng.integers(0, self.symbols, (self.batch, self.steps)), rng.integers(0, CLASSES, self.batch)]


class Vectors(NamedTuple):
    """The sizes of a network from vectors to vectors, with a latent one."""

    batch: int
    width: int
    hidden: int
    latent: int

    def data(self) -> list[np.ndarray]:
        rng = np.random.default_rng(1)
        x, noise = rng.uniform(0, 1, (self.batch, self.width)), rng.normal(size=(self.batch, self.latent))
        return [x.astype(np.float32), noise.astype(np.float32)]


def data(size: Any) -> list[np.ndarray]:
    return size.data()
