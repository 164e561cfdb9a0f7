"""Embedding lookups with sparse ids: the rows of a table for each row of ids, combined into one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.primitive import export, public_names
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import bfloat16, float16, float32, int32, int64
from tvtf.ops.attention import embedding_lookup
from tvtf.ops.cast import cast
from tvtf.ops.rules import bind

COMBINERS = ("mean", "sqrtn", "sum")


def _check_arguments(ids: Any, weights: Any, combiner: str) -> None:
    """Checks the arguments of an embedding lookup, or raises: the combiner, and sparse ids and weights of equal shapes."""
    if combiner not in COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    if not isinstance(ids, SparseTensor):
        raise TypeError(f"sp_ids must be SparseTensor, got {type(ids)}")
    if weights is None:
        return
    if not isinstance(weights, SparseTensor):
        raise TypeError(f"sp_weights must be either None or SparseTensor,got {type(weights)}")
    ids.values.shape.assert_is_compatible_with(weights.values.shape)
    ids.indices.shape.assert_is_compatible_with(weights.indices.shape)
    ids.dense_shape.shape.assert_is_compatible_with(weights.dense_shape.shape)


def _combine_rows(rows: Tensor, weights: Tensor | None, combiner: str, sum_by_row: Any) -> Tensor:
    """Combines the embeddings of each row of ids: their weighted sum, or a mean for other combiners.

    Args:
      rows: the embeddings of all ids.
      weights: a weight for each id; 1 if None.
      combiner: "sum"; "mean" divides by the sum of the weights, "sqrtn" by the square root of the sum of their squares.
      sum_by_row: sums the embeddings that belong to the same row of ids.
    """
    dtype = rows.dtype
    if dtype in (float16, bfloat16):  # sums of half-precision numbers are computed in float32
        rows = cast(rows, float32)
    if weights is None:
        weights = bind.broadcast_to(convert_to_tensor(1, rows.dtype), shape=rows._type.shape[:1])
    weights = cast(weights, rows.dtype)
    inner_ones = (1,) * (rows.ndim - 1)
    row_weights = bind.reshape(weights, shape=(*weights._type.shape, *inner_ones))
    result = sum_by_row(rows * row_weights)
    if combiner == "mean":
        result = bind.divide_no_nan(result, sum_by_row(row_weights))
    elif combiner == "sqrtn":
        norm = bind.sqrt(sum_by_row(row_weights * row_weights))
        result = bind.divide_no_nan(result, norm)
    return cast(result, dtype)  # type: ignore[no-any-return]


@export("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    combiner: str | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Looks up the table rows for each row of sparse ids and combines them into one.

    Args:
      params: tensor of shape (rows, ...), or a list of tensors to concatenate.
      sp_ids: int64 SparseTensor of shape (n, any): at least one id in each row.
      sp_weights: SparseTensor of weights at the same places; ones where None.
      combiner: "sum", "mean" (by the sum of weights), or "sqrtn" (by the root of the sum of their squares); "mean" where None.
      max_norm: rows longer than this (l2) are scaled down to it.
      allow_fast_lookup: accepted.

    Returns:
      A tensor of shape (n, ...).

    Raises:
      TypeError: ``sp_ids`` or ``sp_weights`` is not a SparseTensor.
      ValueError: ``combiner`` is not supported.

    >>> import tvtf as tf
    >>> ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 1, 1], tf.int64), [2, 2])
    >>> tf.nn.embedding_lookup_sparse(tf.constant([[1., 2.], [3., 4.]]), ids, None).numpy()
    array([[2., 3.],
           [3., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/embedding_lookup_sparse
    """
    combiner = combiner or "mean"
    _check_arguments(sp_ids, sp_weights, combiner)
    segments = sp_ids.indices[:, 0]
    rows = embedding_lookup(params, sp_ids.values, max_norm=max_norm)
    segment_sum = public_names()["math.segment_sum"]
    weights = None if sp_weights is None else sp_weights.values
    return _combine_rows(rows, weights, combiner, lambda x: segment_sum(x, segments))


@export("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: int | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Tensor:
    """Does `tf.nn.embedding_lookup_sparse` with ids of any rank; ignores negative ids and weights that are not positive.

    Args:
      embedding_weights: the table, or a list of its parts.
      sparse_ids: int64 SparseTensor of shape (d0, ..., dn).
      sparse_weights: SparseTensor of weights at the same places; ones where None.
      combiner: "sum", "mean" or "sqrtn"; "sum" also uses weights that are not positive.
      default_id: the id for rows without ids; None gives zeros.
      max_norm: rows longer than this (l2) are scaled down to it.

    Returns:
      A tensor of shape (d0, ..., dn-1, ...).

    Raises:
      ValueError: ``embedding_weights`` is None or empty, or ``combiner`` is not supported.

    >>> import tvtf as tf
    >>> ids = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([1, -1], tf.int64), [2, 2])
    >>> tf.nn.safe_embedding_lookup_sparse(tf.constant([[1., 2.], [3., 4.]]), ids).numpy()
    array([[3., 4.],
           [0., 0.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/safe_embedding_lookup_sparse
    """
    if embedding_weights is None or (isinstance(embedding_weights, (list, tuple)) and not len(embedding_weights)):
        raise ValueError(f"Missing embedding_weights {embedding_weights}.")
    _check_arguments(sparse_ids, sparse_weights, combiner)
    table = embedding_weights if isinstance(embedding_weights, (list, tuple)) else convert_to_tensor(embedding_weights)
    ids = sparse_ids.values
    weights = None if sparse_weights is None else sparse_weights.values
    is_valid = ids >= 0
    if weights is not None and combiner != "sum":
        is_valid = bind.logical_and(is_valid, weights > 0)
    row_indices, outer_shape = _row_indices(sparse_ids)
    count = bind.reduce_prod(outer_shape, axis=(0,), keepdims=False)
    segment_sum = public_names()["math.unsorted_segment_sum"]

    def sum_by_row(x: Tensor) -> Tensor:
        return segment_sum(x, row_indices, count)  # type: ignore[no-any-return]

    rows = embedding_lookup(
        table, bind.select(is_valid, ids, EagerTensor(np.zeros((), ids.dtype.np))), max_norm=max_norm
    )
    valid_weights = cast(is_valid, rows.dtype)
    result = _combine_rows(
        rows, valid_weights if weights is None else valid_weights * cast(weights, rows.dtype), combiner, sum_by_row
    )
    if default_id is not None:
        has_no_ids = bind.equal(sum_by_row(cast(is_valid, int32)), convert_to_tensor(0))
        is_empty = bind.reshape(has_no_ids, shape=(*has_no_ids._type.shape, *(1,) * (result.ndim - 1)))
        result = bind.select(is_empty, embedding_lookup(table, [default_id], max_norm=max_norm), result)
    last = public_names()["shape"](result, out_type=int64)[1:]
    return public_names()["reshape"](result, bind.concat(outer_shape, last, axis=0))  # type: ignore[no-any-return]


def _row_indices(ids: SparseTensor) -> tuple[Tensor, Tensor]:
    """Returns the row index of each sparse id, where all dims but the last are merged to rows, and those dims."""
    outer_shape = ids.dense_shape[:-1]
    row_strides = public_names()["math.cumprod"](outer_shape, exclusive=True, reverse=True)
    return bind.reduce_sum(ids.indices[:, :-1] * row_strides, axis=(1,), keepdims=False), outer_shape
