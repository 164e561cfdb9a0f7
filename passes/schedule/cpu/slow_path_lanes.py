"""Values with a slow path for rare arguments: checks a full vector, and runs lane by lane only if one needs it."""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.ir import Call
from tvm.tirx import BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.kernel import substitute, variables

CHOICES = {"prim.if_then_else", "tirx.if_then_else"}
RARE_MARKS = {"prim.likely", "tirx.likely"}


def with_slow_paths(body: Stmt) -> Stmt:
    """Rewrites vector loops over values that have a slow path for rare arguments (`tvtf.ops.kernels.approx.with_slow_path`).

    Each loop becomes a branch: the fast vector code runs if no lane has a rare argument, else the slow code runs lane by
    lane.
    """

    def with_branches(node: For) -> Stmt:
        """Rewrites one vectorized loop. In the result, vectors without rare arguments skip the slow path."""
        if node.kind != ForKind.VECTORIZED or not rare_choices_in(node.body):
            return node
        parts = list(node.body.seq) if isinstance(node.body, SeqStmt) else [node.body]
        # Only for stores of vectors of static length can all lanes be checked at once. Other loops become serial.
        if not all(isinstance(part, BufferStore) for part in parts) or emit.static(node.extent) is None:
            return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, node.body)
        # In a vector loop, each statement runs for all lanes before the next statement. So each gets its own branch.
        return emit.sequence([_branch_on_all_lanes(node, part) for part in parts])

    return structural_map(structural_map(body, (For, with_branches)), (BufferStore, _as_two_stores))


def rare_choices_in(node: ir.Expr | Stmt) -> list[Call]:
    """Returns the `if_then_else` calls whose condition is marked as likely. The other branch is for rare arguments."""
    marked: list[Call] = []

    def add_if_marked(call: Call) -> None:
        if _name(call) not in CHOICES:
            return
        condition = call.args[0]
        if isinstance(condition, Call) and _name(condition) in RARE_MARKS:
            marked.append(call)

    structural_walk(node, (Call, add_if_marked))
    return marked


def _name(call: Call) -> str:
    """Returns the name of the operator that a call applies, or an empty string."""
    return str(getattr(call.op, "name", ""))


def _branch_on_all_lanes(loop: For, store: BufferStore) -> Stmt:
    """Emits a vector store as a check of all lanes, followed by the fast vector form or the slow form lane by lane.

    Slow arguments are rare, so most vectors take the fast form.
    """
    rare_choices = rare_choices_in(store)
    lanes = int(loop.extent)
    if not rare_choices:
        return _loop_like(loop, store, ForKind.VECTORIZED)
    # A choice is `if_then_else(likely(is_common), common value, rare value)`.
    conditions = [call.args[0].args[0] for call in rare_choices]
    # A condition on a variable of a `Let` within the store can't be evaluated before it.
    if _let_variables(store) & set().union(*map(variables, conditions)):
        return _loop_like(loop, store, ForKind.SERIAL)
    is_rare = emit.scratch([lanes], "int32", "rare", "local")
    one = tirx.const(1, "int32")
    zero = tirx.const(0, "int32")
    flag = tirx.Select(tirx.all(*conditions), zero, one)
    set_flags = _loop_like(loop, emit.store(is_rare, flag, [loop.loop_var - loop.min]), ForKind.VECTORIZED)
    flags = emit.load(is_rare, [tirx.Ramp(index(0), index(1), lanes)])
    any_rare = tirx.NE(tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", flags), zero)
    common_store = _with_branch(store, rare_choices, 1)
    slow = _loop_like(loop, store, ForKind.SERIAL)
    fast = _loop_like(loop, common_store, ForKind.VECTORIZED)
    return emit.sequence([emit.allocate(is_rare), set_flags, IfThenElse(any_rare, slow, fast)])


def _with_branch(store: BufferStore, rare: list[Call], side: int) -> BufferStore:
    """Replaces the rare choices in a store by one of their branches: argument `side` of the call."""
    return structural_map(store, (Call, lambda call: call.args[side] if _is_among(call, rare) else call))  # type: ignore[no-any-return]


def _as_two_stores(store: BufferStore) -> Stmt:
    """Rewrites a store whose choices are all equal as a branch of two stores.

    TVM takes long on `Let`s within an expression, such as those in the values of a choice.
    """
    rare_choices = rare_choices_in(store)
    if not rare_choices or not all(_is_among(call, rare_choices[:1]) for call in rare_choices):
        return store
    # A choice is `if_then_else(likely(is_common), common value, rare value)`.
    is_common = rare_choices[0].args[0].args[0]
    # A condition on a variable of a `Let` within the store can't be evaluated before it.
    if _let_variables(store) & set(variables(is_common)):
        return store
    return IfThenElse(is_common, _with_branch(store, rare_choices, 1), _with_branch(store, rare_choices, 2))


def _loop_like(like: For, body: Stmt, kind: ForKind) -> For:
    """Returns a loop over `body` with the range of the loop `like`, but of another kind, and with a new variable."""
    lane = Var(like.loop_var.name, like.loop_var.ty)
    return For(lane, like.min, like.extent, kind, substitute(body, {like.loop_var: lane}))


def _is_among(call: Call, calls: list[Call]) -> bool:
    """Returns whether a call is structurally equal to one of the given calls."""
    return any(tvm_ffi.structural_equal(call, other) for other in calls)


def _let_variables(store: BufferStore) -> set[Var]:
    """Returns the variables that `Let` expressions in a store bind."""
    bound: set[Var] = set()
    structural_walk(store, (tirx.Let, lambda let: bound.add(let.var)))
    return bound
