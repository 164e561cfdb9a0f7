"""Writes a loop of the virtual machine as one kernel: a TIR `while` around the statements of its functions' kernels.

The carried values live in buffers that each iteration overwrites. Small buffers are on the stack, so that LLVM keeps
scalars in registers. Larger ones are arguments of the kernel: they are allocated once, are part of the memory plan, and
don't leak when the loop ends by an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.tirx import PrimFunc, Stmt, Var
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.passes.analysis.loop_op import carried_count, is_loop, seconds, signal_check
from tvtf.passes.codegen.argument_checks import has_asserts
from tvtf.passes.codegen.inline_kernel import inlined, is_large
from tvtf.passes.codegen.loop_invariants import split_invariants
from tvtf.passes.schedule.cpu import emit

MAY_FAIL = "tvtf.may_fail"
SAFE = "tvtf.inplace"
"""Attribute: ``[output, input]`` positions that may share memory; set by `passes/memory/buffer_donation.py`."""
POLL_WORK = 1 << 16
"""Statements executed between two reads of the clock: about 20 us."""
UNKNOWN_EXTENT = 64
"""Iterations assumed for a loop of unknown extent, when work is estimated."""
MAX_STATEMENTS = 5000
"""A longer loop stays in the virtual machine: LLVM then compiles its kernels in parallel, and each only once."""
EMBEDDED = ("bool", "int32", "int64", "float32", "float64")

Value = Any
"""A buffer, a scalar expression, or a tuple of values."""


class NotNative(Exception):
    """Raised for a loop that can't be written as a kernel; the text names what prevents it."""


