"""Reads a PrimFunc as a list of stages, which rules inline, group and write as loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from tvm import ir, sym, tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx import BufferStore, For, IterVar, PrimFunc, SeqStmt, Stmt, Var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.core.variable_lock import cached_property
from tvtf.passes.schedule.constant_operands import constant_operands
from tvtf.passes.schedule.cpu import emit

INPLACE_PAIRS = "tvtf.inplace"
"""Attribute: ``[output, input]`` positions that may share memory; set by `passes/memory/buffer_donation.py`."""


@dataclass(frozen=True)
class Axis:
    """One loop of a stage: its variable and its extent (a constant or an expression of symbolic dims)."""

    var: Var
    extent: ir.Expr

    @cached_property
    def size(self) -> int | None:
        """The extent if it is static, else None."""
        return int(self.extent) if isinstance(self.extent, tirx.IntImm) else None


AxisIndices = dict[Var, ir.Expr]
"""An iteration of a loop nest: the index along each axis, by the axis's variable."""


def by_axis(axes: Sequence[Axis], indices: Sequence[ir.Expr]) -> AxisIndices:
    """Returns indices along some axes, which are in the same order, by the axes' variables."""
    return {axis.var: axis_index for axis, axis_index in zip(axes, indices, strict=True)}


def indices_of_axes(axes: Sequence[Axis], flat_index: ir.Expr) -> AxisIndices:
    """Returns the index along each axis, for a row-major (flat) index over all of them."""
    return by_axis(axes, emit.unflatten(flat_index, [axis.extent for axis in axes]))


