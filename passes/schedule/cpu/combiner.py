"""Derives how a reduction combines two partial results from its update expression."""

from __future__ import annotations

from collections.abc import Callable

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Var

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.schedule.cpu.kernel import Stage, loads, replace_loads, substitute, variables

Combine = Callable[[ir.Expr, ir.Expr], ir.Expr]


def combiner(stage: Stage) -> Combine | None:
    """Returns a function that combines two partial results of a reduction, such as `left + right` for a sum.

    Returns None if the reduction's update isn't a combination of its old value with one new element.
    """
    term = reduced_term(stage)
    if term is None:
        return None
    term_var = Var("item", term.ty)
    update = _replace_equal(stage.value, term, term_var)  # such as `sum + term_var`
    # Partial results are combined after the loops, where loop variables have no value. So the update must not depend on
    # them, except in the term.
    reads_other_operands = any(not load.source.same_as(stage.buffer) for load in loads(update))
    if reads_other_operands:
        return None
    update_of_zero = _with_old_value(update, stage, tirx.const(0, stage.dtype))
    if variables(update_of_zero) & {axis.var for axis in stage.axes}:
        return None

    def combine(left: ir.Expr, right: ir.Expr) -> ir.Expr:
        """Returns the update of the old value `left` with the term `right`."""
        return _with_old_value(substitute(update, {term_var: right}), stage, left)

    return combine


def reduced_term(stage: Stage) -> ir.Expr | None:
    """Returns the expression that a reduction combines with its old value, such as `x * y` in ``sum + x * y``.

    If several expressions don't read the old value, the shortest is returned. Returns None if there is none.
    """
    terms = _new_terms(stage)
    # Usually, there is one term. Printing it to compare lengths would take 7 % of the time to schedule a network.
    if len(terms) == 1:
        return terms[0]
    return min(terms, key=lambda term: len(str(term)), default=None)


def is_zero(value: ir.Expr | None) -> bool:
    """Returns whether an expression is the float constant 0."""
    return isinstance(value, tirx.FloatImm) and float(value) == 0


def _with_old_value(update: ir.Expr, stage: Stage, value: ir.Expr) -> ir.Expr:
    """Returns a reduction's update with `value` in place of the load of its old value."""
    return replace_loads(update, stage.buffer, lambda _indices: value)


def _new_terms(stage: Stage) -> list[ir.Expr]:
    """Returns the largest subexpressions of a reduction's update that don't read the old value.

    For example, the update ``old + a * b`` gives ``[a * b]``. These subexpressions are what a reduction adds, or
    combines by another operation, in one step.
    """
    terms: list[ir.Expr] = []

    def visit(node: ir.Expr, visitor: tvm_ffi.StructuralVisitor) -> tvm_ffi.VisitInterrupt | None:
        """Collects a subexpression that doesn't read the old value, and descends into any other.

        A load of the old value itself is skipped.

        Args:
            node: the expression to visit.
            visitor: the walk, which descends into expressions.
        """
        if isinstance(node, TensorLoad) and node.source.same_as(stage.buffer):
            return None
        if any(load.source.same_as(stage.buffer) for load in loads(node)):
            return visitor.default_visit(node)
        if not isinstance(node, (ir.Op, tirx.IntImm, tirx.FloatImm)):
            terms.append(node)
        return None

    tvm_ffi.structural_visit(stage.value, (ir.Expr, visit))
    return terms


def _replace_equal(value: ir.Expr, old: ir.Expr, new: Var) -> ir.Expr:
    """Returns a value with all expressions equal to `old` replaced."""

    def replace_if_equal(node: ir.Expr) -> ir.Expr:
        return new if tvm_ffi.structural_equal(node, old) else node

    return structural_map(value, (ir.Expr, replace_if_equal))
