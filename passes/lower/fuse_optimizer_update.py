"""Fuses an optimizer's update of a Variable with the update of its slots and with the gradient that they read.

FuseOps makes kernels of one result. Adam's update has three, each read by the next and copied into its Variable. This
pass groups the elementwise kernels between them into one function of several results, which FuseTIR turns into one
kernel like FuseOps' own groups. The matmul, convolution or sum that computes the gradient joins if it has no other
reader. An update is placed right after its gradient's operands, so that these don't have to stay in memory until the
end of the step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import ir, relax

from tvtf.core.variable_lock import cached_property
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.lower.fuse_kernels import with_named_dims
from tvtf.passes.memory.buffer_donation import DONATE, copied_param
from tvtf.passes.memory.memory_plan import variables
from tvtf.passes.schedule.cpu.kernel import read_kernel

_CALL_TIR = ir.Op.get("relax.call_tir")
_BROADCAST, _REDUCTIONS = 1, (3, 4)
"""TVM's ``op_pattern`` values: up to _BROADCAST, a result's element reads at most one element of each operand;
_REDUCTIONS are reductions and contractions."""


SortKey = tuple[int, int]
"""A position among the bindings of ``main``, then `_BINDING`, or `_FUSED_CALL` for what comes directly after it."""
_BINDING, _FUSED_CALL = 0, 1


class KernelCall(NamedTuple):
    """A call of a kernel with one result; ``copied`` is the operand if the kernel only copies it."""

    position: int
    block: int
    binding: Any
    operands: list[Any]
    pattern: int
    copied: Any

    @property
    def var(self) -> Any:
        return self.binding.var


def fuse_updates(mod: tvm.IRModule) -> tvm.IRModule:
    """Fuses the updates of donated Variables in ``main``."""
    main = mod["main"]
    pairs = [(int(output), int(parameter)) for output, parameter in (main.attrs or {}).get(DONATE, [])]
    main_calls = _MainCalls(mod, main, pairs)
    updates = [update for update in main_calls.updates() if len(update.calls) > 1]
    return _rewritten(mod, main, main_calls, updates) if updates else mod


class _MainCalls:
    """The straight-line code of ``main``: kernel calls, the readers of each variable, the new values of Variables."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function, pairs: list[tuple[int, int]]) -> None:
        """Records the kernel calls in ``main``, and which values are new values of Variables.

        Args:
          mod: the module.
          main: its function ``main``.
          pairs: the positions of an output of ``main`` and of the Variable's parameter that the output updates.
        """
        self.calls: dict[Any, KernelCall] = {}
        self.readers: dict[Any, list[int]] = {}
        self.positions_of: dict[Any, int] = {}
        self.starts: list[int] = []
        copied_operands: dict[Any, int | None] = {}
        for block_index, block in enumerate(main.body.blocks):
            self.starts.append(len(self.positions_of))
            is_dataflow = isinstance(block, relax.DataflowBlock)
            for binding in block.bindings:
                self._add(mod, block_index, is_dataflow, binding, copied_operands)
        self._record_readers(main.body.body)
        results = _results(main)
        updated = {results[output]: main.params[parameter] for output, parameter in pairs}
        # The parameter of the Variable that each value updates.
        self.updated = {
            value: param for value, param in updated.items() if tvm_ffi.structural_equal(value.ty, param.ty)
        }

    def _add(
        self, mod: tvm.IRModule, block: int, is_dataflow: bool, binding: Any, known: dict[Any, int | None]
    ) -> None:
        """Records a binding of ``main``, and adds it to ``calls`` if it calls a kernel with one result.

        Args:
          mod: the module with the kernels.
          block: the number of the binding's block.
          is_dataflow: whether this is a dataflow block; calls in other blocks aren't added.
          binding: the binding.
          known: earlier results of `copied_param`, by the kernel's name.
        """
        position = len(self.positions_of)
        self._record_readers(binding.value)
        self.positions_of[binding.var] = position
        if is_dataflow and _is_single_result_kernel_call(binding.value):
            name, tensors = binding.value.args
            kernel = mod[name]
            operands = list(tensors.fields)
            if name not in known:
                known[name] = copied_param(kernel, read_kernel(kernel))
            copied_position = known[name]
            pattern = int(kernel.attrs["op_pattern"])
            copied = None if copied_position is None else operands[copied_position]
            self.calls[binding.var] = KernelCall(position, block, binding, operands, pattern, copied)

    def _record_readers(self, value: Any) -> None:
        """Records the current position as a reader of the variables in a value."""
        for var in variables(value):
            self.readers.setdefault(var, []).append(len(self.positions_of))

    @cached_property
    def early(self) -> set[Any]:
        """Returns the scalars that depend only on parameters, such as a learning rate.

        Their computations move to the start of their block.
        """
        scalars: set[Any] = set()
        for var, call in self.calls.items():
            is_scalar = not call.binding.var.ty.ndim
            if not is_scalar or var in self.updated:
                continue
            # A variable that isn't bound in `main` is a parameter.
            if all(operand in scalars or operand not in self.positions_of for operand in call.operands):
                scalars.add(var)
        return scalars

    def sort_key(self, var: Any) -> SortKey:
        """Returns a binding's sort key in its block; scalars in ``early`` come before the block's first binding."""
        position = self.positions_of[var]
        if var not in self.early:
            return position, _BINDING
        return max(start for start in self.starts if start <= position) - 1, _BINDING

    def updates(self) -> Iterator[_Update]:
        """Yields groups of kernel calls that can be fused into one optimizer update; no call belongs to two groups.

        A group computes the new values of a Variable and of its slots, such as Adam's moments, which share operands.
        """
        groups: list[set[Any]] = []
        for var in self.updated:
            calls_of_update = set(self._elementwise_calls(var))
            # Groups with a call in common become one.
            overlapping = [group for group in groups if group & calls_of_update]
            disjoint = [group for group in groups if not group & calls_of_update]
            groups = [*disjoint, calls_of_update.union(*overlapping)]
        for group in groups:
            elementwise = self._without_stored_intermediates(group)
            fused = elementwise | self._gradient_reduction(elementwise)
            calls = sorted((self.calls[var] for var in fused), key=lambda call: call.position)
            update = _Update(self, calls)
            if update.calls and update.is_legal:
                yield update

    def _elementwise_calls(self, var: Any) -> Iterator[Any]:
        """Returns the variables of the elementwise calls by which a value is computed.

        The search starts at the call that computes ``var``, and follows operands backwards. It ends at calls that
        aren't elementwise, or whose result has another shape. The calls found have the same iteration space, and can
        be fused into one loop.
        """
        worklist = [var]
        seen = set()
        while worklist:
            call = self.calls.get(worklist.pop())
            if call is None or call.var in seen:
                continue
            is_elementwise = call.pattern <= _BROADCAST and _same_shape(call.var, var)
            if is_elementwise:
                seen.add(call.var)
                worklist += call.operands
        return iter(seen)

    def _without_stored_intermediates(self, group: set[Any]) -> set[Any]:
        """Removes from a group of calls those with a reader outside the group, except for new values of Variables.

        The result of such a call would have to be stored. A removed call may itself read another call's result, which
        then has a reader outside the group. So the search is repeated until no call is removed.
        """
        while True:
            positions = {self.calls[var].position for var in group}
            intermediates = [var for var in group if var not in self.updated]
            read_outside = {var for var in intermediates if not positions.issuperset(self.readers.get(var, ()))}
            if not read_outside:
                return group
            group = group - read_outside

    def _gradient_reduction(self, group: set[Any]) -> set[Any]:
        """Returns the reduction or contraction that computes the gradient of an update, as a set of one variable.

        Only the calls in ``group`` may read the gradient. The set is empty if there are several such reductions: the
        results of all of them couldn't stay in registers until the update.
        """
        positions = {self.calls[var].position for var in group}
        operands: set[Any] = set()
        for var in group:
            operands.update(operand for operand in self.calls[var].operands if operand in self.calls)

        def can_be_fused(operand: Any) -> bool:
            """Returns whether a call is a reduction that only the group reads, of the group's shape and block."""
            call = self.calls[operand]
            if call.pattern not in _REDUCTIONS or not positions.issuperset(self.readers[operand]):
                return False
            return all(_same_shape(operand, var) and call.block == self.calls[var].block for var in group)

        reductions = {operand for operand in operands - group if can_be_fused(operand)}
        return reductions if len(reductions) == 1 else set()


