"""Restricts matrix products to the rows or columns that are read.

An example is the gradient of ``concat([x, h], 1) @ w`` with respect to ``h`` only: it is a slice of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import tvm
from tvm import relax

from tvtf.core.primitive import table
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.loop_dce import extracted_items
from tvtf.passes.graph.sites import SiteRewrite, rewrite_by_plan


def cut_products(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrites a slice of a matrix product to a product of slices, where the rest of the product isn't read."""
    return rewrite_by_plan(mod, _Cut)


class Site(NamedTuple):
    """A product that is split, and the range of pieces ``[first, end)`` that covers all that are read."""

    product: Use
    axis: int
    sizes: tuple[int, ...]
    first: int
    end: int


class _Cut(SiteRewrite):
    """Binds the pieces that are read, and None for the others."""

    @staticmethod
    def plan_of(function: relax.Function) -> dict[relax.Var, Site]:
        """Returns the sites by the variables of the splits; the split must be the product's only reader."""
        graph, used_items = Graph(function), extracted_items(function)
        sites = {}
        for split in graph.producers.values():
            if split.name == "split" and split.var in used_items:
                product = graph.producers.get(split.inputs[0])
                if product is not None and product.name == "matmul" and graph.only_use(product.var) is split:
                    sites.update(_matched_split(product, split, sorted(used_items[split.var])))
        return sites

    def rewritten(self, site: Site, binding: Any) -> Any:
        """Binds a site's split as the product of the slices that are read, split again."""
        read = site.sizes[site.first : site.end]
        product = self.product(site, sum(site.sizes[: site.first]), sum(read))
        pieces = table["split"].bind(product, sizes=read, axis=site.axis) if len(read) > 1 else [product]
        return (*[None] * site.first, *pieces, *[None] * (len(site.sizes) - site.end))

    def learn(self, var: relax.Var) -> None:
        """Skips the pieces: they have no symbolic dim that their product doesn't have."""
        if var not in self.plan:
            super().learn(var)

    def product(self, site: Site, begin: int, size: int) -> Any:
        """Binds the product with its left operand's rows or its right operand's columns sliced."""
        operands = [self.value(x) for x in site.product.inputs]
        rank = site.product.var.ty.ndim
        of_columns = site.axis == rank - 1
        side, transpose_attr = (1, "transpose_b") if of_columns else (0, "transpose_a")
        from_end = 1 if of_columns != site.product.attrs[transpose_attr] else 2
        operands[side] = _slice(operands[side], from_end, begin, size)
        return table["matmul"].bind(*operands, **site.product.attrs)


def _slice(x: Any, from_end: int, begin: int, size: int) -> Any:
    shape = list(x._type.shape)
    starts = [0] * len(shape)
    starts[-from_end], shape[-from_end] = begin, size
    steps = (1,) * len(shape)
    return table["strided_slice"].bind(x, begin=tuple(starts), size=tuple(shape), strides=steps, checked=())


def _matched_split(product: Use, split: Use, used_items: Sequence[int]) -> dict[relax.Var, Site]:
    sizes, axis = split.attrs["sizes"], split.attrs["axis"]
    first, end = used_items[0], used_items[-1] + 1
    is_known = all(isinstance(size, int) for size in sizes)
    if not is_known or end - first == len(sizes) or axis < product.var.ty.ndim - 2:
        return {}
    return {split.var: Site(product, axis, tuple(sizes), first, end)}
