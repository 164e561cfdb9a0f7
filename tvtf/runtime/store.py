"""The store of compiled code on disk: content-addressed, written atomically, and checked before loading.

``code/DIGEST.so`` is a library, named by the digest of its content, and ``code/DIGEST.o`` the object code of one kernel;
``index/KEY`` contains the digest of what was built for a key. Both are written in a temporary folder and renamed. So readers
never see partial files, several processes can write at once, and a killed process leaves only a temporary folder, which the
next process removes. The digest is checked before loading, because a damaged library would kill the process (a truncated one
by SIGBUS). If code can't be stored, it is used without the cache.
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
from tvtf.runtime.cache_eviction import LIBRARY, OBJECT, File, evict, files_of, max_cache_bytes
from tvtf.runtime.cache_folder import make_private, trusted_folder, warn_once

Library = TypeVar("Library")
Build = Callable[[Path], object]
Load = Callable[[Path], Library]

_DIGEST_BYTES = 20
_PARTS = ("code", "index")
_NOUNS = {LIBRARY: "library", OBJECT: "kernel"}
_LOCK_SECONDS = 0.1
"""The time to wait for an exclusive lock before libraries are removed.

It must be short: a load that first loads the thread pool's library holds the shared lock and would wait for itself.
"""


def load_or_build(key: str, build: Build, load: Load[Library]) -> Library:
    """Loads the library for a key from the store on disk; on a cache miss, the library is built first.

    If the store can't be written, a warning is given and the library is built outside the store.

    Args:
      key: the digest of what was compiled.
      build: compiles the library to a path.
      load: loads the library at a path.
    """
    remove_leftovers_once(tempfile.gettempdir())
    cache_dir = trusted_folder() if max_cache_bytes() else None
    if cache_dir is not None:
        library = _load_from_disk(cache_dir, key, load, LIBRARY)
        if library is not None:
            return library
        try:
            return _build_in_store(cache_dir, key, build, load, LIBRARY)
        except OSError as error:
            warn_once(cache_dir, f"can't be written ({error})")
    return _build_outside_store(build, load)


def load_or_build_object(key: str, build: Callable[[], bytes]) -> bytes:
    """Returns a kernel's object code from the cache on disk. Code that isn't cached is compiled by ``build`` and stored.

    A cache that can't be written costs only time, so it is no error: a warning says so once.
    """
    cache_dir = trusted_folder() if max_cache_bytes() else None
    if cache_dir is None:
        return build()
    cached_code = _load_from_disk(cache_dir, key, Path.read_bytes, OBJECT)
    if cached_code is not None:
        return cached_code
    code = build()
    try:
        _build_in_store(cache_dir, key, lambda out: out.write_bytes(code), Path.read_bytes, OBJECT)
    except OSError as error:
        warn_once(cache_dir, f"can't be written ({error})")
    return code


def digest_of_content(content: bytes) -> str:
    """Returns the digest by which a library is named."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).hexdigest()


# -- reading


def _load_from_disk(cache_dir: Path, key: str, load: Load[Library], suffix: str) -> Library | None:
    """Loads the library or object code for a key from the store.

    Returns None if the store has no such file, or the file is damaged. The digest of the file's content is checked before
    loading, as a damaged library must not run.
    """
    try:
        digest = (cache_dir / "index" / key).read_text("utf-8")
    except (OSError, ValueError):
        return None
    path = _code(cache_dir, digest, suffix)
    try:
        with shared(cache_dir):
            if digest_of_content(path.read_bytes()) == digest:
                with contextlib.suppress(OSError):
                    os.utime(path)  # the time of last use decides what `cache_eviction.evict` removes
                return load(path)
        warnings.warn(f"the cached {_NOUNS[suffix]} {path} is damaged and is built anew", stacklevel=2)
    except FileNotFoundError:  # evicted since the index was read
        return None
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached {_NOUNS[suffix]} {path} can't be loaded and is built anew: {error}", stacklevel=2)
    return None


def _code(cache_dir: Path, digest: str, suffix: str) -> Path:
    return cache_dir / "code" / f"{digest}{suffix}"


# -- writing


