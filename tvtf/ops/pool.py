"""Pooling primitives, channels last, and their gradients as primitives, so that these have gradients too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive, table
from tvtf.core.shape import Dim, TensorType, show_shape, simplify_dim, size_of
from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, float32, int8, int16, int32, int64, uint8, uint16
from tvtf.ops.conv import merged, split_batch
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import bind, draw, kernel, require_dtype, require_shape, stretch, zeros_like
from tvtf.ops.softmax import upcast
from tvtf.ops.windows import Padding, cropped, padded, result_sizes, taps, window_counts

Sizes = tuple[int, ...]
MAX_TYPES = (*FLOATING, int32, int64, uint8, int16, int8, uint16)


def _ones(strides: Sizes) -> Sizes:
    """Returns dilations of 1 for all spatial axes."""
    return (1,) * len(strides)


def _pool_type(domain: Any) -> Any:
    """Returns the type rule of a pooling op whose input must have one of the dtypes ``domain``."""

    def rule(x: TensorType, *, window: Sizes, strides: Sizes, padding: Padding) -> TensorType:
        """Checks dtype, rank and padding of the input, and returns the type of the pooled result.

        The input has the shape (batch, spatial axes, channels). The attributes have one entry for each spatial axis.
        """
        require_dtype(x, domain, "input")
        rank = len(window) + 2
        if len(x.shape) != rank:
            raise ArgumentError(f"Input must be {rank}-dimensional, but got shape {show_shape(x.shape)}")
        for size, (low, high) in zip(window, padding):  # each window must contain an element of the input
            amount = max(low, high)
            if amount >= size:
                side = "Left" if low >= size else "Right"
                raise ArgumentError(f"{side} padding {amount} needs to be smaller than the window size {size}")
        batch, *spatial_sizes, channels = x.shape
        pooled_sizes = result_sizes(spatial_sizes, window, strides, padding, _ones(strides))
        return TensorType((batch, *pooled_sizes, channels), x.dtype)

    return rule


_max_type, _avg_type = _pool_type(MAX_TYPES), _pool_type(FLOATING)


def _max_grad_type(cotangent: TensorType, x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    """Checks that cotangent and result have the shape of the pooled ``x``; the gradient has the shape of ``x``."""
    pooled = _max_type(x, **attrs).shape
    require_shape(cotangent, pooled, "out_backprop")
    require_shape(y, pooled, "tensor_out")
    return TensorType(x.shape, cotangent.dtype)


def _max_pick_type(c: TensorType, x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    """Returns the result type of picking elements of ``c`` where max pooling of ``x`` finds the maxima.

    ``c`` must have the shape of ``x``. The result has the shape of the pooled ``x``.
    """
    pooled = _max_type(x, **attrs).shape
    require_shape(c, x.shape, "grad")
    require_shape(y, pooled, "orig_output")
    return TensorType(pooled, c.dtype)


def _avg_grad_type(cotangent: TensorType, *, shape: tuple[Dim, ...], **attrs: Any) -> TensorType:
    """Returns the type of average pooling's gradient, of the input's ``shape``, after checking the cotangent."""
    require_shape(cotangent, _avg_type(TensorType(shape, cotangent.dtype), **attrs).shape, "out_backprop")
    return TensorType(shape, cotangent.dtype)


# -- NumPy


def _lowest(dtype: np.dtype) -> Any:
    """Returns the value that padding has in max pooling: no element is less."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _window_counts(padded_x: np.ndarray, window: Sizes, strides: Sizes) -> tuple[int, ...]:
    """Returns the number of windows along each spatial axis of a padded array."""
    return window_counts(padded_x.shape[1:-1], window, strides, _ones(strides))


def _tap_slices(padded_x: np.ndarray, window: Sizes, strides: Sizes, sizes: Sequence[int]) -> list[Any]:
    """Returns for each position in a window (tap) the slices of the padded array with that element of every window."""
    return [slices for _, slices in taps(window, sizes, strides, _ones(strides))]


