"""Convolutions of one to three spatial axes, and their gradients as primitives of their own.

The three primitives are the three partial maps of one trilinear form <cotangent, conv(x, w)>: each one's gradients are
the other two, so they are closed under differentiation to any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive, table
from tvtf.core.shape import Dim, TensorType, agree_dim, is_static_shape, show_shape, simplify_dim
from tvtf.core.specialization import UnknownSize, unknown_size
from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, int32
from tvtf.ops.blas import product
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import bind, draw, kernel, require_dtype, require_same_dtype
from tvtf.ops.softmax import upcast
from tvtf.ops.windows import Padding, cropped, padded, result_sizes, taps, window_counts

Sizes = tuple[int, ...]
CONV_TYPES = (*FLOATING, int32)


def _conv_type(
    x: TensorType, w: TensorType, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> TensorType:
    """Checks dtypes, shapes and depths of a convolution's input and filter, and returns the type of the result.

    The shapes are (batch, spatial axes, depth) for the input ``x``, and (spatial axes, depth per group, result depth)
    for the filter ``w``. The attributes have an item for each spatial axis.
    """
    require_same_dtype((x, w), ("input", "filter"))
    require_dtype(x, CONV_TYPES, "input")
    require_filter(w, len(strides))
    rank = len(strides) + 2
    if len(x.shape) != rank:
        raise ArgumentError(f"convolution input must be {rank}-dimensional: {show_shape(x.shape)}")
    batch, *input_sizes, depth = x.shape
    *filter_sizes, group_depth, result_depth = w.shape
    if not agree_dim(depth, group_depth * groups):
        raise _depth_mismatch(depth, group_depth)
    if result_depth % groups:
        raise ArgumentError(
            f"output depth must be evenly divisible by number of groups: {result_depth} vs {groups}",
            graph=ValueError,
            traced=f"Depth of output ({result_depth}) is not a multiple of the number of groups ({groups}) for {{op}}",
        )
    sizes = result_sizes(input_sizes, filter_sizes, strides, padding, dilations)
    return TensorType((batch, *sizes, result_depth), x.dtype)


def require_filter(w: TensorType, rank: int) -> None:
    """Checks that a convolution's filter has ``rank`` spatial axes and a shape that is known while tracing.

    Compiled code unrolls loops over the filter.
    """
    if len(w.shape) != rank + 2:
        raise ArgumentError(f"filter must be {rank + 2}-dimensional: {show_shape(w.shape)}")
    if not is_static_shape(w.shape):
        message = f"filter must have a shape that is known while tracing, but got {show_shape(w.shape)}"
        raise unknown_size(ArgumentError(message))
    if 0 in w.shape:
        raise ArgumentError("filter must not have zero elements (i.e. all dimensions must be non-zero)", ValueError)


def _depth_mismatch(depth: Dim, per_group: Dim) -> ArgumentError:
    return ArgumentError(
        f"input depth must be evenly divisible by filter depth: {depth} vs {per_group}", graph=ValueError,
        traced=f"Depth of input ({depth}) is not a multiple of input depth of filter ({per_group}) for {{op}}",
    )  # fmt: skip


def group_count(depth: Dim, per_group: int) -> int:
    """Returns a convolution's number of groups: the input's ``depth`` divided by the filter's channels ``per_group``.

    An unknown depth means one group, unless the filter's channels are unknown or 1, as in depthwise convolutions.

    Raises:
      UnknownSize: the trace may be specialized to the depth of its calls.
      ArgumentError: the input's depth is not a multiple of the filter's.
    """
    if not isinstance(depth, int):
        may_be_grouped = not isinstance(per_group, int) or per_group == 1
        if may_be_grouped:
            error = unknown_size(_depth_mismatch(depth, per_group))
            if isinstance(error, UnknownSize):
                raise error
        return 1
    if per_group < 1 or depth % per_group:
        raise _depth_mismatch(depth, per_group)
    return max(1, depth // per_group)  # 1 for an input without channels


def _grouped_product(x: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """Multiplies ``x`` (..., channels) by ``w`` (channels / groups, results), each group of channels by its columns."""
    if groups == 1:
        return product(x, w)
    x_groups = x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)
    w_groups = w.reshape(w.shape[0], groups, -1)
    return np.einsum("...gc,cgo->...go", x_groups, w_groups).reshape(*x.shape[:-1], w.shape[1])


def _grouped_product_input_grad(cotangent: np.ndarray, w: np.ndarray, groups: int) -> np.ndarray:
    """Returns the cotangent of ``_grouped_product``'s ``x``."""
    if groups == 1:
        return product(cotangent, w.T)
    cotangent_groups = cotangent.reshape(*cotangent.shape[:-1], groups, cotangent.shape[-1] // groups)
    dx = np.einsum("...go,cgo->...gc", cotangent_groups, w.reshape(w.shape[0], groups, -1))
    return dx.reshape(*cotangent.shape[:-1], groups * w.shape[0])


def _grouped_product_filter_grad(x: np.ndarray, cotangent: np.ndarray, groups: int) -> np.ndarray:
    """Returns the cotangent of ``_grouped_product``'s ``w``, summed over all leading axes."""
    x_groups = x.reshape(-1, groups, x.shape[-1] // groups)
    cotangent_groups = cotangent.reshape(-1, groups, cotangent.shape[-1] // groups)
    if groups == 1:
        return product(x_groups[:, 0].T, cotangent_groups[:, 0])
    return np.einsum("ngc,ngo->cgo", x_groups, cotangent_groups).reshape(x_groups.shape[2], cotangent.shape[-1])


def _conv_array(
    x: np.ndarray, w: np.ndarray, *, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> np.ndarray:
    """Computes a convolution in NumPy: the sum of a matrix product for each tap (a tap: a position in the filter).

    Args:
      x: input of shape (batch, spatial axes, channels).
      w: filter of shape (spatial axes, channels per group, result channels).
      strides, padding, dilations: an item for each spatial axis. A padding is a pair of sizes.
      groups: the number of groups of channels, which are convolved separately.
    """
    padded_x = padded(upcast(x), padding)
    w = upcast(w)
    batch, *padded_sizes, _ = padded_x.shape
    *filter_sizes, _, result_depth = w.shape
    sizes = window_counts(padded_sizes, filter_sizes, strides, dilations)
    total = np.zeros((batch, *sizes, result_depth), padded_x.dtype)
    for tap, inputs_of_tap in taps(filter_sizes, sizes, strides, dilations):
        total += _grouped_product(padded_x[inputs_of_tap], w[tap], groups)
    return total


def _input_grad_array(
    cotangent: np.ndarray,
    w: np.ndarray,
    *,
    shape: Sizes,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
) -> np.ndarray:
    """Computes a convolution's gradient with respect to its input.

    For each tap (a tap: a position in the filter), a matrix product is added to the elements that the tap reads.

    Args:
      cotangent: the cotangent of the result.
      w: the filter.
      shape: the shape of the input.
      strides, padding, dilations, groups: as for the convolution.
    """
    cotangent = upcast(cotangent)
    w = upcast(w)
    batch, *sizes, depth = shape
    padded_sizes = [size + low + high for size, (low, high) in zip(sizes, padding)]
    total = np.zeros((batch, *padded_sizes, depth), cotangent.dtype)
    for tap, inputs_of_tap in taps(w.shape[:-2], cotangent.shape[1:-1], strides, dilations):
        total[inputs_of_tap] += _grouped_product_input_grad(cotangent, w[tap], groups)
    return cropped(total, padding)


def _filter_grad_array(
    x: np.ndarray,
    cotangent: np.ndarray,
    *,
    shape: Sizes,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
) -> np.ndarray:
    """Computes a convolution's gradient with respect to its filter.

    Each tap (a tap: a position in the filter) gets the product of the elements that it reads with the cotangent.

    Args:
      x: the input.
      cotangent: the cotangent of the result.
      shape: the shape of the filter.
      strides, padding, dilations, groups: as for the convolution.
    """
    padded_x = padded(upcast(x), padding)
    cotangent = upcast(cotangent)
    total = np.zeros(shape, padded_x.dtype)
    for tap, inputs_of_tap in taps(shape[:-2], cotangent.shape[1:-1], strides, dilations):
        total[tap] = _grouped_product_filter_grad(padded_x[inputs_of_tap], cotangent, groups)
    return total


def _input_grad_type(cotangent: TensorType, w: TensorType, *, shape: tuple[Dim, ...], **attrs: Any) -> TensorType:
    """Checks the ``cotangent`` of a convolution's result, and returns the type of the gradient by the input.

    ``shape`` is the input's shape. Axes with a stride above 1 must be static, because several input sizes give the same
    result size.
    """
    y_type = _conv_type(TensorType(shape, cotangent.dtype), w, **attrs)
    _require_gradient(cotangent, y_type)
    required_sizes = [shape[-1]]  # the depth and the sizes of strided axes
    for input_size, result_size, stride in zip(shape[1:-1], cotangent.shape[1:-1], attrs["strides"]):
        if stride > 1:
            required_sizes += [input_size, result_size]
    if not is_static_shape(required_sizes):
        message = f"the sizes of strided axes must be known while tracing, but the input's shape is {show_shape(shape)}"
        raise unknown_size(ArgumentError(message))
    return TensorType(shape, cotangent.dtype)


def _filter_grad_type(x: TensorType, cotangent: TensorType, *, shape: Sizes, **attrs: Any) -> TensorType:
    _require_gradient(cotangent, _conv_type(x, TensorType(shape, cotangent.dtype), **attrs))
    return TensorType(shape, x.dtype)


def _require_gradient(cotangent: TensorType, y_type: TensorType) -> None:
    if len(cotangent.shape) != len(y_type.shape) or not all(map(agree_dim, cotangent.shape, y_type.shape)):
        raise ArgumentError(
            f"out_backprop must have shape {show_shape(y_type.shape)}, but got {show_shape(cotangent.shape)}"
        )


# -- batching: a batch axis of the input is merged into its own; filters with one are convolved one by one


def merged(size: Dim, x: Tensor) -> Tensor:
    """Merges the leading axis of ``size`` and the batch axis."""
    dims = x._type.shape
    return bind.reshape(x, shape=(simplify_dim(size * dims[1]), *dims[2:]))


def split_batch(size: Dim, y: Tensor, batch: Dim) -> Tensor:
    return bind.reshape(y, shape=(size, batch, *y._type.shape[1:]))


def _conv_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
    """Maps a convolution over a new leading axis, which becomes part of the batch axis if all items share the filter."""
    x, w = inputs
    _, is_filter_batched = batched
    if is_filter_batched:
        return _for_each_item("conv", size, inputs, batched, attrs)
    return split_batch(size, bind.conv(merged(size, x), w, **attrs), x._type.shape[1])


def _input_grad_batch(
    size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, shape: tuple[Dim, ...], **attrs: Any
) -> Any:
    """Maps a convolution's gradient with respect to its input over a new leading axis of ``size`` items.

    The new axis is merged into the batch axis of the input. If each item has its own filter, each item needs its own
    convolution.
    """
    cotangent, w = inputs
    _, is_filter_batched = batched
    if is_filter_batched:
        return _for_each_item("conv_input_grad", size, inputs, batched, {"shape": shape, **attrs})
    batch, *other_dims = shape
    merged_shape = (simplify_dim(size * batch), *other_dims)
    merged_grad = bind.conv_input_grad(merged(size, cotangent), w, shape=merged_shape, **attrs)
    return split_batch(size, merged_grad, batch)


def _filter_grad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
    return _for_each_item("conv_filter_grad", size, inputs, batched, attrs)


def _for_each_item(
    name: str, size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], attrs: dict[str, Any]
) -> Any:
    """Applies the convolution op ``name`` to each of ``size`` items of a vectorized map, and stacks the results.

    A convolution has one filter for its whole batch, so items with different filters can't share one.

    Args:
      name: the name of the primitive.
      size: the number of items.
      inputs: the primitive's inputs.
      batched: for each input, whether its first axis is that of the items.
      attrs: the primitive's attributes.
    """
    if not isinstance(size, int):
        message = f"{name}: filters of their own for a batch of unknown size {size}: give the size while tracing"
        raise unknown_size(ValueError(message))
    results = []
    for i in range(size):
        item_inputs = [_item(x, i) if is_batched else x for x, is_batched in zip(inputs, batched)]
        results.append(table[name].bind(*item_inputs, **attrs))
    return bind.stack(*results, axis=0)


def _item(x: Tensor, index: int) -> Tensor:
    return x[index]  # type: ignore[index]


# -- ONNX, whose layout is channels first


def _channels_first(emitter: NodeEmitter, name: str, rank: int) -> str:
    """Emits a transpose from (n, *spatial, channels) to ONNX's layout (n, channels, *spatial), and returns its name."""
    return _transposed(emitter, name, [0, rank + 1, *range(1, rank + 1)])


def _filter_channels_first(emitter: NodeEmitter, name: str, rank: int) -> str:
    """Emits a transpose of a filter to ONNX's layout (results, depth, *spatial), and returns its name."""
    return _transposed(emitter, name, [rank + 1, rank, *range(rank)])


def _transposed(emitter: NodeEmitter, name: str, perm: list[int]) -> str:
    """Emits ONNX's Transpose, and returns the name of its result."""
    return emitter.computed("Transpose", [name], perm=perm)


def _pads(padding: Padding) -> list[int]:
    """Converts paddings to ONNX's order: the paddings before all axes first, then the paddings after all axes."""
    return [low for low, _ in padding] + [high for _, high in padding]


def _conv_onnx(
    emitter: NodeEmitter,
    inputs: Names,
    outputs: Names,
    types: RuleTypes,
    *,
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
) -> None:
    """Emits ONNX's Conv for a convolution, between transposes of input, filter and result.

    ONNX has the channels before the spatial axes, and the op has the channels last.

    Args:
      strides, padding, dilations: an item for each spatial axis.
      groups: the number of groups of channels.
    """
    # ``types`` isn't needed here, but all ONNX rules receive it
    x, w = inputs
    rank = len(strides)
    operands = [_channels_first(emitter, x, rank), _filter_channels_first(emitter, w, rank)]
    y = emitter.computed(
        "Conv", operands, strides=list(strides), pads=_pads(padding), dilations=list(dilations), group=groups
    )
    emitter.node("Transpose", [y], outputs, perm=[0, *range(2, rank + 2), 1])


def _input_grad_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *,
    shape: tuple[Dim, ...], strides: Sizes, padding: Padding, dilations: Sizes, groups: int,
) -> None:  # fmt: skip
    """Emits ONNX's ConvTranspose for a convolution's gradient with respect to its input.

    The input's last elements that no window reached become output padding.

    Args:
      shape: the shape of the input.
      strides, padding, dilations: an item for each spatial axis.
      groups: the number of groups of channels.
    """
    cotangent, w = inputs
    (_, w_type), _ = types
    rank = len(strides)
    output_padding = _unreached(shape, w_type.shape, strides, padding, dilations)
    operands = [_channels_first(emitter, cotangent, rank), _filter_channels_first(emitter, w, rank)]
    y = emitter.computed(
        "ConvTranspose", operands, strides=list(strides), pads=_pads(padding), dilations=list(dilations),
        group=groups, output_padding=output_padding,
    )  # fmt: skip
    emitter.node("Transpose", [y], outputs, perm=[0, *range(2, rank + 2), 1])


def _unreached(shape: Any, w: Any, strides: Sizes, padding: Padding, dilations: Sizes) -> list[int]:
    """Returns for each spatial axis of an input how many of its last elements no window covers."""
    axes = zip(shape[1:-1], w[:-2], strides, padding, dilations)
    return [int((size + sum(pads) - ((k - 1) * dilation + 1)) % stride) for size, k, stride, pads, dilation in axes]


def _filter_grad_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *,
    shape: Sizes, strides: Sizes, padding: Padding, dilations: Sizes, groups: int,
) -> None:  # fmt: skip
    """Emits ONNX nodes for a convolution's gradient with respect to its filter.

    This gradient is a convolution of the input with the cotangent. Batch and channel axes are swapped, and so are
    strides and dilations.

    Args:
      emitter: adds the nodes to the ONNX graph.
      inputs, outputs: the names of the values ``x`` and ``cotangent``, and of the filter's cotangent.
      types: the types of the inputs and of the outputs.
      shape: the filter's shape.
      strides, padding, dilations, groups: the attributes of the convolution that is differentiated.
    """
    x, cotangent = inputs
    (x_type, cotangent_type), _ = types
    rank = len(strides)
    sizes = x_type.shape[1:-1]
    window_params = zip(cotangent_type.shape[1:-1], strides, _extents(shape, dilations))
    # The extent of x that each axis's windows span.
    spanned = [(count - 1) * stride + extent for count, stride, extent in window_params]
    # The padding needed after the last element; negative: trailing elements that no window reads.
    pad_after = [span - size - low for span, size, (low, _) in zip(spanned, sizes, padding)]
    pads = [low for low, _ in padding] + [max(0, after) for after in pad_after]
    x = _shortened(emitter, x, [size + min(0, after) for size, after in zip(sizes, pad_after)], sizes)
    attrs = {"strides": list(dilations), "dilations": list(strides), "pads": pads}
    parts = [_filter_grad_group(emitter, [x, cotangent], group, groups, shape, rank, attrs) for group in range(groups)]
    filter_grad = parts[0]
    if groups > 1:
        filter_grad = emitter.computed("Concat", parts, axis=0)
    emitter.node("Transpose", [filter_grad], outputs, perm=[*range(2, rank + 2), 1, 0])


def _shortened(emitter: NodeEmitter, name: str, lengths: list[Any], sizes: Any) -> str:
    """Emits a slice that shortens the spatial axes from ``sizes`` to ``lengths``, and returns the result's name.

    It removes the last elements, which no window reaches. ONNX has no negative padding.
    """
    axes, ends = [], []
    for axis, (length, size) in enumerate(zip(lengths, sizes), 1):  # axis 0 is the batch
        if length != size:
            axes.append(axis)
            ends.append(length)
    if not axes:
        return name
    starts = [0] * len(axes)
    bounds = [emitter.const(np.array(values, np.int64)) for values in (starts, ends, axes)]
    return emitter.computed("Slice", [name, *bounds])


def _extents(shape: Sizes, dilations: Sizes) -> list[int]:
    return [(dim - 1) * dilation + 1 for dim, dilation in zip(shape[:-2], dilations)]


def _filter_grad_group(
    emitter: NodeEmitter, inputs: Names, group: int, groups: int, shape: Sizes, rank: int, attrs: dict[str, Any]
) -> str:
    """Emits the filter's gradient for one group of channels, and returns the result's name.

    It is a convolution of the group's input with the group's cotangent.

    Args:
      emitter: adds nodes to the ONNX graph.
      inputs: the names of the convolution's input and of the result's cotangent.
      group, groups: the index of the group, and the number of groups.
      shape: the shape of the filter.
      rank: the number of spatial axes.
      attrs: the attributes of the Conv node.
    """
    x, cotangent = inputs
    channel_axis = rank + 1
    input_channels, result_channels = shape[-2], shape[-1] // groups  # of one group
    group_x = _sliced(emitter, x, channel_axis, group * input_channels, input_channels, groups)
    group_cotangent = _sliced(emitter, cotangent, channel_axis, group * result_channels, result_channels, groups)
    # A convolution sums over channels, and this one must sum over the batch.
    batch_as_channels = [channel_axis, 0, *range(1, rank + 1)]
    transposed_x = _transposed(emitter, group_x, batch_as_channels)
    transposed_cotangent = _transposed(emitter, group_cotangent, batch_as_channels)
    grad = emitter.computed("Conv", [transposed_x, transposed_cotangent], **attrs)
    return _transposed(emitter, grad, [1, 0, *range(2, rank + 2)])


def _sliced(emitter: NodeEmitter, name: str, axis: int, start: int, count: int, groups: int) -> str:
    """Emits a slice of one group of a grouped convolution: ``count`` channels starting at ``start`` along ``axis``.

    Returns the name of the slice.
    """
    if groups == 1:  # the group has all channels
        return name
    end = start + count
    bounds = [emitter.const(np.array([value], np.int64)) for value in (start, end, axis)]
    return emitter.computed("Slice", [name, *bounds])


# -- the primitives

_CASES = (
    ((2, 4, 3), (2, 3, 2), (1,), ((0, 1),), (1,), 1),
    ((1, 5, 4, 2), (3, 3, 2, 2), (2, 2), ((1, 1), (0, 1)), (1, 1), 1),
    ((2, 4, 4, 2), (2, 2, 1, 4), (1, 1), ((0, 0), (0, 0)), (2, 1), 2),
    ((1, 4, 3, 4), (2, 1, 2, 2), (1, 2), ((0, 0), (1, 0)), (1, 1), 2),
    ((1, 3, 3, 2, 2), (2, 2, 1, 2, 1), (1, 1, 1), ((0, 0), (1, 0), (0, 0)), (1, 1, 1), 1),
    ((0, 3, 3, 1), (2, 2, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1), 1),
)


def _attrs(case: Any) -> dict[str, Any]:
    return {"strides": case[2], "padding": case[3], "dilations": case[4], "groups": case[5]}


def _y_shape(case: Any) -> tuple[int, ...]:
    return (case[0][0], *result_sizes(case[0][1:-1], case[1][:-2], case[2], case[3], case[4]), case[1][-1])


def _conv_samples() -> list[Sample]:
    samples = [Sample((draw(i, c[0]), draw(i + 30, c[1])), _attrs(c), FLOATING) for i, c in enumerate(_CASES)]
    symbolic = (("n", None, None, None), (None,) * 4)
    case = _CASES[1]
    return [*samples, Sample((draw(1, case[0]), draw(31, case[1])), _attrs(case), FLOATING, symbolic=symbolic)]


def _input_grad_samples() -> list[Sample]:
    return [
        Sample((draw(i, _y_shape(case)), draw(i + 30, case[1])), {"shape": case[0], **_attrs(case)}, FLOATING)
        for i, case in enumerate(_CASES[:-1])
    ]


def _filter_grad_samples() -> list[Sample]:
    return [
        Sample((draw(i, case[0]), draw(i + 30, _y_shape(case))), {"shape": case[1], **_attrs(case)}, FLOATING)
        for i, case in enumerate(_CASES[:-1])
    ]


@primitive(
    type=_conv_type,
    numpy=_conv_array,
    lower=kernel("conv.conv_nd"),
    vjp=lambda cotangent, y, x, w, **attrs: (
        partial(bind.conv_input_grad, cotangent, w, shape=x._type.shape, **attrs),
        partial(bind.conv_filter_grad, x, cotangent, shape=w._type.shape, **attrs),
    ),
    batch=_conv_batch,
    onnx=_conv_onnx,
    samples=_conv_samples,
    heavy="always",
)
def conv(x: Tensor, w: Tensor, strides: Sizes, padding: Padding, dilations: Sizes, groups: int) -> Any:
    """Returns the correlation of ``x`` (n, *spatial, channels) with ``w`` (*window, channels / groups, results).

    ``padding`` holds a pair for each spatial axis. 16-bit floats are summed in float32.
    """
    return (x, w), {"strides": strides, "padding": padding, "dilations": dilations, "groups": groups}


@primitive(
    tf_name="ConvBackpropInput",
    type=_input_grad_type,
    numpy=_input_grad_array,
    lower=lambda cotangent, w, *, shape, **attrs: kernel("conv.conv_nd_input_grad")(
        cotangent, w, x_shape=shape, **attrs
    ),
    vjp=lambda c, g, cotangent, w, *, shape, **attrs: (
        partial(bind.conv, c, w, **attrs),
        partial(bind.conv_filter_grad, c, cotangent, shape=w._type.shape, **attrs),
    ),
    batch=_input_grad_batch,
    onnx=_input_grad_onnx,
    samples=_input_grad_samples,
    heavy="always",
)
def conv_input_grad(
    cotangent: Tensor,
    w: Tensor,
    shape: tuple[Dim, ...],
    strides: Sizes,
    padding: Padding,
    dilations: Sizes,
    groups: int,
) -> Any:
    """Returns the cotangent of ``conv``'s input of that ``shape``; also the transposed convolution.

    Args:
      cotangent: the cotangent of the convolution's result.
      w: the filter.
      shape: the shape of the input.
      strides, padding, dilations, groups: as for ``conv``.
    """
    return (cotangent, w), {
        "shape": shape,
        "strides": strides,
        "padding": padding,
        "dilations": dilations,
        "groups": groups,
    }


@primitive(
    tf_name="ConvBackpropFilter",
    type=_filter_grad_type,
    numpy=_filter_grad_array,
    lower=lambda x, cotangent, *, shape, **attrs: kernel("conv.conv_nd_filter_grad")(
        x, cotangent, w_shape=shape, **attrs
    ),
    vjp=lambda c, g, x, cotangent, *, shape, **attrs: (
        partial(bind.conv_input_grad, cotangent, c, shape=x._type.shape, **attrs),
        partial(bind.conv, x, c, **attrs),
    ),
    batch=_filter_grad_batch,
    onnx=_filter_grad_onnx,
    samples=_filter_grad_samples,
    heavy="always",
)
def conv_filter_grad(
    x: Tensor, cotangent: Tensor, shape: Sizes, strides: Sizes, padding: Padding, dilations: Sizes, groups: int
) -> Any:
    """Returns the cotangent of ``conv``'s filter of that ``shape``.

    Args:
      x: the input.
      cotangent: the cotangent of the convolution's result.
      shape: the shape of the filter.
      strides, padding, dilations, groups: as for ``conv``.
    """
    return (x, cotangent), {
        "shape": shape,
        "strides": strides,
        "padding": padding,
        "dilations": dilations,
        "groups": groups,
    }
