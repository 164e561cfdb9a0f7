"""Batches rows of different lengths as ragged and sparse tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tvtf.composites.ragged.tensor import RaggedTensor, RaggedTensorSpec
from tvtf.composites.sparse.tensor import SparseTensor, SparseTensorSpec
from tvtf.core import nest
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import bool_argument, int_argument
from tvtf.data.base import Dataset, method
from tvtf.data.batching import Batch
from tvtf.data.structure import Element
from tvtf.dtypes import as_dtype, int64
from tvtf.errors import DataLossError


class AsRagged(Dataset):
    """Elements whose tensors of unknown sizes are converted to ragged tensors."""

    def __init__(self, source: Dataset, row_splits_dtype: Any) -> None:
        self.source = source
        self.row_splits_dtype = as_dtype(row_splits_dtype)
        super().__init__(nest.map_structure(self._ragged_spec, source.element_spec), source.size)

    def _ragged_spec(self, spec: Any) -> Any:
        """Returns the spec of a ragged tensor whose ragged dims reach to the last unknown one.

        Static shapes stay dense.
        """
        if not isinstance(spec, TensorSpec) or spec.shape.rank is None or spec.shape.is_fully_defined():
            return spec
        last = max(axis for axis, size in enumerate(spec.shape) if size is None)
        return RaggedTensorSpec(spec.shape, spec.dtype, last, self.row_splits_dtype)

    def handles(self) -> Iterator[Any]:
        return self.source.handles()

    def value(self, handle: Any) -> Element:
        return nest.map_structure(_as_ragged, self.element_spec, self.source.value(handle))


def _as_ragged(spec: Any, value: Any) -> Any:
    if not isinstance(spec, RaggedTensorSpec) or isinstance(value, RaggedTensor) or not spec.ragged_rank:
        return value
    return RaggedTensor.from_tensor(value, ragged_rank=spec.ragged_rank)


@method
def ragged_batch(
    self: Dataset, batch_size: Any, drop_remainder: bool = False, row_splits_dtype: Any = int64, name: str | None = None
) -> Dataset:
    """Returns a dataset of batches as ragged tensors, whose elements may have different sizes.

    Args:
      batch_size: the number of elements of a batch.
      drop_remainder: whether a last batch with fewer elements is left out.
      row_splits_dtype: the dtype of the row splits.
      name: not used.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#ragged_batch
    """
    return Batch(AsRagged(self, row_splits_dtype), int_argument(batch_size), bool_argument(drop_remainder))


class SparseBatch(Batch):
    """Batches of dense rows as sparse tensors, which store every element of a row, zeros too."""

    repr_name = "_DenseToSparseBatchDataset"

    def __init__(self, source: Dataset, count: int, row_shape: TensorShape) -> None:
        """Batches ``count`` elements of ``source`` each; see :func:`sparse_batch`."""
        if not isinstance(source.element_spec, TensorSpec):
            dtypes = nest.map_structure(lambda spec: spec.dtype, source.element_spec)
            raise TypeError(
                "`dense_to_sparse_batch` requires an input dataset whose elements have a single component, but the given "
                f"dataset has the following component types: {dtypes}."
            )
        self.row_shape = row_shape
        super().__init__(source, count, False)

    def _spec(self) -> Any:
        return SparseTensorSpec(TensorShape([None]).concatenate(self.row_shape), self.source.element_spec.dtype)

    def value(self, handle: list[Any]) -> SparseTensor:
        """Stacks the elements of a batch, given by their handles, to a sparse tensor that stores all their values.

        A dim that is None in ``row_shape`` is that of the batch's largest element.
        """
        rows = [self.source.value(element_handle).eager_array() for element_handle in handle]
        for row in rows:
            self._require_room(row.shape)
        row_dims = []
        largest_sizes = np.max([row.shape for row in rows], axis=0).tolist()
        for requested, largest in zip(self.row_shape, largest_sizes):
            row_dims.append(largest if requested is None else requested)
        indices = []
        for row_index, row in enumerate(rows):
            indices_in_row = np.argwhere(np.ones(row.shape))  # of all elements
            indices.append(np.insert(indices_in_row, 0, row_index, axis=1))
        values = np.concatenate([row.ravel() for row in rows])
        return SparseTensor(np.concatenate(indices), values, [len(rows), *row_dims])

    def _require_room(self, shape: Sequence[int]) -> None:
        """Raises DataLossError if an element's shape has another rank than ``row_shape``, or is larger."""
        has_rank = len(shape) == self.row_shape.rank
        if not has_rank or any(limit is not None and size > limit for size, limit in zip(shape, self.row_shape)):
            row_shape = _brackets([-1 if limit is None else limit for limit in self.row_shape])
            raise DataLossError(
                None,
                "IteratorGetNext",
                f"Input element had shape ({_brackets(shape)}) that is incompatible with the row shape ({row_shape}).",
            )


def _brackets(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


@method
def sparse_batch(self: Dataset, batch_size: Any, row_shape: Any, name: str | None = None) -> Dataset:
    """Returns a dataset of batches as sparse tensors; the elements may have different sizes.

    Args:
      row_shape: the shape of one row; a dim that is None becomes that of the batch's largest element.

    Raises:
      TypeError: an element has several components.
      DataLossError: during iteration, an element is larger than ``row_shape``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#sparse_batch
    """
    return SparseBatch(self, int_argument(batch_size), as_shape(row_shape))
