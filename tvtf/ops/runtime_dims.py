"""Dims that a vector of the program tells when it runs."""

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
    return TensorType((*dims, 0), bool_dtype)


def _empty(vector: np.ndarray, *, dims: tuple[Dim, ...]) -> np.ndarray:
    if (vector < 0).any():
        raise ArgumentError(f"Dimension {vector.min()} must be >= 0")
    return np.empty((*vector.tolist(), 0), bool)


def _agreed(vectors: Tensor) -> Tensor:
    """What all rows hold: the elements of a batch have one shape."""
    first = vectors[0]
    same = bind.reduce_all(bind.equal(vectors, first), axis=(0, 1), keepdims=False)
    return bind.initialized(first, same, message="the elements of a vectorized map would have several shapes")


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
    batch=lambda size, inputs, batched, *, dims: stretch(size, bind.told_dims(_agreed(inputs[0]), dims=dims), False),
    why_not={
        "lower": "its dims are bound by passes/lower/legalize.py",
        "vjp": "no floating inputs",
        "onnx": "a dim that a value tells is no dim of ONNX's",
    },
    samples=lambda: [Sample((np.array([3, 2]),), {"dims": (3, 2)})],
)
def told_dims(vector: Tensor, dims: tuple[Dim, ...]) -> Any:
    """A tensor without elements whose dims, but for the last, are what an int64 vector holds."""
    return (vector,), {"dims": dims}
