"""Buffer donation: writes the new value of a Variable into the memory of the old one.

``main`` carries ``tvtf.donate`` = [(output, parameter), ...]. An output may take the parameter's memory if the kernel
that computes it reads the parameter only at the element that it writes, nothing reads the parameter later, and nothing
that can fail comes after the write. Otherwise the value gets its own memory, and the caller swaps handles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import tvm
import tvm_ffi
from tvm import ir, relax, tirx
from tvm.ir import TensorLoad
from tvm.tirx.buffer import is_buffer_var

from tvtf.core.tvm_visitor import structural_map, structural_walk
from tvtf.ops.kernels.common import COPY
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.lower.loop_kernel import MAY_FAIL, SAFE
from tvtf.passes.memory.memory_plan import RESHAPE, is_allocation, variables
from tvtf.passes.schedule.cpu.kernel import Kernel, Opaque, Stage, loads, read_kernel

DONATE = "tvtf.donate"
GIVEN = "tvtf.given"
"""Attribute: the positions of the outputs that ``main`` still returns; donated ones needn't be."""
COPIED = "tvtf.copied"
"""Attribute: the parameter that a kernel copies, if it does nothing else; -1 otherwise."""


def mark_inplace(mod: tvm.IRModule) -> tvm.IRModule:
    """Marks kernels with the outputs that may share an input's memory, and whether they only copy or reshape.

    Runs before scheduling, since `read_kernel` understands only unscheduled kernels.
    """
    marked = mod.clone()
    for var, func in mod.functions.items():
        kernel = read_kernel(func) if isinstance(func, tirx.PrimFunc) else None
        if kernel is not None:
            attrs = {
                SAFE: inplace_pairs(func, kernel),
                RESHAPE: _only_reshapes(func),
                COPIED: _copied_operand(func, kernel),
            }
            marked.update_func(var, func.with_attrs(attrs))
        elif isinstance(func, tirx.PrimFunc) and copies(func.body):
            marked.update_func(var, func.with_attr(SAFE, _copied_pairs(func)))
    return marked


def _copied_operand(func: tirx.PrimFunc, kernel: Kernel) -> int:
    """Returns the position of the parameter that a kernel copies, if it does nothing else; -1 otherwise."""
    (stage, *more) = kernel.stages
    if more or not isinstance(stage, Stage) or stage.reduce or not isinstance(stage.value, TensorLoad):
        return -1
    if not is_at_own_point(stage.value, stage) or not _same_buffer_type(stage.value.source, stage.buffer):
        return -1
    return next((i for i, param in enumerate(func.params) if param.same_as(stage.value.source)), -1)


def _copied_pairs(func: tirx.PrimFunc) -> list[list[int]]:
    """Returns such pairs as `inplace_pairs` for a kernel that first copies an operand and doesn't read it after that.

    After the copy, such a kernel works on its result alone.
    """
    place = {param: i for i, param in enumerate(func.params)}
    return [
        [place[out], place[source]]
        for out, source in copies(func.body)
        if out in place
        and source in place
        and _same_buffer_type(source, out)
        and not any(load.source.same_as(source) for load in loads(without_copies(func.body, out)))
    ]


def _only_reshapes(func: tirx.PrimFunc) -> bool:
    return len(func.params) == 2 and relax.analysis.has_reshape_pattern(func)


def inplace_pairs(func: tirx.PrimFunc, kernel: Kernel) -> list[list[int]]:
    """Returns the ``[output, input]`` positions of parameters where the input is read only at the element written.

    Then the result may take the input's memory: each element is read before it is overwritten.
    """
    results = {s.buffer for s in kernel.stages if isinstance(s, Stage)}
    written = {i for i, p in enumerate(func.params) if p in results}
    steps = [_step_of(member) for member in kernel.stages] if written else []
    return [
        [out, i]
        for out in written
        for i, param in enumerate(func.params)
        if i not in written
        and _same_buffer_type(param, func.params[out])
        and _is_local_to(steps, param, func.params[out])
    ]


class _Step(NamedTuple):
    """What a stage writes (None: unknown), and for each buffer that it reads, whether only at the element it writes."""

    written: Any
    reads: dict[Any, bool]


def _step_of(member: Stage | Opaque) -> _Step:
    """Returns what one stage writes and reads; a nest that isn't understood may access any element."""
    if isinstance(member, Opaque):
        return _Step(None, dict.fromkeys(variables(member.body), False))
    reads: dict[Any, bool] = {}
    for load in member.loads:
        here = not member.reduce and is_at_own_point(load, member)
        reads[load.source] = here and reads.get(load.source, True)
    return _Step(member.buffer, reads)


