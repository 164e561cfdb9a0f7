"""Reinterpretation of bits between dtypes of any width."""

from __future__ import annotations

from functools import reduce
from typing import Any

from tvm import te, tirx

from tvtf.dtypes import as_dtype
from tvtf.ops.kernels.scalar import dims


def bitcast(x: te.Tensor, *, dtype: str) -> te.Tensor:
    """Reinterprets the bits of elements as another dtype, as ``tvtf.ops.cast.bitcast``.

    For a narrower dtype each element is split into several, for a wider dtype several are joined, lowest bytes first.
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
    """Splits each element into ``count`` elements of a narrower dtype on a new last axis. The lowest bytes come first.

    Bytes are extracted by shifts of unsigned integers.
    """
    size = as_dtype(dtype).size
    wide_dtype = _unsigned(size * count)

    def part(*index: Any) -> Any:
        # sizes are in bytes, shifts in bits
        shift = index[-1].astype(wide_dtype) * tirx.const(8 * size, wide_dtype)
        return _reinterpreted((_reinterpreted(x(*index[:-1]), wide_dtype) >> shift).astype(_unsigned(size)), dtype)

    return te.compute((*dims(x), count), part, name="bitcast")


def _joined(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Joins the ``count`` elements along the last axis to one element of the wider dtype ``dtype``, by their bits.

    The first element has the lowest bits.
    """
    size = as_dtype(str(x.dtype)).size
    wide_dtype = _unsigned(size * count)

    def whole(*index: Any) -> Any:
        parts = [_reinterpreted(x(*index, i), _unsigned(size)).astype(wide_dtype) for i in range(count)]
        # sizes are in bytes, shifts in bits
        shifted = [part << tirx.const(8 * size * i, wide_dtype) for i, part in enumerate(parts)]
        return _reinterpreted(reduce(lambda low, high: low | high, shifted), dtype)

    return te.compute(dims(x)[:-1], whole, name="bitcast")
