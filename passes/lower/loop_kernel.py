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
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.loop_op import carried_count, is_loop, seconds, signal_check
from tvtf.passes.codegen.argument_checks import has_asserts
from tvtf.passes.codegen.inline_kernel import inlined_body, is_large
from tvtf.passes.codegen.loop_invariants import split_invariants
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import INPLACE_PAIRS

MAY_FAIL = "tvtf.may_fail"
POLL_WORK = 1 << 16
"""Number of statements executed between two reads of the clock: about 20 us."""
UNKNOWN_EXTENT = 64
"""The extent that is assumed for a loop of unknown extent, when its work is estimated."""
MAX_STATEMENTS = 5000
"""Maximum number of statements of a loop kernel. The kernels of a longer loop stay separate: LLVM then compiles them in parallel,
and each only once."""
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
        """Builds the kernel of a while loop.

        Args:
          mod: the module with the loop's condition and body, and with their kernels.
          call: the call of the loop.
          used_results: the positions of the loop's results that are used.
          polls: whether the kernel checks for Ctrl-C.
        """
        self.mod, self.polls = mod, polls
        self.inputs: dict[Any, Var] = {}
        self.outputs: list[Var] = []
        self.workspaces: list[Var] = []
        self.may_fail = False
        self.assigned_buffers: dict[Var, Var] = {}  # by variable of the body: the carried value's buffer to overwrite
        self.dims: dict[Var, ir.Expr] = {}
        self.statements: list[Stmt | None] = []
        self.result_buffer: Var | None = None  # where the binding that is being emitted has to store its value
        self.results = self._write(call, used_results)
        if sum(map(_statement_count, self.statements)) > MAX_STATEMENTS:
            raise NotNative("its length")
        self.allocated = [_tensor_type(output) for output in [*self.outputs, *self.workspaces]]
        sizes = self._unbound_sizes()
        self.operands = [*self.inputs, *sizes]
        self.function = self._function(sizes)

    def _write(self, call: relax.Call, used_results: set[int]) -> list[Any]:
        """Emits the statements of the while loop.

        Returns each carried value's position among the kernel's outputs. A value that is unused or unchanged has no
        output; for it, the loop's operand is returned.

        Args:
          call: the call of the loop op.
          used_results: the positions of the carried values that are read after the loop.
        """
        _condition, _body, *operands = call.args
        carried = operands[: carried_count(call)]
        values = [self.evaluate(x, {}) for x in operands]
        needed_outside = [i in used_results for i in range(len(carried))]
        state = self.emit_loop(call, values, needed_outside)
        results: list[Any] = []
        for i, (buffer, operand) in enumerate(zip(state, carried)):
            is_unchanged = buffer is values[i]
            has_output = i in used_results and not is_unchanged
            results.append(self._output_of(buffer) if has_output else operand)
        return results

    def _output_of(self, buffer: Var) -> int:
        """Returns the position of the output whose memory is ``buffer``.

        If there is no such output, one is added, and ``buffer`` is copied to it after the loop. A large carried value
        is computed in the memory of its output, and needs no copy.
        """
        if buffer not in self.outputs:
            output = _buffer_like(buffer, "result")
            self.outputs.append(output)
            self.emit(_copy(buffer, output))
            return len(self.outputs) - 1
        return self.outputs.index(buffer)

    def _unbound_sizes(self) -> list[Var]:
        """Returns the symbolic sizes that the kernel uses but that aren't a dim of any parameter, each once, in order.

        The kernel can't read them from a buffer's shape, and takes them as scalar parameters.
        """
        dims = [dim for buffer in self._buffers() for dim in buffer.ty.shape]
        bound = {dim for dim in dims if isinstance(dim, Var)}
        used: list[Var] = []
        for stmt in self.statements:
            used += [var for var in tirx.analysis.undefined_vars(stmt, []) if not is_buffer_var(var)]
        for dim in dims:
            used.extend(tirx.analysis.undefined_vars(dim))
        unique = dict.fromkeys(used)
        return [var for var in unique if var not in bound]

    def _buffers(self) -> list[Var]:
        return [*self.inputs.values(), *self.outputs, *self.workspaces]

    def _function(self, sizes: list[Var]) -> PrimFunc:
        """Returns the kernel: all statements, with its operands, sizes, outputs and workspaces as parameters."""
        body = emit.sequence(self.statements)
        params = [*self.inputs.values(), *sizes, *self.outputs, *self.workspaces]
        func = PrimFunc(params, body).with_attr("tirx.is_scheduled", True).with_attr("tirx.noalias", True)
        return func.with_attr(MAY_FAIL, True) if self.may_fail else func

    # -- statements

    def emit(self, stmt: Stmt) -> None:
        """Appends a statement."""
        self.statements.append(stmt)

    def collect_statements(self, write: Callable[[], Any]) -> tuple[Stmt, Any]:
        """Calls ``write``, and returns the statements that the call emitted, and the result of the call.

        The statements aren't appended to the kernel: the caller puts them into a branch or a loop.
        """
        outer, self.statements = self.statements, []
        try:
            result = write()
            return emit.sequence(self.statements), result
        finally:
            self.statements = outer

    def new_buffer(self, shape: Sequence[ir.Expr], dtype: str, name: str) -> Var:
        """Creates a buffer for values inside of the kernel.

        A small buffer is on the stack, and LLVM keeps it in registers. A large one is a workspace: a parameter of the
        kernel, allocated by the caller.
        """
        buffer = emit.scratch(list(shape), dtype, name, "local")
        if not is_large(buffer):
            self.emit(emit.allocate(buffer))
            return buffer
        workspace = emit.scratch(list(shape), dtype, name)
        self.workspaces.append(workspace)
        return workspace

    def new_buffer_like(self, buffer: Var, name: str) -> Var:
        return self.new_buffer(buffer.ty.shape, str(buffer.ty.dtype), name)

    # -- expressions

    def evaluate(self, expr: Any, env: dict[Any, Value]) -> Value:
        """Emits the statements that compute a Relax expression, and returns its value: a buffer, scalar or tuple.

        Args:
          expr: the expression.
          env: the values of variables in the function that is inlined; empty outside of functions.

        Raises:
          NotNative: a kernel can't compute such an expression.
        """
        if isinstance(expr, relax.Var) and expr in env:
            return env[expr]
        # Outside of functions, a variable belongs to the loop's caller: it is an operand of the kernel.
        if isinstance(expr, relax.Var) and not env and isinstance(expr.ty, relax.TensorType):
            return self.parameter(expr)
        if isinstance(expr, ir.Constant):
            return self.constant_buffer(expr)
        if isinstance(expr, relax.Tuple):
            return tuple(self.evaluate(x, env) for x in expr.fields)
        if isinstance(expr, relax.TupleGetItem):
            return self.evaluate(expr.tuple_value, env)[int(expr.index)]
        if isinstance(expr, relax.If):
            return self.emit_branch(expr, env)
        if isinstance(expr, relax.Call):
            return self.inline_call(expr, env)
        if isinstance(expr, ir.Expr) and isinstance(expr.ty, ir.PrimType):
            return self.substitute_dims(expr)
        raise NotNative(f"a {type(expr).__name__}")

    def parameter(self, expr: Any) -> Var:
        """Returns the kernel's parameter for a tensor from outside the loop."""
        if expr not in self.inputs:
            if expr.ty.shape is None:
                raise NotNative("a tensor of unknown rank")
            self.inputs[expr] = emit.scratch(list(expr.ty.shape.values), str(expr.ty.dtype), "given")
        return self.inputs[expr]

    def constant_buffer(self, expr: ir.Constant) -> Var:
        """Returns a buffer with the value of a constant.

        A scalar is stored to a new buffer. Any other constant is passed to the kernel as a parameter, since the code of
        a kernel can contain a number, but not an array.
        """
        dtype = str(expr.value.dtype)
        if len(expr.value.shape) or dtype not in EMBEDDED:
            return self.parameter(expr)
        buffer = self.new_buffer([], dtype, "constant")
        number = tirx.const(expr.value.numpy().item(), dtype)
        self.emit(emit.store(buffer, number, []))
        return buffer

    def substitute_dims(self, expr: ir.Expr) -> ir.Expr:
        """Returns a size with the symbolic dims of the inlined function replaced by their values."""
        return structural_map(expr, (Var, lambda var: self.dims.get(var, var)))

    def inline_call(self, call: relax.Call, env: dict[Any, Value]) -> Value:
        """Emits the body of the loop, Relax function or kernel that a call calls, and returns the value of the call.

        Args:
          call: the call.
          env: the values of the variables that the call may use.

        Raises:
          NotNative: the call is of another kind.
        """
        if is_loop(call):
            _condition, _body, *args = call.args
            operands = [self.evaluate(argument, env) for argument in args]
            # The results of an inner loop are no outputs of the kernel.
            needed_outside = [False] * carried_count(call)
            return tuple(self.emit_loop(call, operands, needed_outside))
        if isinstance(call.op, ir.GlobalVar):
            return self.inline_function_or_kernel(call.op, [self.evaluate(argument, env) for argument in call.args])
        if isinstance(call.op, ir.Op) and call.op.name == "relax.call_tir":
            return self.inline_kernel_call(call, env)
        raise NotNative(str(call.op))

    def inline_function_or_kernel(self, name: ir.GlobalVar, operands: list[Value]) -> Value:
        """Emits the body of a function of the module, and returns its value.

        A kernel that is called like a function writes into its operands, and has no value.
        """
        func = self.mod[name]
        if isinstance(func, relax.Function):
            return self.inline_function(func, operands)
        self.inline_kernel(func, operands)
        return ()

    def inline_kernel_call(self, call: relax.Call, env: dict[Any, Value]) -> Value:
        """Emits the body of a kernel in place of its call, and returns the buffers with its results.

        The results are written to new buffers. A single result is written to `result_buffer` instead, if this buffer
        was chosen for the variable that the call is bound to.

        Args:
          call: the call of the kernel (``call_tir``).
          env: the values of the variables that the call may use.
        """
        kernel, tensors, *dims = call.args
        operands = list(self.evaluate(tensors, env))
        sizes = [self.substitute_dims(dim) for shape in dims for dim in shape.values]
        (result_type,) = call.ty_args
        is_tuple = isinstance(result_type, relax.TupleType)
        fields = list(result_type.fields) if is_tuple else [result_type]
        assigned, self.result_buffer = self.result_buffer, None
        results = [self._new_result_buffer(ty) for ty in fields] if assigned is None else [assigned]
        self.inline_kernel(self.mod[kernel], [*operands, *results, *sizes])
        return tuple(results) if is_tuple else results[0]

    def _new_result_buffer(self, ty: relax.TensorType) -> Var:
        return self.new_buffer(list(map(self.substitute_dims, ty.shape.values)), str(ty.dtype), "value")

    def inline_kernel(self, func: PrimFunc, operands: list[Value]) -> None:
        """Emits a kernel's body with ``operands`` in place of its parameters; its large buffers become workspaces."""
        self.may_fail = self.may_fail or has_asserts(func)
        body, large_buffers = inlined_body(func, operands)
        self.workspaces += large_buffers
        self.emit(body)

    def inline_function(self, func: relax.Function, operands: Sequence[Value]) -> Value:
        """Emits the body of a Relax function, given the values of its parameters, and returns the result's value.

        Symbolic dims of the parameters stand for the operands' sizes while the body is emitted.
        """
        env = dict(zip(func.params, operands, strict=True))
        outer_dims = self.dims
        self.dims = _dim_values(func.params, operands)
        result = self.emit_sequence(func.body, env)
        self.dims = outer_dims
        return result

    def emit_sequence(self, expr: Any, env: dict[Any, Value]) -> Value:
        """Emits the statements of a function's or branch's body: those of its bindings, in order, then of its result.

        Args:
          expr: the body, a Relax sequence (``SeqExpr``: bindings and a result) or a single expression.
          env: the values of variables by variable; those that the sequence binds are added.

        Returns:
          The value of the sequence: a buffer, scalar or tuple.

        Raises:
          NotNative: something in the sequence has no form in a kernel.
        """
        if not isinstance(expr, relax.SeqExpr):
            return self.evaluate(expr, env)
        for binding in bindings_of(expr):
            # A `MatchCast` names a size that is computed: the tensor would have to be allocated in the kernel.
            if isinstance(binding, relax.MatchCast):
                raise NotNative("a computed shape")
            # A kernel that computes this value then writes it there instead of into a new buffer.
            self.result_buffer = self.assigned_buffers.get(binding.var)
            env[binding.var] = self.evaluate(binding.value, env)
        return self.evaluate(expr.body, env)

    # -- control flow

    def emit_branch(self, expr: relax.If, env: dict[Any, Value]) -> Value:
        """Emits a Relax If as an If statement of the kernel, and returns the buffers with its value.

        Both branches copy their values to these buffers.

        Args:
          expr: the If.
          env: the values of the variables that the If may use.
        """
        condition = self.evaluate(expr.cond, env)
        # The statements of both branches are collected first, since the common buffers depend on both values.
        true_body, true_value = self.collect_statements(partial(self.emit_sequence, expr.true_branch, dict(env)))
        false_body, false_value = self.collect_statements(partial(self.emit_sequence, expr.false_branch, dict(env)))
        results = self.common_buffers([true_value, false_value])
        then_case, _value = self.collect_statements(partial(self._emit_branch_end, true_body, true_value, results))
        else_case, _value = self.collect_statements(partial(self._emit_branch_end, false_body, false_value, results))
        self.emit(tirx.IfThenElse(tirx.BufferLoad(condition, []), then_case, else_case))
        return results

    def common_buffers(self, values: list[Value]) -> Value:
        """Creates the buffer, or tuple of buffers, to which both branches of an If write their values.

        A value that both branches have in the same buffer needs no new buffer.

        Args:
          values: the values of the two branches, which are tuples of equal structure or buffers.
        """
        true_value, false_value = values
        if isinstance(true_value, tuple):
            return tuple(self.common_buffers(list(pair)) for pair in zip(true_value, false_value, strict=True))
        return true_value if true_value is false_value else self.new_buffer_like(true_value, "chosen")

    def _emit_branch_end(self, body: Stmt, value: Value, results: Value) -> None:
        """Emits a branch, and the copies of its value to the common buffers."""
        self.emit(body)
        for source, target in _buffer_pairs(value, results):
            self.emit(_copy(source, target))

    def emit_loop(self, call: relax.Call, values: list[Value], needed_outside: list[bool]) -> list[Var]:
        """Emits a loop as ``while going: going = condition(); if going: body()``; returns the buffers of its state.

        The state is the carried values. Statements of the body that are invariant come before the loop.

        Args:
          values: the values of the loop's operands.
          needed_outside: which carried values are results of the kernel.
        """
        if any(ty.shape is None for ty in call.ty.fields):
            raise NotNative("a shape that changes")
        condition, body = (self.mod[part] for part in call.args[:2])
        state = self._initial_states(body, values, needed_outside)
        inputs = [*state, *values[len(state) :]]
        going = self.new_buffer([], "bool", "going")
        signal_poll = _SignalPoll(self) if self.polls else None
        self.emit(emit.store(going, tirx.const(True, "bool"), []))
        iteration = self._varying_statements(body, inputs, state)

        def emit_test() -> None:
            result = self.inline_function(condition, inputs)
            self.emit(_copy(result, going))

        test, _ = self.collect_statements(emit_test)
        if signal_poll is not None:
            iterations_per_poll = POLL_WORK // max(1, _estimated_statements(iteration))
            iteration = emit.sequence([iteration, signal_poll.poll(iterations_per_poll)])
        is_going = tirx.BufferLoad(going, [])
        iterate_if_going = tirx.IfThenElse(is_going, iteration, None)
        self.emit(tirx.While(is_going, emit.sequence([test, iterate_if_going])))
        return state

    def _initial_states(self, body: relax.Function, values: list[Value], needed_outside: list[bool]) -> list[Var]:
        """Returns the buffers of a loop's carried values, and records the results of the body that overwrite one.

        A value that the body returns unchanged stays in its own buffer.

        Args:
          body: the body of the loop.
          values: the buffers of the loop's operands.
          needed_outside: for each carried value, whether it is a result of the kernel.
        """
        state = []
        for i, is_needed in enumerate(needed_outside):
            is_unchanged = _returns_unchanged(body, i)
            state.append(values[i] if is_unchanged else self.initial_state(values[i], is_needed))
        for i, buffer in enumerate(state):
            result = overwriting(self.mod, body, i) if is_large(buffer) else None
            if result is not None:
                self.assigned_buffers[result] = buffer
        return state

    def _varying_statements(self, body: relax.Function, inputs: list[Value], state: list[Var]) -> Stmt:
        """Emits the loop-invariant statements of a loop's body, and returns the others, which are one iteration."""
        workspace_count = len(self.workspaces)
        all_statements, _ = self.collect_statements(lambda: self.emit_moves(state, self.inline_function(body, inputs)))
        invariant, varying = split_invariants(all_statements, self.workspaces[workspace_count:])
        self.statements += invariant
        return emit.sequence(varying)

    def initial_state(self, value: Var, needed_outside: bool) -> Var:
        """Creates the buffer of a loop-carried value, which iterations overwrite, and copies the initial value to it.

        Args:
          value: the buffer with the initial value.
          needed_outside: whether the carried value is a result of the kernel.
        """
        # A large result of the kernel is computed in the output's memory. A small one is copied there after the loop.
        if needed_outside and is_large(value):
            buffer = _buffer_like(value, "state")
            self.outputs.append(buffer)
        else:
            buffer = self.new_buffer_like(value, "state")
        self.emit(_copy(value, buffer))
        return buffer

    def emit_moves(self, state: list[Var], values: Sequence[Var]) -> None:
        """Copies the results of an iteration into the loop's state (the buffers of carried values), as a parallel move.

        A result that is itself a buffer of the state might be overwritten before it is copied, so it is saved first.
        Otherwise, a loop that swaps two values would lose one of them.
        """
        moves: list[tuple[Var, Var]] = []
        for value, destination in zip(values, state, strict=True):
            if value is destination:
                continue
            source = self.saved_copy(value) if value in state else value
            moves.append((source, destination))
        for source, destination in moves:
            self.emit(_copy(source, destination))

    def saved_copy(self, value: Var) -> Var:
        """Returns a new buffer with a copy of a value."""
        buffer = self.new_buffer_like(value, "staged")
        self.emit(_copy(value, buffer))
        return buffer


