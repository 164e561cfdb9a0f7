"""Dead code elimination: drops bindings and functions that nothing depends on.

TVM's DeadCodeElimination looks at tensors only. It would drop a tensor of which only the dims are used, although those
are known only by running it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tvm
from tvm import ir, relax, tirx

from tvtf.core.primitive import table
from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir import dialect
from tvtf.passes.analysis.rewriter import Bindings


def drop_dead(mod: tvm.IRModule) -> tvm.IRModule:
    """Drops unused functions, and bindings without side effects that no result of a ``tvtf`` function depends on."""
    functions = {
        var: _without_dead_bindings(func) if isinstance(func, relax.Function) else func
        for var, func in mod.functions_items()
    }
    return without_unused(tvm.IRModule(functions, attrs=mod.attrs))


def without_unused(mod: tvm.IRModule) -> tvm.IRModule:
    """Drops the functions and kernels of a module that can't be reached from any entry function."""
    functions = dict(mod.functions_items())
    # A function with a global symbol is an entry function: code outside of the module calls it.
    worklist = [var for var, func in functions.items() if func.attrs and "global_symbol" in func.attrs]
    reached: set[ir.GlobalVar] = set()
    while worklist:
        var = worklist.pop()
        if var not in reached:
            reached.add(var)
            worklist += _referenced_functions(functions[var])
    return tvm.IRModule({var: func for var, func in functions.items() if var in reached}, attrs=mod.attrs)


def _referenced_functions(function: Any) -> list[ir.GlobalVar]:
    names: list[ir.GlobalVar] = []
    structural_walk(function, (ir.GlobalVar, names.append))
    return names


def _without_dead_bindings(function: relax.Function) -> relax.Function:
    """Returns a function without its dead bindings; the same object if there are none."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings[:]]
    needed = needed_bindings(function.params, bindings, [function.body.body])
    # Callers see by the object's identity that nothing changed.
    if len(needed) == len(bindings):
        return function
    out = Bindings()
    out.bindings = needed
    return out.function(function)


def needed_bindings(params: Iterable[relax.Var], bindings: list[Any], results: Iterable[Any]) -> list[Any]:
    """Returns the live bindings of a function in order: those with side effects, and those that results depend on.

    Results depend on variables for their values and for their symbolic dims. Bindings are visited from last to first:
    all readers of a variable are visited before the variable's binding.

    Args:
      params: the parameters of the function.
      bindings: its bindings, in order.
      results: the values that it returns.
    """
    defining = defining_vars(params, bindings)
    # The hashes of variables, which are their addresses. A set of the variables themselves would be slower: TVM's
    # Python compares their types first.
    needed: set[int] = set()
    for result in results:
        needed.update(map(hash, relax.analysis.free_vars(result)[:]))
        needed.update(map(hash, defining_vars_of(defining, result.ty)))
    live_bindings = []
    for binding in reversed(bindings):
        if hash(binding.var) in needed or _has_effect(binding.value) or _checks_sizes(binding, defining):
            live_bindings.append(binding)
            needed.update(map(hash, relax.analysis.free_vars(binding.value)[:]))
            needed.update(map(hash, defining_vars_of(defining, binding.var.ty, binding.value)))
    return live_bindings[::-1]


def defining_vars_of(defining: dict[Any, relax.Var], *owners: Any) -> list[relax.Var]:
    """Returns the variables that define the symbolic dims in types and expressions, given `defining_vars`."""
    return [defining[dim] for owner in owners for dim in _dims(owner) if dim in defining] if defining else []


def defining_vars(params: Iterable[relax.Var], bindings: Iterable[Any]) -> dict[Any, relax.Var]:
    """Returns the variable that defines each symbolic dim: the first variable with this dim in its type.

    Dims of parameters are left out.

    Args:
      params: the parameters of the function.
      bindings: the bindings of its body, in order.
    """
    dims_of_params = {dim for param in params for dim in _dims_of_type(param.ty)}
    defining: dict[Any, relax.Var] = {}
    for binding in bindings:
        for dim in _dims_of_type(binding.var.ty):
            if dim not in dims_of_params:
                defining.setdefault(dim, binding.var)
    return defining


def _dims_of_type(ty: Any) -> list[Any]:
    """Returns the symbols in the shapes of a tensor type, or of each tensor type in a tuple."""
    types = ty.fields if isinstance(ty, relax.TupleType) else [ty]
    shapes = [ty.shape for ty in types if isinstance(ty, relax.TensorType) and ty.shape is not None]
    symbolic = [dim for shape in shapes for dim in shape.values[:] if not isinstance(dim, tirx.IntImm)]
    return [symbol for dim in symbolic for symbol in _dims(dim)]


def _dims(root: Any) -> list[Any]:
    """Returns the symbols in a type or an expression."""
    symbols: list[Any] = []
    structural_walk(root, (tirx.Var, symbols.append))
    return symbols


def _checks_sizes(binding: Any, defining: dict[Any, relax.Var]) -> bool:
    """Returns whether a binding checks computed sizes against symbolic dims that other variables define.

    Such a check (the op ``told_dims``) may fail at run time, so the binding isn't dead even if its result is unused.

    Args:
      binding: the binding.
      defining: the variable that defines each symbolic dim.
    """
    if not dialect.is_dialect(binding.value) or binding.value.op.name != "tvtf.told_dims":
        return False
    # The result's shape is the dims, followed by a dim of 0.
    dims = binding.var.ty.shape.values[:-1]
    defines_all_dims = all(isinstance(dim, tirx.Var) and defining.get(dim) == binding.var for dim in dims)
    return not defines_all_dims


def _has_effect(value: Any) -> bool:
    return dialect.is_dialect(value) and not table[value.op.name.removeprefix("tvtf.")].pure
