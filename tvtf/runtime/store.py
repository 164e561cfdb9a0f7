"""Libraries on disk: whole or not at all, and a damaged one is built anew.

A library is written under a temporary name and renamed into place, so that readers see it whole or not at all, several
processes may write it at once, and a kill leaves at most a temporary file. A folder that can't be written costs the cache,
not the result.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tvtf.context import cache_folder
from tvtf.runtime.seal import is_sealed, seal

Library = TypeVar("Library")


def stored(key: str, build: Callable[[Path], None], load: Callable[[Path], Library]) -> Library:
    """The library of ``key`` as ``load`` gives it: from disk, or written by ``build(path)`` first."""
    found = _from_disk(key, load)
    return _built(key, build, load) if found is None else found


def _from_disk(key: str, load: Callable[[Path], Library]) -> Library | None:
    path = cache_folder() / f"{key}.so"
    if not path.is_file():
        return None
    try:
        if is_sealed(path):
            return load(path)
        warnings.warn(f"the cached library {path} is damaged and is built anew", stacklevel=2)
        return None
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached library {path} can't be loaded and is built anew: {error}", stacklevel=2)
        return None


def _built(key: str, build: Callable[[Path], None], load: Callable[[Path], Library]) -> Library:
    home = cache_folder()
    try:
        home.mkdir(parents=True, exist_ok=True)
        return _built_in(home, key, build, load)
    except OSError as error:
        _warn_once(home, error)
    with tempfile.TemporaryDirectory() as scratch:
        made = Path(scratch) / f"{key}.so"
        build(made)
        return load(made)


def _built_in(home: Path, key: str, build: Callable[[Path], None], load: Callable[[Path], Library]) -> Library:
    with tempfile.TemporaryDirectory(prefix=f".{key[:16]}-", dir=home) as scratch:
        made = Path(scratch) / f"{key}.so"
        build(made)
        seal(made)
        os.replace(made, home / made.name)
        return load(home / made.name)


_told: set[Path] = set()


def _warn_once(home: Path, error: OSError) -> None:
    if home not in _told:
        _told.add(home)
        warnings.warn(f"compiled code is not kept: the cache folder {home} can't be written ({error})", stacklevel=2)
