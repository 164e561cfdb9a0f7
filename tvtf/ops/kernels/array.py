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
    """Reshapes a tensor: computes each element's index in ``x``. A -1 in ``shape`` is replaced by the missing dim."""
    new_shape = filled(dims(x), shape)
    old_shape = dims(x)
    if is_static_shape((*new_shape, *old_shape)):
        return topi.reshape(x, tuple(map(long, new_shape)))
    return compute(new_shape, lambda *i: x(*_source_index(i, new_shape, old_shape)), "T_reshape")


def _source_index(index: Sequence[Any], shape: Sequence[Any], old_shape: Sequence[Any]) -> list[Any]:
    """Converts an index of a reshaped tensor of the shape ``shape`` to the index in the shape before, ``old_shape``.

    Leading and trailing dims that both shapes have keep their index. Only the dims between are flattened and split
    again, because divisions by many symbolic dims cost LLVM minutes. Dims of 1 don't matter.
    """
    new_indices = [i for i, dim in zip(index, shape) if not same_dim(dim, 1)]
    new_dims = [dim for dim in shape if not same_dim(dim, 1)]
    old_dims = [dim for dim in old_shape if not same_dim(dim, 1)]
    prefix = _common_prefix_length(new_dims, old_dims)
    suffix = _common_prefix_length(new_dims[prefix:][::-1], old_dims[prefix:][::-1])
    new_end = len(new_dims) - suffix
    old_end = len(old_dims) - suffix
    split_indices: list[Any] = []
    if prefix < old_end:
        flat_index = _flat_index(new_indices[prefix:new_end], new_dims[prefix:new_end])
        split_indices = unravelled(flat_index, old_dims[prefix:old_end])
    old_indices = iter([*new_indices[:prefix], *split_indices, *new_indices[new_end:]])
    return [long(0) if same_dim(dim, 1) else next(old_indices) for dim in old_shape]


def _common_prefix_length(dims: Sequence[Any], others: Sequence[Any]) -> int:
    """Returns how many leading dims two shapes have in common."""
    return next(
        (count for count, (dim, other) in enumerate(zip(dims, others)) if not same_dim(dim, other)),
        min(len(dims), len(others)),
    )


def _flat_index(index: Sequence[Any] = (), shape: Sequence[Any] = ()) -> Any:
    """Returns the flat (row-major) index of the element at an index vector."""
    flat = tirx.const(0, "int64")
    for i, extent in zip(index, shape):
        flat = flat * long(extent) + long(i)
    return flat


