"""Libraries on disk, named by the digest of their content: whole or not at all, and a damaged one is built anew.

``code/DIGEST.so`` is a library; ``index/KEY`` holds the digest of the one that was built for a key. Both are written in a
folder of their own and renamed into place, so that readers see them whole or not at all, several processes may write them at
once, and a kill leaves at most a temporary folder, which the next process removes. The digest is checked before code is
loaded: loading a damaged library would kill the process (a truncated one ends in SIGBUS). What can't be kept costs the cache,
not the result.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import warnings
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TypeVar

from tvtf.fileio.folder_locks import locked, shared
from tvtf.passes.codegen.memory_file import memory_file
from tvtf.passes.codegen.temp_cleanup import locked_folder, remove_leftovers
from tvtf.runtime.bound import evict, files_of, max_cache_bytes
from tvtf.runtime.folder import make_private, trusted_folder, warn_once

Library = TypeVar("Library")
Build = Callable[[Path], None]
Load = Callable[[Path], Library]

_DIGEST_BYTES = 20
_PARTS = ("code", "index")
_PATIENCE = 0.1
"""Seconds to wait for those who load code before some is removed; a load that first loads the threads' pool waits for itself."""


def stored(key: str, build: Build, load: Load[Library]) -> Library:
    """The library of ``key`` as ``load`` gives it: from disk, or written by ``build(path)`` first."""
    remove_leftovers_once(tempfile.gettempdir())
    home = trusted_folder() if max_cache_bytes() else None
    if home is not None:
        found = _from_disk(home, key, load)
        if found is not None:
            return found
        try:
            return _kept(home, key, build, load)
        except OSError as error:
            warn_once(home, f"can't be written ({error})")
    return _unkept(build, load)


def digest_of_content(content: bytes) -> str:
    """What a library is named by."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


# -- reading


def _from_disk(home: Path, key: str, load: Load[Library]) -> Library | None:
    try:
        digest = (home / "index" / key).read_text("ascii")
    except (OSError, ValueError):
        return None
    path = _code(home, digest)
    try:
        with shared(home):
            if digest_of_content(path.read_bytes()) == digest:
                with contextlib.suppress(OSError):
                    os.utime(path)  # it was used
                return load(path)
        warnings.warn(f"the cached library {path} is damaged and is built anew", stacklevel=2)
    except FileNotFoundError:  # it had to go
        return None
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached library {path} can't be loaded and is built anew: {error}", stacklevel=2)
    return None


def _code(home: Path, digest: str) -> Path:
    return home / "code" / f"{digest}.so"


# -- writing


def _kept(home: Path, key: str, build: Build, load: Load[Library]) -> Library:
    """The library, which is built and put into the folder."""
    remove_leftovers_once(home)
    for part in _PARTS:
        make_private(home / part)
    with locked_folder(home) as scratch:
        made = scratch / "made.so"
        build(made)
        content = made.read_bytes()
        digest = digest_of_content(content)
        name = scratch / key
        name.write_text(digest, "ascii")
        _keep_bound(home, len(content))
        with shared(home):
            os.replace(made, _code(home, digest))
            os.replace(name, home / "index" / key)
            return load(_code(home, digest))


def _unkept(build: Build, load: Load[Library]) -> Library:
    """The library from a folder that is removed at once; from memory where there is no room for that either."""
    try:
        with tempfile.TemporaryDirectory(prefix="tvtf-load-") as scratch:
            made = Path(scratch) / "made.so"
            build(made)
            return load(made)
    except OSError:
        return _in_memory(build, load)


def _in_memory(build: Build, load: Load[Library]) -> Library:
    """The system's loader knows libraries by name, which is this one's descriptor: it is open while the library is in use."""
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(memory_file("code"))
        build(made)
        found = load(made)
        weakref.finalize(found, stack.pop_all().close)
        return found


# -- the bound

_estimates: dict[Path, int] = {}
"""By folder, the bytes of its libraries when they were last counted, and what this process wrote since."""


def _keep_bound(home: Path, new: int) -> None:
    """Makes room for ``new`` bytes; other processes' libraries are counted when this one's would pass the bound."""
    most = max_cache_bytes()
    estimate = _estimates.get(home)
    if estimate is None or estimate + new > most:
        estimate = _evicted(home, most - new)
    _estimates[home] = estimate + new


def _evicted(home: Path, most: int) -> int:
    """The bytes that libraries take after those not used for longest made room; none goes that is just being loaded."""
    with locked(home, seconds=_PATIENCE) as is_alone:
        files = files_of(home / "code", home)
        taken = sum(file.size for file in files)
        if is_alone is False:  # the next that is written makes the room
            return taken
        left = evict(files, most)
        if left < taken:
            _forget_missing(home)
        return left


def _forget_missing(home: Path) -> None:
    """Removes the index's entries of libraries that are gone."""
    known = {file.path.stem for file in files_of(home / "code")}
    for entry in (home / "index").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.read_text("ascii") not in known:
                entry.unlink()


def clear(home: Path) -> int:
    """Removes all compiled code in a folder; gives the number of libraries. Records of tuning stay."""
    with locked(home) if home.is_dir() else contextlib.nullcontext():
        found = files_of(home / "code", home)
        for file in found:
            file.path.unlink(missing_ok=True)
        if (home / "index").is_dir():
            _forget_missing(home)
    remove_leftovers(home)
    _estimates.clear()
    return len(found)


@cache
def remove_leftovers_once(folder: str | Path) -> None:
    """Removes what killed processes left in a folder, when this process first compiles."""
    remove_leftovers(folder)
