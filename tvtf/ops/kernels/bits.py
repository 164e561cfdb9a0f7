"""Reinterpretation of bits between dtypes of any width."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tvm import te, tirx

from tvtf.dtypes import as_dtype
from tvtf.ops.kernels.scalar import dims


def bitcast(x: te.Tensor, *, dtype: str) -> te.Tensor:
    """Reinterprets the bits of elements in another dtype, as ``tvtf.ops.cast.bitcast``.

    A wider element is split into several, or made of them, lowest bytes first.
    """
    source, target = as_dtype(str(x.dtype)).size, as_dtype(dtype).size
    if source == target:
        return te.compute(dims(x), lambda *index: _reinterpreted(x(*index), dtype), name="bitcast")
    return _split(x, dtype, source // target) if source > target else _joined(x, dtype, target // source)


def _reinterpreted(value: Any, dtype: str) -> Any:
    """Returns a value's bits in another dtype of the same size."""
    return value if str(value.ty.dtype) == dtype else tirx.reinterpret(dtype, value)


def _unsigned(size: int) -> str:
    """Returns the unsigned integer dtype of ``size`` bytes."""
    return f"uint{8 * size}"


def _split(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Reinterprets each element as ``count`` smaller ones on a new last axis, the lowest bytes first."""
    size = as_dtype(dtype).size
    wide_dtype = _unsigned(size * count)

    def part(*index: Any) -> Any:
        shift = index[-1].astype(wide_dtype) * tirx.const(8 * size, wide_dtype)
        return _reinterpreted((_reinterpreted(x(*index[:-1]), wide_dtype) >> shift).astype(_unsigned(size)), dtype)

    return te.compute((*dims(x), count), part, name="bitcast")


def _joined(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Reinterprets the ``count`` elements of each last axis as one larger element, the lowest bytes first."""
    size = as_dtype(str(x.dtype)).size
    wide_dtype = _unsigned(size * count)

    def whole(*index: Any) -> Any:
        parts = [_reinterpreted(x(*index, i), _unsigned(size)).astype(wide_dtype) for i in range(count)]
        shifted = [part << tirx.const(8 * size * i, wide_dtype) for i, part in enumerate(parts)]
        return _reinterpreted(reduce(lambda low, high: low | high, shifted), dtype)

    return te.compute(dims(x)[:-1], whole, name="bitcast")
