"""Max and average pooling over any number of spatial dims, channels last, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, te, tirx

from tvtf.core.integers import ceil_div
from tvtf.ops.kernels.common import Extent, accumulator_dtype, as_dtype, cast, compute, long, padded, reduce_axis

Padding = Sequence[tuple[int, int]]
NO_TAP = -2
# Half of the range of int8: TVM bounds a part of a window by its first position plus its extent, which may be twice as large.
MOST_IN_A_BYTE = 64


def max_pool_nd(x: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding) -> te.Tensor:
    """Computes the largest value in each window; padding never wins, NaN always does.

    Args:
        x: `[n, *spatial, channels]`; `n` may be symbolic.
        window: extents of the window per spatial dim.
        strides: steps of the window per spatial dim.
        padding: positions before and after each spatial dim.

    Returns:
        `[n, *results_spatial, channels]` in the dtype of `x`.

    Example:
        >>> x = te.placeholder((8, 28, 28, 3), "float32")
        >>> [int(extent) for extent in max_pool_nd(x, (2, 2), (2, 2), [(0, 0), (0, 0)]).shape]
        [8, 14, 14, 3]

    Source: tf.nn.max_pool.
    """
    padded_x = padded(x, padding, _lowest(str(x.dtype)))
    taps = [reduce_axis(extent, "k") for extent in window]
    largest = _nan_keeping_maximum(str(x.dtype))

    def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        source = [position * stride + tap for position, stride, tap in zip(index[:-1], strides, taps, strict=True)]
        return largest(padded_x(batch, *source, index[-1]), axis=taps)

    return compute([x.shape[0], *_window_counts(padded_x, window, strides), x.shape[-1]], element_at, "max_pool")


def max_pool_nd_grad(
    cotangent: te.Tensor, x: te.Tensor, y: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the gradient of `max_pool_nd`: each window's gradient goes to its first largest value.

    Args:
        cotangent: gradient for the result, `[n, *results_spatial, channels]`.
        x: the input, `[n, *spatial, channels]`.
        y: the result, `[n, *results_spatial, channels]`.
        window: as for `max_pool_nd`.
        strides: as for `max_pool_nd`.
        padding: as for `max_pool_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `cotangent`.

    Source: tf.raw_ops.MaxPoolGrad.
    """
    winners = _first_largest(x, y, window, strides, padding)
    if all(step == 1 for step in strides):
        return _max_grad_for_unit_strides(cotangent, winners, x, window, padding)

    def sum_over_windows(windows: _Windows, gradient: te.Tensor, padded_winners: te.Tensor) -> Callable[..., ir.Expr]:
        """Returns a function that computes the gradient of the input element at an index.

        It sums the gradients of the windows that have their first maximum at the element.
        """

        def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
            """Sums the gradients of the pooling windows that cover an element and have their first maximum there."""
            *position, channel = index
            window_index = windows.window_indices(position)
            is_winner = padded_winners(batch, *window_index, channel) == _tap_index_or_none(
                windows.taps(position), window
            )
            value = as_dtype(gradient(batch, *window_index, channel), windows.dtype)
            return te.sum(tirx.Select(is_winner, value, tirx.const(0, windows.dtype)), axis=windows.axes)

        return element_at

    windows = _Windows.of(x, cotangent, window, strides, padding)
    padded_cotangent = padded(cotangent, windows.padding)
    padded_winners = padded(winners, windows.padding, -1)
    y_grad = compute(x.shape, sum_over_windows(windows, padded_cotangent, padded_winners), "max_pool_grad")
    return cast(y_grad, str(cotangent.dtype))


