"""Folds constant scales of a convolution's output channels into its filter, as batch norm at inference has them."""

from __future__ import annotations

from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx

from tvtf.core.primitive import table
from tvtf.passes.analysis.use_def import Graph, Use
from tvtf.passes.graph.sites import SiteRewrite, rewrite_by_plan

CONSTANTS = "tvtf.constants"
_WIDE = ("float32", "float64")


def fold_scales(mod: tvm.IRModule) -> tvm.IRModule:
    """Rewrites ``conv(x, w) * s`` with constant ``w`` and ``s`` to ``conv(x, w * s)``; ``w * s`` is computed once."""
    return rewrite_by_plan(mod, Folded)


class Site(NamedTuple):
    """A convolution whose only reader is a product with ``scale``."""

    conv: Use
    scale: Any


class Folded(SiteRewrite):
    """Replaces each site's product by a convolution with a scaled filter."""

    @staticmethod
    def plan_of(function: relax.Function) -> dict[relax.Var, Site]:
        """Finds convolutions with a constant filter that are multiplied by a constant scale.

        Returns a site (the convolution and the scale) for each such product, by the product's variable. A value counts
        as constant if it is a constant parameter, or is computed from constants alone.
        """
        positions = (function.attrs or {}).get(CONSTANTS, [])
        constants = {function.params[int(position)] for position in positions}
        if not constants:
            return {}
        graph = Graph(function)
        sites: dict[relax.Var, Site] = {}
        for use in graph.producers.values():
            if use.inputs and table[use.name].pure and all(_is_constant(x, constants) for x in use.inputs):
                constants.add(use.var)  # producers come before their readers, so that one pass suffices
            elif use.name == "multiply":
                sites.update((use.var, site) for site in _matched_product(graph, use, constants))
        return sites

    def rewritten(self, site: Site, binding: Any) -> Any:
        """Binds a scaled convolution as a convolution with a scaled filter."""
        x, w, scale = map(self.value, (*site.conv.inputs, site.scale))
        return table["conv"].bind(x, table["multiply"].bind(w, scale), **site.conv.attrs)


def _is_constant(x: Any, constants: set[Any]) -> bool:
    return isinstance(x, ir.Constant) or x in constants


def _matched_product(graph: Graph, product: Use, constants: set[Any]) -> list[Site]:
    """Matches ``conv(x, w) * scale`` with constant ``w`` and ``scale`` of dtype float32 or float64.

    Returns a list with one site (the convolution and the scale), or an empty list. The product's operands may be in
    either order.

    Args:
      graph: the function's use-def chains.
      product: the call of the multiplication.
      constants: the constant variables.
    """
    for result, scale in (product.inputs, product.inputs[::-1]):
        conv = graph.producers.get(result)
        # Another reader of the convolution's result needs it without the scale.
        if conv is None or conv.name != "conv" or graph.only_use(result) is not product:
            continue
        _image, filters = conv.inputs
        if not _is_constant(scale, constants) or not _is_constant(filters, constants):
            continue
        if str(filters.ty.dtype) in _WIDE and _is_per_channel(scale, filters):
            return [Site(conv, scale)]
    return []


def _is_per_channel(scale: Any, filters: Any) -> bool:
    """Returns whether a scale has one number for each output channel of a filter.

    Output channels are the filter's last axis. The scale's other dims must be 1, as in ``(1, 1, channels)``.
    """
    rank = scale.ty.ndim
    channels = int(filters.ty.shape.values[-1])
    expected_shape = [1] * (rank - 1) + [channels]
    static_dims = [int(dim) for dim in scale.ty.shape.values if isinstance(dim, tirx.IntImm)]
    return 1 <= rank <= filters.ty.ndim and static_dims == expected_shape