class _SignalPoll:
    """Polls for Ctrl-C in a loop's kernel: reads the clock every few iterations, and calls Python once a second."""

    def __init__(self, kernel: LoopKernel) -> None:
        self.iterations = kernel.new_buffer([], "int32", "turns")
        self.last = kernel.new_buffer([], "int64", "last")
        kernel.emit(emit.store(self.iterations, tirx.IntImm("int32", 0), []))
        kernel.emit(emit.store(self.last, seconds(), []))

    def poll(self, iterations: int) -> Stmt:
        """Builds the statement at the end of an iteration that polls for Ctrl-C every ``iterations`` iterations.

        Polling reads the clock, and lets Python handle signals if a new second has begun. Reading the clock takes
        longer than a short iteration.
        """
        now = Var("now", "int64")
        call_python = emit.sequence([emit.store(self.last, now, []), signal_check()])
        is_new_second = tirx.NE(now, tirx.BufferLoad(self.last, []))
        reset_counter = emit.store(self.iterations, tirx.IntImm("int32", 0), [])
        read_clock = tirx.Bind(now, seconds())
        poll = emit.sequence([reset_counter, read_clock, tirx.IfThenElse(is_new_second, call_python, None)])
        if iterations <= 1:
            return poll
        counter = tirx.BufferLoad(self.iterations, [])
        increment_counter = emit.store(self.iterations, counter + 1, [])
        is_due = tirx.GE(counter, tirx.IntImm("int32", iterations))
        return emit.sequence([increment_counter, tirx.IfThenElse(is_due, poll, None)])


