"""Deduplicates kernels: calls with unknown dims get a kernel each, and so does each group that FuseOps makes."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvtf.core.tvm_visitor import structural_map


def share_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces kernels of the same structure by the first of them."""
    instead = _others(mod)
    if not instead:
        return mod
    kept = {name: _calling(func, instead) for name, func in mod.functions_items() if name not in instead}
    return tvm.IRModule(kept, attrs=mod.attrs)


def _calling(func: Any, instead: dict[ir.GlobalVar, ir.GlobalVar]) -> Any:
    if isinstance(func, tirx.PrimFunc):
        return func
    return structural_map(func, (ir.GlobalVar, lambda name: instead.get(name, name)))


def _others(mod: tvm.IRModule) -> dict[ir.GlobalVar, ir.GlobalVar]:
    """Returns the first kernel of the same structure, by the name of each duplicate."""
    known: dict[int, list[tuple[ir.GlobalVar, tirx.PrimFunc]]] = {}
    instead: dict[ir.GlobalVar, ir.GlobalVar] = {}
    for name, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc) and "global_symbol" not in (func.attrs or {}):
            alike = known.setdefault(tvm_ffi.structural_hash(func), [])
            first = next((other for other, its in alike if _is_same(name, func, other, its)), None)
            if first is None:
                alike.append((name, func))
            else:
                instead[name] = first
    return instead


def _is_same(name: Any, func: tirx.PrimFunc, other: Any, its: tirx.PrimFunc) -> bool:
    """Checks equality of kernels and of their types, which also say whether calls are pure."""
    return tvm_ffi.structural_equal(name.ty, other.ty) and tvm_ffi.structural_equal(func, its)
