"""Inserts guards: run-time checks before kernels that must not see invalid data.

They are inserted after dead code elimination, so that a guard is removed together with its op; values that a guard's
rule computed and didn't use are dropped afterwards. A failing guard first writes the Variables that were assigned
before it in program order, so that earlier assignments stand and later ones don't happen, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import tvm
from tvm import ir, relax

from tvtf.core.primitive import Primitive, Rule, table
from tvtf.core.shape import same_shape, substitute_dim
from tvtf.core.tensor import SymbolicTensor
from tvtf.core.thread_state import state
from tvtf.ir import check_lines, dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ir.interpreter import CONTROL, Evaluation, Subfunction, reemit
from tvtf.ops.rules import bind
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.lower.computed_sizes import sized_after, too_large

PYTHON = "call_python"
"""The op that runs Python: it may fail and may read Variables, so earlier assignments are written before it."""


def insert_guards(mod: tvm.IRModule) -> tvm.IRModule:
    """Inserts a ``guard``, a run-time check, before each op whose kernel must not see invalid data."""
    return drop_dead(reemit(mod, _Guarded)) if writes_variables_early(mod) else mod


def writes_variables_early(mod: tvm.IRModule) -> bool:
    """Returns whether a module's code may write the memory of Variables itself, before it returns their new values.

    It does so before Python and before a branch or loop that may fail, and where a check fails.
    """
    return any(map(_needs_guard, _calls(mod)))


def _calls(mod: tvm.IRModule) -> Iterator[Any]:
    """Yields the values that all functions of a module bind."""
    for func in mod.functions.values():
        yield from _calls_of(func)


def _calls_of(func: Any) -> Iterator[Any]:
    """Yields the values that a Relax function binds; a kernel has none."""
    if isinstance(func, relax.Function):
        yield from (binding.value for binding in bindings_of(func.body))


def _needs_guard(value: Any) -> bool:
    """Returns whether a value is a call that a guard precedes, or before which pending assignments are written."""
    if not dialect.is_dialect(value):
        return False
    prim = table[value.op.name.removeprefix("tvtf.")]
    return prim.guard is not None or prim.name in ("guard", PYTHON)


def _may_fail(mod: tvm.IRModule, name: str) -> bool:
    """Returns whether a function contains an op with a guard, or calls a function that does."""
    return any(
        _needs_guard(value) or any(_may_fail(mod, function) for function in _subfunctions(value))
        for value in _calls_of(mod[name])
    )


def calls_python(function: relax.Function) -> bool:
    """Returns whether a function calls Python directly; the functions that it calls aren't looked at."""
    return any(dialect.is_dialect(call) and call.op.name == f"tvtf.{PYTHON}" for call in _calls_of(function))


def _subfunctions(value: Any) -> list[str]:
    """Returns the names of the branches or loop functions that a call has."""
    return [arg.name_hint for arg in value.args if isinstance(arg, ir.GlobalVar)] if dialect.is_dialect(value) else []


def _writes_before_end(mod: tvm.IRModule, name: str) -> bool:
    """Returns whether a branch or loop body writes an assigned Variable's memory before it ends.

    Assignments are written before a call of Python, and before a nested branch or loop that may fail, so that they stay
    visible if it fails.
    """
    function = mod[name]
    nested = [func for value in _calls_of(function) for func in _subfunctions(value)]
    assigns_variables = bool(variable_memory_params(mod, function))
    if assigns_variables and (calls_python(function) or any(_may_fail(mod, func) for func in nested)):
        return True
    return any(_writes_before_end(mod, func) for func in nested)


def variable_memory_params(mod: tvm.IRModule, function: relax.Function) -> set[int]:
    """Returns which parameters of a branch or loop body are the memory of Variables that the function assigns.

    The parameters are given by negative indices, counted from the end as in ``params[-1]``.
    """
    params = list(function.params)
    memories = {param for _old, _value, *memory in _assignments(function) for param in memory}
    # Nested branches and loops may assign Variables, too.
    for value in _calls_of(function):
        for nested in _subfunctions(value):
            operands = dialect.read(value).inputs
            nested_indices = variable_memory_params(mod, mod[nested])
            memories.update(operands[i] for i in nested_indices)
    return {params.index(memory) - len(params) for memory in memories}


