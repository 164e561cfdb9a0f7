"""Methods of Variables that read and write rows: ``scatter_add``, ``scatter_nd_update``, ``sparse_read`` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.shape import agree_shape, brackets, same_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import int32, int64
from tvtf.errors import InvalidArgumentError, OutOfRangeError
from tvtf.ops.indexing import check_nd, check_range, gather, gather_nd
from tvtf.ops.rules import bind, zeros_like
from tvtf.state.variable import Variable

_BINDS = {
    "add": lambda x, places, new: bind.tensor_scatter_add(x, places, new),
    "sub": lambda x, places, new: bind.tensor_scatter_add(x, places, bind.subtract(zeros_like(new), new)),
    "update": lambda x, places, new: bind.tensor_scatter_update(x, places, new),
    "max": lambda x, places, new: bind.tensor_scatter_max(x, places, new),
    "min": lambda x, places, new: bind.tensor_scatter_min(x, places, new),
    "mul": lambda x, places, new: bind.multiply(x, _factor_products(x, places, new)),
    "div": lambda x, places, new: bind.divide(x, _factor_products(x, places, new)),
}


def _factor_products(x: Tensor, index_vectors: Tensor, factors: Tensor) -> Tensor:
    """Returns the product of all factors for each row of ``x``. A row without factors gets 1.

    ``index_vectors`` are the row numbers of ``factors``, shape (..., 1).
    """
    indices = bind.reshape(index_vectors, shape=index_vectors._type.shape[:-1])
    return bind.unsorted_segment_prod(factors, indices, num_segments=x._type.shape[0])


def _write_rows(
    variable: Variable, operation: str, index_vectors: Tensor, updates: Tensor, read_value: bool = True
) -> Any:
    """Updates the slices of a Variable at index vectors. No gradient tape records the update.

    Args:
      variable: the Variable.
      operation: a key of ``_BINDS``, such as "add", which combines old and new values.
      index_vectors: integer tensor of shape (..., k), where k is at most the Variable's rank.
      updates: tensor of the shape ``(..., *variable.shape[k:])``.
      read_value: whether to return the new value.

    Returns:
      The result of ``assign``.
    """
    with variable.lock:
        tapes = state.tapes
        state.tapes = []
        try:
            new_value = _BINDS[operation](variable._as_tensor(), index_vectors, updates)
            return variable.assign(new_value, read_value=read_value)
        finally:
            state.tapes = tapes


def _checked(op: str, check: Callable[..., None], indices: Tensor, *args: Any) -> None:
    """Runs ``check`` on known indices before anything is written. The error names the Variable's ``op``."""
    if isinstance(indices, EagerTensor):
        try:
            check(indices.eager_array(), *args)
        except ArgumentError as error:
            raise InvalidArgumentError(None, op, f"{error.message} [Op:{op}] name: ") from None


