"""Reference convolutions and their gradients in NumPy, one filter tap at a time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

Padding = Sequence[tuple[int, int]]


class Geometry:
    """Which padded input positions each tap of a window meets."""

    def __init__(self, spatial: Sequence[int], window: Sequence[int], strides, padding: Padding, dilations) -> None:
        self.window, self.strides, self.padding, self.dilations = window, strides, padding, dilations
        padded = [size + low + high for size, (low, high) in zip(spatial, padding)]
        self.results = [(p - (k - 1) * d - 1) // s + 1 for p, k, d, s in zip(padded, window, dilations, strides)]

    def taps(self) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
        for tap in itertools.product(*[range(extent) for extent in self.window]):
            starts = [t * d for t, d in zip(tap, self.dilations)]
            ends = [a + (r - 1) * s + 1 for a, r, s in zip(starts, self.results, self.strides)]
            yield tap, (slice(None), *[slice(a, b, s) for a, b, s in zip(starts, ends, self.strides)])

    def pad(self, x: np.ndarray, value: float = 0) -> np.ndarray:
        return np.pad(x.astype("float64"), [(0, 0), *self.padding, (0, 0)], constant_values=value)

    def crop(self, x: np.ndarray, spatial: Sequence[int]) -> np.ndarray:
        return x[(slice(None), *[slice(low, low + size) for (low, _), size in zip(self.padding, spatial)])]


def convolve(x, w, strides, padding, dilations, groups) -> np.ndarray:
    shape = Geometry(x.shape[1:-1], w.shape[:-2], strides, padding, dilations)
    y = np.zeros((x.shape[0], *shape.results, w.shape[-1]))
    for _group, channels, results in group_slices(w, groups):
        for tap, place in shape.taps():
            y[..., results] += shape.pad(x)[place][..., channels] @ w[tap][:, results]
    return y


def gradients(x, w, dy, strides, padding, dilations, groups) -> tuple[np.ndarray, np.ndarray]:
    shape = Geometry(x.shape[1:-1], w.shape[:-2], strides, padding, dilations)
    around, dw = shape.pad(x), np.zeros(w.shape)
    dx = np.zeros(around.shape)
    for _, channels, results in group_slices(w, groups):
        for tap, place in shape.taps():
            dx[(*place, channels)] += dy[..., results] @ w[tap][:, results].T
            axes = list(range(dy.ndim - 1))
            dw[tap][:, results] += np.tensordot(around[(*place, channels)], dy[..., results], (axes, axes))
    return shape.crop(dx, x.shape[1:-1]), dw


def group_slices(w: np.ndarray, groups: int) -> Iterator[tuple[int, slice, slice]]:
    channels, results = w.shape[-2], w.shape[-1] // groups
    for group in range(groups):
        yield group, slice(group * channels, (group + 1) * channels), slice(group * results, (group + 1) * results)
