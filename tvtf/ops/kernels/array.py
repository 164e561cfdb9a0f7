"""TE kernels of shape and layout ops, which are index arithmetic only."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import Any

from tvm import te, tirx, topi
from tvm.target import Target

from tvtf.core.shape import is_static_shape, same_dim
from tvtf.ops.array import filled
from tvtf.ops.extents import ADDRESSABLE
from tvtf.ops.kernels.common import accumulator_dtype, compute, floating, long, unravelled
from tvtf.ops.kernels.scalar import broadcast_index, dims


def reshape(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    new_shape, old_shape = filled(dims(x), shape), dims(x)
    if is_static_shape((*new_shape, *old_shape)):
        return topi.reshape(x, tuple(map(long, new_shape)))
    return compute(new_shape, lambda *i: x(*_index_before(i, new_shape, old_shape)), "T_reshape")


def _index_before(index: Sequence[Any], shape: Sequence[Any], before: Sequence[Any]) -> list[Any]:
    """Returns the index that an element of a reshaped tensor had before.

    Dims that both shapes begin or end with keep their index. Only those between are flattened and split again, by
    divisions that cost LLVM minutes where many dims are symbolic.
    """
    places = [(i, d) for i, d in zip(index, shape) if not same_dim(d, 1)]
    sizes = [d for d in before if not same_dim(d, 1)]
    head = _shared([d for _, d in places], sizes)
    tail = _shared([d for _, d in places[head:]][::-1], sizes[head:][::-1])
    between = slice(head, len(places) - tail), slice(head, len(sizes) - tail)
    split_indices = unravelled(_ravelled(*zip(*places[between[0]])), sizes[between[1]]) if sizes[between[1]] else []
    indices = iter([i for i, _ in places[:head]] + split_indices + [i for i, _ in places[len(places) - tail :]])
    return [long(0) if same_dim(d, 1) else next(indices) for d in before]


def _shared(these: Sequence[Any], those: Sequence[Any]) -> int:
    """Returns how many leading dims two shapes have in common."""
    return next((n for n, (a, b) in enumerate(zip(these, those)) if not same_dim(a, b)), min(len(these), len(those)))


def _ravelled(index: Sequence[Any] = (), shape: Sequence[Any] = ()) -> Any:
    flat = tirx.const(0, "int64")
    for i, extent in zip(index, shape):
        flat = flat * long(extent) + long(i)
    return flat


def broadcast_to(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    return compute(shape, lambda *i: x(*_repeated_index(x, i, shape)), "broadcast")


def _repeated_index(x: te.Tensor, index: Sequence[Any], wide: Sequence[Any]) -> list[Any]:
    """Returns ``broadcast_index``, with the index of a symbolic dim multiplied by whether that isn't 1."""
    lead = len(wide) - len(x.shape)
    return [
        i if isinstance(d, int) or isinstance(i, int) or same_dim(d, w) else i * tirx.NE(d, long(1)).astype("int64")
        for d, w, i in zip(dims(x), wide[lead:], broadcast_index(x, index, wide))
    ]


def common_dims(*inputs: te.Tensor) -> te.Tensor:
    """Returns the dims that the inputs' shapes broadcast to: in each axis the last that is not 1."""
    shapes = [dims(x) for x in inputs]
    rank = max(map(len, shapes))
    columns = ([s[a - rank + len(s)] for s in shapes if a >= rank - len(s)] for a in range(rank))
    return vector([functools.reduce(_last_but_one, map(long, column)) for column in columns], "int64")


def _last_but_one(a: Any, b: Any) -> Any:
    return tirx.Select(tirx.EQ(b, long(1)), a, b)


def transpose(x: te.Tensor, *, perm: tuple[int, ...]) -> te.Tensor:
    extents = [x.shape[p] for p in perm]
    place = {axis: position for position, axis in enumerate(perm)}
    return compute(extents, lambda *i: x(*(i[place[axis]] for axis in range(len(perm)))), "transpose")


def shape(x: te.Tensor, *, dtype: str) -> te.Tensor:
    return dims_vector(dims=tuple(dims(x)), dtype=dtype)


def dims_vector(*, dims: tuple[Any, ...], dtype: str) -> te.Tensor:
    return vector([tirx.Cast(dtype, long(d)) for d in dims], dtype)


def dims_fit(*, dims: tuple[Any, ...], most: int) -> te.Tensor:
    fits = [floating(long(d)) < tirx.FloatImm("float64", float(most + 1)) for d in dims]
    return compute((), lambda: functools.reduce(tirx.And, fits, tirx.const(True, "bool")), "fits")


