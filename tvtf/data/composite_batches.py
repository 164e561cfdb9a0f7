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
from tvtf.data.argument_conversion import flag, number
from tvtf.data.base import Dataset, method
from tvtf.data.batching import Batch
from tvtf.data.structure import Element
from tvtf.dtypes import as_dtype, int64
from tvtf.errors import DataLossError


class AsRagged(Dataset):
    """Elements whose tensors of unknown sizes are converted to ragged tensors."""

    def __init__(self, source: Dataset, row_splits_dtype: Any) -> None:
        self.source, self.row_splits_dtype = source, as_dtype(row_splits_dtype)
        super().__init__(nest.map_structure(self._ragged_spec, source.element_spec), source.size)

    def _ragged_spec(self, spec: Any) -> Any:
        """Returns the spec of a ragged tensor whose ragged dims reach to the last unknown one; static shapes stay dense."""
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
    """Returns batches of elements of different sizes as ragged tensors.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#ragged_batch
    """
    return Batch(AsRagged(self, row_splits_dtype), number(batch_size), flag(drop_remainder))


class SparseBatch(Batch):
    """Batches of dense rows as sparse tensors, which store every element of a row, zeros too."""

    repr_name = "_DenseToSparseBatchDataset"

    def __init__(self, source: Dataset, count: int, row_shape: TensorShape) -> None:
        if not isinstance(source.element_spec, TensorSpec):
            kinds = nest.map_structure(lambda s: s.dtype, source.element_spec)
            raise TypeError(
                "`dense_to_sparse_batch` requires an input dataset whose elements have a single component, but the given "
                f"dataset has the following component types: {kinds}."
            )
        self.row_shape = row_shape
        super().__init__(source, count, False)

    def _spec(self) -> Any:
        return SparseTensorSpec(TensorShape([None]).concatenate(self.row_shape), self.source.element_spec.dtype)

    def value(self, handle: list[Any]) -> SparseTensor:
        """Stacks elements to a sparse tensor; unknown dims are those of the largest element."""
        arrays = [self.source.value(h).eager_array() for h in handle]
        for row in arrays:
            self._require_room(row.shape)
        largest = np.max([row.shape for row in arrays], axis=0)
        shape = [
            int(longest) if requested is None else requested for requested, longest in zip(self.row_shape, largest)
        ]
        indices = [np.insert(np.argwhere(np.ones(row.shape)), 0, i, axis=1) for i, row in enumerate(arrays)]
        return SparseTensor(np.concatenate(indices), np.concatenate([r.ravel() for r in arrays]), [len(arrays), *shape])

    def _require_room(self, shape: Sequence[int]) -> None:
        """Checks that an element fits into ``row_shape``."""
        if len(shape) != self.row_shape.rank or any(o is not None and n > o for n, o in zip(shape, self.row_shape)):
            raise DataLossError(
                None,
                "IteratorGetNext",
                f"Input element had shape ({_brackets(shape)}) that is incompatible with the row shape "
                f"({_brackets([-1 if d is None else d for d in self.row_shape])}).",
            )


def _brackets(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


@method
def sparse_batch(self: Dataset, batch_size: Any, row_shape: Any, name: str | None = None) -> Dataset:
    """Returns batches of elements of different sizes as sparse tensors with rows of ``row_shape``.

    Args:
      row_shape: the shape of one row; a dim that is None becomes that of the batch's largest element.

    Raises:
      TypeError: an element has several components.
      DataLossError: during iteration, an element is larger than ``row_shape``.

    Source: https://www.tensorflow.org/api_docs/python/tf/data/Dataset#sparse_batch
    """
    return SparseBatch(self, number(batch_size), as_shape(row_shape))
