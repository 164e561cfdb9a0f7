"""Restricts TVM's kernel passes to functions where they have something to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm_ffi
from tvm import ir, tirx, transform
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.tirx import Bind, For, IfThenElse, PrimFunc

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.schedule.cpu.kernel import variables

ARITHMETIC = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)


def run_only_where(run: transform.Pass, where: Callable[[PrimFunc], bool]) -> transform.Pass:
    """Returns a pass that applies the pass ``run`` only to functions for which ``where`` holds.

    Some passes of TVM take long even for functions that they don't change.
    """

    @transform.module_pass(opt_level=0, name=run.info.name)
    def run_where_needed(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        """Applies the pass to all functions for which ``where`` holds, in one module, and keeps the others."""
        functions = dict(mod.functions_items())
        selected = {name: func for name, func in functions.items() if isinstance(func, PrimFunc) and where(func)}
        if not selected:
            return mod
        results = dict(run(ir.IRModule(selected, attrs=mod.attrs)).functions_items())
        return ir.IRModule(functions | results, attrs=mod.attrs)

    return run_where_needed


def run_again(run: transform.Pass, where: Callable[[PrimFunc], bool], before: transform.Pass) -> transform.Pass:
    """Returns a pass that applies the pass ``run``, and that repeats it after another pass for some functions.

    Args:
      run: the pass.
      where: returns whether the result of ``run`` for a function must be discarded.
      before: the pass that runs on such a function before ``run`` is repeated.
    """
    second_run = transform.Sequential([before, run])

    @transform.module_pass(opt_level=0, name=run.info.name)
    def run_twice(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        """Applies the pass to all functions, then both passes to the originals of those to repeat."""
        results = dict(run(mod).functions_items())
        originals = {name: mod[name] for name, func in results.items() if isinstance(func, PrimFunc) and where(func)}
        if originals:
            results |= dict(second_run(ir.IRModule(originals, attrs=mod.attrs)).functions_items())
        return ir.IRModule(results, attrs=mod.attrs)

    return run_twice


def has_blocks_to_lower(func: PrimFunc) -> bool:
    """Returns whether a function has a block that isn't plain, or a loop with a step.

    A plain block only groups statements. The root block around the loops that a schedule has written is plain.
    """

    def visit_block(block: SBlock) -> Any:
        """Ends the walk at a block that isn't plain."""
        is_plain = not (block.iter_vars or block.alloc_buffers or block.match_buffers or block.init)
        return None if is_plain else tvm_ffi.VisitInterrupt(None)

    def visit_loop(loop: For) -> Any:
        """Ends the walk at a loop with a step."""
        return None if loop.step is None else tvm_ffi.VisitInterrupt(None)

    return structural_walk(func.body, [(SBlock, visit_block), (For, visit_loop)]) is not None


def has_vector_indices(func: PrimFunc) -> bool:
    """Returns whether a vectorized function computes with vectors of indices, except for consecutive indices.

    A vector of int64 numbers that aren't indices counts, too, since it has the same type.
    """

    def visit_arithmetic(node: ir.Expr) -> Any:
        """Ends the walk at arithmetic on int64 vectors."""
        is_vector_of_indices = node.ty.dtype.lanes > 1 and node.ty.dtype.startswith("int64")
        return tvm_ffi.VisitInterrupt(None) if is_vector_of_indices else None

    def visit_ramp(node: tirx.Ramp) -> Any:
        """Ends the walk at a vector of indices that aren't consecutive."""
        is_consecutive = isinstance(node.stride, tirx.IntImm) and int(node.stride) == 1
        return None if is_consecutive else tvm_ffi.VisitInterrupt(None)

    return structural_walk(func.body, [(ARITHMETIC, visit_arithmetic), (tirx.Ramp, visit_ramp)]) is not None


def has_invariant_branches(func: PrimFunc) -> bool:
    """Returns whether some loop tests a condition that is the same in all of its iterations."""
    if not _has_branch(func.body, lambda _: True):
        return False
    loops: list[For] = []
    structural_walk(func.body, (For, loops.append))
    return any(_has_branch(loop.body, partial(_is_invariant, bound=_bound_in(loop))) for loop in loops)


def _has_branch(body: tirx.Stmt, holds: Callable[[ir.Expr], bool]) -> bool:
    """Returns whether a statement contains an If with a condition for which ``holds`` is true."""

    def visit(node: IfThenElse) -> Any:
        return tvm_ffi.VisitInterrupt(None) if holds(node.condition) else None

    return structural_walk(body, (IfThenElse, visit)) is not None


def _bound_in(loop: For) -> set[tirx.Var]:
    """Returns the variables that a loop, and statements in it, bind."""
    bound = {loop.loop_var}
    structural_walk(
        loop.body, [(For, lambda inner: bound.add(inner.loop_var)), (Bind, lambda bind: bound.add(bind.var))]
    )
    return bound


def _is_invariant(test: ir.Expr, bound: set[tirx.Var]) -> bool:
    """Returns whether a condition is the same in all iterations: it reads neither memory nor a bound variable."""
    loads: list[TensorLoad] = []
    structural_walk(test, (TensorLoad, loads.append))
    return not loads and bound.isdisjoint(variables(test))
