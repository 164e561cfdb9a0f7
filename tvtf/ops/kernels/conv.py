"""Convolutions of one to three spatial dims, channels last, and their two gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from tvm import ir, te, tirx

from tvtf.core.shape import simplify_dim
from tvtf.ops.kernels.common import (
    Extent,
    accumulator_dtype,
    as_dtype,
    cast,
    compute,
    constant_extents,
    long,
    padded,
    reduce_axis,
)

Padding = Sequence[tuple[int, int]]
MOST_PHASES = 8
"""Largest number of phases that become stages of their own."""
WASTE_THAT_PAYS_FOR_PHASES = 1.5
"""Ratio of all products to needed ones from which a depthwise gradient gains by a stage for each phase."""


def conv_nd(
    x: te.Tensor, w: te.Tensor, strides: Sequence[int], padding: Padding, dilations: Sequence[int], groups: int = 1
) -> te.Tensor:
    """Computes the correlation of a channels-last input with a filter, as `tf.nn.convolution`.

    Args:
        x: `[n, *spatial, channels]`; `n` may be symbolic.
        w: `[*window, channels / groups, results]`.
        strides: steps of the window per spatial dim.
        padding: zeros before and after each spatial dim.
        dilations: distance of the window's taps per spatial dim.
        groups: number of groups of results, each computed from its own channels.

    Returns:
        `[n, *results_spatial, results]` in the dtype of `x`; half types are summed in float32.

    Example:
        >>> x, w = te.placeholder((8, 28, 28, 3), "float32"), te.placeholder((3, 3, 3, 16), "float32")
        >>> [int(extent) for extent in conv_nd(x, w, (1, 1), [(1, 1), (1, 1)], (1, 1)).shape]
        [8, 28, 28, 16]

    Source: tf.nn.convolution.
    """
    window, per_group, results = _filter_extents(w)
    padded_x = padded(x, padding)
    spatial = _result_extents(padded_x, window, strides, dilations)
    taps = [reduce_axis(extent, "k") for extent in window]
    channel = reduce_axis(per_group, "c")
    dtype = accumulator_dtype(str(x.dtype))

    def term(batch: ir.Expr, place: Sequence[ir.Expr], group: ir.Expr, result: ir.Expr) -> ir.Expr:
        source = [at * step + tap * wide for at, step, tap, wide in zip(place, strides, taps, dilations, strict=True)]
        left = padded_x(batch, *source, group * per_group + channel)
        product = as_dtype(left, dtype) * as_dtype(w(*taps, channel, result), dtype)
        return te.sum(product, axis=[*taps, channel])

    y = _grouped(x.shape[0], spatial, groups, results // groups, term, "conv")
    return cast(y, str(x.dtype))


def conv_nd_input_grad(
    dy: te.Tensor,
    w: te.Tensor,
    x_shape: Sequence[Extent],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int],
    groups: int = 1,
) -> te.Tensor:
    """Computes the gradient of `conv_nd` by its input, which is also the transposed convolution.

    A strided convolution's gradient is computed per phase (input position modulo stride), so that no product has an
    inserted zero as a factor. With both strides and dilations, zeros are inserted into `dy` first.

    Args:
        dy: gradient for the result, `[n, *results_spatial, results]`.
        w: the filter, `[*window, channels / groups, results]`.
        x_shape: shape of the input, `[n, *spatial, channels]`; channels and spatial dims with strides constant.
        strides: as for `conv_nd`.
        padding: as for `conv_nd`.
        dilations: as for `conv_nd`.
        groups: as for `conv_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `dy`.

    Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016, chapter 4.
    """
    spatial, channels = x_shape[1:-1], int(x_shape[-1])
    lows = [low for low, _high in padding]
    if any(step > 1 and wide > 1 for step, wide in zip(strides, dilations, strict=True)):
        dy, strides = _spread(dy, strides), [1] * len(strides)
    phases = [step if wide == 1 else 1 for step, wide in zip(strides, dilations, strict=True)]
    plan = [
        _PhaseAxis(size, low, step, wide, extent)
        for size, low, step, wide, extent in zip(spatial, lows, phases, dilations, _window(w), strict=True)
    ]
    shape = [x_shape[0], *spatial, channels]
    if all(axis.phases == 1 for axis in plan):
        (y,) = _sums_by_phase(dy, w, plan, channels, groups).values()
        return cast(y, str(dy.dtype))
    if _pays_by_phase(plan, is_depthwise=groups == channels > 1):
        return cast(_joined(_sums_by_phase(dy, w, plan, channels, groups), plan, shape), str(dy.dtype))
    return cast(_interleaved(_phase_sums(dy, w, plan, channels, groups), plan, shape), str(dy.dtype))


def _plain(extent: Extent) -> Extent:
    return int(extent) if isinstance(extent, (int, tirx.IntImm)) else extent


def _own_extent(extent: Extent, phases: int) -> Extent:
    """Returns a spatial extent, which must be static if there are several phases."""
    return _plain(extent) if phases == 1 else int(extent)


class _PhaseAxis:
    """The split of one spatial dim's positions into phases: position + low = phases * quotient + phase."""

    def __init__(self, size: Extent, low: int, phases: int, dilation: int, window: int) -> None:
        self.low, self.phases, self.dilation, self.window = low, phases, dilation, window
        self.size = _own_extent(size, phases)
        self.taps = -(-window // phases)
        self.first = low // phases
        self.quotients = self.size if phases == 1 else (low + self.size - 1) // phases - self.first + 1

    @property
    def reach(self) -> int:
        """How far back the last tap reads."""
        return (self.taps - 1) * self.dilation

    def padding(self, extent: Extent) -> tuple[int, Extent]:
        """Returns the zeros around `dy` that let every tap of every quotient read a value."""
        before = self.reach - self.first
        after = self.quotients + self.reach - before - _own_extent(extent, self.phases)
        return before, after if isinstance(after, int) else _plain(simplify_dim(after))

    def own_quotients(self, phase: int) -> tuple[int, Extent]:
        """Returns the first quotient of a phase's positions, counted from `first`, and their number."""
        if self.phases == 1:
            return 0, self.quotients
        start = -(-(self.low - phase) // self.phases)
        stop = (self.low + self.size - 1 - phase) // self.phases + 1
        return start - self.first, stop - start

    def tap(self, turned: ir.Expr, phase: ir.Expr) -> ir.Expr:
        """Returns the filter's tap for a step of the reduction, which runs backwards through the window."""
        return (self.taps - 1 - turned) * self.phases + phase


def _phase_sums(dy: te.Tensor, w: te.Tensor, plan: list[_PhaseAxis], channels: int, groups: int) -> te.Tensor:
    """Computes all phases in one stage, with an axis for each phase and a filter padded to whole phases."""
    rank, results = len(plan), int(w.shape[-1])
    per_group, dtype = results // groups, accumulator_dtype(str(dy.dtype))
    padded_dy = padded(dy, [axis.padding(extent) for axis, extent in zip(plan, dy.shape[1:-1], strict=True)])
    whole_filter = _whole_filter(w, plan)
    steps = [reduce_axis(axis.taps, "k") for axis in plan]
    result = reduce_axis(per_group, "o")

    def term(batch: ir.Expr, place: Sequence[ir.Expr], group: ir.Expr, channel: ir.Expr) -> ir.Expr:
        """Computes a product of the input's gradient, for all phases of the strides."""
        quotients, phases = place[:rank], place[rank:]
        source = [at + step * axis.dilation for at, step, axis in zip(quotients, steps, plan, strict=True)]
        taps = [axis.tap(step, phase) for axis, step, phase in zip(plan, steps, phases, strict=True)]
        from_group = group * per_group + result
        inside = channel - group * (channels // groups)
        product = as_dtype(padded_dy(batch, *source, from_group), dtype) * as_dtype(
            whole_filter(*taps, inside, from_group), dtype
        )
        return te.sum(product, axis=[*steps, result])

    place_extents = [axis.quotients for axis in plan] + [axis.phases for axis in plan]
    return _grouped(dy.shape[0], place_extents, groups, channels // groups, term, "conv_input_grad")


def _pays_by_phase(plan: list[_PhaseAxis], is_depthwise: bool) -> bool:
    """Returns whether a stage for each phase pays: phases are few, and depthwise sums save many products with zero.

    A depthwise sum uses no operand twice, so that it gains only by the products it saves.
    """
    if prod(axis.phases for axis in plan) > MOST_PHASES:
        return False
    padded_taps, real_taps = prod(axis.taps * axis.phases for axis in plan), prod(axis.window for axis in plan)
    return not is_depthwise or padded_taps >= WASTE_THAT_PAYS_FOR_PHASES * real_taps


def _sums_by_phase(
    dy: te.Tensor, w: te.Tensor, plan: list[_PhaseAxis], channels: int, groups: int
) -> dict[tuple[int, ...], te.Tensor]:
    """Computes a sum for each phase over that phase's taps; phases without taps are left out."""
    padded_dy = padded(dy, [axis.padding(extent) for axis, extent in zip(plan, dy.shape[1:-1], strict=True)])
    phases = product(*(range(min(axis.phases, axis.window)) for axis in plan))
    return {phase: _sums_of_phase(padded_dy, dy, w, plan, phase, channels, groups) for phase in phases}


def _sums_of_phase(
    padded_dy: te.Tensor,
    dy: te.Tensor,
    w: te.Tensor,
    plan: list[_PhaseAxis],
    phase: tuple[int, ...],
    channels: int,
    groups: int,
) -> te.Tensor:
    """Computes the gradient at one phase's positions, from the taps that reach them."""
    per_group, dtype = int(w.shape[-1]) // groups, accumulator_dtype(str(dy.dtype))
    counts = [-(-(axis.window - own) // axis.phases) for axis, own in zip(plan, phase, strict=True)]
    quotients = [axis.own_quotients(own) for axis, own in zip(plan, phase, strict=True)]
    steps, result = [reduce_axis(count, "k") for count in counts], reduce_axis(per_group, "o")

    def term(batch: ir.Expr, place: Sequence[ir.Expr], group: ir.Expr, channel: ir.Expr) -> ir.Expr:
        """Computes a product of the input's gradient, for one phase of the strides."""
        moved = [at + start for at, (start, _count) in zip(place, quotients, strict=True)]
        along = list(zip(moved, steps, counts, phase, plan, strict=True))
        source = [at + (step + (axis.taps - count)) * axis.dilation for at, step, count, _own, axis in along]
        taps = [(count - 1 - step) * axis.phases + own for _at, step, count, own, axis in along]
        from_group, inside = group * per_group + result, channel - group * (channels // groups)
        left, right = padded_dy(batch, *source, from_group), w(*taps, inside, from_group)
        return te.sum(as_dtype(left, dtype) * as_dtype(right, dtype), axis=[*steps, result])

    extents = [count for _start, count in quotients]
    return _grouped(dy.shape[0], extents, groups, channels // groups, term, "conv_input_grad")


def _joined(sums: dict[tuple[int, ...], te.Tensor], plan: list[_PhaseAxis], shape: Sequence[Extent]) -> te.Tensor:
    """Reads each position's value from the sums of its phase; zero for a phase without taps."""

    def body(batch: ir.Expr, *rest: ir.Expr) -> ir.Expr:
        """Selects the sum of the phase that an element belongs to."""
        moved = [at + axis.low for at, axis in zip(rest[:-1], plan, strict=True)]
        places = [tirx.floordiv(at, long(axis.phases)) - axis.first for at, axis in zip(moved, plan, strict=True)]
        phases = [tirx.floormod(at, long(axis.phases)) for at, axis in zip(moved, plan, strict=True)]
        value: ir.Expr = tirx.const(0, str(next(iter(sums.values())).dtype))
        for phase, y in sums.items():
            is_phase = tirx.all(*(at == own for at, own in zip(phases, phase, strict=True)))
            own = [at - axis.own_quotients(p)[0] for at, axis, p in zip(places, plan, phase, strict=True)]
            value = tirx.if_then_else(is_phase, y(batch, *own, rest[-1]), value)
        return value

    return compute(shape, body, "phases")


def _whole_filter(w: te.Tensor, plan: list[_PhaseAxis]) -> te.Tensor:
    """Pads the filter's window with zeros to whole multiples of the phases."""
    return padded(w, [(0, axis.taps * axis.phases - axis.window) for axis in plan], first_axis=0)


def _interleaved(y: te.Tensor, plan: list[_PhaseAxis], shape: Sequence[Extent]) -> te.Tensor:
    """Reads each position's value from the phases' axes."""

    def body(batch: ir.Expr, *rest: ir.Expr) -> ir.Expr:
        moved = [at + axis.low for at, axis in zip(rest[:-1], plan, strict=True)]
        quotients = [tirx.floordiv(at, long(axis.phases)) - axis.first for at, axis in zip(moved, plan, strict=True)]
        phases = [tirx.floormod(at, long(axis.phases)) for at, axis in zip(moved, plan, strict=True)]
        return y(batch, *quotients, *phases, rest[-1])

    return compute(shape, body, "phases")


def _spread(dy: te.Tensor, strides: Sequence[int]) -> te.Tensor:
    """Inserts zeros between the positions of `dy`, so that the strides become 1."""
    spatial = [(int(extent) - 1) * step + 1 for extent, step in zip(dy.shape[1:-1], strides, strict=True)]

    def body(batch: ir.Expr, *rest: ir.Expr) -> ir.Expr:
        places = list(zip(rest[:-1], strides, strict=True))
        source = [tirx.floordiv(at, long(step)) for at, step in places]
        tests = [tirx.floormod(at, long(step)) == 0 for at, step in places if step > 1]
        return tirx.if_then_else(tirx.all(*tests), dy(batch, *source, rest[-1]), tirx.const(0, str(dy.dtype)))

    return compute([dy.shape[0], *spatial, dy.shape[-1]], body, "spread")


def conv_nd_filter_grad(
    x: te.Tensor,
    dy: te.Tensor,
    w_shape: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int],
    groups: int = 1,
) -> te.Tensor:
    """Computes the gradient of `conv_nd` by its filter.

    Args:
        x: the input, `[n, *spatial, channels]`.
        dy: gradient for the result, `[n, *results_spatial, results]`.
        w_shape: shape of the filter, `[*window, channels / groups, results]`.
        strides: as for `conv_nd`.
        padding: as for `conv_nd`.
        dilations: as for `conv_nd`.
        groups: as for `conv_nd`.

    Returns:
        `[*window, channels / groups, results]` in the dtype of `x`.

    Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016, chapter 4.
    """
    *window, per_group, results = constant_extents(w_shape)
    padded_x, dtype = padded(x, padding), accumulator_dtype(str(x.dtype))
    batch = reduce_axis(dy.shape[0], "n")
    places = [reduce_axis(extent, "s") for extent in dy.shape[1:-1]]
    rank, from_each = len(window), results // groups

    def term(*point: ir.Expr) -> ir.Expr:
        taps, channel, group, result = point[:rank], point[rank], point[rank + 1], point[rank + 2]
        source = [at * step + tap * wide for at, step, tap, wide in zip(places, strides, taps, dilations, strict=True)]
        left = padded_x(batch, *source, group * per_group + channel)
        right = dy(batch, *places, group * from_each + result)
        return te.sum(as_dtype(left, dtype) * as_dtype(right, dtype), axis=[batch, *places])

    return cast(_filter_sums(window, per_group, groups, from_each, term), str(x.dtype))


def _filter_sums(
    window: list[int], channels: int, groups: int, from_each: int, term: Callable[..., ir.Expr]
) -> te.Tensor:
    """Computes the filter's gradient; groups get an axis only if both they and their results are several."""
    zero = long(0)
    if groups == 1:
        return compute([*window, channels, from_each], lambda *p: term(*p[:-1], zero, p[-1]), "conv_filter_grad")
    if from_each == 1:
        return compute([*window, channels, groups], lambda *p: term(*p, zero), "conv_filter_grad")
    y = compute([*window, channels, groups, from_each], lambda *p: term(*p), "conv_filter_grad")
    return _flat_groups(y, from_each)


def _grouped(
    batch: Extent, spatial: Sequence[Extent], groups: int, from_each: int, term: Callable[..., ir.Expr], name: str
) -> te.Tensor:
    """Computes `term(batch, place, group, result)` at every point; `result` counts through all groups.

    An axis for groups exists only where both groups and results per group are several.
    """
    zero = long(0)
    if groups == 1:
        shape = [batch, *spatial, from_each]
        return compute(shape, lambda n, *p: term(n, p[:-1], zero, p[-1]), name)
    if from_each == 1:
        shape = [batch, *spatial, groups]
        return compute(shape, lambda n, *p: term(n, p[:-1], p[-1], p[-1]), name)
    shape = [batch, *spatial, groups, from_each]
    y = compute(shape, lambda n, *p: term(n, p[:-2], p[-2], p[-2] * from_each + p[-1]), name)
    return _flat_groups(y, from_each)


def _flat_groups(y: te.Tensor, from_each: int) -> te.Tensor:
    """Merges the last two axes."""
    size = long(from_each)
    shape = [*y.shape[:-2], y.shape[-2] * y.shape[-1]]
    return compute(shape, lambda *p: y(*p[:-1], tirx.floordiv(p[-1], size), tirx.floormod(p[-1], size)), "groups")


def _window(w: te.Tensor) -> list[int]:
    return constant_extents(w.shape[:-2])


def _filter_extents(w: te.Tensor) -> tuple[list[int], int, int]:
    return _window(w), int(w.shape[-2]), int(w.shape[-1])


def _result_extents(
    padded_x: te.Tensor, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[Extent]:
    sizes = zip(padded_x.shape[1:-1], window, strides, dilations, strict=True)
    return [tirx.floordiv(long(size) - ((taps - 1) * wide + 1), long(step)) + 1 for size, taps, step, wide in sizes]
