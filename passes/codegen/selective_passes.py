"""Restricts TVM's kernel passes to functions where they have something to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm_ffi
from tvm import ir, tirx, transform
from tvm.ir import TensorLoad
from tvm.tirx import Bind, For, IfThenElse, PrimFunc

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu.kernel import variables

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)


def only(run: transform.Pass, where: Callable[[PrimFunc], bool]) -> transform.Pass:
    """Returns a module pass that runs another one only on the functions ``where`` it has something to do."""

    @transform.module_pass(opt_level=0, name=run.info.name)
    def some(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        chosen = {name: func for name, func in mod.functions_items() if isinstance(func, PrimFunc) and where(func)}
        if not chosen:
            return mod
        changed = dict(run(ir.IRModule(chosen, attrs=mod.attrs)).functions_items())
        return ir.IRModule(dict(mod.functions_items()) | changed, attrs=mod.attrs)

    return some


def run_again(run: transform.Pass, where: Callable[[PrimFunc], bool], before: transform.Pass) -> transform.Pass:
    """Returns a pass that runs another one, and once more after ``before`` on the functions whose result is ``where``."""
    others = transform.Sequential([before, run])

    @transform.module_pass(opt_level=0, name=run.info.name)
    def some(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        done = dict(run(mod).functions_items())
        again = {name: mod[name] for name, func in done.items() if isinstance(func, PrimFunc) and where(func)}
        changed = dict(others(ir.IRModule(again, attrs=mod.attrs)).functions_items()) if again else {}
        return ir.IRModule(done | changed, attrs=mod.attrs)

    return some


def has_vector_indices(func: PrimFunc) -> bool:
    """Returns whether a vectorized function computes with vectors of indices, other than of neighbouring items.

    Vectors of other int64 numbers look the same.
    """

    def arithmetic(node: ir.Expr) -> Any:
        is_vector_of_indices = node.ty.dtype.lanes > 1 and node.ty.dtype.startswith("int64")
        return tvm_ffi.VisitInterrupt(None) if is_vector_of_indices else None

    def ramp(node: tirx.Ramp) -> Any:
        is_unit = isinstance(node.stride, tirx.IntImm) and int(node.stride) == 1
        return None if is_unit else tvm_ffi.VisitInterrupt(None)

    return structural_walk(func.body, [(ARITHMETIC, arithmetic), (tirx.Ramp, ramp)]) is not None


def has_invariant_branches(func: PrimFunc) -> bool:
    """Returns whether some loop tests a condition that is the same in all of its iterations."""
    if not _has_branch(func.body, lambda _: True):
        return False
    loops: list[For] = []
    structural_walk(func.body, (For, loops.append))
    return any(_has_branch(loop.body, partial(_is_invariant, bound=_bound_in(loop))) for loop in loops)


def _has_branch(body: tirx.Stmt, holds: Callable[[ir.Expr], bool]) -> bool:
    def visit(node: IfThenElse) -> Any:
        return tvm_ffi.VisitInterrupt(None) if holds(node.condition) else None

    return structural_walk(body, (IfThenElse, visit)) is not None


def _bound_in(loop: For) -> set[tirx.Var]:
    bound = {loop.loop_var}
    structural_walk(
        loop.body, [(For, lambda inner: bound.add(inner.loop_var)), (Bind, lambda bind: bound.add(bind.var))]
    )
    return bound


def _is_invariant(test: ir.Expr, bound: set[tirx.Var]) -> bool:
    loads: list[TensorLoad] = []
    structural_walk(test, (TensorLoad, loads.append))
    return not loads and bound.isdisjoint(variables(test))
