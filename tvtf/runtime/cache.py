"""The cache of compiled code, in the process and on disk, keyed by all inputs of the compilation."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm_ffi import structural_equal, structural_hash

from tvtf import core, ir, ops, passes
from tvtf.ir.check_lines import without_lines
from tvtf.passes.codegen.hooks import Hooks
from tvtf.passes.schedule.tuned_choices import describe
from tvtf.passes.schedule.tuning_records import digest
from tvtf.runtime.executable import Executable
from tvtf.runtime.function_digest import digest_of, foreign_kernels
from tvtf.runtime.store import load_or_build, load_or_build_object
from tvtf.version import __version__

_loaded: weakref.WeakValueDictionary[Compilation, Executable] = weakref.WeakValueDictionary()
"""Executables in use; weak references, so that dropping a function's traces unloads their code."""
_files: weakref.WeakValueDictionary[tuple[Path, Any], Executable] = weakref.WeakValueDictionary()
"""Executables by file and device. TVM sets static variables of a library when it loads it: it must not be loaded twice."""


class Compilation:
    """All that compiled code depends on: IR and constants, target, tuning records, users' primitives and build options.

    Equal compilations have the same code. In a process modules are compared by structure and the names in their errors,
    which takes a third of the time of writing them as text for :meth:`key`.
    """

    def __init__(self, mod: Any, target: Any, *options: str) -> None:
        self.mod = mod
        self.settings = (str(target), digest(describe(target)), *options)
        self._compared_by_value = self.settings, digest_of(foreign_kernels()), tuple(_names_in_errors(mod))
        self._hash = hash((structural_hash(mod), self._compared_by_value))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        """Returns whether two compilations have structurally equal modules and the same settings."""
        return (
            isinstance(other, Compilation)
            and self._compared_by_value == other._compared_by_value
            and structural_equal(self.mod, other.mod)
        )

    def key(self) -> str:
        """Returns a digest of the compilation and of the versions of tvtf and TVM. The digest is the cache key on disk."""
        structure = without_lines(tvm.ir.save_json(self.mod))
        user_kernels = digest_of(foreign_kernels(structure))
        parts = (structure, tvm.__version__, __version__, sources_digest(), user_kernels, *self.settings)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _names_in_errors(mod: Any) -> Iterator[str]:
    """Yields the names of parameters and of their dims, which stand in the errors of compiled code."""
    for func in mod.functions.values():
        for param in func.params:
            yield param.name
            dims = getattr(getattr(param.ty, "shape", None), "values", None) or ()
            yield from (dim.name for dim in dims if isinstance(dim, tirx.Var))


def cached(
    compilation: Compilation,
    build: Callable[[Path], None],
    load: Callable[[Path], Executable] = Executable,
    device: Any = None,
) -> Executable:
    """Returns the executable of a compilation: from memory, else from the cache on disk, else compiled now.

    Args:
      compilation: what to compile; equal compilations share an executable.
      build: compiles a library to a path.
      load: loads the library at a path as an executable.
      device: the device that the executable runs on.
    """

    def load_once(path: Path) -> Executable:
        """Returns the executable of a library; one that is loaded already is shared."""
        # Other keys may lead to the same file, as the store is addressed by content.
        executable = _files.get((path, device))
        if executable is None:
            executable = _files[path, device] = load(path)
        return executable

    executable = _loaded.get(compilation)
    if executable is None:
        executable = _loaded[compilation] = load_or_build(compilation.key(), build, load_once)
    return executable


def kernel_code(key: str, build: Callable[[], bytes]) -> bytes:
    """Returns the object code of a kernel: stored by this version of tvtf and TVM, or what ``build`` compiles."""
    parts = (key, tvm.__version__, __version__, sources_digest())
    return load_or_build_object("kernel-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40], build)


Hooks.stored = staticmethod(kernel_code)

_digest: list[str] = []


def sources_digest() -> str:
    """Returns a digest of tvtf's source files, computed once in a process.

    The digest is a part of cache keys, because code that another version of the sources compiled must not be used.
    """
    if not _digest:
        roots = [Path(__file__).parent, *(Path(package.__file__ or "").parent for package in (core, ir, ops, passes))]
        files = sorted(file for root in roots for file in root.rglob("*.py"))
        # Sizes and times of change tell versions from one another, and take less time than reading the files.
        stamps = [f"{file.name}:{file.stat().st_size}:{file.stat().st_mtime_ns}" for file in files]
        text = "\n".join(stamps)
        _digest.append(hashlib.sha256(text.encode()).hexdigest())
    return _digest[0]
