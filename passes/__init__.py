"""The compiler's passes: Relax to Relax, then Relax to a shared library.

Public: :func:`gradient`, :func:`to_dialect`, :func:`add_pass`, :func:`remove_pass`; they load the compiler when first
named.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PUBLIC = {
    "gradient": "autodiff.gradient_pass",
    "to_dialect": "graph.import_relax",
    "add_pass": "user_passes",
    "remove_pass": "user_passes",
}

__all__ = ["add_pass", "gradient", "remove_pass", "to_dialect"]


def __getattr__(name: str) -> Any:
    """Imports a public function, and the compiler with it, when the function is first named."""
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tvtf.passes' has no attribute {name!r}")
    member = getattr(import_module(f"tvtf.passes.{_PUBLIC[name]}"), name)
    globals()[name] = member
    return member
