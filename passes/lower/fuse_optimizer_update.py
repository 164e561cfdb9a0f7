"""Fuses an optimizer's update of a Variable with the update of its slots and with the gradient that they read.

FuseOps makes kernels of one result. Adam's update has three, each read by the next and copied into its Variable. This
pass groups the elementwise kernels between them into one function of several results, which FuseTIR turns into one
kernel like FuseOps' own groups. The matmul, convolution or sum that computes the gradient joins if it has no other reader.
An update is placed right after its gradient's operands, so that these don't have to stay in memory until the end of the
step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import ir, relax
from tvm.ir import TensorLoad

from tvtf.core.variable_lock import cached_property
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.lower.fuse_kernels import with_named_dims
from tvtf.passes.memory.buffer_donation import DONATE, is_at_own_point
from tvtf.passes.memory.memory_plan import variables
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel

_CALL_TIR = ir.Op.get("relax.call_tir")
_BROADCAST, _SUMS = 1, (3, 4)
"""TVM's ``op_pattern`` values: up to _BROADCAST, a result's element reads at most one element of each operand; _SUMS are
reductions and contractions."""


class Step(NamedTuple):
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
    line = _Line(mod, main, pairs)
    updates = [update for update in line.updates() if len(update.steps) > 1]
    return _rewritten(mod, main, line, updates) if updates else mod


class _Line:
    """The straight-line code of ``main``: kernel calls, the readers of each variable, the new values of Variables."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function, pairs: list[tuple[int, int]]) -> None:
        self.steps: dict[Any, Step] = {}
        self.readers: dict[Any, list[int]] = {}
        self.positions_of: dict[Any, int] = {}
        self.starts: list[int] = []
        known: dict[Any, int | None] = {}
        for number, block in enumerate(main.body.blocks):
            self.starts.append(len(self.positions_of))
            for binding in block.bindings:
                self._add(mod, number, isinstance(block, relax.DataflowBlock), binding, known)
        self._read(main.body.body)
        results = _results(main)
        updated = {results[output]: main.params[parameter] for output, parameter in pairs}
        self.updated = {x: param for x, param in updated.items() if tvm_ffi.structural_equal(x.ty, param.ty)}

    def _add(
        self, mod: tvm.IRModule, block: int, is_dataflow: bool, binding: Any, known: dict[Any, int | None]
    ) -> None:
        """Records a binding; calls of kernels with one result in dataflow blocks become steps."""
        position = len(self.positions_of)
        self._read(binding.value)
        self.positions_of[binding.var] = position
        if is_dataflow and _is_plain_call(binding.value):
            name, operands = binding.value.args[0], list(binding.value.args[1].fields)
            kernel = mod[name]
            if name not in known:
                known[name] = _copied_operand(kernel)
            copied = known[name]
            pattern = int(kernel.attrs["op_pattern"])
            source = None if copied is None else operands[copied]
            self.steps[binding.var] = Step(position, block, binding, operands, pattern, source)

    def _read(self, value: Any) -> None:
        for var in variables(value):
            self.readers.setdefault(var, []).append(len(self.positions_of))

    @cached_property
    def early(self) -> set[Any]:
        """Returns scalars that depend on parameters only, such as a learning rate; they move to the block's start."""
        scalars: set[Any] = set()
        for var, step in self.steps.items():
            if (
                var not in self.updated
                and not step.binding.var.ty.ndim
                and all(x not in self.positions_of or x in scalars for x in step.operands)
            ):
                scalars.add(var)
        return scalars

    def key(self, var: Any) -> float:
        """Returns the sort key of a binding within its block."""
        position = self.positions_of[var]
        if var not in self.early:
            return position
        return max(start for start in self.starts if start <= position) - 0.9

    def updates(self) -> Iterator[_Update]:
        """Yields groups of steps that can be fused; each step belongs to one group."""
        groups: list[set[Any]] = []
        for var in self.updated:
            members = set(self._elementwise(var))
            # Groups with a step in common become one.
            groups = [g for g in groups if not g & members] + [members.union(*(g for g in groups if g & members))]
        for group in groups:
            members = self._without_shared(group)
            members |= self._gradient(members)
            update = _Update(self, sorted((self.steps[var] for var in members), key=lambda step: step.position))
            if update.steps and update.is_legal:
                yield update

    def _elementwise(self, var: Any) -> Iterator[Any]:
        """Yields the elementwise steps of the same shape that a value is computed by."""
        todo, seen = [var], set()
        while todo:
            step = self.steps.get(todo.pop())
            if step is not None and step.var not in seen and step.pattern <= _BROADCAST and _same_shape(step.var, var):
                seen.add(step.var)
                todo += step.operands
        return iter(seen)

    def _without_shared(self, group: set[Any]) -> set[Any]:
        """Removes steps that are read outside the group, unless they are a Variable's new value.

        What is read outside would have to be stored, and each removal may leave another step with such a reader.
        """
        while True:
            positions = {self.steps[var].position for var in group}
            shared = {v for v in group if v not in self.updated and not positions.issuperset(self.readers.get(v, ()))}
            if not shared:
                return group
            group = group - shared

    def _gradient(self, group: set[Any]) -> set[Any]:
        """Returns the sum that only this group reads, if there is exactly one.

        With two, neither result could stay in registers until the update.
        """
        positions = {self.steps[var].position for var in group}
        operands = {x for var in group for x in self.steps[var].operands if x in self.steps}
        sums = {
            x
            for x in operands - group
            if self.steps[x].pattern in _SUMS
            and all(_same_shape(x, var) and self.steps[x].block == self.steps[var].block for var in group)
            and positions.issuperset(self.readers[x])
        }
        return sums if len(sums) == 1 else set()


