"""Provides ``tf.keras``: the package ``keras`` 3, unmodified, on tvtf.

Install it with ``pip install 'tvtf[keras]'``. The names are those of TensorFlow's ``tf.keras``, the objects Keras's own.

Source: https://keras.io/api/
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from tvtf.api.module_aliases import ModuleAliases
from tvtf.keras import loader

_name = loader.load()
_api = import_module(f"{_name}._tf_keras.keras")
__version__ = _api.__version__


def _is_submodule(name: str) -> bool:
    """Returns whether a module name, such as ``tvtf.keras.layers``, is that of a module of Keras's public API.

    Keras's package doesn't import all of its modules: ``saving`` is one only if a program imports it.
    """
    public_path = name.removeprefix(f"{__name__}.")
    first = public_path.partition(".")[0]
    return public_path != name and (first in vars(_api) or find_spec(f"{_api.__name__}.{first}") is not None)


def _submodule(name: str) -> ModuleType:
    """Returns Keras's module for a name such as ``tvtf.keras.layers``.

    If the parent module has the module as an attribute, the attribute is returned, because importing the module again could
    replace a module of ``keras`` itself.
    """
    parent, _, short_name = name.rpartition(".")
    attribute = getattr(sys.modules[parent], short_name, None)
    return (
        attribute if isinstance(attribute, ModuleType) else import_module(_api.__name__ + name.removeprefix(__name__))
    )


sys.meta_path.insert(0, ModuleAliases(_is_submodule, _submodule))  # type: ignore[arg-type]


def __getattr__(name: str) -> Any:
    if name == "__all__":  # for `from tensorflow.keras import *`, which would else find only the names of this file
        return [each for each in dir(_api) if not each.startswith("_")]
    return getattr(_api, name)


def __dir__() -> list[str]:
    return dir(_api)
