"""The executable definition of the dialect: binds every call of a Relax function again, on other tensors.

On eager tensors this runs the function with NumPy; on symbolic ones it re-emits (inlines) it into the active trace; under a
tape it is what differentiates; over batched tensors it maps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf import dialect
from tvtf.shape import substitute_dim
from tvtf.tensor import EagerTensor, Tensor


def evaluate(mod: tvm.IRModule, name: str, args: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The outputs of function ``name`` of a dialect module at ``args``."""
    return _Evaluation(mod, mod[name], args).run()


class _Evaluation:
    def __init__(self, mod: tvm.IRModule, function: relax.Function, args: Sequence[Tensor]) -> None:
        self.mod = mod
        self.function = function
        self.values: dict[relax.Var, Any] = dict(zip(function.params, args))
        self.dims = bound_dims(function.params, [a._type.shape for a in args])

    def run(self) -> tuple[Tensor, ...]:
        for block in self.function.body.blocks:
            for binding in block.bindings:
                self.values[binding.var] = self.value(binding.value)
        result = self.value(self.function.body.body)
        return result if isinstance(result, tuple) else (result,)

    def value(self, expr: Any) -> Any:
        if isinstance(expr, relax.Var):
            return self.values[expr]
        if isinstance(expr, ir.Constant):
            return EagerTensor(np.array(expr.data.numpy()))
        if isinstance(expr, relax.Tuple):
            return tuple(map(self.value, expr.fields))
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value)[expr.index]
        return self.call(expr)

    def call(self, expr: Any) -> Any:
        if not dialect.is_dialect(expr):
            raise TypeError(f"not an op of the tvtf dialect: {expr}; import the module into the dialect first")
        bound = dialect.read(expr)
        attrs = {k: self.attribute(v) for k, v in bound.attrs.items()}
        return bound.primitive.bind(*map(self.value, bound.inputs), **attrs)

    def attribute(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self.attribute, value))
        if isinstance(value, ir.GlobalVar):
            return Subfunction(self.mod, value.name_hint)
        if isinstance(value, ir.Expr):
            return substitute_dim(value, self.dims)
        return value


class Subfunction:
    """A function of a module as an attribute of a control-flow primitive: callable on tensors."""

    def __init__(self, mod: tvm.IRModule, name: str) -> None:
        self.mod = mod
        self.name = name

    def __call__(self, *args: Tensor) -> tuple[Tensor, ...]:
        return evaluate(self.mod, self.name, args)


def bound_dims(params: Sequence[relax.Var], shapes: Sequence[tuple[Any, ...]]) -> dict[tirx.Var, Any]:
    """What each symbolic dim of the parameters is in the given shapes."""
    found: dict[tirx.Var, Any] = {}
    for param, shape in zip(params, shapes):
        for symbol, dim in zip(param.ty.shape.values, shape):
            if isinstance(symbol, tirx.Var):
                found.setdefault(symbol, dim)
    return found

