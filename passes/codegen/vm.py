"""Compiles Relax functions to bytecode of TVM's virtual machine, with loops and private functions inlined.

Works on a module after TVM's finalize passes (StaticPlanBlockMemory to VMShapeLower), in which every operator is a call
of a kernel or a builtin. TVM's own generator (src/relax/backend/vm/codegen_vm.cc) has no loops; the order of evaluation
and the use of builtins follow it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import tvm_ffi
from tvm import IRModule, ir, relax, tirx

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.loop_op import (
    IMPURE_LOOP,
    POLL_SYMBOL,
    PRIVATE,
    PURE_LOOP,
    all_calls,
    carried_count,
    has_symbol,
    is_loop,
    poll_kernel,
)
from tvtf.passes.analysis.side_effects import READS_ON_HOST
from tvtf.passes.codegen.argument_checks import checking_kernels, is_redundant_check
from tvtf.passes.codegen.bytecode import (
    MACHINE,
    MAKE_TUPLE,
    SHAPE_HEAP,
    STORAGE,
    TENSOR,
    TUPLE_ITEM,
    VOID,
    Code,
    Encoded,
    Operand,
    Register,
)
from tvtf.passes.codegen.liveness import KILL, last_uses
from tvtf.passes.codegen.packed_entry import TRUSTED
from tvtf.passes.codegen.planned_tensors import OUTPUTS, ArenaTensor, Scratch, emit_constants
from tvtf.passes.memory.buffer_donation import RETURNED_OUTPUTS
from tvtf.passes.memory.memory_plan import ARENA_PARTS, ARENA_SIZE, ARENA_TENSOR

TO_DEVICE, CPU = "vm.builtin.to_device", 1
KERNEL, BYTECODE = 0, 1


def generate(
    builder: relax.ExecBuilder,
    mod: IRModule,
    *,
    check_arguments: bool = False,
    poll_signals: bool = True,
    on_gpu: bool = False,
) -> IRModule:
    """Writes the Relax functions of `mod` into `builder` and returns the kernels.

    Args:
      check_arguments: whether entries check dtypes, ranks, static dims and layouts; without, they trust the caller and
        check only equal symbolic dims.
      poll_signals: whether loops poll for Ctrl-C.
      on_gpu: whether operands of kernels marked to read on the CPU are copied there.

    Kernels whose tensors are all made by the virtual machine or passed by a trusted caller are marked, and check no
    arguments. A function with a `global_symbol` is an entry; one without is private, and is inlined into loops and
    where it is called once.

    Raises:
        NotImplementedError: an expression that the virtual machine can't run; the text names it.
        ValueError: a loop passes its body another number of values than the body takes.
    """
    program = _ModuleState(builder, mod, check_arguments, poll_signals, on_gpu)
    for name, func in program.functions_to_emit():
        _FunctionGenerator(program).write(name, func)
    kernels = {name: func for name, func in mod.functions.items() if isinstance(func, tirx.PrimFunc)}
    if program.uses_poll_kernel:
        kernels[ir.GlobalVar(POLL_SYMBOL)] = poll_kernel()
    marked = {name: _mark_trusted(func, name.name_hint not in program.checking) for name, func in kernels.items()}
    return IRModule(marked, attrs=mod.attrs)


class _ModuleState:
    """What the generators of a module's functions share."""

    def __init__(
        self, builder: relax.ExecBuilder, mod: IRModule, check_arguments: bool, poll_signals: bool, on_gpu: bool
    ) -> None:
        """Counts how often each function of a module is referred to, called, and used as a loop's condition or body.

        Args:
          builder: collects the bytecode.
          mod: the module to emit.
          check_arguments: whether callers pass arguments that must be checked.
          poll_signals: whether loops check for Ctrl-C.
          on_gpu: whether kernels run on a GPU.
        """
        self.builder = builder
        self.check_arguments, self.poll_signals, self.on_gpu = check_arguments, poll_signals, on_gpu
        self.functions = {name.name_hint: func for name, func in mod.functions.items()}
        self.uses_poll_kernel = False
        # The names of the kernels that must check their arguments. They are added while functions are emitted.
        self.checking: set[str] = set()
        self.mentions: Counter[str] = Counter()
        for func in self.relax_functions().values():
            structural_walk(func.body, (ir.GlobalVar, self._count))
        calls = all_calls(mod)
        self.calls = Counter(call.op.name_hint for call in calls if isinstance(call.op, ir.GlobalVar))
        self.loop_parts = Counter(part.name_hint for call in calls if is_loop(call) for part in call.args[:2])

    def relax_functions(self) -> dict[str, relax.Function]:
        return {name: func for name, func in self.functions.items() if isinstance(func, relax.Function)}

    def _count(self, name: ir.GlobalVar) -> None:
        """Counts a mention of a function."""
        self.mentions[name.name_hint] += 1

    def is_inlined(self, name: str) -> bool:
        """Returns whether a function is inlined: a private function that is mentioned only once, by a call."""
        func = self.functions.get(name)
        return isinstance(func, relax.Function) and not _symbol(func) and self.calls[name] == self.mentions[name] == 1

    def functions_to_emit(self) -> Iterator[tuple[str, relax.Function]]:
        """Yields the functions that have their own bytecode, each with its symbol.

        Inlined functions have none, nor have functions that are only conditions or bodies of loops.
        """
        for name, func in self.relax_functions().items():
            only_in_loops = not _symbol(func) and self.mentions[name] == self.loop_parts[name]
            if not only_in_loops and not self.is_inlined(name):
                yield _symbol(func) or name, func


