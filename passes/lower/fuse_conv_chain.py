"""Fuses the convolutions around a depthwise one into one kernel if the tensor between them exceeds a core's cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import tvm
from tvm import ir, relax, tirx
from tvm.target import Target

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.memory.hoist_constants import is_kernel_call
from tvtf.passes.schedule.cpu import access
from tvtf.passes.schedule.cpu.conv_bands import bands_of, is_convolution
from tvtf.passes.schedule.cpu.inline import inlined
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.vector_axis import terms_of

SHARE_OF_LEVEL2 = 0.2
"""Share of a core's level-2 cache above which an intermediate counts as too large: the next kernel distributes its work
over cores again, so only a part of what a core wrote is still in its own cache."""
Chain = Sequence[Any]
"""Bindings in order; each but the last is read only by the next."""


def chain_kernels(mod: tvm.IRModule, target: Target) -> tvm.IRModule:
    """Fuses every chain in ``main``; kernels aren't scheduled yet."""
    facts, line = CpuTarget.of(target), _Line(mod)
    builder = relax.BlockBuilder(mod)
    known: dict[Any, ir.GlobalVar | None] = {}
    calls: dict[Any, list[Any]] = {}
    for chain in line.chains(facts):
        # Longer chains come first; each kernel is part of one.
        if not any(binding.var in calls for binding in chain):
            name = _function_of(mod, builder, chain, known, facts)
            calls.update({} if name is None else _calls(chain, name))
    return _rewritten(builder, mod["main"], calls) if calls else mod


class _Line:
    """The kernel calls of ``main`` and the readers of each variable."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod, main = mod, mod["main"]
        self.bindings = [binding for block in main.body.blocks for binding in block.bindings]
        self.kernel_calls = {binding.var: binding for binding in self.bindings if is_kernel_call(binding.value)}
        self.readers: dict[Any, list[Any]] = {}
        for binding in self.bindings:
            self._read(binding.value, binding)
        self._read(main.body.body, None)

    def _read(self, value: Any, reader: Any) -> None:
        names: set[Any] = set()
        structural_walk(value, (ir.Var, names.add))
        for var in names:
            self.readers.setdefault(var, []).append(reader)

    def only_reader(self, binding: Any) -> Any:
        """Returns the kernel call that is the only reader of a result, or None."""
        readers = self.readers.get(binding.var, [])
        return self.kernel_calls.get(readers[0].var) if len(readers) == 1 and readers[0] is not None else None

    def chains(self, target: CpuTarget) -> Iterator[Chain]:
        """Yields candidate chains for each depthwise convolution, the longest first.

        Without a tensor that exceeds the cache, separate kernels lose nothing.
        """
        for binding in self.kernel_calls.values():
            if not self._is(binding, _is_depthwise):
                continue
            reader = self.only_reader(binding)
            after = [reader] if reader is not None and self._is(reader, is_convolution) else []
            before = [
                b for x in _operands(binding) if (b := self.kernel_calls.get(x)) and self.only_reader(b) is binding
            ]
            before = [b for b in before if self._is(b, is_convolution)][:1]
            for chain in ([*before, binding, *after], [binding, *after], [*before, binding]):
                if len(chain) > 1 and any(_bytes_of(b.var) > SHARE_OF_LEVEL2 * target.level2_bytes for b in chain[:-1]):
                    yield chain

    def _is(self, binding: Any, test: Any) -> bool:
        """Returns whether a kernel has one contraction, which passes a test, and elementwise stages otherwise."""
        kernel = read_kernel(self.mod[binding.value.args[0]])
        stages = [] if kernel is None else kernel.stages
        sums = [stage for stage in stages if not isinstance(stage, Stage) or stage.reduce]
        return len(sums) == 1 and isinstance(sums[0], Stage) and test(sums[0])


def _is_depthwise(stage: Stage) -> bool:
    """Returns whether each result sums over a window of its own channel only."""
    if not is_convolution(stage) or len(stage.spatial) != 4:
        return False
    channel = stage.spatial[3]
    return channel.size != 1 and all(access.load_stride(term, channel.var) == 1 for term in terms_of(stage))


def _operands(binding: Any) -> list[Any]:
    return list(binding.value.args[1].fields)


def _bytes_of(x: Any) -> int:
    dims = x.ty.shape.values
    is_known = all(isinstance(dim, tirx.IntImm) for dim in dims)
    return prod(map(int, dims)) * x.ty.dtype.dtype.itemsize if is_known else 0


def _function_of(
    mod: tvm.IRModule, builder: relax.BlockBuilder, chain: Chain, known: dict[Any, Any], target: CpuTarget
) -> ir.GlobalVar | None:
    """Returns the function of a chain, shared by chains of the same kernels; None where bands of rows don't pay."""
    operands = _outer(chain)
    inner = [binding.var for binding in chain]
    places = [[_place(x, operands, inner) for x in _operands(binding)] for binding in chain]
    # Chains of the same kernels on operands in the same places are one function.
    key = tuple((b.value.args[0].name_hint, tuple(at)) for b, at in zip(chain, places, strict=True))
    if key not in known:
        function = _merged(chain, operands)
        kernel = read_kernel(_kernel_of(mod, function, chain))
        pays = kernel is not None and bands_of(inlined(kernel), kernel, target) is not None
        known[key] = builder.add_func(function, f"{key[0][0]}_chain") if pays else None
    return known[key]


