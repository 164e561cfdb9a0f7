"""Fuses traced attention (matmul, mask, softmax, matmul) into one kernel forward and one backward.

The fused kernels never store the matrix of all scores. The forward pattern is
``matmul(softmax(matmul(q, k) * scale + mask), v)``; the backward pattern is what the ``vjp`` rules make of it. A
softmax is replaced only if every use of it, and of all values between it and its operands, belongs to the pattern:
otherwise the scores would have to be stored anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf.core.tensor import Tensor
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ir.interpreter import reemit
from tvtf.ops.fused_attention import rows_first
from tvtf.passes.analysis.causal_mask import ConstantValues, triangle_of
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.simplify import Simplified


def fuse_attention(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces each :class:`Site`; returns the same module where there is none."""
    if not any(_sites(func) for func in mod.functions.values() if isinstance(func, relax.Function)):
        return mod
    mod = relax.transform.EliminateCommonSubexpr()(reemit(mod, FusedAttention))
    return drop_dead(mod)


MAX_RECOMPUTED_PAIRS = 2**16
"""Maximum query-key pairs with which the gradient of a single head recomputes the probabilities: this many fit the cache.

Up to 256 rows the fused gradient is 1.1 to 1.6 times as fast as separate kernels; at 512 and 1,024 it took 1.9 and 2.3
times as long.
"""


MASKING_VALUE = -1e4
"""The largest fill or additive mask value that counts as masking: ``exp`` of such a score is zero compared with any other."""


class Site(NamedTuple):
    """One matched attention: its operands and results.

    The last two axes of ``key`` are swapped if ``is_key_transposed``. ``out_cotangent`` is the cotangent of ``out``;
    ``backward`` maps each product of the gradient to the operand that it is the cotangent of.
    """

    query: relax.Var
    key: relax.Var
    value: relax.Var
    masks: tuple[relax.Var, ...]
    scale: float
    fill: float
    causal: int | None
    is_key_transposed: bool
    out: relax.Var
    out_cotangent: relax.Var | None
    backward: dict[relax.Var, str]


class FusedAttention(Simplified):
    """Re-emits a function with sites replaced by ``attention`` and ``attention_grad``, and simplifies around them."""

    def __init__(self, *args: Any) -> None:
        """Finds the attentions in the function, and the variables that the fused kernels compute instead.

        ``emitters`` maps each of these variables to a function that emits its new value. A fused kernel never stores
        the complete matrix of scores.
        """
        super().__init__(*args)
        self.emitters: dict[relax.Var, Callable[[], Tensor]] = {}
        for site in _sites(self.function):
            emitter = _AttentionEmitter(self, site)
            self.emitters[site.out] = emitter.forward
            for gradient_var, operand in site.backward.items():
                self.emitters[gradient_var] = partial(emitter.backward, operand)

    def bound(self, binding: Any) -> Any:
        emit_value = self.emitters.get(binding.var)
        return super().bound(binding) if emit_value is None else emit_value()


