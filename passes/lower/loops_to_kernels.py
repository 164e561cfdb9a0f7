"""Turns loops into kernels: a `while` in TIR, with its state in registers or in memory that is allocated once.

Runs on scheduled kernels. A loop whose condition or body does something that no kernel can do (it prints, calls Python,
or makes a tensor of computed size) stays in the virtual machine; the loops inside it become kernels.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import count
from typing import Any

import tvm
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.loop_op import PRIVATE, all_calls, carried_count, has_symbol, is_loop
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.analysis.side_effects import void_call
from tvtf.passes.lower.loop_kernel import LoopKernel, NotNative


def native_loops(mod: tvm.IRModule, polls: bool = True) -> tvm.IRModule:
    """Replaces each loop that can be one kernel; with ``polls``, the kernel checks for Ctrl-C.

    Takes functions without dataflow blocks; functions that aren't called any more are dropped.
    """
    return _Rewriter(mod, polls).run() if any(map(is_loop, all_calls(mod))) else mod


class _Rewriter:
    """One run over a module, from its entries to all functions that they reach."""

    def __init__(self, mod: tvm.IRModule, polls: bool) -> None:
        self.mod, self.polls = mod, polls
        self.kernels: dict[ir.GlobalVar, tirx.PrimFunc] = {}

    def run(self) -> tvm.IRModule:
        """Rewrites the entry functions, and all functions that the entry functions reach.

        Other functions are dropped, such as the conditions and bodies of loops that have become kernels.
        """
        worklist = [name for name, func in self.mod.functions_items() if _is_entry(func)]
        rewritten: dict[ir.GlobalVar, Any] = {}
        while worklist:
            name = worklist.pop()
            if name in rewritten:
                continue
            func = self.kernels.get(name) or self.mod[name]
            if isinstance(func, relax.Function):
                func = _FunctionRewriter(self, func).rewritten()
            rewritten[name] = func
            worklist.extend(_referenced_functions(func))
        return tvm.IRModule(rewritten, attrs=self.mod.attrs)

    def add(self, kernel: tirx.PrimFunc) -> ir.GlobalVar:
        """Adds the kernel of a loop under a unique name, and returns its global variable.

        The kernel is typed as impure: it has no result, and writes to its arguments.
        """
        used_names = {var.name_hint for var in [*self.mod.get_global_vars(), *self.kernels]}
        possible_names = ("loop" if number == 0 else f"loop_{number}" for number in count())
        name = next(name for name in possible_names if name not in used_names)
        impure_type = relax.FuncType(kernel.ty.params, kernel.ty.ret, False)
        var = Bindings.typed(ir.GlobalVar(name), impure_type)
        self.kernels[var] = kernel
        return var


def _is_entry(func: ir.BaseFunc) -> bool:
    """Returns whether a function may be called from outside the module."""
    return has_symbol(func) and PRIVATE not in func.attrs


def _referenced_functions(func: ir.BaseFunc) -> list[ir.GlobalVar]:
    names: list[ir.GlobalVar] = []
    structural_walk(func.body, (ir.GlobalVar, names.append))
    return names


class _FunctionRewriter:
    """Rewrites the loops of one Relax function."""

    def __init__(self, rewriter: _Rewriter, func: relax.Function) -> None:
        self.rewriter, self.func = rewriter, func
        self.items: dict[Any, list[int]] = defaultdict(list)
        self.uses: Counter[Any] = Counter()
        self.fields: dict[Any, list[Any]] = {}
        relax.analysis.post_order_visit(func.body, self._count)

    def _count(self, expr: Any) -> None:
        """Counts ``expr`` as a use if it is a variable, and records the item if it reads an item of a tuple."""
        if isinstance(expr, relax.Var):
            self.uses[expr] += 1
        elif isinstance(expr, relax.TupleGetItem):
            self.items[expr.tuple_value].append(int(expr.index))

    def rewritten(self) -> relax.Function:
        body = self.rewrite_sequence(self.func.body)
        func = self.func
        return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs, func.span)

    def rewrite_sequence(self, expr: relax.SeqExpr) -> relax.SeqExpr:
        """Returns a function's or branch's body with its loops rewritten."""
        out = Bindings()
        for binding in bindings_of(expr):
            self.rewrite_binding(out, binding)
        return Bindings.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], expr.body), expr.ty)

    def rewrite_binding(self, out: Bindings, binding: relax.Binding) -> None:
        """Rewrites one binding if its value is a loop, an If that may contain loops, or a read of a loop's result.

        Other bindings are copied to ``out``.
        """
        value = binding.value
        if isinstance(binding, relax.MatchCast):
            out.bindings.append(binding)
        elif isinstance(value, relax.If):
            branches = [self.rewrite_sequence(branch) for branch in (value.true_branch, value.false_branch)]
            out.bind(binding.var, out.typed(relax.If(value.cond, *branches, span=value.span), value.ty))
        elif isinstance(value, relax.TupleGetItem) and value.tuple_value in self.fields:
            out.bind(binding.var, self.fields[value.tuple_value][int(value.index)])
        elif isinstance(value, relax.Call) and is_loop(value):
            self.rewrite_loop(out, binding.var, value)
        else:
            out.rebind(binding, value)

    def rewrite_loop(self, out: Bindings, var: relax.Var, call: relax.Call) -> None:
        """Replaces a loop by a call of one kernel, and by allocations of the memory that the kernel writes.

        A loop that no kernel can compute stays as it is.

        Args:
          out: collects the new bindings.
          var: the variable of the loop's results.
          call: the call of the loop.
        """
        # Each read of an item uses the tuple once. Any further use needs the complete tuple.
        uses_tuple = self.uses[var] > len(self.items[var])
        used_results = range(carried_count(call)) if uses_tuple else self.items[var]
        try:
            kernel = LoopKernel(self.rewriter.mod, call, set(used_results), self.rewriter.polls)
        except NotNative:
            # The virtual machine runs this loop. The loops inside of it may still become kernels.
            out.bind(var, call)
            return
        buffers = [out.emit(_allocation(out, ty), "place") for ty in kernel.allocated]
        name = self.rewriter.add(kernel.function)
        out.emit(void_call(name, [*kernel.operands, *buffers], call.span), "_")
        self.fields[var] = [buffers[result] if isinstance(result, int) else result for result in kernel.results]
        if uses_tuple:
            out.bind(var, relax.Tuple(self.fields[var]))


def _allocation(out: Bindings, ty: relax.TensorType) -> relax.Call:
    """Returns the call that allocates a tensor of a type."""
    call = relax.op.builtin.alloc_tensor(ty.shape, str(ty.dtype), 0)
    return out.typed(call, ty)
