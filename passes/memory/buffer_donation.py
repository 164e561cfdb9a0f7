"""Buffer donation: writes the new value of a Variable into the memory of the old one.

``main`` carries ``tvtf.donate`` = [(output, parameter), ...]. An output may take the parameter's memory if the kernel
that computes it reads the parameter only at the element that it writes, nothing reads the parameter later, and nothing
that can fail comes after the write. Otherwise the value has its own memory, and the caller swaps handles.
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
from tvtf.ir.dialect import bindings_of
from tvtf.ops.kernels.common import COPY
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.lower.loop_kernel import MAY_FAIL
from tvtf.passes.memory.memory_plan import ONLY_RESHAPES, is_allocation, variables
from tvtf.passes.schedule.cpu.kernel import INPLACE_PAIRS, Kernel, Opaque, Stage, loads, read_kernel

DONATE = "tvtf.donate"
RETURNED_OUTPUTS = "tvtf.given"
"""Attribute: the positions of the outputs that ``main`` still returns; donated ones needn't be."""
COPIED_PARAM = "tvtf.copied"
"""Attribute: the parameter that a kernel copies, if it does nothing else; -1 otherwise."""


def mark_inplace(mod: tvm.IRModule) -> tvm.IRModule:
    """Adds attributes to each kernel: which outputs may share an input's memory, and whether it is a copy or reshape.

    This pass runs before scheduling, since `read_kernel` understands only unscheduled kernels.
    """
    marked = mod.clone()
    for var, func in mod.functions.items():
        if not isinstance(func, tirx.PrimFunc):
            continue
        kernel = read_kernel(func)
        if kernel is not None:
            copied = copied_param(func, kernel)
            attrs = {
                INPLACE_PAIRS: inplace_pairs(func, kernel),
                ONLY_RESHAPES: _only_reshapes(func),
                COPIED_PARAM: -1 if copied is None else copied,
            }
            marked.update_func(var, func.with_attrs(attrs))
        elif copies(func.body):
            # `read_kernel` doesn't understand this kernel, but annotations of its loops show that it copies an operand.
            marked.update_func(var, func.with_attr(INPLACE_PAIRS, _copied_pairs(func)))
    return marked


def copied_param(func: tirx.PrimFunc, kernel: Kernel | None) -> int | None:
    """Returns the position of the parameter that a kernel copies to its result, or None if it does anything else.

    A copy is a single loop nest, which stores each loaded element at the same indices of a buffer of the same type. The
    copy isn't needed if the copied value can be computed directly in the result's memory.

    Args:
      func: the kernel's function.
      kernel: the stages (loop nests) that `read_kernel` found in the function, or None if it didn't understand them.
    """
    if kernel is None or len(kernel.stages) != 1:
        return None
    (stage,) = kernel.stages
    if not isinstance(stage, Stage) or stage.reduce or not isinstance(stage.value, TensorLoad):
        return None
    source = stage.value.source
    if not is_elementwise_load(stage.value, stage) or not _same_buffer_type(source, stage.buffer):
        return None
    for position, param in enumerate(func.params):
        if param.same_as(source):
            return position
    return None


def _copied_pairs(func: tirx.PrimFunc) -> list[list[int]]:
    """Returns the positions ``[output, input]`` of parameters that may share memory, since one is copied to the other.

    The kernel must first copy the input to the output, and not read the input afterwards.
    """
    position = {param: i for i, param in enumerate(func.params)}
    pairs: list[list[int]] = []
    for out, source in copies(func.body):
        if out not in position or source not in position or not _same_buffer_type(source, out):
            continue
        later_loads = loads(without_copies(func.body, out))
        if not any(load.source.same_as(source) for load in later_loads):
            pairs.append([position[out], position[source]])
    return pairs


def _only_reshapes(func: tirx.PrimFunc) -> bool:
    """Returns whether a kernel's result has the elements of its operand in the same order."""
    return len(func.params) == 2 and relax.analysis.has_reshape_pattern(func)


def inplace_pairs(func: tirx.PrimFunc, kernel: Kernel) -> list[list[int]]:
    """Returns the ``[output, input]`` positions of a kernel's parameters that may share memory.

    The kernel must read the input only at the element that it writes next: each element is read before it is
    overwritten.
    """
    results = {stage.buffer for stage in kernel.stages if isinstance(stage, Stage)}
    outputs = {i for i, param in enumerate(func.params) if param in results}
    if not outputs:
        return []
    accesses = [_access_of(stage) for stage in kernel.stages]
    pairs: list[list[int]] = []
    for output in outputs:
        output_param = func.params[output]
        for i, param in enumerate(func.params):
            has_same_type = i not in outputs and _same_buffer_type(param, output_param)
            if has_same_type and _is_local_to(accesses, param, output_param):
                pairs.append([output, i])
    return pairs