class _FunctionGenerator:
    """The generator of one function's bytecode."""

    def __init__(self, program: _ModuleState) -> None:
        """Starts the bytecode of a function, without instructions."""
        self.program = program
        self.code = Code(program.builder, 0)
        # The operand (a register or a constant) that has the value of each variable.
        self.operand_of: dict[relax.Var, Operand] = {}
        # Operands that are never cleared.
        self.pinned: set[Operand] = {VOID}
        self.last_poll: Register | None = None
        self.scratch: Scratch | None = None
        self.arena_base = 0
        self.arena_parts: Mapping[str, int] = {}

    def write(self, symbol: str, func: relax.Function) -> None:
        """Emits the bytecode of a function under the name ``symbol``.

        If tvtf calls the function, tvtf owns the tensors in the function's arena, and passes them as last parameters.
        Such calls then allocate nothing for intermediate values of planned sizes.
        """
        names = [param.name for param in func.params]
        params = [self.code.new_register() for _ in names]
        self.operand_of.update(zip(func.params, params, strict=True))
        is_trusted = bool(_symbol(func)) and not self.program.check_arguments
        size, self.arena_parts = _arena(func)
        has_callers_arena = bool(size and is_trusted)
        if size:
            self.scratch = Scratch(self.code, size, has_callers_arena)
        result = self.sequence(func.body)
        self.program.checking |= checking_kernels(self.code, () if is_trusted else params)
        self.code.emit(symbol, names, result)
        if has_callers_arena and self.scratch:
            self.scratch.emit_layout(self.program.builder, symbol)
        if func.attrs and RETURNED_OUTPUTS in func.attrs:
            emit_constants(self.program.builder, symbol + OUTPUTS, [int(i) for i in func.attrs[RETURNED_OUTPUTS]])

    def sequence(self, expr: ir.Expr) -> Operand:
        return self.value(self.bind_all(expr))

    def bind_all(self, expr: ir.Expr) -> ir.Expr:
        """Emits the bindings of a sequence, and returns the expression for the sequence's value.

        The register of a variable is cleared after the variable's last use, so that the value's memory can be freed.
        """
        if not isinstance(expr, relax.SeqExpr):
            return expr
        last_used = last_uses(expr)
        bindings = bindings_of(expr)
        for position, binding in enumerate(bindings):
            self.bind(binding)
            self.clear_all(last_used.get(position, []))
        return expr.body

    def clear_all(self, variables: list[relax.Var]) -> None:
        """Clears the registers of variables that aren't used any more."""
        for var in variables:
            operand = self.operand_of.get(var)
            if isinstance(operand, Register) and operand not in self.pinned:
                self.code.clear(operand)

    def bind(self, binding: relax.Binding) -> None:
        """Emits the bytecode of a binding, and records the operand (register or constant) with the variable's value.

        Checks of arguments are skipped if the caller is trusted.
        """
        value = binding.value
        if not self.program.check_arguments and is_redundant_check(value):
            return
        operand = self.value(value)
        # An alias gets its own register, so that clearing the register of one variable doesn't affect the other.
        is_alias = isinstance(value, relax.Var) and operand not in self.pinned
        self.operand_of[binding.var] = self.code.copy(operand) if is_alias else operand

    def value(self, expr: ir.Expr) -> Operand:
        """Emits the code that computes an expression; returns the operand with its value."""
        emit = _EXPRESSIONS.get(type(expr))
        if emit is None:
            raise NotImplementedError(f"bytecode: no instruction for a {type(expr).__name__}: {expr}")
        return emit(self, expr)

    def values(self, exprs: ir.Array) -> list[Operand]:
        return [self.value(expr) for expr in exprs]

    def variable(self, var: relax.Var) -> Operand:
        if var not in self.operand_of:
            raise NotImplementedError(f"bytecode: variable {var.name} isn't bound where it is used")
        return self.operand_of[var]

    def shape(self, expr: relax.ShapeExpr) -> Operand:
        return self.code.constant(tvm_ffi.Shape(tuple(int(dim) for dim in expr.values)))

    def constant(self, expr: ir.GenericConst) -> Operand:
        """Returns the operand of a constant.

        A tensor without elements is allocated at run time, since TVM's file format can't load such a constant.
        """
        if not isinstance(expr.value, tvm_ffi.Tensor) or 0 not in expr.value.shape:
            return self.code.constant(expr.value)
        dtype = self.code.constant(tvm_ffi.dtype(str(expr.value.dtype)))
        size, zero = self.code.constant(tvm_ffi.Shape((1,))), self.code.constant(0)
        shape = self.code.constant(tvm_ffi.Shape(tuple(expr.value.shape)))
        storage = self.code.call_at_entry(STORAGE, [MACHINE, size, zero, dtype, self.code.constant("global")])
        return self.code.call_at_entry(TENSOR, [storage, zero, shape, dtype])

    def tuple(self, expr: relax.Tuple) -> Operand:
        return self.code.call(MAKE_TUPLE, self.values(expr.fields))

    def item(self, expr: relax.TupleGetItem) -> Operand:
        return self.code.call(TUPLE_ITEM, [self.value(expr.tuple_value), self.code.constant(int(expr.index))])

    def global_name(self, expr: ir.GlobalVar) -> Operand:
        kind = BYTECODE if isinstance(self.program.functions.get(expr.name_hint), relax.Function) else KERNEL
        return self.function(expr.name_hint, kind)

    def extern(self, expr: relax.ExternFunc) -> Operand:
        return self.function(expr.global_symbol, KERNEL)

    def function(self, name: str, kind: int) -> Operand:
        self.program.builder.declare_function(name, kind)
        return Encoded(self.program.builder.f(name))

    def branch(self, expr: relax.If) -> Operand:
        """Emits the bytecode of an If, and returns the register in which both branches leave their value.

        The virtual machine's only conditional instruction is a jump. It skips the true branch if the condition is
        false. Another jump, at the end of the true branch, skips the false branch.
        """
        result = self.code.new_register()
        jump_to_false = self.code.jump(self.value(expr.cond))
        self.emit_branch(expr.true_branch, result)
        jump_to_end = self.code.jump()
        self.code.land(jump_to_false)
        self.emit_branch(expr.false_branch, result)
        self.code.land(jump_to_end)
        return result

    def emit_branch(self, branch: ir.Expr, result: Register) -> None:
        """Emits one branch of an If, moves its value to the register ``result``, and clears the value's register."""
        first_new_register = self.code.register_count
        operand = self.sequence(branch)
        self.code.copy(operand, result)
        self.clear_unless_older(operand, first_new_register)

    def clear_unless_older(self, operand: Operand, first_new_register: int) -> None:
        """Clears the register of a value that was copied, unless it is older than ``first_new_register``."""
        if isinstance(operand, Register) and operand.number >= first_new_register and operand not in self.pinned:
            self.code.clear(operand)

    def call(self, expr: relax.Call) -> Operand:
        """Emits a call, and returns the operand with its result.

        The callee may be an operator, an inlined function, a kernel, a function with its own bytecode, or a closure.
        """
        callee = expr.op
        if isinstance(callee, ir.Op):
            return self.operator(callee.name, expr)
        if isinstance(callee, ir.GlobalVar) and self.program.is_inlined(callee.name_hint):
            return self.call_inlined(callee.name_hint, self.values(expr.args))
        operands = [self.on_host(callee, operand) for operand in self.values(expr.args)]
        result = VOID if _is_void(expr.ty) else None
        if isinstance(callee, (ir.GlobalVar, relax.ExternFunc)):
            self.value(callee)  # declares the function
            return self.code.call(_callee_name(callee), operands, result)
        return self.code.call("vm.builtin.invoke_closure", [MACHINE, self.value(callee), *operands], result)

    def on_host(self, callee: ir.Expr, operand: Operand) -> Operand:
        """Emits a copy of an operand to CPU memory if the called kernel needs it there; returns the copy.

        Such a kernel runs on the CPU, but a GPU computes its operands. For other callees, the operand itself is
        returned.
        """
        func = self.program.functions.get(callee.name_hint) if isinstance(callee, ir.GlobalVar) else None
        reads_on_host = func is not None and func.attrs and READS_ON_HOST in func.attrs
        if not self.program.on_gpu or not reads_on_host:
            return operand
        return self.code.call(TO_DEVICE, [operand, self.code.constant(CPU), self.code.constant(0)])

    def operator(self, name: str, expr: relax.Call) -> Operand:
        """Emits an operator of the virtual machine, by its function in `_OPERATORS`."""
        emit = _OPERATORS.get(name)
        if emit is None:
            raise NotImplementedError(f"bytecode: operator {name} wasn't lowered to a kernel before code generation")
        return emit(self, expr)

    def null(self, _expr: relax.Call) -> Operand:
        return VOID

    def alloc_storage(self, expr: relax.Call) -> Operand:
        return self.code.call(STORAGE, [MACHINE, *self.values(expr.args)])

    def alloc_tensor(self, expr: relax.Call) -> Operand:
        return self.code.call(TENSOR, self.values(list(expr.args)[:4]))

    def arena_tensor(self, expr: relax.Call) -> Operand:
        """Returns the register of a tensor in the arena (the block of memory for all planned values).

        The register holds the tensor during the entire call, and is never cleared. It is fetched once, at the start of
        the function, and later bindings use the register again.
        """
        if self.scratch is None:
            raise NotImplementedError(
                "bytecode: a function uses the arena but gets none; run plan_arena on all functions"
            )
        shape = tuple(int(dim) for dim in expr.args[0].values)
        planned = ArenaTensor(self.arena_base + int(expr.attrs["offset"]), shape, str(expr.ty.dtype))
        register = self.scratch.register(planned)
        self.pinned.add(register)
        return register

    def kill(self, expr: relax.Call) -> Operand:
        """Clears the register of a value that isn't used any more."""
        operand = self.value(expr.args[0])
        if isinstance(operand, Register) and operand not in self.pinned:
            self.code.clear(operand)
        return operand

    def builtin(self, expr: relax.Call) -> Operand:
        """Emits a call of a builtin of the virtual machine, whose first argument is the machine's state.

        A heap for dims is allocated once, at the start of the function.
        """
        builtin, arguments = expr.args
        name = builtin.global_symbol
        operands = [MACHINE, *self.values(arguments.fields)]
        self.value(builtin)  # declares the builtin
        if name == SHAPE_HEAP:
            heap = self.code.call_at_entry(name, operands)
            self.pinned.add(heap)
            return heap
        return self.code.call(name, operands, VOID if _is_void(expr.ty) else None)

    def inline(self, name: str, arguments: list[Operand]) -> list[Operand] | Operand:
        """Emits the body of a function of the module inline, and returns the operand with its result.

        If the function ends by building a tuple, the operands of the tuple's fields are returned instead.
        """
        func = self.program.functions[name]
        _check_count(name, func, len(arguments))
        state_of_caller = self.operand_of, self.arena_base, self.arena_parts
        self.operand_of = dict(zip(func.params, arguments, strict=True))
        # The callee's part of the arena lies in that of its caller.
        self.arena_base += self.arena_parts.get(name, 0)
        _size, self.arena_parts = _arena(func)
        body = self.bind_all(func.body)
        result = self.values(body.fields) if isinstance(body, relax.Tuple) else self.value(body)
        self.operand_of, self.arena_base, self.arena_parts = state_of_caller
        return result

    def call_inlined(self, name: str, arguments: list[Operand]) -> Operand:
        """Emits a function inline, in place of a call; returns the operand with its result."""
        result = self.tuple_of_fields(self.inline(name, arguments))
        # A result that is an argument has its own register, as a call would give it.
        return self.code.copy(result) if result in arguments else result

    def tuple_of_fields(self, result: list[Operand] | Operand) -> Operand:
        """Returns the operand of an inlined function's result, whose fields become a tuple."""
        return self.code.call(MAKE_TUPLE, result) if isinstance(result, list) else result

    def fields_of_tuple(self, result: list[Operand] | Operand, count: int, first_new_register: int) -> list[Operand]:
        """Returns the operands of the fields of an inlined function's result, a tuple with ``count`` fields.

        Args:
          result: what `inline` returned: the fields, or the operand of a tuple, which is unpacked.
          first_new_register: the first register that the function may have used; older ones aren't cleared.
        """
        if isinstance(result, list):
            return result
        fields: list[Operand] = [self.code.call(TUPLE_ITEM, [result, self.code.constant(i)]) for i in range(count)]
        self.clear_unless_older(result, first_new_register)
        return fields

    def loop(self, expr: relax.Call) -> Operand:
        """Emits a while loop, and returns the operand of the tuple with the last carried values.

        The carried values are first copied to registers. Each iteration polls for Ctrl-C, tests the condition, runs the
        body, and moves the body's results to these registers. TVM's own loops are recursive calls, whose depth grows
        with the number of iterations.
        """
        count = carried_count(expr)
        condition, body, *arguments = expr.args
        operands = [self.value(argument) for argument in arguments]
        state = [self.code.copy(operand) for operand in operands[:count]]
        inputs = [*state, *operands[count:]]
        start = self.code.here
        self.poll()
        holds = self.tuple_of_fields(self.inline(condition.name_hint, inputs))
        jump_to_end = self.code.jump(holds)
        first_new_register = self.code.register_count
        results = self.fields_of_tuple(self.inline(body.name_hint, inputs), count, first_new_register)
        self.emit_moves(state, results, first_new_register)
        self.code.jump_back(start)
        self.code.land(jump_to_end)
        result = self.code.call(MAKE_TUPLE, state)
        for register in state:
            self.code.clear(register)
        return result

    def emit_moves(self, state: list[Register], values: list[Operand], first_new_register: int) -> None:
        """Moves the results of a loop's body to the registers of the carried values, as a parallel move.

        A result that is itself in such a register is saved first: a move might overwrite it before it is read, as when a
        loop swaps two values. The results' own registers are cleared.

        Args:
          state: the registers of the carried values.
          values: the results of the loop's body, one for each register.
          first_new_register: the first register that the body may have used; older ones aren't cleared.
        """
        moves = [(target, source) for target, source in zip(state, values, strict=True) if target != source]
        safe_moves = [(target, self.code.copy(source) if source in state else source) for target, source in moves]
        for target, source in safe_moves:
            self.code.copy(source, target)
        for source in dict.fromkeys(source for _, source in safe_moves):
            self.clear_unless_older(source, first_new_register)

    def poll(self) -> None:
        """Emits a call of the kernel that polls for Ctrl-C.

        The kernel stores the time of the last poll in a buffer, a heap for dims. It calls Python only once a second.
        """
        if not self.program.poll_signals:
            return
        self.program.uses_poll_kernel = True
        if self.last_poll is None:
            self.last_poll = self.code.call_at_entry(SHAPE_HEAP, [MACHINE, self.code.constant(1)])
        self.function(POLL_SYMBOL, KERNEL)
        self.code.call(POLL_SYMBOL, [self.last_poll], VOID)


