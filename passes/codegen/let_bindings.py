"""Moves `Let` bindings out of expressions, to statements before the store that uses them; long values go to a buffer.

TVM 0.27's analyzer substitutes a `Let` variable by its value, within the values of other variables, too: a dozen
variables that each use the previous one twice take seconds, in every pass that simplifies and in LLVM code generation.
It doesn't look into memory, so a buffer stops the substitution. LLVM keeps such a buffer in registers.
"""

from __future__ import annotations

from tvm import ir, tirx, transform
from tvm.tirx import BufferStore, PrimFunc, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import loads

TESTS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or, tirx.Not)
CHOOSE, REINTERPRET = ir.Op.get("prim.if_then_else"), ir.Op.get("tirx.reinterpret")
LONG = 60
"""Operations and operands of an expanded value from which on it is stored in a buffer."""
Names = list[tuple[Var, ir.Expr]]


def with_hoisted_lets(func: PrimFunc) -> PrimFunc:
    """Returns `func` with the `Let`s of each stored value bound by statements; branches keep their own `Let`s.

    Example:
        >>> from tvm.script import tirx as T
        >>> @T.prim_func(s_tir=True)
        ... def fourth(a: T.Buffer((4,), "float32"), b: T.Buffer((4,), "float32")):
        ...     x = T.float32()
        ...     for i in range(4):
        ...         b[i] = T.Let(x * x, where={x: a[i] * a[i]})
        >>> with_hoisted_lets(fourth).body.body  # doctest: +ELLIPSIS
        a = ...
        x: T.let[T.float32] = a[i] * a[i]
        ...
        b[i] = x * x
    """
    if not _has_names(func.body):
        return func
    in_vectors = structural_map(func.body, (tirx.For, _vector_loop))
    return func.with_body(
        structural_map(in_vectors, (BufferStore, lambda store: emit.sequence(_Statements().before(store))))
    )


@transform.module_pass(opt_level=0, name="HoistLets")
def HoistLets(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
    """Applies `with_hoisted_lets` to every PrimFunc of a module."""
    result = mod.clone()
    for name, func in mod.functions.items():
        if isinstance(func, PrimFunc):
            result.update_func(name, with_hoisted_lets(func))
    return result


def _has_names(body: Stmt) -> bool:
    lets: list[tirx.Let] = []
    structural_walk(body, (tirx.Let, lets.append))
    return bool(lets)


def _runs_by_lane(body: Stmt) -> bool:
    """Returns whether TVM may scalarize a vector statement, in which case it doesn't find variables bound to vectors."""
    called: list[object] = []
    structural_walk(body, (ir.Call, lambda call: called.append(call.op)))
    return not all(_is_vectorizable(op) for op in called)


def _is_vectorizable(op: object) -> bool:
    return isinstance(op, ir.Op) and (op.same_as(REINTERPRET) or bool(op.get_attr("TVectorizable")))


def _vector_loop(loop: tirx.For) -> Stmt:
    """Rewrites a vector loop; buffers are allocated before it, with an element for each lane."""
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    longest = 0 if _runs_by_lane(loop.body) else LONG
    allocations: list[Stmt] = []

    def bound(stores: list[BufferStore]) -> Stmt:
        statements = _Statements(longest, loop.extent, loop.loop_var)
        bound_stores = [part for store in stores for part in statements.before(store)]
        allocations.extend(statements.allocations)
        return emit.sequence(bound_stores)

    if _are_separate_statements(loop.body):
        body = bound(list(loop.body.seq))
    else:
        body = structural_map(loop.body, (BufferStore, lambda store: bound([store])))
    return emit.sequence([*allocations, tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)])


def _are_separate_statements(body: Stmt) -> bool:
    """Returns whether a body is only stores, none of which reads what another wrote: then they can share variables."""
    if not isinstance(body, SeqStmt) or not all(isinstance(part, BufferStore) for part in body.seq):
        return False
    return not any(load.source.same_as(store.buffer) for store in body.seq for load in loads(body))


