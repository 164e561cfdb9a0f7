"""The threads of parallel kernels: one pool for the process, on Linux; elsewhere TVM's own runs.

TVM's pool yields while it waits, which costs a time slice of milliseconds for each kernel when another program wants the
core, has threads of its own for each calling thread, and does not outlive a fork. ``pool.c`` runs instead: translated to
``pool.ll`` ahead of time (``make pool``), which TVM's LLVM compiles.
"""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import platform
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import tvm_ffi

from tvtf.core.thread_count import available_cores
from tvtf.core.tvm_import import import_whole
from tvtf.passes.codegen.linker import link_code
from tvtf.passes.codegen.memory_file import memory_file, object_code
from tvtf.runtime.store import load_or_build

_SOURCE = Path(__file__).with_name("pool.ll")
_LAUNCH = "__TVMBackendParallelLaunch"
"""What kernels call through; TVM's loader has set it to its own function."""
SPIN = 100_000
"""Nanoseconds to look for work, or for its end, before sleeping: about what sleeping and waking cost."""
_MACHINES = {"x86_64": (202, "pause"), "aarch64": (98, "yield")}
"""By Linux's name of the processor: the number of futex, and the instruction for a spinning loop."""


def adopt(path: Path) -> None:
    """Makes the kernels of a loaded library run on tvtf's thread pool, in place of TVM's pool.

    The library has a pointer to the function that launches threads; this pointer is set to tvtf's function. On systems
    other than Linux, and on unknown processors, kernels stay on TVM's pool.
    """
    if not sys.platform.startswith("linux") or platform.machine() not in _MACHINES:
        return
    library = ctypes.CDLL(str(path))
    if hasattr(library, _LAUNCH):
        ctypes.c_void_p.in_dll(library, _LAUNCH).value = ctypes.cast(_pool().tvtf_pool_launch, ctypes.c_void_p).value
    _ctypes.dlclose(library._handle)  # TVM has a handle of its own, which keeps the library loaded


@lru_cache(maxsize=1)
def _pool() -> Any:
    """Loads the pool's code and sets its number of threads."""
    source = _source()
    digest = hashlib.sha256(source.encode()).hexdigest()[:32]
    pool = load_or_build(f"threads-{digest}", lambda out: _build(source, out), _load)
    _configure(pool, available_cores())
    os.register_at_fork(after_in_child=pool.tvtf_pool_forked)
    return pool


def _configure(pool: Any, threads: int) -> None:
    futex, _ = _MACHINES[platform.machine()]
    pool.tvtf_pool_configure(threads, ctypes.c_int64(SPIN), ctypes.c_long(futex))


def _source() -> str:
    _, pause = _MACHINES[platform.machine()]
    return _SOURCE.read_text().replace("SPIN_PAUSE", pause)


def _build(source: str, out: Path) -> None:
    """Compiles the thread pool's LLVM IR to a shared library."""
    import_whole("tvm")
    with memory_file("pool.ll") as code:
        code.write_text(source)
        module = tvm_ffi.get_global_func("ffi.Module.load_from_file.ll")(str(code), "ll")
    link_code({"pool.o": object_code(module)}, out)


def _load(path: Path) -> Any:
    return ctypes.CDLL(str(path))
