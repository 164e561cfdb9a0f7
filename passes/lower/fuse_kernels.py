"""Runs FuseTIR and repairs the function types it leaves inconsistent.

FuseTIR removes parameters of control-flow functions whose elements aren't read, and passes on their dims as a shape if
the body uses them. It misses dims that only another parameter's type mentions, as in ``(min(6, n + m),)``: the function
then can't check that argument (VMShapeLower: "PrimExpr ... is not computed"). Such dims become symbols of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import ir, relax, tirx

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.analysis.rewriter import Bindings


def fuse_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """Turns each group that FuseOps made into one kernel."""
    return _bind_lost_dims(relax.transform.FuseTIR()(mod))


def _bind_lost_dims(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces dim expressions that a function can't compute by new symbols, in the types of its parameters.

    For example, a function without a parameter of dim ``n`` can't compute ``n + m``, and would fail when it checks the
    argument's shape.
    """
    repaired = {
        name: _with_bound_dims(func)
        for name, func in mod.functions_items()
        if isinstance(func, relax.Function) and _has_unbound_dims(func)
    }
    if not repaired:
        return mod
    # The types of repaired functions change, so they get new global variables, which all callers refer to.
    new_names = {name: Bindings.typed(ir.GlobalVar(name.name_hint), func.ty) for name, func in repaired.items()}
    functions = {name: func for name, func in mod.functions_items() if name not in repaired}
    for old_name, func in repaired.items():
        functions[new_names[old_name]] = func

    def renamed(name: ir.GlobalVar) -> ir.GlobalVar:
        return new_names.get(name, name)

    for name, func in functions.items():
        if isinstance(func, relax.Function):
            functions[name] = structural_map(func, (ir.GlobalVar, renamed))
    return tvm.IRModule(functions, attrs=mod.attrs)


def _has_unbound_dims(function: relax.Function) -> bool:
    """Returns whether a parameter has a dim expression over symbols that no parameter binds."""
    bound = _bound_symbols([param.ty for param in function.params], function.params)
    return any(
        isinstance(param.ty, relax.TensorType) and not all(_are_bound(bound, param.ty)) for param in function.params
    )


def _bound_symbols(types: Sequence[Any], params: Sequence[Any] = ()) -> set[Any]:
    """Returns the symbols whose values parameters give: scalars, and dims such as ``n``, but not those in ``n + m``."""
    return {dim for dim in [*(dim for ty in types for dim in _dims_of(ty)), *params] if isinstance(dim, tirx.Var)}


def _are_bound(bound: set[Any], ty: Any) -> Iterator[bool]:
    """Yields, for each dim of a type, whether it is an expression of bound symbols."""
    return (bound.issuperset(tirx.analysis.undefined_vars(dim)) for dim in _dims_of(ty))


def _dims_of(ty: Any) -> list[Any]:
    """Returns the dims of a shape's or tensor's type; none if they aren't known."""
    if isinstance(ty, relax.ShapeType):
        return list(ty.values or ())
    return list(ty.shape.values) if isinstance(ty, relax.TensorType) and ty.shape is not None else []


def with_named_dims(types: Sequence[Any], params: Sequence[Any] = ()) -> list[Any]:
    """Returns parameter types with a new symbol in place of each dim expression that can't be computed.

    Equal expressions are replaced by the same symbol.

    Args:
      types: the types of the parameters. A dim can be computed from dims that are a symbol, such as ``n``.
      params: the parameters themselves, if scalars among them also give values of symbols.
    """
    bound_symbols = _bound_symbols(types, params)
    new_symbols: list[tuple[Any, tirx.Var]] = []
    result: list[Any] = []
    for ty in types:
        dims_are_bound = list(_are_bound(bound_symbols, ty))
        if isinstance(ty, relax.TensorType) and not all(dims_are_bound):
            dims = [
                dim if is_bound else _symbol_for(dim, new_symbols)
                for dim, is_bound in zip(_dims_of(ty), dims_are_bound)
            ]
            ty = relax.TensorType(dims, ty.dtype, ty.vdevice)
        result.append(ty)
    return result


def _symbol_for(dim: Any, symbols: list[tuple[Any, tirx.Var]]) -> tirx.Var:
    """Returns the symbol that replaces a dim expression, the same one for equal expressions.

    By equal symbols, TVM knows that the sizes of several parameters are equal.

    Args:
      dim: the expression.
      symbols: the expressions that already have a symbol, with the symbol; a new pair is appended.
    """
    for known, symbol in symbols:
        if tvm_ffi.structural_equal(dim, known):
            return symbol
    new_symbol = tirx.Var("size", "int64")
    symbols.append((dim, new_symbol))
    return new_symbol


def _with_bound_dims(function: relax.Function) -> relax.Function:
    """Returns a function with new symbols for dim expressions in its parameters' types that it can't compute."""
    types = with_named_dims([param.ty for param in function.params], function.params)
    params = [param if param.ty is ty else relax.Var(param.name, ty) for param, ty in zip(function.params, types)]
    new_params = dict(zip(function.params, params))
    body = structural_map(function.body, (relax.Var, lambda var: new_params.get(var, var)))
    return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs, function.span)
