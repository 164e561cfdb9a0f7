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
    source_bytes, result_bytes = as_dtype(str(x.dtype)).size, as_dtype(dtype).size
    if source_bytes > result_bytes:
        return _split(x, dtype, source_bytes // result_bytes)
    if source_bytes < result_bytes:
        return _joined(x, dtype, result_bytes // source_bytes)
    return te.compute(dims(x), lambda *index: _reinterpreted(x(*index), dtype), name="bitcast")


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
    part_bytes = as_dtype(dtype).size
    whole_dtype, part_dtype = _unsigned(part_bytes * count), _unsigned(part_bytes)

    def part(*index: Any) -> Any:
        *element_index, part_number = index
        shift_bits = part_number.astype(whole_dtype) * tirx.const(8 * part_bytes, whole_dtype)
        whole = _reinterpreted(x(*element_index), whole_dtype)
        return _reinterpreted((whole >> shift_bits).astype(part_dtype), dtype)

    return te.compute((*dims(x), count), part, name="bitcast")


def _joined(x: te.Tensor, dtype: str, count: int) -> te.Tensor:
    """Joins the ``count`` elements along the last axis to one element of the wider dtype ``dtype``, by their bits.

    The first element has the lowest bits.
    """
    part_bytes = as_dtype(str(x.dtype)).size
    whole_dtype, part_dtype = _unsigned(part_bytes * count), _unsigned(part_bytes)

    def whole(*index: Any) -> Any:
        """Shifts the bits of each part to their place in the wider element, and combines them by "or"."""
        parts = [_reinterpreted(x(*index, i), part_dtype).astype(whole_dtype) for i in range(count)]
        shifted = [part << tirx.const(8 * part_bytes * i, whole_dtype) for i, part in enumerate(parts)]
        joined_bits = reduce(lambda low, high: low | high, shifted)
        return _reinterpreted(joined_bits, dtype)

    return te.compute(dims(x)[:-1], whole, name="bitcast")