def vector(values: Sequence[Any], dtype: str) -> te.Tensor:
    """Returns a vector of scalar expressions."""

    def element(i: Any) -> Any:
        chosen = tirx.const(0, dtype)
        for position, value in enumerate(values):
            chosen = tirx.Select(i == position, value, chosen)
        return chosen

    return compute((len(values),), element, "vector")


LITTLE = 1 << 28
"""Bytes up to which the machine's memory is not queried."""
SPARE = 4.0
"""Multiples of the machine's memory that are allowed: results of fused kernels are never stored whole."""


def memory_fits(*, sizes: tuple[Any, ...]) -> te.Tensor:
    fits = [_fits(floating(long(size))) for size in sizes]
    return compute((), lambda: functools.reduce(tirx.And, fits, tirx.const(True, "bool")), "fits")


def _fits(size: Any) -> Any:
    is_little = size < tirx.FloatImm("float64", float(LITTLE))
    return tirx.Or(is_little, size < _most_bytes())


def _most_bytes() -> Any:
    """Returns SPARE times the machine's memory, or on a GPU, whose code can't call sysconf, what is addressable."""
    most = tirx.FloatImm("float64", float(ADDRESSABLE))
    target = Target.current(allow_none=True)
    pages = os.sysconf_names.get("SC_PHYS_PAGES")
    if pages is None or target is None or "gpu" in target.keys:
        return most
    page_count = tirx.call_extern("int64", "sysconf", tirx.IntImm("int32", pages))
    size = tirx.Cast("float64", page_count) * tirx.FloatImm("float64", SPARE * os.sysconf("SC_PAGE_SIZE"))
    return tirx.Select(page_count > tirx.IntImm("int64", 0), tirx.Min(size, most), most)


def concat(*parts: te.Tensor, axis: int) -> te.Tensor:
    """Joins ``parts`` along ``axis``: an element's position on it decides which part it comes from."""
    offsets = _offsets([p.shape[axis] for p in parts])
    extents = list(parts[0].shape)
    extents[axis] = offsets[-1]

    def element(*i: Any) -> Any:
        def of(part: int) -> Any:
            return parts[part](*i[:axis], i[axis] - offsets[part], *i[axis + 1 :])

        return choose(i[axis], offsets, 0, len(parts), of)

    return compute(extents, element, "concat")


def stack(*parts: te.Tensor, axis: int) -> te.Tensor:
    """Joins ``parts`` along a new axis: an element's position on it is the number of its part."""
    extents = [*parts[0].shape]
    extents.insert(axis, len(parts))
    bounds = list(range(len(parts) + 1))
    return compute(
        extents,
        lambda *i: choose(i[axis], bounds, 0, len(parts), lambda part: parts[part](*i[:axis], *i[axis + 1 :])),
        "stack",
    )


def _offsets(sizes: Sequence[Any]) -> list[Any]:
    offsets = [long(0)]
    for size in sizes:
        offsets.append(offsets[-1] + long(size))
    return offsets


def choose(index: Any, bounds: Sequence[Any], low: int, high: int, of: Any) -> Any:
    """Returns ``of(part)`` for the part whose [bounds[part], bounds[part + 1]) holds ``index``, by bisection."""
    if high - low == 1:
        return of(low)
    middle = (low + high) // 2
    left, right = choose(index, bounds, low, middle, of), choose(index, bounds, middle, high, of)
    return tirx.if_then_else(index < bounds[middle], left, right)


def when(conditions: Sequence[Any], value: Any, other: Any) -> Any:
    """Reads ``value`` only where all conditions hold, else ``other``.

    A bfloat16 goes by way of float32, for TVM's code for it is wrong.
    """
    if str(value.ty.dtype) != "bfloat16":
        return tirx.if_then_else(tirx.all(*conditions), value, other)
    wide = tirx.if_then_else(tirx.all(*conditions), value.astype("float32"), other.astype("float32"))
    return wide.astype("bfloat16")


def strided_slice(
    x: te.Tensor, *, begin: tuple[Any, ...], size: tuple[Any, ...], strides: tuple[int, ...], checked: tuple[int, ...]
) -> te.Tensor:
    return compute(size, lambda *i: x(*(long(b) + at * s for b, s, at in zip(begin, strides, i))), "strided_slice")


