"""Tuples in the printed IR: ``a, b = while(...)`` in place of a tuple and its items, ``return a, b`` in place of one more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax

from tvtf.ir.dialect import bindings_of


def outputs_of(func: relax.Function) -> tuple[list[Any], list[Any]]:
    """Returns a Relax function's results and its bindings, for printing.

    If the function returns a tuple, the results are the tuple's items, and the binding of the tuple is left out. If other
    bindings use the tuple, too, the tuple itself is the only result, and its binding is included.
    """
    bindings = bindings_of(func.body)
    result = func.body.body
    if isinstance(result, relax.Tuple):
        return list(result.fields), bindings
    value_of_result = None
    others = []
    for binding in bindings:
        if binding.var.same_as(result):
            value_of_result = getattr(binding, "value", None)
        else:
            others.append(binding)
    if isinstance(value_of_result, relax.Tuple):
        other_values = [binding.value for binding in others if hasattr(binding, "value")]
        if not any(_uses(value, result) for value in other_values):
            return list(value_of_result.fields), others
    return [result], bindings


def _uses(value: Any, var: Any) -> bool:
    return any(var.same_as(used) for used in relax.analysis.free_vars(value))


def unpacked(bindings: Sequence[Any], result: Any) -> dict[Any, list[Any]]:
    """Finds tuples that can be printed as ``a, b = call(x)``: only their items are used, and are bound right after them.

    Args:
      bindings: the bindings of a function or branch, in order.
      result: the expression that it returns.

    Returns:
      A mapping from a tuple's variable to the variables of its items; None stands for an item that nothing uses.
    """
    # Variables that are used as a whole, not only for their items.
    whole: set[Any] = {result} if isinstance(result, relax.Var) else set()
    items: dict[Any, list[Any]] = {}
    for previous, binding in zip([None, *bindings], bindings):
        value = getattr(binding, "value", None)
        if not isinstance(value, relax.TupleGetItem):
            whole.update(() if value is None else relax.analysis.free_vars(value))
        elif previous is not None and _follows(previous.var, value.tuple_value, items):
            extracted = items.setdefault(value.tuple_value, [None] * len(value.tuple_value.ty.fields))
            extracted[value.index] = binding.var
        else:
            whole.add(value.tuple_value)
    return {var: extracted for var, extracted in items.items() if var not in whole}


def _follows(previous: Any, source: Any, items: dict[Any, list[Any]]) -> bool:
    """Returns whether the variable ``previous`` is the tuple ``source``, or one of the tuple's items found so far."""
    return bool(previous.same_as(source)) or previous in items.get(source, ())
