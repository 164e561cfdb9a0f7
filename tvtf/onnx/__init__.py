"""ONNX: export of traced functions, training steps included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tvtf.onnx.exporter import export

__all__ = ["export"]


def __getattr__(name: str) -> Any:
    """``export`` loads the ``onnx`` package and the compiler, so it is imported when it is first asked for."""
    if name != "export":
        raise AttributeError(f"module 'tvtf.onnx' has no attribute {name!r}")
    from tvtf.onnx.exporter import export

    return export