def _build_in_store(cache_dir: Path, key: str, build: Build, load: Load[Library], suffix: str) -> Library:
    """Builds a library in a temporary folder, moves it into the store under the digest of its content, and loads it.

    Args:
      cache_dir: the cache folder.
      key: the digest of what was compiled, which names the index entry.
      build: compiles the library to a path.
      load: loads the library at a path.
      suffix: LIBRARY or OBJECT.
    """
    remove_leftovers_once(cache_dir)
    for subfolder in _PARTS:
        make_private(cache_dir / subfolder)
    with locked_folder(cache_dir) as temporary_folder:
        built_file = temporary_folder / "made.so"
        build(built_file)
        content = built_file.read_bytes()
        digest = digest_of_content(content)
        index_entry = temporary_folder / key
        index_entry.write_text(digest, "utf-8")
        _reserve(cache_dir, len(content))
        with shared(cache_dir):
            # The code first, so that an index entry never names a file that isn't there.
            os.replace(built_file, _code(cache_dir, digest, suffix))
            os.replace(index_entry, cache_dir / "index" / key)
            return load(_code(cache_dir, digest, suffix))


def _build_outside_store(build: Build, load: Load[Library]) -> Library:
    """Builds and loads a library without the store: in a temporary folder, or in a file in memory if that fails.

    The operating system loads code only from a file.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="tvtf-load-") as temporary_folder:
            file = Path(temporary_folder) / "made.so"
            build(file)
            return load(file)
    except OSError:
        return _build_in_memory(build, load)


def _build_in_memory(build: Build, load: Load[Library]) -> Library:
    """Builds and loads a library in a file in memory.

    The file stays open while the library is in use: the system's loader identifies libraries by path, and the path of a
    memory file contains its descriptor, which a later file could reuse.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(memory_file("code"))
        build(file)
        library = load(file)
        weakref.finalize(library, stack.pop_all().close)
        return library


# -- the bound

_estimates: dict[Path, int] = {}
"""Cache folder -> an estimate of its libraries' bytes: their sum when last counted, plus what this process wrote since."""


def _reserve(cache_dir: Path, new_bytes: int) -> None:
    """Evicts least recently used libraries until ``new_bytes`` bytes fit into the cache.

    Summing the folder's files is slow, so an estimate of the sum is used until it exceeds the limit.
    """
    limit = max_cache_bytes()
    estimate = _estimates.get(cache_dir)
    if estimate is None or estimate + new_bytes > limit:
        estimate = _evict_down_to(cache_dir, limit - new_bytes)
    _estimates[cache_dir] = estimate + new_bytes


def _evict_down_to(cache_dir: Path, max_bytes: int) -> int:
    """Removes the least recently used libraries from the store until at most ``max_bytes`` remain.

    The exclusive lock ensures that no other process is loading a library. If another process has the lock, nothing is
    removed. Returns the number of bytes that remain.
    """
    with locked(cache_dir, seconds=_LOCK_SECONDS) as is_exclusive:
        files = files_of(cache_dir / "code", cache_dir)
        total = sum(file.size for file in files)
        if is_exclusive is False:  # the next write tries again
            return total
        remaining = evict(files, max_bytes)
        if remaining < total:
            _drop_stale_index(cache_dir)
        return remaining


def _drop_stale_index(cache_dir: Path) -> None:
    """Removes the index entries of libraries that don't exist any more."""
    known = {file.path.stem for file in files_of(cache_dir / "code")}
    for entry in (cache_dir / "index").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.read_text("utf-8") not in known:
                entry.unlink()


def clear(cache_dir: Path) -> list[File]:
    """Removes all compiled code from the cache folder; returns the files that were removed.

    Records of tuning stay, as they take long to measure.
    """
    with locked(cache_dir) if cache_dir.is_dir() else contextlib.nullcontext():
        files = files_of(cache_dir / "code", cache_dir)
        for file in files:
            file.path.unlink(missing_ok=True)
        if (cache_dir / "index").is_dir():
            _drop_stale_index(cache_dir)
    remove_leftovers(cache_dir)
    _estimates.clear()
    return files


@cache
def remove_leftovers_once(folder: str | Path) -> None:
    """Removes temporary files of killed processes from a folder, once in a process."""
    remove_leftovers(folder)
