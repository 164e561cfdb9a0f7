"""The public namespaces (``tvtf.math``, ``tvtf.nn``, ...): modules built from the paths that ops declare."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from tvtf import absent


def install(root: ModuleType, names: Mapping[str, Any]) -> None:
    """Gives ``root`` every name; a dotted path goes into a submodule, made and registered where it is missing."""
    for path, value in names.items():
        *folders, name = path.split(".")
        module = _module(root, folders)
        setattr(module, name, value)
        if module is not root:
            refusing(module, ".".join(folders))


def refusing(module: ModuleType, path: str) -> ModuleType:
    """Gives a module that is ``tf.path`` an error of its own for what of TensorFlow's it lacks."""

    def refuse(name: str) -> Any:
        raise absent.error(module.__name__, f"{path}.{name}")

    vars(module).setdefault("__getattr__", refuse)
    return module


def _module(root: ModuleType, folders: list[str]) -> ModuleType:
    module = root
    for folder in folders:
        found = getattr(module, folder, None)
        if not isinstance(found, ModuleType):
            found = _made(module, folder)
        module = found
    return module


def _made(parent: ModuleType, name: str) -> ModuleType:
    full = f"{parent.__name__}.{name}"
    made = ModuleType(full, f"Public functions of ``{full}``, collected from the ops that declare them.")
    sys.modules[full] = made
    setattr(parent, name, made)
    return made
