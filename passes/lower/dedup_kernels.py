"""Deduplicates kernels: calls with unknown dims get a kernel each, and so does each group that FuseOps makes."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvtf.core.tvm_visitor import structural_map


def share_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces kernels of the same structure by the first of them, so that each is scheduled and compiled once."""
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
    """Returns a Relax function that calls the replacements instead of the kernels; kernels call none."""
    if isinstance(func, tirx.PrimFunc):
        return func
    return structural_map(func, (ir.GlobalVar, lambda name: replacements.get(name, name)))


def _duplicates(mod: tvm.IRModule) -> dict[ir.GlobalVar, ir.GlobalVar]:
    """Returns, by the name of each duplicate kernel, the first kernel of the same structure.

    Each kernel is scheduled and compiled once.
    """
    by_hash: dict[int, list[tuple[ir.GlobalVar, tirx.PrimFunc]]] = {}
    replacements: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and "global_symbol" not in (func.attrs or {}):
            # Different functions may have the same hash.
            candidates = by_hash.setdefault(tvm_ffi.structural_hash(func), [])
            first = next((other for other, candidate in candidates if _is_same(name, func, other, candidate)), None)
            if first is None:
                candidates.append((name, func))
            else:
                replacements[name] = first
    return replacements


def _is_same(name: Any, func: tirx.PrimFunc, other: Any, other_func: tirx.PrimFunc) -> bool:
    """Returns whether kernels, and their types, which also say whether calls are pure, are equal."""
    return tvm_ffi.structural_equal(name.ty, other.ty) and tvm_ffi.structural_equal(func, other_func)