class _Update:
    """Steps to fuse into one kernel, in order."""

    def __init__(self, line: _Line, steps: list[Step]) -> None:
        self.line, self.steps = line, steps
        self.vars = {step.var for step in steps}
        self.operands = list(dict.fromkeys(x for s in steps for x in s.operands if x not in self.vars))
        self.positions = {step.position for step in steps}
        self.results = [s for s in steps if not self.positions.issuperset(line.readers.get(s.var, ()))]

    @property
    def name(self) -> str:
        """The fused kernel's name: the gradient's kernel if it is part, else the first step's."""
        first = max(self.steps, key=lambda step: step.pattern)
        return str(first.binding.value.args[0].name_hint)

    @property
    def is_legal(self) -> bool:
        """Whether all steps are in one block and no result is read before the last step."""
        last = self.steps[-1].position
        early = [r for s in self.results for r in self.line.readers[s.var] if r < last and r not in self.positions]
        return not early and len({step.block for step in self.steps}) == 1

    @property
    def place(self) -> float:
        """The sort key of the call.

        It stands after the last operand, and after the last other reader of the Variables whose memory the results
        take.
        """
        operand_positions = [
            self.line.positions_of[x] for x in self.operands if x in self.line.positions_of and x not in self.line.early
        ]
        params = [self.line.updated[s.var] for s in self.steps if s.var in self.line.updated]
        read = [r for p in params for r in self.line.readers.get(p, ()) if r not in self.positions]
        start = self.line.starts[self.steps[0].block]
        before = [position for position in (*operand_positions, *read) if position < self.steps[-1].position]
        return max([start - 0.75, *before]) + 0.5

    def function(self) -> relax.Function:
        """Returns the steps as a function of their operands.

        A copied value is read from the copy, unless it is a result.
        """
        types = with_named_dims([x.ty for x in self.operands])
        params = [relax.Var(f"operand_{i}", ty) for i, ty in enumerate(types)]
        at: dict[Any, Any] = dict(zip(self.operands, params, strict=True))
        bindings, inner = [], self.vars - {step.var for step in self.results}
        for step in self.steps:
            var = relax.DataflowVar(step.var.name, step.var.ty)
            bindings.append(relax.VarBinding(var, _again(step.binding.value, [at[x] for x in step.operands])))
            at[step.var] = var
            if step.copied in inner:
                at[step.copied] = var
        bindings.append(_bound("results", relax.Tuple([at[step.var] for step in self.results])))
        result = bindings[-1].var
        body = Bindings.typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
        return relax.Function(params, body, result.ty, attrs=ir.make_node("ir.DictAttrs", Primitive=True))

    def bindings(self, function: ir.GlobalVar) -> list[Any]:
        """Returns the bindings of the call and of its results, under their old variables."""
        types = relax.TupleType([step.var.ty for step in self.results])
        call = relax.Call(function, self.operands, span=self.steps[-1].binding.value.span, ret_ty=types)
        binding = relax.VarBinding(relax.Var("update", types), call)
        items = [relax.VarBinding(step.var, relax.TupleGetItem(binding.var, i)) for i, step in enumerate(self.results)]
        return [binding, *items]


