"""Guards divisions by symbolic sizes: a division by zero would end the process."""

from __future__ import annotations

from typing import Any

from tvm import ir, tirx, transform
from tvm.tirx import FloorDiv, FloorMod, For, IntImm, PrimFunc, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu.kernel import loads, variables


def with_guarded_divisors(func: PrimFunc) -> PrimFunc:
    """Returns `func` with each symbolic divisor replaced by ``divisor + (divisor == 0)``.

    A quotient by a size of zero is never used: there are no elements, or a guard rejects the sizes. TVM's simplifier
    assumes that dims are positive, and would undo the replacement. Therefore this pass runs late, and compares the bits
    of the size. It doesn't use a Select, since the simplifier takes exponential time on nested ones.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def share(n: T.int64, a: T.Buffer((1,), "int64")):
        ...     a[0] = 7 // n
        >>> with_guarded_divisors(share).body  # doctest: +ELLIPSIS
        a = ...
        n = T.int64()
        a[0] = T.int64(7) // (n + T.Cast("int64", T.reinterpret("uint64", n) == T.uint64(0)))
    """
    computes_sizes = func.attrs is not None and bool(func.attrs.get("tirx.is_host_func", False))
    return func.with_body(divisible(func.body, computes_sizes))


def divisible(node: Any, by_memory: bool = False) -> Any:
    """Guards the divisions by symbolic sizes in an expression or statement against a divisor of zero.

    Divisors loaded from memory are data and stay unguarded, unless ``by_memory``. Divisions of loop variables stay
    unguarded, too: a loop runs only if there are elements, and TVM would take minutes to simplify guarded indices over
    six symbolic dims.
    """
    loop_vars: set[Var] = set()
    structural_walk(node, (For, lambda loop: loop_vars.add(loop.loop_var)))

    def guarded(division: Any) -> Any:
        """Rewrites a division by a symbolic int64 size to divide by ``size + (size == 0)``.

        A division by zero would end the process. Where a size is 0 there are no elements, so the quotient isn't used.
        """
        divisor = division.b
        if isinstance(divisor, IntImm) or str(divisor.ty.dtype) != "int64" or (loads(divisor) and not by_memory):
            return division
        if not loop_vars.isdisjoint(variables(division.a)):
            return division
        is_zero = tirx.reinterpret("uint64", divisor) == tirx.const(0, "uint64")
        return type(division)(division.a, divisor + is_zero.astype("int64"))

    for division_class in (FloorDiv, FloorMod):
        node = structural_map(node, (division_class, guarded))
    return node


@tirx.transform.prim_func_pass(opt_level=0, name="GuardDivisors")
def GuardDivisors(func: PrimFunc, _mod: ir.IRModule, _context: transform.PassContext) -> PrimFunc:
    """Applies `with_guarded_divisors` to every PrimFunc of a module.

    A division by a size of 0 would end the process.
    """
    return with_guarded_divisors(func)
