"""FuseTIR, and dims of parameters that it leaves made of dims which no parameter has any more.

It takes parameters away that a function of control flow reads no element of, and hands their dims on as a shape where its
body uses them. It overlooks those that only the type of another parameter is made of, as in ``(min(6, n + m),)``: the function
then can't tell whether its argument fits (VMShapeLower: "PrimExpr ... is not computed").
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
    """The module with one kernel for each group of FuseOps."""
    return _name_lost_dims(relax.transform.FuseTIR()(mod))


def _name_lost_dims(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a symbol in the place of each dim of a parameter that the function can't compute."""
    made = {var: _named(f) for var, f in mod.functions_items() if isinstance(f, relax.Function) and _lost(f)}
    if not made:
        return mod
    typed = {var: Bindings.typed(ir.GlobalVar(var.name_hint), f.ty) for var, f in made.items()}
    kept = {var: f for var, f in mod.functions_items() if var not in made}
    functions = kept | {typed[var]: f for var, f in made.items()}
    renamed = (ir.GlobalVar, lambda var: typed.get(var, var))
    return tvm.IRModule(
        {var: structural_map(f, renamed) if isinstance(f, relax.Function) else f for var, f in functions.items()},
        attrs=mod.attrs,
    )


def _lost(function: relax.Function) -> bool:
    """Whether a parameter has a dim that is made of unknown ones."""
    known = _known([p.ty for p in function.params], function.params)
    return any(isinstance(p.ty, relax.TensorType) and not all(_is_made_of(known, p.ty)) for p in function.params)


def _known(types: Sequence[Any], params: Sequence[Any] = ()) -> set[Any]:
    """The symbols that parameters have as dims of their own."""
    return {d for d in [*(d for ty in types for d in _dims(ty)), *params] if isinstance(d, tirx.Var)}


def _is_made_of(known: set[Any], ty: Any) -> Iterator[bool]:
    return (known.issuperset(tirx.analysis.undefined_vars(dim)) for dim in _dims(ty))


def _dims(ty: Any) -> list[Any]:
    if isinstance(ty, relax.ShapeType):
        return list(ty.values or ())
    return list(ty.shape.values) if isinstance(ty, relax.TensorType) and ty.shape is not None else []


def with_named_dims(types: Sequence[Any], params: Sequence[Any] = ()) -> list[Any]:
    """Types of parameters with a symbol in the place of each dim that they can't tell; one for equal dims.

    Args:
      params: scalars among the parameters, which tell themselves.
    """
    known, names, found = _known(types, params), [], []  # type: ignore[var-annotated]
    for ty in types:
        told = [*_is_made_of(known, ty)]
        if isinstance(ty, relax.TensorType) and not all(told):
            dims = [dim if is_told else _name_of(dim, names) for dim, is_told in zip(_dims(ty), told)]
            ty = relax.TensorType(dims, ty.dtype, ty.vdevice)
        found.append(ty)
    return found


def _name_of(dim: Any, names: list[tuple[Any, tirx.Var]]) -> tirx.Var:
    """The symbol for a dim, a new one where it is the first of its like."""
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
