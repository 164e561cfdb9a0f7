"""Values that a session returns, or is fed, for composite tensors: sparse and ragged tensors, IndexedSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.composites.sparse.tensor import SparseTensor, SparseTensorValue
from tvtf.core import nest
from tvtf.core.indexed_slices import IndexedSlices
from tvtf.core.primitive import public_names
from tvtf.core.tensor import convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import as_dtype
from tvtf.v1.graph import current_graph
from tvtf.v1.registry import v1


@v1("IndexedSlicesValue")
class IndexedSlicesValue(NamedTuple):
    """The arrays of an ``IndexedSlices``."""

    values: Any
    indices: Any
    dense_shape: Any


@v1("convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts to a tensor, unless it is a sparse tensor, which is returned unchanged.

    Raises:
      RuntimeError: a sparse tensor of another dtype.
    """
    if isinstance(value, SparseTensorValue):
        value = SparseTensor(*value)
    if not isinstance(value, SparseTensor):
        return convert_to_tensor(value, dtype)
    if dtype is not None and as_dtype(dtype) is not value.dtype:
        raise RuntimeError(f"Sparse dtype mismatch. Requested: {as_dtype(dtype).name},  Actual: {value.dtype.name}")
    return value


@v1("convert_to_tensor_or_indexed_slices")
def convert_to_tensor_or_indexed_slices(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Converts to a tensor, unless it is an ``IndexedSlices``, which is returned unchanged.

    Raises:
      ValueError: an ``IndexedSlices`` of another dtype.
    """
    if not isinstance(value, IndexedSlices):
        return convert_to_tensor(value, dtype)
    if dtype is not None and as_dtype(dtype) is not value.dtype:
        raise ValueError(
            f"Incompatible tensor conversion requested to `dtype` {as_dtype(dtype).name} for `value` ({value}) with dtype "
            f"{value.dtype.name}"
        )
    return value


@v1("ragged.RaggedTensorValue")
class RaggedTensorValue:
    """The arrays of a ragged tensor: values and row splits."""

    def __init__(self, values: Any, row_splits: Any) -> None:
        self.values, self.row_splits = values, np.asarray(row_splits)

    @property
    def flat_values(self) -> Any:
        return self.values.flat_values if isinstance(self.values, RaggedTensorValue) else self.values

    @property
    def nested_row_splits(self) -> tuple[Any, ...]:
        inner = self.values.nested_row_splits if isinstance(self.values, RaggedTensorValue) else ()
        return self.row_splits, *inner

    @property
    def ragged_rank(self) -> int:
        return len(self.nested_row_splits)

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        return len(self.row_splits) - 1, None, *self.values.shape[1:]

    def to_list(self) -> list[Any]:
        values = self.values.to_list() if isinstance(self.values, RaggedTensorValue) else self.values.tolist()
        return [values[a:b] for a, b in zip(self.row_splits[:-1], self.row_splits[1:])]

    def components(self) -> list[Any]:
        return [self.flat_values, *self.nested_row_splits]

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"


def fetched(tensor: Any, parts: Sequence[Any]) -> Any:
    """Returns the value of a composite tensor, from its components' values."""
    if isinstance(tensor, SparseTensor):
        return SparseTensorValue(*parts)
    if isinstance(tensor, IndexedSlices):
        return IndexedSlicesValue(*parts, *([None] * (3 - len(parts))))
    if isinstance(tensor, RaggedTensor):
        return _nested(parts[0], parts[1:])
    return nest.pack_sequence_as(tensor, list(parts), expand_composites=True)


def _nested(values: Any, splits: Sequence[Any]) -> Any:
    for each in reversed(splits):
        values = RaggedTensorValue(values, each)
    return values


@v1("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Creates a sparse tensor that ``Session.run`` must be fed: a ``SparseTensorValue``, or its three arrays."""
    base = name or "SparsePlaceholder"
    rank = None if shape is None else len(shape)
    graph = current_graph()
    known = shape is not None and all(d is not None for d in shape)
    indices = graph.placeholder(as_dtype("int64"), [None, rank], f"{base}/indices")
    values = graph.placeholder(as_dtype(dtype), [None], f"{base}/values")
    dims = shape if known else graph.placeholder(as_dtype("int64"), [rank], f"{base}/shape")
    made = SparseTensor(indices, values, dims)
    made.set_shape(shape)
    return made


@v1("ragged.placeholder")
def ragged_placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """Creates a ragged tensor that ``Session.run`` must be fed: a ``RaggedTensorValue``."""
    graph, base = current_graph(), name or "RaggedPlaceholder"
    inner = None if value_shape is None else [None, *value_shape]
    made: Any = graph.placeholder(as_dtype(dtype), inner, f"{base}/flat_values")
    for i in reversed(range(ragged_rank)):
        splits = graph.placeholder(as_dtype("int64"), [None], f"{base}/row_splits_{i}")
        made = RaggedTensor.from_row_splits(made, splits, validate=False)
    return made


def _numpy_dtype(values: Any) -> Any:
    """Returns NumPy's dtype for Python values: numbers of 64 bits, and str."""
    if values.dtype == object:
        return np.array([x.decode() for x in values.ravel()]).reshape(values.shape)
    return values.astype({"i": np.int64, "f": np.float64}.get(values.dtype.kind, values.dtype))


@v1("ragged.constant_value")
def ragged_constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: str = "int64",
) -> Any:
    """Returns a ``RaggedTensorValue`` of nested lists."""
    outer, state.trace = state.trace, None
    try:
        kind = None if dtype is None else as_dtype(dtype)
        made = public_names()["ragged.constant"](
            pylist, kind, ragged_rank, inner_shape, row_splits_dtype=row_splits_dtype
        )
        if not isinstance(made, RaggedTensor):
            return made.numpy()
        values = made.flat_values.numpy()
        return _nested(values if kind else _numpy_dtype(values), [s.numpy() for s in made.nested_row_splits])
    finally:
        state.trace = outer
