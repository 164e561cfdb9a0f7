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
    """Returns the executable of ``key``: one in use, one loaded from disk by ``load``, or one compiled by ``build``."""

    def loaded(path: Path) -> Executable:
        # Other keys may lead to the same file, as the store is addressed by content.
        executable = _files.get((path, device))
        if executable is None:
            executable = _files[path, device] = load(path)
        return executable

    executable = _loaded.get(key)
    if executable is None:
        executable = _loaded[key] = stored(key, build, loaded)
    return executable


def key_of(mod: Any, target: Any, *more: str) -> str:
    """Returns the cache key of a module: a digest of its IR and constants, target, versions, tuning and build options.

    All that the compiled code depends on is part of the key, so that no stale code is loaded.
    """
    import tvm

    from tvtf.passes.schedule.tuned_choices import describe

    structure = tvm.ir.save_json(mod)
    kernels = digest_of(foreign_kernels(structure))
    parts = (
        structure,
        str(target),
        tvm.__version__,
        __version__,
        sources_digest(),
        kernels,
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
    """Returns a digest of tvtf's source files, so that code compiled by another version of the compiler is not used."""
    if not _digest:
        roots = [Path(__file__).parent, *(Path(p.__file__ or "").parent for p in (core, ir, ops, passes))]
        files = sorted(f for root in roots for f in root.rglob("*.py"))
        # Sizes and times of change tell versions from one another, and take less time than reading the files.
        stamps = [f"{f.name}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files]
        _digest.append(hashlib.sha256("\n".join(stamps).encode()).hexdigest())
    return _digest[0]
