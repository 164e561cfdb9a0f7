"""Helpers and primitives for sparse tensors: checks, linear indices, row-major order, distinct indices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import TensorType
from tvtf.core.tensor import EagerTensor, SymbolicTensor, Tensor
from tvtf.dtypes import FLOATING, int64
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import gather_densely
from tvtf.ops.rules import bind, draw


def _require(x: np.ndarray, ok: np.ndarray, *, message: str) -> np.ndarray:
    if not ok:
        raise ArgumentError(message)
    return x


@primitive(
    type=lambda x, ok, *, message: x,
    numpy=_require,
    lower=lambda x, ok, *, message: same(x),
    vjp=lambda ct, y, x, ok, *, message: (ct, None),
    guard=lambda x, ok, *, message: [(ok, message)],
    onnx=lambda emitter, inputs, outputs, types, *, message: emitter.node("Identity", inputs[:1], outputs),
    why_not={"batch": "what holds for one element of a batch need not hold for all"},
    samples=lambda: [Sample((draw(0, (2, 3)), np.array(True)), {"message": "never told"}, FLOATING, gradient=(0,))],
)
def checked(x: Tensor, ok: Tensor, message: str) -> Any:
    """Returns ``x``; compiled code raises an error unless ``ok`` holds."""
    return (x, ok), {"message": message}


def same(x: Any) -> Any:
    """Returns the TE kernel that copies its input."""
    from tvtf.ops.kernels import scalar

    return scalar.elementwise(lambda _, value: value, [x], {})


def all_of(x: Tensor) -> Tensor:
    """Returns whether all elements are true."""
    return bind.reduce_all(x, axis=tuple(range(x.ndim)), keepdims=False)  # type: ignore[no-any-return]


def vector(values: Any) -> Tensor:
    """Converts ints to an int64 vector."""
    return EagerTensor(np.array(values, np.int64).reshape(-1))


def one_hot(axis: int, value: Tensor, rank: int) -> Tensor:
    """Returns a vector of length ``rank`` that is zero except for ``value`` at ``axis``."""
    parts = [bind.reshape(value, shape=(1,)) if i == axis else vector([0]) for i in range(rank)]
    return bind.concat(*parts, axis=0) if rank > 1 else parts[0]  # type: ignore[no-any-return]


def strides(dense_shape: Tensor) -> Tensor:
    """Returns the row-major strides of a shape, in elements."""
    known = known_vector(dense_shape)
    if known is not None:
        return vector([math.prod(known[i + 1 :]) for i in range(len(known))])
    rank = dense_shape._type.shape[0]
    products = [bind.reduce_prod(dense_shape[i + 1 :], axis=(0,), keepdims=False) for i in range(rank - 1)]
    return bind.stack(*products, EagerTensor(np.ones((), np.int64)), axis=0)  # type: ignore[no-any-return]


def known_vector(x: Tensor) -> list[int] | None:
    """Returns the ints of a vector if all are statically known, else None."""
    if isinstance(x, EagerTensor):
        return [int(v) for v in x.eager_array()]
    known = x.known if isinstance(x, SymbolicTensor) else None
    return list(known) if known is not None and all(isinstance(v, int) for v in known) else None


def place_numbers(indices: Tensor, dense_shape: Tensor) -> Tensor:
    """Returns the linear, row-major index of each multi-index."""
    return bind.reduce_sum(bind.multiply(indices, strides(dense_shape)), axis=(1,), keepdims=False)  # type: ignore[no-any-return]


MOST_PLACES = 2**62
"""Up to so many the number of a place is an int64."""


def row_major(indices: Tensor, dense_shape: Tensor) -> Tensor:
    """Returns the permutation that sorts indices in row-major order; the sort is stable."""
    known = known_vector(dense_shape)
    if known is not None and math.prod(known) < MOST_PLACES and len(known):
        return bind.argsort(place_numbers(indices, dense_shape), descending=False)  # type: ignore[no-any-return]
    order: Any = None
    for axis in reversed(range(indices._type.shape[1])):
        column = indices[:, axis] if order is None else bind.gather(indices[:, axis], order, axis=0, batch_dims=0)
        next_order = bind.argsort(column, descending=False)
        order = next_order if order is None else bind.gather(order, next_order, axis=0, batch_dims=0)
    return order  # type: ignore[no-any-return]


def gather_elements(sp: SparseTensor, places: Tensor, dense_shape: Any = None) -> SparseTensor:
    """Returns the sparse tensor with the elements at the given positions."""
    indices = bind.gather(sp.indices, places, axis=0, batch_dims=0)
    shape = sp.dense_shape if dense_shape is None else dense_shape
    return SparseTensor(indices, gather_densely(sp.values, places), shape)


# -- distinct places


def _distinct_types(rows: TensorType, count: Any) -> tuple[TensorType, ...]:
    return TensorType((count, rows.shape[1]), int64), TensorType(rows.shape[:1], int64)


def _distinct(rows: np.ndarray, count: Any) -> tuple[np.ndarray, np.ndarray]:
    result, back = np.unique(rows, axis=0, return_inverse=True)
    return result, back.reshape(-1).astype(np.int64)


@host_primitive(tf_name="SparseAdd", type=_distinct_types, numpy=_distinct)
def distinct_rows(rows: Tensor, count: Any) -> Any:
    """Returns the sorted distinct rows of an int64 matrix, and for each row the position of its equal."""
    return (rows,), {"count": count}


def distinct_places(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Binds `distinct_rows`."""
    return bind.distinct_rows(rows, count=unknown_dim())  # type: ignore[no-any-return]
