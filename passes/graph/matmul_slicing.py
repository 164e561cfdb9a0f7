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
    """Rewrites a matrix product of which only some rows or columns are read to a product of slices of its operands."""
    return rewrite_by_plan(mod, _SlicedProducts)


class Site(NamedTuple):
    """A matrix product that a split cuts into pieces, and the range ``[first, end)`` of the pieces that are read."""

    product: Use
    axis: int
    sizes: tuple[int, ...]
    first: int
    end: int


class _SlicedProducts(SiteRewrite):
    """Binds the pieces that are read, and None for the others."""

    @staticmethod
    def plan_of(function: relax.Function) -> dict[relax.Var, Site]:
        """Finds splits of a matrix product of which some pieces are never read.

        Returns a site (what to compute instead) for each such split, by the split's variable. The part of the product
        that nothing reads needn't be computed. An example is the gradient of ``concat([x, h], 1) @ w`` with respect to
        ``h`` only.
        """
        graph = Graph(function)
        used_items = extracted_items(function)
        sites = {}
        for split in graph.producers.values():
            if split.name != "split" or split.var not in used_items:
                continue
            product = graph.producers.get(split.inputs[0])
            if product is not None and product.name == "matmul" and graph.only_use(product.var) is split:
                used_pieces = sorted(used_items[split.var])
                sites.update(_sliced_split(product, split, used_pieces))
        return sites

    def rewritten(self, site: Site, binding: Any) -> Any:
        """Emits the part of a matrix product that is read, and splits this part into its pieces.

        Returns the tuple of all pieces, with None for the pieces that nothing reads.

        Args:
          site: the product, and the range of its pieces that are read.
          binding: the binding of the product.
        """
        sizes = site.sizes[site.first : site.end]
        begin = sum(site.sizes[: site.first])
        product = self.sliced_product(site, begin, size=sum(sizes))
        pieces = table["split"].bind(product, sizes=sizes, axis=site.axis) if len(sizes) > 1 else [product]
        # Pieces keep their positions in the tuple.
        unread_before = [None] * site.first
        unread_after = [None] * (len(site.sizes) - site.end)
        return (*unread_before, *pieces, *unread_after)

    def record_dims(self, var: relax.Var) -> None:
        """Skips the pieces: they have no symbolic dim that their product doesn't have."""
        if var not in self.plan:
            super().record_dims(var)

    def sliced_product(self, site: Site, begin: int, size: int) -> Any:
        """Emits a matrix product that computes only rows or columns ``begin`` to ``begin + size`` of the original.

        To compute some rows, the left operand is sliced; to compute some columns, the right operand is sliced. Either
        operand may be transposed.

        Args:
          site: the product, and the axis along which it is sliced.
          begin: the first row or column.
          size: the number of rows or columns.
        """
        operands = [self.value(x) for x in site.product.inputs]
        rank = site.product.var.ty.ndim
        slices_columns = site.axis == rank - 1
        sliced, transpose_attr = (1, "transpose_b") if slices_columns else (0, "transpose_a")
        is_transposed = site.product.attrs[transpose_attr]
        is_last_axis = slices_columns != is_transposed
        operands[sliced] = _slice(operands[sliced], 1 if is_last_axis else 2, begin, size)
        return table["matmul"].bind(*operands, **site.product.attrs)


def _slice(tensor: Any, from_end: int, begin: int, size: int) -> Any:
    """Emits a slice of a tensor along one axis.

    Args:
      tensor: the tensor.
      from_end: the axis, counted from the end: 1 is the last axis, 2 the one before.
      begin: the first index of the slice.
      size: the number of elements.
    """
    sizes = list(tensor._type.shape)
    starts = [0] * len(sizes)
    starts[-from_end], sizes[-from_end] = begin, size
    strides = (1,) * len(sizes)
    return table["strided_slice"].bind(tensor, begin=tuple(starts), size=tuple(sizes), strides=strides, checked=())


def _sliced_split(product: Use, split: Use, used_items: Sequence[int]) -> dict[relax.Var, Site]:
    """Returns how to compute only a part of a matrix product, if the first or last pieces of its split are never read.

    The result is a site (what to compute instead) by the split's variable, or empty. The pieces' sizes must be static.

    Args:
      product: the matrix product.
      split: the only reader of the product.
      used_items: the sorted indices of the pieces that are read.
    """
    sizes, axis = split.attrs["sizes"], split.attrs["axis"]
    first = used_items[0]
    end = used_items[-1] + 1
    is_static = all(isinstance(size, int) for size in sizes)
    reads_all = end - first == len(sizes)
    # Only rows and columns, the last two axes, are sliced: splits of batch dims stay.
    is_batch_axis = axis < product.var.ty.ndim - 2
    if not is_static or reads_all or is_batch_axis:
        return {}
    return {split.var: Site(product, axis, tuple(sizes), first, end)}