class _StageAccess(NamedTuple):
    """What a stage writes (None: unknown), and for each buffer that it reads, whether only at the element it writes."""

    written: Any
    reads: dict[Any, bool]


def _access_of(stage: Stage | Opaque) -> _StageAccess:
    """Returns which buffer a stage of a kernel writes, and which buffers it reads.

    For each buffer that is read, the result says whether the stage reads only the element that it writes. An opaque
    stage (a loop nest that isn't understood) may read any element, and write any buffer.
    """
    if isinstance(stage, Opaque):
        return _StageAccess(None, dict.fromkeys(variables(stage.body), False))
    reads_only_written_element: dict[Any, bool] = {}
    for load in stage.loads:
        # A reduction reads more elements than it writes.
        is_written_element = not stage.reduce and is_elementwise_load(load, stage)
        previous = reads_only_written_element.get(load.source, True)
        reads_only_written_element[load.source] = is_written_element and previous
    return _StageAccess(stage.buffer, reads_only_written_element)


def _same_buffer_type(a: Any, b: Any) -> bool:
    """Returns whether both are buffers of one type; a parameter may also be a symbolic dim."""
    are_buffers = is_buffer_var(a) and is_buffer_var(b)
    return are_buffers and a.ty.dtype == b.ty.dtype and tvm_ffi.structural_equal(a.ty.shape, b.ty.shape)


def _is_local_to(stages: list[_StageAccess], source: Any, output: Any) -> bool:
    """Returns whether a kernel reads ``source`` only at the element of ``output`` that it writes.

    Buffers computed from ``source`` count as ``source``, since their stages may be inlined into later ones. No stage
    after the one that writes ``output`` may read them: it could see new values.

    Args:
      stages: the accesses of each stage of the kernel, in order.
      source: the buffer of the input.
      output: the buffer of the output.
    """
    computed_from_source = {source}
    output_is_written = False
    for stage in stages:
        reads = [is_local for buffer, is_local in stage.reads.items() if buffer in computed_from_source]
        if reads and (output_is_written or not all(reads)):
            return False
        writes_output = stage.written is not None and stage.written.same_as(output)
        if writes_output:
            output_is_written = True
        elif reads:
            computed_from_source.add(stage.written)
    return True


def copies(body: Any) -> list[tuple[Any, Any]]:
    """Returns the buffers ``(output, source)`` of each loop nest that is annotated as an elementwise copy.

    The annotation is needed: after scheduling, the loops' indices no longer show that a loop nest is such a copy.
    """
    pairs: list[tuple[Any, Any]] = []

    def add_pair(store: tirx.BufferStore) -> None:
        """Adds the buffers of a store, if the stored value is a loaded element."""
        if isinstance(store.value, TensorLoad):
            pairs.append((store.buffer, store.value.source))

    def add_pairs_of_copy(loop: tirx.For) -> None:
        """Adds the buffers of the stores in a loop, if the loop is annotated as a copy."""
        if COPY in loop.annotations:
            structural_walk(loop.body, (tirx.BufferStore, add_pair))

    structural_walk(body, (tirx.For, add_pairs_of_copy))
    return pairs


def without_copies(body: Any, output: Any) -> Any:
    """Returns a kernel's body without the loops that copy an operand into ``output``.

    Such a copy does nothing if the operand and the output share memory.
    """

    def without_copy(loop: tirx.For) -> Any:
        """Replaces a loop that is such a copy by an empty statement."""
        is_copy = COPY in loop.annotations and any(out.same_as(output) for out, _ in copies(loop))
        return tirx.Evaluate(tirx.IntImm("int32", 0)) if is_copy else loop

    return structural_map(body, (tirx.For, without_copy))


def is_elementwise_load(load: Any, stage: Stage) -> bool:
    """Returns whether a load has the same indices as the element that its stage writes."""
    indices = load.indices[:]
    return len(indices) == len(stage.spatial) and all(
        axis.size == 1 or (isinstance(i, ir.Var) and i.same_as(axis.var)) for i, axis in zip(indices, stage.spatial)
    )


