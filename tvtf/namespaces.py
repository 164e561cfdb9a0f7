"""The public namespaces (``tvtf.math``, ``tvtf.nn``, ...): modules built from the paths that ops declare."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any


def install(root: ModuleType, names: Mapping[str, Any]) -> None:
    """Gives ``root`` every name; a dotted path goes into a submodule, made and registered where it is missing."""
    for path, value in names.items():
        *folders, name = path.split(".")
        setattr(_module(root, folders), name, value)


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
