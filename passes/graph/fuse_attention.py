"""Fuses traced attention (matmul, mask, softmax, matmul) into one kernel forward and one backward.

The fused kernels never store the matrix of all scores. The forward pattern is
``matmul(softmax(matmul(q, k) * scale + mask), v)``; the backward pattern is what the ``vjp`` rules make of it. A
softmax is replaced only if every use of it, and of all values between it and its operands, belongs to the pattern:
otherwise the scores would have to be stored anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import ir, relax, tirx

from tvtf.core.tensor import Tensor
from tvtf.ir import dialect
from tvtf.ir.interpreter import reemit
from tvtf.ops.fused_attention import rows_first
from tvtf.passes.analysis.causal_mask import Known, triangle_of
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.simplify import Simplified


def fuse_attention(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces each :class:`Site`; returns the same module where there is none."""
    if not any(_sites(f) for f in mod.functions.values() if isinstance(f, relax.Function)):
        return mod
    mod = relax.transform.EliminateCommonSubexpr()(reemit(mod, FusedAttention))
    return drop_dead(mod)


MAX_RECOMPUTED_PAIRS = 2**16
"""Query-key pairs up to which the gradient of a single head recomputes the probabilities: that many fit the cache.

Up to 256 rows the fused gradient is 1.1 to 1.6 times as fast as separate kernels; at 512 and 1,024 it took 1.9 and 2.3
times as long.
"""


MASKING_VALUE = -1e4
"""The largest fill or additive mask value that counts as masking: ``exp`` of such a score is zero beside any other."""


class Site(NamedTuple):
    """One matched attention: its operands and results.

    ``key`` has its last two axes swapped where ``is_swapped``. ``to_out`` is the cotangent of ``out``; ``backward``
    maps each product of the gradient to the operand that it is the cotangent of.
    """

    query: relax.Var
    key: relax.Var
    value: relax.Var
    masks: tuple[relax.Var, ...]
    scale: float
    fill: float
    causal: int | None
    is_swapped: bool
    out: relax.Var
    to_out: relax.Var | None
    backward: dict[relax.Var, str]


class FusedAttention(Simplified):
    """Re-emits a function with sites replaced by ``attention`` and ``attention_grad``, and simplifies around them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.emitters: dict[relax.Var, Callable[[], Tensor]] = {}
        for site in _sites(self.function):
            parts = _Parts(self, site)
            self.emitters[site.out] = parts.forward
            self.emitters |= {
                var: lambda parts=parts, role=role: parts.back(role) for var, role in site.backward.items()
            }

    def bound(self, binding: Any) -> Any:
        emit_value = self.emitters.get(binding.var)
        return super().bound(binding) if emit_value is None else emit_value()


class _Parts:
    """Emits the tensors of one site."""

    def __init__(self, walk: FusedAttention, site: Site) -> None:
        self.walk, self.site = walk, site
        self.attrs = {"scale": site.scale, "fill": site.fill, "causal": site.causal}
        self.outputs: Any = None
        self.operands: list[Any] = []
        self.cotangents: Any = None

    def forward(self) -> Tensor:
        site, value = self.site, self.walk.value
        key = self.swapped(value(site.key)) if site.is_swapped else value(site.key)
        masks = site.masks if site.causal is None else ()
        self.operands = [value(site.query), key, value(site.value), *map(value, masks)]
        self.outputs = self.walk.bind_again("attention", self.operands, self.attrs)
        return self.heads_first(self.outputs[0])

    def back(self, role: str) -> Tensor:
        if self.cotangents is None:
            ct = self.heads_first(self.walk.value(self.site.to_out))
            self.cotangents = self.walk.bind_again("attention_grad", [ct, *self.outputs, *self.operands], self.attrs)
        cotangent = self.heads_first(self.cotangents[("query", "key", "value").index(role.removesuffix(" swapped"))])
        return self.swapped(cotangent) if role.endswith("swapped") else cotangent

    def heads_first(self, x: Tensor) -> Tensor:
        return self.transposed(x, rows_first(x.ndim))

    def swapped(self, x: Tensor) -> Tensor:
        return self.transposed(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))

    def transposed(self, x: Tensor, perm: tuple[int, ...]) -> Tensor:
        return self.walk.bind_again("transpose", [x], {"perm": perm})


# -- finding


class Unknown(Exception):
    """Raised where a use doesn't match the pattern of attention."""


def _sites(function: relax.Function) -> list[Site]:
    """Returns every attention in a function."""
    if not any(_is_softmax(b.value) for block in function.body.blocks for b in block.bindings):
        return []
    graph = Graph(function)
    known = Known(function, graph)
    return [site for use in graph.producers.values() if use.name == "softmax" for site in _site(graph, known, use)]