def _returns_unchanged(body: relax.Function, position: int) -> bool:
    """Returns whether the body of a while loop returns the carried value at a position unchanged, maybe by an alias."""
    values = {binding.var: binding.value for binding in bindings_of(body.body)}
    result = body.body.body
    if isinstance(result, relax.Var):
        result = values.get(result, result)
    if not isinstance(result, relax.Tuple):
        return False
    returned = result.fields[position]
    while returned in values:  # a variable that is bound to another variable
        returned = values[returned]
    return returned.same_as(body.params[position])


def overwriting(mod: tvm.IRModule, body: relax.Function, index: int) -> relax.Var | None:
    """Returns the variable of a loop body's result if the result can be computed in the parameter's memory, else None.

    Result and parameter are the new and the old state of a carried value. The kernel that computes the result may read
    the parameter only at the element that it writes. Nothing may read the parameter later.

    Args:
      mod: the module with the kernels.
      body: the body of the loop.
      index: the position of the carried value.
    """
    if not isinstance(body.body.body, relax.Tuple):
        return None
    bindings = bindings_of(body.body)
    old_state = body.params[index]
    results = list(body.body.body.fields)
    positions = [i for i, binding in enumerate(bindings) if binding.var.same_as(results[index])]
    is_result_itself = old_state in results
    if not positions or is_result_itself:
        return None
    position = positions[0]
    producer, later_bindings = bindings[position], bindings[position + 1 :]
    readers = [binding for binding in bindings if old_state in relax.analysis.free_vars(binding.value)]
    if not all(_is_kernel_call(binding.value) for binding in [*readers, producer]):
        return None
    is_read_later = any(reader.var.same_as(later.var) for reader in readers for later in later_bindings)
    if is_read_later or not _reads_only_written_element(mod, producer.value, old_state):
        return None
    return producer.var