class _Statements:
    """The binding statements before a store, with fresh variables, since a store elsewhere may use the same ones."""

    def __init__(self, longest: int = LONG, lanes: ir.Expr | None = None, lane: ir.Expr | None = None) -> None:
        self.longest, self.lanes, self.lane = longest, lanes, lane
        self.allocations: list[Stmt] = []
        self.bindings: list[Stmt] = []
        self.replacements: dict[Var, ir.Expr] = {}
        self.sizes: dict[Var, int] = {}

    def before(self, store: BufferStore) -> list[Stmt]:
        """Returns the bindings that a store still needs, then the store; allocations per lane are kept apart."""
        names: Names = []
        value = _unnamed(store.value, names)
        for var, bound_value in names:
            if var not in self.replacements:
                self.bind(var, bound_value)
        if not names:
            return [store]
        allocations = self.allocations if self.lane is None else []
        bindings, self.bindings = self.bindings, []
        return [*allocations, *bindings, BufferStore(store.buffer, self.using(value), list(store.indices))]

    def bind(self, var: Var, value: ir.Expr) -> None:
        """Binds a variable to its value: by a statement, or in a buffer if the value is long."""
        size = self.size(value)
        if size > self.longest or (self.lanes is not None and _is_made_of_tests(value)):
            self.keep(var, self.using(value))
        else:
            fresh = Var(var.name, var.ty)
            self.bindings.append(tirx.Bind(fresh, self.using(value)))
            self.replacements[var], self.sizes[var] = fresh, size

    def keep(self, var: Var, value: ir.Expr) -> None:
        """Stores a value in a buffer."""
        place = emit.scratch([1 if self.lanes is None else self.lanes], str(var.ty.dtype), var.name, "local")
        at = [emit.index(0) if self.lane is None else self.lane]
        self.allocations.append(emit.allocate(place))
        self.bindings.append(emit.store(place, value, at))
        self.replacements[var] = emit.load(place, at)

    def using(self, value: ir.Expr) -> ir.Expr:
        """Returns an expression with its variables replaced by those bound here."""
        return _with(value, self.replacements)

    def size(self, value: ir.Expr) -> int:
        """Returns the size of an expression after the analyzer has substituted the variables in it."""
        nodes = 0

        def count(node: object) -> None:
            nonlocal nodes
            nodes += self.sizes.get(node, 1) if isinstance(node, Var) else 1

        structural_walk(value, (ir.Expr, count))
        return nodes


def _is_made_of_tests(value: ir.Expr) -> bool:
    """Returns whether a value is, or is cast from, a comparison (not only selected by one).

    TVM 0.27's analyzer fails on such a vector: it builds the set of false and true as scalars of the vector's type
    (ValueError: IntImm can only take scalar), in LLVM code generation, too.
    """
    casts: list[tirx.Cast] = []
    structural_walk(value, (tirx.Cast, casts.append))
    return isinstance(value, TESTS) or any(isinstance(cast.value, TESTS) for cast in casts)


def _with(value: ir.Expr, replacements: dict[Var, ir.Expr]) -> ir.Expr:
    return structural_map(value, (Var, lambda var: replacements.get(var, var)))


def _unnamed(value: ir.Expr, names: Names) -> ir.Expr:
    """Returns the expression without its `Let`s, which are appended to `names` in order; branches stay as they are."""
    branches: dict[Var, ir.Expr] = {}

    def visit(node: ir.Expr) -> ir.Expr:
        while isinstance(node, tirx.Let):
            _note(node, names)
            node = node.body
        return _bound_first(node, branches) if _is_choice(node) else node

    rest = structural_map(value, ((tirx.Let, ir.Call), visit), order="pre")
    return _with(rest, branches) if branches else rest


def _note(let: tirx.Let, names: Names) -> None:
    if not any(let.var.same_as(var) for var, _ in names):
        names.append((let.var, _unnamed(let.value, names)))


def _is_choice(node: ir.Expr) -> bool:
    return isinstance(node, ir.Call) and node.op.same_as(CHOOSE)


def _bound_first(node: ir.Call, branches: dict[Var, ir.Expr]) -> Var:
    place = Var("choice", node.ty)
    branches[place] = node
    return place