def _same_buffer_type(a: Any, b: Any) -> bool:
    """Returns whether both are buffers of one type; a parameter may also be a symbolic dim."""
    are_buffers = is_buffer_var(a) and is_buffer_var(b)
    return are_buffers and a.ty.dtype == b.ty.dtype and tvm_ffi.structural_equal(a.ty.shape, b.ty.shape)


def _is_local_to(steps: list[_Step], source: Any, output: Any) -> bool:
    """Returns whether every path from ``source`` to a stage keeps to one element, and none starts after ``output`` is written.

    A downstream stage that reads another element, or that follows the stage writing ``output``, could see new values
    once the stages in between are inlined into it.
    """
    downstream, written = {source}, False
    for step in steps:
        reads = [at_own_point for buffer, at_own_point in step.reads.items() if buffer in downstream]
        if reads and (written or not all(reads)):
            return False
        if step.written is not None and step.written.same_as(output):
            written = True
        elif reads:
            downstream.add(step.written)
    return True


def copies(body: Any) -> list[tuple[Any, Any]]:
    """Returns ``(output, source)`` of each loop that is annotated as an elementwise copy.

    The annotation says that each element is copied to the same place, which the loops alone don't show after
    scheduling.
    """
    pairs: list[tuple[Any, Any]] = []

    def visit(loop: tirx.For) -> None:
        if COPY in loop.annotations:
            stored: list[tirx.BufferStore] = []
            structural_walk(loop.body, (tirx.BufferStore, stored.append))
            pairs.extend((s.buffer, s.value.source) for s in stored if isinstance(s.value, TensorLoad))

    structural_walk(body, (tirx.For, visit))
    return pairs


def without_copies(body: Any, output: Any) -> Any:
    """Returns the statements without the loops that copy an operand into an output.

    Where operand and result share memory, the copy does nothing.
    """

    def left(loop: tirx.For) -> Any:
        is_copy = COPY in loop.annotations and any(out.same_as(output) for out, _ in copies(loop))
        return tirx.Evaluate(tirx.IntImm("int32", 0)) if is_copy else loop

    return structural_map(body, (tirx.For, left))


def is_at_own_point(load: Any, stage: Stage) -> bool:
    indices = load.indices[:]
    return len(indices) == len(stage.spatial) and all(
        axis.size == 1 or (isinstance(i, ir.Var) and i.same_as(axis.var)) for i, axis in zip(indices, stage.spatial)
    )


def donate(mod: tvm.IRModule, returns_all: bool = False) -> tvm.IRModule:
    """Applies the donations in ``main`` that are safe; its kernels write into allocated destinations by now.

    Donated values aren't returned any more, unless ``returns_all``: on a GPU, the kernels work on copies.
    """
    main = mod["main"]
    pairs = [(int(source), int(result)) for source, result in (main.attrs or {}).get(DONATE, [])]
    if not pairs:
        return mod
    main = _without_last_copies(mod, main)
    plan = _Plan(mod, main)
    chosen = dict(plan.chosen(pairs))
    donated = mod.clone()
    for kernel in plan.kernels_of(chosen):
        donated.update_func(kernel, mod[kernel].without_attr("tirx.noalias"))
    without_copy = {
        position: _add_without_copy(donated, plan, position, output)
        for position, output in plan.needless_copies(chosen)
    }
    rewritten = _rewritten(main, chosen, without_copy).without_attr(DONATE)
    donated["main"] = rewritten if returns_all else _without_outputs(rewritten, plan.settled(pairs, chosen))
    return donated


def _without_last_copies(mod: tvm.IRModule, main: relax.Function) -> relax.Function:
    """Removes copies of values that are read only by the copy: assignments that no kernel could be fused with."""
    plan = _Plan(mod, main)
    uses = Counter(v for binding in plan.bindings for v in variables(binding.value)) + Counter(
        variables(main.body.body)
    )
    last_copies = [
        (position, pair) for position in range(len(plan.bindings)) for pair in plan.last_copy(position, uses)
    ]
    removed, values = {position for position, _ in last_copies}, dict(pair for _, pair in last_copies)
    out = Bindings()
    for position, binding in enumerate(plan.bindings):
        if position not in removed and binding.var not in values:
            out.again(binding, _replaced(binding.value, values))
    return out.function(main, _replaced(main.body.body, values))


