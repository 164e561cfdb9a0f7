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
    functions = {var: func for var, func in mod.functions_items() if _has_both(func)}
    if not functions:
        return mod
    rewritten = {var: _without_scalars(func) for var, func in functions.items()}
    new_names = {var: Bindings.typed(ir.GlobalVar(var.name_hint), func.ty) for var, func in rewritten.items()}

    def with_scalars_in_shape(call: relax.Call) -> relax.Call:
        """Moves the scalar operands of a call into the call's last operand, which is a shape.

        Only calls of the rewritten functions change.
        """
        if not isinstance(call.op, ir.GlobalVar) or call.op not in new_names:
            return call
        *operands, dims = call.args
        params = functions[call.op].params
        scalars = [operand for operand, param in zip(operands, params) if _is_scalar(param)]
        others = [operand for operand, param in zip(operands, params) if not _is_scalar(param)]
        args = [*others, relax.ShapeExpr([*dims.values, *scalars])]
        return relax.Call(new_names[call.op], args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    callers = {var: func for var, func in mod.functions_items() if var not in functions}
    changed = {var: structural_map(func, (relax.Call, with_scalars_in_shape)) for var, func in callers.items()}
    return tvm.IRModule(changed | {new_names[var]: func for var, func in rewritten.items()}, attrs=mod.attrs)


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

    For example, ``f(x, n, (m,))`` becomes ``f(x, (m, n))``. FuseTIR fails on a function with both kinds of parameters,
    since it defines a dim twice.
    """
    *params, shape = function.params
    scalars = [param for param in params if _is_scalar(param)]
    other_params = [param for param in params if not _is_scalar(param)]
    new_shape = relax.Var(shape.name, relax.ShapeType([*shape.ty.values, *scalars]))
    new_params = [*other_params, new_shape]
    return relax.Function(new_params, function.body, function.ret_ty, function.is_pure, function.attrs, function.span)
