"""Tensor algebra shared by the operators: parameters, dims, and products with broadcast batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tvtf.core.deferred_shape import AnyShape
from tvtf.core.primitive import public_names
from tvtf.core.shape import Dim, TensorShape, as_shape, broadcast_shapes, fresh_dim, is_static_shape
from tvtf.core.specialization import UnknownRank
from tvtf.core.tensor import EagerTensor, Tensor, constant, convert_to_tensor
from tvtf.core.v1_dimension import is_dim
from tvtf.dtypes import int32
from tvtf.ops.array import shape as shape_of
from tvtf.ops.cast import cast
from tvtf.ops.dims import scalar_of
from tvtf.ops.lapack import adjoint, diagonal_matrix
from tvtf.ops.linalg import conjugate
from tvtf.ops.rules import bind
from tvtf.state.variable import Variable


def as_parameter(value: Any, dtype: Any = None) -> Any:
    """Converts an operator's parameter to a tensor; Variables are returned unchanged."""
    return value if value is None or isinstance(value, Variable) else convert_to_tensor(value, dtype)


_declared: ContextVar[dict[int, tuple[Dim, ...]] | None] = ContextVar("declared", default=None)
"""The declared dims of Variables by identity, inside of :func:`declared_shape`."""


class _UnknownRank(Exception):
    """The declared rank of a Variable is unknown."""


def dims_of(x: Any) -> tuple[Dim, ...]:
    """Returns the dims of a tensor or Variable.

    Inside :func:`declared_shape`, a Variable's dims are those of its declared shape, with a symbolic dim for an unknown
    one.
    """
    declared = _declared.get()
    if declared is None or not isinstance(x, Variable) or x.shape.is_fully_defined():
        return tuple(x._type.shape)
    if x.shape.rank is None:
        raise _UnknownRank
    if id(x) not in declared:
        declared[id(x)] = tuple(fresh_dim("declared") if size is None else size for size in x.shape)
    return declared[id(x)]


def require_rank(x: Any, rank: int, message: str) -> None:
    """Raises a ValueError with ``message`` if a tensor is known to have fewer dims than ``rank``."""
    shape = x._type.shape
    if not isinstance(shape, AnyShape) and len(shape) < rank:
        raise ValueError(message)


def declared_shape(dims: Callable[[], Sequence[Dim]]) -> TensorShape:
    """Returns the static shape of a linear operator; ``dims()`` computes its dims.

    For a Variable, the declared shape is used, because values of other shapes may be assigned later.
    """
    token = _declared.set({})
    try:
        return as_shape(tuple(dims()))
    except (_UnknownRank, UnknownRank):
        return TensorShape(None)
    finally:
        _declared.reset(token)


def full(value: float, shape: Sequence[Dim], dtype: Any) -> Tensor:
    return bind.broadcast_to(EagerTensor(np.array(value, dtype.np)), shape=tuple(shape))  # type: ignore[no-any-return]


def ones(shape: Sequence[Dim], dtype: Any) -> Tensor:
    return full(1, shape, dtype)


def zeros(shape: Sequence[Dim], dtype: Any) -> Tensor:
    return full(0, shape, dtype)


def identity(batch: Sequence[Dim], size: Dim, dtype: Any) -> Tensor:
    return diagonal_matrix(ones((*batch, size), dtype))


def column(x: Any) -> Tensor:
    """Converts vectors to matrices of one column."""
    x = convert_to_tensor(x)
    return bind.reshape(x, shape=(*dims_of(x), 1))  # type: ignore[no-any-return]


def without_last_dim(x: Tensor) -> Tensor:
    """Converts matrices of one column to vectors."""
    return bind.reshape(x, shape=dims_of(x)[:-1])  # type: ignore[no-any-return]


def maybe_adjoint(x: Tensor, requested: bool) -> Tensor:
    return adjoint(x) if requested else x


def matmul(a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False) -> Tensor:
    a, b = maybe_adjoint(convert_to_tensor(a), adjoint_a), maybe_adjoint(convert_to_tensor(b), adjoint_b)
    return bind.matmul(a, b, transpose_a=False, transpose_b=False, output_type=None)  # type: ignore[no-any-return]


