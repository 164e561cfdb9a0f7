"""Max and average pooling over any number of spatial dims, channels last, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from tvm import ir, te, tirx

from tvtf.ops.kernels.common import Extent, accumulator_dtype, as_dtype, cast, compute, long, padded, reduce_axis

Padding = Sequence[tuple[int, int]]
NO_PLACE = -2
# Half of what int8 counts: TVM bounds a part of a window by its first place plus its extent, which may be twice as many.
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
    largest = _largest(str(x.dtype))

    def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        source = [at * step + tap for at, step, tap in zip(place[:-1], strides, taps, strict=True)]
        return largest(padded_x(batch, *source, place[-1]), axis=taps)

    return compute([x.shape[0], *_results(padded_x, window, strides), x.shape[-1]], body, "max_pool")


def max_pool_nd_grad(
    dy: te.Tensor, x: te.Tensor, y: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the gradient of `max_pool_nd`: each window's gradient goes to its first largest value.

    Args:
        dy: gradient for the result, `[n, *results_spatial, channels]`.
        x: the input, `[n, *spatial, channels]`.
        y: the result, `[n, *results_spatial, channels]`.
        window: as for `max_pool_nd`.
        strides: as for `max_pool_nd`.
        padding: as for `max_pool_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `dy`.

    Source: tf.raw_ops.MaxPoolGrad.
    """
    first = _first_largest(x, y, window, strides, padding)
    if all(step == 1 for step in strides):
        return _max_grad_of_steps_of_one(dy, first, x, window, padding)

    def share(windows: _Windows, gradient: te.Tensor, winner: te.Tensor) -> Callable[..., ir.Expr]:
        """Returns the gradient of an element: the sum over the windows of which it is the maximum."""

        def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
            source = windows.places(place[:-1])
            wins = winner(batch, *source, place[-1]) == _number(windows.taps(place[:-1]), window)
            value = as_dtype(gradient(batch, *source, place[-1]), windows.dtype)
            return te.sum(tirx.Select(wins, value, tirx.const(0, windows.dtype)), axis=windows.axes)

        return body

    windows = _Windows.of(x, dy, window, strides, padding)
    padded_x = padded(dy, windows.padding)
    y_grad = compute(x.shape, share(windows, padded_x, padded(first, windows.padding, -1)), "max_pool_grad")
    return cast(y_grad, str(dy.dtype))