def donate(mod: tvm.IRModule, returns_all: bool = False) -> tvm.IRModule:
    """Applies buffer donation: computes outputs of ``main`` in the memory of donated parameters where that is safe.

    Args:
      mod: a module whose kernels write into allocated destinations.
      returns_all: whether ``main`` still returns outputs in donated memory, as on a GPU, where kernels work on copies.
    """
    main = mod["main"]
    pairs = [(int(result), int(parameter)) for result, parameter in (main.attrs or {}).get(DONATE, [])]
    if not pairs:
        return mod
    main = _without_last_copies(mod, main)
    analysis = _AliasAnalysis(mod, main)
    donations = dict(analysis.safe_donations(pairs))
    donated = mod.clone()
    for kernel in analysis.kernels_writing(donations):
        # An operand of the kernel is now its result, too.
        donated.update_func(kernel, mod[kernel].without_attr("tirx.noalias"))
    variants: dict[int, ir.GlobalVar] = {}
    for position, result in analysis.redundant_copies(donations):
        variants[position] = _add_without_copy(donated, analysis, position, result)
    new_main = _rewritten(main, donations, variants).without_attr(DONATE)
    if not returns_all:
        new_main = _without_outputs(new_main, analysis.outputs_in_place(pairs, donations))
    donated["main"] = new_main
    return donated


def _without_last_copies(mod: tvm.IRModule, main: relax.Function) -> relax.Function:
    """Removes copies of values that only the copy reads: the value is computed in the copy's memory instead.

    Such copies come from assignments that weren't fused with another kernel.
    """
    analysis = _AliasAnalysis(mod, main)
    values = [binding.value for binding in analysis.bindings]
    uses = Counter(var for value in (*values, main.body.body) for var in variables(value))
    copy_positions: set[int] = set()
    source_of_destination: dict[Any, Any] = {}
    for position in range(len(analysis.bindings)):
        for destination, source in analysis.last_copy(position, uses):
            copy_positions.add(position)
            source_of_destination[destination] = source
    out = Bindings()
    for position, binding in enumerate(analysis.bindings):
        if position not in copy_positions and binding.var not in source_of_destination:
            out.rebind(binding, _replaced(binding.value, source_of_destination))
    return out.function(main, _replaced(main.body.body, source_of_destination))


def _replaced(expr: Any, replacements: dict[Any, Any]) -> Any:
    return structural_map(expr, (ir.Var, lambda var: replacements.get(var, var)))


def _add_without_copy(mod: tvm.IRModule, analysis: _AliasAnalysis, position: int, output: int) -> ir.GlobalVar:
    """Adds a variant of a kernel that doesn't copy an operand to its output, since the two share memory.

    The copy was the only read of the operand. Without it, no two parameters overlap: the variant is ``noalias``, and
    LLVM can vectorize it.

    Args:
      position: the position of the kernel's call among the bindings.
      output: the position of the output among the kernel's parameters.
    """
    name = analysis.bindings[position].value.op
    kernel = mod[name]
    body = without_copies(kernel.body, kernel.params[output])
    variant = Bindings.typed(ir.GlobalVar(f"{name.name_hint}_in_place_{position}"), name.ty)
    mod[variant] = kernel.with_body(body).with_attr("tirx.noalias", True)
    return variant