def _is_softmax(value: Any) -> bool:
    return dialect.is_dialect(value) and value.op.name == "tvtf.softmax"


def _site(graph: Graph, known: Known, softmax: Use) -> Iterator[Site]:
    try:
        yield _matched(graph, known, softmax)
    except Unknown:
        return


class _Scores(NamedTuple):
    """The path from the product of queries and keys to the softmax: its scale and its mask."""

    product: Use
    scale: float
    fill: float
    masks: tuple[relax.Var, ...]


def _matched(graph: Graph, known: Known, softmax: Use) -> Site:
    """Matches the attention around a softmax, with its gradient if there is one.

    Raises:
      Unknown: an op around the softmax doesn't belong to attention.
    """
    (logits,) = softmax.inputs
    scores = _scores(graph, logits)
    _require(softmax.attrs["axis"] == len(logits.ty.shape) - 1 and graph.only_use(logits) is not None)
    uses = graph.uses.get(softmax.var, [])
    out = _known(next((u for u in uses if u and _is_product(u, softmax.var, None)), None))
    _require(_are_heads(scores.product, out))
    key_is_swapped = not scores.product.attrs["transpose_b"]
    query, key = scores.product.inputs
    form = scores.scale, scores.fill, _causal(known, scores), key_is_swapped
    site = Site(query, key, out.inputs[1], scores.masks, *form, out.var, None, {})
    gradient_uses = [u for u in uses if u is not out]
    _require(not gradient_uses or _pairs(logits) <= MAX_RECOMPUTED_PAIRS or _has_heads(logits))
    return _with_gradient(graph, site, softmax.var, gradient_uses) if gradient_uses else site


def _causal(known: Known, scores: _Scores) -> int | None:
    """Returns the offset of a causal mask (query i sees keys up to i + offset), or None for any other mask."""
    mask = known.of(scores.masks[0]) if scores.masks else None
    if mask is None or list(mask.shape[-2:]) != list(map(int, scores.product.var.ty.shape.values[-2:])):
        return None
    # A mask of bools selects between the scores and the fill value.
    triangle = triangle_of(np.where(mask, 0, scores.fill) if mask.dtype == bool else mask)
    is_hiding = triangle is not None and triangle.inside == 0 and triangle.outside <= MASKING_VALUE
    return triangle.offset if triangle is not None and is_hiding else None


def _pairs(scores: Any) -> int:
    return int(np.prod([int(dim) for dim in scores.ty.shape.values[-2:]]))


def _has_heads(scores: Any) -> bool:
    """Returns whether there are several score matrices, which can be spread over cores."""
    return any(not isinstance(dim, tirx.IntImm) or int(dim) > 1 for dim in scores.ty.shape.values[:-2])


def _require(holds: bool) -> None:
    if not holds:
        raise Unknown


def _known(use: Use | None) -> Use:
    if use is None:
        raise Unknown
    return use


def _is_product(use: Use, first: Any, second: Any, transpose_a: bool = False, transpose_b: bool = False) -> bool:
    """Returns whether a call is ``matmul(first, second)`` with these transposes; None stands for any operand."""
    expected = {"transpose_a": transpose_a, "transpose_b": transpose_b, "output_type": None}
    pairs = zip(use.inputs, (first, second))
    return use.name == "matmul" and use.attrs == expected and all(y is None or x.same_as(y) for x, y in pairs)


def _are_heads(product: Use, out: Use) -> bool:
    """Returns whether queries, keys and values have the same batch dims, and matrices of static shape."""
    shapes = [list(x.ty.shape.values) for x in (*product.inputs, out.inputs[1])]
    leads = [str(shape[:-2]) for shape in shapes]
    is_known = all(isinstance(dim, tirx.IntImm) and int(dim) for shape in shapes for dim in shape[-2:])
    return leads.count(leads[0]) == len(leads) and is_known


def _scores(graph: Graph, x: Any) -> _Scores:
    """Walks back from the softmax's input, over at most one mask and any scalar factors, to the product."""
    masks: tuple[relax.Var, ...] = ()
    fill = scale = 1.0
    producer = graph.producers.get(x)
    if producer is not None and producer.name in ("add", "select"):
        x, masks, fill = _masked(graph, producer)
        producer = _inner(graph, x)
    while producer is not None and producer.name in ("multiply", "divide"):
        x, factor = _factor(producer)
        scale = scale * factor if producer.name == "multiply" else scale / factor
        producer = _inner(graph, x)
    product = _known(producer)
    _require(product.name == "matmul" and not product.attrs["transpose_a"] and product.attrs["output_type"] is None)
    return _Scores(product, scale, fill, masks)


