"""Finds results whose sizes the program computes, for a run-time check that such a size can be allocated.

The check covers results that fusion never stores, too. Without it, a loop over 1 << 61 elements that are never stored
would run for centuries, where TensorFlow raises ResourceExhaustedError.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from tvm import relax, tirx
from tvm.tirx.analysis import undefined_vars

from tvtf.core.shape import show_shape, simplify_dim
from tvtf.ir import dialect
from tvtf.passes.analysis.dead_code import makers_of_dims

DIMS_OP = "tvtf.told_dims"
MAX_NAMED = 3
"""Results that an error text names; the rest are counted."""


class Sized(NamedTuple):
    """A result whose size is computed at run time."""

    op: str
    shape: tuple[Any, ...]
    bytes: Any


def sized_after(function: relax.Function) -> dict[relax.Var, list[Sized]]:
    """Returns the results of computed size, grouped by the binding that computes the last of their dims."""
    bindings = [b for block in function.body.blocks for b in block.bindings]
    makers = makers_of_dims(function.params, bindings)
    order = {b.var: i for i, b in enumerate(bindings)}
    dim_bindings = {b.var for b in bindings if dialect.is_dialect(b.value) and b.value.op.name == DIMS_OP}
    results_after: dict[relax.Var, dict[str, Sized]] = defaultdict(dict)
    for binding in bindings if dim_bindings else ():
        for each in _results(binding):
            used = (
                set() if isinstance(each.bytes, int) else {makers[s] for s in undefined_vars(each.bytes) if s in makers}
            )
            if used & dim_bindings:
                last = max(used, key=order.__getitem__)
                # Results of equal size need one check.
                results_after[last].setdefault(str(each.bytes), each)
    return {var: list(each.values()) for var, each in results_after.items()}


def _results(binding: Any) -> list[Sized]:
    if not dialect.is_dialect(binding.value) or binding.value.op.name == DIMS_OP:
        return []
    op = dialect.read(binding.value).primitive.tf_name
    types = binding.var.ty.fields if isinstance(binding.var.ty, relax.TupleType) else [binding.var.ty]
    return [_sized(op, t) for t in types if isinstance(t, relax.TensorType) and t.shape is not None]


def _sized(op: str, ty: relax.TensorType) -> Sized:
    size: Any = tirx.IntImm("int64", max(1, ty.dtype.dtype.itemsize))
    for dim in ty.shape.values:
        size = size * dim
    return Sized(op, tuple(map(simplify_dim, ty.shape.values)), simplify_dim(size))


def too_large(results: Sequence[Sized]) -> str:
    """Returns the error text for results that can't be allocated, in TensorFlow's words."""
    named = ", ".join(f"{r.op} {show_shape(r.shape)}" for r in results[:MAX_NAMED])
    more = "" if len(results) <= MAX_NAMED else f" and {len(results) - MAX_NAMED} more"
    return f"OOM when allocating a tensor of a size that the program computes, one of: {named}{more}"
