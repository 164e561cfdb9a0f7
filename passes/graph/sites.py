"""Rewrites of the dialect that are planned for a complete function before its bindings are re-emitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import tvm
from tvm import relax

from tvtf.core.primitive import Primitive
from tvtf.ir.interpreter import Evaluation, reemit
from tvtf.passes.analysis.dead_code import drop_dead


class PlannedRewrite(Evaluation, ABC):
    """Re-emits a function by the plan that :meth:`plan_of` made for it; calls outside the plan are copied."""

    def __init__(self, plans: Sequence[tuple[relax.Function, Any]], *args: Any) -> None:
        super().__init__(*args)
        self.kind = partial(type(self), plans)
        self.plan = next(plan for function, plan in plans if function.same_as(self.function))

    @staticmethod
    @abstractmethod
    def plan_of(function: relax.Function) -> Any:
        """Returns what is to be rewritten in a function; something false if nothing is."""

    def may_copy(self, prim: Primitive[Any]) -> bool:
        return True


class SiteRewrite(PlannedRewrite):
    """A rewrite whose plan has a site for each variable that is bound to another value."""

    @abstractmethod
    def rewritten(self, site: Any, binding: Any) -> Any:
        """Returns the new value of a site's binding."""

    def bound(self, binding: Any) -> Any:
        site = self.plan.get(binding.var)
        return super().bound(binding) if site is None else self.rewritten(site, binding)


def rewrite_by_plan(mod: tvm.IRModule, kind: type[PlannedRewrite]) -> tvm.IRModule:
    """Applies a planned rewrite to each function of a module that has something to rewrite.

    Values that nothing reads afterwards are removed. If no function has a plan, the module is returned unchanged.

    Args:
      mod: the module.
      kind: the class of the rewrite. Its `plan_of` finds what to rewrite in a function.
    """
    functions = [func for func in mod.functions.values() if isinstance(func, relax.Function)]
    functions_and_plans = [(function, kind.plan_of(function)) for function in functions]
    if not any(plan for _function, plan in functions_and_plans):
        return mod
    rewritten = reemit(mod, partial(kind, functions_and_plans))
    return drop_dead(rewritten)
