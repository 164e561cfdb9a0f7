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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tvtf.runtime.executable import Executable

_loaded: dict[str, Executable] = {}


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
        return Executable(path)
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached library {path} can't be loaded and is built anew: {error}", stacklevel=2)
        return None


def _built(key: str, build: Callable[[Path], None]) -> Executable:
    home = _writable(folder())
    with tempfile.TemporaryDirectory(prefix=f".{key[:16]}-", dir=home) as scratch:
        made = Path(scratch) / f"{key}.so"
        build(made)
        if home is None:
            return Executable(made)
        os.replace(made, home / made.name)
        return Executable(home / made.name)


def _writable(path: Path) -> Path | None:
    """The cache folder, made where it is missing; None, with a warning, where nothing can be written there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path):
            return path
    except OSError as error:
        warnings.warn(f"compiled code is not kept: the cache folder {path} can't be written ({error})", stacklevel=2)
        return None


def key_of(mod: Any, target: Any, *more: str) -> str:
    """The cache key of a module: structure, constants, target, versions and the build's options."""
    import tvm

    from tvtf.version import __version__

    structure = tvm.ir.save_json(mod)
    parts = (structure, str(target), tvm.__version__, __version__, sources_digest(), *more)
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


_digest: list[str] = []


def sources_digest() -> str:
    """A digest of tvtf's own compiler: code made by other rules is not this code."""
    if not _digest:
        import tvtf.ops as ops
        import tvtf.passes as passes

        roots = [Path(p.__file__ or "").parent for p in (ops, passes)]
        files = sorted(f for root in roots for f in root.rglob("*.py"))
        stamps = [f"{f.name}:{f.stat().st_size}:{f.stat().st_mtime_ns}" for f in files]
        _digest.append(hashlib.sha256("\n".join(stamps).encode()).hexdigest())
    return _digest[0]
