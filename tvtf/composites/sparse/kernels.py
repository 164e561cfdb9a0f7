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
    lower=lambda x, ok, *, message: copy_kernel(x),
    vjp=lambda cotangent, y, x, ok, *, message: (cotangent, None),
    guard=lambda x, ok, *, message: [(ok, message)],
    onnx=lambda emitter, inputs, outputs, types, *, message: emitter.node("Identity", inputs[:1], outputs),
    why_not={"batch": "what holds for one element of a batch need not hold for all"},
    samples=lambda: [Sample((draw(0, (2, 3)), np.array(True)), {"message": "never told"}, FLOATING, gradient=(0,))],
)
def checked(x: Tensor, ok: Tensor, message: str) -> Any:
    """Returns ``x``; compiled code raises an error unless ``ok`` holds."""
    return (x, ok), {"message": message}


def copy_kernel(x: Any) -> Any:
    """Returns the kernel (a tensor expression) of a primitive that only checks its input, and returns a copy."""
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
    """Returns the row-major strides of a shape as a vector, in elements; for example, [2, 3, 4] gives [12, 4, 1]."""
    known = known_vector(dense_shape)
    if known is not None:
        return vector([math.prod(known[i + 1 :]) for i in range(len(known))])
    rank = dense_shape._type.shape[0]
    products = [bind.reduce_prod(dense_shape[i + 1 :], axis=(0,), keepdims=False) for i in range(rank - 1)]
    return bind.stack(*products, EagerTensor(np.ones((), np.int64)), axis=0)  # type: ignore[no-any-return]


def known_vector(x: Tensor) -> list[int] | None:
    """Returns the ints of a vector, or None unless all are statically known."""
    if isinstance(x, EagerTensor):
        return [int(dim) for dim in x.eager_array()]
    known = x.known if isinstance(x, SymbolicTensor) else None
    return list(known) if known is not None and all(isinstance(dim, int) for dim in known) else None


def linear_indices(indices: Tensor, dense_shape: Tensor) -> Tensor:
    """Returns the linear, row-major index of each multi-index."""
    return bind.reduce_sum(bind.multiply(indices, strides(dense_shape)), axis=(1,), keepdims=False)  # type: ignore[no-any-return]


MAX_LINEAR_INDEX = 2**62
"""Linear indices of shapes with fewer elements fit into int64."""


def row_major_order(indices: Tensor, dense_shape: Tensor) -> Tensor:
    """Returns the permutation that sorts the indices of a sparse tensor stably in row-major order."""
    known = known_vector(dense_shape)
    if known is not None and math.prod(known) < MAX_LINEAR_INDEX and len(known):
        return bind.argsort(linear_indices(indices, dense_shape), descending=False)  # type: ignore[no-any-return]
    # Linear indices could overflow: stable sorts by each column, from the last to the first, give the same order.
    order: Any = None
    for axis in reversed(range(indices._type.shape[1])):
        sort_keys = indices[:, axis] if order is None else bind.gather(indices[:, axis], order, axis=0, batch_dims=0)
        suborder = bind.argsort(sort_keys, descending=False)
        order = suborder if order is None else bind.gather(order, suborder, axis=0, batch_dims=0)
    return order  # type: ignore[no-any-return]


def gather_elements(sp: SparseTensor, positions: Tensor, dense_shape: Any = None) -> SparseTensor:
    """Returns the sparse tensor with the elements at the given positions."""
    indices = bind.gather(sp.indices, positions, axis=0, batch_dims=0)
    shape = sp.dense_shape if dense_shape is None else dense_shape
    return SparseTensor(indices, gather_densely(sp.values, positions), shape)


# -- distinct indices


def _distinct_types(rows: TensorType, count: Any) -> tuple[TensorType, ...]:
    return TensorType((count, rows.shape[1]), int64), TensorType(rows.shape[:1], int64)


def _distinct(rows: np.ndarray, count: Any) -> tuple[np.ndarray, np.ndarray]:
    result, inverse = np.unique(rows, axis=0, return_inverse=True)
    return result, inverse.reshape(-1).astype(np.int64)


@host_primitive(tf_name="SparseAdd", type=_distinct_types, numpy=_distinct)
def distinct_rows(rows: Tensor, count: Any) -> Any:
    """Returns the sorted distinct rows of an int64 matrix, and for each row its position among them, as ``np.unique``."""
    return (rows,), {"count": count}


def distinct_indices(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the sorted distinct indices, and for each index its position among them."""
    return bind.distinct_rows(rows, count=unknown_dim())  # type: ignore[no-any-return]
