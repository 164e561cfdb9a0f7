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


def again(use: Use) -> Primitive[Any]:
    """Returns the primitive that computes a value again with the same bits.

    A product that is added to something would be rounded once, together with the sum, so that ``y - y`` might not be zero
    where readers compute ``y`` again.
    """
    return table["rounded_product" if use.name == "multiply" else use.name]


class Recomputable:
    """The values of a function that should be computed again by each reader; ``values`` has their calls."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.values: dict[Any, Use] = {}
        sources = {use.var: _source(graph, use) for use in graph.producers.values() if use.name in ARITHMETIC}
        candidates = {var: source for var, source in sources.items() if source is not None}
        ends = _ends_of_fusion(graph) if candidates else {}
        for var, source in candidates.items():
            # In memory or computed again, the operand has the same bits for each copy of its reader.
            is_at_hand = source in self.values or len(graph.uses[source]) > 1
            if is_at_hand and not self._is_fused(var, ends[var]):
                self.values[var] = graph.producers[var]

    def _is_fused(self, var: Any, end: Use | None) -> bool:
        """Returns whether FuseOps puts a value and all that lies between it and its post-dominator into one kernel."""
        if end is None or end.name not in READERS:
            return False
        todo, seen = [var], {var}
        while todo:
            for reader in self.graph.uses[todo.pop()]:
                if reader is end:
                    continue
                if reader is None or reader.name not in ELEMENTWISE:
                    return False
                if reader.var not in seen:
                    seen.add(reader.var)
                    todo.append(reader.var)
        return True


def _source(graph: Graph, use: Use) -> Any:
    """Returns the only operand as large as the result, if each of several readers may compute the result; else None."""
    readers = graph.uses.get(use.var, ())
    if len(readers) < 2 or str(use.var.ty.dtype) not in _WIDE:
        return None
    if not all(reader is not None and reader.name in READERS for reader in readers):
        return None
    large = [x for x in use.inputs if not is_broadcast(x, use.var)]
    return large[0] if len(large) == 1 and large[0] in graph.producers else None


def is_broadcast(x: Any, result: Any) -> bool:
    """Returns whether an operand is broadcast to its result along some axis."""
    dims, wide = x.ty.shape.values[:], result.ty.shape.values[:]
    padded = [None] * (len(wide) - len(dims)) + dims
    return any((dim is None or _is_one(dim)) and not _is_one(whole) for dim, whole in zip(padded, wide))


def _is_one(dim: Any) -> bool:
    return isinstance(dim, tirx.IntImm) and int(dim) == 1


def _ends_of_fusion(graph: Graph) -> dict[Any, Use | None]:
    """Returns the immediate post-dominator of each value: the first call that all paths from it lead to; None if none.

    FuseOps puts a value into the kernel of its post-dominator if all calls between are elementwise.
    """
    ends: dict[Any, Use | None] = {}
    depths: dict[Any, int] = {}
    for var in reversed(graph.producers):
        readers = graph.uses.get(var, [None])
        end = readers[0]
        for reader in readers[1:]:
            end = _common(end, reader, ends, depths)
        ends[var] = end
        depths[var] = 0 if end is None else depths[end.var] + 1
    return ends


def _common(a: Use | None, b: Use | None, ends: dict[Any, Use | None], depths: dict[Any, int]) -> Use | None:
    """Returns the first call that all paths from two calls lead to."""
    while a is not b and a is not None and b is not None:
        if depths[a.var] >= depths[b.var]:
            a = ends[a.var]
        else:
            b = ends[b.var]
    return a if a is b else None
