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

from tvtf.core.primitive import table
from tvtf.core.tvm_visitor import structural_walk
from tvtf.errors import InternalError
from tvtf.ir import dialect
from tvtf.passes.analysis.dead_code import needed_bindings
from tvtf.passes.analysis.loop_op import IMPURE_LOOP, LOOPS, PURE_LOOP, carried_count
from tvtf.passes.debug import memory_check
from tvtf.passes.memory.memory_plan import PLACE

EXTERN, FUNCTION, BRANCH = "a packed function", "a function of the module", "relax.If"
DIALECT_PREFIX = "tvtf."


class Stage(NamedTuple):
    """The invariants from the phase ``begin`` on, until the next stage begins."""

    begin: str
    operators: frozenset[str]
    in_dialect: bool = False
    has_free_dims: bool = False
    """Whether results may have symbolic dims that nothing binds: in the dialect, running a call binds them."""


_CALLS = {EXTERN, FUNCTION, BRANCH, PURE_LOOP, IMPURE_LOOP}
_ALLOCATED = {*_CALLS, PLACE, "relax.memory.alloc_storage", "relax.memory.alloc_tensor"}
_KILLS = {"relax.memory.kill_storage", "relax.memory.kill_tensor", "relax.vm.kill_object"}
_MACHINE = {*_CALLS, PLACE, "relax.vm.alloc_storage", "relax.vm.alloc_tensor", "relax.vm.kill_object"}
STAGES = [
    Stage("", frozenset(), in_dialect=True, has_free_dims=True),
    Stage("legalize", frozenset({*_CALLS, "relax.call_tir", "relax.call_pure_packed"})),
    Stage("purity", frozenset({*_CALLS, "relax.call_tir"})),
    Stage("native-loops", frozenset({*_CALLS, "relax.call_tir", "relax.builtin.alloc_tensor"})),
    Stage("destinations", frozenset({*_CALLS, "relax.builtin.alloc_tensor"})),
    Stage("arena", frozenset({*_CALLS, PLACE, "relax.builtin.alloc_tensor"})),
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


class StructuralCheck:
    """The check of one compilation, phase after phase; a function that a phase left unchanged isn't checked again."""

    def __init__(self) -> None:
        self.stage = STAGES[0]
        self.seen: dict[str, Any] = {}

    def after(self, phase: str, mod: tvm.IRModule) -> None:
        """Checks the result of a phase.

        Raises:
          InternalError: it violates the phase's invariants; the text names the phase, the function and the binding.
        """
        begun = _STAGE_OF.get(phase, self.stage)
        changes = begun is not self.stage or phase in LEAVES_NO_DEAD or phase in PLANS_MEMORY
        self.stage = begun
        for var, func in mod.functions.items():
            name = var.name_hint
            if phase == WRITES_LOOPS and isinstance(func, tirx.PrimFunc):
                check_stores(name, func)
            # The same object was checked before, by the same rules.
            if not isinstance(func, relax.Function) or (not changes and func.same_as(self.seen.get(name))):
                continue
            _Function(phase, begun, mod, name, func).check()
            self.seen[name] = func


def check_stores(name: str, func: tirx.PrimFunc) -> None:
    """Checks that a scheduled kernel stores nothing outside its buffers.

    Raises:
      InternalError: it does; the text names the kernel and the store.
    """
    for store in memory_check.stores_outside(func):
        text = " ".join(str(store).split())[-200:]
        raise InternalError(
            None,
            "check",
            f"the phase {WRITES_LOOPS!r} left the kernel {name!r} with a write outside its buffer: {text}",
        )


class _Function:
    """The check of one function of a module."""

    def __init__(self, phase: str, stage: Stage, mod: tvm.IRModule, name: str, func: relax.Function) -> None:
        self.phase, self.stage, self.mod, self.name, self.func = phase, stage, mod, name, func
        self.binding: Any = None

    def check(self) -> None:
        """Runs all checks that apply after the current phase."""
        self.bound = set(self.func.params)
        result = self.sequence(self.func.body, set(self.func.params))
        self.binding = None
        self.uses(self.func.body.body, result)
        if not self.stage.has_free_dims:
            self.dims()
        if self.phase in LEAVES_NO_DEAD:
            self.dead()
        if self.phase in PLANS_MEMORY:
            for binding, why in memory_check.faults(self.mod, self.func):
                self.binding = binding
                self.fail(why)

    def fail(self, why: str) -> None:
        raise InternalError(None, "check", f"the phase {self.phase!r} left {self._place()}: {why}")

    def _place(self) -> str:
        if self.binding is None:
            return f"the function {self.name!r} wrong"
        span = getattr(self.binding.value, "span", None)
        line = f", {span.source_name.name}:{span.line}" if span is not None else ""
        text = " ".join(str(self.binding.value).partition("# Metadata")[0].split())
        return f"{self.binding.var.name!r} of {self.name!r} wrong ({text[:200]}{line})"

    # -- variables

    def sequence(self, body: relax.SeqExpr, known: set[Any]) -> set[Any]:
        """Checks bindings in order; returns the variables bound after the last."""
        for block in body.blocks:
            for binding in block.bindings:
                self.binding = binding
                self.value(binding.value, known)
                if binding.var in self.bound:
                    self.fail("this variable is bound already")
                self.bound.add(binding.var)
                known.add(binding.var)
        return known

    def value(self, value: Any, known: set[Any]) -> None:
        """Checks one bound value, with the branches of an If.

        A branch sees what was bound before the If; what it binds ends with it.
        """
        if isinstance(value, relax.If):
            self.allowed(BRANCH)
            self.uses(value.cond, known)
            for branch in (value.true_branch, value.false_branch):
                outer = self.binding
                inside = self.sequence(branch, set(known)) if isinstance(branch, relax.SeqExpr) else known
                self.uses(branch.body if isinstance(branch, relax.SeqExpr) else branch, inside)
                self.binding = outer
            return
        self.uses(value, known)
        if isinstance(value, relax.Call):
            self.call(value)

    def uses(self, value: Any, known: set[Any]) -> None:
        """Checks that a value without branches uses only bound variables and existing functions."""
        named: list[ir.GlobalVar] = []
        used: list[Any] = []
        structural_walk(value, ((ir.GlobalVar, named.append), (relax.Var, used.append)))
        for var in used:
            if var not in known and not isinstance(var.ty, ir.PrimType):
                self.fail(f"{var.name!r} is used, and not bound before")
        for function in named:
            if function not in self.mod.functions:
                self.fail(f"it names the function {function.name_hint!r}, which the module doesn't have")

    # -- calls

    def allowed(self, operator: str) -> None:
        if operator not in self.stage.operators:
            self.fail(
                f"{operator} may not stand here: allowed are {', '.join(sorted(self.stage.operators)) or 'ops of tvtf'}"
            )

    def call(self, call: relax.Call) -> None:
        """Checks a call by the kind of its callee."""
        callee = call.op
        if isinstance(callee, ir.Op):
            self.operator(callee.name, call)
        elif isinstance(callee, ir.GlobalVar):
            self.allowed(FUNCTION)
            self.arguments(callee, list(call.args))
        elif isinstance(callee, relax.ExternFunc):
            self.allowed(EXTERN)

    def operator(self, name: str, call: relax.Call) -> None:
        """Checks that an operator may occur at this stage, and the operands of loops and kernels."""
        if self.stage.in_dialect:
            if not dialect.is_dialect(call) or name.removeprefix(DIALECT_PREFIX) not in table:
                self.fail(f"{name} may not stand here: until they are legalized, modules have the ops of tvtf alone")
            return
        self.allowed(name)
        if name in LOOPS:
            self.loop(call)
        elif name == "relax.call_tir":
            operands = list(call.args[1].fields) if isinstance(call.args[1], relax.Tuple) else []
            types = call.ty_args[0]
            results = list(types.fields) if isinstance(types, relax.TupleType) else [types]
            self.kernel(call.args[0], [x.ty for x in operands] + results, len(call.args) > 2)

    def arguments(self, callee: ir.GlobalVar, args: list[Any]) -> None:
        func = self.mod[callee]
        if isinstance(func, tirx.PrimFunc):
            self.kernel(callee, [getattr(x, "ty", None) for x in args], False)
        elif len(func.params) != len(args):
            self.fail(f"{callee.name_hint} takes {len(func.params)} arguments, and is given {len(args)}")

    def kernel(self, callee: ir.GlobalVar, types: list[Any], has_dims: bool) -> None:
        """Checks the number of tensors and their ranks; dims may follow them.

        Sizes may be symbolic on either side, so that only ranks are compared.
        """
        func = self.mod[callee]
        if not isinstance(func, tirx.PrimFunc):
            self.fail(f"{callee.name_hint} is called as a kernel, and is a {type(func).__name__}")
        if len(func.params) < len(types) or (len(func.params) > len(types) and not has_dims):
            self.fail(f"the kernel {callee.name_hint} takes {len(func.params)} arguments, and is given {len(types)}")
        for param, actual in zip(func.params, types):
            shape = getattr(param.ty, "shape", None)
            if shape is None or not isinstance(actual, relax.TensorType) or actual.ndim < 0:
                continue
            if len(shape) != actual.ndim:
                self.fail(
                    f"the kernel {callee.name_hint} takes {param.name!r} of rank {len(shape)}, and is given {actual}"
                )

    def loop(self, call: relax.Call) -> None:
        """Checks that a loop's functions take and return as many values as it passes and carries."""
        count, operand_count = carried_count(call), len(call.args) - 2
        for part in call.args[:2]:
            if len(self.mod[part].params) != operand_count:
                self.fail(
                    f"{part.name_hint} takes {len(self.mod[part].params)} values, and the loop hands on {operand_count}"
                )
        body = self.mod[call.args[1]]
        if isinstance(body.ret_ty, relax.TupleType) and len(body.ret_ty.fields) != count:
            self.fail(f"{call.args[1].name_hint} gives {len(body.ret_ty.fields)} values, and the loop carries {count}")

    # -- whole functions

    def dims(self) -> None:
        free = relax.analysis.free_symbolic_vars(self.func)
        if free:
            self.fail(f"the dims {_named(free)} are used but not defined")

    def dead(self) -> None:
        bindings = [b for block in self.func.body.blocks for b in block.bindings]
        live = {b.var for b in needed_bindings(self.func.params, bindings, [self.func.body.body])}
        for self.binding in bindings:
            if self.binding.var not in live:
                self.fail("nothing depends on it")


def _named(variables: Iterable[Any]) -> str:
    return ", ".join(sorted(repr(str(v)) for v in variables))
