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
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import bind, draw, kernel, require_dtype, require_shape, stretch

TABLE_STEPS = 1 << 10
"""The number of steps per pixel of the table from which TensorFlow reads bicubic weights."""


def _pixel_centres(size: int, to: int) -> np.ndarray:
    """Returns the positions of the centres of ``to`` new pixels among ``size`` old ones, in float32 as TensorFlow does."""
    scale = np.float32(size) / np.float32(to)
    return (np.arange(to, dtype=np.float32) + np.float32(0.5)) * scale - np.float32(0.5)


def _bilinear_weights(size: int, to: int) -> np.ndarray:
    """Returns the matrix (to, size) that resizes ``size`` pixels to ``to`` new pixels by linear interpolation.

    Each new pixel is interpolated between the two nearest old pixels. A position beyond the border uses the last pixel.
    """
    centres = _pixel_centres(size, to)
    lower = np.floor(centres)
    upper = np.ceil(centres)
    upper_share = centres - lower
    lower_pixel = np.clip(lower, 0, size - 1).astype(int)
    upper_pixel = np.clip(upper, 0, size - 1).astype(int)
    weights = np.zeros((to, size), np.float32)
    rows = np.arange(to)
    np.add.at(weights, (rows, lower_pixel), 1 - upper_share)
    np.add.at(weights, (rows, upper_pixel), upper_share)
    return weights


def _keys_cubic(x: np.ndarray) -> np.ndarray:
    """Returns the weights of Keys's cubic kernel (a = -0.5) at distances ``x`` in pixels."""
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _bicubic_weights(size: int, to: int) -> np.ndarray:
    """Returns the matrix (to, size) that resizes ``size`` pixels to ``to`` new pixels by bicubic interpolation.

    Each new pixel is computed from four old pixels; those outside the image have weight 0. Positions are rounded as in
    TensorFlow, which reads the weights from a table.
    """
    centres = _pixel_centres(size, to)
    lower = np.floor(centres).astype(int)
    fraction = np.rint((centres - lower) * TABLE_STEPS) / TABLE_STEPS
    weights = np.zeros((to, size))
    rows = np.arange(to)
    for offset in range(-1, 3):
        pixel = lower + offset
        is_inside = (pixel >= 0) & (pixel < size)
        pixel_weights = np.where(is_inside, _keys_cubic(abs(offset - fraction)), 0)
        np.add.at(weights, (rows, np.clip(pixel, 0, size - 1)), pixel_weights)
    return _normalize_rows(weights)


def _normalize_rows(weights: np.ndarray) -> np.ndarray:
    """Divides the weights of each new pixel by their sum; if it is almost zero, all are 0."""
    total = weights.sum(axis=1, keepdims=True)
    is_divisible = np.abs(total) >= 1000 * np.finfo(np.float32).tiny
    return np.divide(weights, total, out=np.zeros_like(weights), where=is_divisible).astype(np.float32)


def _area_weights(size: int, to: int) -> np.ndarray:
    """Returns the share of each of ``size`` old pixels in the area of each of ``to`` new ones, shape (to, size)."""
    scale = np.float32(size) / np.float32(to)
    starts = np.arange(to, dtype=np.float32)[:, None] * scale
    pixels = np.arange(size, dtype=np.float32)[None]
    covered = np.minimum(starts + scale, pixels + 1) - np.maximum(starts, pixels)
    return (np.clip(covered, 0, None) / scale).astype(np.float32)


def _lanczos_kernel(radius: int) -> Callable[[np.ndarray], np.ndarray]:
    """Returns the Lanczos kernel, ``sinc(x) sinc(x / radius)``, as a function of distances in pixels."""

    def kernel(x: np.ndarray) -> np.ndarray:
        """Evaluates the Lanczos kernel. It is zero beyond the radius."""
        is_near_zero = x <= 1e-3  # where the kernel is 1, and the quotient would be 0 / 0
        angle = np.where(is_near_zero, 1.0, x) * np.pi
        product = radius * np.sin(angle) * np.sin(angle / radius) / (angle * angle)
        inside_radius = np.where(is_near_zero, 1, product)
        return np.where(x > radius, 0, inside_radius)

    return kernel


