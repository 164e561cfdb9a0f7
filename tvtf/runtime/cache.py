"""Compiled code on disk, keyed by what it was compiled from.

A library is written under a temporary name and renamed into place, so that readers see it whole or not at all, several
processes may write it at once, and a kill leaves at most a temporary file. A folder that can't be written costs the cache,
not the result.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvtf.runtime.executable import Executable
from tvtf.runtime.origin import digest_of, foreign_kernels
from tvtf.runtime.seal import is_sealed, seal

_loaded: weakref.WeakValueDictionary[str, Executable] = weakref.WeakValueDictionary()
"""Executables that some function still holds: forgetting a function's traces frees their code."""


def folder() -> Path:
    """Where compiled code is kept: TVTF_CACHE_DIR, else ``tvtf`` in the user's cache folder."""
    named = os.environ.get("TVTF_CACHE_DIR")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named) if named else Path(base) / "tvtf"


def cached(key: str, build: Callable[[Path], None]) -> Executable:
    """The executable of ``key``: loaded already, from disk, or built by ``build(path)``."""
    found = _loaded.get(key)
    if found is None:
        found = _loaded[key] = _from_disk(key) or _built(key, build)
    return found


def _from_disk(key: str) -> Executable | None:
    path = folder() / f"{key}.so"
    if not path.is_file():
        return None
    try:
        if is_sealed(path):
            return Executable(path)
        warnings.warn(f"the cached library {path} is damaged and is built anew", stacklevel=2)
        return None
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached library {path} can't be loaded and is built anew: {error}", stacklevel=2)
        return None


def _built(key: str, build: Callable[[Path], None]) -> Executable:
    home = folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        return _built_in(home, key, build)
    except OSError as error:
        _warn_once(home, error)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / f"{key}.so"
        build(made)
        return Executable(made)


def _built_in(home: Path, key: str, build: Callable[[Path], None]) -> Executable:
    with tempfile.TemporaryDirectory(prefix=f".{key[:16]}-", dir=home) as scratch:
        made = Path(scratch) / f"{key}.so"
        build(made)
        seal(made)
        os.replace(made, home / made.name)
        return Executable(home / made.name)


_told: set[Path] = set()


def _warn_once(home: Path, error: OSError) -> None:
    if home not in _told:
        _told.add(home)
        warnings.warn(f"compiled code is not kept: the cache folder {home} can't be written ({error})", stacklevel=2)


def key_of(mod: Any, target: Any, *more: str) -> str:
    """The cache key of a module: structure, constants, target, versions and the build's options."""
    import tvm

    from tvtf.version import __version__

    structure = tvm.ir.save_json(mod)
    kernels = digest_of(foreign_kernels(structure))
    parts = (structure, str(target), tvm.__version__, __version__, sources_digest(), kernels, *more)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


_digest: list[str] = []


def sources_digest() -> str:
    """A digest of tvtf's own compiler: code made by other rules is not this code."""
    if not _digest:
        import tvtf.ops as ops
        import tvtf.passes as passes

        roots = [Path(__file__).parent, *(Path(p.__file__ or "").parent for p in (ops, passes))]
        files = sorted(f for root in roots for f in root.rglob("*.py"))
        stamps = [f"{f.name}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files]
        _digest.append(hashlib.sha256("\n".join(stamps).encode()).hexdigest())
    return _digest[0]