class _Update:
    """Kernel calls of an optimizer's update that are fused into one kernel, in order."""

    def __init__(self, main_calls: _MainCalls, calls: list[KernelCall]) -> None:
        self.main_calls, self.calls = main_calls, calls
        self.vars = {call.var for call in calls}
        self.operands = list(dict.fromkeys(x for call in calls for x in call.operands if x not in self.vars))
        self.positions = {call.position for call in calls}
        self.results = [call for call in calls if not self.positions.issuperset(main_calls.readers.get(call.var, ()))]

    @property
    def name(self) -> str:
        """The fused kernel's name: the gradient's kernel if it is part, else the first call's."""
        first = max(self.calls, key=lambda call: call.pattern)
        return str(first.binding.value.args[0].name_hint)

    @property
    def is_legal(self) -> bool:
        """Whether one call can replace the calls of the update.

        All calls must be in one block. No other call may read a result before the last call.
        """
        if len({call.block for call in self.calls}) != 1:
            return False
        last_call = self.calls[-1].position
        for result in self.results:
            for reader in self.main_calls.readers[result.var]:
                is_other_call = reader not in self.positions
                if is_other_call and reader <= last_call:
                    return False
        return True

    @property
    def sort_key(self) -> SortKey:
        """The sort key that gives the fused call's place among the bindings of its block.

        The call must follow its operands, and all other readers of the Variables whose memory the results take.
        """
        main = self.main_calls
        operand_positions = [
            main.positions_of[x] for x in self.operands if x in main.positions_of and x not in main.early
        ]
        reader_positions: list[int] = []
        for call in self.calls:
            if call.var in main.updated:
                readers_of_variable = main.readers.get(main.updated[call.var], ())
                reader_positions += [position for position in readers_of_variable if position not in self.positions]
        last_call = self.calls[-1].position
        predecessors = [position for position in (*operand_positions, *reader_positions) if position < last_call]
        # Without predecessors, the call comes before the block's first binding, and after the scalars in `early`.
        before_block = main.starts[self.calls[0].block] - 1
        return max([before_block, *predecessors]), _FUSED_CALL

    def grouped_function(self) -> relax.Function:
        """Builds the Relax function that contains all kernel calls of the update, for FuseTIR to turn into one kernel.

        Its parameters are the update's operands, in order, and its result is the tuple of the update's results. It has
        the attribute ``Primitive``, which marks the groups that FuseTIR fuses.
        """
        types = with_named_dims([x.ty for x in self.operands])
        params = [relax.Var(f"operand_{i}", ty) for i, ty in enumerate(types)]
        # The variable or parameter of the new function that has the value of each variable of `main`.
        new_vars: dict[Any, Any] = dict(zip(self.operands, params, strict=True))
        bindings = []
        intermediate = self.vars - {call.var for call in self.results}
        for call in self.calls:
            new_var = relax.DataflowVar(call.var.name, call.var.ty)
            new_call = _with_operands(call.binding.value, [new_vars[x] for x in call.operands])
            bindings.append(relax.VarBinding(new_var, new_call))
            new_vars[call.var] = new_var
            # Later calls read the copy of an intermediate value (such as a slot's new value, copied into its Variable),
            # so that the value itself needs no memory. A value that is a result is stored anyway, and is read itself.
            if call.copied in intermediate:
                new_vars[call.copied] = new_var
        results = relax.Tuple([new_vars[call.var] for call in self.results])
        bindings.append(_bind_to_new_var("results", results))
        result = bindings[-1].var
        body = Bindings.typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
        return relax.Function(params, body, result.ty, attrs=ir.make_node("ir.DictAttrs", Primitive=True))

    def replacement(self, function: ir.GlobalVar) -> list[Any]:
        """Returns the bindings that replace the update's calls in ``main``: the call of ``function``, then each result.

        The results keep their variables.

        Args:
          function: the global variable of :meth:`grouped_function`.
        """
        types = relax.TupleType([old.var.ty for old in self.results])
        call = relax.Call(function, self.operands, span=self.calls[-1].binding.value.span, ret_ty=types)
        call_binding = relax.VarBinding(relax.Var("update", types), call)
        result_bindings = [
            relax.VarBinding(old.var, relax.TupleGetItem(call_binding.var, i)) for i, old in enumerate(self.results)
        ]
        return [call_binding, *result_bindings]


