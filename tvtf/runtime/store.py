"""The store of compiled code on disk: content-addressed, written atomically, and checked before loading.

``code/DIGEST.so`` is a library, named by the digest of its content; ``index/KEY`` contains the digest of what was built for a
key. ``code/KEY.o`` is the object code of one kernel, after its digest: a program has dozens of kernels, so each is one file.
Files are written under temporary names and renamed. So readers never see partial files, several processes can write at once,
and a killed process leaves only temporary files, which the next process removes. The digest is checked before loading, because
a damaged library would kill the process (a truncated one by SIGBUS). If code can't be stored, it is used without the cache.
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
from tvtf.passes.codegen.temp_cleanup import locked_folder, remove_leftovers, write_whole
from tvtf.runtime.cache_eviction import LIBRARY, OBJECT, File, evict, files_of, max_cache_bytes
from tvtf.runtime.cache_folder import make_private, trusted_folder, warn_once

Library = TypeVar("Library")
Build = Callable[[Path], object]
Load = Callable[[Path], Library]

_DIGEST_BYTES = 20
_CODE, _INDEX = "code", "index"
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
        library = _load_from_disk(cache_dir, key, load)
        if library is not None:
            return library
        try:
            return _build_in_store(cache_dir, key, build, load)
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
    path = cache_dir / _CODE / f"{key}{OBJECT}"
    code = _stored_object(path)
    if code is None:
        code = build()
        try:
            _store_object(cache_dir, path, code)
        except OSError as error:
            warn_once(cache_dir, f"can't be written ({error})")
    return code


def digest_of_content(content: bytes) -> bytes:
    """Returns the digest by which a library is named, and which stands before a kernel's object code."""
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()


# -- reading


def _load_from_disk(cache_dir: Path, key: str, load: Load[Library]) -> Library | None:
    """Loads the library for a key from the store.

    Returns None if the store has no such file, or the file is damaged. The digest of the file's content is checked before
    loading, as a damaged library must not run.

    Args:
      cache_dir: the folder of the store.
      key: the key.
      load: loads the library at a path.
    """
    try:
        digest = (cache_dir / _INDEX / key).read_text("utf-8")
    except (OSError, ValueError):
        return None
    path = _library_path(cache_dir, digest)
    try:
        with shared(cache_dir):
            if digest_of_content(path.read_bytes()).hex() == digest:
                _mark_as_used(path)
                return load(path)
        warnings.warn(f"the cached library {path} is damaged and is built anew", stacklevel=2)
    except FileNotFoundError:  # evicted since the index was read
        return None
    except (RuntimeError, OSError) as error:
        warnings.warn(f"the cached library {path} can't be loaded and is built anew: {error}", stacklevel=2)
    return None


def _library_path(cache_dir: Path, digest: str) -> Path:
    return cache_dir / _CODE / f"{digest}{LIBRARY}"


def _stored_object(path: Path) -> bytes | None:
    """Reads a kernel's object code from its file in the store. Returns None if there is none, or it is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        warnings.warn(f"the cached kernel {path} can't be loaded and is built anew: {error}", stacklevel=2)
        return None
    digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
    if digest_of_content(code) != digest:
        warnings.warn(f"the cached kernel {path} is damaged and is built anew", stacklevel=2)
        return None
    _mark_as_used(path)
    return code


def _mark_as_used(path: Path) -> None:
    """Sets a file's time of last use, which decides what `cache_eviction.evict` removes."""
    with contextlib.suppress(OSError):
        os.utime(path)


# -- writing


def _store_object(cache_dir: Path, path: Path, code: bytes) -> None:
    """Writes a kernel's object code to its file in the store, after the digest of the code."""
    content = digest_of_content(code) + code
    remove_leftovers_once(cache_dir)
    make_private(path.parent)
    _reserve(cache_dir, len(content))
    write_whole(path, content, cache_dir)


def _build_in_store(cache_dir: Path, key: str, build: Build, load: Load[Library]) -> Library:
    """Builds a library in a temporary folder, moves it into the store under the digest of its content, and loads it.

    Args:
      cache_dir: the cache folder.
      key: the digest of what was compiled, which names the index entry.
      build: compiles the library to a path.
      load: loads the library at a path.
    """
    remove_leftovers_once(cache_dir)
    for subfolder in (_CODE, _INDEX):
        make_private(cache_dir / subfolder)
    with locked_folder(cache_dir) as temporary_folder:
        built_file = temporary_folder / "made.so"
        build(built_file)
        content = built_file.read_bytes()
        digest = digest_of_content(content).hex()
        index_entry = temporary_folder / key
        index_entry.write_text(digest, "utf-8")
        _reserve(cache_dir, len(content))
        with shared(cache_dir):
            # The code first, so that an index entry never names a file that isn't there.
            os.replace(built_file, _library_path(cache_dir, digest))
            os.replace(index_entry, cache_dir / _INDEX / key)
            return load(_library_path(cache_dir, digest))


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
        files = files_of(cache_dir / _CODE, cache_dir)
        total = sum(file.size for file in files)
        if is_exclusive is False:  # the next write tries again
            return total
        remaining = evict(files, max_bytes)
        if remaining < total:
            _drop_stale_index(cache_dir)
        return remaining


def _drop_stale_index(cache_dir: Path) -> None:
    """Removes the index entries of libraries that don't exist any more."""
    if not (cache_dir / _INDEX).is_dir():  # the store has had no library, only kernels
        return
    known = {file.path.stem for file in files_of(cache_dir / _CODE)}
    for entry in (cache_dir / _INDEX).iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.read_text("utf-8") not in known:
                entry.unlink()


def clear(cache_dir: Path) -> list[File]:
    """Removes all compiled code from the cache folder, and returns the files that were removed.

    Records of tuning stay, as they take long to measure.
    """
    with locked(cache_dir) if cache_dir.is_dir() else contextlib.nullcontext():
        files = files_of(cache_dir / _CODE, cache_dir)
        for file in files:
            file.path.unlink(missing_ok=True)
        _drop_stale_index(cache_dir)
    remove_leftovers(cache_dir)
    _estimates.clear()
    return files


@cache
def remove_leftovers_once(folder: str | Path) -> None:
    """Removes temporary files of killed processes from a folder, once in a process."""
    remove_leftovers(folder)
