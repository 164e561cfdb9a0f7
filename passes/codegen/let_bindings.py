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
"""Minimum number of operations and operands of an expanded value that is stored in a buffer."""
LetBindings = list[tuple[Var, ir.Expr]]


def with_hoisted_lets(func: PrimFunc) -> PrimFunc:
    """Moves the `Let`s of each stored value to statements before the store; branches keep their own `Let`s.

    TVM's analyzer substitutes each `Let` variable by its value, which takes seconds for a dozen nested ones.

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
    if not _has_lets(func.body):
        return func
    in_vectors = structural_map(func.body, (tirx.For, _hoist_in_vector_loop))
    return func.with_body(
        structural_map(in_vectors, (BufferStore, lambda store: emit.sequence(_BindingStatements().bind_for(store))))
    )


@tirx.transform.prim_func_pass(opt_level=0, name="HoistLets")
def HoistLets(func: PrimFunc, _mod: ir.IRModule, _context: transform.PassContext) -> PrimFunc:
    """Applies `with_hoisted_lets` to every PrimFunc of a module.

    TVM's analyzer substitutes variables of nested `Let`s by their values, which takes exponential time.
    """
    return with_hoisted_lets(func)


def _has_lets(body: Stmt) -> bool:
    lets: list[tirx.Let] = []
    structural_walk(body, (tirx.Let, lets.append))
    return bool(lets)


def _may_be_scalarized(body: Stmt) -> bool:
    """Returns whether TVM may turn a vector statement into scalar ones, because of a call that isn't vectorizable.

    In the scalar statements, TVM doesn't find variables that are bound to vectors.
    """
    called: list[object] = []
    structural_walk(body, (ir.Call, lambda call: called.append(call.op)))
    return not all(_is_vectorizable(op) for op in called)


def _is_vectorizable(op: object) -> bool:
    return isinstance(op, ir.Op) and (op.same_as(REINTERPRET) or bool(op.get_attr("TVectorizable")))


def _hoist_in_vector_loop(loop: tirx.For) -> Stmt:
    """Hoists the `Let` bindings out of the stores in a vector loop; returns any other loop unchanged.

    Some values are stored in buffers, which have an element for each lane and are allocated before the loop.
    """
    if loop.kind != tirx.ForKind.VECTORIZED:
        return loop
    # A value of more nodes than this is stored in a buffer. With 0, every value is.
    max_size = 0 if _may_be_scalarized(loop.body) else LONG
    allocations: list[Stmt] = []

    def with_bindings(stores: list[BufferStore]) -> Stmt:
        """Returns stores with the bindings of their values before them."""
        statements = _BindingStatements(max_size, loop.extent, loop.loop_var)
        bound_stores = [part for store in stores for part in statements.bind_for(store)]
        allocations.extend(statements.allocations)
        return emit.sequence(bound_stores)

    if _are_separate_statements(loop.body):
        body = with_bindings(list(loop.body.seq))
    else:
        body = structural_map(loop.body, (BufferStore, lambda store: with_bindings([store])))
    return emit.sequence([*allocations, tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)])


def _are_separate_statements(body: Stmt) -> bool:
    """Returns whether a statement is a sequence of stores, none of which loads from a buffer that is stored to.

    Such stores can share `Let` variables. Otherwise a variable's value might change between two stores.
    """
    if not isinstance(body, SeqStmt) or not all(isinstance(part, BufferStore) for part in body.seq):
        return False
    return not any(load.source.same_as(store.buffer) for store in body.seq for load in loads(body))


class _BindingStatements:
    """The statements that bind the `Let` variables of stores.

    The variables are new ones, since a store elsewhere may have the same `Let`.
    """

    def __init__(self, max_size: int = LONG, lanes: ir.Expr | None = None, lane: ir.Expr | None = None) -> None:
        self.max_size, self.lanes, self.lane = max_size, lanes, lane
        self.allocations: list[Stmt] = []
        self.bindings: list[Stmt] = []
        self.replacements: dict[Var, ir.Expr] = {}
        self.sizes: dict[Var, int] = {}

    def bind_for(self, store: BufferStore) -> list[Stmt]:
        """Returns statements that bind the `Let` variables of a store, then the store without its `Let`s.

        Variables that an earlier store has bound aren't bound again. In a vector loop, allocations of buffers aren't
        returned: they go before the loop.
        """
        lets: LetBindings = []
        value = _without_lets(store.value, lets)
        if not lets:
            return [store]
        for var, bound_value in lets:
            if var not in self.replacements:
                self.bind(var, bound_value)
        new_bindings, self.bindings = self.bindings, []
        is_in_vector_loop = self.lane is not None
        allocations = [] if is_in_vector_loop else self.allocations
        new_store = BufferStore(store.buffer, self.substitute(value), list(store.indices))
        return [*allocations, *new_bindings, new_store]

    def bind(self, var: Var, value: ir.Expr) -> None:
        """Binds a `Let` variable to a value by a statement; a long value is stored in a buffer instead.

        In vector loops, comparisons are stored in a buffer, too.
        """
        size = self.expanded_size(value)
        if size > self.max_size or (self.lanes is not None and _is_comparison(value)):
            self.bind_in_buffer(var, self.substitute(value))
        else:
            new_var = Var(var.name, var.ty)
            self.bindings.append(tirx.Bind(new_var, self.substitute(value)))
            self.replacements[var], self.sizes[var] = new_var, size

    def bind_in_buffer(self, var: Var, value: ir.Expr) -> None:
        """Emits a store of a `Let` variable's value to a buffer; each use of the variable becomes a load from there."""
        buffer = emit.scratch([1 if self.lanes is None else self.lanes], str(var.ty.dtype), var.name, "local")
        indices = [emit.index(0) if self.lane is None else self.lane]
        self.allocations.append(emit.allocate(buffer))
        self.bindings.append(emit.store(buffer, value, indices))
        self.replacements[var] = emit.load(buffer, indices)

    def substitute(self, value: ir.Expr) -> ir.Expr:
        """Returns an expression with its variables replaced by those that are bound here."""
        return _substitute(value, self.replacements)

    def expanded_size(self, value: ir.Expr) -> int:
        """Returns how many nodes an expression has after TVM's analyzer has replaced `Let` variables by their values."""
        nodes = 0

        def count(node: object) -> None:
            """Adds the size of a node; a bound variable has the size of its value."""
            nonlocal nodes
            nodes += self.sizes.get(node, 1) if isinstance(node, Var) else 1

        structural_walk(value, (ir.Expr, count))
        return nodes


