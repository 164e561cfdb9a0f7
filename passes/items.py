"""Items of tuples are taken before kernels are fused."""

from __future__ import annotations

import tvm_ffi
from tvm import ir, relax, transform


@transform.module_pass(opt_level=0, name="TakeItems")
def TakeItems(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Makes every item of a tuple a value that dataflow blocks give out, so that FuseOps leaves it outside kernels.

    FuseOps replaces the tuples of which a kernel reads some items by these items, at positions that it noted before it
    replaced the first. It goes through them in the order of their addresses, so that from three tuples on some
    compilations fail or read other arguments (`FunctionCreator::CreateFunction` in TVM 0.27's fuse_ops.cc).
    """
    result = mod.clone()
    for name, func in mod.functions_items():
        if isinstance(func, relax.Function):
            result.update_func(name, _items_given_out(func))
    return result


def _items_given_out(func: relax.Function) -> relax.Function:
    inner = {
        binding.var: relax.Var(binding.var.name, binding.var.ty, binding.var.span)
        for block in func.body.blocks
        for binding in block.bindings
        if isinstance(binding.var, relax.DataflowVar) and isinstance(binding.value, relax.TupleGetItem)
    }
    return tvm_ffi.structural_map(func, (ir.Var, lambda var: inner.get(var, var))) if inner else func
