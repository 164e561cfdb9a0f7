"""Finds the last use of each variable, where TVM's KillAfterLastUse doesn't mark it."""

from __future__ import annotations

from collections import defaultdict

from tvm import ir, relax

KILL = "relax.vm.kill_object"


def last_uses(sequence: relax.SeqExpr) -> dict[int, list[relax.Var]]:
    """Returns, for each binding's position over all blocks, the variables of this sequence that it uses last.

    Empty for a sequence without a branch: there TVM's KillAfterLastUse has done the work. After a branch that pass
    forgets its record (KillInserter in src/relax/transform/kill_after_last_use.cc clears it at the end of each inner
    sequence), so every later intermediate would live until the function returns.
    """
    bindings = [binding for block in sequence.blocks for binding in block.bindings]
    if not any(isinstance(binding.value, relax.If) for binding in bindings):
        return {}
    last_use: dict[relax.Var, int] = {}
    for index, binding in enumerate(bindings):
        last_use.update(dict.fromkeys(relax.analysis.free_vars(binding.value), index))
    results = set(relax.analysis.free_vars(sequence.body))
    return _group_by_last_use(last_use, [b.var for b in bindings if b.var not in results], bindings)


def _group_by_last_use(
    last_use: dict[relax.Var, int], candidates: list[relax.Var], bindings: list[relax.Binding]
) -> dict[int, list[relax.Var]]:
    """Groups variables by the position of the binding that uses them last.

    Variables that TVM kills itself are left out, and shapes.
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