_Handler = Callable[[_FunctionGenerator, ir.Expr], Operand]

_OPERATORS: dict[str, _Handler] = {
    PURE_LOOP: _FunctionGenerator.loop,
    IMPURE_LOOP: _FunctionGenerator.loop,
    "relax.null_value": _FunctionGenerator.null,
    "relax.vm.alloc_storage": _FunctionGenerator.alloc_storage,
    "relax.vm.alloc_tensor": _FunctionGenerator.alloc_tensor,
    ARENA_TENSOR: _FunctionGenerator.arena_tensor,
    KILL: _FunctionGenerator.kill,
    "relax.call_builtin_with_ctx": _FunctionGenerator.builtin,
}

_EXPRESSIONS: dict[type, _Handler] = {
    relax.Call: _FunctionGenerator.call,
    relax.Var: _FunctionGenerator.variable,
    relax.DataflowVar: _FunctionGenerator.variable,
    relax.Tuple: _FunctionGenerator.tuple,
    relax.TupleGetItem: _FunctionGenerator.item,
    tirx.IntImm: lambda self, expr: self.code.constant(int(expr.value)),
    tirx.FloatImm: lambda self, expr: self.code.constant(float(expr.value)),
    ir.StringImm: lambda self, expr: self.code.constant(expr.value),
    relax.ShapeExpr: _FunctionGenerator.shape,
    relax.If: _FunctionGenerator.branch,
    relax.SeqExpr: _FunctionGenerator.sequence,
    ir.GlobalVar: _FunctionGenerator.global_name,
    relax.ExternFunc: _FunctionGenerator.extern,
    ir.GenericConst: _FunctionGenerator.constant,
}


