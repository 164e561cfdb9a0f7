"""The compiler on one page: the phases between a traced module and a shared library, in order."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tvm
import tvm_ffi
from tvm import relax
from tvm.target import Target
from tvm.tirx import PrimFunc

from tvtf.core.thread_state import debug_settings
from tvtf.core.tvm_import import without_collection
from tvtf.ir import check_lines
from tvtf.ir.user_lines import compiling
from tvtf.passes.analysis.loop_op import MarkPrivate
from tvtf.passes.codegen.align import ItemAlign
from tvtf.passes.codegen.bfloat16 import Bfloat16Bits
from tvtf.passes.codegen.divisors import GuardDivisors
from tvtf.passes.codegen.floats import ExactFloats
from tvtf.passes.codegen.hooks import Hooks
from tvtf.passes.codegen.let_bindings import HoistLets
from tvtf.passes.codegen.llvm import build_library, host_target
from tvtf.passes.codegen.subroutines import SubroutineCompiler
from tvtf.passes.debug.compile_progress import compile_progress
from tvtf.passes.debug.dump import dump_folder, run_phase
from tvtf.passes.debug.kernel_costs import lines
from tvtf.passes.debug.structural_check import StructuralCheck, check_stores
from tvtf.passes.graph.fold_batch_norm import fold_scales
from tvtf.passes.graph.fuse_attention import fuse_attention
from tvtf.passes.graph.loop_dce import trim_loops
from tvtf.passes.graph.matmul_slicing import cut_products
from tvtf.passes.graph.memory_traffic import reduce_traffic
from tvtf.passes.graph.mixed_precision import mixed_precision
from tvtf.passes.graph.runtime_checks import insert_guards
from tvtf.passes.graph.simplify import simplify
from tvtf.passes.lower.dedup_kernels import share_kernels
from tvtf.passes.lower.fuse_conv_chain import chain_kernels
from tvtf.passes.lower.fuse_kernels import fuse_kernels
from tvtf.passes.lower.fuse_optimizer_update import fuse_updates
from tvtf.passes.lower.hoist_tuple_items import HoistTupleItems, forward_tuple_items
from tvtf.passes.lower.legalize import legalize
from tvtf.passes.lower.loops_to_kernels import native_loops
from tvtf.passes.lower.reject_host_calls import IN_A_LIBRARY, ON_A_GPU, reject_host_ops, with_fixed_messages
from tvtf.passes.lower.runtime_sizes import with_runtime_sizes
from tvtf.passes.lower.scalar_dims import scalars_as_dims
from tvtf.passes.memory.buffer_donation import donate, mark_inplace
from tvtf.passes.memory.clamp_allocation import ClampAllocations
from tvtf.passes.memory.hoist_constants import (
    called_elsewhere,
    hoist,
    kernels_on_constants,
    mark_constants,
    separate_constants,
)
from tvtf.passes.memory.memory_plan import plan_arena
from tvtf.passes.schedule.constant_operands import constant_operands
from tvtf.passes.schedule.cpu import ScheduleCPU
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.subroutine import notify_on_new
from tvtf.passes.schedule.gpu import ScheduleGPU
from tvtf.passes.user_passes import Pass, user_passes

# Passes are called by TVM, which would raise Ctrl-C in one of them as a RuntimeError without a text.
tvm_ffi.register_error("KeyboardInterrupt", KeyboardInterrupt)


@dataclass
class Phase:
    """A named step; ``dialect`` says whether its result can still be interpreted with NumPy.

    A phase with ``early`` rewrites kernels, each by itself. Phases after it don't read most of them, so that these can
    be left to `finisher`; ``early`` runs instead, on the others.
    """

    name: str
    run: Pass
    dialect: bool = False
    early: Pass | None = None


def phases(target: Target, polls: bool = True) -> list[Phase]:
    """Returns every phase for a target, in order: the ``tvtf`` dialect first, kernels after ``legalize``.

    ``polls`` says that the code will run under Python: loops check for Ctrl-C, and ops may be computed by NumPy.
    """
    stock = relax.transform
    return [
        *(Phase(name, run, dialect=True) for name, run in user_passes),
        Phase("mixed-precision", mixed_precision),
        Phase("simplify", simplify, dialect=True),
        Phase("trim", trim_loops, dialect=True),
        Phase("columns", cut_products, dialect=True),
        Phase("scales", fold_scales, dialect=True),
        Phase("attention", fuse_attention, dialect=True),
        Phase("traffic", reduce_traffic, dialect=True),
        # After dead code elimination: a guard is removed together with its op.
        Phase("guard", insert_guards),
        *([Phase("messages", with_fixed_messages)] if on_gpu(target) or not polls else []),
        *([Phase("without-python", reject_host_ops(ON_A_GPU))] if on_gpu(target) else []),
        *([] if polls else [Phase("without-python", reject_host_ops(IN_A_LIBRARY))]),
        Phase("legalize", legalize),
        Phase("private", MarkPrivate),
        Phase("dataflow", stock.ConvertToDataflow(1)),
        Phase("pattern", stock.AnnotateTIROpPattern()),
        Phase("updates", fuse_updates),
        # Both keep values out of the groups that FuseOps makes.
        Phase("items", HoistTupleItems),
        Phase("apart", separate_constants),
        Phase("fuse", stock.FuseOps()),
        Phase("scalars", scalars_as_dims),
        Phase("fuse-kernels", fuse_kernels),
        Phase("share", share_kernels),
        *([] if on_gpu(target) else [Phase("chains", lambda mod: chain_kernels(mod, target))]),
        # These read kernels as stages, which only unscheduled ones can be read as.
        Phase("in-place", mark_inplace),
        Phase("constants", mark_constants),
        Phase("schedule", scheduler(target), early=partial(schedule_early, target)),
        Phase("flatten", stock.ToNonDataflow()),
        # Hoists packed copies of constants, which the schedule makes.
        Phase("hoist", hoist),
        Phase("purity", stock.RemovePurityChecking()),
        *([] if on_gpu(target) else [Phase("native-loops", lambda mod: native_loops(mod, polls))]),
        Phase("destinations", stock.CallTIRRewrite()),
        Phase("known-items", forward_tuple_items),
        Phase("donate", lambda mod: donate(mod, returns_all=on_gpu(target))),
        *([] if on_gpu(target) else [Phase("arena", plan_arena)]),
        Phase("memory", stock.StaticPlanBlockMemory()),
        Phase("allocate", stock.LowerAllocTensor()),
        Phase("room", ClampAllocations),
        Phase("kill", stock.KillAfterLastUse()),
        Phase("builtins", stock.LowerRuntimeBuiltin()),
        Phase("prim-values", stock.ComputePrimValue()),
        Phase("shapes", stock.VMShapeLower()),
        Phase("symbols", stock.AttachGlobalSymbol()),
        *(
            []
            if on_gpu(target) or not polls
            else [Phase("sizes", _unchanged, early=lambda mod: with_runtime_sizes(mod, target))]
        ),
        # Last: these rewrite kernels to forms that TVM's own kernel passes, which follow, don't break.
        Phase("bfloat16", Bfloat16Bits, early=_unchanged),
        Phase("names", HoistLets, early=_unchanged),
        Phase("divisors", GuardDivisors, early=_unchanged),
        Phase("floats", ExactFloats, early=_unchanged),
        Phase("align", ItemAlign, early=_unchanged),
    ]


def scheduler(target: Target) -> Pass:
    """Returns the pass that schedules kernels for a target."""
    return ScheduleGPU(target) if on_gpu(target) else ScheduleCPU(target)


def on_gpu(target: Target) -> bool:
    """Returns whether kernels are compiled for a GPU, a real or an emulated one."""
    return "gpu" in target.keys


def lower(mod: tvm.IRModule, target: Target, polls: bool = True, kernels: bool = True) -> tvm.IRModule:
    """Runs all phases of the compiler on a module of ``tvtf`` ops, and returns the module for code generation.

    Args:
      mod: the module.
      target: the device to compile for.
      polls: whether the code will run under Python, where loops check for Ctrl-C.
      kernels: whether to schedule all kernels. Otherwise only kernels whose loop nests later phases read are scheduled,
        and `finisher` schedules the other kernels if their machine code isn't in the cache.
    """
    folder = dump_folder()
    check = StructuralCheck() if debug_settings.check or debug_settings.verify else None
    with target, tvm.transform.PassContext(opt_level=3), compiling():
        for position, phase in enumerate(phases(target, polls)):
            run = phase.run if kernels or phase.early is None else phase.early
            mod = run_phase(replace(phase, run=run), position, mod, folder)
            if check is not None:
                check.after(phase.name, mod)
    return mod


def _unchanged(mod: tvm.IRModule) -> tvm.IRModule:
    return mod


def schedule_early(target: Target, mod: tvm.IRModule) -> tvm.IRModule:
    """Schedules only the kernels whose loop nests later phases read; `finisher` schedules the others.

    The phase `native_loops` reads the kernels that functions other than ``main`` call. The phase `hoist` reads the
    kernels with constant operands, except kernels whose operands are all constant, which it moves unchanged.
    """
    outside_main = called_elsewhere(mod)
    moved = kernels_on_constants(mod)
    kernels = {name: func for name, func in mod.functions_items() if isinstance(func, PrimFunc)}
    needed_early = {
        name: func
        for name, func in kernels.items()
        if name in outside_main or (constant_operands(func) and name not in moved)
    }
    scheduled = scheduler(target)(tvm.IRModule(needed_early))
    result = mod.clone()
    for name in needed_early:
        result.update_func(name, scheduled[name.name_hint])
    return result


def finisher(target: Target) -> Pass:
    """Returns a pass that schedules and lowers the kernels that `lower` with ``kernels=False`` left unscheduled.

    The pass runs only the phases that rewrite single kernels. It doesn't schedule a scheduled kernel again.
    """
    kernel_phases = [phase for phase in phases(target) if phase.early is not None]

    def run(mod: tvm.IRModule) -> tvm.IRModule:
        """Runs these phases on a module of kernels."""
        with target, tvm.transform.PassContext(opt_level=3), compiling():
            for phase in kernel_phases:
                mod = phase.run(mod)
                if debug_settings.check:
                    for name, func in mod.functions_items():
                        check_stores(name.name_hint, func)
        return mod

    return run


def lower_through(mod: tvm.IRModule, target: Target, last: str) -> Iterator[tuple[str, tvm.IRModule]]:
    """Compiles a module phase by phase, and yields each phase's name and result, up to the phase ``last``.

    Tests and tools read intermediate modules this way.

    Raises:
      ValueError: no phase is called ``last``; the text lists all phases.
    """
    all_phases = phases(target)
    names = [phase.name for phase in all_phases]
    if last not in names:
        raise ValueError(f"there is no phase {last!r}; the phases are {', '.join(names)}")
    for phase in all_phases[: names.index(last) + 1]:
        with target, tvm.transform.PassContext(opt_level=3), compiling():
            mod = phase.run(mod)
        yield phase.name, mod


def compile_module(mod: tvm.IRModule, target: Target, out: Path, exported: bool = False) -> None:
    """Compiles a dialect module into the shared library ``out``.

    ``exported`` libraries check their arguments and don't poll for Python's signals, since they run without Python.
    """
    started = time.perf_counter()
    with without_collection(), compile_progress() as progress:
        # Kernels are lowered last and one by one, so that this is saved for those whose code is stored.
        together = on_gpu(target) or bool(debug_settings.verify or debug_settings.dump) or debug_settings.debug >= 3
        stored = None if together else Hooks.stored
        with SubroutineCompiler(host_target(target), tvm.transform.PassContext.current().config, stored) as subroutines:
            with notify_on_new(subroutines.begin), nullcontext() if exported else check_lines.numbering_lines(mod):
                lowered = lower(mod, target, polls=not exported, kernels=together)
            lowered_at = time.perf_counter()
            costs = build_library(
                lowered,
                target,
                out,
                check_arguments=exported,
                poll_signals=not exported,
                finish=None if together else finisher(target),
                stored=stored,
                subroutines=subroutines,
                progress=progress,
            )
    read_kernel.cache_clear()
    if debug_settings.debug >= 2:
        took = time.perf_counter() - started
        phases_took = lowered_at - started
        print(
            f"tvtf: compiled {out.name} in {took:.3f} s, {phases_took:.3f} of them in the phases above", file=sys.stderr
        )
        for line in lines(costs):
            print(f"tvtf: {line}", file=sys.stderr)
