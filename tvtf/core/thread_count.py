"""How many threads kernels use, settled before TVM loads."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The cores this process may run on (its affinity), or what TVTF_NUM_THREADS says.

    Raises:
      ValueError: when TVTF_NUM_THREADS is not a positive int.
    """
    asked = os.environ.get("TVTF_NUM_THREADS")
    if asked is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not asked.isdigit() or int(asked) < 1:
        raise ValueError(f"TVTF_NUM_THREADS must be a positive integer, but got {asked!r}")
    return int(asked)


def configure() -> None:
    """Tells TVM's thread pool: all cores (it takes half by default), not pinned to them."""
    os.environ.setdefault("TVM_NUM_THREADS", str(available_cores()))
    os.environ.setdefault("TVM_BIND_THREADS", "0")
