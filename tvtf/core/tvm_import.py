"""Imports TVM faster: it takes most of a program's start-up time.

Importing this module speeds up each later import of TVM by a module of tvtf, at module level or in a function.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import FrameType, ModuleType
from typing import Any

from tvtf.core.variable_lock import Lock

TVM = ("tvm", "tvm_ffi")
"""TVM's packages."""
AUTOLOAD = "TVM_DEVICE_BACKEND_AUTOLOAD"
"""TVM's switch for importing every backend; ``target.cuda_target`` loads the one it needs."""
UNNEEDED = ("torch", "tvm.runtime.disco")
"""Modules that TVM tries to import and does without where they are missing, unless the program has imported them already.

PyTorch, where it is installed, takes 0.9 s and 500 MB: `tvm_ffi` imports it for a quicker way to pass PyTorch's tensors, which
tvtf never passes. Programs that use `tvm_ffi` with PyTorch themselves import PyTorch before tvtf imports TVM. (`tvm_ffi` also
names a conflict of symbols on Windows, if PyTorch is imported later.) The import of ``tvm.runtime.disco``, TVM's runtime for
several machines, fails after 0.14 s, because TVM's library isn't loaded yet: the error records a stack trace, which reads the
debug information of TVM's libraries.
"""
IMPORT_SYSTEM = ("importlib", "_frozen_importlib", "importlib._bootstrap")
"""The modules whose functions stand between an import statement and a finder on the stack."""


class TvmFinder(MetaPathFinder):
    """Imports TVM in `_quick_import` for import statements in tvtf. It ignores other programs' imports."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Imports a package of TVM, and returns a spec with which Python gets the imported module.

        Returns None for other modules, and for imports by modules outside tvtf, which may need all of TVM. Python's
        own finders then find the module.
        """
        if name not in TVM or not _is_imported_by_tvtf():
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        # Ctrl-C is raised at the end of this block, and not in a loader: Python would drop a complete module then, which
        # can't be imported again, as its submodules stay.
        with without_interrupts():
            module = _imported(spec, spec.loader)
        # Python takes the spec of a module that a finder has imported instead of the finder's result (`_find_spec`).
        module.__spec__ = ModuleSpec(name, _ImportedModule(module, spec), origin=spec.origin, is_package=True)
        return module.__spec__


def _is_imported_by_tvtf() -> bool:
    """Returns whether the import statement that a finder serves is in a module of tvtf."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in IMPORT_SYSTEM:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "tvtf"


def _imported(spec: ModuleSpec, loader: Loader) -> ModuleType:
    """Imports the module of a spec in `_quick_import`, as Python's import system does."""
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec._initializing = True  # type: ignore[attr-defined]  # makes other threads' imports wait for the module
    try:
        with _quick_import():
            loader.exec_module(module)
    except BaseException:
        del sys.modules[spec.name]
        raise
    finally:
        spec._initializing = False  # type: ignore[attr-defined]
    return module


class _ImportedModule(Loader):
    """The loader of a module that is imported already. Afterwards the module has the spec with which it was imported."""

    def __init__(self, module: ModuleType, spec: ModuleSpec) -> None:
        self.module, self.spec = module, spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class _Importing:
    """How many threads import TVM, and what the first of them changed: the last one restores it."""

    lock = Lock()
    count = 0
    backends: str | None = None
    collects_garbage = False


@contextmanager
def _quick_import() -> Iterator[None]:
    """Makes the ``with`` block import TVM without its backends, modules that it doesn't need, and garbage collection."""
    with _Importing.lock:
        if not _Importing.count:
            _Importing.backends = os.environ.get(AUTOLOAD)
            _Importing.collects_garbage = gc.isenabled()
            os.environ.setdefault(AUTOLOAD, "0")  # TVM reads it when it is imported
            gc.disable()
        _Importing.count += 1
    try:
        with _without_modules(UNNEEDED):
            yield
    finally:
        with _Importing.lock:
            _Importing.count -= 1
            if not _Importing.count:
                if _Importing.backends is None:
                    os.environ.pop(AUTOLOAD, None)
                if _Importing.collects_garbage:
                    gc.enable()


class _Missing(MetaPathFinder):
    """Makes modules seem missing to the imports of one thread; other threads of the program may import them meanwhile."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.thread = threading.get_ident()

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        if name in self.names and threading.get_ident() == self.thread:
            raise ModuleNotFoundError(f"tvtf imports TVM without {name}", name=name)


@contextmanager
def _without_modules(names: Sequence[str]) -> Iterator[None]:
    """Makes this thread's imports of some modules fail at once in a ``with`` block, unless they are imported already."""
    finder = _Missing(names)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Delays Ctrl-C to the end of a ``with`` block. The block can't be interrupted and repeated, as TVM's import can't.

    TVM's modules register types and functions with TVM's library, which is possible only once in a process.
    """
    # Python runs signal handlers in the main thread, and only this thread may set them.
    handler = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if handler is None or not callable(handler):  # another thread, or Ctrl-C has no handler in Python
        yield
        return
    interrupts: list[tuple[int, Any]] = []
    signal.signal(signal.SIGINT, lambda *arguments: interrupts.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupts:
        handler(*interrupts[-1])


def import_whole(name: str) -> ModuleType:
    """Imports a module with Ctrl-C delayed to the end of the import.

    Ctrl-C may raise an exception inside Python's import system, most likely during a garbage collection, which takes 0.1 s.
    The import lock may stay locked then, and imports in other threads never return, such as those in threads that compile.
    """
    module = _whole.get(name)
    if module is None:
        with without_interrupts():
            module = _whole[name] = importlib.import_module(name)
    return module


_whole: dict[str, ModuleType] = {}
"""The modules that `import_whole` has imported. To delay Ctrl-C takes 10 us, and code of each call path imports by it."""


@contextmanager
def without_collection() -> Iterator[None]:
    """Turns Python's garbage collection off in a ``with`` block that allocates many long-lived objects, such as an import.

    Collections would take time there and free nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


sys.meta_path.insert(0, TvmFinder())
