"""TE kernels of neural-network ops other than convolution, pooling and softmax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.common import accumulator_dtype, cast, compute, padded, reduce_axis
from tvtf.ops.kernels.pool import Padding, _first_largest, _tap_index_or_none, max_pool_nd, max_pool_nd_grad


def comparable(x: te.Tensor) -> te.Tensor:
    """Casts 16-bit floats to float32, for TVM can't test bfloat16 for NaN."""
    return cast(x, accumulator_dtype(str(x.dtype)))


def max_pool(x: te.Tensor, **attrs: Any) -> te.Tensor:
    """Computes max pooling; 16-bit floats are compared in float32."""
    return cast(max_pool_nd(comparable(x), **attrs), str(x.dtype))


def max_pool_grad(cotangent: te.Tensor, x: te.Tensor, y: te.Tensor, **attrs: Any) -> te.Tensor:
    """Computes the gradient of max pooling: ``cotangent`` goes to each window's first largest value."""
    return max_pool_nd_grad(cotangent, comparable(x), comparable(y), **attrs)


def max_pool_pick(
    c: te.Tensor, x: te.Tensor, y: te.Tensor, *, window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Reads, for each max pooling window, the element of ``c`` at the position of the first largest value of ``x``.

    Args:
      c: tensor of the shape of ``x``.
      x: the input of max pooling, of shape (batch, spatial axes, channels).
      y: the result of max pooling.
      window, strides, padding: the attributes of max pooling, an item for each spatial axis.
    """
    winners = _first_largest(comparable(x), comparable(y), window, strides, padding)
    padded_c = padded(c, padding)
    taps = [reduce_axis(extent, "k") for extent in window]
    zero = tirx.const(0, str(c.dtype))

    def element_at(batch: Any, *index: Any) -> Any:
        """Reads the element of the padded input that won its window's maximum."""
        *window_index, channel = index
        source = [position * stride + tap for position, stride, tap in zip(window_index, strides, taps)]
        is_winner = winners(batch, *index) == _tap_index_or_none([tap.var for tap in taps], window)
        # One tap of the window is the winner: the sum has one nonzero term.
        return te.sum(tirx.Select(is_winner, padded_c(batch, *source, channel), zero), axis=taps)

    return compute(y.shape, element_at, "max_pool_pick")