def _mitchell_cubic(x: np.ndarray) -> np.ndarray:
    """Returns the weights of the cubic kernel of Mitchell and Netravali at distances ``x`` in pixels."""
    near = ((7 / 6 * x - 2) * x) * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


KERNELS: dict[str, tuple[float, Callable[[np.ndarray], np.ndarray]]] = {
    "triangle": (1.0, lambda x: np.clip(1 - x, 0, None)),
    "keyscubic": (2.0, _keys_cubic),
    "lanczos3": (3.0, _lanczos_kernel(3)),
    "lanczos5": (5.0, _lanczos_kernel(5)),
    "gaussian": (1.5, lambda x: np.where(x >= 1.5, 0, np.exp(-x * x / (2 * 0.5**2)))),
    "mitchellcubic": (2.0, _mitchell_cubic),
}
"""Each method's kernel: its radius, and the weight as a function of the distance."""


def _kernel_weights(name: str, size: int, new_size: int, antialias: bool) -> np.ndarray:
    """Returns the matrix (new_size, size) that resizes ``size`` pixels to ``new_size`` by the kernel ``name``.

    With antialiasing, the kernel is as wide as the new pixels when an image is scaled down. Positions are rounded to
    float32 as TensorFlow rounds them, since a pixel at the kernel's edge is either in it or not.
    """
    radius, kernel = KERNELS[name]
    scale = np.float32(1) / (np.float32(new_size) / np.float32(size))
    width = max(float(scale), 1.0) if antialias else 1.0
    centres = (np.arange(new_size, dtype=np.float32) + np.float32(0.5)) * scale
    first_pixels = np.clip(np.ceil(centres - radius * width - 0.5), 0, size - 1)[:, None]
    last_pixels = np.clip(np.floor(centres + radius * width - 0.5), 0, size - 1)[:, None]
    pixels = np.arange(size)[None]
    distances = abs(pixels + 0.5 - centres[:, None].astype(np.float64)) / width
    is_in_kernel = (pixels >= first_pixels) & (pixels <= last_pixels)
    return _normalize_rows(np.where(is_in_kernel, kernel(distances), 0))


@lru_cache(maxsize=64)
def weights(method: str, antialias: bool, size: int, to: int) -> np.ndarray:
    """Returns the matrix (to, size) of weights that resizes ``size`` pixels to ``to`` new pixels by a method."""
    if method == "area":
        return _area_weights(size, to)
    if method == "bilinear":
        return _kernel_weights("triangle", size, to, antialias) if antialias else _bilinear_weights(size, to)
    if method == "bicubic":
        return _kernel_weights("keyscubic", size, to, antialias) if antialias else _bicubic_weights(size, to)
    return _kernel_weights(method, size, to, antialias)


def nearest(size: int, to: int) -> np.ndarray:
    """Returns the index of the nearest pixel of each new one."""
    scale = np.float32(size) / np.float32(to)
    positions = np.floor((np.arange(to, dtype=np.float32) + np.float32(0.5)) * scale)
    return np.minimum(positions.astype(np.int64), size - 1)


# -- as a sparse matrix


class Taps(NamedTuple):
    """The sparse form of a resizing matrix: for each new row, indices of old rows (``places``) and weights (``shares``).

    Both have the shape (to, count); unused entries have weight 0.
    """

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
    """Returns the sparse form (``Taps``) of the resizing matrix, and that of its transpose, which the gradient needs.

    Returns None if the matrix has too many non-zero entries: a dense matrix product is then as fast.

    Args:
      method: the resize method.
      antialias: whether the image is smoothed before it is made smaller.
      size, to: the number of rows before and after.
    """
    matrix = weights(method, antialias, size, to)
    forward = Taps.of(matrix)
    transposed = Taps.of(matrix.T)
    if forward.places.size * DENSE > matrix.size:
        return None
    return tuple(as_constant(array) for array in (*forward, *transposed))


