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
    """Converts a value to a tensor. A sparse tensor is returned unchanged.

    Raises:
      RuntimeError: the value is a sparse tensor whose dtype is not ``dtype``.
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
    """Converts a value to a tensor. An ``IndexedSlices`` is returned unchanged.

    Raises:
      ValueError: the value is an ``IndexedSlices`` whose dtype is not ``dtype``.
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
        self.values = values
        self.row_splits = np.asarray(row_splits)

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
        return [values[start:stop] for start, stop in zip(self.row_splits[:-1], self.row_splits[1:])]

    def components(self) -> list[Any]:
        return [self.flat_values, *self.nested_row_splits]

    def __str__(self) -> str:
        return f"<tf.RaggedTensorValue {self.to_list()}>"

    def __repr__(self) -> str:
        return f"tf.RaggedTensorValue(values={self.values!r}, row_splits={self.row_splits!r})"


def fetched(tensor: Any, components: Sequence[Any]) -> Any:
    """Packs the component arrays of a composite tensor into the value that TensorFlow 1's ``Session.run`` returns.

    For example, a ``SparseTensor`` becomes a ``SparseTensorValue``.
    """
    if isinstance(tensor, SparseTensor):
        return SparseTensorValue(*components)
    if isinstance(tensor, IndexedSlices):
        missing_shape = [None] * (3 - len(components))  # the dense shape is optional
        return IndexedSlicesValue(*components, *missing_shape)
    if isinstance(tensor, RaggedTensor):
        flat_values, *nested_row_splits = components
        return _nested(flat_values, nested_row_splits)
    return nest.pack_sequence_as(tensor, list(components), expand_composites=True)


def _nested(values: Any, splits: Sequence[Any]) -> Any:
    for each in reversed(splits):
        values = RaggedTensorValue(values, each)
    return values


@v1("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """Creates a sparse tensor of placeholders, which is fed as a ``SparseTensorValue`` or its three arrays.

    The dense shape is a placeholder, too, unless ``shape`` is fully known.
    """
    base_name = name or "SparsePlaceholder"
    rank = None if shape is None else len(shape)
    graph = current_graph()
    is_known = shape is not None and all(dim is not None for dim in shape)
    indices = graph.placeholder(as_dtype("int64"), [None, rank], f"{base_name}/indices")
    values = graph.placeholder(as_dtype(dtype), [None], f"{base_name}/values")
    dense_shape = shape if is_known else graph.placeholder(as_dtype("int64"), [rank], f"{base_name}/shape")
    sparse = SparseTensor(indices, values, dense_shape)
    sparse.set_shape(shape)
    return sparse


@v1("ragged.placeholder")
def ragged_placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """Creates a ragged tensor of placeholders. ``Session.run`` takes its value as a ``RaggedTensorValue``.

    Args:
      dtype: the dtype of the values.
      ragged_rank: the number of ragged dimensions.
      value_shape: the shape of a value within the innermost ragged dimension; None if it is unknown.
      name: a prefix of the placeholders' names.
    """
    graph = current_graph()
    base_name = name or "RaggedPlaceholder"
    flat_shape = None if value_shape is None else [None, *value_shape]
    ragged: Any = graph.placeholder(as_dtype(dtype), flat_shape, f"{base_name}/flat_values")
    for i in reversed(range(ragged_rank)):  # from the innermost dimension outwards
        splits = graph.placeholder(as_dtype("int64"), [None], f"{base_name}/row_splits_{i}")
        ragged = RaggedTensor.from_row_splits(ragged, splits, validate=False)
    return ragged


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
    """Converts nested lists to a ``RaggedTensorValue``, or to an array if no dimension is ragged.

    Args:
      pylist: nested lists.
      dtype: the dtype of the values; None for the one that NumPy infers.
      ragged_rank: the number of ragged dimensions; None for as many as needed.
      inner_shape: the shape of a value within the innermost ragged dimension; None to infer it.
      row_splits_dtype: the dtype of the row splits.
    """
    outer_trace, state.trace = state.trace, None  # the value is computed now, even while a graph is built
    try:
        requested_dtype = None if dtype is None else as_dtype(dtype)
        ragged = public_names()["ragged.constant"](
            pylist, requested_dtype, ragged_rank, inner_shape, row_splits_dtype=row_splits_dtype
        )
        if not isinstance(ragged, RaggedTensor):
            return ragged.numpy()
        values = ragged.flat_values.numpy()
        if requested_dtype is None:
            values = _numpy_dtype(values)
        row_splits = [splits.numpy() for splits in ragged.nested_row_splits]
        return _nested(values, row_splits)
    finally:
        state.trace = outer_trace