class _Guarded(Evaluation):
    """Re-emits a function with guards, tracking pending assignments: each Variable's parameter and newest value."""

    def __init__(self, *args: Any) -> None:
        """Starts with no pending assignments (a pending assignment: one that isn't written to its Variable yet)."""
        super().__init__(*args)
        # The memory of the Variable that a value was assigned to, by the value's `id`.
        self.memory_of_value: dict[int, Any] = {}
        # New value and memory of each pending assignment, by the memory's `id`.
        self.pending: dict[int, tuple[Any, Any]] = {}
        # Values that may share a Variable's memory: the operands of a branch or loop body, and the results of branches
        # and loops.
        self.operands: list[Any] = []
        # The `id`s of the operands that are the memory of a Variable that the function assigns.
        self.memories: set[int] = set()
        # The Variable's memory that a value is a copy of, by the copy's `id`.
        self.copied_memory: dict[int, Any] = {}
        # The expressions of the conditions that have a guard already, and need no second one.
        self.checked: set[Any] = set()
        # The results of computed size that are checked after each variable.
        self.sized = sized_after(self.function)
        is_subfunction = state.trace.parent is not None
        if is_subfunction:
            self._enter_subfunction()

    def _enter_subfunction(self) -> None:
        """Prepares to emit the bindings of a branch or loop body again.

        An operand may be a Variable's memory. Another operand may be the Variable's newest value, whose assignment is
        pending.
        """
        self.operands = list(self.values.values())
        params = list(self.function.params)
        self.memories = {id(self.values[params[i]]) for i in variable_memory_params(self.mod, self.function)}
        for old_var, _, *memory_vars in _assignments(self.function):
            if old_var in self.values:
                old = self.values[old_var]
                memory = [self.values[memory_var] for memory_var in memory_vars]
                self._record_assignment(old, old, *memory)

    def record_dims(self, var: relax.Var) -> None:
        """Records a bound variable, and emits the guard that results of computed sizes fit in memory.

        The guard is emitted after the variable that defines the last unknown dim of these results.
        """
        super().record_dims(var)
        results = self.sized.get(var)
        if results:
            sizes = tuple(substitute_dim(result.bytes, self.dims) for result in results)
            fits = bind.memory_fits(sizes=sizes)
            message = too_large(results) + _user_line()
            bind.guard(fits, *self._pending_writes(), message=message, kind="ResourceExhaustedError")

    def may_copy(self, prim: Primitive[Any]) -> bool:
        return prim.guard is None and prim.name not in ("guard", PYTHON, "assign", *CONTROL)

    def bind(self, prim: Primitive[Any], inputs: list[Any], attrs: dict[str, Any]) -> Any:
        """Emits a primitive, preceded by its guards.

        Python code and nested functions that may fail are also preceded by writes of the pending assignments.

        Args:
          prim: the primitive.
          inputs: its operands.
          attrs: its attributes.
        """
        if prim.guard:
            self._guard(prim.guard, inputs, attrs)
        if prim.name == "guard":
            # Its inputs are the condition, the tensors that the message shows, and the assignments that are written if
            # the condition is false.
            shown_count = attrs.get("shown", 0)
            inputs = [*inputs[: 1 + shown_count], *self._pending_writes()]
            attrs = attrs | {"message": attrs["message"] + _user_line()}
        if prim.name == PYTHON:
            inputs = self._flush_assignments(inputs)
        if prim.name in CONTROL:
            functions = [func for func in attrs.values() if isinstance(func, Subfunction)]
            inputs = self._flush_assignments_before_control_flow(inputs, functions)
        result = prim.bind(*inputs, **attrs)
        if prim.name in CONTROL:
            self.operands += result
        if prim.name == "assign":
            old, _new, *memory = inputs
            self._record_assignment(old, result, *memory)
        return result

    def _guard(self, rule: Rule, inputs: list[Any], attrs: dict[str, Any]) -> None:
        """Emits the guards of a primitive, except guards whose condition was checked before.

        For example, an op and its gradient have the same guards.

        Args:
          rule: yields each guard's condition and message, and the tensors that the message shows.
          inputs: the operands of the primitive.
          attrs: the attributes of the primitive.
        """
        start = len(state.trace.bindings)  # the bindings after these compute the conditions
        for ok, message, *shown in rule(*inputs, **attrs):
            expressions = _expressions(state.trace.bindings[start:])
            condition = expressions.get(ok._var) if isinstance(ok, SymbolicTensor) else None
            if condition is None or condition not in self.checked:
                self.checked.add(condition)
                bind.guard(ok, *shown, *self._pending_writes(), message=message + _user_line(), shown=len(shown))

    def _flush_assignments_before_control_flow(self, inputs: list[Any], functions: list[Subfunction]) -> list[Any]:
        """Writes pending assignments to the Variables' memory before a branch or loop; returns the new operands.

        In TensorFlow, an assignment stays visible if a later op fails. So, before control flow that may fail, pending
        assignments are written; values that share memory with a Variable that is written inside are copied first.

        Args:
          inputs: the operands of the branch or loop.
          functions: its branches, or its condition and body.
        """
        # The operands correspond to the last parameters of each function, so both are counted from the end.
        positions: set[int] = set()
        for func in functions:
            for index_from_end in variable_memory_params(func.mod, func.mod[func.name]):
                positions.add(len(inputs) + index_from_end)
        memory_operands = {i: self.copied_memory.get(id(inputs[i]), inputs[i]) for i in positions}
        if any(_writes_before_end(func.mod, func.name) for func in functions):
            inputs = self._copy_shared(list(memory_operands.values()), inputs)
        if any(_may_fail(func.mod, func.name) for func in functions):
            inputs = self._flush_assignments(inputs)
        return [memory_operands.get(i, x) for i, x in enumerate(inputs)]

    def _pending_writes(self) -> list[Any]:
        """Returns what a failing guard writes: each pending assignment's new value, followed by the Variable's memory.

        A value of another shape than the Variable had at the start of the call doesn't fit the memory, and is left out.
        """
        return [x for new, memory in self.pending.values() if _fits_memory(new, memory) for x in (new, memory)]

    def _record_assignment(self, old: Any, new: Any, memory: Any = None) -> None:
        """Records that a Variable's value changes from ``old`` to ``new``.

        Without ``memory``, the Variable's memory is looked up by ``old``. In the outermost function, the parameter with
        a Variable's first value is the Variable's memory.

        Args:
          old: the value before the assignment.
          new: the assigned value.
          memory: the Variable's memory, if it is known.
        """
        memory = self.memory_of_value.get(id(old), old) if memory is None else memory
        self.memory_of_value[id(new)] = memory
        self.pending[id(memory)] = (new, memory)

    def _flush_assignments(self, inputs: list[Any]) -> list[Any]:
        """Emits writes of the pending assignments to the memory of their Variables.

        Returns ``inputs``, where copies replace the values that the writes would change.
        """
        # An assignment of another shape doesn't fit the Variable's memory.
        fitting = [(new, memory) for new, memory in self.pending.values() if _fits_memory(new, memory)]
        inputs = self._copy_shared([memory for _, memory in fitting], inputs)
        for new, memory in fitting:
            bind.write(new, memory)
        self.pending.clear()
        return inputs

    def _copy_shared(self, memories: list[Any], inputs: list[Any]) -> list[Any]:
        """Copies the values that share memory with Variables that are about to be written.

        Later readers use the copies. Returns ``inputs`` with the copies in place of the values.
        """
        copies: dict[int, Any] = {}
        for memory in memories:
            for value in self._values_sharing_memory(memory):
                copies[id(value)] = bind.identity(value)
        for memory in memories:
            copy = copies.get(id(memory))
            if copy is not None:
                self.copied_memory[id(copy)] = memory
        self.values = {var: copies.get(id(value), value) for var, value in self.values.items()}
        return [copies.get(id(x), x) for x in inputs]

    def _values_sharing_memory(self, memory: Any) -> list[Any]:
        """Returns the values that may share a Variable's memory, and that a write to the memory must not change.

        In a branch or loop body these are operands. In ``main`` these are the Variable's parameter, and results of
        branches and loops.
        """
        same_type = [x for x in self.operands if x._type == memory._type]
        is_main = state.trace.parent is None
        if is_main:
            return [memory, *same_type]
        return [x for x in same_type if id(x) not in self.memories]


