"""Pooling primitives, channels last, and their gradients, differentiable again."""

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
from tvtf.ops.conv import merged, parted
from tvtf.ops.rules import bind, draw, kernel, require_dtype, stretch, zeros_like
from tvtf.ops.softmax import wide
from tvtf.ops.windows import Padding, cropped, padded, result_sizes, taps

Sizes = tuple[int, ...]
MAX_TYPES = (*FLOATING, int32, int64, uint8, int16, int8, uint16)


def _ones(strides: Sizes) -> Sizes:
    return (1,) * len(strides)


def _pool_type(domain: Any) -> Any:
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


def _require_shape(x: TensorType, wanted: TensorType, name: str) -> None:
    if not same_shape(x.shape, wanted.shape):
        raise ArgumentError(f"{name} must have shape {show_shape(wanted.shape)}, but got {show_shape(x.shape)}")


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


def _sizes(around: np.ndarray, window: Sizes, strides: Sizes) -> tuple[int, ...]:
    return result_sizes(around.shape[1:-1], window, strides, ((0, 0),) * len(window), _ones(strides))


def _views(around: np.ndarray, window: Sizes, strides: Sizes, sizes: Sequence[int]) -> list[Any]:
    return [places for _, places in taps(window, sizes, strides, _ones(strides))]


def _max_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    around = padded(wide(x), padding, _lowest(x.dtype))
    sizes = _sizes(around, window, strides)
    best = np.full((x.shape[0], *sizes, x.shape[-1]), _lowest(x.dtype), around.dtype)
    for places in _views(around, window, strides, sizes):
        best = np.maximum(best, around[places])
    return best