def _with_operands(call: Any, operands: list[Any]) -> Any:
    """Returns a kernel call with other operands."""
    tensors = relax.Tuple(operands)
    return relax.Call(_CALL_TIR, [call.args[0], tensors], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)


def _bind_to_new_var(name: str, value: Any) -> Any:
    """Binds a value to a new variable."""
    return relax.VarBinding(relax.Var(name, value.ty), value)


def _is_single_result_kernel_call(value: Any) -> bool:
    """Returns whether a value is a kernel called on tensors, and not on dims, with one tensor as its result."""
    return isinstance(value, relax.Call) and value.op.same_as(_CALL_TIR) and len(value.args) == 2 and _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value.ty, relax.TensorType)


def _same_shape(x: Any, y: Any) -> bool:
    return tvm_ffi.structural_equal(x.ty.shape, y.ty.shape)


def _results(main: relax.Function) -> list[Any]:
    """Returns the variables that ``main`` returns; if it returns a tuple, the fields of the tuple."""
    values = {binding.var: binding.value for binding in bindings_of(main.body)}
    result = main.body.body
    while isinstance(values.get(result), relax.Var):  # an alias such as `y = x`
        result = values[result]
    value = values.get(result, result)
    return list(value.fields) if isinstance(value, relax.Tuple) else [result]