def _symbol(func: relax.Function) -> str | None:
    """Returns the name by which an entry is called from outside, or None for a private function."""
    if not has_symbol(func) or PRIVATE in func.attrs:
        return None
    return str(func.attrs["global_symbol"])


def _arena(func: relax.Function) -> tuple[int, dict[str, int]]:
    """Returns the bytes of a function's part of the arena, and the offsets of its callees' parts in it."""
    if not func.attrs or ARENA_SIZE not in func.attrs:
        return 0, {}
    return int(func.attrs[ARENA_SIZE]), {str(name): int(offset) for name, offset in func.attrs[ARENA_PARTS].items()}


def _check_count(name: str, func: relax.Function, count: int) -> None:
    """Raises ValueError if a loop passes another number of values than a function takes."""
    if len(func.params) != count:
        raise ValueError(
            f"bytecode: {name} takes {len(func.params)} parameters, but its loop passes {count}; "
            "run MarkPrivate before TVM's passes, which drop unused parameters of private functions"
        )


def _mark_trusted(kernel: tirx.PrimFunc, trusted: bool) -> tirx.PrimFunc:
    """Returns a kernel, marked if it can trust its arguments and needn't check them."""
    return kernel.with_attr(TRUSTED, True) if trusted else kernel


def _is_void(result_type: ir.Type) -> bool:
    return isinstance(result_type, relax.TupleType) and len(result_type.fields) == 0


def _callee_name(callee: ir.GlobalVar | relax.ExternFunc) -> str:
    return callee.name_hint if isinstance(callee, ir.GlobalVar) else callee.global_symbol