def broadcast_to(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    """Reads each element of the broadcast tensor from the input, at index 0 of its axes of size 1."""
    return compute(shape, lambda *i: x(*_broadcast_index_at_run_time(x, i, shape)), "broadcast")


def _broadcast_index_at_run_time(x: te.Tensor, index: Sequence[Any], result_shape: Sequence[Any]) -> list[Any]:
    """Converts an index of a broadcast result to the index in the operand ``x``, which may have symbolic dims.

    Whether a symbolic dim is broadcast is only known at run time. So its index is multiplied by ``dim != 1``.
    """
    new_axis_count = len(result_shape) - len(x.shape)
    x_index = list(broadcast_index(x, index, result_shape))
    for axis, (dim, result_dim) in enumerate(zip(dims(x), result_shape[new_axis_count:])):
        is_decided = isinstance(dim, int) or isinstance(x_index[axis], int) or same_dim(dim, result_dim)
        if not is_decided:
            x_index[axis] = x_index[axis] * tirx.NE(dim, long(1)).astype("int64")
    return x_index


def common_dims(*inputs: te.Tensor) -> te.Tensor:
    """Computes the shape to which the inputs' shapes broadcast, as an int64 vector.

    Each dim is the last of the inputs' dims that is not 1. For example, (2, 1) and (3,) give [2, 3].
    """
    shapes = [dims(x) for x in inputs]
    rank = max(map(len, shapes))
    result_dims: list[Any] = []
    for axis_from_end in range(rank, 0, -1):  # shapes are aligned at their last axes
        dims_along_axis = [long(shape[-axis_from_end]) for shape in shapes if axis_from_end <= len(shape)]
        result_dims.append(functools.reduce(_last_not_one, dims_along_axis))
    return vector(result_dims, "int64")


def _last_not_one(a: Any, b: Any) -> Any:
    """Returns the dim ``b``, or ``a`` where ``b`` is 1."""
    return tirx.Select(tirx.EQ(b, long(1)), a, b)


def transpose(x: te.Tensor, *, perm: tuple[int, ...]) -> te.Tensor:
    """Permutes the axes of ``x``: axis i of the result is axis ``perm[i]`` of ``x``."""
    extents = [x.shape[axis] for axis in perm]
    position_of_axis = {axis: position for position, axis in enumerate(perm)}
    return compute(extents, lambda *i: x(*(i[position_of_axis[axis]] for axis in range(len(perm)))), "transpose")


def shape(x: te.Tensor, *, dtype: str) -> te.Tensor:
    return dims_vector(dims=tuple(dims(x)), dtype=dtype)


def dims_vector(*, dims: tuple[Any, ...], dtype: str) -> te.Tensor:
    """Converts dims, which may be symbolic, to a vector that holds their values at run time."""
    return vector([tirx.Cast(dtype, long(dim)) for dim in dims], dtype)


def dims_fit(*, dims: tuple[Any, ...], most: int) -> te.Tensor:
    """Computes whether all dims are at most ``most``, as a bool scalar; in float64, which doesn't wrap around."""
    fits = [floating(long(dim)) < tirx.FloatImm("float64", float(most + 1)) for dim in dims]
    return compute((), lambda: functools.reduce(tirx.And, fits, tirx.const(True, "bool")), "fits")


def dims_equal(*, dims: tuple[Any, Any]) -> te.Tensor:
    """Computes whether two dims are equal, as a bool scalar."""
    return compute((), lambda: long(dims[0]) == long(dims[1]), "dims_equal")


def vector(values: Sequence[Any], dtype: str) -> te.Tensor:
    """Returns a vector whose elements are the scalar expressions ``values``."""

    def element(i: Any) -> Any:
        result = tirx.const(0, dtype)
        for position, value in enumerate(values):
            result = tirx.Select(i == position, value, result)
        return result

    return compute((len(values),), element, "vector")


LITTLE = 1 << 28
"""Bytes up to which the machine's memory is not queried."""
SPARE = 4.0
"""Multiples of the machine's memory that are allowed: results of fused kernels are never stored whole."""


def memory_fits(*, sizes: tuple[Any, ...]) -> te.Tensor:
    """Computes whether tensors of these sizes in bytes fit into the machine's memory, as a bool scalar.

    Sizes are compared in float64, in which large products don't wrap around.
    """
    fits = [_fits(floating(long(size))) for size in sizes]
    return compute((), lambda: functools.reduce(tirx.And, fits, tirx.const(True, "bool")), "fits")


def _fits(size: Any) -> Any:
    """Returns whether a tensor of ``size`` bytes fits into memory; for a small size the machine isn't queried."""
    is_little = size < tirx.FloatImm("float64", float(LITTLE))
    return tirx.Or(is_little, size < _most_bytes())


def _most_bytes() -> Any:
    """Returns the largest allowed size of a tensor in bytes: SPARE times the machine's memory.

    On a GPU it is the addressable memory, because the GPU's code can't call sysconf.
    """
    limit = tirx.FloatImm("float64", float(ADDRESSABLE))
    target = Target.current(allow_none=True)
    pages = os.sysconf_names.get("SC_PHYS_PAGES")
    if pages is None or target is None or "gpu" in target.keys:
        return limit
    page_count = tirx.call_extern("int64", "sysconf", tirx.IntImm("int32", pages))
    size = tirx.Cast("float64", page_count) * tirx.FloatImm("float64", SPARE * os.sysconf("SC_PAGE_SIZE"))
    # sysconf returns -1 if it doesn't know
    return tirx.Select(page_count > tirx.IntImm("int64", 0), tirx.Min(size, limit), limit)


def concat(*parts: te.Tensor, axis: int) -> te.Tensor:
    """Concatenates the tensors ``parts`` along ``axis``.

    The position of an element on the axis determines the part to read from.
    """
    offsets = _offsets([part.shape[axis] for part in parts])
    extents = list(parts[0].shape)
    extents[axis] = offsets[-1]

    def element(*index: Any) -> Any:
        def read(part: int) -> Any:
            return parts[part](*index[:axis], index[axis] - offsets[part], *index[axis + 1 :])

        return choose(index[axis], offsets, 0, len(parts), read)

    return compute(extents, element, "concat")


def stack(*parts: te.Tensor, axis: int) -> te.Tensor:
    """Stacks the tensors ``parts`` along a new axis. An element's position on the axis is the index of its part."""
    extents = [*parts[0].shape]
    extents.insert(axis, len(parts))
    bounds = list(range(len(parts) + 1))  # each part has one position on the axis

    def element(*index: Any) -> Any:
        def read(part: int) -> Any:
            return parts[part](*index[:axis], *index[axis + 1 :])

        return choose(index[axis], bounds, 0, len(parts), read)

    return compute(extents, element, "stack")


def _offsets(sizes: Sequence[Any]) -> list[Any]:
    """Returns where each part of a concatenation begins along its axis, and where the last one ends."""
    offsets = [long(0)]
    for size in sizes:
        offsets.append(offsets[-1] + long(size))
    return offsets


def choose(index: Any, bounds: Sequence[Any], low: int, high: int, value_of: Any) -> Any:
    """Emits a binary search for the part of a concatenation that contains ``index``, and returns ``value_of(part)``.

    Part number p contains the positions from ``bounds[p]`` up to, but without, ``bounds[p + 1]``. Only parts from
    ``low`` up to, but without, ``high`` are searched.
    """
    if high - low == 1:
        return value_of(low)
    middle = (low + high) // 2
    left = choose(index, bounds, low, middle, value_of)
    right = choose(index, bounds, middle, high, value_of)
    return tirx.if_then_else(index < bounds[middle], left, right)


def when(conditions: Sequence[Any], value: Any, otherwise: Any) -> Any:
    """Returns ``value`` if all conditions hold, else ``otherwise``. Only the chosen expression is evaluated.

    bfloat16 values are selected in float32, because TVM generates wrong code for a choice of bfloat16.
    """
    if str(value.ty.dtype) != "bfloat16":
        return tirx.if_then_else(tirx.all(*conditions), value, otherwise)
    selected = tirx.if_then_else(tirx.all(*conditions), value.astype("float32"), otherwise.astype("float32"))
    return selected.astype("bfloat16")


def strided_slice(
    x: te.Tensor, *, begin: tuple[Any, ...], size: tuple[Any, ...], strides: tuple[int, ...], checked: tuple[int, ...]
) -> te.Tensor:
    return compute(size, lambda *i: x(*(long(b) + at * s for b, s, at in zip(begin, strides, i))), "strided_slice")


def strided_slice_grad(
    cotangent: te.Tensor, *, shape: tuple[Any, ...], begin: tuple[Any, ...], strides: tuple[int, ...]
) -> te.Tensor:
    """Computes the gradient of a strided slice: zeros of ``shape``, with the cotangent at the slice's positions.

    Args:
      cotangent: the cotangent of the slice.
      shape: the shape of the slice's input, and of the result.
      begin, strides: the slice's first index and step along each axis.
    """

    def element(*i: Any) -> Any:
        """Computes the cotangent of an element of a strided slice's input. It is zero outside the slice."""
        cotangent_index = []
        is_in_slice = []  # conditions, which all hold if the slice contains the element
        for position, first, stride, cotangent_extent, size in zip(i, begin, strides, cotangent.shape, shape):
            distance = position - long(first) if stride > 0 else (position - long(first)) * -1
            step = abs(stride)
            cotangent_index.append(distance if step == 1 else tirx.floordiv(distance, long(step)))
            takes_full_axis = step == 1 and str(cotangent_extent) == str(long(size))
            if takes_full_axis:
                continue
            is_in_slice += [distance >= 0, distance < long(cotangent_extent) * step]
            if step > 1:
                is_in_slice.append(tirx.floormod(distance, long(step)) == 0)
        cotangent_element = cotangent(*cotangent_index)
        if not is_in_slice:  # the slice is the whole tensor
            return cotangent_element
        return when(is_in_slice, cotangent_element, tirx.const(0, cotangent.dtype))

    return compute(shape, element, "strided_slice_grad")


def split(x: te.Tensor, *, sizes: tuple[Any, ...], axis: int) -> list[te.Tensor]:
    offsets = _offsets(sizes)
    return [_part(x, offset, size, axis) for offset, size in zip(offsets, sizes)]


def _part(x: te.Tensor, offset: Any, size: Any, axis: int) -> te.Tensor:
    """Copies one part of a split: the ``size`` elements starting at ``offset`` along ``axis``."""
    extents = [*x.shape]
    extents[axis] = size
    return compute(extents, lambda *i: x(*i[:axis], i[axis] + offset, *i[axis + 1 :]), "part")


def arithmetic(*, size: Any, start: Any, delta: Any, dtype: str) -> te.Tensor:
    """Computes the vector of ``start + i * delta`` for ``i`` below ``size``.

    Integers are computed in int64, and 16-bit floats in float32, before the cast to ``dtype``.
    """
    computed_dtype = "int64" if "int" in dtype else accumulator_dtype(dtype)

    def element(i: Any) -> Any:
        is_constant = isinstance(start, (int, float))
        first = tirx.const(start, computed_dtype) if is_constant else start.astype(computed_dtype)
        distance = i.astype(computed_dtype) * tirx.const(delta, computed_dtype)
        return (first + distance).astype(dtype)

    return compute((size,), element, "range")


def one_hot(indices: te.Tensor, on: te.Tensor, off: te.Tensor, *, depth: Any, axis: int) -> te.Tensor:
    """Computes one-hot vectors along a new ``axis``: ``on`` at the position ``indices``, ``off`` elsewhere.

    ``depth`` is the length of the vectors.
    """
    extents = [*indices.shape]
    extents.insert(axis, depth)

    def element(*i: Any) -> Any:
        index = indices(*i[:axis], *i[axis + 1 :]).astype("int64")
        return tirx.Select(index == i[axis], on(), off())

    return compute(extents, element, "one_hot")


def ensure_shape(x: te.Tensor, *, shape: tuple[Any, ...]) -> te.Tensor:
    return compute(shape, lambda *i: x(*i), "ensure_shape")


def pad(x: te.Tensor, value: te.Tensor, *, paddings: tuple[tuple[Any, Any], ...]) -> te.Tensor:
    """Pads ``x`` with the scalar ``value``. ``paddings`` has the counts ``(before, after)`` for each axis.

    Negative counts remove elements.
    """
    extents = [long(dim) + long(before) + long(after) for dim, (before, after) in zip(x.shape, paddings)]

    def is_zero(count: Any) -> bool:
        return isinstance(count, int) and count == 0

    def element(*i: Any) -> Any:
        """Reads the element of the padded tensor at an index, or the padding's value."""
        source_index = [position - long(before) for position, (before, _after) in zip(i, paddings)]
        is_inside = []  # conditions; an axis without padding needs none
        for position, extent, (before, after) in zip(source_index, x.shape, paddings):
            if not is_zero(before):
                is_inside.append(position >= 0)
            if not is_zero(after):
                is_inside.append(position < extent)
        return when(is_inside, x(*source_index), value()) if is_inside else x(*source_index)

    return compute(extents, element, "pad")


def tile(x: te.Tensor, *, multiples: tuple[Any, ...]) -> te.Tensor:
    """Repeats ``x`` ``multiples[i]`` times along axis i: reads the element at the index modulo the extent."""

    def element(*index: Any) -> Any:
        x_index = []
        for position, extent, count in zip(index, x.shape, multiples):
            is_single_copy = isinstance(count, int) and count == 1
            x_index.append(position if is_single_copy else tirx.floormod(position, extent))
        return x(*x_index)

    extents = [long(extent) * long(count) for extent, count in zip(x.shape, multiples)]
    return compute(extents, element, "tile")


def band_part(x: te.Tensor, *, lower: int, upper: int) -> te.Tensor:
    """Copies a band of each matrix, and sets other elements to zero.

    The band has ``lower`` diagonals below the main diagonal and ``upper`` above it. -1 means all on that side.
    """
    if lower < 0 and upper < 0:
        return compute(x.shape, x, "band_part")

    def element(*i: Any) -> Any:
        """Reads an element of the matrix inside the band; elements outside are zero."""
        *_batch, row, column = i
        is_in_band = []
        if lower >= 0:
            is_in_band.append(row - column <= lower)
        if upper >= 0:
            is_in_band.append(column - row <= upper)
        return tirx.Select(tirx.all(*is_in_band), x(*i), tirx.const(0, x.dtype))

    return compute(x.shape, element, "band_part")
