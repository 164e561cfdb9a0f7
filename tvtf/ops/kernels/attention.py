"""TE kernels of attention and its gradient, in stages that each need only one row of scores.

A schedule can therefore run them block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, compute, reduce_axis

Index = tuple[Any, ...]
Body = Callable[..., Any]


class Heads:
    """Builds TE stages of attention: the scaled and masked scores of queries ``q`` (..., m, d) and keys ``k`` (..., n, d).

    Scores have the accumulation dtype. ``fill`` is the score of a pair that a bool mask excludes. With causal attention,
    query i may see the keys up to i + ``causal``; None means no causal mask.
    """

    def __init__(
        self, q: te.Tensor, k: te.Tensor, mask: te.Tensor | None, scale: float, fill: float, causal: int | None
    ) -> None:
        """Declares the TE stage that computes the dot products of queries and keys. `score` scales and masks them.

        Args:
            q: queries, ``(..., m, d)``. The leading axes are batch and heads.
            k: keys, ``(..., n, d)``.
            mask: a bool mask or a float one, or None.
            scale: factor of the dot products.
            fill: the score of a pair that a bool mask excludes.
            causal: query i may see the keys up to i + ``causal``. None means all keys.
        """
        self.q, self.k, self.mask, self.causal = q, k, mask, causal
        self.lead = list(q.shape[:-2])
        self.rows, self.columns, self.depth = q.shape[-2], k.shape[-2], q.shape[-1]
        self.dtype = accumulator_dtype(str(q.dtype))
        self.scale, self.fill = tirx.const(scale, self.dtype), tirx.const(fill, self.dtype)

        def product(lead: Index, i: Any, j: Any, at: Any) -> Any:
            return self.upcast(q)(*lead, i, at) * self.upcast(k)(*lead, j, at)

        self.products = self.summed([self.rows, self.columns], self.depth, product, "scores")

    def upcast(self, x: te.Tensor) -> Body:
        """Returns a function that reads an element of ``x`` in the accumulation dtype."""
        return lambda *index: as_dtype(x(*index), self.dtype)

    def compute(self, extents: list[Any], element_at: Body, name: str) -> te.Tensor:
        """Computes ``element_at(leading indices, *indices)`` over the leading dims (batch and heads) and ``extents``."""
        split = len(self.lead)
        return compute([*self.lead, *extents], lambda *index: element_at(index[:split], *index[split:]), name)

    def summed(self, extents: list[Any], extent: Any, element_at: Body, name: str, combine: Any = te.sum) -> te.Tensor:
        """Reduces ``element_at(leading indices, *indices, k)`` over k below ``extent``. The reducer is a sum by default.

        ``extents`` are the dims of the result after the leading dims (batch and heads).
        """
        axis = reduce_axis(extent, "at")
        return self.compute(extents, lambda *index: combine(element_at(*index, axis.var), axis=[axis]), name)

    def score(self, lead: Index, i: Any, j: Any) -> Any:
        """Returns the scaled, masked score of query ``i`` and key ``j``, for the indices ``lead`` of batch and heads.

        A float mask is added. A bool mask selects between the score and ``fill``.
        """
        scaled = self.products(*lead, i, j) * self.scale
        if self.mask is None:
            return scaled
        mask_value = self.mask(*_broadcast(self.mask, (*lead, i, j)))
        return tirx.Select(mask_value, scaled, self.fill) if self.chooses else scaled + as_dtype(mask_value, self.dtype)

    def seen(self, i: Any, j: Any, value: Any, otherwise: Any) -> Any:
        """Applies the causal mask: returns ``value`` if query ``i`` may attend to key ``j``, else ``otherwise``.

        The schedule skips a block of keys if no query of the current block attends to the keys.
        """
        return value if self.causal is None else tirx.Select(j <= i + self.causal, value, otherwise)

    @property
    def chooses(self) -> bool:
        """Returns whether the attention mask is a bool mask, which selects pairs; a float mask is added to scores."""
        return self.mask is not None and str(self.mask.dtype) == "bool"

    def allowed(self, value: Any, index: Index) -> Any:
        """Applies the bool mask to a score's gradient: returns ``value`` if the pair is allowed, else zero.

        ``index`` is the index of the score. A float mask, or none, changes nothing.
        """
        if self.mask is None or not self.chooses:
            return value
        return tirx.Select(self.mask(*_broadcast(self.mask, index)), value, tirx.const(0, self.dtype))

    def joined(self, extents: list[Any], element_at: Body, name: str, dtype: str) -> te.Tensor:
        """Computes ``element_at(leading indices, row, column)`` in the layout ``(..., rows, heads, columns)``.

        The other stages of attention have heads before rows.
        """
        rows, columns = extents
        if len(self.lead) < 2:  # without heads there is no axis to move
            return self.compute(extents, lambda *index: as_dtype(element_at(*index), dtype), name)
        *batch_dims, heads = self.lead

        def joined_element(*index: Any) -> Any:
            *batch, row, head, column = index
            return as_dtype(element_at((*batch, head), row, column), dtype)

        return compute([*batch_dims, rows, heads, columns], joined_element, name)

    def from_joined(self, x: te.Tensor) -> Body:
        """Returns a function of (leading indices, row, column) that reads ``x``, whose layout is that of :meth:`joined`."""
        upcast = self.upcast(x)
        return lambda lead, i, e: upcast(*lead[:-1], i, *lead[-1:], e) if len(lead) > 1 else upcast(*lead, i, e)


def _broadcast(x: te.Tensor, index: Index) -> list[Any]:
    """Converts the index of a score to the index in a broadcast mask ``x``: 0 along the mask's axes of size 1."""
    own_index = index[len(index) - len(x.shape) :]
    return [
        tirx.IntImm("int64", 0) if _is_one(extent) else index for extent, index in zip(x.shape, own_index, strict=True)
    ]