def _max_grad_of_steps_of_one(
    dy: te.Tensor, first: te.Tensor, x: te.Tensor, window: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the gradient for strides of one: each position sums over the windows that cover it."""
    taps, dtype = [reduce_axis(extent, "t") for extent in window], accumulator_dtype(str(dy.dtype))
    numbers = [extent - 1 - tap for extent, tap in zip(window, taps, strict=True)]
    padded_x = [(extent - 1 - low, extent - 1 - high) for extent, (low, high) in zip(window, padding, strict=True)]
    zero = tirx.const(0, dtype)

    def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        source = [at + tap - low for at, tap, (low, _high) in zip(place[:-1], taps, padded_x, strict=True)]
        wins = first(batch, *source, place[-1]) == _flat(numbers, window)
        value = as_dtype(dy(batch, *source, place[-1]), dtype)
        return te.sum(_inside(source, dy, padded_x, tirx.Select(wins, value, zero), zero), axis=taps)

    return cast(compute(x.shape, body, "max_pool_grad"), str(dy.dtype))


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
    padded_x, dtype = padded(x, padding), accumulator_dtype(str(x.dtype))
    taps = [reduce_axis(extent, "k") for extent in window]

    def total(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        source = [at * step + tap for at, step, tap in zip(place[:-1], strides, taps, strict=True)]
        return te.sum(as_dtype(padded_x(batch, *source, place[-1]), dtype), axis=taps)

    sums = compute([x.shape[0], *_results(padded_x, window, strides), x.shape[-1]], total, "window_sum")
    return _divided(sums, x, window, strides, padding, str(x.dtype))


def avg_pool_nd_grad(
    dy: te.Tensor, x_shape: Sequence[Extent], window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the gradient of `avg_pool_nd`: each window's gradient is divided among its values.

    Args:
        dy: gradient for the result, `[n, *results_spatial, channels]`.
        x_shape: shape of the input, `[n, *spatial, channels]`.
        window: as for `avg_pool_nd`.
        strides: as for `avg_pool_nd`.
        padding: as for `avg_pool_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `dy`.

    Source: tf.raw_ops.AvgPoolGrad.
    """
    like = te.placeholder(tuple(long(extent) for extent in x_shape), str(dy.dtype), "x")
    windows = _Windows.of(like, dy, window, strides, padding)
    padded_x = padded(_divided(dy, like, window, strides, padding, windows.dtype), windows.padding)

    def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        inside = [tap < extent for tap, extent in zip(windows.taps(place[:-1]), window, strict=True)]
        value = padded_x(batch, *windows.places(place[:-1]), place[-1])
        if not windows.overhang:
            return te.sum(value, axis=windows.axes)
        return te.sum(tirx.Select(tirx.all(*inside), value, tirx.const(0, windows.dtype)), axis=windows.axes)

    return cast(compute(x_shape, body, "avg_pool_grad"), str(dy.dtype))


@dataclass(frozen=True)
class _Windows:
    """The windows that cover a position, counted backwards by one reduction axis per spatial dim."""

    axes: list[tirx.IterVar]
    counts: list[int]
    lows: list[int]
    strides: list[int]
    padding: list[tuple[int, Extent]]
    overhang: bool
    dtype: str

    @staticmethod
    def of(x: te.Tensor, dy: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding) -> _Windows:
        """Returns the windows that contain an element of ``x``: the backward pass reduces over them."""
        counts = [-(-extent // step) for extent, step in zip(window, strides, strict=True)]
        lows = [low for low, _high in padding]
        sizes = zip(x.shape[1:-1], dy.shape[1:-1], lows, strides, counts, strict=True)
        padded_x = [(count - 1, _beyond(size, results, low, step)) for size, results, low, step, count in sizes]
        overhang = any(extent % step for extent, step in zip(window, strides, strict=True))
        axes = [reduce_axis(count, "t") for count in counts]
        return _Windows(axes, counts, lows, list(strides), padded_x, overhang, accumulator_dtype(str(dy.dtype)))

    def places(self, position: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns the position of a covering window in the padded gradient."""
        steps = zip(position, self.lows, self.strides, self.axes, self.counts, strict=True)
        return [tirx.floordiv(at + low, long(step)) - axis.var + (count - 1) for at, low, step, axis, count in steps]

    def taps(self, position: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Returns which tap of the covering window a position is.

        It lies beyond the window for some positions where the stride doesn't divide the window.
        """
        steps = zip(position, self.lows, self.strides, self.axes, strict=True)
        return [tirx.floormod(at + low, long(step)) + axis.var * step for at, low, step, axis in steps]


def _beyond(size: Extent, results: Extent, low: int, step: int) -> Extent:
    """Returns how many windows after the existing ones would begin at or before the last position."""
    if isinstance(size, (int, tirx.IntImm)) and isinstance(results, (int, tirx.IntImm)):
        return max(0, (int(size) - 1 + low) // step - int(results) + 1)
    return tirx.max(long(0), tirx.floordiv(long(size) - 1 + low, long(step)) - results + 1)


def _first_largest(
    x: te.Tensor, y: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding
) -> te.Tensor:
    """Computes the row-major number of each window's first largest value, never of padding, in a small dtype."""
    taps = [reduce_axis(extent, "k") for extent in window]
    is_float = "float" in str(x.dtype)

    def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        """Returns the number of the window's first maximum; NaN counts as one."""
        steps = zip(place[:-1], strides, taps, padding, strict=True)
        source = [at * step + tap - low for at, step, tap, (low, _high) in steps]
        value, best = x(batch, *source, place[-1]), y(batch, *place)
        is_largest = tirx.Or(value == best, tirx.isnan(value)) if is_float else value == best
        number = _flat([tap.var for tap in taps], window)
        none = tirx.max_value(str(number.ty.dtype))
        return te.min(_inside(source, x, padding, tirx.Select(is_largest, number, none), none), axis=taps)

    return compute(y.shape, body, "first_largest")


def _inside(
    source: Sequence[ir.Expr], like: te.Tensor, padding: Padding, value: ir.Expr, otherwise: ir.Expr
) -> ir.Expr:
    """Returns ``value`` for a source inside the image and ``otherwise`` in its padding."""
    padded_x = list(zip(source, like.shape[1:-1], padding, strict=True))
    tests = [at >= 0 for at, _size, (low, _high) in padded_x if low > 0]
    tests += [at < size for at, size, (_low, high) in padded_x if high > 0]
    return tirx.if_then_else(tirx.all(*tests), value, otherwise) if tests else value


def _flat(place: Sequence[ir.Expr], window: Sequence[int]) -> ir.Expr:
    """Returns the row-major number of a window's tap, in a byte if all fit."""
    flat: ir.Expr = long(0)
    for at, extent in zip(place, window, strict=True):
        flat = flat * extent + at
    return flat.astype("int8" if prod(window) <= MOST_IN_A_BYTE else "int32")


def _number(place: Sequence[ir.Expr], window: Sequence[int]) -> ir.Expr:
    """Returns `_flat`, and outside the window a number that no tap has."""
    flat = _flat(place, window)
    inside = [at < extent for at, extent in zip(place, window, strict=True)]
    return tirx.if_then_else(tirx.all(*inside), flat, tirx.const(NO_PLACE, str(flat.ty.dtype)))


def _divided(
    sums: te.Tensor, x: te.Tensor, window: Sequence[int], strides: Sequence[int], padding: Padding, dtype: str
) -> te.Tensor:
    """Divides sums by the number of values in each window."""
    if not any(low or high for low, high in padding):
        scale = tirx.const(prod(window), str(sums.dtype))
        return compute(sums.shape, lambda *p: as_dtype(sums(*p) / scale, dtype), "window_mean")
    lows = [low for low, _high in padding]

    def body(batch: ir.Expr, *place: ir.Expr) -> ir.Expr:
        """Divides a window's sum by the number of its elements inside the image."""
        sizes = zip(place[:-1], strides, lows, window, x.shape[1:-1], strict=True)
        counts = [
            tirx.min(at * step - low + extent, size) - tirx.max(at * step - low, 0)
            for at, step, low, extent, size in sizes
        ]
        count = prod(counts[1:], start=counts[0]).astype("float32").astype(str(sums.dtype))
        return as_dtype(sums(batch, *place) / count, dtype)

    return compute(sums.shape, body, "window_mean")


def _largest(dtype: str) -> Callable[..., ir.Expr]:
    """Returns a maximum reducer that keeps NaN, as NumPy's."""
    if "float" not in dtype:
        return te.max

    def combine(best: ir.Expr, value: ir.Expr) -> ir.Expr:
        return tirx.Select(tirx.Or(value > best, tirx.isnan(value)), value, best)

    return te.comm_reducer(combine, lambda kind: tirx.const(_lowest(str(kind)), str(kind)), name="largest")


def _lowest(dtype: str) -> float | int:
    if "float" in dtype:
        return float("-inf")
    return int(tirx.min_value(dtype)) if dtype != "bool" else 0


def _results(padded_x: te.Tensor, window: Sequence[int], strides: Sequence[int]) -> list[Extent]:
    sizes = zip(padded_x.shape[1:-1], window, strides, strict=True)
    return [tirx.floordiv(long(size) - extent, long(step)) + 1 for size, extent, step in sizes]