DENSE = 4
"""How many times faster a product is than a gather: it is used if a fourth of all pixels have weights."""


def _blend_type(x: TensorType, places: TensorType, shares: TensorType, *back: TensorType) -> TensorType:
    require_dtype(x, (float32,), "x")
    require_shape(shares, places.shape, "shares")
    return TensorType((x.shape[0], places.shape[0], x.shape[2]), x.dtype)


def _blend_array(x: np.ndarray, places: np.ndarray, shares: np.ndarray, *back: np.ndarray) -> np.ndarray:
    result = np.zeros((x.shape[0], len(places), x.shape[2]), x.dtype)
    for old_rows, row_weights in zip(places.T, shares.T):
        result += x[:, old_rows] * row_weights[:, None]
    return result


def _blend_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
    """Batches `blend` (the signature of all batch rules): merges the new batch dim with the first dim of ``x``.

    If the weights differ between batch items, computes each item separately.
    """
    _, *are_weights_batched = batched
    if any(are_weights_batched):
        operands = [stretch(size, x, is_batched) for x, is_batched in zip(inputs[:3], batched)]
        return _blend_each(*operands)
    x, *weights = inputs
    _, count, rows, length = x._type.shape
    merged = bind.reshape(x, shape=(simplify_dim(size * count), rows, length))
    blended = bind.blend(merged, *weights)
    return bind.reshape(blended, shape=(size, count, *blended._type.shape[1:]))  # type: ignore[no-any-return]


def _blend_each(x: Tensor, places: Tensor, shares: Tensor) -> Tensor:
    """Same as `blend`, with different row indices (``places``) and weights (``shares``) for each batch item."""
    batch, to, count = shares._type.shape
    gathered = bind.gather(x, places, axis=2, batch_dims=1)
    weighed = bind.multiply(gathered, bind.reshape(shares, shape=(batch, 1, to, count, 1)))
    return bind.reduce_sum(weighed, axis=(3,), keepdims=False)  # type: ignore[no-any-return]


def _blend_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
    """Emits ONNX nodes that sum the input rows at the given indices, each multiplied by its weight."""
    x, places, shares, *_ = inputs
    axis = emitter.const(np.array([2]))
    gathered = emitter.computed("Gather", [x, places], axis=1)
    weighed = emitter.computed("Mul", [gathered, emitter.computed("Unsqueeze", [shares, axis])])
    emitter.node("ReduceSum", [weighed, axis], outputs, keepdims=0)


def _blend_samples() -> list[Sample]:
    """Returns sample inputs of `blend` for tests, which scale up and down."""
    samples = []
    for seed, (size, to) in enumerate(((3, 5), (5, 3), (2, 20))):
        matrix = weights("bilinear", False, size, to)
        inputs = (draw(seed, (2, size, 3)), *Taps.of(matrix), *Taps.of(matrix.T))
        samples.append(Sample(inputs, {}, (float32,), gradient=(0,)))
    return samples


@primitive(
    type=_blend_type,
    numpy=_blend_array,
    lower=kernel("image.blend"),
    vjp=lambda cotangent, y, x, places, shares, *back: (
        bind.blend(cotangent, *back, places, shares),
        None,
        None,
        None,
        None,
    ),
    batch=_blend_batch,
    samples=_blend_samples,
    heavy="repeated",
    onnx=_blend_nodes,
    why_not={"guard": "its places are computed from the sizes of its operand"},
)
def blend(x: Tensor, places: Tensor, shares: Tensor, back_places: Tensor, back_shares: Tensor) -> Any:
    """Multiplies (n, rows, length) by a sparse matrix along the rows: a new row is a weighted sum of a few old ones.

    The matrix is given by the old rows' indices (``places``) and weights (``shares``), both (to, taps). ``back_places``
    and ``back_shares`` are those of the transposed matrix, for the gradient.
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