def _inner(graph: Graph, x: Any) -> Use | None:
    return graph.producers.get(x) if graph.only_use(x) is not None else None


def _masked(graph: Graph, producer: Use) -> tuple[Any, tuple[relax.Var, ...], float]:
    """Splits a masking ``select`` or ``add`` into the scores, the mask and the fill value (0 for an additive mask)."""
    if producer.name == "select":
        condition, x, filled = producer.inputs
        _require(_is_number(filled) and _same_shape(x, producer.var))
        return x, (condition,), _number(filled)
    for x, mask in (producer.inputs, reversed(producer.inputs)):
        if _leads_to_product(graph, x) and _same_shape(x, producer.var):
            return x, (mask,), 0.0
    raise Unknown


def _leads_to_product(graph: Graph, x: Any) -> bool:
    producer = graph.producers.get(x)
    while producer is not None and producer.name in ("multiply", "divide") and any(map(_is_number, producer.inputs)):
        producer = graph.producers.get(next(i for i in producer.inputs if not _is_number(i)))
    return producer is not None and producer.name == "matmul"


def _same_shape(x: Any, y: Any) -> bool:
    return str(x.ty.shape) == str(y.ty.shape)


def _factor(producer: Use) -> tuple[Any, float]:
    """Splits a product or quotient with a scalar constant into the tensor and the scalar."""
    x, y = producer.inputs
    if producer.name == "multiply" and _is_number(x):
        x, y = y, x
    _require(_is_number(y) and _same_shape(x, producer.var))
    return x, _number(y)


def _is_number(x: Any) -> bool:
    return isinstance(x, ir.Constant) and int(np.prod(x.value.shape)) == 1


def _number(x: Any) -> float:
    return float(np.array(x.value.numpy(), np.float64).reshape(()))


# -- the gradient


def _with_gradient(graph: Graph, site: Site, probabilities: relax.Var, uses: list[Use | None]) -> Site:
    """Adds the backward part to a site; every remaining use of the probabilities must belong to it."""
    backward: dict[relax.Var, str] = {}
    cotangents: list[relax.Var] = []
    for use in map(_known, uses):
        if use.name == "softmax_grad" and use.inputs[1].same_as(probabilities):
            inward = _known(graph.producers.get(use.inputs[0]))
            _require(graph.only_use(inward.var) is use)
            _require(_is_product(inward, None, site.value, transpose_b=True))
            cotangents.append(inward.inputs[0])
            backward |= _through_scores(graph, site, use.var)
        elif _is_product(use, probabilities, None, transpose_a=True):
            cotangents.append(use.inputs[1])
            backward[use.var] = "value"
        else:
            raise Unknown
    # Both parts of the sweep must start at one cotangent: the fused kernel takes one.
    _require(all(ct.same_as(cotangents[0]) for ct in cotangents))
    return site._replace(to_out=cotangents[0], backward=backward)


def _through_scores(graph: Graph, site: Site, x: relax.Var) -> dict[relax.Var, str]:
    """Follows the scores' cotangent through the mask and the factors to the cotangents of query and key."""
    scale = 1.0
    use = graph.only_use(x)
    if site.masks and str(site.masks[0].ty.dtype) == "bool":
        chosen = _known(use)
        _require(chosen.name == "select" and chosen.inputs[0].same_as(site.masks[0]))
        _require(chosen.inputs[1].same_as(x) and _is_number(chosen.inputs[2]) and _number(chosen.inputs[2]) == 0)
        x, use = chosen.var, graph.only_use(chosen.var)
    while use is not None and use.name in ("multiply", "divide"):
        inner, factor = _factor(use)
        _require(inner.same_as(x))
        scale = scale * factor if use.name == "multiply" else scale / factor
        x, use = use.var, graph.only_use(use.var)
    # Factors are multiplied in another order than on the way forward.
    _require(abs(scale - site.scale) <= 1e-6 * abs(site.scale))
    return {u.var: _role(site, x, u) for u in map(_known, graph.uses.get(x, []))}


def _role(site: Site, scores: relax.Var, use: Use) -> str:
    """Returns the operand whose cotangent a product with the scores' cotangent is."""
    if _is_product(use, scores, site.key, transpose_b=site.is_swapped):
        return "query"
    if not site.is_swapped and _is_product(use, scores, site.query, transpose_a=True):
        return "key"
    _require(site.is_swapped and _is_product(use, site.query, scores, transpose_a=True))
    return "key swapped"
