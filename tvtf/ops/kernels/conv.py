"""Convolutions of one to three spatial dims, channels last, and their two gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod

from tvm import ir, te, tirx

from tvtf.core.integers import ceil_div
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
"""Minimum ratio of all products to needed ones for which a depthwise gradient gains by a stage for each phase."""


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

    def term(batch: ir.Expr, index: Sequence[ir.Expr], group: ir.Expr, result: ir.Expr) -> ir.Expr:
        """Computes one element of a convolution: the sum of products over the filter's taps and the group's channels.

        A tap is a position in the filter's window. ``index`` is the element's spatial index.
        """
        source = [
            position * stride + tap * dilation
            for position, stride, tap, dilation in zip(index, strides, taps, dilations, strict=True)
        ]
        value = padded_x(batch, *source, group * per_group + channel)
        product = as_dtype(value, dtype) * as_dtype(w(*taps, channel, result), dtype)
        return te.sum(product, axis=[*taps, channel])

    y = _compute_per_group(x.shape[0], spatial, groups, results // groups, term, "conv")
    return cast(y, str(x.dtype))


def conv_nd_input_grad(
    cotangent: te.Tensor,
    w: te.Tensor,
    x_shape: Sequence[Extent],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int],
    groups: int = 1,
) -> te.Tensor:
    """Computes the gradient of `conv_nd` by its input, which is also the transposed convolution.

    A strided convolution's gradient is computed per phase (input position modulo stride), so that no product has an
    inserted zero as a factor. With both strides and dilations, zeros are inserted into `cotangent` first.

    Args:
        cotangent: gradient for the result, `[n, *results_spatial, results]`.
        w: the filter, `[*window, channels / groups, results]`.
        x_shape: shape of the input, `[n, *spatial, channels]`; channels and spatial dims with strides constant.
        strides: as for `conv_nd`.
        padding: as for `conv_nd`.
        dilations: as for `conv_nd`.
        groups: as for `conv_nd`.

    Returns:
        `[n, *spatial, channels]` in the dtype of `cotangent`.

    Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016, chapter 4.
    """
    spatial = x_shape[1:-1]
    channels = int(x_shape[-1])
    paddings_before = [padding_before for padding_before, _high in padding]
    if any(stride > 1 and dilation > 1 for stride, dilation in zip(strides, dilations, strict=True)):
        cotangent, strides = _insert_zeros(cotangent, strides), [1] * len(strides)
    phases = [stride if dilation == 1 else 1 for stride, dilation in zip(strides, dilations, strict=True)]
    axes = [
        _PhaseAxis(size, padding_before, stride, dilation, extent)
        for size, padding_before, stride, dilation, extent in zip(
            spatial, paddings_before, phases, dilations, _window_extents(w), strict=True
        )
    ]
    shape = [x_shape[0], *spatial, channels]
    if all(axis.phases == 1 for axis in axes):
        (y,) = _sums_by_phase(cotangent, w, axes, channels, groups).values()
        return cast(y, str(cotangent.dtype))
    if _stage_per_phase_pays(axes, is_depthwise=groups == channels > 1):
        sums = _sums_by_phase(cotangent, w, axes, channels, groups)
        return cast(_select_by_phase(sums, axes, shape), str(cotangent.dtype))
    sums_with_phase_axes = _phase_sums(cotangent, w, axes, channels, groups)
    return cast(_read_phase_axes(sums_with_phase_axes, axes, shape), str(cotangent.dtype))


def _int_if_static(extent: Extent) -> Extent:
    """Returns a static extent as an int, and a symbolic one as it is."""
    return int(extent) if isinstance(extent, (int, tirx.IntImm)) else extent


def _spatial_extent(extent: Extent, phases: int) -> Extent:
    """Returns a spatial extent, which must be static if it is split into phases."""
    return _int_if_static(extent) if phases == 1 else int(extent)


class _PhaseAxis:
    """Describes the split of one spatial dim of a strided convolution's input into phases.

    A phase holds the positions with the same remainder modulo the stride: padding + position =
    ``phases * quotient + phase``. A filter tap only meets positions of one phase.

    ``taps`` is the number of the window's taps for each phase, rounded up. ``first`` is the first quotient, and
    ``quotients`` is the number of quotients.
    """

    def __init__(self, size: Extent, low: int, phases: int, dilation: int, window: int) -> None:
        self.low, self.phases, self.dilation, self.window = low, phases, dilation, window
        self.size = _spatial_extent(size, phases)
        self.taps = ceil_div(window, phases)
        self.first = low // phases
        self.quotients = self.size if phases == 1 else (low + self.size - 1) // phases - self.first + 1

    @property
    def reach(self) -> int:
        """Returns how far back in `cotangent` the last tap reads."""
        return (self.taps - 1) * self.dilation

    def padding(self, extent: Extent) -> tuple[int, Extent]:
        """Returns how many zeros to pad before and after this dim of `cotangent`, which has ``extent`` elements.

        With the padding, each tap of each quotient reads inside the padded tensor.
        """
        before = self.reach - self.first
        after = self.quotients + self.reach - before - _spatial_extent(extent, self.phases)
        if not isinstance(after, int):
            after = _int_if_static(simplify_dim(after))
        return before, after

    def own_quotients(self, phase: int) -> tuple[int, Extent]:
        """Returns the first quotient of a phase, counted from `first`, and the phase's number of quotients.

        Phases differ in both, because the input may begin and end within a stride.
        """
        if self.phases == 1:
            return 0, self.quotients
        start = ceil_div(self.low - phase, self.phases)
        stop = (self.low + self.size - 1 - phase) // self.phases + 1
        return start - self.first, stop - start

    def tap(self, step: ir.Expr, phase: ir.Expr) -> ir.Expr:
        """Returns the filter's tap at a step of the reduction; steps run backwards, as in a transposed convolution."""
        return (self.taps - 1 - step) * self.phases + phase


