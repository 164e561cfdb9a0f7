"""TE kernels of images."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import compute, long, reduce_axis
from tvtf.ops.kernels.reduce import sum as reduce_sum


def adjust_contrast(images: te.Tensor, factor: te.Tensor) -> te.Tensor:
    """Adjusts the contrast of images: scales each pixel's difference from the mean of its channel by ``factor``.

    The means are taken over height and width. The last three axes are height, width and channels.
    """
    rank = len(images.shape)
    sums = reduce_sum(images, axis=(rank - 3, rank - 2), keepdims=True)
    count = tirx.Cast(str(images.dtype), long(images.shape[rank - 3]) * long(images.shape[rank - 2]))

    def element(*i: Any) -> Any:
        mean = sums(*i[: rank - 3], 0, 0, i[rank - 1]) / count
        return (images(*i) - mean) * factor() + mean

    return compute(images.shape, element, "adjust_contrast")


MOST_UNROLLED = 8
"""Largest number of terms that are unrolled; more become a loop."""


def blend(
    x: te.Tensor, places: te.Tensor, shares: te.Tensor, back_places: te.Tensor, back_shares: te.Tensor
) -> te.Tensor:
    """Resamples the rows of images: each new row is a weighted sum of old rows.

    Args:
        x: images of shape (n, rows, length).
        places: row i has the indices of the old rows for new row i.
        shares: row i has their weights.
        back_places: only the gradient uses them.
        back_shares: only the gradient uses them.
    """
    count = int(places.shape[1])

    def term(n: Any, i: Any, j: Any, k: Any) -> Any:
        return x(n, places(i, k), j) * shares(i, k)

    def unrolled_sum(n: Any, i: Any, j: Any) -> Any:
        return reduce(add, [term(n, i, j, long(k)) for k in range(count)])

    shape = [x.shape[0], places.shape[0], x.shape[2]]
    if count <= MOST_UNROLLED:
        return compute(shape, unrolled_sum, "blend")
    tap = reduce_axis(count, "tap")
    return compute(shape, lambda n, i, j: te.sum(term(n, i, j, tap.var), axis=[tap]), "blend")