@dataclass(frozen=True)
class Clip:
    """A bounds check for terms of a sum that are zero, such as those that read a convolution's zero border.

    Terms are zero, and needn't be summed, unless `low <= result * by_result + term * by_term < high`.
    """

    result: Axis
    term: Axis
    by_result: int
    by_term: int
    low: int
    high: int

    def bounds(self, first: int | ir.Expr, count: int) -> tuple[int | ir.Expr, int | ir.Expr]:
        """Returns the range (start, stop) of terms to sum for a tile of `count` results starting at `first`.

        Outside of this range, the term is zero for each of these results.
        """
        last_result = first + (count - 1)
        # Adding `by_term - 1` rounds the quotients up.
        start = self.low - last_result * self.by_result + (self.by_term - 1)
        stop = self.high - first * self.by_result + (self.by_term - 1)
        return start // self.by_term, stop // self.by_term

    @property
    def inner(self) -> tuple[int, int]:
        """The range (start, stop) of terms that are nonzero for every result."""
        size = self.term.size or 0
        last_offset = ((self.result.size or 1) - 1) * self.by_result
        first = min(size, max(0, emit.ceil_div(self.low, self.by_term)))
        return first, max(first, min(size, (self.high - 1 - last_offset) // self.by_term + 1))

    def includes(self, axis_indices: AxisIndices) -> ir.Expr:
        """Returns the condition that the term of an iteration lies within the bounds."""
        position = axis_indices[self.result.var] * self.by_result + axis_indices[self.term.var] * self.by_term
        return tirx.all(position >= self.low, position < self.high)

    def saved_share(self, tile_size: int) -> float:
        """Returns the share of terms that needn't be summed, if results are computed in tiles of `tile_size`."""
        results = self.result.size or 1
        terms = self.term.size or 1
        summed_terms = 0
        for first in range(0, results, tile_size):
            count = min(tile_size, results - first)
            start, stop = self.bounds(first, count)
            terms_of_tile = max(0, min(stop, terms) - max(start, 0))
            summed_terms += count * terms_of_tile
        return 1 - summed_terms / (results * terms)


@dataclass(frozen=True)
class Stage:
    """One loop nest of a kernel: `buffer[spatial...] = value`, or a reduction over the axes `reduce`.

    A reduction stores `init`, then `value` for each index along `reduce`; the value reads the buffer. `constants` are
    buffers that hold the same values in every call, so that a packed copy is made only once. Terms outside `clips`
    needn't be summed. Terms outside `edges` mustn't be summed, since their operands don't exist. `broadcast_axis` is a
    reduction axis for vectors over several groups: the operand that doesn't depend on this axis is loaded for all
    neighbouring results, and each term broadcasts the element at the term's index.
    """

    buffer: Var
    spatial: tuple[Axis, ...]
    reduce: tuple[Axis, ...]
    init: ir.Expr | None
    value: ir.Expr
    constants: frozenset[Var] = frozenset()
    clips: tuple[Clip, ...] = ()
    edges: tuple[Clip, ...] = ()
    broadcast_axis: Axis | None = None

    @cached_property
    def dtype(self) -> str:
        return str(self.buffer.ty.dtype.dtype)

    @cached_property
    def item_bytes(self) -> int:
        """The size of one element of the result, in bytes."""
        return max(1, self.buffer.ty.dtype.dtype.itemsize)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The result axes, then the reduction axes."""
        return self.spatial + self.reduce

    @cached_property
    def loads(self) -> tuple[TensorLoad, ...]:
        """All loads in the value, inner ones first."""
        return tuple(loads(self.value))

    def at(self, indices: list[ir.Expr]) -> ir.Expr:
        """Returns an elementwise stage's value at the given indices."""
        return substitute(self.value, by_axis(self.spatial, indices))


@dataclass(frozen=True)
class Opaque:
    """A loop nest in a form that isn't read as a stage: kept in order and run as it is written."""

    body: Stmt


@dataclass(frozen=True)
class Kernel:
    """All stages of a PrimFunc in order of execution, and the buffers that exist only inside it."""

    stages: tuple[Stage | Opaque, ...]
    local: tuple[Var, ...]

    def is_local(self, buffer: Var) -> bool:
        """Returns whether a buffer exists only inside the kernel."""
        return any(buffer.same_as(other) for other in self.local)

    def has_pairs(self) -> bool:
        """Returns whether the kernel loads or stores complex numbers, which are pairs: elements of dtype float32x2."""
        for stage in self.stages:
            if isinstance(stage, Opaque):
                buffers = [load.source for load in loads(stage.body)]
            else:
                buffers = [stage.buffer, *(load.source for load in stage.loads)]
            if any("x" in str(buffer.ty.dtype) for buffer in buffers):
                return True
        return False


def substitute(node: ir.Expr | Stmt, values: dict[Var, ir.Expr]) -> ir.Expr | Stmt:
    """Replaces variables by expressions.

    The variables of `Let`s in the result are new ones, since code for LLVM may bind each variable only once.

    Args:
        node: the expression or statement.
        values: the expression that replaces each variable.
    """
    values = {**values, **_fresh_let_variables(node)}
    if not values:
        return node
    return structural_map(node, (Var, lambda var: values.get(var, var)))


def _fresh_let_variables(node: ir.Expr | Stmt) -> dict[Var, Var]:
    """Returns a new variable for each variable that a `Let` in a node binds."""
    bound: list[Var] = []
    structural_walk(node, (tirx.Let, lambda let: bound.append(let.var)))
    return {var: Var(var.name, var.ty) for var in bound}


def replace_loads(node: ir.Expr, buffer: Var, value: Callable[[list[ir.Expr]], ir.Expr]) -> ir.Expr:
    """Replaces each load from `buffer` by `value(indices)`."""
    return structural_map(
        node, (TensorLoad, lambda load: value(list(load.indices)) if load.source.same_as(buffer) else load)
    )


def loads(node: ir.Expr) -> list[TensorLoad]:
    """Returns all loads in an expression, inner ones first."""
    result: list[TensorLoad] = []
    structural_walk(node, (TensorLoad, lambda load: result.append(load)))
    return result


def reads(member: Stage | Opaque, buffer: Var) -> bool:
    """Returns whether a stage or an opaque loop nest loads from a buffer."""
    all_loads = loads(member.body) if isinstance(member, Opaque) else member.loads
    return any(load.source.same_as(buffer) for load in all_loads)


def variables(node: ir.Expr) -> set[Var]:
    """Returns all variables in an expression."""
    result: set[Var] = set()
    structural_walk(node, (Var, lambda var: result.add(var)))
    return result


def has_calls(node: ir.Expr) -> bool:
    """Returns whether an expression calls functions (such as `exp` or `if_then_else`) or selects among values."""
    calls: list[ir.Expr] = []
    structural_walk(node, ((ir.Call, tirx.Select), lambda call: calls.append(call)))
    return bool(calls)


def is_choice(value: ir.Expr) -> bool:
    """Returns whether an expression is an `if_then_else`."""
    return isinstance(value, ir.Call) and str(getattr(value.op, "name", "")).endswith("if_then_else")


def conjuncts(condition: ir.Expr) -> list[ir.Expr]:
    """Splits a condition at its `and`s: ``a and b and c`` gives ``[a, b, c]``."""
    if isinstance(condition, tirx.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def with_simplified_indices(value: ir.Expr, analyzer: sym.Analyzer) -> ir.Expr:
    """Simplifies the indices of loads and the bounds checks in a value, but no arithmetic.

    TVM's simplifier turns ``x - x`` into 0, which is wrong for NaN (see `codegen/floats.py`).
    """

    def simplify_indices(node: TensorLoad) -> ir.Expr:
        """Simplifies the indices of a load."""
        return tirx.BufferLoad(node.source, [analyzer.simplify(index) for index in node.indices])

    def simplify_choice(call: ir.Expr) -> ir.Expr:
        """Replaces a choice whose condition is decided by the chosen value; other choices keep both values."""
        if not is_choice(call):
            return call
        condition, value_if_true, value_if_false = call.args
        if loads(condition):
            return call
        condition = analyzer.simplify(condition)
        if isinstance(condition, tirx.IntImm):
            return value_if_true if int(condition) else value_if_false
        return tirx.if_then_else(condition, value_if_true, value_if_false)

    return structural_map(value, [(TensorLoad, simplify_indices), (ir.Call, simplify_choice)])


@lru_cache(maxsize=2000)
def read_kernel(func: PrimFunc) -> Kernel | None:
    """Parses a PrimFunc, as TE lowering and FuseTIR make it, into stages (one per loop nest).

    Schedules read the axes and loads of the stages, and write new loops. Returns None for a function of another form.
    The result is cached, since several phases read the same kernel; `compile_module` clears the cache.
    """
    root = func.body
    if not isinstance(root, SBlockRealize) or root.iter_values:
        return None
    block = root.block
    if block.match_buffers or block.init is not None:
        return None
    constants = _constant_buffers(func)
    stages: list[Stage | Opaque] = []
    for nest in _statements(block.body):
        stage = _read_nest(nest)
        if stage is None:
            return None
        if isinstance(stage, Stage):
            if not _has_long_indices(stage):
                return None
            stage = replace(stage, constants=constants)
        stages.append(stage)
    return Kernel(tuple(stages), tuple(block.alloc_buffers))


def _constant_buffers(func: PrimFunc) -> frozenset[Var]:
    """Returns the parameters of a function that hold the same values in every call."""
    return frozenset(func.params[position] for position in constant_operands(func))


def _has_long_indices(stage: Stage) -> bool:
    """Returns whether a stage's indices are int64, as in Relax.

    TE code with Python ints as shapes has int32 indices.
    """
    return all(str(axis.var.ty.dtype) == "int64" for axis in stage.axes)


def _statements(body: Stmt) -> Iterator[Stmt]:
    """Yields the statements of a sequence, or a single statement."""
    yield from body.seq[:] if isinstance(body, SeqStmt) else [body]


def _read_nest(nest: Stmt) -> Stage | Opaque | None:
    """Parses one loop nest into a stage, or an opaque nest; returns None if it has blocks that can't be removed.

    Stages can be fused, tiled and vectorized. An opaque nest keeps its loops.
    """
    loops: list[For] = []
    body = nest
    while isinstance(body, For):
        loops.append(body)
        body = body.body
    stage = _read_block(loops, body) if isinstance(body, SBlockRealize) else None
    if stage is not None:
        return stage
    lowered = _without_blocks(nest)
    return None if lowered is None else Opaque(lowered)


def _read_block(loops: list[For], realize: SBlockRealize) -> Stage | None:
    """Parses the block of a perfect loop nest into a stage; returns None unless the block only stores one element.

    The block's iteration variables become the axes of the stage. Data-parallel variables are result axes, reduction
    variables are reduction axes.

    Args:
        loops: the loops around the block, from outer to inner.
        realize: the block, with the values of its iteration variables.
    """
    block, store = realize.block, realize.block.body
    if not _is_perfect_nest(loops, realize) or not isinstance(store, BufferStore):
        return None
    if _stores_scalar(block, loops):
        return Stage(store.buffer, (), (), None, store.value)
    iter_vars = block.iter_vars[:]
    spatial = [iter_var for iter_var in iter_vars if iter_var.iter_type == IterVar.DataPar]
    reduce = [iter_var for iter_var in iter_vars if iter_var.iter_type == IterVar.CommReduce]
    if len(spatial) + len(reduce) != len(iter_vars):
        return None
    has_init = block.init is not None
    if bool(reduce) != has_init:  # exactly the reductions have an initial value
        return None
    spatial_axes = _axes_in_buffer_order(spatial, store.indices[:])
    if spatial_axes is None:
        return None
    reduce_axes = tuple(Axis(iter_var.var, iter_var.dom.extent) for iter_var in reduce)
    return Stage(store.buffer, spatial_axes, reduce_axes, block.init.value if has_init else None, store.value)


def _stores_scalar(block: SBlock, loops: list[For]) -> bool:
    """Returns whether a block stores the element of a tensor of rank 0, for which TE may add an axis of extent 1."""
    return not loops and not list(block.body.indices) and len(block.iter_vars) <= 1 and block.init is None


def _is_perfect_nest(loops: list[For], realize: SBlockRealize) -> bool:
    """Returns whether a block is in a perfect serial nest with one loop per axis, without a predicate or own buffers.

    Other nests become opaque.

    Args:
        loops: the loops around the block, from outer to inner.
        realize: the block, with the values of its iteration variables.
    """
    block = realize.block
    has_predicate = not isinstance(realize.predicate, tirx.IntImm)
    if has_predicate or block.alloc_buffers or block.match_buffers:
        return False
    if isinstance(block.body, BufferStore) and _stores_scalar(block, loops):
        return True
    if len(realize.iter_values) != len(loops):
        return False
    for value, loop in zip(realize.iter_values[:], loops, strict=True):
        is_serial = loop.kind == tirx.ForKind.SERIAL and _is_zero(loop.min)
        if not is_serial or not value.same_as(loop.loop_var):
            return False
    return True


def _axes_in_buffer_order(spatial: list[IterVar], indices: list[ir.Expr]) -> tuple[Axis, ...] | None:
    """Returns the spatial axes in the order of the buffer's dims, or None unless each index is a different axis, or 0.

    An index of 0 becomes an axis of extent 1. Schedules rely on this order, in which the last axis is contiguous in
    memory.
    """
    axes: list[Axis] = []
    unmatched = list(spatial)
    for index in indices:
        if _is_zero(index):
            axes.append(Axis(Var("unit", "int64"), tirx.IntImm("int64", 1)))
            continue
        match = next((iter_var for iter_var in unmatched if iter_var.var.same_as(index)), None)
        if match is None:
            return None
        unmatched.remove(match)
        axes.append(Axis(match.var, match.dom.extent))
    return tuple(axes) if not unmatched else None


def _is_zero(value: ir.Expr) -> bool:
    """Returns whether an index is the constant 0."""
    return isinstance(value, tirx.IntImm) and int(value) == 0


def _without_blocks(node: Stmt) -> Stmt | None:
    """Removes the blocks from a loop nest, which leaves loops and stores; returns None if a block can't be removed.

    A block's variables are substituted, and its `init` runs in the first reduction step only.
    """
    if isinstance(node, For):
        body = _without_blocks(node.body)
        if body is None:
            return None
        return For(node.loop_var, node.min, node.extent, node.kind, body, annotations=node.annotations)
    if isinstance(node, SeqStmt):
        parts = [_without_blocks(part) for part in node.seq]
        return None if None in parts else SeqStmt(parts)
    if isinstance(node, SBlockRealize):
        return _lowered_block(node)
    return None


def _lowered_block(realize: SBlockRealize) -> Stmt | None:
    """Returns a block's statements with its iteration variables substituted by the loops' values.

    Returns None if the block has buffers of its own, or contains other blocks. Code generation handles plain loops and
    stores only.
    """
    block = realize.block
    if block.alloc_buffers or block.match_buffers or _has_blocks(block.body):
        return None
    values = {iter_var.var: value for iter_var, value in zip(block.iter_vars, realize.iter_values, strict=True)}
    body = block.body if block.init is None else SeqStmt([_init_in_first_step(block), block.body])
    body = substitute(body, values)
    if isinstance(realize.predicate, tirx.IntImm) and int(realize.predicate):
        return body
    return tirx.IfThenElse(realize.predicate, body, None)


def _init_in_first_step(block: SBlock) -> Stmt:
    """Returns a block's `init` statement, which runs in the first iteration of all reduction axes only."""
    is_first_iteration = [
        iter_var.var == iter_var.dom.min for iter_var in block.iter_vars if iter_var.iter_type == IterVar.CommReduce
    ]
    if not is_first_iteration:  # no reduction axes
        return block.init
    return tirx.IfThenElse(tirx.all(*is_first_iteration), block.init, None)


def _has_blocks(node: Stmt) -> bool:
    """Returns whether a statement contains blocks."""
    blocks: list[SBlock] = []
    structural_walk(node, (SBlock, lambda block: blocks.append(block)))
    return bool(blocks)


def with_value(stage: Stage, value: ir.Expr) -> Stage:
    """Returns a copy of a stage with another value."""
    return replace(stage, value=value)
