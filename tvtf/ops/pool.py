"""Pooling primitives, channels last, and their gradients as primitives, so that these have gradients too."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive, table
from tvtf.core.shape import Dim, TensorType, same_shape, show_shape, simplify_dim, size_of
from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, float32, int8, int16, int32, int64, uint8, uint16
from tvtf.ops.conv import merged, split_batch
from tvtf.ops.rules import bind, draw, kernel, require_dtype, stretch, zeros_like
from tvtf.ops.softmax import wide
from tvtf.ops.windows import Padding, cropped, padded, result_sizes, taps

Sizes = tuple[int, ...]
MAX_TYPES = (*FLOATING, int32, int64, uint8, int16, int8, uint16)


def _ones(strides: Sizes) -> Sizes:
    return (1,) * len(strides)


def _pool_type(domain: Any) -> Any:
    """Returns the type rule of pooling for a set of dtypes; padding must be smaller than the window."""

    def rule(x: TensorType, *, window: Sizes, strides: Sizes, padding: Padding) -> TensorType:
        require_dtype(x, domain, "input")
        if len(x.shape) != len(window) + 2:
            raise ArgumentError(f"Input must be {len(window) + 2}-dimensional, but got shape {show_shape(x.shape)}")
        for size, pads in zip(window, padding):
            if max(pads) >= size:
                side = "Left" if pads[0] >= size else "Right"
                raise ArgumentError(f"{side} padding {max(pads)} needs to be smaller than the window size {size}")
        places = result_sizes(x.shape[1:-1], window, strides, padding, _ones(strides))
        return TensorType((x.shape[0], *places, x.shape[-1]), x.dtype)

    return rule


_max_type, _avg_type = _pool_type(MAX_TYPES), _pool_type(FLOATING)


def _require_shape(x: TensorType, expected: TensorType, name: str) -> None:
    if not same_shape(x.shape, expected.shape):
        raise ArgumentError(f"{name} must have shape {show_shape(expected.shape)}, but got {show_shape(x.shape)}")


def _max_grad_type(ct: TensorType, x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    _require_shape(ct, _max_type(x, **attrs), "out_backprop")
    return TensorType(x.shape, ct.dtype)


def _max_pick_type(c: TensorType, x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    _require_shape(c, x, "grad")
    return TensorType(_max_type(x, **attrs).shape, c.dtype)


def _avg_grad_type(ct: TensorType, *, shape: tuple[Dim, ...], **attrs: Any) -> TensorType:
    _require_shape(ct, _avg_type(TensorType(shape, ct.dtype), **attrs), "out_backprop")
    return TensorType(shape, ct.dtype)


# -- NumPy


def _lowest(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _sizes(padded_x: np.ndarray, window: Sizes, strides: Sizes) -> tuple[int, ...]:
    return result_sizes(padded_x.shape[1:-1], window, strides, ((0, 0),) * len(window), _ones(strides))


def _views(padded_x: np.ndarray, window: Sizes, strides: Sizes, sizes: Sequence[int]) -> list[Any]:
    return [places for _, places in taps(window, sizes, strides, _ones(strides))]


def _max_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    padded_x = padded(wide(x), padding, _lowest(x.dtype))
    sizes = _sizes(padded_x, window, strides)
    best = np.full((x.shape[0], *sizes, x.shape[-1]), _lowest(x.dtype), padded_x.dtype)
    for places in _views(padded_x, window, strides, sizes):
        best = np.maximum(best, padded_x[places])
    return best


def _first_largest(x: np.ndarray, y: np.ndarray, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """Returns for each window the row-major number of its first largest value, where NaN counts as largest.

    Padding is never chosen, even where all values are as low as it.
    """
    padded_x, real = padded(wide(x), padding, _lowest(x.dtype)), padded(np.ones(x.shape, bool), padding)
    first = np.full(y.shape, -1)
    for number, places in enumerate(_views(padded_x, window, strides, y.shape[1:-1])):
        value = padded_x[places]
        first[(first < 0) & real[places] & ((value == y) | (value != value))] = number
    return first


def _max_grad_array(
    ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    """Adds each window's cotangent at its first largest value."""
    first, ct = _first_largest(x, y, window, strides, padding), wide(ct)
    total = padded(np.zeros(x.shape, ct.dtype), padding)
    for number, places in enumerate(_views(total, window, strides, y.shape[1:-1])):
        total[places] += np.where(first == number, ct, 0)
    return cropped(total, padding)


