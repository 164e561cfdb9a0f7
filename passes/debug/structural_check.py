"""Checks the invariants of each phase on the module it leaves: TVTF_CHECK=1, and in all tests.

A violation names the phase, the function, the binding and the user's line. The module isn't run. It is checked which
operators occur, that every variable is bound once and before its use, that calls match their callees, that no binding
is dead after phases that remove dead code, that kernels store nothing outside their buffers, and that live values don't
share memory.

Models: ``spec.py`` of tinygrad and ``check_jaxpr`` of JAX, which define a grammar for each stage of a program.
``relax.analysis.well_formed`` isn't used: it rejects what the dialect allows (dims that a call's result defines, and
loop bodies that share their caller's symbolic dims).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.primitive import table
from tvtf.core.tvm_visitor import structural_walk
from tvtf.errors import InternalError
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.dead_code import needed_bindings
from tvtf.passes.analysis.loop_op import IMPURE_LOOP, LOOPS, PURE_LOOP, carried_count
from tvtf.passes.debug import memory_check
from tvtf.passes.memory.memory_plan import ARENA_TENSOR
from tvtf.passes.schedule.cpu import emit
from tvtf.passes.schedule.cpu.kernel import substitute
from tvtf.passes.schedule.cpu.parallel_threshold import PARALLEL_SIZES

EXTERN, FUNCTION, BRANCH = "a packed function", "a function of the module", "relax.If"
DIALECT_PREFIX = "tvtf."


class Stage(NamedTuple):
    """The invariants of the IR after the phase ``begin`` and the phases that follow, until the next stage begins."""

    begin: str
    operators: frozenset[str]
    in_dialect: bool = False
    has_free_dims: bool = False
    """Whether results may have symbolic dims that nothing binds: in the dialect, running a call binds them."""


_CALLS = {EXTERN, FUNCTION, BRANCH, PURE_LOOP, IMPURE_LOOP}
_ALLOCATED = {*_CALLS, ARENA_TENSOR, "relax.memory.alloc_storage", "relax.memory.alloc_tensor"}
_KILLS = {"relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object"}
_MACHINE = {*_CALLS, ARENA_TENSOR, "relax.vm.alloc_storage", "relax.vm.alloc_tensor", "relax.vm.kill_object"}
STAGES = [
    Stage("", frozenset(), in_dialect=True, has_free_dims=True),
    Stage("legalize", frozenset({*_CALLS, "relax.call_tir", "relax.call_pure_packed"})),
    Stage("purity", frozenset({*_CALLS, "relax.call_tir"})),
    Stage("native-loops", frozenset({*_CALLS, "relax.call_tir", "relax.builtin.alloc_tensor"})),
    Stage("destinations", frozenset({*_CALLS, "relax.builtin.alloc_tensor"})),
    Stage("arena", frozenset({*_CALLS, ARENA_TENSOR, "relax.builtin.alloc_tensor"})),
    Stage("memory", frozenset({*_ALLOCATED, "relax.builtin.alloc_tensor"})),
    Stage("allocate", frozenset(_ALLOCATED)),
    Stage("kill", frozenset(_ALLOCATED | _KILLS)),
    Stage("builtins", frozenset(_MACHINE)),
    Stage("shapes", frozenset({*_MACHINE, "relax.call_builtin_with_ctx", "relax.null_value"})),
]
"""In the order of the pipeline; phases of users come before all others and leave the dialect."""
LEAVES_NO_DEAD = frozenset({"simplify", "guard", "messages"})
"""The phases that remove dead bindings."""
PLANS_MEMORY = frozenset({"arena", "memory"})
WRITES_LOOPS = "schedule"
"""The phase after which kernels have their final stores."""
_STAGE_OF = {stage.begin: stage for stage in STAGES}


Ranks = dict[int, tuple[tirx.PrimFunc, list[tuple[str, int | None]]]]
"""Of kernels' parameters, by the kernel's hash, its address; the kernel is held, so that no other comes to lie there."""


class StructuralCheck:
    """The check of one compilation, phase after phase; a function that a phase left unchanged isn't checked again."""

    def __init__(self) -> None:
        self.stage = STAGES[0]
        self.seen: dict[str, Any] = {}
        self.ranks: Ranks = {}

    def after(self, phase: str, mod: tvm.IRModule) -> None:
        """Checks that a phase's result has the structure that the phase promises.

        Raises:
          InternalError: it violates the phase's invariants; the text names the phase, the function and the binding.
        """
        # A stage is a series of phases with the same invariants. Most phases don't begin a new stage.
        stage = _STAGE_OF.get(phase, self.stage)
        has_new_invariants = stage is not self.stage or phase in LEAVES_NO_DEAD or phase in PLANS_MEMORY
        self.stage = stage
        for var, func in mod.functions.items():
            name = var.name_hint
            if phase == WRITES_LOOPS and isinstance(func, tirx.PrimFunc):
                check_stores(name, func)
            if not isinstance(func, relax.Function):
                continue
            is_checked = not has_new_invariants and func.same_as(self.seen.get(name))
            if is_checked:
                continue
            _FunctionCheck(phase, stage, mod, name, func, self.ranks).check()
            self.seen[name] = func