def _max_grad_for_unit_strides(
    cotangent: te.Tensor, winners: te.Tensor, x: te.Tensor, window: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes max pooling's gradient for strides of one.

    Each position of ``x`` sums the cotangents of the windows in which the position is the first maximum. With strides
    of one, these windows begin at consecutive positions: the sum is a reduction over a window of ``cotangent``. Its
    taps (positions in a window) run backwards.

    Args:
        cotangent: the gradient for the result.
        winners: for each window, the row-major index of its first maximum's tap.
        x: the input, of which only the shape is used.
        window: the extents of the window.
        padding: the positions before and after each spatial dim of ``x``.
    """
    steps = [reduce_axis(extent, "t") for extent in window]
    dtype = accumulator_dtype(str(cotangent.dtype))
    # The further right a window begins, the further left in it is the position.
    taps = [extent - 1 - step for extent, step in zip(window, steps, strict=True)]
    gradient_padding = [
        (extent - 1 - before, extent - 1 - after) for extent, (before, after) in zip(window, padding, strict=True)
    ]
    zero = tirx.const(0, dtype)

    def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        """Sums the gradients of the windows that have their first maximum at one element of ``x``."""
        *spatial_index, channel = index
        # The index of the window that has the element at the tap.
        source = [
            position + step - before
            for position, step, (before, _after) in zip(spatial_index, steps, gradient_padding, strict=True)
        ]
        is_winner = winners(batch, *source, channel) == _tap_index(taps, window)
        value = as_dtype(cotangent(batch, *source, channel), dtype)
        # Near the edge, some of the windows would lie outside of the padded input: they don't exist.
        return te.sum(
            _select_inside(source, cotangent, gradient_padding, tirx.Select(is_winner, value, zero), zero), axis=steps
        )

    return cast(compute(x.shape, element_at, "max_pool_grad"), str(cotangent.dtype))


def avg_pool_nd(x: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding) -> te.Tensor:
    """Computes the mean of each window; padding counts neither in the sum nor in the number of values.

    Args:
        x: `[n, *spatial, channels]` of a float dtype; `n` may be symbolic.
        window: extents of the window per spatial dim.
        strides: steps of the window per spatial dim.
        padding: positions before and after each spatial dim.

    Returns:
        `[n, *results_spatial, channels]` in the dtype of `x`; half types are summed in float32.

    Example:
        >>> x = te.placeholder((8, 28, 28, 3), "float32")
        >>> [int(extent) for extent in avg_pool_nd(x, (2, 2), (2, 2), [(0, 0), (0, 0)]).shape]
        [8, 14, 14, 3]

    Source: tf.nn.avg_pool.
    """
    padded_x = padded(x, padding)
    dtype = accumulator_dtype(str(x.dtype))
    taps = [reduce_axis(extent, "k") for extent in window]

    def total(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        source = [position * stride + tap for position, stride, tap in zip(index[:-1], strides, taps, strict=True)]
        return te.sum(as_dtype(padded_x(batch, *source, index[-1]), dtype), axis=taps)

    sums = compute([x.shape[0], *_window_counts(padded_x, window, strides), x.shape[-1]], total, "window_sum")
    return _divide_by_counts(sums, x, window, strides, padding, str(x.dtype))


def avg_pool_nd_grad(
    cotangent: te.Tensor, x_shape: Sequence[Extent], window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the gradient of `avg_pool_nd`: each window's gradient is divided among its values.

    Args:
        cotangent: gradient for the result, `[n, *results_spatial, channels]`.
        x_shape: shape of the input, `[n, *spatial, channels]`.
        window: as for `avg_pool_nd`.
        strides: as for `avg_pool_nd`.
        padding: as for `avg_pool_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `cotangent`.

    Source: tf.raw_ops.AvgPoolGrad.
    """
    input_like = te.placeholder(tuple(long(extent) for extent in x_shape), str(cotangent.dtype), "x")
    windows = _Windows.of(input_like, cotangent, window, strides, padding)
    padded_shares = padded(
        _divide_by_counts(cotangent, input_like, window, strides, padding, windows.dtype), windows.padding
    )

    def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        """Computes an element's gradient: the sum of the shares of all windows that cover the element."""
        is_in_window = [tap < extent for tap, extent in zip(windows.taps(index[:-1]), window, strict=True)]
        value = padded_shares(batch, *windows.window_indices(index[:-1]), index[-1])
        if not windows.overhang:
            return te.sum(value, axis=windows.axes)
        return te.sum(tirx.Select(tirx.all(*is_in_window), value, tirx.const(0, windows.dtype)), axis=windows.axes)

    return cast(compute(x_shape, element_at, "avg_pool_grad"), str(cotangent.dtype))


@dataclass(frozen=True)
class _Windows:
    """The pooling windows that cover a position of the input, counted backwards by a reduction axis per spatial dim.

    ``counts`` are the largest numbers of windows that cover a position. ``lows`` are the paddings before the input.
    ``padding`` is the padding of the result's gradient. ``overhang`` is True if a stride doesn't divide its window.
    """

    axes: list[tirx.IterVar]
    counts: list[int]
    lows: list[int]
    strides: list[int]
    padding: list[tuple[int, Extent]]
    overhang: bool
    dtype: str

    @staticmethod
    def of(
        x: te.Tensor, cotangent: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding
    ) -> _Windows:
        """Returns the pooling windows that cover an element of the input ``x``. ``cotangent`` is the result's gradient.

        The gradient is padded so that windows beyond the existing ones read zeros.
        """
        # The largest number of windows that cover an element.
        counts = [ceil_div(extent, stride) for extent, stride in zip(window, strides, strict=True)]
        befores = [before for before, _after in padding]
        gradient_padding: list[tuple[int, Extent]] = []
        spatial = zip(x.shape[1:-1], cotangent.shape[1:-1], befores, strides, counts, strict=True)
        for size, results, before, stride, count in spatial:
            padding_after = _windows_beyond(size, results, before, stride)
            gradient_padding.append((count - 1, padding_after))
        return _Windows(
            axes=[reduce_axis(count, "t") for count in counts],
            counts=counts,
            lows=befores,
            strides=list(strides),
            padding=gradient_padding,
            overhang=any(extent % stride for extent, stride in zip(window, strides, strict=True)),
            dtype=accumulator_dtype(str(cotangent.dtype)),
        )

    def window_indices(self, position: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns the spatial index, in the padded gradient, of the covering window that the reduction axes select."""
        spatial = zip(position, self.lows, self.strides, self.axes, self.counts, strict=True)
        return [
            tirx.floordiv(index + before, long(stride)) - axis.var + (count - 1)
            for index, before, stride, axis, count in spatial
        ]

    def taps(self, position: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns the offset of a position within the covering window that the reduction axes select.

        If a stride doesn't divide its window, some offsets lie beyond the window.
        """
        offsets: list[ir.Expr] = []
        for index, before, stride, axis in zip(position, self.lows, self.strides, self.axes, strict=True):
            offset_in_last_window = tirx.floormod(index + before, long(stride))
            offsets.append(offset_in_last_window + axis.var * stride)
        return offsets


def _windows_beyond(size: Extent, results: Extent, before: int, stride: int) -> Extent:
    """Returns how many more pooling windows would begin within the input, after the ``results`` existing ones.

    Args:
        size: extent of the input along the axis.
        results: number of the existing windows.
        before: padding before the input.
        stride: distance between windows.
    """
    if isinstance(size, (int, tirx.IntImm)) and isinstance(results, (int, tirx.IntImm)):
        return max(0, (int(size) - 1 + before) // stride - int(results) + 1)
    return tirx.max(long(0), tirx.floordiv(long(size) - 1 + before, long(stride)) - results + 1)


def _first_largest(
    x: te.Tensor, y: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes, for each pooling window, the row-major index of the tap that has the first largest value.

    A tap is a position in the window. Padding is never chosen.

    Args:
      x: the input of shape (batch, spatial axes, channels).
      y: the maximum of each window.
      window, strides, padding: an item for each spatial axis.
    """
    taps = [reduce_axis(extent, "k") for extent in window]
    is_float = "float" in str(x.dtype)

    def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        """Computes the index of the tap that has the window's first maximum. NaN counts as a maximum."""
        *position, channel = index
        spatial = zip(position, strides, taps, padding, strict=True)
        source = [start * stride + tap - before for start, stride, tap, (before, _after) in spatial]
        value = x(batch, *source, channel)
        largest = y(batch, *index)
        is_largest = tirx.Or(value == largest, tirx.isnan(value)) if is_float else value == largest
        tap_index = _tap_index([tap.var for tap in taps], window)
        # Taps below the maximum count as the dtype's greatest number, which the minimum never chooses.
        never_chosen = tirx.max_value(str(tap_index.ty.dtype))
        candidate = tirx.Select(is_largest, tap_index, never_chosen)
        return te.min(_select_inside(source, x, padding, candidate, never_chosen), axis=taps)

    return compute(y.shape, element_at, "first_largest")


def _select_inside(
    source: Sequence[ir.Expr], like: te.Tensor, padding: Padding, value: ir.Expr, otherwise: ir.Expr
) -> ir.Expr:
    """Returns ``value`` where the spatial index ``source`` lies inside the image, and ``otherwise`` in its padding.

    ``like`` is the unpadded image, of which only the shape is used.
    """
    axes = list(zip(source, like.shape[1:-1], padding, strict=True))
    conditions = [index >= 0 for index, _extent, (before, _after) in axes if before > 0]
    conditions += [index < extent for index, extent, (_before, after) in axes if after > 0]
    return tirx.if_then_else(tirx.all(*conditions), value, otherwise) if conditions else value


def _tap_index(tap: Sequence[ir.Expr], window: Sequence[int]) -> ir.Expr:
    """Returns the row-major index of a position (tap) within a pooling window: int8 for small windows, else int32."""
    flat_index: ir.Expr = long(0)
    for index, extent in zip(tap, window, strict=True):
        flat_index = flat_index * extent + index
    return flat_index.astype("int8" if prod(window) <= MOST_IN_A_BYTE else "int32")


def _tap_index_or_none(tap: Sequence[ir.Expr], window: Sequence[int]) -> ir.Expr:
    """Returns the row-major index of a position (tap) within a pooling window, or NO_TAP outside the window."""
    flat_index = _tap_index(tap, window)
    conditions = [index < extent for index, extent in zip(tap, window, strict=True)]
    return tirx.if_then_else(tirx.all(*conditions), flat_index, tirx.const(NO_TAP, str(flat_index.ty.dtype)))


def _divide_by_counts(
    sums: te.Tensor, x: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding, dtype: str
) -> te.Tensor:
    """Divides the sum of each pooling window by the window's number of elements, and casts the mean to ``dtype``.

    Padding doesn't count as elements.
    """
    # Without padding all windows have the same number of elements.
    if not any(before or after for before, after in padding):
        scale = tirx.const(prod(window), str(sums.dtype))
        return compute(sums.shape, lambda *index: as_dtype(sums(*index) / scale, dtype), "window_mean")
    befores = [before for before, _after in padding]

    def element_at(batch: ir.Expr, *index: ir.Expr) -> ir.Expr:
        """Divides a window's sum by the number of the window's elements inside the image."""
        *window_index, _channel = index
        counts = []  # of the window's elements along each axis
        for position, stride, before, extent, size in zip(
            window_index, strides, befores, window, x.shape[1:-1], strict=True
        ):
            window_start = position * stride - before
            counts.append(tirx.min(window_start + extent, size) - tirx.max(window_start, 0))
        count = prod(counts[1:], start=counts[0]).astype("float32").astype(str(sums.dtype))
        return as_dtype(sums(batch, *index) / count, dtype)

    return compute(sums.shape, element_at, "window_mean")


def _nan_keeping_maximum(dtype: str) -> Callable[..., ir.Expr]:
    """Returns a TE reducer that computes the maximum, or NaN if a value is NaN, as NumPy does.

    ``te.max`` may lose a NaN.
    """
    if "float" not in dtype:  # integers have no NaN
        return te.max

    def combine(best: ir.Expr, value: ir.Expr) -> ir.Expr:
        return tirx.Select(tirx.Or(value > best, tirx.isnan(value)), value, best)

    def identity(of_dtype: object) -> ir.Expr:
        return tirx.const(_lowest(str(of_dtype)), str(of_dtype))

    return te.comm_reducer(combine, identity, name="largest")


def _lowest(dtype: str) -> float | int:
    """Returns the identity of a maximum over a dtype."""
    if "float" in dtype:
        return float("-inf")
    return int(tirx.min_value(dtype)) if dtype != "bool" else 0


def _window_counts(padded_x: te.Tensor, window: Sequence[int], strides: Sequence[int]) -> list[Extent]:
    """Returns the number of window positions along each spatial axis of the padded input."""
    sizes = zip(padded_x.shape[1:-1], window, strides, strict=True)
    return [tirx.floordiv(long(size) - extent, long(stride)) + 1 for size, extent, stride in sizes]