def _max_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """Computes max pooling in NumPy: the elementwise maximum over the taps (a tap: a position in the window).

    Args:
      x: input of shape (batch, spatial axes, channels).
      window, strides: the windows' size and distance along each spatial axis.
      padding: a pair of sizes for each spatial axis.
    """
    batch, *_, channels = x.shape
    lowest = _lowest(x.dtype)
    padded_x = padded(upcast(x), padding, lowest)  # the lowest number never changes a maximum
    window_counts = _window_counts(padded_x, window, strides)  # along each spatial axis
    largest = np.full((batch, *window_counts, channels), lowest, padded_x.dtype)
    for slices in _tap_slices(padded_x, window, strides, window_counts):
        largest = np.maximum(largest, padded_x[slices])
    return largest


def _first_largest(x: np.ndarray, y: np.ndarray, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """Returns for each window of max pooling the tap of the first largest value (a tap: a position in the window).

    Taps are numbered in row-major order. ``y`` has the windows' maxima. NaN counts as largest. Padding is never chosen,
    even if all values are as low as the padding.
    """
    padded_x = padded(upcast(x), padding, _lowest(x.dtype))
    is_element = padded(np.ones(x.shape, bool), padding)  # false for padding
    first_tap = np.full(y.shape, -1)  # -1: none found yet
    for tap, slices in enumerate(_tap_slices(padded_x, window, strides, y.shape[1:-1])):
        values = padded_x[slices]
        is_largest = (values == y) | (values != values)  # NaN is the only value that differs from itself
        is_first = (first_tap < 0) & is_element[slices] & is_largest
        first_tap[is_first] = tap
    return first_tap


def _max_grad_array(
    cotangent: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    """Computes the gradient of max pooling in NumPy.

    The cotangent of each window is added at the window's first largest value. A tap is a position in the window.

    Args:
      cotangent: the cotangent of the result.
      x: the input of max pooling, of shape (batch, spatial axes, channels).
      y: the result of max pooling.
      window, strides, padding: the attributes of max pooling, an item for each spatial axis.
    """
    tap_of_maximum = _first_largest(x, y, window, strides, padding)
    cotangent = upcast(cotangent)
    # The sums get the padding of the forward op, which is removed at the end.
    total = padded(np.zeros(x.shape, cotangent.dtype), padding)
    for tap, slices in enumerate(_tap_slices(total, window, strides, y.shape[1:-1])):
        total[slices] += np.where(tap_of_maximum == tap, cotangent, 0)
    return cropped(total, padding)


def _max_pick_array(
    c: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    """Selects, for each window of max pooling of ``x``, the element of ``c`` at the window's first largest value.

    Args:
      c: array of the shape of ``x``.
      x: the input of max pooling, of shape (batch, spatial axes, channels).
      y: the result of max pooling.
      window, strides, padding: the attributes of max pooling, an item for each spatial axis.
    """
    tap_of_maximum = _first_largest(x, y, window, strides, padding)
    padded_c = padded(c, padding)
    result = np.zeros(y.shape, c.dtype)  # each element is replaced once, as each window has one such tap
    for tap, slices in enumerate(_tap_slices(padded_c, window, strides, y.shape[1:-1])):
        result = np.where(tap_of_maximum == tap, padded_c[slices], result)
    return result


def _avg_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """Computes average pooling in NumPy: the mean of each window's values. Padding counts as no value.

    Args:
      x: input of shape (batch, spatial axes, channels).
      window, strides: the windows' size and distance along each spatial axis.
      padding: a pair of sizes for each spatial axis.
    """
    padded_x = padded(upcast(x), padding)
    batch, *_, channels = x.shape
    window_counts = _window_counts(padded_x, window, strides)  # along each spatial axis
    total = np.zeros((batch, *window_counts, channels), padded_x.dtype)
    for slices in _tap_slices(padded_x, window, strides, window_counts):
        total += padded_x[slices]
    element_counts = _element_counts(x.shape, window, strides, padding, window_counts, total.dtype)
    return total / element_counts


def _element_counts(shape: Any, window: Sizes, strides: Sizes, padding: Padding, sizes: Any, dtype: Any) -> np.ndarray:
    """Returns for each window how many of its values are not padding, shape (1, windows..., 1)."""
    padded_x = padded(np.ones((1, *shape[1:-1], 1), dtype), padding)
    return sum(
        (padded_x[slices] for slices in _tap_slices(padded_x, window, strides, sizes)), np.zeros((1, *sizes, 1), dtype)
    )


def _avg_grad_array(
    cotangent: np.ndarray, *, shape: Any, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    """Computes the gradient of average pooling in NumPy.

    Each value of a window gets an equal share of the window's cotangent. Overlapping windows add their shares.

    Args:
      cotangent: the cotangent of the result.
      shape: the shape of the pooled input.
      window, strides, padding: the attributes of average pooling, an item for each spatial axis.
    """
    cotangent = upcast(cotangent)
    window_counts = cotangent.shape[1:-1]  # along each spatial axis
    share = cotangent / _element_counts(shape, window, strides, padding, window_counts, cotangent.dtype)
    total = padded(np.zeros(shape, cotangent.dtype), padding)
    for slices in _tap_slices(total, window, strides, window_counts):
        total[slices] += share
    return cropped(total, padding)


# -- batching


def _merged_batch_rule(name: str) -> Any:
    """Returns the batch rule (for ``vectorized_map``) of the pooling op ``name``.

    The mapped axis is merged into the images' batch axis, because pooling treats each image alone.
    """

    def rule(size: Dim, inputs: Any, batched: Any, **attrs: Any) -> Tensor:
        operands = [stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)]
        merged_operands = [merged(size, x) for x in operands]
        result = table[name].bind(*merged_operands, **attrs)
        _, image_count, *_ = operands[0]._type.shape
        return split_batch(size, result, image_count)

    return rule


def _avg_grad_batch(size: Dim, inputs: Any, batched: Any, *, shape: Any, **attrs: Any) -> Tensor:
    """Merges the mapped axis into the batch axis of the cotangent, and of the attribute ``shape``."""
    merged_shape = (simplify_dim(size * shape[0]), *shape[1:])
    (cotangent,) = inputs
    return split_batch(size, bind.avg_pool_grad(merged(size, cotangent), shape=merged_shape, **attrs), shape[0])


# -- ONNX


def _pads(padding: Padding) -> list[int]:
    """Converts paddings to ONNX's order: the paddings before all axes first, then the paddings after all axes."""
    return [low for low, _ in padding] + [high for _, high in padding]


def _pool_onnx(node: str) -> Any:
    """Returns the ONNX rule of a pooling op. It emits the node ``node`` between two transposes.

    ONNX's pooling nodes need the channels before the spatial axes, and the op has the channels last.
    """

    def write(
        emitter: NodeEmitter,
        inputs: Names,
        outputs: Names,
        types: RuleTypes,
        *,
        window: Sizes,
        strides: Sizes,
        padding: Padding,
    ) -> None:
        """Emits a transpose to channels first, the pooling node and the transpose back."""
        (x,) = inputs
        rank = len(window)
        channels_first = _channels_first(emitter, x, rank)
        pooled = emitter.computed(
            node, [channels_first], kernel_shape=list(window), strides=list(strides), pads=_pads(padding)
        )
        channels_last = [0, *range(2, rank + 2), 1]
        emitter.node("Transpose", [pooled], outputs, perm=channels_last)

    return write


def _node(emitter: NodeEmitter, op: str, *inputs: str, **attrs: Any) -> str:
    """Emits an ONNX node with a single result, and returns the name of the result."""
    return emitter.computed(op, list(inputs), **attrs)


def _channels_first(emitter: NodeEmitter, name: str, rank: int) -> str:
    """Emits a transpose from (n, *spatial, channels) to ONNX's layout (n, channels, *spatial), and returns its name."""
    return _node(emitter, "Transpose", name, perm=[0, rank + 1, *range(1, rank + 1)])


def _flattened(emitter: NodeEmitter, name: str) -> str:
    """Emits an ONNX reshape of a tensor to one axis, and returns its name."""
    return _node(emitter, "Reshape", name, emitter.const(np.array([-1], np.int64)))


def _max_indices(emitter: NodeEmitter, x: str, window: Sizes, strides: Sizes, padding: Padding) -> str:
    """Emits ONNX's MaxPool, and returns the name of its second result, which has an index for each window.

    The index is that of the window's first largest value in the flattened input.

    Args:
      emitter: adds the nodes.
      x: the name of the input, with channels first.
      window, strides, padding: an item for each spatial axis.
    """
    indices = emitter.temp()
    maxima = emitter.temp()  # the first result, which isn't used
    emitter.node(
        "MaxPool", [x], [maxima, indices], kernel_shape=list(window), strides=list(strides), pads=_pads(padding)
    )
    return indices


def _max_pick_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, **attrs: Any) -> None:
    """Emits ONNX's Gather from flattened values, at the indices that MaxPool returns."""
    rank = len(attrs["window"])
    values, x, _ = inputs
    indices = _max_indices(emitter, _channels_first(emitter, x, rank), **attrs)
    picked = _node(emitter, "Gather", _flattened(emitter, _channels_first(emitter, values, rank)), indices)
    emitter.node("Transpose", [picked], outputs, perm=[0, *range(2, rank + 2), 1])


def _max_grad_onnx(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, **attrs: Any) -> None:
    """Emits ONNX nodes for max pooling's gradient: a scatter-add of the cotangents at MaxPool's indices.

    16-bit floats are added in float32.
    """
    cotangent, x, _ = inputs
    (cotangent_type, x_type, _), _ = types
    rank = len(attrs["window"])
    batch, *spatial_sizes, channels = x_type.shape
    shape = (batch, channels, *spatial_sizes)  # ONNX's layout
    indices = _flattened(emitter, _max_indices(emitter, _channels_first(emitter, x, rank), **attrs))
    sum_dtype = float32 if cotangent_type.dtype.size == 2 else cotangent_type.dtype
    zero = emitter.const(np.zeros((), sum_dtype.np))
    zeros = _node(emitter, "Expand", zero, emitter.shape((size_of(shape),)))
    updates = emitter.cast(_flattened(emitter, _channels_first(emitter, cotangent, rank)), sum_dtype)
    flat_sums = _node(emitter, "ScatterElements", zeros, indices, updates, axis=0, reduction="add")
    grad = _node(emitter, "Reshape", emitter.cast(flat_sums, cotangent_type.dtype), emitter.shape(shape))
    emitter.node("Transpose", [grad], outputs, perm=[0, *range(2, rank + 2), 1])


def _avg_grad_onnx(
    emitter: NodeEmitter,
    inputs: Names,
    outputs: Names,
    types: RuleTypes,
    *,
    shape: Any,
    window: Sizes,
    strides: Sizes,
    padding: Padding,
) -> None:
    """Emits ONNX nodes for average pooling's gradient: a transposed depthwise convolution with a filter of ones.

    The convolution adds the share of each window to the values of the window. A share is the cotangent divided by the
    number of values.
    """
    (cotangent,) = inputs
    (cotangent_type,), _ = types
    _, *sizes, channels = shape
    rank = len(window)
    dtype = cotangent_type.dtype.np
    counts = _element_counts(shape, window, strides, padding, cotangent_type.shape[1:-1], dtype)
    share = _node(emitter, "Div", cotangent, emitter.const(counts.astype(dtype)))
    ones = emitter.const(np.ones((channels, 1, *window), dtype))
    uncovered = []  # the numbers of rows and columns at the end that no window reaches
    for size, window_size, stride, amounts in zip(sizes, window, strides, padding):
        uncovered.append((size + sum(amounts) - window_size) % stride)
    grad = _node(
        emitter, "ConvTranspose", _channels_first(emitter, share, rank), ones,
        strides=list(strides), pads=_pads(padding), group=channels,
        output_padding=uncovered,
    )  # fmt: skip
    emitter.node("Transpose", [grad], outputs, perm=[0, *range(2, rank + 2), 1])


# -- samples

_CASES = (
    ((2, 5, 2), (2,), (2,), ((0, 0),)),
    ((1, 4, 5, 2), (2, 3), (1, 2), ((0, 1), (1, 1))),
    ((2, 4, 4, 1), (2, 2), (2, 2), ((0, 0), (0, 0))),
    ((1, 3, 3, 2, 2), (2, 1, 2), (1, 1, 1), ((0, 0), (0, 0), (1, 0))),
    ((1, 5, 5, 1), (2, 2), (3, 3), ((0, 0), (0, 0))),
    ((0, 3, 3, 1), (2, 2), (1, 1), ((0, 0), (0, 0))),
)


def _attrs(case: Any) -> dict[str, Any]:
    """Returns the attributes of a pooling op for a case of ``_CASES``: shape, window, strides and padding."""
    _, window, strides, padding = case
    return {"window": window, "strides": strides, "padding": padding}


def _distinct_integers(seed: int, shape: Any) -> Any:
    """Returns a sample of distinct integers: the numeric gradient's small steps don't move a maximum among them."""
    count = int(np.prod(shape))
    return lambda dtype: np.random.default_rng(seed).permutation(count).reshape(shape).astype(dtype.np)


def _pooled_shape(case: Any) -> tuple[int, ...]:
    """Returns the shape of the pooled result of a case of ``_CASES``."""
    shape, window, strides, padding = case
    return (shape[0], *result_sizes(shape[1:-1], window, strides, padding, _ones(strides)), shape[-1])


def _max_samples() -> list[Sample]:
    """Returns test samples of max pooling: one for each case of ``_CASES``, and one with a symbolic batch size.

    A case consists of the input's shape, the window, the strides and the padding.
    """
    dtypes = (*FLOATING, int8, uint8, int16, uint16, int32)
    samples = []
    for seed, case in enumerate(_CASES):
        shape, *_ = case
        samples.append(Sample((_distinct_integers(seed, shape),), _attrs(case), dtypes))
    case = _CASES[1]
    shape, *_ = case
    symbolic_dims = (("n", None, None, None),)  # the batch size
    samples.append(Sample((_distinct_integers(1, shape),), _attrs(case), FLOATING, symbolic=symbolic_dims))
    return samples


def _max_grad_samples() -> list[Sample]:
    return [_max_grad_sample(seed, case, _pooled_shape(case)) for seed, case in enumerate(_CASES[:-1])]


def _max_pick_samples() -> list[Sample]:
    return [_max_grad_sample(seed, case, case[0]) for seed, case in enumerate(_CASES[:-1])]


def _max_grad_sample(seed: int, case: Any, first_shape: Any) -> Sample:
    """Returns a sample of an op on a first input of ``first_shape``, the pooled input and the pooled result."""
    values = _distinct_integers(seed, case[0])
    result = lambda dtype: _max_array(values(dtype), **_attrs(case)).astype(dtype.np)  # noqa: E731
    return Sample((draw(seed, first_shape), values, result), _attrs(case), FLOATING, gradient=(0,))


def _avg_samples() -> list[Sample]:
    """Returns test samples of average pooling, one with a symbolic batch."""
    samples = [Sample((draw(seed, case[0]),), _attrs(case), FLOATING) for seed, case in enumerate(_CASES)]
    symbolic_case = _CASES[1]
    symbolic = (("n", None, None, None),)
    return [*samples, Sample((draw(1, symbolic_case[0]),), _attrs(symbolic_case), FLOATING, symbolic=symbolic)]


def _avg_grad_samples() -> list[Sample]:
    """Returns test samples of average pooling's gradient for the cases with elements."""
    cases = enumerate(_CASES[:-1])
    return [
        Sample((draw(seed, _pooled_shape(case)),), {"shape": case[0], **_attrs(case)}, FLOATING) for seed, case in cases
    ]


# -- the primitives


@primitive(
    name="max_pool",
    type=_max_type,
    numpy=_max_array,
    lower=kernel("nn.max_pool"),
    vjp=lambda cotangent, y, x, **attrs: bind.max_pool_grad(cotangent, x, y, **attrs),
    batch=_merged_batch_rule("max_pool"),
    onnx=_pool_onnx("MaxPool"),
    samples=_max_samples,
    heavy="always",
)
def max_pool_primitive(x: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Returns the largest value in each window of ``x`` (n, *spatial, channels); NaN wins, padding never does."""
    return (x,), {"window": window, "strides": strides, "padding": padding}


def _max_position_op(name: str, transpose: str, **columns: Any) -> Any:
    """Returns a decorator that declares one of the linear ops ``max_pool_grad`` and ``max_pool_pick``.

    The one moves values from pooling windows to the positions of the windows' maxima, the other one back. So each is
    the gradient of the other: ``transpose`` is the other op's name.
    """

    def vjp(
        cotangent: Tensor, result: Tensor, first_input: Tensor, x: Tensor, y: Tensor, **attrs: Any
    ) -> tuple[Any, ...]:
        # The op is linear in its first input; the others only select positions.
        transposed_op = getattr(bind, transpose)
        return transposed_op(cotangent, x, y, **attrs), partial(zeros_like, x), partial(zeros_like, y)

    return primitive(
        lower=kernel(f"nn.{name}"),
        vjp=vjp,
        batch=_merged_batch_rule(name),
        heavy="always",
        **columns,
    )


@_max_position_op(
    "max_pool_grad",
    "max_pool_pick",
    type=_max_grad_type,
    numpy=_max_grad_array,
    samples=_max_grad_samples,
    onnx=_max_grad_onnx,
)
def max_pool_grad(cotangent: Tensor, x: Tensor, y: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Adds each window's cotangent, of y's shape, at the window's first largest value; the result has x's shape."""
    return (cotangent, x, y), {"window": window, "strides": strides, "padding": padding}


@_max_position_op(
    "max_pool_pick",
    "max_pool_grad",
    tf_name="MaxPoolGradGrad",
    type=_max_pick_type,
    numpy=_max_pick_array,
    samples=_max_pick_samples,
    onnx=_max_pick_onnx,
)
def max_pool_pick(c: Tensor, x: Tensor, y: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Reads ``c``, of x's shape, where each window of ``x`` has its first largest value; the result has y's shape."""
    return (c, x, y), {"window": window, "strides": strides, "padding": padding}


@primitive(
    name="avg_pool",
    type=_avg_type,
    numpy=_avg_array,
    lower=kernel("pool.avg_pool_nd"),
    vjp=lambda cotangent, y, x, **attrs: bind.avg_pool_grad(cotangent, shape=x._type.shape, **attrs),
    batch=_merged_batch_rule("avg_pool"),
    onnx=_pool_onnx("AveragePool"),
    samples=_avg_samples,
    heavy="always",
)
def avg_pool_primitive(x: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Returns the mean of each window of ``x`` (n, *spatial, channels), without padding."""
    return (x,), {"window": window, "strides": strides, "padding": padding}


@primitive(
    type=_avg_grad_type,
    numpy=_avg_grad_array,
    lower=lambda cotangent, *, shape, **attrs: kernel("pool.avg_pool_nd_grad")(cotangent, x_shape=shape, **attrs),
    vjp=lambda c, g, cotangent, *, shape, **attrs: bind.avg_pool(c, **attrs),
    batch=_avg_grad_batch,
    samples=_avg_grad_samples,
    onnx=_avg_grad_onnx,
    heavy="always",
)
def avg_pool_grad(cotangent: Tensor, shape: tuple[Dim, ...], window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Divides each window's cotangent among its values: the cotangent of ``avg_pool``'s input of that ``shape``."""
    return (cotangent,), {"shape": shape, "window": window, "strides": strides, "padding": padding}
