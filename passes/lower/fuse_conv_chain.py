"""Fuses the convolutions around a depthwise one into one kernel if the tensor between them exceeds a core's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.target import Target

from tvtf.core.tvm_visitor import structural_walk
from tvtf.ir.dialect import bindings_of
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.memory.hoist_constants import is_kernel_call
from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.conv_bands import bands_of, is_convolution
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import operands_of

SHARE_OF_LEVEL2 = 0.2
"""Share of a core's level-2 cache above which an intermediate counts as too large: the next kernel distributes its work
over cores again, so only a part of what a core wrote is still in its own cache."""
Chain = Sequence[Any]
"""Bindings in order; each but the last is read only by the next."""


def chain_kernels(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Fuses each chain of convolutions in ``main`` into one kernel, if this is profitable on the target.

    The kernels aren't scheduled yet.
    """
    cpu = CpuTarget.of(target)
    calls_of_main = _KernelCalls(mod)
    builder = relax.BlockBuilder(mod)
    functions: dict[Any, ir.GlobalVar | None] = {}
    replacements: dict[Any, list[Any]] = {}
    for chain in calls_of_main.chains(cpu):
        # Longer chains come first, and each kernel is part of at most one.
        if any(binding.var in replacements for binding in chain):
            continue
        function = _shared_function(mod, builder, chain, functions, cpu)
        if function is not None:
            replacements.update(_replacements(chain, function))
    return _rewritten(builder, mod["main"], replacements) if replacements else mod


class _KernelCalls:
    """The kernel calls of ``main`` and the readers of each variable."""

    def __init__(self, mod: tvm.IRModule) -> None:
        """Records the kernel calls in ``main``, and the bindings that read each variable."""
        self.mod, main = mod, mod["main"]
        self.bindings = bindings_of(main.body)
        self.kernel_calls = {binding.var: binding for binding in self.bindings if is_kernel_call(binding.value)}
        self.readers: dict[Any, list[Any]] = {}
        for binding in self.bindings:
            self._read(binding.value, binding)
        self._read(main.body.body, None)

    def _read(self, value: Any, reader: Any) -> None:
        """Records a binding, or None for the function's result, as a reader of the variables in a value."""
        names: set[Any] = set()
        structural_walk(value, (ir.Var, names.add))
        for var in names:
            self.readers.setdefault(var, []).append(reader)

    def only_reader(self, binding: Any) -> Any:
        """Returns the kernel call that is the only reader of a binding's result, or None."""
        readers = self.readers.get(binding.var, [])
        return self.kernel_calls.get(readers[0].var) if len(readers) == 1 and readers[0] is not None else None

    def chains(self, target: CpuTarget) -> Iterator[Chain]:
        """Yields chains of convolutions that may be fused: a depthwise convolution with its neighbors, longest first.

        A chain has at most one convolution before the depthwise one, and one after it. A tensor between two of the
        convolutions must exceed the cache; otherwise fusing saves no memory traffic.
        """
        min_bytes = SHARE_OF_LEVEL2 * target.level2_bytes
        for depthwise in self.kernel_calls.values():
            if not self._has_one_contraction(depthwise, _is_depthwise):
                continue
            reader = self.only_reader(depthwise)
            after = [reader] if reader is not None and self._has_one_contraction(reader, is_convolution) else []
            before = self._convolutions_before(depthwise)[:1]
            for chain in ([*before, depthwise, *after], [depthwise, *after], [*before, depthwise]):
                intermediate_results = [call.var for call in chain[:-1]]
                if any(_bytes_of(var) > min_bytes for var in intermediate_results):
                    yield chain

    def _convolutions_before(self, binding: Any) -> list[Any]:
        """Returns the kernel calls of convolutions whose results only the call in ``binding`` reads."""
        producers = [self.kernel_calls[x] for x in _operands(binding) if x in self.kernel_calls]
        return [
            producer
            for producer in producers
            if self.only_reader(producer) is binding and self._has_one_contraction(producer, is_convolution)
        ]

    def _has_one_contraction(self, binding: Any, test: Any) -> bool:
        """Returns whether a kernel has exactly one contraction, and the contraction passes ``test``.

        All other stages (loop nests) of the kernel must be elementwise.
        """
        kernel = read_kernel(self.mod[binding.value.args[0]])
        stages = [] if kernel is None else kernel.stages
        not_elementwise = [stage for stage in stages if not isinstance(stage, Stage) or stage.reduce]
        if len(not_elementwise) != 1:
            return False
        (contraction,) = not_elementwise
        return isinstance(contraction, Stage) and test(contraction)


def _is_depthwise(stage: Stage) -> bool:
    """Returns whether a stage is a depthwise convolution: each result sums over a window of its own channel only."""
    if not is_convolution(stage) or len(stage.spatial) != 4:
        return False
    channel = stage.spatial[3]  # the layout is NHWC
    return channel.size != 1 and all(access.load_stride(term, channel.var) == 1 for term in operands_of(stage))


def _operands(binding: Any) -> list[Any]:
    return list(binding.value.args[1].fields)


def _bytes_of(x: Any) -> int:
    """Returns the bytes of a tensor, 0 if its size isn't static."""
    dims = x.ty.shape.values
    is_known = all(isinstance(dim, tirx.IntImm) for dim in dims)
    return prod(map(int, dims)) * x.ty.dtype.dtype.itemsize if is_known else 0


