"""Settings of glibc's heap for eager ops, which allocate and free large tensors all the time."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

TRIM_THRESHOLD = 256 << 20
"""The free bytes at the heap's end above which glibc returns memory to the system."""
_MMAP_THRESHOLD = 32 << 20
"""The size from which an allocation is a memory mapping of its own: the largest value that glibc accepts."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def keep_freed_memory() -> None:
    """Makes the C library glibc keep freed memory, instead of returning it to the operating system.

    A page that is returned costs a page fault, about 1 us, when it is used again. Does nothing if the user configures glibc
    by ``MALLOC_...`` environment variables. Source: mallopt(3)
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _MMAP_THRESHOLD)
        mallopt(_M_TRIM_THRESHOLD, TRIM_THRESHOLD)
