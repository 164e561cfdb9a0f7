"""Kernels that are the same, once: calls with unknown dims make one each, and fusing makes one of each group of calls."""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import ir, tirx

from tvtf.core.tvm_visitor import structural_map


def share_kernels(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with the first of all kernels of the same structure in the place of the others."""
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
    """What is there before, by the name of each kernel that is there again."""
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
    """Also in whether calls of them are pure."""
    return tvm_ffi.structural_equal(name.ty, other.ty) and tvm_ffi.structural_equal(func, its)
