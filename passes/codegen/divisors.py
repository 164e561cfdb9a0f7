"""Sizes divided by sizes that are zero: a division by zero would end the process."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx, transform
from tvm.tirx import FloorDiv, FloorMod, For, IntImm, PrimFunc, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu.kernel import loads, variables


def never_by_zero(func: PrimFunc) -> PrimFunc:
    """Return `func` with unknown sizes that divide taken as one where they are zero.

    What is divided so is never used: there are no elements, or a guard refuses the sizes. TVM's simplifier takes the size
    of a dim as positive and would undo it: so this comes late, and the size is compared as the bits it is. It takes
    exponential time on nested Selects: so there is none.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def share(n: T.int64, a: T.Buffer((1,), "int64")):
        ...     a[0] = 7 // n
        >>> never_by_zero(share).body  # doctest: +ELLIPSIS
        a = ...
        n = T.int64()
        a[0] = T.int64(7) // (n + T.Cast("int64", T.reinterpret("uint64", n) == T.uint64(0)))
    """
    computes_sizes = func.attrs is not None and bool(func.attrs.get("tirx.is_host_func", False))
    return func.with_body(divisible(func.body, computes_sizes))


def divisible(node: Any, by_memory: bool = False) -> Any:
    """An expression or statement in which sizes are not divided by zero; what it loads is data, unless ``by_memory``.

    A loop's place is divided by sizes only where the loop runs, so where there are elements. Such divisions stay as they
    are: TVM takes minutes to simplify places among six unknown dims otherwise.
    """
    places: set[Var] = set()
    structural_walk(node, (For, lambda loop: places.add(loop.loop_var)))

    def guarded(division: Any) -> Any:
        by = division.b
        if isinstance(by, IntImm) or str(by.ty.dtype) != "int64" or (loads(by) and not by_memory):
            return division
        if not places.isdisjoint(variables(division.a)):
            return division
        is_zero = tirx.reinterpret("uint64", by) == tirx.const(0, "uint64")
        return type(division)(division.a, by + is_zero.astype("int64"))

    for kind in (FloorDiv, FloorMod):
        node = structural_map(node, (kind, guarded))
    return node


@transform.module_pass(opt_level=0, name="NeverByZero")
def NeverByZero(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Apply `never_by_zero` to every PrimFunc of a module."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            result.update_func(name, never_by_zero(func))
    return result