def _is_kernel_call(value: Any) -> bool:
    return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and value.op.name == "relax.call_tir"


def _reads_only_written_element(mod: tvm.IRModule, call: relax.Call, param: relax.Var) -> bool:
    """Returns whether a kernel with one result reads the operand ``param`` only at the element that the kernel writes.

    The result may then take the operand's memory. The attribute `INPLACE_PAIRS` lists such pairs of parameters.

    Args:
      mod: the module with the kernel.
      call: the call of the kernel (``call_tir``).
      param: the operand.
    """
    (result_type,) = call.ty_args
    if isinstance(result_type, relax.TupleType):
        return False
    kernel, tensors, *_sizes = call.args
    operands = list(tensors.fields)
    inplace_pairs = {tuple(map(int, pair)) for pair in (mod[kernel].attrs or {}).get(INPLACE_PAIRS, [])}
    result_position = len(operands)  # the result's parameter follows those of the operands
    positions_of_param = [position for position, operand in enumerate(operands) if operand.same_as(param)]
    return all((result_position, position) in inplace_pairs for position in positions_of_param)


def _dim_values(params: Sequence[relax.Var], operands: Sequence[Value]) -> dict[Var, ir.Expr]:
    """Returns the size of each symbolic dim in the types of a function's parameters.

    The sizes are taken from the shapes of the operands, which are buffers. For example, a parameter of shape ``(n,)``
    and a buffer of shape ``(8,)`` give ``{n: 8}``.
    """
    sizes: dict[Var, ir.Expr] = {}
    for param, operand in zip(params, operands, strict=True):
        if not isinstance(param.ty, relax.TensorType):
            raise NotNative("a parameter that is no tensor")
        for dim, actual in zip(param.ty.shape.values, operand.ty.shape, strict=True):
            if isinstance(dim, Var):
                sizes.setdefault(dim, actual)
    return sizes


