"""Arrays that begin where a vector register's worth of memory does: NumPy's begin at any 16 bytes.

A load of 64 bytes that isn't aligned touches two lines of the cache, and takes as long as two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""
LEAST_BYTES = 4096
"""Smaller arrays are as quick from anywhere, and sooner made."""


def copied(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """A C-contiguous copy, of another dtype if one is given."""
    kind = array.dtype if dtype is None else np.dtype(dtype)
    if array.size * kind.itemsize < LEAST_BYTES or array.dtype.hasobject:
        return array.astype(kind, order="C", copy=True)
    copy = empty(array.shape, kind)
    np.copyto(copy, array, casting="unsafe")
    return copy


class _Memory(np.ndarray):
    """Views of arrays in memory of another class are views of the array, which can tell so whether it has any."""


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of undefined values; one of objects is NumPy's own."""
    if dtype.hasobject:
        return np.empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    memory = _Memory(size + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, memory, start)
