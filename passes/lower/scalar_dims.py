"""Passes dims to fused kernels in one shape parameter, instead of some as scalars.

FuseOps makes a scalar parameter of a dim that a kernel takes as a scalar, and one shape of dims that only occur within
others, as in ``n + m``. FuseTIR fails on functions that have both, since it defines such a dim twice
("VarRemapGet(source) == nullptr", src/s_tir/transform/renew_defs.cc).
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import ir, relax

from tvtf.core.tvm_visitor import structural_map
from tvtf.passes.analysis.rewriter import Bindings


def scalars_as_dims(mod: tvm.IRModule) -> tvm.IRModule:
    """Moves the scalar parameters of fused functions into their last parameter, a shape.

    FuseTIR, which runs next, fails on functions with both scalars and a shape: it defines a dim twice.
    """
    functions = {var: f for var, f in mod.functions_items() if _has_both(f)}
    if not functions:
        return mod
    rewritten = {var: _without_scalars(f) for var, f in functions.items()}
    new_names = {var: Bindings.typed(ir.GlobalVar(var.name_hint), f.ty) for var, f in rewritten.items()}

    def with_scalars_in_shape(call: relax.Call) -> relax.Call:
        """Moves the scalar operands of a call into the call's last operand, which is a shape.

        Only calls of the rewritten functions change.
        """
        if not isinstance(call.op, ir.GlobalVar) or call.op not in new_names:
            return call
        *operands, dims = call.args
        scalars = [x for x, p in zip(operands, functions[call.op].params) if _is_scalar(p)]
        others = [x for x, p in zip(operands, functions[call.op].params) if not _is_scalar(p)]
        args = [*others, relax.ShapeExpr([*dims.values, *scalars])]
        return relax.Call(new_names[call.op], args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    callers = {var: f for var, f in mod.functions_items() if var not in functions}
    changed = {var: structural_map(f, (relax.Call, with_scalars_in_shape)) for var, f in callers.items()}
    return tvm.IRModule(changed | {new_names[var]: f for var, f in rewritten.items()}, attrs=mod.attrs)


def _is_scalar(param: relax.Var) -> bool:
    return isinstance(param.ty, ir.PrimType)


def _has_both(function: Any) -> bool:
    """Returns whether a function is a group that FuseOps made, with scalar parameters and a shape at the end."""
    if not isinstance(function, relax.Function) or not (function.attrs and "Primitive" in function.attrs):
        return False
    params = list(function.params)
    return bool(params) and isinstance(params[-1].ty, relax.ShapeType) and any(map(_is_scalar, params))


def _without_scalars(function: relax.Function) -> relax.Function:
    """Moves the scalar parameters of a fused function into the function's last parameter, which is a shape.

    For example, ``f(x, n, (m,))`` becomes ``f(x, (m, n))``.
    """
    *params, last = function.params
    scalars = [p for p in params if _is_scalar(p)]
    dims = relax.Var(last.name, relax.ShapeType([*last.ty.values, *scalars]))
    others = [p for p in params if not _is_scalar(p)]
    return relax.Function(
        [*others, dims], function.body, function.ret_ty, function.is_pure, function.attrs, function.span
    )
