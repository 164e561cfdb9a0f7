"""Resizing of an axis as a product with a matrix of the weights of old pixels in new ones.

Sources: ``tensorflow/core/kernels/image/{resize_bilinear,resize_bicubic,resize_area,scale_and_translate}_op.cc``
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, simplify_dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.dtypes import float32, int64
from tvtf.ops.host import host_primitive
from tvtf.ops.rules import bind, draw, kernel, require_dtype, stretch

TABLE = 1 << 10
"""The number of steps per pixel of the table from which TensorFlow reads bicubic weights."""


def _centres(size: int, to: int) -> np.ndarray:
    """Returns the positions of the new pixels' centres among the old pixels, in float32 as TensorFlow computes them."""
    scale = np.float32(size) / np.float32(to)
    return (np.arange(to, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)


def _bilinear(size: int, to: int) -> np.ndarray:
    """Returns the weights of linear interpolation between the two nearest pixels."""
    places = _centres(size, to)
    lower = np.floor(places)
    share = places - lower
    weights = np.zeros((to, size), np.float32)
    rows = np.arange(to)
    np.add.at(weights, (rows, np.clip(lower, 0, size - 1).astype(int)), 1 - share)
    np.add.at(weights, (rows, np.clip(np.ceil(places), 0, size - 1).astype(int)), share)
    return weights


def _keys(x: np.ndarray) -> np.ndarray:
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _bicubic(size: int, to: int) -> np.ndarray:
    """Returns the weights of bicubic interpolation, rounded to TensorFlow's table."""
    places = _centres(size, to)
    lower = np.floor(places).astype(int)
    share = np.rint((places - lower) * TABLE) / TABLE
    weights = np.zeros((to, size))
    rows = np.arange(to)
    for tap in range(-1, 3):
        inside = (lower + tap >= 0) & (lower + tap < size)
        np.add.at(weights, (rows, np.clip(lower + tap, 0, size - 1)), np.where(inside, _keys(abs(tap - share)), 0))
    return _normal(weights)


def _normal(weights: np.ndarray) -> np.ndarray:
    total = weights.sum(axis=1, keepdims=True)
    safe = np.abs(total) >= 1000 * np.finfo(np.float32).tiny
    return np.divide(weights, total, out=np.zeros_like(weights), where=safe).astype(np.float32)


def _area(size: int, to: int) -> np.ndarray:
    scale = np.float32(size) / np.float32(to)
    starts = np.arange(to, dtype=np.float32)[:, None] * scale
    pixels = np.arange(size, dtype=np.float32)[None]
    covered = np.minimum(starts + scale, pixels + 1) - np.maximum(starts, pixels)
    return (np.clip(covered, 0, None) / scale).astype(np.float32)


def _lanczos(radius: int) -> Callable[[np.ndarray], np.ndarray]:
    def kernel(x: np.ndarray) -> np.ndarray:
        safe = np.where(x <= 1e-3, 1.0, x) * np.pi
        found = radius * np.sin(safe) * np.sin(safe / radius) / (safe * safe)
        return np.where(x > radius, 0, np.where(x <= 1e-3, 1, found))

    return kernel


def _mitchell(x: np.ndarray) -> np.ndarray:
    near = ((7 / 6 * x - 2) * x) * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


KERNELS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "triangle": (1.0, lambda x: np.clip(1 - x, 0, None)),
    "keyscubic": (2.0, _keys),
    "lanczos3": (3.0, _lanczos(3)),
    "lanczos5": (5.0, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-x * x / (2 * 0.5**2)))),
    "mitchellcubic": (2.0, _mitchell),
}
"""Each method's kernel: its radius, and the weight as a function of the distance."""


def _kernel(name: str, size: int, to: int, antialias: bool) -> np.ndarray:
    """Returns the weights of a kernel around each new pixel, widened when an image is scaled down with antialiasing."""
    radius, weight = KERNELS[name]
    step = np.float32(1) / (np.float32(to) / np.float32(size))
    wide = max(float(step), 1.0) if antialias else 1.0
    samples = (np.arange(to, dtype=np.float32) + np.float32(0.5)) * step
    first = np.clip(np.ceil(samples - radius * wide - 0.5), 0, size - 1)[:, None]
    last = np.clip(np.floor(samples + radius * wide - 0.5), 0, size - 1)[:, None]
    pixels = np.arange(size)[None]
    found = weight(abs(pixels + 0.5 - samples[:, None].astype(np.float64)) / wide)
    return _normal(np.where((pixels >= first) & (pixels <= last), found, 0))


@lru_cache(maxsize=64)
def weights(method: str, antialias: bool, size: int, to: int) -> np.ndarray:
    """Returns the weight of each of ``size`` pixels in each of ``to`` new ones, shape (to, size)."""
    simple = {"bilinear": _bilinear, "bicubic": _bicubic, "area": _area}
    if method == "area" or (method in simple and not antialias):
        return simple[method](size, to)
    kernel = {"bilinear": "triangle", "bicubic": "keyscubic"}.get(method, method)
    return _kernel(kernel, size, to, antialias)


def nearest(size: int, to: int) -> np.ndarray:
    """Returns the index of the nearest pixel of each new one."""
    scale = np.float32(size) / np.float32(to)
    places = np.floor((np.arange(to, dtype=np.float32) + np.float32(0.5)) * scale)
    return np.minimum(places.astype(np.int64), size - 1)


# -- as shares of a few rows