def _is_comparison(value: ir.Expr) -> bool:
    """Returns whether a value is a comparison, or contains the cast of one; a Select by a comparison doesn't count.

    TVM 0.27's analyzer fails on a vector of such values, also during LLVM code generation: "ValueError: IntImm can only
    take scalar". It creates the possible values, false and true, as scalars of a vector type.
    """
    casts: list[tirx.Cast] = []
    structural_walk(value, (tirx.Cast, casts.append))
    return isinstance(value, TESTS) or any(isinstance(cast.value, TESTS) for cast in casts)


def _substitute(value: ir.Expr, replacements: dict[Var, ir.Expr]) -> ir.Expr:
    return structural_map(value, (Var, lambda var: replacements.get(var, var)))


def _without_lets(value: ir.Expr, lets: LetBindings) -> ir.Expr:
    """Removes the `Let`s from an expression, and appends them to ``lets`` in order; returns the expression.

    A branch of an `if_then_else` keeps its `Let`s, because their values must be computed only if the branch is taken.
    """
    choices: dict[Var, ir.Expr] = {}

    def remove_lets(node: ir.Expr) -> ir.Expr:
        """Replaces a `Let` by its body, and an `if_then_else` by a variable that hides its branches."""
        while isinstance(node, tirx.Let):
            _collect_let(node, lets)
            node = node.body
        return _replace_by_variable(node, choices) if _is_choice(node) else node

    result = structural_map(value, ((tirx.Let, ir.Call), remove_lets), order="pre")
    return _substitute(result, choices) if choices else result


def _collect_let(let: tirx.Let, lets: LetBindings) -> None:
    """Appends a `Let`, after the `Let`s in its value, to ``lets``, unless it is there already."""
    if not any(let.var.same_as(var) for var, _ in lets):
        lets.append((let.var, _without_lets(let.value, lets)))


def _is_choice(node: ir.Expr) -> bool:
    """Returns whether an expression is an `if_then_else`, which evaluates one of its branches only."""
    return isinstance(node, ir.Call) and node.op.same_as(CHOOSE)


def _replace_by_variable(node: ir.Call, branches: dict[Var, ir.Expr]) -> Var:
    """Returns a variable that stands for an `if_then_else`, to hide its branches from the search for `Let`s.

    ``branches`` records the hidden expression by the variable. The values in a branch must be computed only if the
    branch is taken.
    """
    variable = Var("choice", node.ty)
    branches[variable] = node
    return variable
