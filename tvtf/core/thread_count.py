"""The numbers of threads that run and compile kernels; the first must be set before TVM is imported."""

from __future__ import annotations

import os


def available_cores() -> int:
    """Returns the number of cores that kernels may use.

    This is TVTF_NUM_THREADS if it is set, else the number of cores that the process may run on.

    Raises:
      ValueError: TVTF_NUM_THREADS is not a positive integer.
    """
    configured = os.environ.get("TVTF_NUM_THREADS")
    if configured is not None:
        if not configured.isdigit() or int(configured) < 1:
            raise ValueError(f"TVTF_NUM_THREADS must be a positive integer, but got {configured!r}")
        return int(configured)
    if hasattr(os, "sched_getaffinity"):  # only on some systems
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # None if it is unknown


MAX_COMPILER_THREADS = 4
"""Compiling also runs Python code, for which threads wait for one another: on 16 cores, a training step of ResNet-50 takes
8.4 s to compile in 3 threads, 8.8 in 5, 9.8 in 8 and 11.4 in 16."""


def compiler_threads() -> int:
    """Returns the number of threads that compile kernels: one for each available core, at most MAX_COMPILER_THREADS."""
    return min(available_cores(), MAX_COMPILER_THREADS)


def configure() -> None:
    """Sets up TVM's thread pool to use all cores (by default it uses half of them), without pinning threads."""
    os.environ.setdefault("TVM_NUM_THREADS", str(available_cores()))
    os.environ.setdefault("TVM_BIND_THREADS", "0")
