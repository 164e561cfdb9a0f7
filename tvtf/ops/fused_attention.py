"""Attention and its gradient as primitives, into which ``passes/graph/fuse_attention.py`` fuses traced ops.

They store no matrix of all scores: the forward one returns two statistics of each row, and the gradient recomputes the
probabilities from them. Source: https://arxiv.org/abs/2205.14135 (Dao et al., FlashAttention, 2022)

The statistics are the largest score m, and the share 1 / sum(exp(score - m)). The paper keeps m + log(sum) instead. Where a
mask of -1e9 hides a complete row, float32 rounds the logarithm away beside m, and all probabilities would be 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, primitive
from tvtf.core.shape import Dim, TensorType, brackets, broadcast_shapes, same_shape
from tvtf.core.tensor import Tensor
from tvtf.dtypes import FLOATING, DType, float32
from tvtf.ops.linalg import lifted
from tvtf.ops.rules import bind, draw, kernel, require_dtype, require_same_dtype, require_shape, stretch
from tvtf.ops.softmax import upcast

MADE_LATE = "made when a function is compiled, after gradients are taken and models are exported"
WHY_NOT = {"vjp": MADE_LATE, "onnx": MADE_LATE}


def rows_first(rank: int) -> tuple[int, ...]:
    """Returns the permutation between ``(..., heads, rows, columns)`` and ``(..., rows, heads, columns)``.

    Below rank 4 it changes nothing.
    """
    return tuple(range(rank)) if rank < 4 else (*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _rows_before_heads(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(shape[i] for i in rows_first(len(shape)))


def _type(
    q: TensorType, k: TensorType, v: TensorType, *masks: TensorType, scale: float, fill: float, causal: int | None
) -> tuple[TensorType, TensorType, TensorType]:
    """Checks the operands of fused attention, and returns the types of its three results.

    They are the output, and the two statistics of each row of scores.

    Args:
      q, k, v: the types of queries (..., m, d), keys (..., n, d) and values (..., n, e).
      masks: the types of masks that broadcast to the scores (..., m, n).
      scale: the factor of the scores.
      fill: the score where a bool mask is False.
      causal: None, or the offset from which on keys are masked: query i sees keys up to ``i + causal``.
    """
    # ``scale``, ``fill`` and ``causal`` aren't needed here, but all rules of the op receive them
    require_dtype(q, FLOATING, "query")
    require_same_dtype((q, k, v), ("query", "key", "value"))
    scores_shape = (*q.shape[:-1], k.shape[-2])
    are_keys_valid = same_shape(k.shape, (*q.shape[:-2], *k.shape[-2:-1], q.shape[-1]))
    are_values_valid = same_shape(v.shape[:-1], k.shape[:-1])
    are_masks_valid = all(_broadcasts_to(mask, scores_shape) for mask in masks)
    if not (are_keys_valid and are_values_valid and are_masks_valid):
        shape_texts = ", ".join(brackets(x.shape) for x in (q, k, v, *masks))
        raise ArgumentError(
            f"attention needs shapes (..., m, d), (..., n, d), (..., n, e) and a mask (m, n), but got {shape_texts}"
        )
    output = TensorType(_rows_before_heads((*q.shape[:-1], v.shape[-1])), q.dtype)
    statistic = TensorType(q.shape[:-1], _accumulator(q.dtype))
    return output, statistic, statistic


def _broadcasts_to(mask: TensorType, scores: tuple[Any, ...]) -> bool:
    shape = broadcast_shapes(mask.shape, scores)
    return shape is not None and same_shape(shape, scores)


def _accumulator(dtype: DType) -> DType:
    """Returns the dtype in which a kernel accumulates: float32 for 16-bit floats."""
    return float32 if dtype.size == 2 else dtype


def _scores(
    q: np.ndarray, k: np.ndarray, masks: tuple[np.ndarray, ...], scale: float, fill: float, causal: int | None
) -> np.ndarray:
    """Computes attention's scaled scores of queries and keys, with masks applied.

    A bool mask replaces the score by ``fill`` where it is False. A mask of numbers is added. With ``causal``, the score
    of query i is -inf for all keys after key ``i + causal``.
    """
    q = upcast(q)
    transposed_k = np.swapaxes(upcast(k), -1, -2)
    scores = np.matmul(q, transposed_k) * q.dtype.type(scale)
    if causal is not None:
        rows, columns = scores.shape[-2:]
        is_attended = np.tri(rows, columns, causal, dtype=bool)
        scores = np.where(is_attended, scores, -np.inf)
    for mask in masks:
        if mask.dtype == bool:
            scores = np.where(mask, scores, scores.dtype.type(fill))
        else:
            scores = scores + upcast(mask)
    return scores


def _attention_array(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *masks: np.ndarray, scale: float, fill: float, causal: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes attention with all scores in memory, as the reference for the fused kernel.

    Returns the output and, for the gradient, the largest score of each row and its share.

    Args:
      q, k, v: queries (..., m, d), keys (..., n, d) and values (..., n, e).
      masks: masks that broadcast to the scores (..., m, n).
      scale: the factor of the scores.
      fill: the score where a bool mask is False.
      causal: None, or the offset from which on keys are masked: query i sees keys up to ``i + causal``.
    """
    scores = _scores(q, k, masks, scale, fill, causal)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)  # subtracted so that exp doesn't overflow
    exponentials = np.exp(scores - largest)
    total = exponentials.sum(-1, keepdims=True)
    output = np.matmul(exponentials, upcast(v)) / total
    # The output has rows before heads.
    return output.transpose(rows_first(output.ndim)), largest[..., 0], 1 / total[..., 0]