class Taps(NamedTuple):
    """The old rows with a weight in each new row, and these weights, both (to, count); unused entries have weight 0."""

    places: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray) -> Taps:
        """Returns the non-zero entries of a matrix of weights, (to, size)."""
        count = max(int((matrix != 0).sum(axis=1).max()), 1)
        places = np.sort(np.argsort(matrix == 0, axis=1, kind="stable")[:, :count], axis=1)
        return cls(places, np.take_along_axis(matrix, places, axis=1))


@lru_cache(maxsize=64)
def taps(method: str, antialias: bool, size: int, to: int) -> tuple[Tensor, ...] | None:
    """Returns the `Taps` of `weights` and of the gradient; None if so many rows have weights that a product is as fast."""
    matrix = weights(method, antialias, size, to)
    there, back = Taps.of(matrix), Taps.of(matrix.T)
    if there.places.size * DENSE > matrix.size:
        return None
    return tuple(as_constant(array) for array in (*there, *back))


DENSE = 4
"""How many times faster a product is than a gather: it is used if a fourth of all pixels have weights."""


def _blend_type(x: TensorType, places: TensorType, *others: TensorType) -> TensorType:
    require_dtype(x, (float32,), "x")
    return TensorType((x.shape[0], places.shape[0], x.shape[2]), x.dtype)


def _blend_array(x: np.ndarray, places: np.ndarray, shares: np.ndarray, *back: np.ndarray) -> np.ndarray:
    found = np.zeros((x.shape[0], len(places), x.shape[2]), x.dtype)
    for place, share in zip(places.T, shares.T):
        found += x[:, place] * share[:, None]
    return found


def _blend_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
    """Merges the batch dims into one, if all items have the same weights."""
    if any(batched[1:]):
        return _blend_each(*(stretch(size, x, b) for x, b in zip(inputs[:3], batched)))
    x, *others = inputs
    count, rows, length = x._type.shape[1:]
    flat = bind.reshape(x, shape=(simplify_dim(size * count), rows, length))
    found = bind.blend(flat, *others)
    return bind.reshape(found, shape=(size, count, *found._type.shape[1:]))  # type: ignore[no-any-return]


def _blend_each(x: Tensor, places: Tensor, shares: Tensor) -> Tensor:
    """Works as `blend`, with other places and shares for each batch item."""
    batch, to, count = shares._type.shape
    gathered = bind.gather(x, places, axis=2, batch_dims=1)
    weighed = bind.multiply(gathered, bind.reshape(shares, shape=(batch, 1, to, count, 1)))
    return bind.reduce_sum(weighed, axis=(3,), keepdims=False)  # type: ignore[no-any-return]


def _blend_nodes(emitter: Any, inputs: Any, outputs: Any, types: Any) -> None:
    x, places, shares, *_ = inputs
    axis = emitter.const(np.array([2]))
    gathered = emitter.computed("Gather", [x, places], axis=1)
    weighed = emitter.computed("Mul", [gathered, emitter.computed("Unsqueeze", [shares, axis])])
    emitter.node("ReduceSum", [weighed, axis], outputs, keepdims=0)


def _blend_samples() -> list[Sample]:
    """Returns cases that scale up and down."""
    made = []
    for i, (size, to) in enumerate(((3, 5), (5, 3), (2, 20))):
        matrix = weights("bilinear", False, size, to)
        made.append(
            Sample((draw(i, (2, size, 3)), *Taps.of(matrix), *Taps.of(matrix.T)), {}, (float32,), gradient=(0,))
        )
    return made


@primitive(
    type=_blend_type,
    numpy=_blend_array,
    lower=kernel("image.blend"),
    vjp=lambda ct, y, x, places, shares, *back: (bind.blend(ct, *back, places, shares), None, None, None, None),
    batch=_blend_batch,
    samples=_blend_samples,
    heavy="repeated",
    onnx=_blend_nodes,
    why_not={"guard": "its places are computed from the sizes of its operand"},
)
def blend(x: Tensor, places: Tensor, shares: Tensor, back_places: Tensor, back_shares: Tensor) -> Any:
    """Computes each new row of (n, rows, length) as the sum of the old rows at ``places``, weighted by ``shares``, both (to, taps).

    ``back_places`` and ``back_shares`` are those of the transposed matrix, for the gradient.
    """
    return (x, places, shares, back_places, back_shares), {}


# -- for dims known only at a call


@host_primitive(
    tf_name="ScaleAndTranslate",
    type=lambda pixels, to, method, antialias: TensorType((to, pixels.shape[0]), float32),
    numpy=lambda pixels, to, method, antialias: weights(method, antialias, len(pixels), to).copy(),
)
def resize_weights(pixels: Tensor, to: Dim, method: str, antialias: bool) -> Any:
    """Returns `weights` for sizes that are computed at run time: the lengths of two vectors."""
    return (pixels,), {"to": to, "method": method, "antialias": antialias}


@host_primitive(
    tf_name="ResizeNearestNeighbor",
    type=lambda pixels, to: TensorType((to,), int64),
    numpy=lambda pixels, to: nearest(len(pixels), to),
)
def nearest_pixels(pixels: Tensor, to: Dim) -> Any:
    """Returns `nearest` for sizes that are computed at run time: the lengths of two vectors."""
    return (pixels,), {"to": to}


def as_constant(array: np.ndarray) -> Tensor:
    return EagerTensor(array)
