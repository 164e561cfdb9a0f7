"""Has ``import`` of one name give a module that has another name already, with all that it is."""

from __future__ import annotations

from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ModuleAliases(Loader):
    """A finder for ``sys.meta_path``.

    Args:
      is_alias: whether a dotted name is one of those.
      find: the module that such a name stands for.

    Source: https://docs.python.org/3/reference/import.html#the-meta-path
    """

    def __init__(self, is_alias: Callable[[str], bool], find: Callable[[str], ModuleType]) -> None:
        self.is_alias, self.find = is_alias, find

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if self.is_alias(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = self.find(spec.name)
        spec.loader_state = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """It is there already; it stays who it is, for `importlib.reload`."""
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state
