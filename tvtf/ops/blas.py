"""Runs BLAS and LAPACK on one thread where more threads would gain little.

OpenBLAS's threads spin for milliseconds after each call, on the cores that the next kernels run on: a step of Cholesky
factors and products took six times as long. Where other programs use the cores, the threads wait for each other: a
product of 512 x 32 by 32 x 64 took 28 ms on two threads, 0.03 on one. NumPy's and SciPy's wheels have an OpenBLAS each.
Source: OpenBLAS, driver/others/blas_server.c (THREAD_TIMEOUT) and interface/gemm.c (its threshold)
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tvtf.core.variable_lock import Lock

TINY, SMALL = 1 << 10, 1 << 18
"""Range of the largest operand's element count, 32 x 32 to 512 x 512, in which LAPACK's threads cost more than they gain."""
PRODUCT = 1 << 18
"""Number of multiplications above which OpenBLAS uses several threads for a product of two matrices."""
SYMBOLS = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


@dataclass(frozen=True, eq=False)
class Library:
    """A loaded OpenBLAS."""

    get_num_threads: Callable[[], int]
    set_num_threads: Callable[[int], None]


def libraries() -> tuple[Library, ...]:
    """Returns the OpenBLAS libraries that NumPy and SciPy have loaded; none if they were built with another BLAS."""
    return _libraries("scipy.linalg" in sys.modules)


@functools.cache
def _libraries(with_scipy: bool) -> tuple[Library, ...]:
    """Returns the loaded OpenBLAS libraries of NumPy and, if ``with_scipy``, of SciPy."""
    packages = ("numpy", "scipy") if with_scipy else ("numpy",)
    return tuple(result for name in packages for path in _files(name) if (result := _opened(path)) is not None)


def _files(package: str) -> list[Path]:
    """Returns the OpenBLAS files in the folder of libraries that a package's wheel installs."""
    spec = importlib.util.find_spec(package)
    folder = Path(spec.origin or "").parent.parent / f"{package}.libs" if spec else Path()
    return sorted(folder.glob("lib*openblas*"))


def _opened(path: Path) -> Library | None:
    """Returns the OpenBLAS library of a file, or None if it isn't loaded or exports none of the known symbols."""
    try:
        loaded = ctypes.CDLL(str(path), mode=getattr(os, "RTLD_NOLOAD", 0))
    except OSError:  # the file exists but isn't loaded
        return None
    for symbol in SYMBOLS:  # builds of OpenBLAS have different prefixes and suffixes
        getter, setter = symbol.format("get_num_threads"), symbol.format("set_num_threads")
        if hasattr(loaded, getter) and hasattr(loaded, setter):
            return Library(loaded[getter], loaded[setter])
    return None


_lock = Lock()
_active: list[None] = []
_thread_counts: dict[Library, int] = {}
"""The libraries' thread counts before the active calls; the last call to end restores them."""


class OneThread:
    """A context in which BLAS uses one thread.

    >>> with OneThread():
    ...     all(library.get_num_threads() == 1 for library in libraries())
    True
    """

    def __enter__(self) -> None:
        _limit_threads()

    def __exit__(self, *_: object) -> None:
        _restore_threads()


def serial(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a LAPACK kernel that uses one thread for small matrices, for which more threads aren't profitable.

    For tiny matrices LAPACK uses one thread anyway. For large matrices it may use more.
    """

    @functools.wraps(kernel)
    def run(*arrays: np.ndarray, **attrs: Any) -> Any:
        if not TINY <= max([array.size for array in arrays]) <= SMALL:
            return kernel(*arrays, **attrs)
        with OneThread():
            return kernel(*arrays, **attrs)

    return run


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Computes ``a @ b`` by BLAS on one thread. Large eager products don't come here: they are compiled.

    >>> product(np.ones((2, 3)), np.ones((3, 1)))
    array([[3.],
           [3.]])
    """
    if a.shape[-2] * a.shape[-1] * b.shape[-1] <= PRODUCT:  # BLAS uses one thread by itself
        return np.matmul(a, b)
    with OneThread():
        return np.matmul(a, b)


def _limit_threads() -> None:
    """Limits BLAS to one thread, and remembers the thread counts from before the first of the active calls."""
    with _lock:
        _active.append(None)
        for library in libraries():
            _thread_counts.setdefault(library, library.get_num_threads())
            library.set_num_threads(1)


def _restore_threads() -> None:
    """Restores BLAS's thread counts when the last of the active calls ends."""
    with _lock:
        _active.pop()
        if not _active:
            for library, count in _thread_counts.items():
                library.set_num_threads(count)
            _thread_counts.clear()
