"""The C library's heap: large tensors come and go with every eager op."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

KEPT = 256 << 20
"""Bytes at the heap's end that stay with the process when they are freed."""
_OWN_MAPPING = 32 << 20
"""Bytes from which an allocation is a mapping of its own: the most that glibc takes."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def keep_freed_memory() -> None:
    """Has glibc keep what is freed: a page given back costs a fault, about a microsecond, when the next tensor needs it.

    Who has set its environment variables is left alone. Source: mallopt(3)
    """
    if not sys.platform.startswith("linux") or any(name.startswith("MALLOC_") for name in os.environ):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _OWN_MAPPING)
        mallopt(_M_TRIM_THRESHOLD, KEPT)
