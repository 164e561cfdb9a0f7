"""Arithmetic and comparisons of floats in forms that TVM's simplifier leaves as they are.

It reasons about floats as about whole numbers, where there is no NaN, no infinity and no rounding: it takes ``x + y - y`` for
x, ``x - x`` for 0, ``x == x`` for true, ``not x < y`` for ``y <= x``, and in the branch where ``x < y`` does not hold
``x >= y`` for known. LLVM knows better, and makes of these forms what they were.

Source: TVM 0.27, src/arith/rewrite_simplify.cc (rules of SubNode, EQNode, NotNode, AndNode, OrNode, SelectNode)
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx, transform
from tvm.tirx import EQ, GE, GT, LE, LT, NE, PrimFunc, Sub

from tvtf.core.tvm_visitor import structural_map


def exact(func: PrimFunc) -> PrimFunc:
    """Return `func` with differences and comparisons of floats that give what IEEE 754 says.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def f(x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32"), z: T.Buffer((1,), "bool")):
        ...     z[0] = not x[0] - y[0] < x[0]
        >>> print(exact(f).body.script().splitlines()[-1])
        z[0] = not (x[0] + (T.float32(-0.0) - y[0]) < x[0]) & T.bool(True)
    """
    rules = [(Sub, _difference), ((LT, LE, GT, GE), _opaque), (EQ, _equal), (NE, _unequal)]
    return func.with_body(structural_map(func.body, rules))


def _difference(node: Any) -> Any:
    """``a + (-b)``: TVM has no negation but ``0 - b``, which is not -b where b is 0; ``-0 - b`` is."""
    if not _is_of_floats(node):
        return node
    return tirx.Add(node.a, Sub(tirx.const(-0.0, node.a.ty.dtype), node.b))


def _opaque(node: Any) -> Any:
    """The comparison with all its bits: the simplifier has no rule for a bitwise operation on what is true or not.

    It has for bytes and numbers made of them; and CommonSubexprElim fails on vectors of these ("IntImm can only take scalar").
    """
    return tirx.BitwiseAnd(node, tirx.const(True, "bool")) if _is_of_floats(node) else node


def _equal(node: Any) -> Any:
    return tirx.And(_opaque(LE(node.a, node.b)), _opaque(GE(node.a, node.b))) if _is_of_floats(node) else node


def _unequal(node: Any) -> Any:
    """TVM has LLVM compare numbers that are ordered, so that two NaN would be equal."""
    return tirx.Not(_equal(node)) if _is_of_floats(node) else node


def _is_of_floats(node: Any) -> bool:
    return "float" in str(node.a.ty.dtype)


@transform.module_pass(opt_level=0, name="ExactFloats")
def ExactFloats(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Apply `exact` to every PrimFunc of a module."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            result.update_func(name, exact(func))
    return result