def strided_slice_grad(
    ct: te.Tensor, *, shape: tuple[Any, ...], begin: tuple[Any, ...], strides: tuple[int, ...]
) -> te.Tensor:
    """Returns zeros of ``shape`` with ``ct`` where the slice was taken."""

    def element(*i: Any) -> Any:
        """Reads the cotangent that belongs to an element of the input; elements outside of the slice get zero."""
        away = [(at - long(b)) * (1 if s > 0 else -1) for at, b, s in zip(i, begin, strides)]
        steps = [abs(s) for s in strides]
        inside = []
        for distance, step, extent, size in zip(away, steps, ct.shape, shape):
            if step == 1 and str(extent) == str(long(size)):
                continue
            inside += [distance >= 0, distance < long(extent) * step]
            inside += [tirx.floormod(distance, long(step)) == 0] if step > 1 else []
        source = ct(*(d if s == 1 else tirx.floordiv(d, long(s)) for d, s in zip(away, steps)))
        return when(inside, source, tirx.const(0, ct.dtype)) if inside else source

    return compute(shape, element, "strided_slice_grad")


def split(x: te.Tensor, *, sizes: tuple[Any, ...], axis: int) -> list[te.Tensor]:
    offsets = _offsets(sizes)
    return [_part(x, offset, size, axis) for offset, size in zip(offsets, sizes)]


def _part(x: te.Tensor, offset: Any, size: Any, axis: int) -> te.Tensor:
    """Returns the ``size`` elements from ``offset`` on along ``axis``."""
    extents = [*x.shape]
    extents[axis] = size
    return compute(extents, lambda *i: x(*i[:axis], i[axis] + offset, *i[axis + 1 :]), "part")


def arithmetic(*, size: Any, start: Any, delta: Any, dtype: str) -> te.Tensor:
    """Computes ``start + i * delta`` for ``i`` below ``size``, in int64 or the accumulation dtype."""
    wide = "int64" if "int" in dtype else accumulator_dtype(dtype)

    def element(i: Any) -> Any:
        first = tirx.const(start, wide) if isinstance(start, (int, float)) else start.astype(wide)
        return (first + i.astype(wide) * tirx.const(delta, wide)).astype(dtype)

    return compute((size,), element, "range")


def one_hot(indices: te.Tensor, on: te.Tensor, off: te.Tensor, *, depth: Any, axis: int) -> te.Tensor:
    """Writes ``on`` where the position on the new ``axis`` is the index, else ``off``."""
    extents = [*indices.shape]
    extents.insert(axis, depth)

    def element(*i: Any) -> Any:
        index = indices(*i[:axis], *i[axis + 1 :]).astype("int64")
        return tirx.Select(index == i[axis], on(), off())

    return compute(extents, element, "one_hot")


def ensure_shape(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    return compute(shape, lambda *i: x(*i), "ensure_shape")


def pad(x: te.Tensor, value: te.Tensor, *, paddings: tuple[tuple[Any, Any], ...]) -> te.Tensor:
    """Surrounds ``x`` with ``value``, ``(before, after)`` elements per axis; negative counts remove elements."""
    extents = [long(d) + long(low) + long(high) for d, (low, high) in zip(x.shape, paddings)]

    def element(*i: Any) -> Any:
        source = [at - long(low) for at, (low, _) in zip(i, paddings)]
        inside = []
        for at, extent, (low, high) in zip(source, x.shape, paddings):
            inside += [] if isinstance(low, int) and low == 0 else [at >= 0]
            inside += [] if isinstance(high, int) and high == 0 else [at < extent]
        return when(inside, x(*source), value()) if inside else x(*source)

    return compute(extents, element, "pad")


def tile(x: te.Tensor, *, multiples: tuple[Any, ...]) -> te.Tensor:
    """Repeats ``x`` along each axis; an axis repeated once is read without a remainder."""
    extents = [long(d) * long(m) for d, m in zip(x.shape, multiples)]
    is_single = [isinstance(m, int) and m == 1 for m in multiples]
    return compute(
        extents,
        lambda *i: x(*(at if single else tirx.floormod(at, d) for at, d, single in zip(i, x.shape, is_single))),
        "tile",
    )


def band_part(x: te.Tensor, *, lower: int, upper: int) -> te.Tensor:
    def element(*i: Any) -> Any:
        below, above = i[-2] - i[-1], i[-1] - i[-2]
        in_band = tirx.all(*([below <= lower] if lower >= 0 else []), *([above <= upper] if upper >= 0 else []))
        return tirx.Select(in_band, x(*i), tirx.const(0, x.dtype))

    return compute(x.shape, element, "band_part") if lower >= 0 or upper >= 0 else compute(x.shape, x, "band_part")
