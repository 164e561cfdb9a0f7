"""Reinterpretation of bits between dtypes of any width."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tvm import te, tirx

from tvtf.dtypes import as_dtype
from tvtf.ops.kernels.scalar import dims


def bitcast(x: te.Tensor, *, dtype: str) -> te.Tensor:
    """See ``tvtf.ops.cast.bitcast``; a wide element's parts come lowest first."""
    source, target = as_dtype(str(x.dtype)).size, as_dtype(dtype).size
    if source == target:
        return te.compute(dims(x), lambda *index: _as(x(*index), dtype), name="bitcast")
    return _split(x, dtype, source // target) if source > target else _joined(x, dtype, target // source)


def _as(value: Any, dtype: str) -> Any:
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def _unsigned(size: int) -> str:
    return f"uint{8 * size}"


def _split(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Reinterprets each element as ``count`` smaller ones on a new last axis, the lowest bytes first."""
    size = as_dtype(dtype).size
    wide = _unsigned(size * count)

    def part(*index: Any) -> Any:
        shift = index[-1].astype(wide) * tirx.const(8 * size, wide)
        return _as((_as(x(*index[:-1]), wide) >> shift).astype(_unsigned(size)), dtype)

    return te.compute((*dims(x), count), part, name="bitcast")


def _joined(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Reinterprets the ``count`` elements of each last axis as one larger element, the lowest bytes first."""
    size = as_dtype(str(x.dtype)).size
    wide = _unsigned(size * count)

    def whole(*index: Any) -> Any:
        parts = [_as(x(*index, i), _unsigned(size)).astype(wide) for i in range(count)]
        shifted = [part << tirx.const(8 * size * i, wide) for i, part in enumerate(parts)]
        return _as(reduce(lambda a, b: a | b, shifted), dtype)

    return te.compute(dims(x)[:-1], whole, name="bitcast")
