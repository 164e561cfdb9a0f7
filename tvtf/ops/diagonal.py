"""Primitives that take the diagonal of two axes and put a tensor on such a diagonal; each is the other's gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive, public_names
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, same_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import COMPILED, NUMERIC
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.rules import bind, draw, kernel


def _take_type(x: TensorType, *, first: int, second: int) -> TensorType:
    """Checks that two axes have the same size, and returns the type of the diagonal along these axes.

    The diagonal has the shape of ``x`` without the second axis.
    """
    expected, got = x.shape[first], x.shape[second]
    if not agree_dim(expected, got):
        raise ArgumentError(
            f"Expected dimension {expected} at axis {second} of the input shaped {brackets(x.shape)} "
            f"but got dimension {got}",
            graph=ValueError,
            traced=f"Dimensions must be equal, but are {expected} and {got} for {{op}} with input {brackets(x.shape)}.",
        )
    return TensorType((*x.shape[:second], *x.shape[second + 1 :]), x.dtype)


def _put_array(x: np.ndarray, *, first: int, second: int) -> np.ndarray:
    """Turns the axis ``first`` into the diagonal of a matrix, whose other axis is inserted at ``second``."""
    size = x.shape[first]
    wide = np.expand_dims(x, second)
    shape = [1] * wide.ndim
    shape[first] = shape[second] = size
    return np.where(np.eye(size, dtype=bool).reshape(shape), wide, np.zeros((), x.dtype))


def _batch(name: str) -> Any:
    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, first: int, second: int) -> Tensor:
        return getattr(bind, name)(*inputs, first=first + 1, second=second + 1)

    return rule


def _take_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, first: int, second: int
) -> None:
    """Emits ONNX's Einsum for the diagonal of two axes, such as ``abb->ab`` for the axes 1 and 2 of rank 3.

    Args:
      first, second: the two axes.
    """
    (x_type,), _ = types
    letters = [chr(ord("a") + axis) for axis in range(len(x_type.shape))]
    letters[second] = letters[first]
    result_letters = [letter for axis, letter in enumerate(letters) if axis != second]
    emitter.node("Einsum", inputs, outputs, equation=f"{''.join(letters)}->{''.join(result_letters)}")


def _put_onnx(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, first: int, second: int
) -> None:
    """Emits ONNX nodes that put ``x`` on the diagonal of two axes: selects ``x`` by the identity matrix, else zero.

    Args:
      emitter: adds nodes to the ONNX graph.
      inputs, outputs: the names of the inputs and outputs.
      types: the types of the inputs, and those of the outputs.
      first, second: the two axes of the diagonal in the result.
    """
    (x,) = inputs
    (x_type,), (result_type,) = types
    size = x_type.shape[first]
    mask_shape = [1] * len(result_type.shape)
    mask_shape[first] = mask_shape[second] = size
    is_diagonal = emitter.const(np.eye(size, dtype=bool).reshape(mask_shape))
    zero = emitter.const(np.zeros((), result_type.dtype.np))
    expanded = emitter.computed("Unsqueeze", [x, emitter.const(np.array([second], np.int64))])
    emitter.node("Where", [is_diagonal, expanded, zero], outputs)


@primitive(
    tf_name="Einsum",
    type=_take_type,
    numpy=lambda x, *, first, second: np.moveaxis(np.diagonal(x, axis1=first, axis2=second), -1, first),
    lower=kernel("contract.take_diagonal"),
    vjp=lambda cotangent, y, x, *, first, second: bind.put_diagonal(cotangent, first=first, second=second),
    batch=_batch("take_diagonal"),
    onnx=_take_onnx,
    samples=lambda: [
        Sample((draw(0, (3, 3)),), {"first": 0, "second": 1}, COMPILED),
        Sample((draw(1, (2, 3, 4, 3)),), {"first": 1, "second": 3}, COMPILED),
        Sample((draw(1, (2, 2, 4)),), {"first": 0, "second": 1}, COMPILED),
    ],
)
def take_diagonal(x: Tensor, first: int, second: int) -> Any:
    """Takes the diagonal of two axes of one size, ``first < second``; the second axis is removed."""
    return (x,), {"first": first, "second": second}


@primitive(
    type=lambda x, *, first, second: TensorType((*x.shape[:second], x.shape[first], *x.shape[second:]), x.dtype),
    numpy=_put_array,
    lower=kernel("contract.put_diagonal"),
    vjp=lambda cotangent, y, x, *, first, second: bind.take_diagonal(cotangent, first=first, second=second),
    batch=_batch("put_diagonal"),
    onnx=_put_onnx,
    samples=lambda: [
        Sample((draw(0, (3,)),), {"first": 0, "second": 1}, COMPILED),
        Sample((draw(1, (2, 3, 4)),), {"first": 1, "second": 3}, COMPILED),
    ],
)
def put_diagonal(x: Tensor, first: int, second: int) -> Any:
    """Inserts an axis ``second``, with zeros where its index differs from that of ``first``."""
    return (x,), {"first": first, "second": second}


@export("linalg.trace")
def trace(x: Any, name: str | None = None) -> Tensor:
    """Sums the main diagonal of each matrix: shape (..., m, n) to (...), for numeric dtypes.

    Raises:
      InvalidArgumentError: (ValueError while tracing) the rank is below 2.

    >>> import tvtf as tf
    >>> tf.linalg.trace([[1, 2], [3, 4]]).numpy()
    np.int32(5)

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/trace
    """
    x = convert_to_tensor(x)
    if x.ndim < 2 or x.dtype not in NUMERIC:
        raise ArgumentError(
            f"input must be numeric and at least 2-dimensional, but got {x.dtype.name} shaped {brackets(x._type.shape)}"
        ).for_op("Trace")
    rows, columns = x._type.shape[-2:]
    # take_diagonal needs square matrices
    if isinstance(rows, int) and isinstance(columns, int) and rows != columns:
        x = x[..., : min(rows, columns), : min(rows, columns)]  # type: ignore[index]
    elif not same_dim(rows, columns):  # the shorter one is known only at run time
        diagonal = public_names()["linalg.diag_part"](x)
        return bind.reduce_sum(diagonal, axis=(x.ndim - 2,), keepdims=False)
    diagonal = bind.take_diagonal(x, first=x.ndim - 2, second=x.ndim - 1)
    return bind.reduce_sum(diagonal, axis=(x.ndim - 2,), keepdims=False)
