"""Loops and statements, written directly: the small vocabulary all rules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvm import ir, sym, tirx
from tvm.tirx import BufferLoad, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk

Body = Callable[[ir.Expr], Stmt]
# LLVM code generation of apache-tvm 0.27 knows these for scalars only.
SCALAR_CALLS = {"tirx.sinh", "tirx.cosh", "tirx.fmod"}


def index(value: int) -> tirx.IntImm:
    """A constant index."""
    return tirx.IntImm("int64", value)


def as_expr(value: int | ir.Expr) -> ir.Expr:
    """An extent as an expression."""
    return index(value) if isinstance(value, int) else value


def static(value: int | ir.Expr) -> int | None:
    """An extent's value where it is known while compiling."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, tirx.IntImm) else None


def simplified(value: ir.Expr) -> ir.Expr:
    """An index or extent in its simplest form."""
    return sym.Analyzer().simplify(value)


def loop(extent: int | ir.Expr, body: Body, kind: ForKind = ForKind.SERIAL, name: str = "i") -> Stmt:
    """A loop over [0, extent), or just its body where it runs once."""
    if static(extent) == 1:
        return body(index(0))
    var = Var(name, "int64")
    return For(var, index(0), as_expr(extent), kind, body(var))


def unrolled(extent: int, body: Body) -> Stmt:
    """A loop written out step by step."""
    return loop(extent, body, ForKind.UNROLLED, "u")


def vectorized(lanes: int, body: Body) -> Stmt:
    """One vector instruction's worth of points."""
    return loop(lanes, body, ForKind.VECTORIZED, "lane")


def nest(extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Serial loops over several extents, outermost first."""
    if not extents:
        return body([])
    return loop(extents[0], lambda first: nest(extents[1:], lambda rest: body([first, *rest])))


def unrolled_nest(extents: Sequence[int], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Unrolled loops over several extents, outermost first."""
    if not extents:
        return body([])
    return unrolled(extents[0], lambda first: unrolled_nest(extents[1:], lambda rest: body([first, *rest])))


def fused(
    extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt], parallel: bool, enough: int | None = None
) -> Stmt:
    """One parallel loop over the product of the extents, or the serial nest.

    With so many tasks as are `enough` the extents that are left are loops in each.
    """
    if not parallel:
        return nest(extents, body)
    if enough is not None:
        depth = next((d for d in range(len(extents)) if (static(volume(extents[:d])) or 0) >= enough), len(extents))
        rest = extents[depth:]
        return fused(extents[:depth], lambda first: nest(rest, lambda last: body([*first, *last])), True)
    total = volume(extents)
    if static(total) == 1:
        return body([index(0)] * len(extents))
    return loop(total, lambda task: body(unflatten(task, extents)), ForKind.PARALLEL, "task")


def share(extent: ir.Expr, number: ir.Expr, count: int) -> tuple[ir.Expr, ir.Expr]:
    """Where one of `count` parts of [0, extent) begins, and how much it is: no two differ by more than one."""
    if count == 1:
        return number * extent, extent
    if isinstance(extent, tirx.IntImm) and int(extent) % count == 0:
        return number * (int(extent) // count), index(int(extent) // count)
    first, stop = (tirx.floordiv(at * extent + (count - 1), index(count)) for at in (number, number + 1))
    return simplified(first), simplified(stop - first)


def volume(extents: Sequence[int | ir.Expr]) -> ir.Expr:
    """The product of extents."""
    known = [size for size in map(static, extents) if size is not None]
    if len(known) == len(extents):
        return index(prod(known))
    return simplified(prod((as_expr(extent) for extent in extents), start=index(1)))


def unflatten(flat: ir.Expr, extents: Sequence[int | ir.Expr]) -> list[ir.Expr]:
    """The point of a row-major box that a flat index stands for."""
    point: list[ir.Expr] = []
    place = flat
    for position, extent in reversed(list(enumerate(extents))):
        is_first = all(static(outer) == 1 for outer in extents[:position])
        point.append(place if is_first else tirx.floormod(place, as_expr(extent)))
        inner = static(volume(extents[position:]))
        if inner is None:  # by one size at a time: TVM's simplifier joins such parts again, and no others
            place = tirx.floordiv(place, as_expr(extent))
        elif inner != 1:
            place = tirx.floordiv(flat, index(inner))
    return [index(0) if static(extent) == 1 else at for at, extent in zip(reversed(point), extents, strict=True)]


def sequence(parts: Sequence[Stmt | None]) -> Stmt:
    """Statements one after another; empty ones are left out."""
    flat: list[Stmt] = []
    for part in parts:
        flat.extend(part.seq if isinstance(part, SeqStmt) else [] if part is None else [part])
    if not flat:
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def when(condition: ir.Expr | bool, body: Stmt, otherwise: Stmt | None = None) -> Stmt | None:
    """A branch, decided now where the condition is known."""
    if isinstance(condition, tirx.IntImm):
        condition = bool(int(condition))
    if isinstance(condition, bool):
        return body if condition else otherwise
    return IfThenElse(condition, body, otherwise)


def scratch(shape: Sequence[int | ir.Expr], dtype: str, name: str, scope: str = "global") -> Var:
    """A buffer of a kernel's own; put `allocate(buffer)` before its first use."""
    return tirx.decl_buffer([as_expr(extent) for extent in shape], dtype, name, scope=scope)


def allocate(buffer: Var) -> Stmt:
    """The statement that makes a scratch buffer."""
    return tirx.AllocBuffer(buffer)


def store(buffer: Var, value: ir.Expr, indices: Sequence[ir.Expr]) -> Stmt:
    """`buffer[indices] = value`."""
    return BufferStore(buffer, value, list(indices))


def load(buffer: Var, indices: Sequence[ir.Expr]) -> ir.Expr:
    """`buffer[indices]`."""
    return BufferLoad(buffer, list(indices))


def lane_chunks(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Cut [0, extent) into (start, lanes) vectors; the last one may be shorter."""
    return [(start, min(lanes, extent - start)) for start in range(0, extent, lanes)]


def with_scalar_calls(body: Stmt) -> Stmt:
    """Make a vector loop a plain one where it calls a function that has no vector form."""

    def plain(node: For) -> For:
        if node.kind != ForKind.VECTORIZED or not _calls_scalar_function(node):
            return node
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, node.body)

    return structural_map(body, (For, plain))


def _calls_scalar_function(body: Stmt) -> bool:
    names: set[str] = set()
    structural_walk(body, (ir.Call, lambda call: names.add(str(getattr(call.op, "name", "")))))
    return bool(names & SCALAR_CALLS)
