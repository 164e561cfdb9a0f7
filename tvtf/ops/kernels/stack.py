"""TE kernels of stacks. Compiled loops run ``write`` and ``add`` in place: see passes/lower/inplace_stack.py."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels.indexing import segment_sum


def new(*, shape: tuple[Any, ...], dtype: str) -> te.Tensor:
    return te.compute(shape, lambda *_: tirx.const(0, dtype), name="stack")


def read(buffer: te.Tensor, index: te.Tensor) -> te.Tensor:
    row = index().astype("int64")
    return te.compute(buffer.shape[1:], lambda *i: buffer(row, *i), name="read")


def write(buffer: te.Tensor, index: te.Tensor, value: te.Tensor) -> te.Tensor:
    """Replaces the row of a buffer at an index."""
    return _changed(buffer, index, lambda old, *i: value(*i))


def add(buffer: te.Tensor, index: te.Tensor, value: te.Tensor) -> te.Tensor:
    """Adds to the row of a buffer at an index."""
    return _changed(buffer, index, lambda old, *i: old + value(*i))


def add_rows(buffer: te.Tensor, places: te.Tensor, values: te.Tensor) -> te.Tensor:
    """Adds each row of ``values`` to the row of a buffer at the index in ``places``; negative indices are skipped."""
    sums = segment_sum(values, places, num_segments=buffer.shape[0])
    return te.compute(buffer.shape, lambda *i: buffer(*i) + sums(*i).astype(buffer.dtype), name="changed")


def _changed(buffer: te.Tensor, index: te.Tensor, change: Any) -> te.Tensor:
    """Returns a copy of ``buffer`` with one changed row: the row at ``index``.

    ``change(old, *rest)`` computes a new element from the old one and its index in the row.
    """
    row = index().astype("int64")

    def element(i: Any, *rest: Any) -> Any:
        old = buffer(i, *rest)
        return tirx.Select(tirx.EQ(i, row), change(old, *rest), old)

    return te.compute(buffer.shape, element, name="changed")


def length(count: te.Tensor) -> te.Tensor:
    """Converts a scalar to an int64 vector of one element, from which the compiler binds a symbolic dim."""
    return te.compute((1,), lambda _: count().astype("int64"), name="length")
