"""An import hook for aliases of modules: importing an alias returns the module that exists under another name."""

from __future__ import annotations

from collections.abc import Callable
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class ModuleAliases(Loader):
    """Imports modules under other names: a finder for ``sys.meta_path``, and the loader of the aliases that it finds.

    Args:
      is_alias: returns whether a dotted name is an alias of a module.
      find: returns the module for an alias.

    Source: https://docs.python.org/3/reference/import.html#the-meta-path
    """

    def __init__(self, is_alias: Callable[[str], bool], find: Callable[[str], ModuleType]) -> None:
        self.is_alias, self.find = is_alias, find

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns an import spec for an alias, or None for other names, which leaves them to the next finder."""
        return ModuleSpec(name, self, is_package=True) if self.is_alias(name) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the existing module for an alias, and saves the module's own spec for `exec_module`."""
        module = self.find(spec.name)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Restores the module's own spec, which `importlib.reload` needs.

        Python's import system has replaced the spec by the alias's. The module's code is not run again.
        """
        spec = module.__spec__
        if spec is not None and spec.loader is self:
            module.__spec__ = spec.loader_state
