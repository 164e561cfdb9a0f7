"""Finds the last use of each variable, where TVM's KillAfterLastUse doesn't mark it."""

from __future__ import annotations

from collections import defaultdict

from tvm import ir, relax

from tvtf.ir.dialect import bindings_of

KILL = "relax.vm.kill_object"


def last_uses(sequence: relax.SeqExpr) -> dict[int, list[relax.Var]]:
    """Returns the variables that each binding of a sequence uses for the last time, by the binding's position.

    TVM's KillAfterLastUse handles sequences without branches, for which the result is empty. In other sequences, that
    pass frees nothing after a branch: at the end of each inner sequence, it clears its record of live variables
    (KillInserter in src/relax/transform/kill_after_last_use.cc).
    """
    bindings = bindings_of(sequence)
    if not any(isinstance(binding.value, relax.If) for binding in bindings):
        return {}
    last_position: dict[relax.Var, int] = {}
    for position, binding in enumerate(bindings):
        # This overwrites the positions of earlier uses.
        last_position.update(dict.fromkeys(relax.analysis.free_vars(binding.value), position))
    live_at_end = set(relax.analysis.free_vars(sequence.body))
    intermediates = [binding.var for binding in bindings if binding.var not in live_at_end]
    return _group_by_last_use(intermediates, last_position, bindings)


def _group_by_last_use(
    variables: list[relax.Var], last_position: dict[relax.Var, int], bindings: list[relax.Binding]
) -> dict[int, list[relax.Var]]:
    """Groups variables by the position of the binding after which their memory can be freed.

    Shapes, which have no memory, and variables that TVM's own pass kills are left out.

    Args:
      variables: the variables to group.
      last_position: the position in ``bindings`` of each variable's last use; unused variables are missing.
      bindings: the bindings of the sequence.
    """
    groups: dict[int, list[relax.Var]] = defaultdict(list)
    for var in variables:
        position = last_position.get(var)
        if position is None or isinstance(var.ty, relax.ShapeType):
            continue
        if not is_kill(bindings[position].value):
            groups[position].append(var)
    return groups


def is_kill(value: ir.Expr) -> bool:
    """Returns whether a bound value is TVM's mark that a variable is dead."""
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == KILL