def check_stores(name: str, func: tirx.PrimFunc) -> None:
    """Checks that a scheduled kernel has no store at a constant index that is outside its buffer.

    Such a store overwrites other memory, without an error at run time.

    Raises:
      InternalError: the kernel stores outside a buffer; the text names the kernel and the store.
    """
    for store in memory_check.stores_outside(func):
        store_in_one_line = " ".join(str(store).split())
        raise InternalError(
            None,
            "check",
            f"the phase {WRITES_LOOPS!r} left the kernel {name!r} with a write outside its buffer: {store_in_one_line[-200:]}",
        )


class _FunctionCheck:
    """The check of one function of a module."""

    def __init__(
        self, phase: str, stage: Stage, mod: tvm.IRModule, name: str, func: relax.Function, ranks: Ranks
    ) -> None:
        self.phase, self.stage, self.mod, self.name, self.func, self.ranks = phase, stage, mod, name, func, ranks
        self.binding: Any = None

    def check(self) -> None:
        """Runs all checks of the function that apply after the current phase."""
        self.bound = set(map(hash, self.func.params[:]))
        visible_at_end = self.check_sequence(self.func.body, set(self.bound))
        self.binding = None  # the remaining errors concern the function or its result, and name no binding
        self.check_uses(self.func.body.body, visible_at_end)
        if not self.stage.has_free_dims:
            self.check_dims()
        if self.phase in LEAVES_NO_DEAD:
            self.check_no_dead()
        if self.phase in PLANS_MEMORY:
            for binding, problem in memory_check.violations(self.mod, self.func):
                self.binding = binding
                self.fail(problem)

    def fail(self, problem: str) -> None:
        """Raises an InternalError that describes the problem, and the binding or function that has the problem."""
        raise InternalError(None, "check", f"the phase {self.phase!r} left {self._location()}: {problem}")

    def _location(self) -> str:
        """Describes the current binding for an error text: variable, function, value, and the user's source line.

        Without a current binding, the function is described.
        """
        if self.binding is None:
            return f"the function {self.name!r} wrong"
        span = getattr(self.binding.value, "span", None)
        line = f", {span.source_name.name}:{span.line}" if span is not None else ""
        printed_value, _, _ = str(self.binding.value).partition("# Metadata")
        value_in_one_line = " ".join(printed_value.split())
        return f"{self.binding.var.name!r} of {self.name!r} wrong ({value_in_one_line[:200]}{line})"

    # -- variables

    # A variable's hash is its address. Sets of hashes are searched 50 times as fast as sets of variables, whose
    # comparison first asks for their types.

    def check_sequence(self, body: relax.SeqExpr, visible: set[int]) -> set[int]:
        """Checks that a sequence binds each variable once and before its use.

        All passes rely on this form (static single assignment). Returns the variables that are visible after the last
        binding.

        Args:
          body: the sequence of bindings.
          visible: the hashes of the variables that are visible before the first binding; the sequence's are added.
        """
        for binding in bindings_of(body):
            self.binding = binding
            self.check_value(binding.value, visible)
            var = hash(binding.var)
            if var in self.bound:
                self.fail("this variable is bound already")
            self.bound.add(var)
            visible.add(var)
        return visible

    def check_value(self, value: Any, visible: set[int]) -> None:
        """Checks the value of one binding; for an If, also the bindings in its branches.

        A branch can use the variables that were bound before the If. Its own variables can't be used after the branch.

        Args:
          value: the value.
          visible: the hashes of the variables that the value can use.
        """
        if isinstance(value, relax.If):
            self.check_allowed(BRANCH)
            self.check_uses(value.cond, visible)
            for branch in (value.true_branch, value.false_branch):
                if_binding = self.binding  # `check_sequence` replaces it by the bindings of the branch
                if isinstance(branch, relax.SeqExpr):
                    visible_in_branch = self.check_sequence(branch, set(visible))
                    self.check_uses(branch.body, visible_in_branch)
                else:
                    self.check_uses(branch, visible)
                self.binding = if_binding
            return
        self.check_uses(value, visible)
        if isinstance(value, relax.Call):
            self.check_call(value)

    def check_uses(self, value: Any, visible: set[int]) -> None:
        """Checks that a value uses only visible variables, and only functions that are in the module."""
        functions: list[ir.GlobalVar] = []
        variables: list[Any] = []
        structural_walk(value, ((ir.GlobalVar, functions.append), (relax.Var, variables.append)))
        for var in variables:
            is_symbolic_dim = isinstance(var.ty, ir.PrimType)
            if hash(var) not in visible and not is_symbolic_dim:
                self.fail(f"{var.name!r} is used, and not bound before")
        for function in functions:
            if function not in self.mod.functions:
                self.fail(f"it names the function {function.name_hint!r}, which the module doesn't have")

    # -- calls

    def check_allowed(self, operator: str) -> None:
        """Checks that an operator, or a kind of call, may occur after the current phase."""
        if operator not in self.stage.operators:
            self.fail(
                f"{operator} may not stand here: allowed are {', '.join(sorted(self.stage.operators)) or 'ops of tvtf'}"
            )

    def check_call(self, call: relax.Call) -> None:
        """Checks that a call may occur after the current phase, and that its arguments match the callee."""
        callee = call.op
        if isinstance(callee, ir.Op):
            self.check_operator(callee.name, call)
        elif isinstance(callee, ir.GlobalVar):
            self.check_allowed(FUNCTION)
            self.check_arguments(callee, call.args[:])
        elif isinstance(callee, relax.ExternFunc):
            self.check_allowed(EXTERN)

    def check_operator(self, name: str, call: relax.Call) -> None:
        """Checks that an operator may occur after the current phase, and checks the operands of loops and kernels."""
        if self.stage.in_dialect:
            if not dialect.is_dialect(call) or name.removeprefix(DIALECT_PREFIX) not in table:
                self.fail(f"{name} may not stand here: until they are legalized, modules have the ops of tvtf alone")
            return
        self.check_allowed(name)
        if name in LOOPS:
            self.check_loop(call)
        elif name == "relax.call_tir":
            kernel, tensors, *dims = call.args[:]
            operands = tensors.fields[:] if isinstance(tensors, relax.Tuple) else []
            operand_types = [operand.ty for operand in operands]
            result_type = call.ty_args[0]  # the type argument of `call_tir` is the type of its result or results
            result_types = result_type.fields[:] if isinstance(result_type, relax.TupleType) else [result_type]
            self.check_kernel_call(kernel, operand_types + result_types, has_dims=bool(dims))

    def check_arguments(self, callee: ir.GlobalVar, args: list[Any]) -> None:
        """Checks that the arguments of a call match the parameters of the called function or kernel."""
        func = self.mod[callee]
        if isinstance(func, tirx.PrimFunc) and func.attrs and PARALLEL_SIZES in func.attrs:
            self.check_sizes(callee, func, args)
        elif isinstance(func, tirx.PrimFunc):
            argument_types = [getattr(argument, "ty", None) for argument in args]
            self.check_kernel_call(callee, argument_types, has_dims=False)
        elif len(func.params) != len(args):
            self.fail(f"{callee.name_hint} takes {len(func.params)} arguments, and is given {len(args)}")

    def check_kernel_call(self, callee: ir.GlobalVar, types: list[Any], has_dims: bool) -> None:
        """Checks that a kernel is called with the right number of tensors, and with tensors of the right ranks.

        Sizes may be symbolic in the call or in the kernel, and aren't compared.

        Args:
          callee: the kernel's global variable.
          types: the types of the tensors that the call passes.
          has_dims: whether the call also passes symbolic dims, after the tensors.
        """
        func = self.mod[callee]
        if not isinstance(func, tirx.PrimFunc):
            self.fail(f"{callee.name_hint} is called as a kernel, and is a {type(func).__name__}")
        param_count = len(func.params)
        if param_count < len(types) or (param_count > len(types) and not has_dims):
            self.fail(f"the kernel {callee.name_hint} takes {param_count} arguments, and is given {len(types)}")
        for (name, rank), actual in zip(self.ranks_of(func), types):
            if rank is None or not isinstance(actual, relax.TensorType) or actual.ndim < 0:
                continue
            if rank != actual.ndim:
                self.fail(f"the kernel {callee.name_hint} takes {name!r} of rank {rank}, and is given {actual}")

    def ranks_of(self, kernel: tirx.PrimFunc) -> list[tuple[str, int | None]]:
        """Returns the name and the rank of each parameter of a kernel; the rank is None if it isn't a buffer.

        The result is cached by the kernel's hash, which is its address. The cache also refers to the kernel, so that no
        other kernel can get the same address.
        """
        cached = self.ranks.get(hash(kernel))
        if cached is None:
            shapes = [(param.name, getattr(param.ty, "shape", None)) for param in kernel.params[:]]
            ranks = [(name, None if shape is None else len(shape)) for name, shape in shapes]
            self.ranks[hash(kernel)] = cached = (kernel, ranks)
        _kernel, ranks_by_name = cached
        return ranks_by_name

    def check_sizes(self, callee: ir.GlobalVar, func: tirx.PrimFunc, args: list[Any]) -> None:
        """Checks that each buffer parameter of a kernel has as many elements as the tensor that the call passes.

        The sizes of the parameters depend on other arguments of the call. With a wrong size, the kernel would read or
        write outside of the tensor.

        Args:
          callee: the kernel's global variable.
          func: the kernel.
          args: the arguments of the call, tensors and sizes.
        """
        if len(func.params) != len(args):
            self.fail(f"the kernel {callee.name_hint} takes {len(func.params)} arguments, and is given {len(args)}")
        sizes = {param: arg for param, arg in zip(func.params, args) if isinstance(arg, tirx.IntImm)}
        for param, arg in zip(func.params, args):
            if is_buffer_var(param) and isinstance(arg.ty, relax.TensorType) and arg.ty.shape is not None:
                param_volume = substitute(emit.volume(list(param.ty.shape)), sizes)
                expected = emit.static(emit.simplified(param_volume))
                actual = emit.static(emit.volume(list(arg.ty.shape.values)))
                if expected != actual:
                    self.fail(
                        f"the kernel {callee.name_hint} takes {expected} items as {param.name!r}, and is given {arg.ty}"
                    )

    def check_loop(self, call: relax.Call) -> None:
        """Checks the calling convention of a loop.

        The loop's condition and body must have a parameter for each operand of the loop, and the body must return a
        result for each carried value.
        """
        condition, body, *operands = call.args[:]
        for function in (condition, body):
            param_count = len(self.mod[function].params)
            if param_count != len(operands):
                self.fail(f"{function.name_hint} takes {param_count} values, and the loop hands on {len(operands)}")
        result_type = self.mod[body].ret_ty
        count = carried_count(call)
        if isinstance(result_type, relax.TupleType) and len(result_type.fields) != count:
            self.fail(f"{body.name_hint} gives {len(result_type.fields)} values, and the loop carries {count}")

    # -- functions

    def check_dims(self) -> None:
        """Checks that the function defines all symbolic dims that it uses."""
        free = relax.analysis.free_symbolic_vars(self.func)
        if free:
            self.fail(f"the dims {_quoted_names(free)} are used but not defined")

    def check_no_dead(self) -> None:
        """Checks that the function's results or side effects depend on each binding."""
        bindings = bindings_of(self.func.body)
        live = {hash(binding.var) for binding in needed_bindings(self.func.params, bindings, [self.func.body.body])}
        for self.binding in bindings:
            if hash(self.binding.var) not in live:
                self.fail("nothing depends on it")


def _quoted_names(variables: Iterable[Any]) -> str:
    return ", ".join(sorted(repr(str(variable)) for variable in variables))
