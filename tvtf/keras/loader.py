"""Loads the package ``keras`` so that ``import tensorflow`` imports tvtf in its modules, and only there.

A finder runs each module of Keras with its own ``__import__``. Keras's source and byte code are unchanged, and
``sys.modules["tensorflow"]`` is not modified.

If no TensorFlow is installed and no other backend chosen, ``import keras`` means this Keras. Otherwise Keras is loaded a
second time, under the name `COPY`, next to the one that other code imports.

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
    """Makes the installed package Keras importable with tvtf in place of TensorFlow, and returns the name to import.

    The name is ``keras``, or `COPY` if ``keras`` is for other code.

    Raises:
      ImportError: Keras is not installed, or needs a newer Python.
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
    """Formats a version number, such as ``(3, 15)`` as "3.15"."""
    return ".".join(map(str, version))


LAZY = {"wrappers", "visualization", "_tf_keras.keras.wrappers", "_tf_keras.keras.visualization", "src.visualization"}
"""The modules that run when they are first used: they import scikit-learn and matplotlib, where those are installed, which
takes more than half of the time of ``import keras`` (0.7 of 1.2 s)."""

REPLACED = ("input", "open", "print", "breakpoint")
"""Builtins that notebooks and tests replace while a program runs; Keras's modules have copies of all others."""


def _call_current_builtin(name: str) -> Callable[..., Any]:
    """Returns a function that looks a builtin up by name, such as ``print``, at each call, and calls it.

    So it calls a function by which a notebook or test has replaced the builtin.
    """
    original = getattr(builtins, name)

    @functools.wraps(original)
    def call_builtin(*args: Any, **kwargs: Any) -> Any:
        return getattr(builtins, name)(*args, **kwargs)

    return call_builtin


class Finder:
    """Finds the modules of Keras on tvtf under the package ``name``. A copy of Keras is loaded from the same files."""

    def __init__(self, name: str, init: Path) -> None:
        """Creates the finder. Its modules get builtins of their own, so that `import tensorflow` in them finds tvtf."""
        self.name = name
        self.init = init
        # Keras's modules get this dict as their ``__builtins__``. Python calls its ``__import__`` for their imports.
        self.builtins = dict(vars(builtins))
        for builtin_name in REPLACED:
            self.builtins[builtin_name] = _call_current_builtin(builtin_name)
        self.builtins["__import__"] = self.import_
        self.importlib = View("importlib", importlib)
        vars(self.importlib)["import_module"] = self.import_module

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns an import spec for Keras or one of its modules, with a loader that changes the module's imports.

        For other modules it returns None, which leaves them to Python's own finders.
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
        """Returns an import spec for one of Keras's source files; ``folders`` are those of a package's submodules."""
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
        """Imports a module for Keras's code. Keras's modules have this method as their ``__import__``.

        The name ``tensorflow`` imports tvtf. In a copy of Keras, the name ``keras`` imports the copy. ``importlib`` is
        replaced by a view whose ``import_module`` does the same. All other imports are Python's own.

        Args:
          name: the name of the module.
          globals, locals: Python's arguments: the namespaces of the importing code.
          fromlist: the names to import from the module; empty for ``import name``.
          level: the number of leading dots in a relative import; 0 for an absolute one.
        """
        top_package = name.partition(".")[0]
        if level == 0 and top_package == "tensorflow":  # level 0: an absolute import
            module = tensorflow_view.find(name)
            # As in Python, ``import a.b`` gets the top package, and ``from a.b import c`` the module a.b.
            return module if fromlist else tensorflow_view.find("tensorflow")
        if level == 0 and name == "importlib":
            return self.importlib
        if level == 0 and top_package == KERAS != self.name:  # this Keras is a copy
            return self._from_copy(name, fromlist)
        return _import(name, globals, locals, fromlist, level)

    def _from_copy(self, name: str, fromlist: Sequence[str] | None) -> Any:
        """Imports a module of Keras from this copy. Like ``__import__``, it returns the top package without a fromlist."""
        if fromlist:
            return _import(self._name_in_copy(name), None, None, fromlist, 0)
        importlib.import_module(self._name_in_copy(name))
        return sys.modules[self.name]

    def _name_in_copy(self, name: str) -> str:
        """Converts the name of a module of Keras to that in this copy. Returns other names unchanged."""
        return self.name + name.removeprefix(KERAS) if name.partition(".")[0] == KERAS else name

    def import_module(self, name: str, package: str | None = None) -> Any:
        """Imports a module for Keras's code, which has this method in place of ``importlib.import_module``."""
        if name.partition(".")[0] == "tensorflow":
            return tensorflow_view.find(name)
        return importlib.import_module(self._name_in_copy(name), package)


class Loader(SourceFileLoader):
    """Runs a module of Keras with the finder's ``__import__``, and then its hook; modules of ``LAZY`` at their first use."""

    def __init__(self, name: str, path: str, finder: Finder) -> None:
        super().__init__(name, path)
        self.finder = finder

    def exec_module(self, module: ModuleType) -> None:
        """Runs a module of Keras with changed imports, and then the hook that patches the module for tvtf.

        Importing a module of ``LAZY`` doesn't run it. It becomes a `LazyModule`, which calls this method at its first use.
        """
        name = module.__name__.removeprefix(f"{self.finder.name}.")
        is_first_call = "__builtins__" not in vars(module)  # a LazyModule makes the second call
        vars(module)["__builtins__"] = self.finder.builtins
        if is_first_call and name in LAZY:
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
        """Runs the module's code, and returns an attribute that the code has set.

        Raises:
          AttributeError: the code doesn't set the name, or it is a special name other than ``__all__``.
        """
        if name != "__all__" and name.startswith("__"):  # inspect and AutoGraph read special names of all modules
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        with _run_lock:
            # While the module runs, its own code may read an attribute that is not set yet.
            if _IS_RUNNING not in vars(self):
                vars(self)[_IS_RUNNING] = True
                try:
                    self.__spec__.loader.exec_module(self)  # type: ignore[union-attr]
                finally:
                    del vars(self)[_IS_RUNNING]
        return ModuleType.__getattribute__(self, name)

    def __dir__(self) -> list[str]:
        hasattr(self, "__all__")  # runs the module
        return list(vars(self))


_IS_RUNNING = "_tvtf_runs"
_run_lock = Lock()
"""Held while a lazy module runs, so that other threads see it whole."""