def _replaced(expr: Any, values: dict[Any, Any]) -> Any:
    return structural_map(expr, (ir.Var, lambda v: values.get(v, v)))


def _add_without_copy(mod: tvm.IRModule, plan: _Plan, position: int, output: int) -> ir.GlobalVar:
    """Adds a variant of a kernel that is called with one tensor as operand and result, without the copy between them.

    That copy was all it read of the operand, so the variant is ``noalias`` and LLVM can vectorize it.
    """
    name = plan.bindings[position].value.op
    kernel = mod[name]
    body = without_copies(kernel.body, kernel.params[output])
    variant = Bindings.typed(ir.GlobalVar(f"{name.name_hint}_in_place_{position}"), name.ty)
    mod[variant] = kernel.with_body(body).with_attr("tirx.noalias", True)
    return variant


class _Plan:
    """Alias analysis of ``main``'s straight-line code: when each value is written and last read, and what may fail."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function) -> None:
        self.mod = mod
        self.main = main
        self.bindings = [b for block in main.body.blocks for b in block.bindings[:]]
        self.values = {b.var: b.value for b in self.bindings}
        self.last_use: dict[Any, int] = {}
        self.writes: dict[Any, list[int]] = {}
        self.aliases: dict[Any, set[Any]] = {p: {p} for p in main.params}
        self.last_failure = -1
        for position, binding in enumerate(self.bindings):
            self._scan(position, binding)
        self._use(len(self.bindings), main.body.body)

    def _scan(self, position: int, binding: Any) -> None:
        """Records one binding's writes, uses and aliases, and whether it may fail.

        Whatever isn't a kernel (a loop, a branch, a tuple) may return its operands, so that its result may alias them.
        """
        value, is_kernel = binding.value, self._kernel(binding.value) is not None
        destinations = self._destinations(value)
        # A kernel without results is there for its effect: it may raise, as a guard's does.
        if (is_kernel and not destinations) or self._may_fail(value):
            self.last_failure = position
        self._use(position, value)
        if not is_kernel:
            used = [self.aliases.get(v, set()) for v in variables(value)]
            self.aliases[binding.var] = set().union(*used)
        for out in destinations:
            self.writes.setdefault(out, []).append(position)

    def _use(self, position: int, value: Any) -> None:
        """Records a use of a variable and of each parameter that it may alias, through loops and branches."""
        for var in variables(value):
            self.last_use[var] = position
            for param in self.aliases.get(var, ()):
                self.last_use[param] = position

    def _destinations(self, value: Any) -> list[Any]:
        """Returns the allocations that a kernel call is the first to use: these it writes."""
        if self._kernel(value) is None:
            return []
        return [a for a in value.args[:] if a not in self.writes and is_allocation(self.values.get(a))]

    def _kernel(self, value: Any) -> Any:
        if not isinstance(value, relax.Call) or not isinstance(value.op, ir.GlobalVar):
            return None
        func = self.mod[value.op]
        return func if isinstance(func, tirx.PrimFunc) else None

    def _may_fail(self, value: Any) -> bool:
        """Returns whether a binding may raise: branches and loops contain guards, and some kernels do."""
        if isinstance(value, relax.If):
            return True
        kernel = self._kernel(value)
        if kernel is not None:
            return MAY_FAIL in kernel.attrs
        return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and "impure_while" in value.op.name

    def root(self, var: Any) -> Any:
        """Follows a chain of aliases to its start."""
        while isinstance(self.values.get(var), relax.Var):
            var = self.values[var]
        return var

    def chosen(self, pairs: list[tuple[int, int]]) -> Iterator[tuple[Any, Any]]:
        """Yields the safe donations as ``(value, parameter)``; each value is donated once."""
        donated: set[Any] = set()
        for output, parameter in pairs:
            var, param = self.root(self._output(output)), self.main.params[parameter]
            if var not in donated and self.is_safe(var, param):
                donated.add(var)
                yield var, param

    def _output(self, index: int) -> Any:
        result = self.root(self.main.body.body)
        value = self.values.get(result)
        return value.fields[index] if isinstance(value, relax.Tuple) else result

    def is_safe(self, var: Any, param: Any) -> bool:
        """Returns whether a value may be computed in a parameter's memory."""
        if not is_allocation(self.values.get(var)) or not tvm_ffi.structural_equal(var.ty, param.ty):
            return False
        writes = self.writes.get(var, [])
        # The old value must not be read after the write, nor be lost if something fails after it.
        if len(writes) != 1 or self.last_use.get(param, -1) > writes[0] or writes[0] < self.last_failure:
            return False
        return self._reads_own_point(self.bindings[writes[0]].value, var, param)

    def _reads_own_point(self, call: Any, var: Any, param: Any) -> bool:
        safe = {tuple(map(int, pair)) for pair in self._kernel(call).attrs.get(SAFE, [])}
        places = [i for i, a in enumerate(call.args) if param in self.aliases.get(a, ())]
        out = next(i for i, a in enumerate(call.args) if a.same_as(var))
        return all((out, i) in safe for i in places)

    def settled(self, pairs: list[tuple[int, int]], chosen: dict[Any, Any]) -> set[int]:
        """Returns the outputs that end up in the memory of exactly one parameter, where the caller expects them."""
        outputs = [output for output, _ in pairs]
        in_place = {
            out for out, place in pairs if self.main.params[place].same_as(chosen.get(self.root(self._output(out))))
        }
        return {output for output in in_place if outputs.count(output) == 1}

    def kernels_of(self, chosen: dict[Any, Any]) -> set[Any]:
        return {self.bindings[self.writes[var][0]].value.op for var in chosen}

    def last_copy(self, position: int, uses: Counter[Any]) -> Iterator[tuple[Any, Any]]:
        """Yields the destination and the value if a call copies a value that nothing else reads."""
        call = self.bindings[position].value
        kernel = self._kernel(call)
        copied = int(kernel.attrs[COPIED]) if kernel is not None and COPIED in kernel.attrs else -1
        if copied < 0 or len(call.args) < 2:
            return
        source, out = call.args[copied], call.args[-1]
        root = self.values.get(source)
        is_alias = isinstance(root, relax.Var) and is_allocation(self.values.get(root)) and uses[root] == 2
        # What is copied has no other reader, so that its kernel can write to the destination at once.
        if is_alias and uses[source] == 1 and is_allocation(self.values.get(out)) and self.writes[out] == [position]:
            yield out, source

    def needless_copies(self, chosen: dict[Any, Any]) -> Iterator[tuple[int, int]]:
        """Yields calls whose kernel first copies a donated parameter into the result that now shares its memory.

        Each is the call's position and the result's position among its operands.
        """
        for var, param in chosen.items():
            (position,) = self.writes[var]
            call = self.bindings[position].value
            kernel = self._kernel(call)
            output = next(i for i, a in enumerate(call.args) if a.same_as(var))
            donated = [p for p, a in zip(kernel.params, call.args) if param in self.aliases.get(a, ())]
            if any(out.same_as(kernel.params[output]) and source in donated for out, source in copies(kernel.body)):
                yield position, output


