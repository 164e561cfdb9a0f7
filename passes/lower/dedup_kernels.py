"""Deduplicates kernels: each call with unknown dims and each group that FuseOps makes has its own kernel at first."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvtf.core.tvm_visitor import structural_map


def share_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """Removes duplicate kernels: all calls of kernels of equal structure call the first of them.

    It is compiled only once (identical code folding).
    """
    replacements = _duplicates(mod)
    if not replacements:
        return mod
    functions = {
        name: _with_replaced_calls(func, replacements)
        for name, func in mod.functions_items()
        if name not in replacements
    }
    return tvm.IRModule(functions, attrs=mod.attrs)


def _with_replaced_calls(func: Any, replacements: dict[ir.GlobalVar, ir.GlobalVar]) -> Any:
    """Returns a function that calls the replacements instead of the replaced kernels."""
    if isinstance(func, tirx.PrimFunc):  # a kernel calls no other kernel
        return func
    return structural_map(func, (ir.GlobalVar, lambda name: replacements.get(name, name)))


def _duplicates(mod: tvm.IRModule) -> dict[ir.GlobalVar, ir.GlobalVar]:
    """Finds kernels of equal structure; returns a dictionary from each duplicate to the first such kernel."""
    by_hash: dict[int, list[tuple[ir.GlobalVar, tirx.PrimFunc]]] = {}
    replacements: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for name, func in mod.functions_items():
        if not isinstance(func, tirx.PrimFunc) or "global_symbol" in (func.attrs or {}):
            continue
        # Different functions may have the same hash.
        candidates = by_hash.setdefault(tvm_ffi.structural_hash(func), [])
        first = next((other for other, candidate in candidates if _is_same(name, func, other, candidate)), None)
        if first is None:
            candidates.append((name, func))
        else:
            replacements[name] = first
    return replacements


def _is_same(name: Any, func: tirx.PrimFunc, other: Any, other_func: tirx.PrimFunc) -> bool:
    """Returns whether two kernels are equal, and so are their types, which include the purity of calls."""
    return tvm_ffi.structural_equal(name.ty, other.ty) and tvm_ffi.structural_equal(func, other_func)