def _scatter_method(operation: str) -> Callable[..., Any]:
    """Returns a method of Variables that updates the rows of IndexedSlices by ``operation``, a key of ``_BINDS``."""
    op = f"ResourceScatter{operation.capitalize()}"

    def scatter(
        self: Variable, sparse_delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Updates the rows of the Variable at ``sparse_delta.indices`` with ``sparse_delta.values``.

        The values are broadcast to the shape of the rows. ``use_locking`` and ``name`` are TensorFlow's and unused.
        """
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(f"Argument `sparse_delta` must be a `tf.IndexedSlices`. Received arg: {sparse_delta}")
        indices = convert_to_tensor(sparse_delta.indices)
        updates = convert_to_tensor(sparse_delta.values, self.dtype)
        dims = self._type.shape
        _checked(op, check_range, indices, dims[0])
        shape = (*indices._type.shape, *dims[1:])
        if not same_shape(updates._type.shape, shape):
            updates = bind.broadcast_to(updates, shape=shape)
        index_vectors = bind.reshape(indices, shape=(*indices._type.shape, 1))  # vectors of one index
        return _write_rows(self, operation, index_vectors, updates, read_value)

    return scatter


def _scatter_nd_method(operation: str) -> Callable[..., Any]:
    """Returns a method of Variables that updates the slices at index vectors.

    ``operation`` is a key of ``_BINDS``, such as "add". It combines old and new values.
    """
    op = f"ResourceScatterNd{operation.capitalize()}"

    def scatter_nd(self: Variable, indices: Any, updates: Any, name: str | None = None) -> Any:
        index_vectors = convert_to_tensor(indices)
        new_values = convert_to_tensor(updates, self.dtype)
        _checked(op, check_nd, index_vectors, self._type.shape)
        _require_rows(op, self, index_vectors, new_values)
        return _write_rows(self, operation, index_vectors, new_values)

    return scatter_nd


def _require_rows(op: str, variable: Variable, index_vectors: Tensor, updates: Tensor) -> None:
    """Checks that the updates have the shape of the Variable's slices at the index vectors.

    An index vector of length k selects a slice, which has the Variable's axes starting at k. ``op`` is the name of
    TensorFlow's op in the error.
    """
    dims, update_dims = variable._type.shape, updates._type.shape
    vector_length = index_vectors._type.shape[-1]
    first_axis = index_vectors.ndim - 1  # of the slices in the updates
    if isinstance(vector_length, int) and not agree_shape(dims[vector_length:], update_dims[first_axis:]):
        raise ArgumentError(
            f"Dimensions [{vector_length},{len(dims)}) of input[shape={brackets(dims)}] must match dimensions "
            f"[{first_axis},{len(update_dims)}) of updates[shape={brackets(update_dims)}]"
        ).for_op(op)


def batch_scatter_update(
    self: Variable, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None
) -> Any:
    """Assigns a batch of updates: ``values[..., j]`` goes to the index ``indices[..., j]`` of the row ``[...]``.

    The leading axes of indices and values are the Variable's leading axes. ``use_locking`` is TensorFlow's and unused.
    """
    indices = convert_to_tensor(sparse_delta.indices)
    shape = indices._type.shape
    # Each index becomes an index vector with its indices along the batch axes in front.
    batch_indices = []
    for axis, size in enumerate(shape[:-1]):
        batch_indices.append(bind.broadcast_to(_axis_indices(axis, size, indices), shape=shape))
    index_vectors = bind.stack(*batch_indices, indices, axis=indices.ndim)
    return scatter_nd_update(self, index_vectors, sparse_delta.values)


def _axis_indices(axis: int, size: Any, like: Tensor) -> Tensor:
    """Returns the indices of an axis of ``size``, in a shape that broadcasts with ``like``."""
    indices = bind.range(size=size, start=0, delta=1, dtype=like.dtype)
    return bind.reshape(indices, shape=tuple(size if i == axis else 1 for i in range(like.ndim)))


def sparse_read(self: Variable, indices: Any, name: str | None = None) -> Tensor:
    """Returns the rows at ``indices``; the gradient is IndexedSlices."""
    index_tensor = convert_to_tensor(indices)
    _checked("ResourceGather", check_range, index_tensor, self._type.shape[0])
    return gather(self._as_tensor(), index_tensor)


def gather_nd_of(self: Variable, indices: Any, name: str | None = None) -> Tensor:
    """Returns the slices that the index vectors name."""
    return gather_nd(self._as_tensor(), indices)


def count_up_to(self: Variable, limit: int) -> Tensor:
    """Adds one to a Variable and returns the previous value.

    Raises:
      OutOfRangeError: the value is ``limit`` (InvalidArgumentError from compiled code).
    """
    if self.dtype not in (int32, int64):
        raise InvalidArgumentError(
            None,
            "ResourceCountUpTo",
            f"Value for attr 'T' of {self.dtype.name} is not in the list of allowed values: int32, int64",
        )
    value = self.value()
    bound = EagerTensor(np.array(limit, self.dtype.np))
    message = f"Reached limit of {limit}"
    if state.trace is not None:  # the value is unknown, so the program checks it when it runs
        bind.guard(bind.less(value, bound), message=message)
    elif value.eager_array() >= limit:
        raise OutOfRangeError(None, "ResourceCountUpTo", f"{message} [Op:ResourceCountUpTo] name: ")
    self.assign_add(EagerTensor(np.array(1, self.dtype.np)))
    return value


scatter_nd_update = _scatter_nd_method("update")

METHODS: dict[str, Callable[..., Any]] = {
    **{f"scatter_{how}": _scatter_method(how) for how in _BINDS},
    **{f"scatter_nd_{how}": _scatter_nd_method(how) for how in ("add", "sub", "max", "min")},
    "scatter_nd_update": scatter_nd_update,
    "batch_scatter_update": batch_scatter_update,
    "sparse_read": sparse_read,
    "gather_nd": gather_nd_of,
    "count_up_to": count_up_to,
}
for _name, _method in METHODS.items():
    _method.__name__ = _name
    setattr(Variable, _name, _method)
