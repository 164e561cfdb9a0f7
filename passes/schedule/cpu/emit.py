"""Builders of loops and statements, shared by all rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import overload

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
    """Returns an extent, which may be a Python int, as an expression."""
    return index(value) if isinstance(value, int) else value


def static(value: int | ir.Expr) -> int | None:
    """Returns an extent as a Python int if it is a constant, else None."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, tirx.IntImm) else None


def simplified(value: ir.Expr) -> ir.Expr:
    """Returns an index or extent in its simplest form."""
    return value if isinstance(value, (tirx.IntImm, Var)) else sym.Analyzer().simplify(value)


@overload
def ceil_div(value: int, divisor: int) -> int: ...


@overload
def ceil_div(value: ir.Expr, divisor: int) -> ir.Expr: ...


def ceil_div(value: int | ir.Expr, divisor: int) -> int | ir.Expr:
    """Returns ``value / divisor`` rounded up; the quotient of an expression isn't simplified.

    For example, `ceil_div(7, 2)` is 4.
    """
    if isinstance(value, ir.Expr):
        return value if divisor == 1 else tirx.floordiv(value + (divisor - 1), index(divisor))
    # Python's `//` rounds down, and so rounds the negated value up.
    return -(-value // divisor)


def round_up(value: int, multiple: int) -> int:
    """Returns the least multiple of `multiple` that isn't less than `value`."""
    return ceil_div(value, multiple) * multiple


def power_of_two_ceil(value: int) -> int:
    """Returns the smallest power of two that isn't less than `value`."""
    return 1 << max(0, value - 1).bit_length()


def power_of_two_floor(value: int) -> int:
    """Returns the largest power of two that isn't greater than `value`; 1 if there is none."""
    return 1 << (max(1, value).bit_length() - 1)


def loop(extent: int | ir.Expr, body: Body, kind: ForKind = ForKind.SERIAL, name: str = "i") -> Stmt:
    """Builds a loop over [0, extent), whose body is `body(variable)`. For extent 1, returns only the body at index 0."""
    if static(extent) == 1:
        return body(index(0))
    var = Var(name, "int64")
    return For(var, index(0), as_expr(extent), kind, body(var))


def unrolled(extent: int, body: Body) -> Stmt:
    """Returns an unrolled loop."""
    return loop(extent, body, ForKind.UNROLLED, "u")


def vectorized(lanes: int, body: Body) -> Stmt:
    """Returns a vectorized loop of `lanes` iterations."""
    return loop(lanes, body, ForKind.VECTORIZED, "lane")


def nest(extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Returns nested serial loops over several extents, outermost first; `body` is passed one index per extent."""
    if not extents:
        return body([])
    return loop(extents[0], lambda outer: nest(extents[1:], lambda inner: body([outer, *inner])))


def unrolled_nest(extents: Sequence[int], body: Callable[[list[ir.Expr]], Stmt]) -> Stmt:
    """Returns nested unrolled loops over several extents, outermost first; `body` is passed one index per extent."""
    if not extents:
        return body([])
    return unrolled(extents[0], lambda outer: unrolled_nest(extents[1:], lambda inner: body([outer, *inner])))


def fused_loops(
    extents: Sequence[int | ir.Expr], body: Callable[[list[ir.Expr]], Stmt], parallel: bool, enough: int | None = None
) -> Stmt:
    """Emits a nest of loops, fused into one parallel loop if `parallel`, so that its tasks occupy all cores.

    Args:
        extents: the extents, outermost first.
        body: emits the body, given one index per extent.
        parallel: whether the loop is parallel.
        enough: the number of tasks that suffices. Only as many outer loops are fused; the others are serial loops inside
            each task.
    """
    if not parallel:
        return nest(extents, body)
    if enough is not None:
        depth = 0
        while depth < len(extents) and (static(volume(extents[:depth])) or 0) < enough:
            depth += 1
        inner_extents = extents[depth:]
        return fused_loops(
            extents[:depth], lambda outer: nest(inner_extents, lambda inner: body([*outer, *inner])), True
        )
    total = volume(extents)
    # A single task needs no loop.
    if static(total) == 1:
        return body([index(0)] * len(extents))
    return loop(total, lambda task: body(unflatten(task, extents)), ForKind.PARALLEL, "task")


def balanced_part(extent: ir.Expr, part_index: ir.Expr, count: int) -> tuple[ir.Expr, ir.Expr]:
    """Returns the start and size of one of `count` parts of [0, extent), whose sizes differ by at most one.

    Equal sizes that are rounded up would be uneven: if nine tiles were divided into eight parts of two tiles, four parts
    would have two tiles, one would have one tile, and three would be empty. One core would run most of the full parts.

    Args:
        extent: the number of elements to divide.
        part_index: the index of the part.
        count: the number of parts.
    """
    if count == 1:
        return part_index * extent, extent
    if isinstance(extent, tirx.IntImm) and int(extent) % count == 0:
        size = int(extent) // count
        return part_index * size, index(size)

    def start_of(part: ir.Expr) -> ir.Expr:
        """Returns ``part * extent / count``, rounded up."""
        return tirx.floordiv(part * extent + (count - 1), index(count))

    start, stop = start_of(part_index), start_of(part_index + 1)
    return simplified(start), simplified(stop - start)


def volume(extents: Sequence[int | ir.Expr]) -> ir.Expr:
    """Returns the product of extents, simplified."""
    known = [size for size in map(static, extents) if size is not None]
    if len(known) == len(extents):
        return index(prod(known))
    return simplified(prod((as_expr(extent) for extent in extents), start=index(1)))


def unflatten(flat: ir.Expr, extents: Sequence[int | ir.Expr]) -> list[ir.Expr]:
    """Converts a row-major flat index to one index for each extent.

    For example, flat index 5 and extents 2 and 3 give the indices 1 and 2.
    """
    indices: list[ir.Expr] = []
    outer_index = flat  # the flat index over the axes that remain
    for position, extent in reversed(list(enumerate(extents))):
        is_outermost = all(static(outer) == 1 for outer in extents[:position])
        axis_index = outer_index if is_outermost else tirx.floormod(outer_index, as_expr(extent))
        indices.append(index(0) if static(extent) == 1 else axis_index)
        inner_volume = static(volume(extents[position:]))
        if inner_volume is None:
            # TVM's simplifier can merge quotients again only if each division is by a single symbolic size.
            outer_index = tirx.floordiv(outer_index, as_expr(extent))
        elif inner_volume != 1:
            outer_index = tirx.floordiv(flat, index(inner_volume))
    return indices[::-1]


def sequence(parts: Sequence[Stmt | None]) -> Stmt:
    """Returns a sequence of statements without the Nones; if there are none, an empty statement."""
    statements: list[Stmt] = []
    for part in parts:
        if part is not None:
            statements.extend(part.seq if isinstance(part, SeqStmt) else [part])
    if not statements:
        return tirx.Evaluate(tirx.IntImm("int32", 0))  # TIR's empty statement
    return statements[0] if len(statements) == 1 else SeqStmt(statements)


def when(condition: ir.Expr | bool, body: Stmt, otherwise: Stmt | None = None) -> Stmt | None:
    """Returns a branch on a condition; if the condition is constant, only the statement that runs (or None)."""
    if isinstance(condition, tirx.IntImm):
        condition = bool(int(condition))
    if isinstance(condition, bool):
        return body if condition else otherwise
    return IfThenElse(condition, body, otherwise)


def scratch(
    shape: Sequence[int | ir.Expr], dtype: str, name: str, scope: str = "global", alignment: int | None = None
) -> Var:
    """Creates a buffer inside of a kernel; the statement `allocate(buffer)` must precede its first use.

    Args:
        shape: the extents of the buffer.
        dtype: the type of its elements.
        name: its name.
        scope: the kind of memory, such as "local" for registers.
        alignment: the alignment in bytes; None for TVM's default.
    """
    extents = [as_expr(extent) for extent in shape]
    return tirx.decl_buffer(extents, dtype, name, scope=scope, data_alignment=-1 if alignment is None else alignment)


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
    """Splits [0, extent) into vectors, as (start, lanes); the last one may have fewer lanes.

    For example, ``vector_spans(10, 4)`` is ``[(0, 4), (4, 4), (8, 2)]``.
    """
    return [(start, min(lanes, extent - start)) for start in range(0, extent, lanes)]


def with_scalar_calls(body: Stmt) -> Stmt:
    """Makes vectorized loops serial if they call a function for which TVM generates scalar code only."""
    return with_serial_loops(body, _calls_scalar_function)


def with_serial_loops(body: Stmt, is_scalar: Callable[[For], bool]) -> Stmt:
    """Makes vectorized loops serial if TVM generates no vector code for them.

    Args:
        body: the statement with the loops.
        is_scalar: returns whether TVM generates no vector code for a loop.
    """

    def serial_if_scalar(node: For) -> For:
        """Makes a vectorized loop serial if it is scalar; returns other loops unchanged."""
        if node.kind != ForKind.VECTORIZED or not is_scalar(node):
            return node
        return For(node.loop_var, node.min, node.extent, ForKind.SERIAL, node.body)

    return structural_map(body, (For, serial_if_scalar))


def _calls_scalar_function(body: Stmt) -> bool:
    """Returns whether a statement calls a function for which TVM generates code for scalars only."""
    names: set[str] = set()
    structural_walk(body, (ir.Call, lambda call: names.add(str(getattr(call.op, "name", "")))))
    return bool(names & SCALAR_CALLS)
