"""Attention and embeddings, composed."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import Tensor, convert_to_tensor
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
    q, k, v = convert_to_tensor(query), convert_to_tensor(key), convert_to_tensor(value)
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
      params: tensor of shape (rows, ...), or a list of such tensors, which are concatenated (the "div" strategy).
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
    rows = gather(_concatenated_tables(params), ids)
    return rows if max_norm is None else _clip_rows_by_norm(rows, convert_to_tensor(ids).ndim, max_norm)


def _concatenated_tables(params: Any) -> Any:
    """Joins a list of embedding tables along the rows to one table."""
    if not isinstance(params, (list, tuple)):
        return params
    if not params:
        raise ValueError(f"embedding_lookup needs at least one table of embeddings, but got params={params}")
    tables = [convert_to_tensor(p) for p in params]
    return tables[0] if len(tables) == 1 else bind.concat(*tables, axis=0)


def _clip_rows_by_norm(x: Tensor, ids_rank: int, max_norm: Any) -> Tensor:
    """Scales down rows, the axes of ``x`` after those of the ids, whose l2 norm is larger than ``max_norm``."""
    limit = convert_to_tensor(max_norm, x.dtype)
    total = bind.reduce_sum(bind.square(x), axis=tuple(range(ids_rank, x.ndim)), keepdims=True)
    return bind.divide(bind.multiply(x, limit), bind.maximum(bind.sqrt(total), limit))
