"""Attention and embeddings, composed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.shape import Dim, is_static_shape, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import int64
from tvtf.ops.cast import cast_tensor
from tvtf.ops.dims import scalar_of
from tvtf.ops.indexing import gather
from tvtf.ops.linalg import product
from tvtf.ops.rules import bind, number

MASKED = {"float16": -6e4}
"""The logit of masked positions: far below all others but finite, so that a fully masked row is not NaN."""


@export("nn.scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: Any, key: Any, value: Any, mask: Any = None, scale: float | None = None, is_causal: bool = False
) -> Tensor:
    """Computes ``softmax(query key^T * scale) value``; tvtf's own.

    Args:
      query: floating tensor, shape (..., m, d).
      key: shape (..., n, d).
      value: shape (..., n, e).
      mask: bool tensor that broadcasts to (..., m, n): True where a query may look; or None.
      scale: 1 / sqrt(d) where not given.
      is_causal: query i may look at keys 0 to i only; needs m and n known while tracing.

    Returns:
      A tensor of shape (..., m, e).

    >>> import tvtf as tf
    >>> tf.nn.scaled_dot_product_attention(*[tf.constant([[1., 0.], [0., 1.]])] * 3, is_causal=True).numpy()[0]
    array([1., 0.], dtype=float32)

    Source: https://arxiv.org/abs/1706.03762 (Vaswani et al., Attention Is All You Need, 2017)
    """
    q = convert_to_tensor(query)
    k = convert_to_tensor(key)
    v = convert_to_tensor(value)
    factor = scale if scale is not None else q._type.shape[-1] ** -0.5
    logits = bind.multiply(product(q, k, transpose_b=True), number(factor, q))
    if is_causal:
        logits = _masked(logits, causal_mask(*logits._type.shape[-2:]))
    if mask is not None:
        logits = _masked(logits, convert_to_tensor(mask))
    return product(bind.softmax(logits, axis=logits.ndim - 1), v)


def causal_mask(rows: int, columns: int) -> Tensor:
    """Returns a bool matrix that is True at and below the diagonal."""
    if not (isinstance(rows, int) and isinstance(columns, int)):
        raise unknown_size(
            ValueError(f"attention: a causal mask needs lengths known while tracing, but got {rows} and {columns}")
        )
    return convert_to_tensor(np.tri(rows, columns, dtype=bool))


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    """Replaces the logits of positions that aren't ``allowed`` by a large negative number."""
    return bind.select(allowed, logits, number(MASKED.get(logits.dtype.name, -1e30), logits))


@export("nn.embedding_lookup")
def embedding_lookup(params: Any, ids: Any, max_norm: Any = None, name: str | None = None) -> Tensor:
    """Looks up the rows of a table of embeddings by their ids.

    Args:
      params: tensor of shape (rows, ...), or a list of its parts (the "div" strategy): as many rows in all, one more in
        the first ones where the division leaves a remainder.
      ids: int32 or int64 tensor, values in [0, rows).
      max_norm: rows with a larger l2 norm are scaled down to it.

    Returns:
      A tensor of shape ``ids.shape + params.shape[1:]``.

    Raises:
      InvalidArgumentError: an id is out of range.
      ValueError: the list of tensors is empty.

    >>> import tvtf as tf
    >>> tf.nn.embedding_lookup(tf.constant([[1., 2.], [3., 4.]]), [1]).numpy()
    array([[3., 4.]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/embedding_lookup
    """
    rows = gather(*table_and_rows(params, ids, "div"))
    return rows if max_norm is None else _clip_rows_by_norm(rows, convert_to_tensor(ids).ndim, max_norm)


def table_and_rows(params: Any, ids: Any, strategy: str) -> tuple[Any, Any]:
    """Joins a list of partitions of an embedding table to one table, and returns it with the row in it of each id.

    The ``strategy`` "mod" has id i in partition i modulo their number. "div" has consecutive ids in each partition, as
    many in all, one more in the first ones: where a partition has another size, TensorFlow misses or repeats rows.
    """
    if not isinstance(params, (list, tuple)):
        return params, ids
    if not params:
        raise ValueError(f"embedding_lookup needs at least one table of embeddings, but got params={params}")
    tables = [convert_to_tensor(param) for param in params]
    if len(tables) == 1:
        return tables[0], ids
    if strategy not in ("div", "mod"):
        raise ValueError(f'Only "div" and "mod" are supported as partition_strategy, but got "{strategy}"')
    table = bind.concat(*tables, axis=0)
    count = len(tables)
    sizes = [table._type.shape[0] for table in tables]
    per_part, extra = simplify_dim(sum(sizes) // count), simplify_dim(sum(sizes) % count)
    if strategy == "div" and is_static_shape(sizes) and sizes == [per_part + (i < extra) for i in range(count)]:
        return table, ids
    numbers = cast_tensor(convert_to_tensor(ids), int64)
    if strategy == "mod":
        part = numbers % count
        row = numbers // count
    else:
        share, extras = _int64(per_part), _int64(extra)
        part = bind.maximum(numbers // (share + 1), (numbers - extras) // share)
        row = bind.select(bind.less(part, extras), numbers % (share + 1), (numbers - extras) % share)
    starts = [_int64(sum(sizes[:i], 0)) for i in range(count)]
    position = gather(bind.stack(*starts, axis=0), part) + row
    limit = gather(bind.stack(*map(_int64, sizes), axis=0), part)
    is_inside = bind.logical_and(bind.less(row, limit), bind.less_equal(number(0, row), row))
    return table, bind.select(is_inside, position, number(-1, row))  # the gather that follows refuses -1


def _int64(size: Dim) -> Tensor:
    return cast_tensor(scalar_of(size), int64)


def _clip_rows_by_norm(x: Tensor, ids_rank: int, max_norm: Any) -> Tensor:
    """Scales down rows, the axes of ``x`` after those of the ids, whose l2 norm is larger than ``max_norm``."""
    limit = convert_to_tensor(max_norm, x.dtype)
    total = bind.reduce_sum(bind.square(x), axis=tuple(range(ids_rank, x.ndim)), keepdims=True)
    return bind.divide(bind.multiply(x, limit), bind.maximum(bind.sqrt(total), limit))
