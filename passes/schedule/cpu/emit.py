"""Builders of loops and statements, shared by all rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tvm import ir, sym, tirx
from tvm.tirx import BufferLoad, BufferStore, For, ForKind, IfThenElse, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk

Body = Callable[[ir.Expr], Stmt]
# LLVM code generation of apache-tvm 0.27 supports these for scalars only.
SCALAR_CALLS = {"tirx.sinh", "tirx.cosh", "tirx.fmod"}


def index(value: int) -> tirx.IntImm:
    """Returns a constant index."""
    return tirx.IntImm("int64", value)


def as_expr(value: int | ir.Expr) -> ir.Expr:
    """Returns an extent as an expression."""
    return index(value) if isinstance(value, int) else value


def static(value: int | ir.Expr) -> int | None:
    """Returns an extent's value if it is static, else None."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, tirx.IntImm) else None


def simplified(value: ir.Expr) -> ir.Expr:
    """Returns an index or extent in its simplest form."""
    return sym.Analyzer().simplify(value)


def loop(extent: int | ir.Expr, body: Body, kind: ForKind = ForKind.SERIAL, name: str = "i") -> Stmt:
    """Returns a loop over [0, extent), or just its body if it runs once."""
    if static(extent) == 1:
        return body(index(0))
    var = Var(name, "int64")
    return For(var, index(0), as_expr(extent), kind, body(var))


def unrolled(extent: int, body: Body) -> Stmt:
    """Returns an unrolled loop."""
    return loop(extent, body, ForKind.UNROLLED, "u")


def vectorized(lanes: int, body: Body) -> Stmt:
    """Returns a vectorized loop over `lanes` points."""
    return loop(lanes, body, ForKind.VECTORIZED, "lane")


def nest(extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Returns serial loops over several extents, outermost first."""
    if not extents:
        return body([])
    return loop(extents[0], lambda first: nest(extents[1:], lambda rest: body([first, *rest])))


def unrolled_nest(extents: Sequence[int], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Returns unrolled loops over several extents, outermost first."""
    if not extents:
        return body([])
    return unrolled(extents[0], lambda first: unrolled_nest(extents[1:], lambda rest: body([first, *rest])))


def fused(
    extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt], parallel: bool, enough: int | None = None
) -> Stmt:
    """Returns one parallel loop over the product of the extents, or the serial nest.

    Once there are `enough` tasks, the remaining extents are loops inside each task.
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
    """Returns the start and size of one of `count` parts of [0, extent); sizes differ by at most one.

    Rounded up instead, nine tiles in eight parts would be 2, 2, 2, 2, 1 and three empty ones, most of them on one core.
    """
    if count == 1:
        return number * extent, extent
    if isinstance(extent, tirx.IntImm) and int(extent) % count == 0:
        return number * (int(extent) // count), index(int(extent) // count)
    first, stop = (tirx.floordiv(at * extent + (count - 1), index(count)) for at in (number, number + 1))
    return simplified(first), simplified(stop - first)


def volume(extents: Sequence[int | ir.Expr]) -> ir.Expr:
    """Returns the product of extents."""
    known = [size for size in map(static, extents) if size is not None]
    if len(known) == len(extents):
        return index(prod(known))
    return simplified(prod((as_expr(extent) for extent in extents), start=index(1)))


def unflatten(flat: ir.Expr, extents: Sequence[int | ir.Expr]) -> list[ir.Expr]:
    """Returns the point of a row-major box that a flat index stands for."""
    point: list[ir.Expr] = []
    place = flat
    for position, extent in reversed(list(enumerate(extents))):
        is_first = all(static(outer) == 1 for outer in extents[:position])
        point.append(place if is_first else tirx.floormod(place, as_expr(extent)))
        inner = static(volume(extents[position:]))
        if inner is None:  # divide by one size at a time: TVM's simplifier merges only such quotients again
            place = tirx.floordiv(place, as_expr(extent))
        elif inner != 1:
            place = tirx.floordiv(flat, index(inner))
    return [index(0) if static(extent) == 1 else at for at, extent in zip(reversed(point), extents, strict=True)]


def sequence(parts: Sequence[Stmt | None]) -> Stmt:
    """Returns statements one after another, without empty ones."""
    flat: list[Stmt] = []
    for part in parts:
        if part is not None:
            flat.extend(part.seq if isinstance(part, SeqStmt) else [part])
    if not flat:
        return tirx.Evaluate(tirx.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else SeqStmt(flat)


def when(condition: ir.Expr | bool, body: Stmt, otherwise: Stmt | None = None) -> Stmt | None:
    """Returns a branch, or one side of it where the condition is constant."""
    if isinstance(condition, tirx.IntImm):
        condition = bool(int(condition))
    if isinstance(condition, bool):
        return body if condition else otherwise
    return IfThenElse(condition, body, otherwise)


def scratch(shape: Sequence[int | ir.Expr], dtype: str, name: str, scope: str = "global") -> Var:
    """Returns a buffer that the kernel allocates; put `allocate(buffer)` before its first use."""
    return tirx.decl_buffer([as_expr(extent) for extent in shape], dtype, name, scope=scope)


def allocate(buffer: Var) -> Stmt:
    """Returns the statement that allocates a scratch buffer."""
    return tirx.AllocBuffer(buffer)


def store(buffer: Var, value: ir.Expr, indices: Sequence[ir.Expr]) -> Stmt:
    """Returns `buffer[indices] = value`."""
    return BufferStore(buffer, value, list(indices))


def load(buffer: Var, indices: Sequence[ir.Expr]) -> ir.Expr:
    """Returns `buffer[indices]`."""
    return BufferLoad(buffer, list(indices))


def vector_spans(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Cuts [0, extent) into (start, lanes) spans of vectors; the last one may be shorter."""
    return [(start, min(lanes, extent - start)) for start in range(0, extent, lanes)]


def with_scalar_calls(body: Stmt) -> Stmt:
    """Turns vector loops that call a function without a vector form into serial ones."""

    def plain(node: For) -> For:
        if node.kind != ForKind.VECTORIZED or not _calls_scalar_function(node):
            return node
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, node.body)

    return structural_map(body, (For, plain))


def _calls_scalar_function(body: Stmt) -> bool:
    names: set[str] = set()
    structural_walk(body, (ir.Call, lambda call: names.add(str(getattr(call.op, "name", "")))))
    return bool(names & SCALAR_CALLS)