def _buffer_pairs(value: Value, target: Value) -> list[tuple[Var, Var]]:
    """Returns the buffers of a value, each with the buffer of ``target`` that it must be copied to."""
    if isinstance(value, tuple):
        return [
            pair for part, target_part in zip(value, target, strict=True) for pair in _buffer_pairs(part, target_part)
        ]
    return [] if value is target else [(value, target)]


def _buffer_like(buffer: Var, name: str) -> Var:
    return emit.scratch(list(buffer.ty.shape), str(buffer.ty.dtype), name)


def _tensor_type(buffer: Var) -> relax.TensorType:
    return relax.TensorType(list(buffer.ty.shape), str(buffer.ty.dtype))


def _copy(source: Var, target: Var) -> Stmt:
    """Returns the loop nest that copies a buffer to another."""
    return emit.nest(list(source.ty.shape), lambda at: emit.store(target, emit.load(source, at), at))


def _statement_count(stmt: Stmt) -> int:
    """Returns the number of statements within a statement."""
    statements: list[Stmt] = []
    structural_walk(stmt, (Stmt, statements.append))
    return len(statements)


def _estimated_statements(stmt: Any) -> int:
    """Estimates how many statements are executed when ``stmt`` runs.

    A loop of unknown extent counts as ``UNKNOWN_EXTENT`` iterations. This decides how often the loop's kernel polls for
    Ctrl-C.
    """
    if isinstance(stmt, tirx.For):
        iterations = emit.static(stmt.extent) or UNKNOWN_EXTENT
        return iterations * _estimated_statements(stmt.body)
    if isinstance(stmt, tirx.While):
        return UNKNOWN_EXTENT * _estimated_statements(stmt.body)
    if isinstance(stmt, tirx.SeqStmt):
        return sum(map(_estimated_statements, stmt.seq))
    if isinstance(stmt, tirx.IfThenElse):
        branches = [branch for branch in (stmt.then_case, stmt.else_case) if branch is not None]
        return sum(map(_estimated_statements, branches))
    has_body = isinstance(getattr(stmt, "body", None), Stmt)
    return _estimated_statements(stmt.body) if has_body else 1
