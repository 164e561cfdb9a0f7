"""Rewrites of the dialect at places that are found before."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import tvm
from tvm import relax

from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.passes.analysis.dead_code import drop_dead


class SiteRewrite(Evaluation, ABC):
    """Re-emits a function with other values at the bindings that :meth:`find` returns."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sites = self.find(self.function)

    @staticmethod
    @abstractmethod
    def find(function: relax.Function) -> dict[relax.Var, Any]:
        """Returns what is to be rewritten, by the variables that are bound there."""

    @abstractmethod
    def rewritten(self, site: Any, binding: Any) -> Any:
        """Returns the new value of a site's binding."""

    def bound(self, binding: Any) -> Any:
        site = self.sites.get(binding.var)
        return super().bound(binding) if site is None else self.rewritten(site, binding)


def rewrite_sites(mod: tvm.IRModule, kind: type[SiteRewrite]) -> tvm.IRModule:
    """Re-emits a module by a rewrite, and drops what isn't read any more; a module without sites stays as it is."""
    functions = [f for f in mod.functions.values() if isinstance(f, relax.Function)]
    return drop_dead(reemit(mod, kind)) if any(map(kind.find, functions)) else mod
