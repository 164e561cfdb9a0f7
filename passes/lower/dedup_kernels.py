"""Deduplicates kernels: calls with unknown dims get a kernel each, and so does each group that FuseOps makes."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvtf.core.tvm_visitor import structural_map


def share_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces kernels of the same structure by the first of them."""
    replacements = _duplicates(mod)
    if not replacements:
        return mod
    functions = {name: _calling(func, replacements) for name, func in mod.functions_items() if name not in replacements}
    return tvm.IRModule(functions, attrs=mod.attrs)


def _calling(func: Any, replacements: dict[ir.GlobalVar, ir.GlobalVar]) -> Any:
    if isinstance(func, tirx.PrimFunc):
        return func
    return structural_map(func, (ir.GlobalVar, lambda name: replacements.get(name, name)))


def _duplicates(mod: tvm.IRModule) -> dict[ir.GlobalVar, ir.GlobalVar]:
    """Returns the first kernel of the same structure, by the name of each duplicate.

    Each kernel is scheduled and compiled once.
    """
    known: dict[int, list[tuple[ir.GlobalVar, tirx.PrimFunc]]] = {}
    replacements: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and "global_symbol" not in (func.attrs or {}):
            # Different functions may have the same hash.
            candidates = known.setdefault(tvm_ffi.structural_hash(func), [])
            first = next((other for other, candidate in candidates if _is_same(name, func, other, candidate)), None)
            if first is None:
                candidates.append((name, func))
            else:
                replacements[name] = first
    return replacements


def _is_same(name: Any, func: tirx.PrimFunc, other: Any, other_func: tirx.PrimFunc) -> bool:
    """Checks equality of kernels and of their types, which also say whether calls are pure."""
    return tvm_ffi.structural_equal(name.ty, other.ty) and tvm_ffi.structural_equal(func, other_func)
