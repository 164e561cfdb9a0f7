"""Values with a slow path for rare arguments: tests a whole vector, and runs lane by lane only if one needs it."""

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
MARKS = {"prim.likely", "tirx.likely"}


def with_slow_paths(body: Stmt) -> Stmt:
    """Writes each vector loop over `tvtf.ops.kernels.approx.unless` as a test, then the common or the rare form."""

    def tested(node: For) -> Stmt:
        """Rewrites a vectorized loop with slow paths, so that vectors without slow arguments skip them."""
        if node.kind != ForKind.VECTORIZED or not choices(node.body):
            return node
        parts = list(node.body.seq) if isinstance(node.body, SeqStmt) else [node.body]
        if not all(isinstance(part, BufferStore) for part in parts) or emit.static(node.extent) is None:
            return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, node.body)
        # All lanes finish one statement before any starts the next.
        return emit.sequence([_tested(node, part) for part in parts])

    return structural_map(structural_map(body, (For, tested)), (BufferStore, _by_statement))


def choices(node: ir.Expr | Stmt) -> list[Call]:
    """Returns the choices that are marked as rare."""
    marked: list[Call] = []

    def visit(call: Call) -> None:
        if _name(call) in CHOICES and isinstance(call.args[0], Call) and _name(call.args[0]) in MARKS:
            marked.append(call)

    structural_walk(node, (Call, visit))
    return marked


def _name(call: Call) -> str:
    return str(getattr(call.op, "name", ""))


def _tested(loop: For, store: BufferStore) -> Stmt:
    """Writes a vector store as a test of all lanes, then the fast form, or the slow form lane by lane."""
    rare_choices, lanes = choices(store), int(loop.extent)
    if not rare_choices:
        return _loop(loop, store, ForKind.VECTORIZED)
    tests = [call.args[0].args[0] for call in rare_choices]
    # A test on a variable of a `Let` within the store can't run before it.
    if _bound(store) & set().union(*map(variables, tests)):
        return _loop(loop, store, ForKind.SERIAL)
    needs_slow = emit.scratch([lanes], "int32", "rare", "local")
    one, zero = (tirx.const(value, "int32") for value in (1, 0))
    noted = emit.store(needs_slow, tirx.Select(tirx.all(*tests), zero, one), [loop.loop_var - loop.min])
    vector = emit.load(needs_slow, [tirx.Ramp(index(0), index(1), lanes)])
    some = tirx.NE(tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.or", vector), zero)
    common = _chosen(store, rare_choices, 1)
    either = IfThenElse(some, _loop(loop, store, ForKind.SERIAL), _loop(loop, common, ForKind.VECTORIZED))
    return emit.sequence([emit.allocate(needs_slow), _loop(loop, noted, ForKind.VECTORIZED), either])


def _chosen(store: BufferStore, rare: list[Call], side: int) -> BufferStore:
    """Returns the store with one side of the choices."""
    return structural_map(store, (Call, lambda call: call.args[side] if _is_in(call, rare) else call))  # type: ignore[no-any-return]


def _by_statement(store: BufferStore) -> Stmt:
    """Writes a store with equal choices as a branch of two stores: TVM is slow on `Let`s within expressions."""
    rare_choices = choices(store)
    if not rare_choices or not all(_is_in(call, rare_choices[:1]) for call in rare_choices):
        return store
    test = rare_choices[0].args[0].args[0]
    if _bound(store) & set(variables(test)):
        return store
    return IfThenElse(test, _chosen(store, rare_choices, 1), _chosen(store, rare_choices, 2))


def _loop(like: For, body: Stmt, kind: ForKind) -> For:
    lane = Var(like.loop_var.name, like.loop_var.ty)
    return For(lane, like.min, like.extent, kind, substitute(body, {like.loop_var: lane}))


def _is_in(call: Call, calls: list[Call]) -> bool:
    return any(tvm_ffi.structural_equal(call, other) for other in calls)


def _bound(store: BufferStore) -> set[Var]:
    bound: set[Var] = set()
    structural_walk(store, (tirx.Let, lambda let: bound.add(let.var)))
    return bound
