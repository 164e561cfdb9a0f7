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
    """Drops the pure bindings and the functions of a dialect module that nothing depends on."""
    functions = {var: _without_dead(f) if isinstance(f, relax.Function) else f for var, f in mod.functions_items()}
    return without_unused(tvm.IRModule(functions, attrs=mod.attrs))


def without_unused(mod: tvm.IRModule) -> tvm.IRModule:
    """Drops the functions and kernels that no entry needs, such as those of reshapes whose results have become views."""
    functions = dict(mod.functions_items())
    # A function with a symbol is an entry: its caller isn't in the module.
    worklist = [var for var, f in functions.items() if f.attrs and "global_symbol" in f.attrs]
    reached: set[ir.GlobalVar] = set()
    while worklist:
        var = worklist.pop()
        if var not in reached:
            reached.add(var)
            worklist += _named(functions[var])
    return tvm.IRModule({var: f for var, f in functions.items() if var in reached}, attrs=mod.attrs)


def _named(function: Any) -> list[ir.GlobalVar]:
    names: list[ir.GlobalVar] = []
    structural_walk(function, (ir.GlobalVar, names.append))
    return names


def _without_dead(function: relax.Function) -> relax.Function:
    """Returns a function without its dead bindings; the same function if there are none."""
    bindings = [binding for block in function.body.blocks for binding in block.bindings[:]]
    needed = needed_bindings(function.params, bindings, [function.body.body])
    # Callers see by identity that nothing changed.
    if len(needed) == len(bindings):
        return function
    out = Bindings()
    out.bindings = needed
    return out.function(function)


def needed_bindings(params: Iterable[relax.Var], bindings: list[Any], results: Iterable[Any]) -> list[Any]:
    """Returns, in order, the bindings with side effects and those that results need for their values or dims.

    Bindings are visited last to first, so that whatever reads a variable has been visited before its binding.
    """
    makers = makers_of_dims(params, bindings)
    needed: set[Any] = set()
    for result in results:
        needed.update(relax.analysis.free_vars(result))
        needed.update(makers_for(makers, result.ty))
    live = []
    for binding in reversed(bindings):
        if binding.var in needed or _has_effect(binding.value) or _compares(binding, makers):
            live.append(binding)
            needed.update(relax.analysis.free_vars(binding.value)[:])
            needed.update(makers_for(makers, binding.var.ty, binding.value))
    return live[::-1]


def makers_for(makers: dict[Any, relax.Var], *owners: Any) -> list[relax.Var]:
    """Returns the variables that bind the symbolic dims in types and expressions."""
    return [makers[dim] for owner in owners for dim in _dims(owner) if dim in makers] if makers else []


def makers_of_dims(params: Iterable[relax.Var], bindings: Iterable[Any]) -> dict[Any, relax.Var]:
    """Returns, for each symbolic dim that no parameter has, the variable whose type has it first."""
    bound = {dim for param in params for dim in _dims_of_type(param.ty)}
    makers: dict[Any, relax.Var] = {}
    for binding in bindings:
        for dim in _dims_of_type(binding.var.ty):
            if dim not in bound:
                makers.setdefault(dim, binding.var)
    return makers


def _dims_of_type(ty: Any) -> list[Any]:
    types = ty.fields if isinstance(ty, relax.TupleType) else [ty]
    shapes = [t.shape for t in types if isinstance(t, relax.TensorType) and t.shape is not None]
    return [
        symbol for shape in shapes for d in shape.values[:] if not isinstance(d, tirx.IntImm) for symbol in _dims(d)
    ]


def _dims(of: Any) -> list[Any]:
    """Returns the symbols in a type or an expression."""
    symbols: list[Any] = []
    structural_walk(of, (tirx.Var, symbols.append))
    return symbols


def _compares(binding: Any, makers: dict[Any, relax.Var]) -> bool:
    """Returns whether a binding checks computed sizes against dims that are known already: it may fail, so it isn't dead."""
    if not dialect.is_dialect(binding.value) or binding.value.op.name != "tvtf.told_dims":
        return False
    dims = binding.var.ty.shape.values[:-1]
    return not all(isinstance(d, tirx.Var) and makers.get(d) == binding.var for d in dims)


def _has_effect(value: Any) -> bool:
    return dialect.is_dialect(value) and not table[value.op.name.removeprefix("tvtf.")].pure