class _AliasAnalysis:
    """Alias analysis of ``main``'s straight-line code: when each value is written and last read, and what may fail."""

    def __init__(self, mod: tvm.IRModule, main: relax.Function) -> None:
        """Analyzes which bindings of ``main`` write each variable, use it last, and fail.

        Bindings are given by their positions.
        """
        self.mod = mod
        self.main = main
        self.bindings = bindings_of(main.body)
        self.values = {binding.var: binding.value for binding in self.bindings}
        self.last_use: dict[Any, int] = {}
        self.writes: dict[Any, list[int]] = {}
        # The parameters whose memory each variable may share.
        self.aliases: dict[Any, set[Any]] = {param: {param} for param in main.params}
        # The last binding that may raise an error, or -1.
        self.last_failure = -1
        for position, binding in enumerate(self.bindings):
            self._record(position, binding)
        self._record_use(len(self.bindings), main.body.body)

    def _record(self, position: int, binding: Any) -> None:
        """Records which variables a binding writes, uses and aliases, and whether the binding may fail.

        A loop, a branch or a tuple may return its operands, so the result may alias them. A kernel's result doesn't.
        """
        value = binding.value
        is_kernel = self._called_kernel(binding.value) is not None
        destinations = self._destinations(value)
        # A kernel without results is called for its effect: it may raise an error, as a guard does.
        if (is_kernel and not destinations) or self._may_fail(value):
            self.last_failure = position
        self._record_use(position, value)
        if not is_kernel:
            aliases_of_operands = [self.aliases.get(variable, set()) for variable in variables(value)]
            self.aliases[binding.var] = set().union(*aliases_of_operands)
        for destination in destinations:
            self.writes.setdefault(destination, []).append(position)

    def _record_use(self, position: int, value: Any) -> None:
        """Records a use, at a binding's position, of the variables in a value and of the parameters they may alias."""
        for var in variables(value):
            self.last_use[var] = position
            for param in self.aliases.get(var, ()):
                self.last_use[param] = position

    def _destinations(self, value: Any) -> list[Any]:
        """Returns the allocations that a kernel call writes: those that no earlier call has written."""
        if self._called_kernel(value) is None:
            return []
        return [arg for arg in value.args[:] if arg not in self.writes and is_allocation(self.values.get(arg))]

    def _called_kernel(self, value: Any) -> Any:
        """Returns the kernel that a value calls, or None."""
        if not isinstance(value, relax.Call) or not isinstance(value.op, ir.GlobalVar):
            return None
        func = self.mod[value.op]
        return func if isinstance(func, tirx.PrimFunc) else None

    def _may_fail(self, value: Any) -> bool:
        """Returns whether a binding may raise: branches and loops contain guards, and some kernels do."""
        if isinstance(value, relax.If):
            return True
        kernel = self._called_kernel(value)
        if kernel is not None:
            return MAY_FAIL in kernel.attrs
        return isinstance(value, relax.Call) and isinstance(value.op, ir.Op) and "impure_while" in value.op.name

    def resolve_alias(self, var: Any) -> Any:
        """Follows bindings such as ``y = x`` back to the variable that isn't bound to another variable."""
        while isinstance(self.values.get(var), relax.Var):
            var = self.values[var]
        return var

    def safe_donations(self, pairs: list[tuple[int, int]]) -> Iterator[tuple[Any, Any]]:
        """Yields each value that can be computed in the memory of a donated parameter, with the parameter.

        Args:
          pairs: the positions of an output and of the parameter that is donated for it.
        """
        donated: set[Any] = set()
        for output, parameter in pairs:
            var = self.resolve_alias(self._output(output))
            param = self.main.params[parameter]
            # A value that is several outputs takes the memory of one parameter only.
            if var not in donated and self.is_safe(var, param):
                donated.add(var)
                yield var, param

    def _output(self, index: int) -> Any:
        """Returns the variable of an output of ``main``, by its index in the tuple of results."""
        result = self.resolve_alias(self.main.body.body)
        value = self.values.get(result)
        return value.fields[index] if isinstance(value, relax.Tuple) else result

    def is_safe(self, var: Any, param: Any) -> bool:
        """Returns whether the value ``var`` may be computed in the memory of the parameter ``param``.

        Both must have the same type. The kernel that computes the value may read the parameter only at the element that
        it writes.
        """
        if not is_allocation(self.values.get(var)) or not tvm_ffi.structural_equal(var.ty, param.ty):
            return False
        writes = self.writes.get(var, [])
        if len(writes) != 1:
            return False
        (position,) = writes
        # The old value must not be read after the write, nor be lost if something fails after it.
        is_read_later = self.last_use.get(param, -1) > position
        if is_read_later or position < self.last_failure:
            return False
        return self._reads_only_written_element(self.bindings[position].value, var, param)

    def _reads_only_written_element(self, call: Any, var: Any, param: Any) -> bool:
        """Returns whether a kernel call reads a parameter only at the element of its result that it writes."""
        safe = {tuple(map(int, pair)) for pair in self._called_kernel(call).attrs.get(INPLACE_PAIRS, [])}
        inputs = [i for i, arg in enumerate(call.args) if param in self.aliases.get(arg, ())]
        output = next(i for i, arg in enumerate(call.args) if arg.same_as(var))
        return all((output, i) in safe for i in inputs)

    def outputs_in_place(self, pairs: list[tuple[int, int]], donations: dict[Any, Any]) -> set[int]:
        """Returns the positions of the outputs that are computed in the memory of their donated parameter.

        An output that appears in several pairs is left out: it can't be in the memory of several parameters.

        Args:
          pairs: the positions of an output and of the parameter that is donated for the output.
          donations: the parameter whose memory each value takes.
        """
        pair_counts = Counter(output for output, _parameter in pairs)
        in_place: set[int] = set()
        for output, parameter in pairs:
            value = self.resolve_alias(self._output(output))
            takes_memory = self.main.params[parameter].same_as(donations.get(value))
            if takes_memory and pair_counts[output] == 1:
                in_place.add(output)
        return in_place

    def kernels_writing(self, donated: dict[Any, Any]) -> set[Any]:
        """Returns the names of the kernels that write donated values."""
        return {self.bindings[self.writes[var][0]].value.op for var in donated}

    def last_copy(self, position: int, uses: Counter[Any]) -> Iterator[tuple[Any, Any]]:
        """Yields the destination and the source if a binding is a kernel call that only copies its source.

        Nothing else may read the source. The kernel that computes it can then write to the destination directly.

        Args:
          position: the position of the binding.
          uses: how often each variable is used.
        """
        call = self.bindings[position].value
        kernel = self._called_kernel(call)
        has_mark = kernel is not None and COPIED_PARAM in kernel.attrs
        copied = int(kernel.attrs[COPIED_PARAM]) if has_mark else -1  # -1: the kernel isn't a copy
        if copied < 0 or len(call.args) < 2:
            return
        source, destination = call.args[copied], call.args[-1]
        allocation = self.values.get(source)
        is_alias = isinstance(allocation, relax.Var) and is_allocation(self.values.get(allocation))
        # An allocation is used twice: by the kernel that writes it, and by its alias, the source.
        if not is_alias or uses[allocation] != 2 or uses[source] != 1:
            return
        if is_allocation(self.values.get(destination)) and self.writes[destination] == [position]:
            yield destination, source

    def redundant_copies(self, donations: dict[Any, Any]) -> Iterator[tuple[int, int]]:
        """Finds kernel calls that copy a donated parameter to a result which is computed in the parameter's memory.

        Such a copy does nothing. Yields the position of the call among the bindings, and the position of the result
        among the call's arguments (kernels are passed their results as arguments).

        Args:
          donations: the parameter whose memory each value takes.
        """
        for var, donated_param in donations.items():
            (position,) = self.writes[var]  # `is_safe` donates memory only to values that are written once
            call = self.bindings[position].value
            kernel = self._called_kernel(call)
            output = next(i for i, argument in enumerate(call.args) if argument.same_as(var))
            output_param = kernel.params[output]
            params_in_donated_memory = [
                kernel_param
                for kernel_param, argument in zip(kernel.params, call.args)
                if donated_param in self.aliases.get(argument, ())
            ]
            copied_to_output = [source for out, source in copies(kernel.body) if out.same_as(output_param)]
            if any(source in params_in_donated_memory for source in copied_to_output):
                yield position, output


