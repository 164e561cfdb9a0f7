"""Fuses ``sum(x)`` and ``sum(x * y)`` into one pass over memory; gradients of normalization layers have such pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvtf.core.primitive import table
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.sites import SiteRewrite, rewrite_sites

_WIDE = ("float32", "float64")


def pair_sums(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrites each pair of ``sum(x)`` and ``sum(x * y)`` over the same leading axes to one ``paired_sums``."""
    return rewrite_sites(mod, _Paired)


class Pair(NamedTuple):
    """The sums of ``x`` and of ``x * y``; ``first`` is the variable that is bound earlier."""

    plain: Use
    product: Use
    x: Any
    y: Any
    first: relax.Var


class _Paired(SiteRewrite):
    """Binds both sums where the earlier of them stood."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.sums: dict[relax.Var, Any] = {}

    @staticmethod
    def find(function: relax.Function) -> dict[relax.Var, Pair]:
        """Returns the pairs, each under the variables of both of its sums."""
        graph = Graph(function)
        order = {var: position for position, var in enumerate(graph.producers)}
        pairs: dict[relax.Var, Pair] = {}
        for use in graph.producers.values():
            pair = _pair(graph, use, order) if _is_of_columns(use) else None
            if pair is not None and pair.plain.var not in pairs:
                pairs |= {pair.plain.var: pair, pair.product.var: pair}
        return pairs

    def rewritten(self, pair: Pair, binding: Any) -> Any:
        """Binds both sums at the first of a pair; at the second, returns the sum bound before."""
        if binding.var.same_as(pair.first):
            sums = table["paired_sums"].bind(self.value(pair.x), self.value(pair.y), axis=pair.plain.attrs["axis"])
            self.sums |= {pair.plain.var: sums[0], pair.product.var: sums[1]}
        return self.sums[binding.var]


def _is_of_columns(use: Use) -> bool:
    """Checks for a sum over leading axes, all of static extent: its results lie side by side in memory."""
    if use.name != "reduce_sum" or use.attrs["keepdims"] or not use.attrs["axis"]:
        return False
    (x,) = use.inputs
    is_known = all(isinstance(d, tirx.IntImm) for d in x.ty.shape.values)
    return is_known and str(x.ty.dtype) in _WIDE and x.ty.ndim - 1 not in use.attrs["axis"]


def _pair(graph: Graph, total: Use, order: dict[relax.Var, int]) -> Pair | None:
    """Finds the pair for a sum of products.

    Nothing else may read the product, and both operands must be bound before the earlier sum.
    """
    product = graph.producers.get(total.inputs[0])
    if product is None or product.name != "multiply" or graph.only_use(product.var) is None:
        return None
    for x, y in (product.inputs, product.inputs[::-1]):
        plain = next((u for u in graph.uses.get(x, []) if u and _is_of_columns(u) and u.attrs == total.attrs), None)
        if plain is not None and not x.same_as(y) and tvm_ffi.structural_equal(x.ty, y.ty):
            first = min(plain.var, total.var, key=order.__getitem__)
            if order.get(y, -1) < order[first] and _is_in_memory(graph, y):
                return Pair(plain, total, x, y, first)
    return None


def _is_in_memory(graph: Graph, y: Any) -> bool:
    """Returns whether another kernel reads ``y``, too; if not, it is cheaper to fuse its computation into the sum."""
    return y not in graph.producers or len(graph.uses[y]) > 1