def _phase_sums(cotangent: te.Tensor, w: te.Tensor, axes: list[_PhaseAxis], channels: int, groups: int) -> te.Tensor:
    """Computes a strided convolution's input gradient for all phases (positions modulo stride) in one stage.

    The result has one axis for each spatial dim's quotients, then one for each dim's phases. The filter is padded with
    zeros to the same number of taps for each phase.
    """
    rank = len(axes)
    results = int(w.shape[-1])
    per_group = results // groups
    dtype = accumulator_dtype(str(cotangent.dtype))
    padding = [axis.padding(extent) for axis, extent in zip(axes, cotangent.shape[1:-1], strict=True)]
    padded_cotangent = padded(cotangent, padding)
    whole_filter = _filter_of_whole_phases(w, axes)
    tap_steps = [reduce_axis(axis.taps, "k") for axis in axes]
    result = reduce_axis(per_group, "o")

    def term(batch: ir.Expr, indices: Sequence[ir.Expr], group: ir.Expr, channel: ir.Expr) -> ir.Expr:
        """Computes one element of a strided convolution's input gradient: the sum over the filter's taps and results.

        The element's position along each spatial dim is given by a quotient and a phase (position modulo stride).
        """
        quotients, phases = indices[:rank], indices[rank:]
        source, taps = [], []
        for axis, tap_step, quotient, phase in zip(axes, tap_steps, quotients, phases, strict=True):
            source.append(quotient + tap_step * axis.dilation)
            taps.append(axis.tap(tap_step, phase))
        result_index = group * per_group + result
        channel_in_group = channel - group * (channels // groups)
        gradient = padded_cotangent(batch, *source, result_index)
        weight = whole_filter(*taps, channel_in_group, result_index)
        return te.sum(as_dtype(gradient, dtype) * as_dtype(weight, dtype), axis=[*tap_steps, result])

    place_extents = [axis.quotients for axis in axes] + [axis.phases for axis in axes]
    return _compute_per_group(cotangent.shape[0], place_extents, groups, channels // groups, term, "conv_input_grad")


def _stage_per_phase_pays(axes: list[_PhaseAxis], is_depthwise: bool) -> bool:
    """Returns whether one TE stage for each phase of a strided convolution's input gradient is faster than one for all.

    A phase is a position modulo the stride. There must be few phases. A depthwise sum uses no operand twice: it gains
    only if many products with the filter's padding are skipped.
    """
    phase_count = prod(axis.phases for axis in axes)
    if phase_count > MOST_PHASES:
        return False
    if not is_depthwise:
        return True
    padded_taps = prod(axis.taps * axis.phases for axis in axes)
    real_taps = prod(axis.window for axis in axes)
    return padded_taps >= WASTE_THAT_PAYS_FOR_PHASES * real_taps


def _sums_by_phase(
    cotangent: te.Tensor, w: te.Tensor, axes: list[_PhaseAxis], channels: int, groups: int
) -> dict[tuple[int, ...], te.Tensor]:
    """Computes a strided convolution's input gradient with one stage for each phase (position modulo stride).

    Returns a dict from the phase of each spatial dim to its gradients. Phases without taps are left out: they are zero.

    Args:
      cotangent: the gradient of the convolution's result.
      w: the filter.
      axes: the spatial axes of the input, each split into phases.
      channels: the number of channels of the input.
      groups: the number of groups of channels.
    """
    padding = [axis.padding(extent) for axis, extent in zip(axes, cotangent.shape[1:-1], strict=True)]
    padded_cotangent = padded(cotangent, padding)
    phases_with_taps = [range(min(axis.phases, axis.window)) for axis in axes]
    return {
        phase: _sums_of_phase(padded_cotangent, cotangent, w, axes, phase, channels, groups)
        for phase in product(*phases_with_taps)
    }


def _sums_of_phase(
    padded_cotangent: te.Tensor,
    cotangent: te.Tensor,
    w: te.Tensor,
    axes: list[_PhaseAxis],
    phase: tuple[int, ...],
    channels: int,
    groups: int,
) -> te.Tensor:
    """Computes a strided convolution's input gradient at the positions of one phase (position modulo stride).

    Only those taps of the filter are summed that reach the phase.
    """
    per_group = int(w.shape[-1]) // groups
    dtype = accumulator_dtype(str(cotangent.dtype))
    counts = [ceil_div(axis.window - own, axis.phases) for axis, own in zip(axes, phase, strict=True)]
    ranges = [axis.own_quotients(own) for axis, own in zip(axes, phase, strict=True)]
    tap_steps = [reduce_axis(count, "k") for count in counts]
    result = reduce_axis(per_group, "o")

    def term(batch: ir.Expr, index: Sequence[ir.Expr], group: ir.Expr, channel: ir.Expr) -> ir.Expr:
        """Computes one element of the input gradient at this phase: the sum over the phase's taps and the results.

        ``index`` counts the phase's positions. Their quotients begin at a start that differs between phases.
        """
        source, taps = [], []
        for i, axis in enumerate(axes):
            first_quotient, _count = ranges[i]
            missing_taps = axis.taps - counts[i]
            source.append(index[i] + first_quotient + (tap_steps[i] + missing_taps) * axis.dilation)
            # A gradient runs through the filter backwards.
            taps.append((counts[i] - 1 - tap_steps[i]) * axis.phases + phase[i])
        result_index = group * per_group + result
        channel_in_group = channel - group * (channels // groups)
        gradient = padded_cotangent(batch, *source, result_index)
        weight = w(*taps, channel_in_group, result_index)
        return te.sum(as_dtype(gradient, dtype) * as_dtype(weight, dtype), axis=[*tap_steps, result])

    extents = [count for _start, count in ranges]
    return _compute_per_group(cotangent.shape[0], extents, groups, channels // groups, term, "conv_input_grad")


def _quotients_and_phases(
    position: Sequence[ir.Expr], axes: Sequence[_PhaseAxis]
) -> tuple[list[ir.Expr], list[ir.Expr]]:
    """Splits the indices of the spatial axes into quotients and phases: position + padding = phases * quotient + phase.

    The returned quotients are counted from the axis's first one.
    """
    quotients: list[ir.Expr] = []
    phases: list[ir.Expr] = []
    for index, axis in zip(position, axes, strict=True):
        padded_index = index + axis.low
        phase_count = long(axis.phases)
        quotients.append(tirx.floordiv(padded_index, phase_count) - axis.first)
        phases.append(tirx.floormod(padded_index, phase_count))
    return quotients, phases


def _select_by_phase(
    sums: dict[tuple[int, ...], te.Tensor], axes: list[_PhaseAxis], shape: Sequence[Extent]
) -> te.Tensor:
    """Merges the gradients of all phases (positions modulo stride) into one tensor of ``shape``.

    ``sums`` maps a phase to its gradients. A phase that is missing has no taps, so its gradients are zero.
    """

    def element_at(batch: ir.Expr, *position: ir.Expr) -> ir.Expr:
        """Selects the gradient of an element from the tensor of the element's phase."""
        *spatial_index, channel = position
        quotients, phases = _quotients_and_phases(spatial_index, axes)
        value: ir.Expr = tirx.const(0, str(next(iter(sums.values())).dtype))  # all phases have one dtype
        for phase, phase_sums in sums.items():
            conditions, indices = [], []
            for i, axis in enumerate(axes):
                conditions.append(phases[i] == phase[i])
                first_quotient, _count = axis.own_quotients(phase[i])
                indices.append(quotients[i] - first_quotient)
            value = tirx.if_then_else(tirx.all(*conditions), phase_sums(batch, *indices, channel), value)
        return value

    return compute(shape, element_at, "phases")


def _filter_of_whole_phases(w: te.Tensor, axes: list[_PhaseAxis]) -> te.Tensor:
    """Pads the filter's window with zeros to a multiple of the number of phases."""
    return padded(w, [(0, axis.taps * axis.phases - axis.window) for axis in axes], first_axis=0)


def _read_phase_axes(y: te.Tensor, axes: list[_PhaseAxis], shape: Sequence[Extent]) -> te.Tensor:
    """Merges the axes of quotients and phases into spatial axes: position = phases * quotient + phase - padding.

    ``y`` has the shape (batch, quotients of each dim, phases of each dim, channels).
    """

    def element_at(batch: ir.Expr, *position: ir.Expr) -> ir.Expr:
        *spatial_index, channel = position
        quotients, phases = _quotients_and_phases(spatial_index, axes)
        return y(batch, *quotients, *phases, channel)

    return compute(shape, element_at, "phases")


def _insert_zeros(cotangent: te.Tensor, strides: Sequence[int]) -> te.Tensor:
    """Inserts stride - 1 zeros between neighbours along each spatial dim of `cotangent`.

    The gradient of a strided convolution then is that of a convolution with strides of 1.
    """
    spatial = [(int(extent) - 1) * stride + 1 for extent, stride in zip(cotangent.shape[1:-1], strides, strict=True)]

    def element_at(batch: ir.Expr, *position: ir.Expr) -> ir.Expr:
        """Reads an element of ``cotangent`` at a multiple of the strides, and returns zero in between."""
        *spatial_index, channel = position
        axes = list(zip(spatial_index, strides, strict=True))
        source = [tirx.floordiv(index, long(stride)) for index, stride in axes]
        conditions = [tirx.floormod(index, long(stride)) == 0 for index, stride in axes if stride > 1]
        return tirx.if_then_else(
            tirx.all(*conditions), cotangent(batch, *source, channel), tirx.const(0, str(cotangent.dtype))
        )

    return compute([cotangent.shape[0], *spatial, cotangent.shape[-1]], element_at, "spread")


def conv_nd_filter_grad(
    x: te.Tensor,
    cotangent: te.Tensor,
    w_shape: Sequence[int],
    strides: Sequence[int],
    padding: Padding,
    dilations: Sequence[int],
    groups: int = 1,
) -> te.Tensor:
    """Computes the gradient of `conv_nd` by its filter.

    Args:
        x: the input, `[n, *spatial, channels]`.
        cotangent: gradient for the result, `[n, *results_spatial, results]`.
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
    padded_x = padded(x, padding)
    dtype = accumulator_dtype(str(x.dtype))
    batch = reduce_axis(cotangent.shape[0], "n")
    positions = [reduce_axis(extent, "s") for extent in cotangent.shape[1:-1]]
    rank = len(window)
    results_per_group = results // groups

    def term(*indices: ir.Expr) -> ir.Expr:
        """Computes one element of the filter's gradient: the sum of products over the batch and all positions.

        The indices are the taps (positions in the filter), the channel, the group and the result in the group.
        """
        taps, (channel, group, result) = indices[:rank], indices[rank:]
        source = [
            position * stride + tap * dilation
            for position, stride, tap, dilation in zip(positions, strides, taps, dilations, strict=True)
        ]
        value = padded_x(batch, *source, group * per_group + channel)
        gradient = cotangent(batch, *positions, group * results_per_group + result)
        return te.sum(as_dtype(value, dtype) * as_dtype(gradient, dtype), axis=[batch, *positions])

    return cast(_compute_filter(window, per_group, groups, results_per_group, term), str(x.dtype))


def _compute_filter(
    window: list[int], channels: int, groups: int, results_per_group: int, term: Callable[..., ir.Expr]
) -> te.Tensor:
    """Computes a tensor of a grouped convolution filter's shape, `[*window, channels, groups * results_per_group]`.

    With one group, or with one output channel in each group, the last axis is computed directly. Otherwise groups are
    computed along an axis of their own, which a last stage merges with that of the output channels.

    Args:
        window: the filter's spatial extents.
        channels: the number of input channels of each group.
        groups: the number of groups.
        results_per_group: the number of output channels of each group.
        term: computes one element, given its position in the window, its input channel in the group, the group, and
            its output channel in the group.
    """
    zero = long(0)
    if groups == 1:
        return compute(
            [*window, channels, results_per_group],
            lambda *indices: term(*indices[:-1], zero, indices[-1]),
            "conv_filter_grad",
        )
    if results_per_group == 1:
        return compute([*window, channels, groups], lambda *indices: term(*indices, zero), "conv_filter_grad")
    sums = compute([*window, channels, groups, results_per_group], lambda *indices: term(*indices), "conv_filter_grad")
    return _merge_groups(sums, results_per_group)


def _compute_per_group(
    batch: Extent,
    spatial: Sequence[Extent],
    groups: int,
    results_per_group: int,
    term: Callable[..., ir.Expr],
    name: str,
) -> te.Tensor:
    """Computes a tensor of a grouped convolution's result's shape, `[batch, *spatial, groups * results_per_group]`.

    As in `_compute_filter`, groups get an axis only if there are several groups with several output channels each.

    Args:
        batch: the number of images.
        spatial: the result's spatial extents.
        groups: the number of groups.
        results_per_group: the number of output channels of each group.
        term: computes one element, given the image, the tuple of spatial indices, the group, and the output channel
            (counted over all groups).
        name: the name of the computed tensor.
    """
    zero = long(0)
    if groups == 1:
        shape = [batch, *spatial, results_per_group]
        return compute(shape, lambda n, *p: term(n, p[:-1], zero, p[-1]), name)
    if results_per_group == 1:
        shape = [batch, *spatial, groups]
        return compute(shape, lambda n, *p: term(n, p[:-1], p[-1], p[-1]), name)
    shape = [batch, *spatial, groups, results_per_group]
    values = compute(shape, lambda n, *p: term(n, p[:-2], p[-2], p[-2] * results_per_group + p[-1]), name)
    return _merge_groups(values, results_per_group)


def _merge_groups(y: te.Tensor, results_per_group: int) -> te.Tensor:
    """Merges the last two axes of a grouped convolution's result into one.

    They are the groups and the results of each group.
    """
    size = long(results_per_group)

    def element_at(*indices: ir.Expr) -> ir.Expr:
        *outer_indices, result = indices
        return y(*outer_indices, tirx.floordiv(result, size), tirx.floormod(result, size))

    *outer_extents, groups, results = y.shape
    return compute([*outer_extents, groups * results], element_at, "groups")


def _window_extents(w: te.Tensor) -> list[int]:
    return constant_extents(w.shape[:-2])


def _filter_extents(w: te.Tensor) -> tuple[list[int], int, int]:
    return _window_extents(w), int(w.shape[-2]), int(w.shape[-1])


def _result_extents(
    padded_x: te.Tensor, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[Extent]:
    """Returns the spatial dims of a convolution's result: the number of window positions in the padded input.

    Args:
      padded_x: the padded input of shape (batch, spatial axes, channels).
      window: the filter's spatial sizes.
      strides, dilations: an item for each spatial axis.
    """
    extents: list[Extent] = []
    for size, taps, stride, dilation in zip(padded_x.shape[1:-1], window, strides, dilations, strict=True):
        covered = (taps - 1) * dilation + 1  # by a window
        extents.append(tirx.floordiv(long(size) - covered, long(stride)) + 1)
    return extents
