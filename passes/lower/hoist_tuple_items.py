"""Moves reads of tuple items out of fused groups."""

from __future__ import annotations

from tvm import ir, relax, transform

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.rewriter import Bindings, map_functions


@transform.module_pass(opt_level=0, name="HoistTupleItems")
def HoistTupleItems(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Makes every tuple item an output of its dataflow block, which keeps FuseOps from reading the item in a kernel.

    This works around a bug of FuseOps. If a kernel reads items of a tuple, FuseOps replaces the tuple by these items,
    at positions that it noted before the first replacement. Tuples are visited in the order of their addresses. With
    three or more tuples, some compilations fail or read other arguments (`FunctionCreator::CreateFunction` in TVM 0.27's
    fuse_ops.cc).
    """
    return map_functions(mod, _with_items_as_outputs)


def _with_items_as_outputs(func: relax.Function) -> relax.Function:
    """Replaces dataflow variables that are bound to tuple items by ordinary variables, the outputs of their block.

    FuseOps groups only dataflow variables.
    """
    outputs: dict[relax.Var, relax.Var] = {}
    for binding in bindings_of(func.body):
        var = binding.var
        if isinstance(var, relax.DataflowVar) and isinstance(binding.value, relax.TupleGetItem):
            outputs[var] = relax.Var(var.name, var.ty, var.span)
    return structural_map(func, (ir.Var, lambda var: outputs.get(var, var))) if outputs else func


def forward_tuple_items(mod: ir.IRModule) -> ir.IRModule:
    """Replaces each item of a tuple that the same function builds by the tuple's field."""
    return map_functions(mod, _forward_items)


def _forward_items(func: relax.Function) -> relax.Function:
    """Replaces reads of a tuple's items by the items, and drops tuples that nothing reads.

    For example, ``t = (a, b); x = t[0]`` becomes ``x = a``. The tuple then needs no memory, and a kernel may be fused
    across it.
    """
    bindings = bindings_of(func.body)
    tuples = {binding.var: binding.value for binding in bindings if isinstance(binding.value, relax.Tuple)}
    out = Bindings()
    for binding in bindings:
        value = binding.value
        if isinstance(value, relax.TupleGetItem) and value.tuple_value in tuples:
            value = tuples[value.tuple_value].fields[value.index]
        out.rebind(binding, value)
    return without_unread_bindings(out.function(func), set(tuples))


def without_unread_bindings(func: relax.Function, candidates: set[relax.Var]) -> relax.Function:
    """Drops the bindings of those variables in ``candidates`` that nothing reads.

    A binding of another variable is kept, since it may have a side effect.
    """
    read: set[relax.Var] = set()
    bindings = bindings_of(func.body)
    for value in (*(binding.value for binding in bindings), func.body.body):
        structural_walk(value, (ir.Var, read.add))
    out = Bindings()
    for binding in bindings:
        if binding.var in read or binding.var not in candidates:
            out.rebind(binding, binding.value)
    return out.function(func)
