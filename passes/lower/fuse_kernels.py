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
    return _name_lost_dims(relax.transform.FuseTIR()(mod))


def _name_lost_dims(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces each dim of a parameter that its function can't compute by a symbol.

    A function fails on an argument whose dims it can't compute (see above).
    """
    repaired = {
        var: _named(f) for var, f in mod.functions_items() if isinstance(f, relax.Function) and _has_unbound_dims(f)
    }
    if not repaired:
        return mod
    typed = {var: Bindings.typed(ir.GlobalVar(var.name_hint), f.ty) for var, f in repaired.items()}
    unchanged = {var: f for var, f in mod.functions_items() if var not in repaired}
    functions = unchanged | {typed[var]: f for var, f in repaired.items()}
    renamed = (ir.GlobalVar, lambda var: typed.get(var, var))
    return tvm.IRModule(
        {var: structural_map(f, renamed) if isinstance(f, relax.Function) else f for var, f in functions.items()},
        attrs=mod.attrs,
    )


def _has_unbound_dims(function: relax.Function) -> bool:
    """Returns whether a parameter has a dim expression over symbols that no parameter binds."""
    known = _known([p.ty for p in function.params], function.params)
    return any(isinstance(p.ty, relax.TensorType) and not all(_are_bound(known, p.ty)) for p in function.params)


def _known(types: Sequence[Any], params: Sequence[Any] = ()) -> set[Any]:
    """Returns the symbols that parameters bind: plain symbolic dims, and scalars."""
    return {d for d in [*(d for ty in types for d in _dims(ty)), *params] if isinstance(d, tirx.Var)}


def _are_bound(known: set[Any], ty: Any) -> Iterator[bool]:
    return (known.issuperset(tirx.analysis.undefined_vars(dim)) for dim in _dims(ty))


def _dims(ty: Any) -> list[Any]:
    if isinstance(ty, relax.ShapeType):
        return list(ty.values or ())
    return list(ty.shape.values) if isinstance(ty, relax.TensorType) and ty.shape is not None else []


def with_named_dims(types: Sequence[Any], params: Sequence[Any] = ()) -> list[Any]:
    """Returns parameter types with each unbound dim expression replaced by a symbol, the same one for equal dims.

    Args:
      params: the parameters; scalars among them bind their own symbols.
    """
    known, names, result = _known(types, params), [], []  # type: ignore[var-annotated]
    for ty in types:
        is_bound = [*_are_bound(known, ty)]
        if isinstance(ty, relax.TensorType) and not all(is_bound):
            dims = [dim if bound else _name_of(dim, names) for dim, bound in zip(_dims(ty), is_bound)]
            ty = relax.TensorType(dims, ty.dtype, ty.vdevice)
        result.append(ty)
    return result


def _name_of(dim: Any, names: list[tuple[Any, tirx.Var]]) -> tirx.Var:
    """Returns the symbol for a dim expression, a new one for the first of its kind."""
    for known, name in names:
        if tvm_ffi.structural_equal(dim, known):
            return name
    names.append((dim, tirx.Var("size", "int64")))
    return names[-1][1]


def _named(function: relax.Function) -> relax.Function:
    types = with_named_dims([p.ty for p in function.params], function.params)
    params = [p if p.ty is ty else relax.Var(p.name, ty) for p, ty in zip(function.params, types)]
    new = dict(zip(function.params, params))
    body = structural_map(function.body, (relax.Var, lambda var: new.get(var, var)))
    return relax.Function(params, body, function.ret_ty, function.is_pure, function.attrs, function.span)
