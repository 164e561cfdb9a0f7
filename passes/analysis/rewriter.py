"""Rewrites the straight-line functions of the dialect binding by binding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax
from tvm.relax import _ffi_api

from tvtf.ir.dialect import bindings_of


class Bindings:
    """The bindings of a Relax function under construction."""

    def __init__(self) -> None:
        self.bindings: list[relax.VarBinding] = []

    def bind(self, var: relax.Var, value: Any) -> None:
        self.bindings.append(relax.VarBinding(var, value))

    def rebind(self, binding: Any, value: Any) -> None:
        """Adds a binding of the variable of ``binding`` to another value; a MatchCast remains a MatchCast."""
        if isinstance(binding, relax.MatchCast):
            self.bindings.append(relax.MatchCast(binding.var, value, binding.ty))
        else:
            self.bind(binding.var, value)

    def emit(self, value: Any, name: str) -> relax.Var:
        """Binds a value to a new variable, and returns the variable."""
        var = relax.Var(name, value.ty)
        self.bind(var, value)
        return var

    @staticmethod
    def typed(expr: Any, ty: Any) -> Any:
        """Sets the type of ``expr`` and returns it; Relax computes types only in its own BlockBuilder."""
        _ffi_api.UpdateType(expr, ty)
        return expr

    def function(self, like: relax.Function, result: Any = None, pure: bool | None = None) -> relax.Function:
        """Returns the function ``like`` with these bindings as its body."""
        result = like.body.body if result is None else result
        body = self.typed(relax.SeqExpr([relax.BindingBlock(self.bindings)], result), result.ty)
        return relax.Function(
            like.params, body, result.ty, like.is_pure if pure is None else pure, like.attrs, like.span
        )


Rewrite = Callable[[Bindings, relax.VarBinding], None]


def rewrite_functions(mod: tvm.IRModule, rewrite: Rewrite) -> tvm.IRModule:
    """Calls ``rewrite`` for each binding of each Relax function, in order; returns the new module."""
    return map_functions(mod, lambda func: rewrite_function(func, rewrite))


def map_functions(mod: tvm.IRModule, rewrite: Callable[[relax.Function], relax.Function]) -> tvm.IRModule:
    """Returns the module with each Relax function replaced by ``rewrite`` of it."""
    result = mod.clone()
    for var, func in mod.functions.items():
        if isinstance(func, relax.Function):
            result.update_func(var, rewrite(func))
    return result


def rewrite_function(func: relax.Function, rewrite: Rewrite) -> relax.Function:
    """Returns a function whose bindings are those that ``rewrite`` adds, which is called for each binding in order."""
    out = Bindings()
    for binding in bindings_of(func.body):
        rewrite(out, binding)
    return out.function(func)