def conjugate_if(x: Any, requested: bool) -> Tensor:
    x = convert_to_tensor(x)
    return conjugate(x) if requested else x


def magnitude(x: Any) -> Tensor:
    return public_names()["abs"](x)  # type: ignore[no-any-return]


def real(x: Any) -> Tensor:
    return public_names()["math.real"](x)  # type: ignore[no-any-return]


def imaginary(x: Any) -> Tensor:
    return public_names()["math.imag"](x)  # type: ignore[no-any-return]


def to_dtype(x: Any, dtype: Any) -> Tensor:
    """Casts a tensor or dim to a dtype; a complex tensor cast to a real dtype keeps its real part."""
    x = scalar_of(x) if is_dim(x) else convert_to_tensor(x)
    return cast(real(x) if x.dtype.is_complex and not dtype.is_complex else x, dtype)  # type: ignore[no-any-return]


def total(x: Tensor, axes: int = 1) -> Tensor:
    """Returns the sum over the last axes."""
    return bind.reduce_sum(x, axis=_last_axes(x, axes), keepdims=False)  # type: ignore[no-any-return]


def product(x: Tensor, axes: int = 1) -> Tensor:
    return bind.reduce_prod(x, axis=_last_axes(x, axes), keepdims=False)  # type: ignore[no-any-return]


def max_min_ratio(x: Tensor) -> Tensor:
    """Returns the ratio of the largest to the smallest element of the last axis."""
    axis = _last_axes(x, 1)
    largest = bind.reduce_max(x, axis=axis, keepdims=False)
    smallest = bind.reduce_min(x, axis=axis, keepdims=False)
    return bind.divide(largest, smallest)  # type: ignore[no-any-return]


def _last_axes(x: Tensor, count: int) -> tuple[int, ...]:
    return tuple(range(x.ndim - count, x.ndim))


# -- shapes


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns the shape to which batch shapes broadcast.

    Raises:
      ValueError: the shapes don't broadcast.
    """
    result = tuple(shapes[0])
    for shape in shapes[1:]:
        wider = broadcast_shapes(result, shape)
        if wider is None:
            raise ValueError(f"Incompatible shapes for broadcasting: {visible(result)} and {visible(shape)}")
        result = wider
    return result


def visible(shape: Sequence[Dim]) -> TensorShape:
    return as_shape(tuple(shape))


def numbers(size: Dim, start: Dim = 0, step: int = 1) -> Tensor:
    """Returns ``size`` consecutive integers as an int32 vector; a dim may be symbolic, unlike those of ``tf.range``."""
    return bind.range(size=size, start=start, delta=step, dtype=int32)  # type: ignore[no-any-return]


def shape_tensor(shape: Sequence[Dim]) -> Tensor:
    """Converts dims to an int32 vector."""
    if is_static_shape(shape):
        return constant(np.array(tuple(shape), np.int32))
    return shape_of(zeros(shape, int32))


def with_batch(x: Tensor, batch: Sequence[Dim]) -> Tensor:
    """Broadcasts matrices to a batch shape."""
    requested = (*batch, *dims_of(x)[-2:])
    return x if dims_of(x) == requested else bind.broadcast_to(x, shape=requested)


def broadcast_batches(*matrices: Any) -> list[Tensor]:
    """Broadcasts matrices to their common batch shape."""
    tensors = [convert_to_tensor(matrix) for matrix in matrices]
    batch = broadcast(*(dims_of(matrix)[:-2] for matrix in tensors))
    return [with_batch(matrix, batch) for matrix in tensors]


def concat_rows(matrices: Sequence[Tensor]) -> Tensor:
    """Concatenates matrices, broadcast to a common batch shape, one below the other."""
    rows = broadcast_batches(*matrices)
    return bind.concat(*rows, axis=rows[0].ndim - 2)  # type: ignore[no-any-return]


def concat_columns(matrices: Sequence[Tensor]) -> Tensor:
    """Concatenates matrices, broadcast to a common batch shape, side by side."""
    columns = broadcast_batches(*matrices)
    return bind.concat(*columns, axis=columns[0].ndim - 1)  # type: ignore[no-any-return]
