"""Defines ``tvtf.as_tensorflow``, after which ``import tensorflow`` imports tvtf.

A finder returns the views of `tvtf.public.tensorflow_view` for ``tensorflow`` and its modules. Classes get module names inside
TensorFlow, because libraries look at ``type(x).__module__`` to recognize its tensors: ``tvtf.core.tensor`` becomes
``tensorflow.python.tvtf.core.tensor``. The finder finds these names, too, for ``pickle`` and ``inspect``.

Source: https://docs.python.org/3/reference/import.html#the-meta-path
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from inspect import isclass
from pathlib import Path
from types import ModuleType
from typing import Any

import tvtf
from tvtf import private
from tvtf.api import namespaces
from tvtf.api.namespaces import has_keras
from tvtf.api.namespaces import install as _install
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import EagerTensor, SymbolicTensor
from tvtf.public import keras_choice, tensorflow_view
from tvtf.public.tensorflow_view import View

TENSORFLOW = "tensorflow"
TVTF_WITHIN_TENSORFLOW = f"{TENSORFLOW}.python.tvtf"
"""The package in which programs see tvtf's modules."""


AUTOGRAPH = f"{TENSORFLOW}.python.autograph"
"""Its modules are those of the package malt, a standalone AutoGraph."""


class _Finder(MetaPathFinder):
    """Finds tvtf's modules for imports of ``tensorflow``, and Keras on tvtf for ``keras`` if the name is free."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns an import spec for a module of ``tensorflow`` or for ``keras``; None leaves a name to other finders."""
        if name == "keras":
            return ModuleSpec(name, _Keras(), is_package=True) if _keras_is_to_load() else None
        if name.partition(".")[0] != TENSORFLOW:
            return None
        module = _module_of(name)
        return None if module is None else ModuleSpec(name, _ExistingModule(module), is_package=True)

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        """Yields the metadata of the package tensorflow, if that is asked for by its name."""
        if getattr(context, "name", None) == TENSORFLOW:
            yield _InstalledTensorFlow()


def _module_of(name: str) -> ModuleType | None:
    """Returns tvtf's module for the import of a module of ``tensorflow``, or None if there is none.

    Names below ``tensorflow.python.tvtf`` are those of tvtf's source files. Names below ``tensorflow.python.autograph`` are
    those of the package malt. All others are found in the view of TensorFlow's public and private names.
    """
    if name == TVTF_WITHIN_TENSORFLOW or name.startswith(f"{TVTF_WITHIN_TENSORFLOW}."):
        return View(name, import_module(name.replace(TVTF_WITHIN_TENSORFLOW, "tvtf", 1)))
    if name.startswith(f"{AUTOGRAPH}."):
        import_module("tvtf.frontend.autograph.whole_malt")
        return import_module(name.replace(AUTOGRAPH, "malt", 1))
    try:
        attribute = tensorflow_view.find(name)
    except ModuleNotFoundError:
        return None
    return attribute if isinstance(attribute, ModuleType) else None


def _keras_is_to_load() -> bool:
    """Returns whether ``import keras`` must load Keras on tvtf through ``tvtf.keras``.

    If ``tvtf.keras`` is imported already, it has its own finder for Keras.
    """
    return "tvtf.keras" not in sys.modules and keras_choice.is_free() and has_keras()


class _InstalledTensorFlow(Distribution):
    """What ``importlib.metadata`` says of the package tensorflow: the version, by which libraries find that it is there."""

    def read_text(self, filename: str) -> str | None:
        return (
            f"Metadata-Version: 2.1\nName: {TENSORFLOW}\nVersion: {tensorflow_view.VERSION}\n"
            if filename == "METADATA"
            else None
        )

    def locate_file(self, path: Any) -> Any:
        return Path(tvtf.__path__[0]).parent / path


class _ExistingModule(Loader):
    """A loader that returns an existing module. It restores the module's own spec, so that `importlib.reload` works."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Restores the module's own spec, which Python's import system has replaced; runs no code."""
        if self.spec is not None:
            module.__spec__ = self.spec


class _Keras(Loader):
    """A loader that imports Keras through ``tvtf.keras``."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Imports Keras through ``tvtf.keras``, and returns the module ``keras``."""
        import_module("tvtf.keras")
        self.module = sys.modules["keras"]
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        """Restores Keras's own spec, which Python's import system has replaced; runs no code."""
        module.__spec__ = self.spec


@export("as_tensorflow", waits=False)
def as_tensorflow() -> ModuleType:
    """Makes ``import tensorflow`` and its modules mean tvtf in this process, for notebooks.

    ``tvtf exec SCRIPT`` does it for a program. ``tf.__version__`` is the version of TensorFlow whose names tvtf provides.

    Returns:
      The module ``tensorflow``.

    Raises:
      ImportError: TensorFlow itself has been imported already.

    >>> import subprocess, sys
    >>> program = "import tvtf; tvtf.as_tensorflow(); import tensorflow as tf; print(tf.__version__, tf.reduce_sum([1, 2]))"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    '2.21.0 tf.Tensor(3, shape=(), dtype=int32)\\n'

    Source: https://www.tensorflow.org/api_docs/python/tf
    """
    view = tensorflow_view.find(TENSORFLOW)
    imported = sys.modules.get(TENSORFLOW)
    if imported is view:
        return view  # type: ignore[no-any-return, return-value]
    if imported is not None:
        raise ImportError(
            f"TensorFlow {getattr(imported, '__version__', '')} is imported already, from {getattr(imported, '__file__', '?')}: "
            "call tvtf.as_tensorflow() before anything imports tensorflow."
        )
    tensorflow_view.add(private.names(), private.BEHIND)
    tensorflow_view.replace(
        {"python.keras": keras_choice.package_like_keras_2()} | keras_choice.layers_of_tensorflow_1()
    )
    tensorflow_view.replace(keras_choice.OF_KERAS_2, keras_choice.is_keras_2)
    sys.meta_path.insert(0, _Finder())
    namespaces.on_install.append(_move_classes)
    _move_classes([*vars(tvtf).values(), *public_names().values(), EagerTensor, SymbolicTensor])
    return import_module(TENSORFLOW)


def _move_classes(values: Iterable[Any]) -> None:
    """Changes the ``__module__`` of tvtf's classes among ``values``, and of their subclasses, to a name below ``tensorflow``.

    Libraries recognize TensorFlow's tensors by this name. It must also be importable, for ``pickle``.
    """
    for value in values:
        if isclass(value):
            classes: list[Any] = [value, *_subclasses(value)]
            for each_class in classes:
                module = each_class.__module__ or ""  # classes of protobuf messages have none
                if module.partition(".")[0] == "tvtf":
                    each_class.__module__ = f"{TVTF_WITHIN_TENSORFLOW}{module.removeprefix('tvtf')}"
                    import_module(each_class.__module__)


def _subclasses(cls: type) -> Iterable[type]:
    """Yields all direct and indirect subclasses of a class."""
    direct_subclasses: list[type] = type.__subclasses__(cls)
    for subclass in direct_subclasses:
        yield subclass
        yield from _subclasses(subclass)


_install()
