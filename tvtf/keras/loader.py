"""Loads the package ``keras`` so that its modules, and only they, get tvtf for ``import tensorflow``.

A finder runs each module of Keras with its own ``__import__``. Keras's source and byte code are unchanged, and
``sys.modules["tensorflow"]`` is not modified.

If no TensorFlow is installed and no other backend chosen, ``import keras`` means this Keras. Otherwise Keras is loaded a
second time, under the name `COPY`, beside the one that other code imports.

Source: https://docs.python.org/3/reference/executionmodel.html#builtins-and-restricted-execution (``__builtins__``)
"""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from tvtf.api.namespaces import OLDEST_PYTHON
from tvtf.core.variable_lock import Lock
from tvtf.keras.hooks import HOOKS
from tvtf.public import tensorflow_view
from tvtf.public.keras_choice import KERAS, is_free
from tvtf.public.tensorflow_view import View

_import = builtins.__import__
"""Python's own import, which is fast: Keras imports inside functions that each training step calls."""

COPY = "tvtf.keras._copy"
VERSION = (3, 15)
"""The version whose use of TensorFlow's private names was checked by tvtf.keras.missing_names; another may use more."""
INSTALL = "pip install 'tvtf[keras]'"


def load() -> str:
    """Makes the installed package Keras importable with tvtf as its TensorFlow; returns the name to import.

    It is ``keras``, or that of a second copy, where ``keras`` is for other code.

    Raises:
      ImportError: Keras is not installed, is too old, or needs a newer Python.
    """
    if sys.version_info < OLDEST_PYTHON:
        raise ImportError(
            f"tvtf.keras is the package keras {_dotted(VERSION)}, which needs Python {_dotted(OLDEST_PYTHON)} or later."
        )
    package = PathFinder.find_spec(KERAS)
    if package is None or package.origin is None:
        raise ImportError(f"tvtf.keras is the package keras, which isn't installed: {INSTALL}")
    name = KERAS if is_free() else COPY
    sys.meta_path.insert(0, Finder(name, Path(package.origin)))
    return name


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


LAZY = {"wrappers", "visualization", "_tf_keras.keras.wrappers", "_tf_keras.keras.visualization", "src.visualization"}
"""The modules that run when they are first used: they import scikit-learn and matplotlib, where those are installed, which
takes more than half of the time of ``import keras`` (0.7 of 1.2 s)."""

REPLACED = ("input", "open", "print", "breakpoint")
"""Builtins that notebooks and tests replace while a program runs; Keras's modules have copies of all others."""


def _call_current_builtin(name: str) -> Callable[..., Any]:
    """Returns a function that calls whatever the builtin ``name``, such as ``print``, is replaced by at that time."""
    original = getattr(builtins, name)

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(builtins, name)(*args, **kwargs)

    return call


class Finder:
    """Finds the modules of Keras under ``name``; a copy's modules have the same files."""

    def __init__(self, name: str, init: Path) -> None:
        self.name, self.init = name, init
        self.builtins = (
            vars(builtins) | {each: _call_current_builtin(each) for each in REPLACED} | {"__import__": self.import_}
        )
        self.importlib = View("importlib", importlib)
        vars(self.importlib)["import_module"] = self.import_module

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of Keras or one of its modules, with the loader that changes their imports.

        For other modules it returns None: Python's own finders are next.
        """
        if name == self.name:
            return self._spec(name, str(self.init), [str(self.init.parent)])
        if not name.startswith(self.name + "."):
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        return self._spec(name, spec.origin, spec.submodule_search_locations)

    def _spec(self, name: str, origin: str, folders: list[str] | None) -> ModuleSpec | None:
        loader = Loader(name, origin, self)
        return spec_from_file_location(name, origin, loader=loader, submodule_search_locations=folders)

    # -- what Keras's modules see

    def import_(
        self,
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Sequence[str] = (),
        level: int = 0,  # noqa: A002
    ) -> Any:
        """Imports a module for Keras's code, which has this method as its ``__import__``.

        ``tensorflow`` is the view of tvtf, ``importlib`` a view whose ``import_module`` does the same, and in a copy of Keras
        ``keras`` is this copy.
        """
        top_package = name.partition(".")[0]
        if level == 0 and top_package == "tensorflow":
            module = tensorflow_view.find(name)
            return module if fromlist else tensorflow_view.find("tensorflow")
        if level == 0 and name == "importlib":
            return self.importlib
        if level == 0 and top_package == KERAS != self.name:
            return self._from_copy(name, fromlist)
        return _import(name, globals, locals, fromlist, level)

    def _from_copy(self, name: str, fromlist: Sequence[str] | None) -> Any:
        """Imports one of Keras's modules from this copy."""
        if fromlist:
            return _import(self._name_in_copy(name), None, None, fromlist, 0)
        importlib.import_module(self._name_in_copy(name))
        return sys.modules[self.name]

    def _name_in_copy(self, name: str) -> str:
        """Returns the name of one of Keras's modules in this copy."""
        return self.name + name.removeprefix(KERAS) if name.partition(".")[0] == KERAS else name

    def import_module(self, name: str, package: str | None = None) -> Any:
        """Works as ``importlib.import_module`` of Keras's modules."""
        if name.partition(".")[0] == "tensorflow":
            return tensorflow_view.find(name)
        return importlib.import_module(self._name_in_copy(name), package)


class Loader(SourceFileLoader):
    """Runs a module of Keras with the finder's ``__import__``, and then its hook; modules of ``LAZY`` at their first use."""

    def __init__(self, name: str, path: str, finder: Finder) -> None:
        super().__init__(name, path)
        self.finder = finder

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module of Keras with changed imports, and then its hook; a module of ``LAZY`` only becomes a LazyModule."""
        name = module.__name__.removeprefix(f"{self.finder.name}.")
        is_imported = "__builtins__" not in vars(module)  # else a lazy module is run, at its first use
        vars(module)["__builtins__"] = self.finder.builtins
        if is_imported and name in LAZY:
            module.__class__ = LazyModule
            return
        super().exec_module(module)
        module.__class__ = ModuleType
        hook = HOOKS.get(name)
        if hook:
            hook(module)


class LazyModule(ModuleType):
    """A module that runs when an attribute is read which importing it has not set.

    Unlike a module of ``importlib.util.LazyLoader`` it does not run where ``__file__`` or ``__spec__`` is read: ``inspect``
    and AutoGraph read these of every module.
    """

    def __getattr__(self, name: str) -> Any:
        """Runs the module if it hasn't run, and returns an attribute; special names don't run it.

        Raises:
          AttributeError: the module doesn't define the name.
        """
        if name != "__all__" and name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _run_lock:
            if _IS_RUNNING not in vars(self):  # else its own code reads an attribute that it hasn't set yet
                vars(self)[_IS_RUNNING] = True
                try:
                    self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
                finally:
                    del vars(self)[_IS_RUNNING]
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        hasattr(self, "__all__")
        return list(vars(self))


_IS_RUNNING = "_tvtf_runs"
_run_lock = Lock()
"""Held while a lazy module runs, so that other threads see it whole."""