def _first_largest(x: np.ndarray, y: np.ndarray, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    """The row-major number of the first largest value of each window, never of the padding; a NaN is larger than all."""
    around, real = padded(wide(x), padding, _lowest(x.dtype)), padded(np.ones(x.shape, bool), padding)
    first = np.full(y.shape, -1)
    for number, places in enumerate(_views(around, window, strides, y.shape[1:-1])):
        value = around[places]
        first[(first < 0) & real[places] & ((value == y) | (value != value))] = number
    return first


def _max_grad_array(
    ct: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    first, ct = _first_largest(x, y, window, strides, padding), wide(ct)
    total = padded(np.zeros(x.shape, ct.dtype), padding)
    for number, places in enumerate(_views(total, window, strides, y.shape[1:-1])):
        total[places] += np.where(first == number, ct, 0)
    return cropped(total, padding)


def _max_pick_array(
    c: np.ndarray, x: np.ndarray, y: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding
) -> np.ndarray:
    first, around = _first_largest(x, y, window, strides, padding), padded(c, padding)
    picked = np.zeros(y.shape, c.dtype)
    for number, places in enumerate(_views(around, window, strides, y.shape[1:-1])):
        picked = np.where(first == number, around[places], picked)
    return picked


def _avg_array(x: np.ndarray, *, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    around = padded(wide(x), padding)
    sizes = _sizes(around, window, strides)
    total = np.zeros((x.shape[0], *sizes, x.shape[-1]), around.dtype)
    for places in _views(around, window, strides, sizes):
        total += around[places]
    return total / _counts(x.shape, window, strides, padding, sizes, total.dtype)


def _counts(shape: Any, window: Sizes, strides: Sizes, padding: Padding, sizes: Any, dtype: Any) -> np.ndarray:
    """How many values that aren't padding each window has."""
    around = padded(np.ones((1, *shape[1:-1], 1), dtype), padding)
    return sum((around[p] for p in _views(around, window, strides, sizes)), np.zeros((1, *sizes, 1), dtype))


def _avg_grad_array(ct: np.ndarray, *, shape: Any, window: Sizes, strides: Sizes, padding: Padding) -> np.ndarray:
    ct, sizes = wide(ct), ct.shape[1:-1]
    share = ct / _counts(shape, window, strides, padding, sizes, ct.dtype)
    total = padded(np.zeros(shape, ct.dtype), padding)
    for places in _views(total, window, strides, sizes):
        total[places] += share
    return cropped(total, padding)


# -- batching


def _joined(name: str) -> Any:
    """Batching by joining the new axis and the batch axis."""

    def rule(size: Dim, inputs: Any, batched: Any, **attrs: Any) -> Tensor:
        all_of = [stretch(size, x, b) for x, b in zip(inputs, batched)]
        y = table[name].bind(*(merged(size, x) for x in all_of), **attrs)
        return parted(size, y, all_of[0]._type.shape[1])

    return rule


def _avg_grad_batch(size: Dim, inputs: Any, batched: Any, *, shape: Any, **attrs: Any) -> Tensor:
    whole = (simplify_dim(size * shape[0]), *shape[1:])
    return parted(size, bind.avg_pool_grad(merged(size, inputs[0]), shape=whole, **attrs), shape[0])


# -- ONNX


def _pool_onnx(node: str) -> Any:
    def write(
        e: Any, inputs: Any, outputs: Any, types: Any, *, window: Sizes, strides: Sizes, padding: Padding
    ) -> None:
        rank = len(window)
        x, y = e.temp(), e.temp()
        pads = [low for low, _ in padding] + [high for _, high in padding]
        e.node("Transpose", inputs, [x], perm=[0, rank + 1, *range(1, rank + 1)])
        e.node(node, [x], [y], kernel_shape=list(window), strides=list(strides), pads=pads)
        e.node("Transpose", [y], outputs, perm=[0, *range(2, rank + 2), 1])

    return write


def _node(e: Any, op: str, *inputs: str, **attrs: Any) -> str:
    result = e.temp()
    e.node(op, list(inputs), [result], **attrs)
    return result


def _first(e: Any, name: str, rank: int) -> str:
    return _node(e, "Transpose", name, perm=[0, rank + 1, *range(1, rank + 1)])


def _flat(e: Any, name: str) -> str:
    return _node(e, "Reshape", name, e.const(np.array([-1], np.int64)))


def _winners(e: Any, x: str, window: Sizes, strides: Sizes, padding: Padding) -> str:
    """The place of each window's first largest value in the flattened input, channels first."""
    places = e.temp()
    pads = [low for low, _ in padding] + [high for _, high in padding]
    e.node("MaxPool", [x], [e.temp(), places], kernel_shape=list(window), strides=list(strides), pads=pads)
    return places


def _max_pick_onnx(e: Any, inputs: Any, outputs: Any, types: Any, **attrs: Any) -> None:
    rank = len(attrs["window"])
    places = _winners(e, _first(e, inputs[1], rank), **attrs)
    picked = _node(e, "Gather", _flat(e, _first(e, inputs[0], rank)), places)
    e.node("Transpose", [picked], outputs, perm=[0, *range(2, rank + 2), 1])


def _max_grad_onnx(e: Any, inputs: Any, outputs: Any, types: Any, **attrs: Any) -> None:
    rank, x_type = len(attrs["window"]), types[0][1]
    shape = (x_type.shape[0], x_type.shape[-1], *x_type.shape[1:-1])
    places = _winners(e, _first(e, inputs[1], rank), **attrs)
    dtype, wide_type = types[0][0].dtype, float32 if types[0][0].dtype.size == 2 else types[0][0].dtype
    zero = e.const(np.zeros((), wide_type.np))
    empty = _node(e, "Expand", zero, e.shape((size_of(shape),)))
    updates = e.cast(_flat(e, _first(e, inputs[0], rank)), wide_type)
    filled = _node(e, "ScatterElements", empty, _flat(e, places), updates, axis=0, reduction="add")
    whole = _node(e, "Reshape", e.cast(filled, dtype), e.shape(shape))
    e.node("Transpose", [whole], outputs, perm=[0, *range(2, rank + 2), 1])


def _avg_grad_onnx(
    e: Any, inputs: Any, outputs: Any, types: Any, *, shape: Any, window: Sizes, strides: Sizes, padding: Padding
) -> None:
    """Shares of the cotangent spread by a transposed convolution of ones, channel by channel."""
    rank, ct, depth = len(window), types[0][0], shape[-1]
    counts = _counts(shape, window, strides, padding, ct.shape[1:-1], ct.dtype.np)
    share = _node(e, "Div", inputs[0], e.const(counts.astype(ct.dtype.np)))
    ones = e.const(np.ones((depth, 1, *window), ct.dtype.np))
    rest = [(n + sum(p) - k) % s for n, k, s, p in zip(shape[1:-1], window, strides, padding)]
    pads = [low for low, _ in padding] + [high for _, high in padding]
    spread = _node(
        e, "ConvTranspose", _first(e, share, rank), ones, strides=list(strides), pads=pads, group=depth,
        output_padding=rest,
    )  # fmt: skip
    e.node("Transpose", [spread], outputs, perm=[0, *range(2, rank + 2), 1])


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
    """Values that are all different, by far: a maximum that stays the same under small changes."""
    count = int(np.prod(shape))
    return lambda dtype: np.random.default_rng(seed).permutation(count).reshape(shape).astype(dtype.np)


def _y_shape(case: Any) -> tuple[int, ...]:
    shape, window, strides, padding = case
    return (shape[0], *result_sizes(shape[1:-1], window, strides, padding, _ones(strides)), shape[-1])


def _max_samples() -> list[Sample]:
    exported = (*FLOATING, int8, uint8, int16, uint16, int32)
    made = [Sample((_distinct(i, c[0]),), _attrs(c), exported) for i, c in enumerate(_CASES)]
    case, unknown = _CASES[1], (("n", None, None, None),)
    return [*made, Sample((_distinct(1, case[0]),), _attrs(case), FLOATING, symbolic=unknown)]


def _max_grad_samples() -> list[Sample]:
    return [_max_grad_sample(i, c, _y_shape(c)) for i, c in enumerate(_CASES[:-1])]


def _max_pick_samples() -> list[Sample]:
    return [_max_grad_sample(i, c, c[0]) for i, c in enumerate(_CASES[:-1])]


def _max_grad_sample(i: int, case: Any, shape: Any) -> Sample:
    values = _distinct(i, case[0])
    result = lambda dtype: _max_array(values(dtype), **_attrs(case)).astype(dtype.np)  # noqa: E731
    return Sample((draw(i, shape), values, result), _attrs(case), FLOATING, gradient=(0,))


def _avg_samples() -> list[Sample]:
    made = [Sample((draw(i, c[0]),), _attrs(c), FLOATING) for i, c in enumerate(_CASES)]
    case, unknown = _CASES[1], (("n", None, None, None),)
    return [*made, Sample((draw(1, case[0]),), _attrs(case), FLOATING, symbolic=unknown)]


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
    """The largest value in each window of ``x`` (n, *spatial, channels); NaN wins, padding never does."""
    return (x,), {"window": window, "strides": strides, "padding": padding}


@primitive(
    type=_max_grad_type,
    numpy=_max_grad_array,
    lower=kernel("nn.max_pool_grad"),
    vjp=lambda c, g, ct, x, y, **attrs: (
        bind.max_pool_pick(c, x, y, **attrs),
        partial(zeros_like, x),
        partial(zeros_like, y),
    ),
    batch=_joined("max_pool_grad"),
    samples=_max_grad_samples,
    onnx=_max_grad_onnx,
    heavy="always",
)
def max_pool_grad(ct: Tensor, x: Tensor, y: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """Each window's cotangent at its first largest value: shapes of y, x, y to that of x."""
    return (ct, x, y), {"window": window, "strides": strides, "padding": padding}


@primitive(
    tf_name="MaxPoolGradGrad",
    type=_max_pick_type,
    numpy=_max_pick_array,
    lower=kernel("nn.max_pool_pick"),
    vjp=lambda ct, g, c, x, y, **attrs: (
        bind.max_pool_grad(ct, x, y, **attrs),
        partial(zeros_like, x),
        partial(zeros_like, y),
    ),
    batch=_joined("max_pool_pick"),
    samples=_max_pick_samples,
    onnx=_max_pick_onnx,
    heavy="always",
)
def max_pool_pick(c: Tensor, x: Tensor, y: Tensor, window: Sizes, strides: Sizes, padding: Padding) -> Any:
    """The value of ``c`` (shape of x) where each window of x has its first largest value: shape of y."""
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
    """The mean of each window of ``x`` (n, *spatial, channels), padding left out."""
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
    """Each window's cotangent shared by its values: the cotangent of ``avg_pool``'s input of that ``shape``."""
    return (ct,), {"shape": shape, "window": window, "strides": strides, "padding": padding}
