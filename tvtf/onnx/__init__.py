"""Exports traced functions, including training steps, as ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvtf.onnx.exporter import export

__all__ = ["export"]


def __getattr__(name: str) -> Any:
    """Imports ``export`` when it is first used: it loads the ``onnx`` package and the compiler."""
    if name != "export":
        raise AttributeError(f"module 'tvtf.onnx' has no attribute {name!r}")
    from tvtf.onnx.exporter import export

    return export
