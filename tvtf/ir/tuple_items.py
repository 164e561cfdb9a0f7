"""Tuples in the printed IR: ``a, b = while(...)`` in place of a tuple and its items, ``return a, b`` in place of one more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax


def outputs_of(func: relax.Function) -> tuple[list[Any], list[Any]]:
    """Returns a Relax function's results and its bindings; the binding that makes a tuple of the results is left out.

    A tuple that other bindings use, too, counts as the only result, and its binding stays.
    """
    bindings = [b for block in func.body.blocks for b in block.bindings]
    result = func.body.body
    if isinstance(result, relax.Tuple):
        return list(result.fields), bindings
    bound = next((b.value for b in bindings if b.var.same_as(result) and hasattr(b, "value")), None)
    others = [b for b in bindings if not b.var.same_as(result)]
    if isinstance(bound, relax.Tuple) and not any(_uses(b.value, result) for b in others if hasattr(b, "value")):
        return list(bound.fields), others
    return [result], bindings


def _uses(value: Any, var: Any) -> bool:
    return any(var.same_as(used) for used in relax.analysis.free_vars(value))


def unpacked(bindings: Sequence[Any], result: Any) -> dict[Any, list[Any]]:
    """Finds tuples that can be printed unpacked: only their items are used, and are bound right after the tuple.

    Returns, by the tuple's variable, the variables of its items; None stands for an item that nothing uses.
    """
    # The variables that are used otherwise than for their items.
    whole: set[Any] = {result} if isinstance(result, relax.Var) else set()
    items: dict[Any, list[Any]] = {}
    for before, binding in zip([None, *bindings], bindings):
        value = getattr(binding, "value", None)
        if not isinstance(value, relax.TupleGetItem):
            whole.update(() if value is None else relax.analysis.free_vars(value))
        elif before is not None and _follows(before.var, value.tuple_value, items):
            extracted = items.setdefault(value.tuple_value, [None] * len(value.tuple_value.ty.fields))
            extracted[value.index] = binding.var
        else:
            whole.add(value.tuple_value)
    return {var: extracted for var, extracted in items.items() if var not in whole}


def _follows(before: Any, source: Any, items: dict[Any, list[Any]]) -> bool:
    """Returns whether the binding before made the tuple, or took another item of it."""
    return bool(before.same_as(source)) or before in items.get(source, ())