def _rewritten(main: relax.Function, chosen: dict[Any, Any], kernels: dict[int, ir.GlobalVar]) -> relax.Function:
    """Removes the allocations of donated values and replaces their variables by the parameters."""

    def replace(expr: Any) -> Any:
        return structural_map(expr, (ir.Var, lambda v: chosen.get(v, v)))

    out = Bindings()
    for position, binding in enumerate(b for block in main.body.blocks for b in block.bindings):
        if binding.var not in chosen:
            value = replace(binding.value)
            out.again(binding, called(value, kernels[position]) if position in kernels else value)
    return out.function(main, replace(main.body.body))


def called(call: relax.Call, kernel: ir.GlobalVar) -> relax.Call:
    """Returns the call with another kernel on the same operands."""
    return relax.Call(kernel, call.args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)


def _without_outputs(main: relax.Function, settled: set[int]) -> relax.Function:
    """Removes outputs from ``main``'s tuple of results.

    The caller finds these results in the memory that it donated.
    """
    bindings = [b for block in main.body.blocks for b in block.bindings]
    last = bindings[-1] if bindings else None
    if not settled or last is None or not last.var.same_as(main.body.body) or not isinstance(last.value, relax.Tuple):
        return main
    returned = [i for i in range(len(last.value.fields)) if i not in settled]
    out = Bindings()
    out.bindings = bindings[:-1]
    result = out.emit(relax.Tuple([last.value.fields[i] for i in returned]), "outputs")
    body = out.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], result), result.ty)
    func = relax.Function(main.params, body, result.ty, main.is_pure, main.attrs, main.span)
    return func.with_attr(GIVEN, returned)