def _expressions(bindings: Sequence[Any]) -> dict[Any, Any]:
    """Returns a hashable expression of each variable's value: the op's name, operands, attributes and type.

    Variables with equal expressions have equal values. A call with symbolic dims has no expression, since different
    dims may have the same name.
    """
    expressions: dict[Any, Any] = {}
    for binding in bindings:
        call = binding.value
        types = dialect.static_types(call.ty) if dialect.is_dialect(call) else None
        if types is None:
            continue
        attrs = dialect.read(call).attrs
        if any(map(_is_symbolic, attrs.values())):
            continue
        operands = [_constant(x) if isinstance(x, ir.Constant) else expressions.get(x, x) for x in call.args[:]]
        expressions[binding.var] = (call.op.name, *operands, repr(sorted(attrs.items())), types)
    return expressions


def _is_symbolic(value: Any) -> bool:
    return any(map(_is_symbolic, value)) if isinstance(value, (tuple, list)) else isinstance(value, ir.Expr)


def _constant(value: ir.Constant) -> tuple[str, tuple[int, ...], bytes]:
    """Returns a constant in a form that compares by value."""
    array = value.value.numpy()
    return str(array.dtype), array.shape, array.tobytes()


def _fits_memory(new: Any, memory: Any) -> bool:
    """Returns whether a new value has the shape of a Variable's memory."""
    return same_shape(new._type.shape, memory._type.shape)


def _assignments(function: relax.Function) -> Iterator[list[Any]]:
    """Yields the operands of each assignment in a function: old value, new value, and the Variable's memory."""
    for call in _calls_of(function):
        if dialect.is_dialect(call) and call.op.name == "tvtf.assign":
            yield list(dialect.read(call).inputs)


def _user_line() -> str:
    """Returns the user's file and line, or what stands for them in compiled code, for the end of a guard's message."""
    span = state.trace.span
    return "" if span is None else check_lines.text_of(span)
