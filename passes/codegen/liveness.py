"""Finds the last use of each variable, where TVM's KillAfterLastUse doesn't mark it."""

from __future__ import annotations

from collections import defaultdict

from tvm import ir, relax

from tvtf.ir.dialect import bindings_of

KILL = "relax.vm.kill_object"


def last_uses(sequence: relax.SeqExpr) -> dict[int, list[relax.Var]]:
    """Returns the variables that each binding of a sequence uses for the last time, by the binding's position.

    The result is empty for a sequence without branches, which TVM's KillAfterLastUse handles. After a branch that pass
    forgets which variables are live (KillInserter in src/relax/transform/kill_after_last_use.cc clears its record at
    the end of each inner sequence). Every later value would then live until the function returns.
    """
    bindings = bindings_of(sequence)
    if not any(isinstance(binding.value, relax.If) for binding in bindings):
        return {}
    last_use: dict[relax.Var, int] = {}
    for index, binding in enumerate(bindings):
        last_use.update(dict.fromkeys(relax.analysis.free_vars(binding.value), index))
    results = set(relax.analysis.free_vars(sequence.body))
    return _group_by_last_use(last_use, [binding.var for binding in bindings if binding.var not in results], bindings)


def _group_by_last_use(
    last_use: dict[relax.Var, int], candidates: list[relax.Var], bindings: list[relax.Binding]
) -> dict[int, list[relax.Var]]:
    """Groups variables by the position of the binding that uses them last.

    Their memory can be freed after that binding. Shapes, and variables that TVM's own pass kills, are left out.
    """
    used_last: dict[int, list[relax.Var]] = defaultdict(list)
    for var in candidates:
        index = last_use.get(var)
        if index is not None and not is_kill(bindings[index].value) and not isinstance(var.ty, relax.ShapeType):
            used_last[index].append(var)
    return used_last


def is_kill(value: ir.Expr) -> bool:
    """Returns whether a bound value is TVM's mark that a variable is dead."""
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == KILL