def _rewritten(mod: tvm.IRModule, main: relax.Function, main_calls: _MainCalls, updates: list[_Update]) -> tvm.IRModule:
    """Replaces the kernel calls of each optimizer update in ``main`` by one call of a fused function.

    Returns the new module, which contains the fused functions.
    """
    builder = relax.BlockBuilder(mod)
    updates_by_block: dict[int, list[tuple[SortKey, list[Any]]]] = {}
    count_by_name: Counter[str] = Counter()
    for update in updates:
        # The name's number, if there are several, is of the form that `common_name` leaves out.
        number = count_by_name[update.name]
        count_by_name[update.name] += 1
        function = builder.add_func(
            update.grouped_function(), f"{update.name}_{number}_update" if number else f"{update.name}_update"
        )
        updates_by_block.setdefault(update.calls[0].block, []).append((update.sort_key, update.replacement(function)))
    fused_vars = {call.var for update in updates for call in update.calls}
    blocks = []
    for block_index, block in enumerate(main.body.blocks):
        if block_index in updates_by_block:
            # The order changes, because an update stands right after its operands.
            unfused = [
                (main_calls.sort_key(binding.var), [binding])
                for binding in block.bindings
                if binding.var not in fused_vars
            ]
            parts = sorted([*unfused, *updates_by_block[block_index]], key=lambda part: part[0])
            block = relax.DataflowBlock([binding for _, part in parts for binding in part])
        blocks.append(block)
    body = Bindings.typed(relax.SeqExpr(blocks, main.body.body), main.body.body.ty)
    fused = builder.get()
    fused.update_func(
        fused.get_global_var("main"),
        relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs, main.span),
    )
    return fused
