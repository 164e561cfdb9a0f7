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
from tvtf.passes.analysis.dead_code import defining_vars

DIMS_OP = "tvtf.told_dims"
MAX_NAMED = 3
"""Maximum number of results that an error text names; the rest are counted."""


class Sized(NamedTuple):
    """A result whose size is computed at run time."""

    op: str
    shape: tuple[Any, ...]
    bytes: Any


def sized_after(function: relax.Function) -> dict[relax.Var, list[Sized]]:
    """Returns the results whose sizes the program computes, which need a run-time check that they can be allocated.

    The results are grouped by the variable after which their sizes are known: the last variable that defines one of
    their symbolic dims.
    """
    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    computed_dims = {binding.var for binding in bindings if _computes_dims(binding.value)}
    if not computed_dims:
        return {}
    defining_var = defining_vars(function.params, bindings)
    positions = {binding.var: position for position, binding in enumerate(bindings)}
    results_after: dict[relax.Var, dict[str, Sized]] = defaultdict(dict)
    for binding in bindings:
        for result in _sized_results(binding):
            symbols = () if isinstance(result.bytes, int) else undefined_vars(result.bytes)
            needed_vars = {defining_var[symbol] for symbol in symbols if symbol in defining_var}
            if needed_vars & computed_dims:
                last_needed = max(needed_vars, key=positions.__getitem__)
                # Results of equal size need one check.
                results_after[last_needed].setdefault(str(result.bytes), result)
    return {var: list(by_size.values()) for var, by_size in results_after.items()}


def _computes_dims(value: Any) -> bool:
    """Returns whether a value is the call that binds symbolic dims to computed numbers."""
    return dialect.is_dialect(value) and value.op.name == DIMS_OP


def _sized_results(binding: Any) -> list[Sized]:
    """Returns the size in bytes of each tensor that a dialect call returns, with the name of the op for error texts.

    The list is empty for other values, and for the op that binds dims, which returns only an empty tensor.
    """
    call, result_type = binding.value, binding.var.ty
    if not dialect.is_dialect(call) or _computes_dims(call):
        return []
    op_name = dialect.read(call).primitive.tf_name
    types = result_type.fields if isinstance(result_type, relax.TupleType) else [result_type]
    return [_sized_type(op_name, ty) for ty in types if isinstance(ty, relax.TensorType) and ty.shape is not None]


def _sized_type(op: str, ty: relax.TensorType) -> Sized:
    """Returns the shape and the bytes of a tensor that an op returns."""
    size: Any = tirx.IntImm("int64", max(1, ty.dtype.dtype.itemsize))
    for dim in ty.shape.values:
        size = size * dim
    return Sized(op, tuple(map(simplify_dim, ty.shape.values)), simplify_dim(size))


def too_large(results: Sequence[Sized]) -> str:
    """Returns the error text for results that can't be allocated, in TensorFlow's words."""
    named = ", ".join(f"{result.op} {show_shape(result.shape)}" for result in results[:MAX_NAMED])
    others = "" if len(results) <= MAX_NAMED else f" and {len(results) - MAX_NAMED} more"
    return f"OOM when allocating a tensor of a size that the program computes, one of: {named}{others}"
