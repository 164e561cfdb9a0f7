"""Compiled code on disk, keyed by what it was compiled from."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvtf.passes.schedule.tuning_records import digest
from tvtf.runtime.executable import Executable
from tvtf.runtime.origin import digest_of, foreign_kernels
from tvtf.runtime.store import stored

_loaded: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
"""Executables that some function still holds: forgetting a function's traces frees their code."""
_files: weakref.WeakValueDictionary[tuple[Path, Any], Executable] = weakref.WeakValueDictionary()
"""They by file and by what loads it: a library has one place for what TVM tells it, so it is not loaded twice at once."""


def cached(
    key: str, build: Callable[[Path], None], load: Callable[[Path], Executable] = Executable, device: Any = None
) -> Executable:
    """The executable of ``key``: loaded already, from disk by ``load(path)``, or built by ``build(path)`` first."""

    def loaded(path: Path) -> Executable:
        found = _files.get((path, device))
        if found is None:
            found = _files[path, device] = load(path)
        return found

    found = _loaded.get(key)
    if found is None:
        found = _loaded[key] = stored(key, build, loaded)
    return found


def key_of(mod: Any, target: Any, *more: str) -> str:
    """The cache key of a module: structure, constants, target, versions, records of tuning and the build's options."""
    import tvm

    from tvtf.passes.schedule.tuned_choices import describe
    from tvtf.version import __version__

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


_digest: list[str] = []


def sources_digest() -> str:
    """A digest of tvtf's own compiler: code made by other rules is not this code."""
    if not _digest:
        from tvtf import core, ir, ops, passes

        roots = [Path(__file__).parent, *(Path(p.__file__ or "").parent for p in (core, ir, ops, passes))]
        files = sorted(f for root in roots for f in root.rglob("*.py"))
        stamps = [f"{f.name}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files]
        _digest.append(hashlib.sha256("\n".join(stamps).encode()).hexdigest())
    return _digest[0]