def _is_one(extent: Any) -> bool:
    """Returns whether an extent is the constant 1."""
    return isinstance(extent, tirx.IntImm) and int(extent) == 1


def attention(
    q: te.Tensor,
    k: te.Tensor,
    v: te.Tensor,
    mask: te.Tensor | None = None,
    *,
    scale: float,
    fill: float,
    causal: int | None,
) -> list[te.Tensor]:
    """Computes attention as TE stages.

    Returns the weighted values, rows before heads, and of each row the largest score and the share of its exponential:
    1 over the sum of the row's exponentials, scaled by that of the largest score.
    """
    heads = Heads(q, k, mask, scale, fill, causal)
    rows, columns, depth, dtype = heads.rows, heads.columns, v.shape[-1], heads.dtype
    lowest = tirx.min_value(dtype)
    zero = tirx.const(0, dtype)
    values = heads.upcast(v)
    masked = heads.compute([rows, columns], heads.score, "masked")

    # lead: the indices of batch and heads; i, j: a query and a key; e: an element of a value
    def seen_score(lead: Index, i: Any, j: Any) -> Any:
        return heads.seen(i, j, masked(*lead, i, j), lowest)

    largest = heads.summed([rows], columns, seen_score, "largest", te.max)

    def exponential(lead: Index, i: Any, j: Any) -> Any:
        return heads.seen(i, j, scalar.exp(masked(*lead, i, j) - largest(*lead, i)), zero)

    powers = heads.compute([rows, columns], exponential, "powers")
    total = heads.summed([rows], columns, lambda lead, i, j: powers(*lead, i, j), "total")
    share = heads.compute([rows], lambda lead, i: tirx.const(1, dtype) / total(*lead, i), "share")
    weighted = heads.summed(
        [rows, depth], columns, lambda lead, i, e, j: powers(*lead, i, j) * values(*lead, j, e), "weighted"
    )
    out = heads.joined(
        [rows, depth], lambda lead, i, e: share(*lead, i) * weighted(*lead, i, e), "attention", str(q.dtype)
    )
    statistics = ((largest, "largest_out"), (share, "share_out"))
    return [out, *(heads.compute([rows], _read_row(stage), name) for stage, name in statistics)]


def attention_grad(
    cotangent: te.Tensor,
    out: te.Tensor,
    largest: te.Tensor,
    share: te.Tensor,
    q: te.Tensor,
    k: te.Tensor,
    v: te.Tensor,
    mask: te.Tensor | None = None,
    *,
    scale: float,
    fill: float,
    causal: int | None,
) -> list[te.Tensor]:
    """Computes the cotangents of queries, keys and values, rows before heads, from that of the result ``out``.

    The probabilities are recomputed from each row's ``largest`` score and its ``share``, which `attention` returned.
    """
    heads = Heads(q, k, mask, scale, fill, causal)
    rows, columns, depth, value_depth = heads.rows, heads.columns, heads.depth, v.shape[-1]
    gradient = heads.from_joined(cotangent)
    result = heads.from_joined(out)
    zero = tirx.const(0, heads.dtype)
    queries = heads.upcast(q)
    keys = heads.upcast(k)
    values = heads.upcast(v)

    # lead: the indices of batch and heads; i, j: a query and a key; e: an element of one of them, or of a value
    def probability_at(lead: Index, i: Any, j: Any) -> Any:
        exponential = scalar.exp(heads.score(lead, i, j) - largest(*lead, i))
        return heads.seen(i, j, exponential * share(*lead, i), zero)

    probability = heads.compute([rows, columns], probability_at, "chance")
    dot = heads.summed([rows], value_depth, lambda lead, i, e: gradient(lead, i, e) * result(lead, i, e), "dot")
    # The cotangent of the probabilities.
    inward = heads.summed(
        [rows, columns], value_depth, lambda lead, i, j, e: gradient(lead, i, e) * values(*lead, j, e), "inward"
    )

    def score_cotangent(lead: Index, i: Any, j: Any) -> Any:
        gradient_of_score = (dot(*lead, i) - inward(*lead, i, j)) * -heads.scale * probability(*lead, i, j)
        return heads.allowed(gradient_of_score, (*lead, i, j))

    scores = heads.compute([rows, columns], score_cotangent, "to_score")
    q_cotangent = heads.summed(
        [rows, depth], columns, lambda lead, i, e, j: scores(*lead, i, j) * keys(*lead, j, e), "to_q"
    )
    k_cotangent = heads.summed(
        [columns, depth], rows, lambda lead, j, e, i: scores(*lead, i, j) * queries(*lead, i, e), "to_k"
    )
    v_cotangent = heads.summed(
        [columns, value_depth], rows, lambda lead, j, e, i: probability(*lead, i, j) * gradient(lead, i, e), "to_v"
    )
    parts = (([rows, depth], q_cotangent), ([columns, depth], k_cotangent), ([columns, value_depth], v_cotangent))
    return [heads.joined(extents, _read(part), part.op.name + "_out", str(q.dtype)) for extents, part in parts]


def _read_row(x: te.Tensor) -> Body:
    """Returns a function that reads an element of ``x`` by leading indices and row."""
    return lambda lead, i: x(*lead, i)


def _read(x: te.Tensor) -> Body:
    """Returns a function that reads an element of ``x`` by leading indices, row and column."""
    return lambda lead, i, e: x(*lead, i, e)