def _again(call: Any, operands: list[Any]) -> Any:
    tensors = relax.Tuple(operands)
    return relax.Call(_CALL_TIR, [call.args[0], tensors], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)


def _bound(name: str, value: Any) -> Any:
    return relax.VarBinding(relax.Var(name, value.ty), value)


def _is_plain_call(value: Any) -> bool:
    return isinstance(value, relax.Call) and value.op.same_as(_CALL_TIR) and len(value.args) == 2 and _is_tensor(value)


def _is_tensor(value: Any) -> bool:
    return isinstance(value.ty, relax.TensorType)


def _same_shape(x: Any, y: Any) -> bool:
    return tvm_ffi.structural_equal(x.ty.shape, y.ty.shape)


def _copied_operand(func: Any) -> int | None:
    """Returns the position of the operand that a kernel only copies, or None."""
    kernel = read_kernel(func)
    stage = kernel.stages[0] if kernel is not None and len(kernel.stages) == 1 else None
    if not isinstance(stage, Stage) or stage.reduce or not isinstance(stage.value, TensorLoad):
        return None
    if not is_at_own_point(stage.value, stage):
        return None
    source = stage.value.source
    return next((i for i, param in enumerate(func.params) if param.same_as(source)), None)


def _results(main: relax.Function) -> list[Any]:
    """Returns the variables that ``main`` returns, through aliases.

    A variable may be bound to another one, which has the value.
    """
    values = {b.var: b.value for block in main.body.blocks for b in block.bindings}
    result = main.body.body
    while isinstance(values.get(result), relax.Var):
        result = values[result]
    value = values.get(result, result)
    return list(value.fields) if isinstance(value, relax.Tuple) else [result]


def _rewritten(mod: tvm.IRModule, main: relax.Function, line: _Line, updates: list[_Update]) -> tvm.IRModule:
    """Returns the module with each update's steps replaced by its call, sorted into place."""
    builder = relax.BlockBuilder(mod)
    new: dict[int, list[tuple[float, list[Any]]]] = {}
    for update in updates:
        function = builder.add_func(update.function(), f"{update.name}_update")
        new.setdefault(update.steps[0].block, []).append((update.place, update.bindings(function)))
    fused_vars = {step.var for update in updates for step in update.steps}
    blocks = []
    for number, block in enumerate(main.body.blocks):
        if number in new:
            # The order changes, because an update stands right after its operands.
            unfused = [(line.key(b.var), [b]) for b in block.bindings if b.var not in fused_vars]
            parts = sorted([*unfused, *new[number]], key=lambda part: part[0])
            block = relax.DataflowBlock([binding for _, part in parts for binding in part])
        blocks.append(block)
    body = Bindings.typed(relax.SeqExpr(blocks, main.body.body), main.body.body.ty)
    fused = builder.get()
    fused.update_func(
        fused.get_global_var("main"),
        relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs, main.span),
    )
    return fused
