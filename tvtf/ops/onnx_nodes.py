"""What the ONNX rules of primitives are passed. A rule emits the nodes that compute a primitive in an ONNX model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tvtf.core.shape import TensorType
from tvtf.dtypes import DType

Names = Sequence[str]
"""The names of values in an ONNX graph: of a primitive's inputs, or of its results."""
RuleTypes = tuple[Sequence[TensorType], Sequence[TensorType]]
"""The types of a primitive's inputs, and those of its results."""


class NodeEmitter(Protocol):
    """Emits nodes into an ONNX graph. Values of the graph have names. :class:`tvtf.onnx.emitter.Emitter` implements it."""

    def node(self, op: str, inputs: Names, outputs: Names, **attrs: Any) -> None:
        """Adds a node of the operator ``op``, whose results get the names ``outputs``."""

    def computed(self, op: str, inputs: Names, **attrs: Any) -> str:
        """Adds a node with one result, and returns the result's new name."""

    def reduce(self, op: str, inputs: Names, outputs: Names, axis: Sequence[int], keepdims: bool) -> None:
        """Adds a reduction node, such as ``ReduceSum``."""

    def reduced(self, op: str, inputs: Names, axis: Sequence[int], keepdims: bool) -> str:
        """Adds a reduction node, and returns the result's new name."""

    def temp(self) -> str:
        """Returns a new name for an intermediate value."""

    def const(self, array: Any) -> str:
        """Returns the name of a constant with the array's dtype."""

    def shape(self, dims: Sequence[Any]) -> str:
        """Returns the name of an int64 vector with the dims."""

    def element(self, dtype: DType) -> int:
        """Returns ONNX's enum value of a dtype."""

    def cast(self, name: str, dtype: DType) -> str:
        """Returns the name of a value, cast to a dtype."""
