"""TE kernels of images."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import compute, long
from tvtf.ops.kernels.reduce import sum as reduce_sum


def adjust_contrast(images: te.Tensor, factor: te.Tensor) -> te.Tensor:
    """Each channel's distance from its mean over height and width, times the factor."""
    rank = len(images.shape)
    total = reduce_sum(images, axis=(rank - 3, rank - 2), keepdims=True)
    count = tirx.Cast(str(images.dtype), long(images.shape[rank - 3]) * long(images.shape[rank - 2]))

    def element(*i: Any) -> Any:
        mean = total(*i[: rank - 3], 0, 0, i[rank - 1]) / count
        return (images(*i) - mean) * factor() + mean

    return compute(images.shape, element, "adjust_contrast")