def _outer(chain: Chain) -> list[Any]:
    """Returns the operands of a chain that come from outside."""
    inner = {binding.var for binding in chain}
    return list(dict.fromkeys(x for binding in chain for x in _operands(binding) if x not in inner))


def _place(x: Any, operands: list[Any], inner: list[Any]) -> int:
    return operands.index(x) if x in operands else -1 - inner.index(x)


def _merged(chain: Chain, operands: list[Any]) -> relax.Function:
    """Builds the function of a chain, marked as FuseOps marks its groups so that FuseTIR makes it one kernel."""
    params = [relax.Var(f"operand_{i}", x.ty) for i, x in enumerate(operands)]
    at: dict[Any, Any] = dict(zip(operands, params, strict=True))
    bindings = []
    for binding in chain:
        call, kind = binding.value, relax.Var if binding is chain[-1] else relax.DataflowVar
        tensors = relax.Tuple([at[x] for x in _operands(binding)])
        again = relax.Call(call.op, [call.args[0], tensors], ty_args=call.ty_args, span=call.span, ret_ty=call.ty)
        at[binding.var] = kind(binding.var.name, binding.var.ty)
        bindings.append(relax.VarBinding(at[binding.var], again))
    result = at[chain[-1].var]
    body = Bindings.typed(relax.SeqExpr([relax.DataflowBlock(bindings)], result), result.ty)
    return relax.Function(params, body, result.ty, attrs=ir.make_node("ir.DictAttrs", Primitive=True))


def _kernel_of(mod: tvm.IRModule, function: relax.Function, chain: Chain) -> tirx.PrimFunc:
    """Returns the kernel that FuseTIR would make of a chain's function."""
    builder = relax.BlockBuilder(tvm.IRModule({b.value.args[0]: mod[b.value.args[0]] for b in chain}))
    name = builder.add_func(function, "chain")
    params = [relax.Var(param.name, param.ty) for param in function.params]
    with builder.function("main", params):
        builder.emit_func_output(builder.emit(relax.Call(name, params, ret_ty=function.ret_ty)))
    fused = relax.transform.FuseTIR()(builder.get())
    return next(f for name, f in fused.functions_items() if name.name_hint.startswith("chain"))


def _calls(chain: Chain, name: ir.GlobalVar) -> dict[Any, list[Any]]:
    """Returns the replacement of each binding of a chain: the call for the last, nothing for the others."""
    last = chain[-1]
    call = relax.Call(name, _outer(chain), span=last.value.span, ret_ty=last.var.ty)
    return {binding.var: [relax.VarBinding(last.var, call)] if binding is last else [] for binding in chain}


def _rewritten(builder: relax.BlockBuilder, main: relax.Function, calls: dict[Any, list[Any]]) -> tvm.IRModule:
    """Returns the module with each chain's bindings replaced, and the chains fused by FuseTIR."""

    def block(old: Any) -> Any:
        bindings = [new for b in old.bindings for new in calls.get(b.var, [b])]
        return type(old)(bindings)

    body = Bindings.typed(relax.SeqExpr([block(b) for b in main.body.blocks], main.body.body), main.body.body.ty)
    mod = builder.get()
    function = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs, main.span)
    mod.update_func(mod.get_global_var("main"), function)
    return relax.transform.FuseTIR()(mod)
