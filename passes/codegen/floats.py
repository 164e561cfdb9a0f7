"""Protects float arithmetic and comparisons from TVM's simplifier.

The simplifier treats floats as integers, without NaN, infinity and rounding. It turns ``x + y - y`` into x, ``x - x``
into 0, ``x == x`` into true, ``not x < y`` into ``y <= x``, and in the branch where ``x < y`` is false assumes ``x >=
y``. This pass rewrites such expressions to forms that it has no rules for; LLVM simplifies these correctly.

Source: TVM 0.27, src/arith/rewrite_simplify.cc (rules of SubNode, EQNode, NotNode, AndNode, OrNode, SelectNode)
"""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx, transform
from tvm.tirx import EQ, GE, GT, LE, LT, NE, PrimFunc, Sub

from tvtf.core.tvm_visitor import structural_map


def exact(func: PrimFunc) -> PrimFunc:
    """Returns `func` with differences and comparisons of floats in forms that follow IEEE 754.

    TVM's simplifier would treat these floats as integers, and turn ``x - x`` into 0, also for NaN and infinity.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def f(x: T.Buffer((1,), "float32"), y: T.Buffer((1,), "float32"), z: T.Buffer((1,), "bool")):
        ...     z[0] = not x[0] - y[0] < x[0]
        >>> print(exact(f).body.script().splitlines()[-1])
        z[0] = not (x[0] + (T.float32(-0.0) - y[0]) < x[0]) & T.bool(True)
    """
    rules = [(Sub, _difference), ((LT, LE, GT, GE), _hidden_comparison), (EQ, _equal), (NE, _unequal)]
    return func.with_body(structural_map(func.body, rules))


def _difference(node: Any) -> Any:
    """Rewrites ``a - b`` of floats to ``a + (-0 - b)``: TVM has no negation, and ``0 - b`` isn't -b where b is 0."""
    if not _is_of_floats(node):
        return node
    return tirx.Add(node.a, Sub(tirx.const(-0.0, node.a.ty.dtype), node.b))


def _hidden_comparison(node: Any) -> Any:
    """Wraps a comparison in a bitwise AND with true: the simplifier has no rule for that on booleans.

    It has rules for bitwise operations on bytes and on numbers made from them.
    """
    return tirx.BitwiseAnd(node, tirx.const(True, "bool")) if _is_of_floats(node) else node


def _equal(node: Any) -> Any:
    """Rewrites ``a == b`` of floats to ``a <= b and a >= b``, which is false where one is NaN."""
    return (
        tirx.And(_hidden_comparison(LE(node.a, node.b)), _hidden_comparison(GE(node.a, node.b)))
        if _is_of_floats(node)
        else node
    )


def _unequal(node: Any) -> Any:
    """Rewrites ``a != b`` to ``not (a <= b and a >= b)``: TVM's own comparison is ordered, false for two NaN."""
    return tirx.Not(_equal(node)) if _is_of_floats(node) else node


def _is_of_floats(node: Any) -> bool:
    return "float" in str(node.a.ty.dtype)


@tirx.transform.prim_func_pass(opt_level=0, name="ExactFloats")
def ExactFloats(func: PrimFunc, _mod: ir.IRModule, _context: transform.PassContext) -> PrimFunc:
    """Applies `exact` to every PrimFunc of a module.

    TVM's simplifier treats floats as integers, and would turn ``x - x`` into 0, which is wrong for NaN.
    """
    return exact(func)
