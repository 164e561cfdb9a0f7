"""Reads and writes large tensors less often, by horizontal fusion of sums and rematerialization of cheap values.

Batch norms and their gradients are bound by memory. One that is written ``(x - mean) * rsqrt(variance) * scale +
offset`` reads and writes tensors as large as ``x`` 20 times without this pass, and 9 times with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvtf.core.primitive import table
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.recomputable import ARITHMETIC, Recomputable, is_broadcast, recomputing_primitive
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.sites import PlannedRewrite, rewrite_by_plan

_WIDE = ("float32", "float64")
MAX_SUMS = 4
"""Maximum number of sums in one pass, whose partial results stay in registers."""
MAX_LARGE_TENSORS = 3
"""Maximum number of large tensors that one pass reads."""


def reduce_traffic(mod: tvm.IRModule) -> tvm.IRModule:
    """Fuses sums over the same leading axes horizontally, and recomputes cheap values where they are read."""
    return rewrite_by_plan(mod, _LessTraffic)


@dataclass
class _SumGroup:
    """Sums over the same axes of tensors of one shape, and the formulas whose elements they add.

    A formula is an operand, or an operator's name and its formulas; ``leaves`` has the operands, a large one first.
    """

    axis: tuple[int, ...]
    uses: list[Use] = field(default_factory=list)
    formulas: list[Any] = field(default_factory=list)
    leaves: dict[Any, None] = field(default_factory=dict)

    def add(self, use: Use, formula: Any, leaves: list[Any]) -> None:
        """Adds a sum to the group.

        Args:
          use: the call of the sum.
          formula: the arithmetic that computes the summed elements.
          leaves: the tensors that the formula reads.
        """
        self.uses.append(use)
        self.formulas.append(formula)
        # Full-size tensors come before broadcast ones: False sorts before True.
        large_first = sorted(leaves, key=lambda leaf: is_broadcast(leaf, use.inputs[0]))
        self.leaves |= dict.fromkeys(large_first)

    def with_operand_indices(self, formula: Any) -> Any:
        """Returns a formula with each operand replaced by its index in ``leaves``.

        For example, ``("multiply", x, x)`` becomes ``("multiply", 0, 0)`` if ``x`` is the first leaf. The fused op
        takes the leaves as operands, and such formulas as an attribute.
        """
        if isinstance(formula, tuple):
            operator, *operands = formula
            return (operator, *map(self.with_operand_indices, operands))
        return [*self.leaves].index(formula)


class _Plan:
    """What is rewritten in a function: sums by their variables, and values that each reader computes."""

    def __init__(self, function: relax.Function) -> None:
        """Finds the cheap values that each reader recomputes, and the groups of sums that one kernel computes.

        ``sums`` maps the variable of each grouped sum to the sum's group. ``order`` numbers the bindings, also those of
        items of tuples.
        """
        self.graph = Graph(function)
        self.recomputed = Recomputable(self.graph).values
        self.order = {binding.var: position for position, binding in enumerate(bindings_of(function.body))}
        self.sums: dict[relax.Var, _SumGroup] = {}
        for group in self._groups():
            if len(group.uses) > 1:  # a single sum needs no rewrite
                self.sums |= {use.var: group for use in group.uses}

    def __bool__(self) -> bool:
        return bool(self.sums or self.recomputed)

    def _groups(self) -> list[_SumGroup]:
        """Groups a function's column sums: one kernel reads the tensors once and computes all sums of a group.

        Each summed value is traced back through elementwise arithmetic to its leaves, the tensors that are read. Sums
        are grouped only if these tensors are stored in memory anyway.
        """
        groups: list[_SumGroup] = []
        for use in self.graph.producers.values():
            if not _is_column_sum(use):
                continue
            summed = use.inputs[0]
            formula = self._formula(summed)
            leaves = list(_leaves(formula))
            large_leaves = [leaf for leaf in leaves if not is_broadcast(leaf, summed)]
            if not all(map(self._is_in_memory, large_leaves)):
                continue
            group = next((group for group in groups if self._can_join(group, use, leaves)), None)
            if group is None:
                group = _SumGroup(use.attrs["axis"])
                groups.append(group)
            group.add(use, formula, leaves)
        return groups

    def _formula(self, x: Any) -> Any:
        """Returns the expression (formula) by which a value is computed from tensors in memory.

        A formula is a tensor, or a tuple of an operator's name and the formulas of the operands. For example,
        ``(x - y) * x`` is ``("multiply", ("subtract", x, y), x)``.
        """
        use = self.graph.producers.get(x)
        if use is None:
            return x
        is_recomputed = x in self.recomputed
        # Arithmetic with one reader is fused into the reader, and isn't stored.
        is_fused = use.name in ARITHMETIC and self.graph.only_use(x) is not None
        if not is_fused and not is_recomputed:
            return x
        operator = recomputing_primitive(use).name if is_recomputed else use.name
        operands = (y if is_broadcast(y, x) else self._formula(y) for y in use.inputs)
        return (operator, *operands)

    def _is_in_memory(self, x: Any) -> bool:
        """Returns whether a value is stored because another kernel reads it, too.

        If not, it is cheaper to fuse its computation into the sum.
        """
        return x not in self.graph.producers or len(self.graph.uses[x]) > 1

    def _can_join(self, group: _SumGroup, use: Use, leaves: list[Any]) -> bool:
        """Returns whether one kernel can compute a sum together with a group of sums.

        The sum must have the group's axes and shape, and share a large tensor with the group. All tensors that the sum
        reads must be computed before the group's first sum, where the kernel is called.

        Args:
          group: the group.
          use: the call of the sum.
          leaves: the tensors that the sum reads.
        """
        first_sum = group.uses[0]
        (first_operand,), (operand,) = first_sum.inputs, use.inputs
        if len(group.uses) >= MAX_SUMS or group.axis != use.attrs["axis"]:
            return False
        if not tvm_ffi.structural_equal(first_operand.ty, operand.ty):
            return False
        large_of_group = {leaf for leaf in group.leaves if not is_broadcast(leaf, operand)}
        large = {leaf for leaf in leaves if not is_broadcast(leaf, operand)}
        is_before = all(self.order.get(leaf, -1) < self.order[first_sum.var] for leaf in leaves)
        shares_large_tensor = bool(large_of_group & large)
        return is_before and shares_large_tensor and len(large_of_group | large) <= MAX_LARGE_TENSORS


def _is_column_sum(use: Use) -> bool:
    """Returns whether a call sums a tensor of static shape over axes other than the last, as columns of a matrix."""
    if use.name != "reduce_sum" or use.attrs["keepdims"] or not use.attrs["axis"]:
        return False
    (x,) = use.inputs
    is_known = all(isinstance(dim, tirx.IntImm) for dim in x.ty.shape.values)
    return is_known and str(x.ty.dtype) in _WIDE and x.ty.ndim - 1 not in use.attrs["axis"]


def _leaves(formula: Any) -> Iterator[Any]:
    """Yields the tensors that a formula reads, from left to right.

    A formula is a tensor, or a tuple of an operator's name and the formulas of the operands.
    """
    if isinstance(formula, tuple):
        _, *operands = formula
        for operand in operands:
            yield from _leaves(operand)
    else:
        yield formula


class _LessTraffic(PlannedRewrite):
    """Binds the sums of a group where the first of them stood, and recomputed values at each of their readers."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.computed_sums: dict[relax.Var, Any] = {}

    def bound(self, binding: Any) -> Any:
        if binding.var in self.plan.recomputed:
            return None  # bound at its readers
        group = self.plan.sums.get(binding.var)
        return super().bound(binding) if group is None else self._sum(group, binding.var)

    def _sum(self, group: _SumGroup, var: relax.Var) -> Any:
        """Returns one sum of a group; the first sum of the group emits the kernel that computes all of them."""
        if var.same_as(group.uses[0].var):
            formulas = tuple(map(group.with_operand_indices, group.formulas))
            sums = table["column_sums"].bind(*map(self.value, group.leaves), formulas=formulas, axis=group.axis)
            self.computed_sums.update((use.var, result) for use, result in zip(group.uses, sums))
        return self.computed_sums[var]

    @staticmethod
    def plan_of(function: relax.Function) -> _Plan:
        return _Plan(function)

    def record_dims(self, var: relax.Var) -> None:
        if var not in self.plan.recomputed:  # these have the dims of an operand
            super().record_dims(var)

    def value(self, expr: Any) -> Any:
        """Returns the value of an operand; emits its computation again if each reader recomputes it."""
        use = self.plan.recomputed.get(expr) if isinstance(expr, relax.Var) else None
        if use is None:
            return super().value(expr)
        return recomputing_primitive(use).bind(*map(self.value, use.inputs), **use.attrs)