def _shared_function(
    mod: tvm.IRModule, builder: relax.BlockBuilder, chain: Chain, known: dict[Any, Any], target: CpuTarget
) -> ir.GlobalVar | None:
    """Returns the function that computes a chain of convolutions, or None if fusing the chain isn't profitable.

    Chains of the same kernels share a function.

    Args:
      mod: the module with the kernels.
      builder: adds the function to the module.
      chain: the bindings of the kernel calls.
      known: the functions already made, by the kernels and operands of a chain.
      target: the CPU.
    """
    operands = _outside_operands(chain)
    results = [binding.var for binding in chain]
    kernel_names = [binding.value.args[0].name_hint for binding in chain]
    # For each kernel, the indices of its operands among the chain's operands and earlier results.
    connections = [tuple(_operand_index(x, operands, results) for x in _operands(binding)) for binding in chain]
    key = tuple(zip(kernel_names, connections, strict=True))
    if key not in known:
        function = _chain_function(chain, operands)
        kernel = read_kernel(_fused_kernel(mod, function, chain))
        # Fusing saves memory traffic only if blocks of rows ("bands") can pass through the whole chain.
        is_profitable = kernel is not None and bands_of(inline_stages(kernel), kernel, target) is not None
        known[key] = builder.add_func(function, f"{kernel_names[0]}_chain") if is_profitable else None
    return known[key]


def _outside_operands(chain: Chain) -> list[Any]:
    """Returns the operands of a chain's calls that aren't results of the chain, each once."""
    results = {binding.var for binding in chain}
    return list(dict.fromkeys(x for binding in chain for x in _operands(binding) if x not in results))


def _operand_index(x: Any, operands: list[Any], results: list[Any]) -> int:
    """Returns the index of an operand from outside the chain, or a negative number for a result of the chain itself."""
    return operands.index(x) if x in operands else -1 - results.index(x)


def _chain_function(chain: Chain, operands: list[Any]) -> relax.Function:
    """Builds the Relax function that computes a chain of kernel calls.

    The attribute ``Primitive``, by which FuseOps marks its groups, makes FuseTIR turn the function into one kernel.
    FuseOps itself never fuses two convolutions.
    """
    params = [relax.Var(f"operand_{i}", operand.ty) for i, operand in enumerate(operands)]
    new_vars: dict[Any, Any] = dict(zip(operands, params, strict=True))
    bindings = []
    for binding in chain:
        call = binding.value
        var_class = relax.Var if binding is chain[-1] else relax.DataflowVar
        tensors = relax.Tuple([new_vars[operand] for operand in _operands(binding)])
        new_call = relax.Call(call.op, [call.args[0], tensors], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)
        new_vars[binding.var] = var_class(binding.var.name, binding.var.ty)
        bindings.append(relax.VarBinding(new_vars[binding.var], new_call))
    result = new_vars[chain[-1].var]
    body = Bindings.typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
    return relax.Function(params, body, result.ty, attrs=ir.make_node("ir.DictAttrs", Primitive=True))


def _fused_kernel(mod: tvm.IRModule, function: relax.Function, chain: Chain) -> tirx.PrimFunc:
    """Runs FuseTIR on the function that computes a chain of kernel calls, and returns the fused kernel.

    The program's module isn't changed, since fusing may turn out not to be profitable. The pass runs on a new module
    with the function, its kernels, and a ``main`` that calls the function.
    """
    kernels = [binding.value.args[0] for binding in chain]
    builder = relax.BlockBuilder(tvm.IRModule({kernel: mod[kernel] for kernel in kernels}))
    name = builder.add_func(function, "chain")
    params = [relax.Var(param.name, param.ty) for param in function.params]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(relax.Call(name, params, ret_ty=function.ret_ty)))
    fused = relax.transform.FuseTIR()(builder.get())
    return next(func for name, func in fused.functions_items() if name.name_hint.startswith("chain"))


def _replacements(chain: Chain, function: ir.GlobalVar) -> dict[Any, list[Any]]:
    """Returns the list of bindings that replaces each binding of a chain, by the binding's variable.

    The last binding becomes a call of the function that computes the chain; the others are dropped. The kernel that
    computes the chain stores only the last result.
    """
    *dropped, last = chain
    call = relax.Call(function, _outside_operands(chain), span=last.value.span, ret_ty=last.var.ty)
    replacements: dict[Any, list[Any]] = {binding.var: [] for binding in dropped}
    replacements[last.var] = [relax.VarBinding(last.var, call)]
    return replacements


def _rewritten(builder: relax.BlockBuilder, main: relax.Function, replacements: dict[Any, list[Any]]) -> tvm.IRModule:
    """Returns the module in which each fused chain is a call of one kernel.

    Args:
      builder: has the module, and a function for each chain, which FuseTIR turns into a kernel.
      main: the function ``main`` of the module.
      replacements: the new bindings for each binding of a chain.
    """
    blocks: list[Any] = []
    for block in main.body.blocks:
        bindings: list[Any] = []
        for binding in block.bindings:
            bindings += replacements.get(binding.var, [binding])
        blocks.append(type(block)(bindings))
    result = main.body.body
    body = Bindings.typed(relax.SeqExpr(blocks, result), result.ty)
    mod = builder.get()
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs, main.span)
    mod.update_func(mod.get_global_var("main"), function)
    return relax.transform.FuseTIR()(mod)