def _rewritten(main: relax.Function, donations: dict[Any, Any], variants: dict[int, ir.GlobalVar]) -> relax.Function:
    """Returns ``main`` with the donated values computed in the memory of parameters.

    A training step then updates its Variables in place, and needs no second copy of them.

    Args:
      main: the function.
      donations: the parameter whose memory each donated value takes. The value's allocation is dropped.
      variants: the kernel to call instead of the present one, by the position of the call.
    """

    def in_donated_memory(expr: Any) -> Any:
        """Replaces donated values in an expression by the parameters whose memory they take."""
        return structural_map(expr, (ir.Var, lambda var: donations.get(var, var)))

    out = Bindings()
    for position, binding in enumerate(bindings_of(main.body)):
        if binding.var in donations:
            continue
        value = in_donated_memory(binding.value)
        if position in variants:
            value = with_kernel(value, variants[position])
        out.rebind(binding, value)
    return out.function(main, in_donated_memory(main.body.body))


def with_kernel(call: relax.Call, kernel: ir.GlobalVar) -> relax.Call:
    """Returns a call of another kernel on the same operands."""
    return relax.Call(kernel, call.args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)


def _without_outputs(main: relax.Function, in_place: set[int]) -> relax.Function:
    """Removes the outputs at some positions from the tuple that ``main`` returns.

    The caller finds these outputs in the memory that it donated. The positions of the other outputs are recorded in an
    attribute.
    """
    bindings = bindings_of(main.body)
    if not in_place or not bindings:
        return main
    *other_bindings, last = bindings
    if not last.var.same_as(main.body.body) or not isinstance(last.value, relax.Tuple):
        return main
    outputs = last.value.fields
    returned = [position for position in range(len(outputs)) if position not in in_place]
    out = Bindings()
    out.bindings = other_bindings
    result = out.emit(relax.Tuple([outputs[position] for position in returned]), "outputs")
    body = out.typed(relax.SeqExpr([relax.BindingBlock(out.bindings)], result), result.ty)
    func = relax.Function(main.params, body, result.ty, main.is_pure, main.attrs, main.span)
    return func.with_attr(RETURNED_OUTPUTS, returned)
