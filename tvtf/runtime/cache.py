"""The cache of compiled code, in the process and on disk, keyed by all inputs of the compilation."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvtf import core, ir, ops, passes
from tvtf.passes.codegen.hooks import Hooks
from tvtf.passes.schedule.tuning_records import digest
from tvtf.runtime.executable import Executable
from tvtf.runtime.function_digest import digest_of, foreign_kernels
from tvtf.runtime.store import stored, stored_object
from tvtf.version import __version__

_loaded: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
"""Executables in use, by key; weak references, so that dropping a function's traces unloads their code."""
_files: weakref.WeakValueDictionary[tuple[Path, Any], Executable] = weakref.WeakValueDictionary()
"""Executables by file and device. TVM sets static variables of a library when it loads it: it must not be loaded twice."""


def cached(
    key: str, build: Callable[[Path], None], load: Callable[[Path], Executable] = Executable, device: Any = None
) -> Executable:
    """Returns the executable of a cache key: one in use, or one loaded from disk, or one that is compiled now.

    ``build`` compiles it to a library at a path, and ``load`` loads a library for a device.
    """

    def load_once(path: Path) -> Executable:
        # Other keys may lead to the same file, as the store is addressed by content.
        executable = _files.get((path, device))
        if executable is None:
            executable = _files[path, device] = load(path)
        return executable

    executable = _loaded.get(key)
    if executable is None:
        executable = _loaded[key] = stored(key, build, load_once)
    return executable


def key_of(mod: Any, target: Any, *more: str) -> str:
    """Returns the key of a module's compiled code in the cache, a digest of all that the code depends on.

    So no stale code is loaded. ``more`` are build options.
    """
    import tvm

    from tvtf.passes.schedule.tuned_choices import describe

    structure = tvm.ir.save_json(mod)
    user_kernels = digest_of(foreign_kernels(structure))
    parts = (
        structure,
        str(target),
        tvm.__version__,
        __version__,
        sources_digest(),
        user_kernels,
        digest(describe(target)),
        *more,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def kernel_code(key: str, build: Callable[[], bytes]) -> bytes:
    """Returns the object code of a kernel: stored by this version of tvtf and TVM, or what ``build`` compiles."""
    import tvm

    parts = (key, tvm.__version__, __version__, sources_digest())
    return stored_object("kernel-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40], build)


Hooks.stored = staticmethod(kernel_code)

_digest: list[str] = []


def sources_digest() -> str:
    """Returns a digest of tvtf's source files, as part of cache keys: code that other sources compiled is not used.

    It is computed once in a process.
    """
    if not _digest:
        roots = [Path(__file__).parent, *(Path(p.__file__ or "").parent for p in (core, ir, ops, passes))]
        files = sorted(f for root in roots for f in root.rglob("*.py"))
        # Sizes and times of change tell versions from one another, and take less time than reading the files.
        stamps = [f"{f.name}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files]
        _digest.append(hashlib.sha256("\n".join(stamps).encode()).hexdigest())
    return _digest[0]