class LoopKernel:
    """The kernel of a loop, and how to call it.

    Its arguments are ``operands``, then tensors of the types ``allocated``. Each of ``results`` is the position of one
    of these tensors; for a carried value that the body returns unchanged (it may have written into it) it is the
    operand. Only results in ``used_results`` are guaranteed to be written.

    Raises:
      NotNative: the loop has to stay in the virtual machine.
    """

    def __init__(self, mod: tvm.IRModule, call: relax.Call, used_results: set[int], polls: bool) -> None:
        self.mod, self.polls = mod, polls
        self.inputs: dict[Any, Var] = {}
        self.outputs: list[Var] = []
        self.workspaces: list[Var] = []
        self.may_fail = False
        self.places: dict[Var, Var] = {}
        self.dims: dict[Var, ir.Expr] = {}
        self.statements: list[Stmt | None] = []
        self.into: Var | None = None
        self.results = self._write(call, used_results)
        if sum(map(_length, self.statements)) > MAX_STATEMENTS:
            raise NotNative("its length")
        self.allocated = [_tensor_type(place) for place in [*self.outputs, *self.workspaces]]
        sizes = self._unbound_sizes()
        self.operands = [*self.inputs, *sizes]
        self.function = self._function(sizes)

    def _write(self, call: relax.Call, used_results: set[int]) -> list[Any]:
        """Emits the loop; returns each result's output position or operand."""
        carried = list(call.args)[2 : 2 + carried_count(call)]
        values = [self.value(x, {}) for x in list(call.args)[2:]]
        state = self.loop(call, values, [k in used_results for k in range(len(carried))])
        results: list[Any] = []
        for k, (buffer, operand) in enumerate(zip(state, carried)):
            # The loop doesn't change this value.
            if buffer is values[k]:
                results.append(operand)
            elif k in used_results:
                results.append(self._output_position(buffer))
            else:
                results.append(operand)
        return results

    def _output_position(self, buffer: Var) -> int:
        """Returns the position of the output that holds a buffer at the end, adding a copy if there is none."""
        if buffer not in self.outputs:
            place = _buffer_like(buffer, "result")
            self.outputs.append(place)
            self.emit(_copy(buffer, place))
            return len(self.outputs) - 1
        return self.outputs.index(buffer)

    def _unbound_sizes(self) -> list[Var]:
        """Returns the size variables in use that no buffer's shape binds: they become scalar parameters."""
        bound = {d for b in self._buffers() for d in b.ty.shape if isinstance(d, Var)}
        used: list[Var] = []
        for stmt in self.statements:
            used += [v for v in tirx.analysis.undefined_vars(stmt, []) if not is_buffer_var(v)]
        used += [v for b in self._buffers() for d in b.ty.shape for v in tirx.analysis.undefined_vars(d)]
        return [v for v in dict.fromkeys(used) if v not in bound]

    def _buffers(self) -> list[Var]:
        return [*self.inputs.values(), *self.outputs, *self.workspaces]

    def _function(self, sizes: list[Var]) -> PrimFunc:
        body = emit.sequence(self.statements)
        params = [*self.inputs.values(), *sizes, *self.outputs, *self.workspaces]
        func = PrimFunc(params, body).with_attr("tirx.is_scheduled", True).with_attr("tirx.noalias", True)
        return func.with_attr(MAY_FAIL, True) if self.may_fail else func

    # -- statements

    def emit(self, stmt: Stmt) -> None:
        self.statements.append(stmt)

    def block(self, write: Callable[[], Any]) -> tuple[Stmt, Any]:
        """Returns the statements that ``write`` emits, and its result."""
        outer, self.statements = self.statements, []
        try:
            result = write()
            return emit.sequence(self.statements), result
        finally:
            self.statements = outer

    def place(self, shape: Sequence[ir.Expr], dtype: str, name: str) -> Var:
        """Returns a new buffer of the kernel: on the stack if it is small, else a workspace argument.

        LLVM keeps small buffers in registers.
        """
        buffer = emit.scratch(list(shape), dtype, name, "local")
        if not is_large(buffer):
            self.emit(emit.allocate(buffer))
            return buffer
        self.workspaces.append(emit.scratch(list(shape), dtype, name))
        return self.workspaces[-1]

    def place_like(self, buffer: Var, name: str) -> Var:
        return self.place(buffer.ty.shape, str(buffer.ty.dtype), name)

    # -- expressions

    def value(self, expr: Any, env: dict[Any, Value]) -> Value:
        """Returns the buffer, scalar or tuple that an expression stands for, emitting what computes it."""
        if isinstance(expr, relax.Var) and expr in env:
            return env[expr]
        # Outside of functions, a variable is a value of the caller: an operand of the kernel.
        if isinstance(expr, relax.Var) and not env and isinstance(expr.ty, relax.TensorType):
            return self.input(expr)
        if isinstance(expr, ir.Constant):
            return self.constant(expr)
        if isinstance(expr, relax.Tuple):
            return tuple(self.value(x, env) for x in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self.value(expr.tuple_value, env)[int(expr.index)]
        if isinstance(expr, relax.If):
            return self.branch(expr, env)
        if isinstance(expr, relax.Call):
            return self.call(expr, env)
        if isinstance(expr, ir.Expr) and isinstance(expr.ty, ir.PrimType):
            return self.scalar(expr)
        raise NotNative(f"a {type(expr).__name__}")

    def input(self, expr: Any) -> Var:
        """Returns the parameter for a tensor from outside the loop."""
        if expr not in self.inputs:
            if expr.ty.shape is None:
                raise NotNative("a tensor of unknown rank")
            self.inputs[expr] = emit.scratch(list(expr.ty.shape.values), str(expr.ty.dtype), "given")
        return self.inputs[expr]

    def constant(self, expr: ir.Constant) -> Var:
        dtype = str(expr.value.dtype)
        if len(expr.value.shape) or dtype not in EMBEDDED:
            return self.input(expr)
        place = self.place([], dtype, "constant")
        self.emit(emit.store(place, tirx.const(expr.value.numpy().item(), dtype), []))
        return place

    def scalar(self, expr: ir.Expr) -> ir.Expr:
        return structural_map(expr, (Var, lambda var: self.dims.get(var, var)))

    def call(self, call: relax.Call, env: dict[Any, Value]) -> Value:
        """Inlines a call of a loop, a function of the module, or a kernel."""
        if is_loop(call):
            operands = [self.value(x, env) for x in list(call.args)[2:]]
            return tuple(self.loop(call, operands, [False] * carried_count(call)))
        if isinstance(call.op, ir.GlobalVar):
            return self.called(call.op, [self.value(x, env) for x in call.args])
        if isinstance(call.op, ir.Op) and call.op.name == "relax.call_tir":
            return self.kernel_call(call, env)
        raise NotNative(str(call.op))

    def called(self, name: ir.GlobalVar, operands: list[Value]) -> Value:
        func = self.mod[name]
        if isinstance(func, relax.Function):
            return self.run(func, operands)
        self.inline(func, operands)
        return ()

    def kernel_call(self, call: relax.Call, env: dict[Any, Value]) -> Value:
        """Inlines a kernel; its result goes to the buffer chosen for it, else to a new one."""
        operands = list(self.value(call.args[1], env))
        if len(call.args) > 2:
            operands += map(self.scalar, call.args[2].values)
        (ty,) = call.ty_args
        fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
        into, self.into = self.into, None
        results = [self._place_of(t) for t in fields] if into is None else [into]
        sizes = len(call.args[2].values) if len(call.args) > 2 else 0
        split = len(operands) - sizes
        self.inline(self.mod[call.args[0]], [*operands[:split], *results, *operands[split:]])
        return tuple(results) if isinstance(ty, relax.TupleType) else results[0]

    def _place_of(self, ty: relax.TensorType) -> Var:
        return self.place(list(map(self.scalar, ty.shape.values)), str(ty.dtype), "value")

    def inline(self, func: PrimFunc, operands: list[Value]) -> None:
        self.may_fail = self.may_fail or has_asserts(func)
        body, moved = inlined(func, operands)
        self.workspaces += moved
        self.emit(body)

    def run(self, func: relax.Function, operands: Sequence[Value]) -> Value:
        """Inlines a Relax function on values."""
        env = dict(zip(func.params, operands, strict=True))
        outer = self.dims
        self.dims = _dims(func.params, operands)
        result = self.sequence(func.body, env)
        self.dims = outer
        return result

    def sequence(self, expr: Any, env: dict[Any, Value]) -> Value:
        """Emits the bindings of a sequence, and returns its value."""
        if not isinstance(expr, relax.SeqExpr):
            return self.value(expr, env)
        for block in expr.blocks:
            for binding in block.bindings:
                # A tensor of computed size would have to be allocated in the kernel.
                if isinstance(binding, relax.MatchCast):
                    raise NotNative("a computed shape")
                self.into = self.places.get(binding.var)
                env[binding.var] = self.value(binding.value, env)
        return self.value(expr.body, env)

    # -- control flow

    def branch(self, expr: relax.If, env: dict[Any, Value]) -> Value:
        """Writes an If; each side copies its value to a common place."""
        chosen = self.value(expr.cond, env)
        sides = [self.block(partial(self.sequence, s, dict(env))) for s in (expr.true_branch, expr.false_branch)]
        # Both sides are written first: what place they have in common depends on their values.
        merged = self.merged([value for _, value in sides])
        bodies = [self.block(partial(self._end_side, body, value, merged))[0] for body, value in sides]
        self.emit(tirx.IfThenElse(tirx.BufferLoad(chosen, []), *bodies))
        return merged

    def merged(self, values: list[Value]) -> Value:
        """Returns the buffer that both sides of a branch write their value to."""
        first, other = values
        if isinstance(first, tuple):
            return tuple(self.merged(list(pair)) for pair in zip(first, other, strict=True))
        return first if first is other else self.place_like(first, "chosen")

    def _end_side(self, body: Stmt, value: Value, merged: Value) -> None:
        self.emit(body)
        for source, target in _pairs(value, merged):
            self.emit(_copy(source, target))

    def loop(self, call: relax.Call, values: list[Value], outside: list[bool]) -> list[Var]:
        """Writes the loop on ``values`` and returns its state.

        Large state that is needed ``outside`` is an output of the kernel. The loop's form is
        ``while going: going = condition(); if going: body()``, with invariant statements of the body in front of it.
        """
        if any(t.shape is None for t in call.ty.fields):
            raise NotNative("a shape that changes")
        condition, body = (self.mod[part] for part in call.args[:2])
        count = len(outside)
        state = [
            value if _passes_through(body, k) else self.started(value, outside[k])
            for k, value in enumerate(values[:count])
        ]
        over = {k: overwriting(self.mod, body, k) for k, place in enumerate(state) if is_large(place)}
        self.places |= {var: state[k] for k, var in over.items() if var is not None}
        inputs = [*state, *values[count:]]
        going, polling = self.place([], "bool", "going"), _SignalPoll(self) if self.polls else None
        self.emit(emit.store(going, tirx.const(True, "bool"), []))
        known = len(self.workspaces)
        all_statements, _ = self.block(lambda: self.carry(state, self.run(body, inputs)))
        before, rest = split_invariants(all_statements, self.workspaces[known:])
        self.statements += before
        iteration = emit.sequence(rest)
        test, _ = self.block(lambda: self.emit(_copy(self.run(condition, inputs), going)))
        poll = [] if polling is None else [polling.poll(POLL_WORK // max(1, _work(iteration)))]
        again = tirx.IfThenElse(tirx.BufferLoad(going, []), emit.sequence([iteration, *poll]), None)
        self.emit(tirx.While(tirx.BufferLoad(going, []), emit.sequence([test, again])))
        return state

    def started(self, value: Var, outside: bool) -> Var:
        """Copies an initial value to a buffer that iterations overwrite: an output if large and needed outside."""
        # The state of a large result is the result's memory; a small one is copied at the end, and lives in registers.
        if outside and is_large(value):
            place = _buffer_like(value, "state")
            self.outputs.append(place)
        else:
            place = self.place_like(value, "state")
        self.emit(_copy(value, place))
        return place

    def carry(self, state: list[Var], values: Sequence[Var]) -> None:
        """Copies an iteration's results into the state, as a parallel move: results that are state are saved first."""
        moves = [(value, to) for value, to in zip(values, state, strict=True) if value is not to]
        staged = [(self.staged(value) if value in state else value, to) for value, to in moves]
        for value, to in staged:
            self.emit(_copy(value, to))

    def staged(self, value: Var) -> Var:
        place = self.place_like(value, "staged")
        self.emit(_copy(value, place))
        return place


class _SignalPoll:
    """Polling for Ctrl-C: the clock is read every few iterations, and Python is called once a second."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.iterations, self.last = kernel.place([], "int32", "turns"), kernel.place([], "int64", "last")
        kernel.emit(emit.store(self.iterations, tirx.IntImm("int32", 0), []))
        kernel.emit(emit.store(self.last, seconds(), []))

    def poll(self, iterations: int) -> Stmt:
        """Returns the statement that an iteration ends with; the clock is read every ``iterations`` iterations.

        Signals are handled only now and then, because even a look at the clock is slow beside a short iteration.
        """
        now = Var("now", "int64")
        check = emit.sequence([emit.store(self.last, now, []), signal_check()])
        later = tirx.IfThenElse(tirx.NE(now, tirx.BufferLoad(self.last, [])), check, None)
        look = emit.sequence(
            [emit.store(self.iterations, tirx.IntImm("int32", 0), []), tirx.Bind(now, seconds()), later]
        )
        if iterations <= 1:
            return look
        count = emit.store(self.iterations, tirx.BufferLoad(self.iterations, []) + 1, [])
        due = tirx.GE(tirx.BufferLoad(self.iterations, []), tirx.IntImm("int32", iterations))
        return emit.sequence([count, tirx.IfThenElse(due, look, None)])


def _passes_through(body: relax.Function, k: int) -> bool:
    """Returns whether a body returns its ``k``-th parameter unchanged as its ``k``-th result."""
    values = {b.var: b.value for block in body.body.blocks for b in block.bindings}
    result = body.body.body
    result = values.get(result, result) if isinstance(result, relax.Var) else result
    field = result.fields[k] if isinstance(result, relax.Tuple) else None
    while field in values:
        field = values[field]
    return field is not None and field.same_as(body.params[k])


def overwriting(mod: tvm.IRModule, body: relax.Function, k: int) -> relax.Var | None:
    """Returns the ``k``-th result of a loop's body if its kernel may overwrite the ``k``-th parameter, else None.

    It may if nothing reads the parameter later, and the kernel reads it only at the element that it writes.
    """
    if not isinstance(body.body.body, relax.Tuple):
        return None
    bindings = [b for block in body.body.blocks for b in block.bindings]
    param, fields = body.params[k], list(body.body.body.fields)
    users = [b for b in bindings if param in relax.analysis.free_vars(b.value)]
    position = next((i for i, b in enumerate(bindings) if b.var.same_as(fields[k])), None)
    if position is None or param in fields or not all(_is_kernel_call(b.value) for b in [*users, bindings[position]]):
        return None
    if any(b.var.same_as(later.var) for b in users for later in bindings[position + 1 :]):
        return None
    return bindings[position].var if _is_safe(mod, bindings[position].value, param) else None


def _is_kernel_call(value: Any) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == "relax.call_tir"


def _is_safe(mod: tvm.IRModule, call: relax.Call, param: relax.Var) -> bool:
    """Returns whether a kernel with one result reads an operand only at the element that it writes."""
    if isinstance(call.ty_args[0], relax.TupleType):
        return False
    operands = list(call.args[1].fields)
    safe = {tuple(map(int, pair)) for pair in (mod[call.args[0]].attrs or {}).get(SAFE, [])}
    return all((len(operands), i) in safe for i, x in enumerate(operands) if x.same_as(param))


def _dims(params: Sequence[relax.Var], operands: Sequence[Value]) -> dict[Var, ir.Expr]:
    """Returns the values of a function's symbolic dims for some operands."""
    dims: dict[Var, ir.Expr] = {}
    for param, operand in zip(params, operands, strict=True):
        if not isinstance(param.ty, relax.TensorType):
            raise NotNative("a parameter that is no tensor")
        for dim, actual in zip(param.ty.shape.values, operand.ty.shape, strict=True):
            if isinstance(dim, Var):
                dims.setdefault(dim, actual)
    return dims


def _pairs(value: Value, target: Value) -> list[tuple[Var, Var]]:
    if isinstance(value, tuple):
        return [pair for v, t in zip(value, target, strict=True) for pair in _pairs(v, t)]
    return [] if value is target else [(value, target)]


def _buffer_like(buffer: Var, name: str) -> Var:
    return emit.scratch(list(buffer.ty.shape), str(buffer.ty.dtype), name)


def _tensor_type(buffer: Var) -> relax.TensorType:
    return relax.TensorType(list(buffer.ty.shape), str(buffer.ty.dtype))


def _copy(source: Var, target: Var) -> Stmt:
    return emit.nest(list(source.ty.shape), lambda at: emit.store(target, emit.load(source, at), at))


def _length(stmt: Stmt) -> int:
    statements: list[Stmt] = []
    structural_walk(stmt, (Stmt, statements.append))
    return len(statements)


def _work(stmt: Any) -> int:
    """Estimates how many statements a statement executes."""
    if isinstance(stmt, tirx.For):
        return (emit.static(stmt.extent) or UNKNOWN_EXTENT) * _work(stmt.body)
    if isinstance(stmt, tirx.While):
        return UNKNOWN_EXTENT * _work(stmt.body)
    if isinstance(stmt, tirx.SeqStmt):
        return sum(map(_work, stmt.seq))
    if isinstance(stmt, tirx.IfThenElse):
        return _work(stmt.then_case) + (0 if stmt.else_case is None else _work(stmt.else_case))
    return _work(stmt.body) if isinstance(getattr(stmt, "body", None), Stmt) else 1
