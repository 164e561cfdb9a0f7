"""Extracts the kernels of a module: each as a module of its own that calls it once, to compile and time it alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import tvm
from tvm import ir, relax, tirx
from tvm.target import Target

from tvtf.core.tvm_visitor import structural_walk
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.codegen.llvm import build_library
from tvtf.passes.entry_points import PREPARE
from tvtf.passes.memory.hoist_constants import CONSTANTS, is_kernel_call
from tvtf.passes.pipeline import Phase, phases
from tvtf.passes.schedule.constant_operands import constant_operands
from tvtf.passes.schedule.cpu.kernel import read_kernel


class IsolatedKernel(NamedTuple):
    """A kernel that is tuned alone: its name, its function before scheduling, and a call of it in the Relax module."""

    name: str
    func: tirx.PrimFunc
    call: relax.Call

    @property
    def operands(self) -> int:
        """The number of the kernel's operands. They are its first parameters, before the results."""
        return len(self.call.args[1].fields)

    @property
    def shapes(self) -> str:
        """The types of the kernel's operands as text, such as ``float32[2, n], int32[n]``."""
        types = [x.ty for x in self.call.args[1].fields]
        return ", ".join(
            f"{tensor_type.dtype}[{', '.join(map(_dim, tensor_type.shape.values))}]" for tensor_type in types
        )

    @property
    def constants(self) -> list[int]:
        """The indices of the operands that are the same in every call, such as an inference's weights."""
        return constant_operands(self.func)


def _dim(dim: Any) -> str:
    """Formats a dim of a TVM shape: a number, or the name of a symbolic dim."""
    return str(int(dim)) if isinstance(dim, tirx.IntImm) else str(dim)


def isolated_kernels(mod: tvm.IRModule, target: Target) -> list[IsolatedKernel]:
    """Lowers a traced module to kernels that are not scheduled yet, and returns those that can be tuned alone.

    These kernels are called by Relax code, have a schedule rule, and get all their sizes from their own operands. They
    are sorted by name.
    """
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in takewhile(_is_before_schedule, phases(target)):
            mod = phase.run(mod)
    calls = {call.args[0].name_hint: call for call in _kernel_calls(mod)}
    kernels = {var.name_hint: func for var, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}
    return [
        IsolatedKernel(name, func, calls[name])
        for name, func in sorted(kernels.items())
        if name in calls and _is_separable(func, calls[name])
    ]


def _is_before_schedule(phase: Phase) -> bool:
    """Returns whether a compiler phase isn't the one that schedules kernels, for ``takewhile`` and ``dropwhile``."""
    return phase.name != "schedule"


def _kernel_calls(mod: tvm.IRModule) -> Iterator[relax.Call]:
    """Yields the calls of kernels in the Relax functions of a module."""
    for func in mod.functions.values():
        for block in func.body.blocks if isinstance(func, relax.Function) else ():
            yield from (binding.value for binding in block.bindings if is_kernel_call(binding.value))


def _is_separable(func: tirx.PrimFunc, call: relax.Call) -> bool:
    """Returns whether a kernel can be compiled in a module of its own.

    Its operands' shapes must contain all symbolic dims that the kernel uses, because the module has no other tensors.
    Schedule rules must be able to read the kernel.
    """
    operands = list(call.args[1].fields)  # `call_tir(kernel, operands)`
    if not all(isinstance(operand.ty, relax.TensorType) and operand.ty.shape is not None for operand in operands):
        return False
    dims = [dim for operand in operands for dim in operand.ty.shape.values]
    operand_symbols = [dim for dim in dims if isinstance(dim, tirx.Var)]
    used_symbols: list[tirx.Var] = []  # those in the operands' dims, such as n in 2 * n, and in the result's type
    structural_walk([dims, call.ty_args], (tirx.Var, used_symbols.append))
    for symbol in used_symbols:
        if not any(symbol.same_as(operand_symbol) for operand_symbol in operand_symbols):
            return False
    return read_kernel(func) is not None


def lowered_isolated(isolated: IsolatedKernel, scheduled: tirx.PrimFunc, target: Target) -> tvm.IRModule:
    """Wraps a scheduled kernel in a module that calls it, and lowers the module for ``build_library``."""
    mod = _calling_module(isolated, scheduled)
    with target, tvm.transform.PassContext(opt_level=3):
        # [1:] leaves out the phase that schedules kernels, as this one is scheduled already.
        for phase in list(dropwhile(_is_before_schedule, phases(target)))[1:]:
            mod = phase.run(mod)
    return mod


def compile_isolated(lowered: tvm.IRModule, target: Target, out: Path) -> None:
    """Compiles a module of :func:`lowered_isolated` to the shared library ``out``, in one thread.

    The library's ``main`` takes the kernel's operands and then the results of ``prepare``, if there are any.
    """
    build_library(lowered, target, out, threads=1)


def _calling_module(isolated: IsolatedKernel, scheduled: tirx.PrimFunc) -> tvm.IRModule:
    """Builds a module of a scheduled kernel and a ``main``, which calls the kernel on its own parameters.

    ``main`` has the attributes of a compiled function: which operands are constant, and that no buffer is donated.
    """
    kernel = Bindings.typed(ir.GlobalVar(isolated.name), isolated.func.ty)
    params = [relax.Var(f"x{i}", x.ty) for i, x in enumerate(isolated.call.args[1].fields)]
    call = isolated.call
    bindings = Bindings()
    value = relax.Call(call.op, [kernel, relax.Tuple(params)], ty_args=call.ty_args, ret_ty=call.ty)
    result = bindings.emit(value, "result")
    body = Bindings.typed(relax.SeqExpr([relax.BindingBlock(bindings.bindings)], result), result.ty)
    main = relax.Function(params, body, result.ty, True)
    main = main.with_attrs({"global_symbol": "main", CONSTANTS: isolated.constants, "tvtf.donate": []})
    return tvm.IRModule({ir.GlobalVar("main"): main, kernel: scheduled})


def run_isolated(executable: Any, isolated: IsolatedKernel, operands: list[Any]) -> Any:
    """Returns a function without arguments that calls a kernel of a compiled library once on these operands.

    Copies of constant operands in a packed layout are computed here, once, so that they aren't timed with the kernel.

    Args:
      executable: the compiled library of the kernel.
      isolated: the kernel.
      operands: its operands.
    """
    arguments = list(operands)
    if isolated.constants:
        constants = [operands[i] for i in isolated.constants]
        arguments.extend(executable.function(PREPARE)(*constants))
    main = executable.function()
    return lambda: main(*arguments)