class _AttentionEmitter:
    """Emits the fused attention of one site, and its gradient."""

    def __init__(self, rewriter: FusedAttention, site: Site) -> None:
        self.rewriter, self.site = rewriter, site
        self.attrs = {"scale": site.scale, "fill": site.fill, "causal": site.causal}
        self.outputs: Any = None
        self.operands: list[Any] = []
        self.cotangents: Any = None

    def forward(self) -> Tensor:
        """Emits the fused attention op, and returns its output in the layout that the replaced matmul had."""
        site, value = self.site, self.rewriter.value
        key = self.swap_last_axes(value(site.key)) if site.is_key_transposed else value(site.key)
        # A causal mask is an attribute of the fused op, and not an operand.
        masks = site.masks if site.causal is None else ()
        self.operands = [value(site.query), key, value(site.value), *map(value, masks)]
        self.outputs = self.rewriter.bind_again("attention", self.operands, self.attrs)
        return self.exchange_heads_and_rows(self.outputs[0])

    def backward(self, operand: str) -> Tensor:
        """Returns the cotangent (gradient) of one operand of the attention; the first call emits the fused gradient.

        The fused gradient op computes the cotangents of all operands, so that it recomputes the scores only once.

        Args:
          operand: "query", "key", "value", or "key swapped" for a key whose last two axes are swapped.
        """
        if self.cotangents is None:
            out_cotangent = self.rewriter.value(self.site.out_cotangent)
            arguments = [self.exchange_heads_and_rows(out_cotangent), *self.outputs, *self.operands]
            self.cotangents = self.rewriter.bind_again("attention_grad", arguments, self.attrs)
        operand_names = ("query", "key", "value")
        position = operand_names.index(operand.removesuffix(" swapped"))
        cotangent = self.exchange_heads_and_rows(self.cotangents[position])
        return self.swap_last_axes(cotangent) if operand.endswith("swapped") else cotangent

    def exchange_heads_and_rows(self, x: Tensor) -> Tensor:
        """Transposes between the layouts (..., heads, rows, columns) and (..., rows, heads, columns)."""
        return self.transposed(x, rows_first(x.ndim))

    def swap_last_axes(self, x: Tensor) -> Tensor:
        return self.transposed(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def transposed(self, x: Tensor, perm: tuple[int, ...]) -> Tensor:
        return self.rewriter.bind_again("transpose", [x], {"perm": perm})


# -- finding


class NoMatch(Exception):
    """Raised where an op doesn't match the pattern of attention."""


def _sites(function: relax.Function) -> list[Site]:
    """Finds the attentions in a function: one site for each softmax that belongs to the pattern."""
    if not any(_is_softmax(binding.value) for binding in bindings_of(function.body)):
        return []
    graph = Graph(function)
    constants = ConstantValues(function, graph)
    return [site for use in graph.producers.values() if use.name == "softmax" for site in _site(graph, constants, use)]


def _is_softmax(value: Any) -> bool:
    return dialect.is_dialect(value) and value.op.name == "tvtf.softmax"


def _site(graph: Graph, constants: ConstantValues, softmax: Use) -> Iterator[Site]:
    """Yields the attention around a softmax, if there is one."""
    try:
        yield _match_site(graph, constants, softmax)
    except NoMatch:
        return


class _Scores(NamedTuple):
    """The path from the product of queries and keys to the softmax: its scale and its mask."""

    product: Use
    scale: float
    fill: float
    masks: tuple[relax.Var, ...]


def _match_site(graph: Graph, constants: ConstantValues, softmax: Use) -> Site:
    """Matches the attention around a softmax, with its gradient if there is one.

    Raises:
      NoMatch: an op around the softmax doesn't belong to attention.
    """
    (logits,) = softmax.inputs
    scores = _match_scores(graph, logits)
    _require(softmax.attrs["axis"] == len(logits.ty.shape) - 1 and graph.only_use(logits) is not None)
    uses = graph.uses.get(softmax.var, [])
    out = _required(next((use for use in uses if use and _is_product(use, softmax.var, None)), None))
    _require(_are_heads(scores.product, out))
    (query, key), (_, value) = scores.product.inputs, out.inputs
    site = Site(
        query=query,
        key=key,
        value=value,
        masks=scores.masks,
        scale=scores.scale,
        fill=scores.fill,
        causal=_causal_offset(constants, scores),
        is_key_transposed=not scores.product.attrs["transpose_b"],
        out=out.var,
        out_cotangent=None,
        backward={},
    )
    gradient_uses = [use for use in uses if use is not out]
    # Other uses of the softmax are its gradient, whose fusion is profitable only for small or several matrices of scores.
    _require(not gradient_uses or _pair_count(logits) <= MAX_RECOMPUTED_PAIRS or _has_heads(logits))
    return _match_gradient(graph, site, softmax.var, gradient_uses) if gradient_uses else site


def _causal_offset(constants: ConstantValues, scores: _Scores) -> int | None:
    """Returns the offset of a causal mask, or None for any other mask.

    In a causal mask, query i attends to keys up to i + offset, and later keys have a large negative score.

    Args:
      constants: the values of tensors that are known at compile time.
      scores: the attention scores, with their mask.
    """
    mask = constants.of(scores.masks[0]) if scores.masks else None
    if mask is None:
        return None
    # The mask must cover the complete matrix of scores: a broadcast one isn't a triangle.
    rows_and_columns = [int(dim) for dim in scores.product.var.ty.shape.values[-2:]]
    if list(mask.shape[-2:]) != rows_and_columns:
        return None
    # A mask of bools selects between the scores and the fill value.
    additive_mask = np.where(mask, 0, scores.fill) if mask.dtype == bool else mask
    triangle = triangle_of(additive_mask)
    # The mask must leave the scores inside of the triangle unchanged, and hide all others.
    if triangle is None or triangle.inside != 0:
        return None
    return triangle.offset if triangle.outside <= MASKING_VALUE else None


def _pair_count(scores: Any) -> int:
    """Returns the number of query-key pairs in a matrix of scores."""
    return int(np.prod([int(dim) for dim in scores.ty.shape.values[-2:]]))


def _has_heads(scores: Any) -> bool:
    """Returns whether there are several score matrices, which can be spread over cores."""
    return any(not isinstance(dim, tirx.IntImm) or int(dim) > 1 for dim in scores.ty.shape.values[:-2])


def _require(holds: bool) -> None:
    """Raises NoMatch unless a condition of the pattern holds."""
    if not holds:
        raise NoMatch


def _required(use: Use | None) -> Use:
    """Returns ``use``, or raises NoMatch if it is None: the pattern of attention needs this call."""
    if use is None:
        raise NoMatch
    return use


def _is_product(use: Use, first: Any, second: Any, transpose_a: bool = False, transpose_b: bool = False) -> bool:
    """Returns whether a call is ``matmul(first, second)`` with exactly these transposes; None matches any operand."""
    expected = {"transpose_a": transpose_a, "transpose_b": transpose_b, "output_type": None}
    pairs = zip(use.inputs, (first, second))
    return use.name == "matmul" and use.attrs == expected and all(y is None or x.same_as(y) for x, y in pairs)


def _are_heads(product: Use, out: Use) -> bool:
    """Returns whether queries, keys and values have equal batch dims, and static last two dims.

    Args:
      product: the product of queries and keys.
      out: the product of probabilities and values.
    """
    queries, keys = product.inputs
    values = out.inputs[1]
    shapes = [list(operand.ty.shape.values) for operand in (queries, keys, values)]
    batch_dims = [str(shape[:-2]) for shape in shapes]
    # Empty dims, of size 0, aren't fused either.
    is_static = all(isinstance(dim, tirx.IntImm) and int(dim) for shape in shapes for dim in shape[-2:])
    return batch_dims.count(batch_dims[0]) == len(batch_dims) and is_static


def _match_scores(graph: Graph, x: Any) -> _Scores:
    """Matches the input ``x`` of a softmax to attention scores: finds the product of queries and keys.

    Between the product and the softmax may be one mask, and products or quotients with scalar constants, which are
    combined into one scale.

    Raises:
      NoMatch: ``x`` is computed in another way.
    """
    masks: tuple[relax.Var, ...] = ()
    fill = scale = 1.0
    producer = graph.producers.get(x)
    if producer is not None and producer.name in ("add", "select"):
        x, masks, fill = _match_mask(graph, producer)
        producer = _producer_if_only_use(graph, x)
    while producer is not None and producer.name in ("multiply", "divide"):
        x, factor = _match_factor(producer)
        scale = scale * factor if producer.name == "multiply" else scale / factor
        producer = _producer_if_only_use(graph, x)
    product = _required(producer)
    _require(product.name == "matmul")
    _require(not product.attrs["transpose_a"] and product.attrs["output_type"] is None)
    return _Scores(product, scale, fill, masks)


def _producer_if_only_use(graph: Graph, x: Any) -> Use | None:
    """Returns the call that computes a value, if the value is used only once; else None."""
    return graph.producers.get(x) if graph.only_use(x) is not None else None


def _match_mask(graph: Graph, producer: Use) -> tuple[Any, tuple[relax.Var, ...], float]:
    """Splits a call that masks scores into the scores, the masks and the fill value of hidden scores.

    The call is ``select(mask, scores, fill)`` or ``scores + mask``. An additive mask has fill value 0.

    Raises:
      NoMatch: the call has neither form.
    """
    if producer.name == "select":
        mask, scores, fill = producer.inputs
        _require(_is_number(fill) and _same_shape(scores, producer.var))
        return scores, (mask,), _number(fill)
    # Addition is commutative: either operand may be the mask.
    for scores, mask in (producer.inputs, reversed(producer.inputs)):
        if _leads_to_product(graph, scores) and _same_shape(scores, producer.var):
            return scores, (mask,), 0.0
    raise NoMatch


def _leads_to_product(graph: Graph, x: Any) -> bool:
    """Returns whether a value is a matrix product, perhaps times scalars: scores, and not an additive mask."""
    producer = graph.producers.get(x)
    while producer is not None and producer.name in ("multiply", "divide") and any(map(_is_number, producer.inputs)):
        producer = graph.producers.get(next(i for i in producer.inputs if not _is_number(i)))
    return producer is not None and producer.name == "matmul"


def _same_shape(x: Any, y: Any) -> bool:
    return str(x.ty.shape) == str(y.ty.shape)


def _match_factor(producer: Use) -> tuple[Any, float]:
    """Splits ``x * number``, ``number * x`` or ``x / number`` into the tensor ``x`` and the number.

    Raises:
      NoMatch: the number isn't a scalar constant, or the tensor is broadcast.
    """
    x, number = producer.inputs
    # Only a product may have the scalar on the left.
    if producer.name == "multiply" and _is_number(x):
        x, number = number, x
    _require(_is_number(number) and _same_shape(x, producer.var))
    return x, _number(number)


def _is_number(x: Any) -> bool:
    """Returns whether an operand is a constant of one element."""
    return isinstance(x, ir.Constant) and int(np.prod(x.value.shape)) == 1


def _number(x: Any) -> float:
    return float(np.array(x.value.numpy(), np.float64).reshape(()))


# -- the gradient


def _match_gradient(graph: Graph, site: Site, probabilities: relax.Var, other_uses: list[Use | None]) -> Site:
    """Adds the gradient of an attention to its site.

    Args:
      site: the attention without its gradient.
      probabilities: the softmax's result.
      other_uses: the uses of the probabilities other than the forward product. All must belong to the gradient.
    """
    backward: dict[relax.Var, str] = {}
    cotangents: list[relax.Var] = []
    for use in map(_required, other_uses):
        if use.name == "softmax_grad" and use.inputs[1].same_as(probabilities):
            # The cotangent of the probabilities is that of the output times the transposed values.
            probability_cotangent = _required(graph.producers.get(use.inputs[0]))
            _require(graph.only_use(probability_cotangent.var) is use)
            _require(_is_product(probability_cotangent, None, site.value, transpose_b=True))
            cotangents.append(probability_cotangent.inputs[0])
            backward |= _match_gradient_of_scores(graph, site, use.var)
        elif _is_product(use, probabilities, None, transpose_a=True):
            cotangents.append(use.inputs[1])
            backward[use.var] = "value"
        else:
            raise NoMatch
    # Both parts of the sweep must start at one cotangent: the fused kernel takes one.
    _require(all(cotangent.same_as(cotangents[0]) for cotangent in cotangents))
    return site._replace(out_cotangent=cotangents[0], backward=backward)


def _match_gradient_of_scores(graph: Graph, site: Site, x: relax.Var) -> dict[relax.Var, str]:
    """Matches the part of attention's gradient between the softmax's gradient and the cotangents of query and key.

    Args:
      graph: the calls of the function.
      site: the forward attention whose gradient this may be.
      x: the result of ``softmax_grad``, the cotangent of the masked scores.

    Returns:
      The operand's name, such as "query", for each variable that holds a cotangent of query or key.

    Raises:
      NoMatch: another call uses the cotangent, or the calls aren't the gradient of this attention's mask and scale.
    """
    scale = 1.0
    use = graph.only_use(x)
    if site.masks and str(site.masks[0].ty.dtype) == "bool":
        selection = _required(use)
        _require(selection.name == "select")
        condition, selected, filled = selection.inputs
        # Masked scores don't depend on query and key: their cotangent must be zero.
        _require(condition.same_as(site.masks[0]))
        _require(selected.same_as(x) and _is_number(filled) and _number(filled) == 0)
        x = selection.var
        use = graph.only_use(selection.var)
    while use is not None and use.name in ("multiply", "divide"):
        unscaled, factor = _match_factor(use)
        _require(unscaled.same_as(x))
        scale = scale * factor if use.name == "multiply" else scale / factor
        x, use = use.var, graph.only_use(use.var)
    # Factors are multiplied in another order than on the way forward, and may be rounded differently.
    _require(abs(scale - site.scale) <= 1e-6 * abs(site.scale))
    return {product.var: _operand_of_gradient(site, x, product) for product in map(_required, graph.uses.get(x, []))}


def _operand_of_gradient(site: Site, score_cotangent: relax.Var, product: Use) -> str:
    """Returns which operand of attention a gradient product belongs to: "query", "key" or "key swapped".

    For ``scores = query @ key^T``, the gradient of the query is ``score_cotangent @ key``, for example. A "key swapped"
    has its last two axes swapped, as in ``scores = query @ key``.

    Args:
      site: the attention.
      score_cotangent: the cotangent of the attention scores.
      product: a matrix product that reads the cotangent.

    Raises:
      NoMatch: ``product`` isn't such a gradient.
    """
    if _is_product(product, score_cotangent, site.key, transpose_b=site.is_key_transposed):
        return "query"
    if not site.is_key_transposed and _is_product(product, score_cotangent, site.query, transpose_a=True):
        return "key"
    _require(site.is_key_transposed and _is_product(product, site.query, score_cotangent, transpose_a=True))
    return "key swapped"