def _grad_array(
    cotangent: np.ndarray,
    out: np.ndarray,
    largest: np.ndarray,
    share: np.ndarray,
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    *masks: np.ndarray,
    scale: float,
    fill: float,
    causal: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Computes the gradient of attention with all scores in memory, as the reference for the fused kernel.

    Args:
      cotangent: the cotangent of the output.
      out: the output of the attention.
      largest, share: the statistics of each row, from which the probabilities are recomputed.
      q, k, v, masks, scale, fill, causal: the operands and attributes of the attention; see :func:`_scores`.

    Returns:
      The cotangents of query, key and value.
    """
    order = rows_first(q.ndim)
    cotangent, out = upcast(cotangent).transpose(order), upcast(out).transpose(order)
    exponentials = np.exp(_scores(q, k, masks, scale, fill, causal) - largest[..., None])
    probabilities = exponentials * share[..., None]
    cotangent_probabilities = np.matmul(cotangent, np.swapaxes(upcast(v), -1, -2))
    # The softmax's gradient is p * (c - sum(c * p)) for the cotangent c of p. The sum is that of cotangent * out.
    cotangent_scores = probabilities * (cotangent_probabilities - np.sum(cotangent * out, -1, keepdims=True))
    cotangent_scores = cotangent_scores * probabilities.dtype.type(scale)
    for mask in masks:
        cotangent_scores = np.where(mask, cotangent_scores, 0) if mask.dtype == bool else cotangent_scores
    cotangent_q = np.matmul(cotangent_scores, upcast(k))
    cotangent_k = np.matmul(np.swapaxes(cotangent_scores, -1, -2), upcast(q))
    cotangent_v = np.matmul(np.swapaxes(probabilities, -1, -2), cotangent)
    return cotangent_q.transpose(order), cotangent_k.transpose(order), cotangent_v.transpose(order)


def _grad_type(
    cotangent: TensorType, out: TensorType, largest: TensorType, share: TensorType, q: TensorType, k: TensorType,
    v: TensorType, *masks: TensorType, scale: float, fill: float, causal: int | None,
) -> tuple[TensorType, ...]:  # fmt: skip
    """Checks the operands of attention's gradient, and returns the types of the cotangents of q, k and v.

    ``cotangent`` is that of the output ``out``; ``largest`` and ``share`` are the other results of attention.
    """
    output, statistic, _ = _type(q, k, v, *masks, scale=scale, fill=fill, causal=causal)
    require_shape(cotangent, output.shape, "ct")
    require_shape(out, output.shape, "out")
    require_shape(largest, statistic.shape, "largest")
    require_shape(share, statistic.shape, "share")
    cotangent_shapes = [_rows_before_heads(x.shape) for x in (q, k, v)]
    return tuple(TensorType(shape, x.dtype) for shape, x in zip(cotangent_shapes, (q, k, v)))


def _batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
    out, largest, share = bind.attention(*_with_batch_axis(size, inputs, batched), **attrs)
    return _reordered(out), largest, share


def _grad_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Any:
    cotangent, out, largest, share = (stretch(size, x, is_batched) for x, is_batched in zip(inputs[:4], batched))
    operands = _with_batch_axis(size, inputs[4:], batched[4:])
    grads = bind.attention_grad(_reordered(cotangent), _reordered(out), largest, share, *operands, **attrs)
    return tuple(map(_reordered, grads))


def _with_batch_axis(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> list[Tensor]:
    """Returns attention's operands with a leading batch axis of ``size``. Masks that all items share don't get it."""
    operands = [stretch(size, x, is_batched) for x, is_batched in zip(inputs[:3], batched)]
    masks = [lifted(x, operands[0].ndim - 1) if is_batched else x for x, is_batched in zip(inputs[3:], batched[3:])]
    return [*operands, *masks]


def _reordered(x: Tensor) -> Tensor:
    """Moves rows before heads in tensors that reached rank 4 by the batch axis: such results have rows first."""
    return bind.transpose(x, perm=rows_first(4)) if x.ndim == 4 else x


def _operands(seed: int, lead: tuple[int, ...], m: int, n: int, mask: tuple[int, ...] | None) -> list[Any]:
    """Returns sample queries and keys of width 4, values of width 3, and a mask. A mask of shape ``(m, n)`` is bool."""
    shapes = (*lead, m, 4), (*lead, n, 4), (*lead, n, 3)
    operands: list[Any] = [draw(seed + i, shape) for i, shape in enumerate(shapes)]
    if mask is None:
        return operands
    return [*operands, np.tri(m, n, dtype=bool) if mask == (m, n) else draw(seed + 3, mask)]


def _sample(before: list[Any], seed: int, case: Any) -> Sample:
    *sizes, causal = case
    attrs = {"scale": 0.5, "fill": -1e4, "causal": causal}
    return Sample((*before, *_operands(seed, *sizes)), attrs, FLOATING, gradient=False)


CASES = (
    ((), 3, 2, None, None),
    ((2,), 2, 3, (2, 3), None),
    ((2, 3), 3, 3, (2, 1, 1, 3), None),
    ((1, 2), 2, 3, (2, 3), None),
    ((2,), 3, 3, None, 0),
    ((2,), 2, 4, None, 1),
)


def _samples() -> list[Sample]:
    return [_sample([], 7 * i, case) for i, case in enumerate(CASES)]


def _grad_samples() -> list[Sample]:
    """Returns samples of the gradient of fused attention, one for each case."""
    samples = []
    for i, case in enumerate(CASES):
        batch_dims, row_count, *_ = case
        output_shape = _rows_before_heads((*batch_dims, row_count, 3))
        cotangent, output = draw(50, output_shape), draw(51, output_shape)
        largest, share = (_statistic_drawn(seed, (*batch_dims, row_count)) for seed in (52, 53))
        samples.append(_sample([cotangent, output, largest, share], 7 * i, case))
    return samples


def _statistic_drawn(seed: int, shape: tuple[int, ...]) -> Any:
    return lambda dtype: draw(seed, shape)(_accumulator(dtype))


@primitive(
    type=_type,
    numpy=_attention_array,
    lower=kernel("attention.attention"),
    batch=_batch,
    samples=_samples,
    why_not=WHY_NOT,
)
def attention(
    query: Tensor, key: Tensor, value: Tensor, *mask: Tensor, scale: float, fill: float, causal: int | None
) -> Any:
    """Computes ``softmax(query key^T * scale + mask) value``, and each row's largest score and share.

    Shapes are (..., m, d), (..., n, d), (..., n, e) and (..., m, n). Where a bool mask is False, the score is ``fill``.
    The output is (..., m, e), or (..., m, heads, e) for operands of rank 4 and more. The largest scores and the shares are
    (..., m), in float32 for 16-bit floats. With ``causal``, at least 0, query i attends to keys 0 to i + causal only.
    """
    return (query, key, value, *mask), {"scale": scale, "fill": fill, "causal": causal}


@primitive(
    type=_grad_type,
    numpy=_grad_array,
    lower=kernel("attention.attention_grad"),
    batch=_grad_batch,
    samples=_grad_samples,
    why_not=WHY_NOT,
)
def attention_grad(
    cotangent: Tensor, out: Tensor, largest: Tensor, share: Tensor, query: Tensor, key: Tensor, value: Tensor,
    *mask: Tensor, scale: float, fill: float, causal: int | None,
) -> Any:  # fmt: skip
    """Returns the cotangents of queries, keys and values, shaped and ordered as :func:`attention`'s result, from that of it."""
    return (cotangent, out, largest, share, query, key, value, *mask), {"scale": scale, "fill": fill, "causal": causal}
