"""The primitive that binds dims to the elements of an integer vector when the program runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType
from tvtf.core.tensor import Tensor
from tvtf.dtypes import bool as bool_dtype
from tvtf.ops.rules import bind, number, stretch


def _type(vector: TensorType, *, dims: tuple[Dim, ...]) -> TensorType:
    """Returns the type of the empty tensor whose dims are the elements of ``vector``."""
    return TensorType((*dims, 0), bool_dtype)


def _empty(vector: np.ndarray, *, dims: tuple[Dim, ...]) -> np.ndarray:
    """Makes the empty tensor whose dims are the elements of ``vector``, which must not be negative."""
    if (vector < 0).any():
        raise ArgumentError(f"Dimension {vector.min()} must be >= 0")
    return np.empty((*vector.tolist(), 0), bool)


def _common_row(vectors: Tensor) -> Tensor:
    """Returns the first row after checking that all rows equal it: the items of a batch share one shape."""
    first = vectors[0]
    are_equal = bind.reduce_all(bind.equal(vectors, first), axis=(0, 1), keepdims=False)
    return bind.initialized(first, are_equal, message="the elements of a vectorized map would have several shapes")


@primitive(
    tf_name="Shape",
    type=_type,
    numpy=_empty,
    guard=lambda vector, *, dims: [
        (
            bind.reduce_all(bind.greater_equal(vector, number(0, vector)), axis=(0,), keepdims=False),
            "a shape that is computed has a negative dim",
        )
    ],
    batch=lambda size, inputs, batched, *, dims: stretch(
        size, bind.told_dims(_common_row(inputs[0]), dims=dims), False
    ),
    why_not={
        "lower": "its dims are bound by passes/lower/legalize.py",
        "vjp": "no floating inputs",
        "onnx": "a dim that a tensor's value determines is no dim of ONNX's",
    },
    samples=lambda: [Sample((np.array([3, 2]),), {"dims": (3, 2)})],
)
def told_dims(vector: Tensor, dims: tuple[Dim, ...]) -> Any:
    """Returns an empty tensor whose shape is the elements of an int64 vector, then 0: its type carries the dims."""
    return (vector,), {"dims": dims}
