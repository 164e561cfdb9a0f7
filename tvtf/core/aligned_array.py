"""Arrays aligned to 64 bytes, for vector loads; NumPy aligns to 16 only.

An unaligned load of 64 bytes touches two cache lines and takes as long as two loads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

ALIGNMENT = 64
"""Bytes: a cache line, and the widest vector register."""
LEAST_BYTES = 4096
"""Smaller arrays are not aligned: kernels are as fast without it, and NumPy allocates them faster."""


def aligned_copy(array: np.ndarray, dtype: Any = None) -> np.ndarray:
    """Returns a C-contiguous copy of an array in aligned memory, converted to ``dtype`` if it is given."""
    target = array.dtype if dtype is None else np.dtype(dtype)
    # Small arrays and arrays of Python objects are copied without alignment.
    if array.size * target.itemsize < LEAST_BYTES or array.dtype.hasobject:
        return array.astype(target, order="C", copy=True)
    copy = empty(array.shape, target)
    np.copyto(copy, array, casting="unsafe")
    return copy


class _Memory(np.ndarray):
    """The buffer of an aligned array, in a class of its own.

    NumPy makes a view refer to the innermost base of the same class. Because the buffer's class differs, views refer to the
    aligned array, so that its reference count shows whether there are any (``Variable._is_shared``).
    """


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Allocates a NumPy array of undefined values. Its data starts at an address that is a multiple of ``ALIGNMENT``.

    Arrays of Python objects are not aligned.
    """
    if dtype.hasobject:
        return np.empty(shape, dtype)
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    # The buffer is larger than the array: the array starts at the first aligned byte of it.
    memory = _Memory(size + ALIGNMENT, np.uint8)
    start = -memory.__array_interface__["data"][0] % ALIGNMENT
    return np.ndarray(shape, dtype, memory, start)
