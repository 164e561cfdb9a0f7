"""``tvtf.as_tensorflow``: from then on ``import tensorflow``, and what lies in it, is tvtf.

A finder answers for ``tensorflow`` and its modules with the views of `tvtf.public.tensorflow_view`. Classes say that they are of
TensorFlow's, since libraries look at ``type(x).__module__`` to tell whose tensor it is: ``tvtf.core.tensor`` becomes
``tensorflow.python.tvtf.tensor``, under which the finder finds it, for ``pickle`` and ``inspect``.

Source: https://docs.python.org/3/reference/import.html#the-meta-path
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from inspect import isclass
from types import ModuleType
from typing import Any

import tvtf
from tvtf import private
from tvtf.api.namespaces import has_keras
from tvtf.api.namespaces import install as _install
from tvtf.core.primitive import export, hooks, public_names
from tvtf.core.tensor import EagerTensor, SymbolicTensor
from tvtf.public import keras_choice, tensorflow_view
from tvtf.public.tensorflow_view import View

TENSORFLOW = "tensorflow"
OWN = f"{TENSORFLOW}.python.tvtf"
"""Where the modules of tvtf lie as other people's programs see them."""


AUTOGRAPH = f"{TENSORFLOW}.python.autograph"
"""Its modules are those of the package malt, which is AutoGraph by itself."""


class _Finder(MetaPathFinder):
    """Finds ``tensorflow``, what lies in it, and Keras on tvtf where ``keras`` can mean nothing else."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "keras":
            return ModuleSpec(name, _Keras(), is_package=True) if _keras_is_to_load() else None
        if name.partition(".")[0] != TENSORFLOW:
            return None
        module = _found(name)
        return None if module is None else ModuleSpec(name, _Found(module), is_package=True)


def _found(name: str) -> ModuleType | None:
    if name == OWN or name.startswith(f"{OWN}."):
        return View(name, import_module(name.replace(OWN, "tvtf", 1)))
    if name.startswith(f"{AUTOGRAPH}."):
        return import_module(name.replace(AUTOGRAPH, "malt", 1))
    try:
        found = tensorflow_view.find(name)
    except ModuleNotFoundError:
        return None
    return found if isinstance(found, ModuleType) else None


def _keras_is_to_load() -> bool:
    """Whether ``import keras`` is to load it: while ``tvtf.keras`` does, that finds the files."""
    return "tvtf.keras" not in sys.modules and keras_choice.is_free() and has_keras()


class _Found(Loader):
    """Gives a module that is there already; it stays who it is, for `importlib.reload`."""

    def __init__(self, module: ModuleType) -> None:
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        if self.spec is not None:
            module.__spec__ = self.spec


class _Keras(Loader):
    """Loads Keras by way of ``tvtf.keras``."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import_module("tvtf.keras")
        self.module = sys.modules["keras"]
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


@export("as_tensorflow", waits=False)
def as_tensorflow() -> ModuleType:
    """Makes ``import tensorflow``, and all that lies in it, mean tvtf in this process: for notebooks.

    ``tvtf exec SCRIPT`` does it for a program. ``tf.__version__`` is that of the TensorFlow whose names these are.

    Returns:
      The module ``tensorflow``.

    Raises:
      ImportError: TensorFlow itself is imported already.

    >>> import subprocess, sys
    >>> program = "import tvtf; tvtf.as_tensorflow(); import tensorflow as tf; print(tf.__version__, tf.reduce_sum([1, 2]))"
    >>> subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    '2.21.0 tf.Tensor(3, shape=(), dtype=int32)\\n'

    Source: https://www.tensorflow.org/api_docs/python/tf
    """
    view = tensorflow_view.find(TENSORFLOW)
    there = sys.modules.get(TENSORFLOW)
    if there is view:
        return view  # type: ignore[no-any-return, return-value]
    if there is not None:
        raise ImportError(
            f"TensorFlow {getattr(there, '__version__', '')} is imported already, from {getattr(there, '__file__', '?')}: "
            "call tvtf.as_tensorflow() before anything imports tensorflow."
        )
    tensorflow_view.add(private.names(), private.BEHIND)
    sys.meta_path.insert(0, _Finder())
    hooks.declared = _rename
    _rename([*vars(tvtf).values(), *public_names().values(), EagerTensor, SymbolicTensor])
    return import_module(TENSORFLOW)


def _rename(values: Iterable[Any]) -> None:
    """Has classes of tvtf's, and theirs, say that they are of TensorFlow's."""
    for value in values:
        if isclass(value):
            classes: list[Any] = [value, *_subclasses(value)]
            for each in classes:
                module = each.__module__ or ""  # messages of protobuf have none
                if module.partition(".")[0] == "tvtf":
                    each.__module__ = f"{OWN}{module.removeprefix('tvtf')}"
                    import_module(each.__module__)


def _subclasses(cls: type) -> Iterable[type]:
    below: list[type] = type.__subclasses__(cls)
    for each in below:
        yield each
        yield from _subclasses(each)


_install()
