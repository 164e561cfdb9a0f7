"""Methods of RaggedTensor that are made of functions on ragged tensors: conversions, merged dims, indexing.

They are attached to the class here, as operators are in ``dispatch``, because those functions create ragged tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.composites.ragged import build, sparse
from tvtf.composites.ragged.getitem import getitem
from tvtf.composites.ragged.joining import stack_all
from tvtf.composites.ragged.kernels import positive_axis
from tvtf.composites.ragged.tensor import RaggedTensor, RaggedTensorSpec
from tvtf.core.shape import as_shape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import as_dtype, int64
from tvtf.ops.cast import cast


def from_tensor(
    cls: type[RaggedTensor],
    tensor: Any,
    lengths: Any = None,
    padding: Any = None,
    ragged_rank: int = 1,
    name: Any = None,
    row_splits_dtype: Any = int64,
) -> RaggedTensor:
    """Converts a dense tensor to a ragged tensor.

    Args:
      tensor: the dense tensor.
      lengths: the length to which each row is cut, or None.
      padding: a value that is removed from the ends of rows, or None.
      ragged_rank: the number of ragged dimensions.
      row_splits_dtype: the dtype of the row splits.
    """
    return build.from_tensor(convert_to_tensor(tensor), lengths, padding, ragged_rank, as_dtype(row_splits_dtype))


def from_sparse(
    cls: type[RaggedTensor], st_input: Any, name: Any = None, row_splits_dtype: Any = int64
) -> RaggedTensor:
    """Converts a sparse matrix, whose rows must have no gaps between their values."""
    return sparse.from_sparse(st_input, row_splits_dtype)


def bounding_shape(self: RaggedTensor, axis: Any = None, name: Any = None, out_type: Any = None) -> Tensor:
    """Returns the shape of the smallest dense tensor that holds this one."""
    result = cast(build.bounding_shape(self), as_dtype(out_type or self.row_splits.dtype))
    return result if axis is None else result[axis]


def merge_dims(self: RaggedTensor, outer_axis: int, inner_axis: int) -> Any:
    """Merges the dims from ``outer_axis`` to ``inner_axis``."""
    rank = self.shape.rank or 0
    axes = (
        positive_axis(a, rank, argument) for a, argument in ((outer_axis, "outer_axis"), (inner_axis, "inner_axis"))
    )
    return build.merge_dims(self, *axes)


def to_tensor(self: RaggedTensor, default_value: Any = None, name: Any = None, shape: Any = None) -> Tensor:
    """Converts to a dense tensor; rows are padded with ``default_value`` (zero), and cut or padded to ``shape``."""
    return build.to_tensor(self, default_value, None if shape is None else list(as_shape(shape)))


def to_sparse(self: RaggedTensor, name: Any = None) -> Any:
    """Converts to a sparse tensor with each row's values in its first columns."""
    return sparse.to_sparse(self)


def _stacked(self: RaggedTensorSpec, values: Sequence[Any]) -> Any:
    """Stacks eager values to a batch; of plain tensors (ragged rank 0) only the new rows are partitioned."""
    if self.ragged_rank < 0:
        return EagerTensor(np.stack([value.eager_array() for value in values]))
    if not self.ragged_rank and self._shape.rank is not None:
        arrays = [value.eager_array() for value in values]
        splits = np.cumsum([0, *map(len, arrays)], dtype=self.row_splits_dtype.np)
        return RaggedTensor(EagerTensor(np.concatenate(arrays)), EagerTensor(splits))
    return stack_all(list(values), 0).with_row_splits_dtype(self.row_splits_dtype)  # type: ignore[no-any-return]


for _method in (bounding_shape, merge_dims, to_tensor, to_sparse):
    setattr(RaggedTensor, _method.__name__, _method)
for _constructor in (from_tensor, from_sparse):
    setattr(RaggedTensor, _constructor.__name__, classmethod(_constructor))
RaggedTensor.__getitem__ = getitem
RaggedTensorSpec._stacked = _stacked  # type: ignore[assignment, method-assign]
