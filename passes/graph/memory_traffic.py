"""Reads and writes large tensors less often: sums of the same tensors in one pass, cheap values computed where they are read.

Batch norms and their gradients are bound by memory. One that is written ``(x - mean) * rsqrt(variance) * scale + offset``
reads and writes tensors as large as ``x`` 20 times without this pass, and 9 times with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvtf.core.primitive import table
from tvtf.passes.analysis.recomputable import ARITHMETIC, Recomputable, again, is_broadcast
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.sites import PlannedRewrite, rewrite_by_plan

_WIDE = ("float32", "float64")
MOST_SUMS = 4
"""Sums in one pass: their partial results stay in registers."""
MOST_LARGE = 3
"""Large tensors that one pass reads."""


def reduce_traffic(mod: tvm.IRModule) -> tvm.IRModule:
    """Joins sums over the same leading axes, and computes cheap values again where they are read."""
    return rewrite_by_plan(mod, _LessTraffic)


@dataclass
class _Sums:
    """Sums over the same axes of tensors of one shape, and the formulas whose elements they add.

    A formula is an operand, or an operator's name and its formulas; ``leaves`` has the operands, a large one first.
    """

    axis: tuple[int, ...]
    uses: list[Use] = field(default_factory=list)
    formulas: list[Any] = field(default_factory=list)
    leaves: dict[Any, None] = field(default_factory=dict)

    def add(self, use: Use, formula: Any, leaves: list[Any]) -> None:
        self.uses.append(use)
        self.formulas.append(formula)
        self.leaves |= dict.fromkeys(sorted(leaves, key=lambda leaf: is_broadcast(leaf, use.inputs[0])))

    def numbered(self, formula: Any) -> Any:
        """Returns a formula with operands replaced by their numbers."""
        if isinstance(formula, tuple):
            return (formula[0], *map(self.numbered, formula[1:]))
        return [*self.leaves].index(formula)


class _Plan:
    """What is rewritten in a function: sums by their variables, and values that each reader computes."""

    def __init__(self, function: relax.Function) -> None:
        self.graph = Graph(function)
        self.recomputed = Recomputable(self.graph).values
        self.order = {var: position for position, var in enumerate(self.graph.producers)}
        self.sums: dict[relax.Var, _Sums] = {}
        for group in self._groups():
            if len(group.uses) > 1:
                self.sums |= {use.var: group for use in group.uses}

    def __bool__(self) -> bool:
        return bool(self.sums or self.recomputed)

    def _groups(self) -> list[_Sums]:
        groups: list[_Sums] = []
        for use in self.graph.producers.values():
            if _is_of_columns(use):
                formula = self._formula(use.inputs[0])
                leaves = [*_leaves(formula)]
                if all(self._is_in_memory(x) for x in leaves if not is_broadcast(x, use.inputs[0])):
                    group = next((g for g in groups if self._fits(g, use, leaves)), None)
                    if group is None:
                        group = _Sums(use.attrs["axis"])
                        groups.append(group)
                    group.add(use, formula, leaves)
        return groups

    def _formula(self, x: Any) -> Any:
        """Returns the arithmetic by which a value is computed from tensors in memory."""
        use = self.graph.producers.get(x)
        is_own = use is not None and use.name in ARITHMETIC and self.graph.only_use(x) is not None
        if use is None or not (is_own or x in self.recomputed):
            return x
        name = again(use).name if x in self.recomputed else use.name
        return (name, *(y if is_broadcast(y, x) else self._formula(y) for y in use.inputs))

    def _is_in_memory(self, x: Any) -> bool:
        """Returns whether another kernel reads a value, too; if not, it is cheaper to fuse its computation into the sum."""
        return x not in self.graph.producers or len(self.graph.uses[x]) > 1

    def _fits(self, group: _Sums, use: Use, leaves: list[Any]) -> bool:
        """Returns whether a sum can be computed in the pass of a group, where the first sum of the group stands."""
        first = group.uses[0]
        (whole,), (x,) = first.inputs, use.inputs
        if len(group.uses) >= MOST_SUMS or group.axis != use.attrs["axis"]:
            return False
        if not tvm_ffi.structural_equal(whole.ty, x.ty):
            return False
        known = {y for y in group.leaves if not is_broadcast(y, x)}
        large = {y for y in leaves if not is_broadcast(y, x)}
        is_before = all(self.order.get(y, -1) < self.order[first.var] for y in leaves)
        return is_before and bool(known & large) and len(known | large) <= MOST_LARGE


def _is_of_columns(use: Use) -> bool:
    """Checks for a sum over leading axes, all of static extent: its results lie side by side in memory."""
    if use.name != "reduce_sum" or use.attrs["keepdims"] or not use.attrs["axis"]:
        return False
    (x,) = use.inputs
    is_known = all(isinstance(d, tirx.IntImm) for d in x.ty.shape.values)
    return is_known and str(x.ty.dtype) in _WIDE and x.ty.ndim - 1 not in use.attrs["axis"]


def _leaves(formula: Any) -> Iterator[Any]:
    if isinstance(formula, tuple):
        for part in formula[1:]:
            yield from _leaves(part)
    else:
        yield formula


class _LessTraffic(PlannedRewrite):
    """Binds joined sums where the first of them stood, and recomputed values at each of their readers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.computed_sums: dict[relax.Var, Any] = {}

    def bound(self, binding: Any) -> Any:
        if binding.var in self.plan.recomputed:
            return None  # bound at its readers
        group = self.plan.sums.get(binding.var)
        return super().bound(binding) if group is None else self._sum(group, binding.var)

    def _sum(self, group: _Sums, var: relax.Var) -> Any:
        if var.same_as(group.uses[0].var):
            formulas = tuple(map(group.numbered, group.formulas))
            sums = table["column_sums"].bind(*map(self.value, group.leaves), formulas=formulas, axis=group.axis)
            self.computed_sums.update((use.var, each) for use, each in zip(group.uses, sums))
        return self.computed_sums[var]

    @staticmethod
    def plan_of(function: relax.Function) -> _Plan:
        return _Plan(function)

    def learn(self, var: relax.Var) -> None:
        if var not in self.plan.recomputed:  # these have the dims of an operand
            super().learn(var)

    def value(self, expr: Any) -> Any:
        use = self.plan.recomputed.get(expr) if isinstance(expr, relax.Var) else None
        return super().value(expr) if use is None else again(use).bind(*map(self.value, use.inputs), **use.attrs)
