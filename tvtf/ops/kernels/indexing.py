"""TE kernels that read and write at computed places; every index is clamped, so that bad data can't reach other memory."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels.common import accumulator_dtype, compute, long
from tvtf.ops.kernels.reduce import narrowed


def clamped(index: Any, extent: Any) -> Any:
    """An index as int64 within [0, extent)."""
    return tirx.max(tirx.min(index.astype("int64"), long(extent) - 1), long(0))


def gather(params: te.Tensor, indices: te.Tensor, *, axis: int, batch_dims: int) -> te.Tensor:
    count = len(indices.shape) - batch_dims
    extents = [*params.shape[:axis], *list(indices.shape)[batch_dims:], *list(params.shape)[axis + 1 :]]

    def element(*i: Any) -> Any:
        found = indices(*i[:batch_dims], *i[axis : axis + count])
        return params(*i[:axis], clamped(found, params.shape[axis]), *i[axis + count :])

    return compute(extents, element, "gather")


def _start(x_extent: Any, size: Any, start: te.Tensor, wrap: bool) -> Any:
    at = start().astype("int64")
    if wrap:
        at = tirx.Select(at < 0, at + long(x_extent), at)
    return tirx.max(tirx.min(at, long(x_extent) - long(size)), long(0))


def dynamic_slice(
    x: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], sizes: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    extents = list(x.shape)
    first = {}
    for axis, size, start in zip(axes, sizes, starts):
        first[axis] = _start(x.shape[axis], size, start, wrap)
        extents[axis] = size
    return compute(extents, lambda *i: x(*(at + first[a] if a in first else at for a, at in enumerate(i))), "window")


def dynamic_slice_grad(
    ct: te.Tensor, *starts: te.Tensor, axes: tuple[int, ...], extents: tuple[Any, ...], wrap: bool
) -> te.Tensor:
    whole = list(ct.shape)
    first = {}
    for axis, extent, start in zip(axes, extents, starts):
        first[axis] = _start(extent, ct.shape[axis], start, wrap)
        whole[axis] = extent

    def element(*i: Any) -> Any:
        source = [at - first[a] if a in first else at for a, at in enumerate(i)]
        inside = [tirx.all(source[a] >= 0, source[a] < ct.shape[a]) for a in first]
        return tirx.if_then_else(tirx.all(*inside), ct(*source), tirx.const(0, ct.dtype))

    return compute(whole, element, "window_grad")


# -- scatter: loops that write where the index says; rows in parallel would race, the elements of a row don't


def _flat(buffer: Any) -> Any:
    return T.buffer_proxy(buffer)


def _product(extents: Any) -> Any:
    total = long(1)
    for extent in extents:
        total = total * long(extent)
    return total


def segment(data: te.Tensor, ids: te.Tensor, num_segments: Any, empty: Any, combine: Any) -> te.Tensor:
    """Rows of ``data`` combined into the row that ``ids`` names; ids out of range are left out."""
    rank = len(ids.shape)
    rest = list(data.shape)[rank:]
    wide = accumulator_dtype(str(data.dtype))
    count, inner = _product(ids.shape), _product(rest)

    def body(ins: Any, outs: Any) -> Any:
        with IRBuilder() as builder:
            rows, places, out = _flat(ins[0]), _flat(ins[1]), _flat(outs[0])
            with T.seq_scope():
                with T.serial(long(0), long(num_segments) * inner) as i:
                    out[i] = tirx.const(empty, wide)
                with T.serial(long(0), count) as i:
                    place = places[i].astype("int64")
                    with T.If(tirx.all(place >= 0, place < long(num_segments))), T.Then():
                        with T.serial(long(0), inner) as j:
                            row = rows[i * inner + j]
                            old = out[place * inner + j]
                            out[place * inner + j] = combine(old, row if str(data.dtype) == wide else row.astype(wide))
            return builder.get()

    shape = [long(num_segments), *rest]
    return narrowed(te.extern([shape], [data, ids], body, name="segment", dtype=wide), str(data.dtype))


def segment_sum(data: te.Tensor, ids: te.Tensor, *, num_segments: Any) -> te.Tensor:
    return segment(data, ids, num_segments, 0, lambda old, new: old + new)
