"""Simplification of the dialect: what is computed twice or for nobody goes."""

from __future__ import annotations

import tvm
from tvm import relax


def simplify(mod: tvm.IRModule) -> tvm.IRModule:
    """Common subexpressions shared, dead bindings dropped."""
    mod = relax.transform.EliminateCommonSubexpr()(mod)
    return relax.transform.DeadCodeElimination()(mod)
