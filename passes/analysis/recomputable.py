"""Finds values that are cheaper to compute again where they are read than to write to memory and read back.

A value with several readers is computed by a kernel of its own, unless FuseOps puts all readers into one kernel. For
``x - mean`` with ``x`` in memory, that kernel reads ``x`` and writes as much; without it, readers read ``x`` instead.
"""

from __future__ import annotations

from typing import Any

from tvm import tirx

from tvtf.core.primitive import Primitive, table
from tvtf.passes.analysis.use_def import Graph, Use

ARITHMETIC = frozenset(("add", "subtract", "multiply", "negative"))
"""Primitives that may be computed again by each reader; they have no attributes."""
ELEMENTWISE = ARITHMETIC | frozenset(
    ("divide", "square", "sqrt", "rsqrt", "exp", "log", "tanh", "sigmoid", "softplus", "relu", "erf")
)
"""Elementwise primitives that may read a value computed again: those of norms and activations."""
READERS = ELEMENTWISE | frozenset(("reduce_sum", "reduce_mean"))
_WIDE = ("float32", "float64")


def recomputing_primitive(use: Use) -> Primitive[Any]:
    """Returns the primitive by which several readers recompute a value with the same bits.

    Otherwise a product and the sum that reads it might become one fused multiply-add, which rounds only once. Then
    ``y - y`` might not be zero.
    """
    return table["rounded_product" if use.name == "multiply" else use.name]


class Recomputable:
    """The values of a function that should be computed again by each reader; ``values`` has their calls."""

    def __init__(self, graph: Graph) -> None:
        """Finds cheap elementwise results that would be stored, but that each reader can recompute.

        Each reader then reads the full-size operand instead of the result, and the result needs no memory.
        """
        self.graph = graph
        self.values: dict[Any, Use] = {}
        arithmetic = [use for use in graph.producers.values() if use.name in ARITHMETIC]
        sources = {use.var: _only_large_operand(graph, use) for use in arithmetic}
        candidates = {var: source for var, source in sources.items() if source is not None}
        post_dominators = _post_dominators(graph) if candidates else {}
        for var, source in candidates.items():
            # An operand with several readers is stored in memory, or is itself recomputed by each reader.
            is_available = source in self.values or len(graph.uses[source]) > 1
            if is_available and not self._is_fused_away(var, post_dominators[var]):
                self.values[var] = graph.producers[var]

    def _is_fused_away(self, var: Any, end: Use | None) -> bool:
        """Returns whether FuseOps fuses a value and all its readers into one kernel, which needn't store the value.

        All calls between the value and its post-dominator must be elementwise.

        Args:
          var: the variable of the value.
          end: the value's post-dominator: the first call on all paths from the value to the function's results.
        """
        if end is None or end.name not in READERS:
            return False
        worklist = [var]
        seen = {var}
        while worklist:
            for reader in self.graph.uses[worklist.pop()]:
                if reader is end:
                    continue
                if reader is None or reader.name not in ELEMENTWISE:
                    return False
                if reader.var not in seen:
                    seen.add(reader.var)
                    worklist.append(reader.var)
        return True


def _only_large_operand(graph: Graph, use: Use) -> Any:
    """Returns the only operand of an elementwise call that has the full size of the result, else None.

    Other operands are broadcast, and thus small. Returns None, too, if the result has fewer than two readers, or a
    reader that is neither elementwise nor a sum.
    """
    readers = graph.uses.get(use.var, ())
    if len(readers) < 2 or str(use.var.ty.dtype) not in _WIDE:
        return None
    if not all(reader is not None and reader.name in READERS for reader in readers):
        return None
    full_size_operands = [operand for operand in use.inputs if not is_broadcast(operand, use.var)]
    if len(full_size_operands) != 1 or full_size_operands[0] not in graph.producers:
        return None
    return full_size_operands[0]


def is_broadcast(x: Any, result: Any) -> bool:
    """Returns whether an operand is broadcast to its result's shape along some axis."""
    dims, result_dims = x.ty.shape.values[:], result.ty.shape.values[:]
    # As in NumPy, shapes are aligned at their last dim.
    padded = [None] * (len(result_dims) - len(dims)) + dims
    return any((dim is None or _is_one(dim)) and not _is_one(to) for dim, to in zip(padded, result_dims))


def _is_one(dim: Any) -> bool:
    return isinstance(dim, tirx.IntImm) and int(dim) == 1


def _post_dominators(graph: Graph) -> dict[Any, Use | None]:
    """Returns the immediate post-dominator of each value: the first call on all paths from the value to the results.

    Values without one have None. FuseOps fuses a value with its post-dominator if all calls between are elementwise.
    """
    post_dominators: dict[Any, Use | None] = {}
    depths: dict[Any, int] = {}
    for var in reversed(graph.producers):
        # None stands for a reader that isn't a call of a primitive, such as the function's result.
        readers = graph.uses.get(var, [None])
        post_dominator = readers[0]
        for reader in readers[1:]:
            post_dominator = _common_post_dominator(post_dominator, reader, post_dominators, depths)
        post_dominators[var] = post_dominator
        depths[var] = 0 if post_dominator is None else depths[post_dominator.var] + 1
    return post_dominators


def _common_post_dominator(
    a: Use | None, b: Use | None, post_dominators: dict[Any, Use | None], depths: dict[Any, int]
) -> Use | None:
    """Returns the closest common post-dominator of two calls in the post-dominator tree, or None.

    The deeper of the two calls is replaced by its parent until both are the same (Cooper, Harvey and Kennedy, "A
    Simple, Fast Dominance Algorithm", 2001).

    Args:
      a: the first call.
      b: the second call.
      post_dominators: the parent of each call in the tree.
      depths: the depth of each call in the tree.
    """
    while a is not b and a is not None and b is not None:
        if depths[a.var] >= depths[b.var]:
            a = post_dominators[a.var]
        else:
            b = post_dominators[b.var]
    return a if a is b else None