def _max_pick_array(
    c: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    """Reads ``c`` where each window has its first largest value."""
    first, padded_x = _first_largest(x, y, window, strides, padding), padded(c, padding)
    picked = np.zeros(y.shape, c.dtype)
    for number, places in enumerate(_views(padded_x, window, strides, y.shape[1:-1])):
        picked = np.where(first == number, padded_x[places], picked)
    return picked


def _avg_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """Averages each window over its values, without padding."""
    padded_x = padded(wide(x), padding)
    sizes = _sizes(padded_x, window, strides)
    total = np.zeros((x.shape[0], *sizes, x.shape[-1]), padded_x.dtype)
    for places in _views(padded_x, window, strides, sizes):
        total += padded_x[places]
    return total / _counts(x.shape, window, strides, padding, sizes, total.dtype)


def _counts(shape: Any, window: Sizes, strides: Sizes, padding: Padding, sizes: Any, dtype: Any) -> np.ndarray:
    """Returns how many values of each window are not padding."""
    padded_x = padded(np.ones((1, *shape[1:-1], 1), dtype), padding)
    return sum((padded_x[p] for p in _views(padded_x, window, strides, sizes)), np.zeros((1, *sizes, 1), dtype))


def _avg_grad_array(ct: np.ndarray, *, shape: Any, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    ct, sizes = wide(ct), ct.shape[1:-1]
    share = ct / _counts(shape, window, strides, padding, sizes, ct.dtype)
    total = padded(np.zeros(shape, ct.dtype), padding)
    for places in _views(total, window, strides, sizes):
        total[places] += share
    return cropped(total, padding)


# -- batching


def _joined(name: str) -> Any:
    """Returns the batch rule that merges the new axis into the batch axis."""

    def rule(size: Dim, inputs: Any, batched: Any, **attrs: Any) -> Tensor:
        operands = [stretch(size, x, b) for x, b in zip(inputs, batched)]
        y = table[name].bind(*(merged(size, x) for x in operands), **attrs)
        return split_batch(size, y, operands[0]._type.shape[1])

    return rule


def _avg_grad_batch(size: Dim, inputs: Any, batched: Any, *, shape: Any, **attrs: Any) -> Tensor:
    merged_shape = (simplify_dim(size * shape[0]), *shape[1:])
    return split_batch(size, bind.avg_pool_grad(merged(size, inputs[0]), shape=merged_shape, **attrs), shape[0])


# -- ONNX


def _pool_onnx(node: str) -> Any:
    """Returns the ONNX rule of a pooling node, between transposes to channels first and back."""

    def write(
        emitter: Any, inputs: Any, outputs: Any, types: Any, *, window: Sizes, strides: Sizes, padding: Padding
    ) -> None:
        rank = len(window)
        x, y = emitter.temp(), emitter.temp()
        pads = [low for low, _ in padding] + [high for _, high in padding]
        emitter.node("Transpose", inputs, [x], perm=[0, rank + 1, *range(1, rank + 1)])
        emitter.node(node, [x], [y], kernel_shape=list(window), strides=list(strides), pads=pads)
        emitter.node("Transpose", [y], outputs, perm=[0, *range(2, rank + 2), 1])

    return write


def _node(emitter: Any, op: str, *inputs: str, **attrs: Any) -> str:
    result = emitter.temp()
    emitter.node(op, list(inputs), [result], **attrs)
    return result


def _first(emitter: Any, name: str, rank: int) -> str:
    return _node(emitter, "Transpose", name, perm=[0, rank + 1, *range(1, rank + 1)])


def _flat(emitter: Any, name: str) -> str:
    return _node(emitter, "Reshape", name, emitter.const(np.array([-1], np.int64)))


def _winners(emitter: Any, x: str, window: Sizes, strides: Sizes, padding: Padding) -> str:
    """Writes a MaxPool for its second result: where each window's first largest value is in the flattened input."""
    places = emitter.temp()
    pads = [low for low, _ in padding] + [high for _, high in padding]
    emitter.node("MaxPool", [x], [emitter.temp(), places], kernel_shape=list(window), strides=list(strides), pads=pads)
    return places


def _max_pick_onnx(emitter: Any, inputs: Any, outputs: Any, types: Any, **attrs: Any) -> None:
    """Writes a Gather from the flattened values at the indices that MaxPool returns."""
    rank = len(attrs["window"])
    places = _winners(emitter, _first(emitter, inputs[1], rank), **attrs)
    picked = _node(emitter, "Gather", _flat(emitter, _first(emitter, inputs[0], rank)), places)
    emitter.node("Transpose", [picked], outputs, perm=[0, *range(2, rank + 2), 1])


def _max_grad_onnx(emitter: Any, inputs: Any, outputs: Any, types: Any, **attrs: Any) -> None:
    """Writes a scatter-add of the cotangents at the indices that MaxPool returns; 16-bit floats add in float32."""
    rank, x_type = len(attrs["window"]), types[0][1]
    shape = (x_type.shape[0], x_type.shape[-1], *x_type.shape[1:-1])
    places = _winners(emitter, _first(emitter, inputs[1], rank), **attrs)
    dtype, wide_type = types[0][0].dtype, float32 if types[0][0].dtype.size == 2 else types[0][0].dtype
    zero = emitter.const(np.zeros((), wide_type.np))
    zeros = _node(emitter, "Expand", zero, emitter.shape((size_of(shape),)))
    updates = emitter.cast(_flat(emitter, _first(emitter, inputs[0], rank)), wide_type)
    flat_grad = _node(emitter, "ScatterElements", zeros, _flat(emitter, places), updates, axis=0, reduction="add")
    grad = _node(emitter, "Reshape", emitter.cast(flat_grad, dtype), emitter.shape(shape))
    emitter.node("Transpose", [grad], outputs, perm=[0, *range(2, rank + 2), 1])


def _avg_grad_onnx(
    emitter: Any, inputs: Any, outputs: Any, types: Any, *, shape: Any, window: Sizes, strides: Sizes, padding: Padding
) -> None:
    """Writes a transposed convolution with ones, channel by channel, which adds each window's share to its places."""
    rank, ct, depth = len(window), types[0][0], shape[-1]
    counts = _counts(shape, window, strides, padding, ct.shape[1:-1], ct.dtype.np)
    share = _node(emitter, "Div", inputs[0], emitter.const(counts.astype(ct.dtype.np)))
    ones = emitter.const(np.ones((depth, 1, *window), ct.dtype.np))
    rest = [(n + sum(p) - k) % s for n, k, s, p in zip(shape[1:-1], window, strides, padding)]
    pads = [low for low, _ in padding] + [high for _, high in padding]
    spread = _node(
        emitter, "ConvTranspose", _first(emitter, share, rank), ones, strides=list(strides), pads=pads, group=depth,
        output_padding=rest,
    )  # fmt: skip
    emitter.node("Transpose", [spread], outputs, perm=[0, *range(2, rank + 2), 1])


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
    return {"window": case[1], "strides": case[2], "padding": case[3]}


def _distinct(seed: int, shape: Any) -> Any:
    """Returns a sample of distinct integers: the numeric gradient's small steps don't move a maximum among them."""
    count = int(np.prod(shape))
    return lambda dtype: np.random.default_rng(seed).permutation(count).reshape(shape).astype(dtype.np)


def _y_shape(case: Any) -> tuple[int, ...]:
    shape, window, strides, padding = case
    return (shape[0], *result_sizes(shape[1:-1], window, strides, padding, _ones(strides)), shape[-1])


def _max_samples() -> list[Sample]:
    exported = (*FLOATING, int8, uint8, int16, uint16, int32)
    samples = [Sample((_distinct(i, c[0]),), _attrs(c), exported) for i, c in enumerate(_CASES)]
    case, symbolic = _CASES[1], (("n", None, None, None),)
    return [*samples, Sample((_distinct(1, case[0]),), _attrs(case), FLOATING, symbolic=symbolic)]


def _max_grad_samples() -> list[Sample]:
    return [_max_grad_sample(i, c, _y_shape(c)) for i, c in enumerate(_CASES[:-1])]


def _max_pick_samples() -> list[Sample]:
    return [_max_grad_sample(i, c, c[0]) for i, c in enumerate(_CASES[:-1])]


def _max_grad_sample(i: int, case: Any, shape: Any) -> Sample:
    values = _distinct(i, case[0])
    result = lambda dtype: _max_array(values(dtype), **_attrs(case)).astype(dtype.np)  # noqa: E731
    return Sample((draw(i, shape), values, result), _attrs(case), FLOATING, gradient=(0,))


def _avg_samples() -> list[Sample]:
    samples = [Sample((draw(i, c[0]),), _attrs(c), FLOATING) for i, c in enumerate(_CASES)]
    case, symbolic = _CASES[1], (("n", None, None, None),)
    return [*samples, Sample((draw(1, case[0]),), _attrs(case), FLOATING, symbolic=symbolic)]


def _avg_grad_samples() -> list[Sample]:
    cases = enumerate(_CASES[:-1])
    return [Sample((draw(i, _y_shape(c)),), {"shape": c[0], **_attrs(c)}, FLOATING) for i, c in cases]


# -- the primitives


@primitive(
    name="max_pool",
    type=_max_type,
    numpy=_max_array,
    lower=kernel("nn.max_pool"),
    vjp=lambda ct, y, x, **attrs: bind.max_pool_grad(ct, x, y, **attrs),
    batch=_joined("max_pool"),
    onnx=_pool_onnx("MaxPool"),
    samples=_max_samples,
    heavy="always",
)
def max_pool_primitive(x: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Returns the largest value in each window of ``x`` (n, *spatial, channels); NaN wins, padding never does."""
    return (x,), {"window": window, "strides": strides, "padding": padding}


def _winner_op(name: str, transpose: str, **columns: Any) -> Any:
    """Declares an op that moves its first input between windows and their largest values; ``transpose`` moves it back."""
    return primitive(
        lower=kernel(f"nn.{name}"),
        vjp=lambda ct, result, moved, x, y, **attrs: (
            getattr(bind, transpose)(ct, x, y, **attrs),
            partial(zeros_like, x),
            partial(zeros_like, y),
        ),
        batch=_joined(name),
        heavy="always",
        **columns,
    )


@_winner_op(
    "max_pool_grad",
    "max_pool_pick",
    type=_max_grad_type,
    numpy=_max_grad_array,
    samples=_max_grad_samples,
    onnx=_max_grad_onnx,
)
def max_pool_grad(ct: Tensor, x: Tensor, y: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Adds each window's cotangent, of y's shape, at the window's first largest value; the result has x's shape."""
    return (ct, x, y), {"window": window, "strides": strides, "padding": padding}


@_winner_op(
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
    vjp=lambda ct, y, x, **attrs: bind.avg_pool_grad(ct, shape=x._type.shape, **attrs),
    batch=_joined("avg_pool"),
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
    lower=lambda ct, *, shape, **attrs: kernel("pool.avg_pool_nd_grad")(ct, x_shape=shape, **attrs),
    vjp=lambda c, g, ct, *, shape, **attrs: bind.avg_pool(c, **attrs),
    batch=_avg_grad_batch,
    samples=_avg_grad_samples,
    onnx=_avg_grad_onnx,
    heavy="always",
)
def avg_pool_grad(ct: Tensor, shape: tuple[Dim, ...], window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Divides each window's cotangent among its values: the cotangent of ``avg_pool``'s input of that ``shape``."""
    return (ct,), {"shape": shape, "window": window, "strides": strides, "padding": padding}
