"""Schedules for CPUs: PrimFuncs as legalize and fuse leave them become parallel, vectorised, tiled loops.

A function is read as a list of stages (`kernel`), cheap elementwise stages are inlined (`inline`), rows of copies kept `apart`, and what is left
is grouped and written anew: nests over one box of points (`elementwise`, on `box`, `turned`, `short`, `chunks`, `periods`, `rare`), reductions and
contractions with their epilogues (`reduction`, on `plan`, `ways`, `tile`, `column`, `pack`, `transpose`, `tasks`, `slices`, `panels`, `steps`),
convolutions (`images`, `windows`, `edges`, `clips`, `winograd`, `winograd_filter`, chains of them in `bands`, strided ones' gradients in `phases`,
groups' results `joined`, those of few channels `spread`), chains such as softmax row by row (`rows`) or many short rows at once (`stacked`), and
attention block by block (`blocks`, its gradient in `strips`), without what a causal mask hides (`triangle`).
Every size comes from the target (`target`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext

from tvm import ir, transform
from tvm.s_tir import SBlock, SBlockRealize
from tvm.target import Target
from tvm.tirx import PrimFunc, Stmt

from tvtf.passes.schedule.choices import Decisions, deciding
from tvtf.passes.schedule.cpu.cache_conflicts import with_rows_apart
from tvtf.passes.schedule.cpu.emit import with_scalar_calls
from tvtf.passes.schedule.cpu.empty_extents import without_empty
from tvtf.passes.schedule.cpu.groups import emit_groups
from tvtf.passes.schedule.cpu.inline import inlined
from tvtf.passes.schedule.cpu.kernel import Kernel, read_kernel
from tvtf.passes.schedule.cpu.slow_path_lanes import with_rare_cases
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.tuned_choices import describe, record_for
from tvtf.passes.schedule.tuning_records import Record, records

SCHEDULED = "tirx.is_scheduled"


def schedule(func: PrimFunc, target: Target, decisions: Decisions | None = None) -> PrimFunc:
    """Return `func` with its loops written for a CPU; a function in an unknown form comes back as it is.

    Args:
        func: a function of blocks as `te.create_prim_func` or FuseTIR makes it, with int64 extents as Relax has them
            (a function with int32 loops comes back as it is). Dims may be symbolic.
        target: a target of kind `llvm`; `mcpu` and `num-cores` decide vectors, tiles and threads.
        decisions: what to choose other than the rules would, and what they ask; by default they decide.

    Raises:
        UnknownChoiceError: something was decided that the rules for this function don't offer.

    Example:
        >>> from tvm import te, tirx
        >>> size = tirx.IntImm("int64", 1000)
        >>> x = te.placeholder((size, size), "float32", "x")
        >>> func = te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1.0)])
        >>> target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
        >>> "T.vectorized" in schedule(func, target).script()
        True
    """
    kernel = read_kernel(func)
    if kernel is None:
        return func
    kernel = without_empty(kernel)
    with deciding(decisions) if decisions else nullcontext():
        body = _body(kernel, target)
    if decisions:
        decisions.check_all_asked()
    # Relax passes that look for reshapes insist on a root block.
    root = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return func.with_body(root).with_attr(SCHEDULED, True).with_attr("s_tir", True)


def _body(kernel: Kernel, target: Target) -> Stmt:
    stages, kernel = with_rows_apart(inlined(kernel), kernel)
    return with_rare_cases(with_scalar_calls(emit_groups(stages, kernel, CpuTarget.of(target))))


def ScheduleCPU(target: Target) -> transform.Pass:  # noqa: N802  (a pass, named as TVM's)
    """A module pass: `schedule` for every PrimFunc that no earlier pass has scheduled, as it was tuned for the target."""

    @transform.module_pass(opt_level=0, name="ScheduleCPU")
    def run(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        result, known = mod.clone(), records(describe(target))
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc) and not (func.attrs and SCHEDULED in func.attrs):
                result.update_func(name, _as_tuned(func, target, known))
        return result

    return run


def _as_tuned(func: PrimFunc, target: Target, known: Mapping[str, Record]) -> PrimFunc:
    """A kernel scheduled as its record says, where there is one that says what rules understand."""
    record = record_for(func, known)
    if record is None:
        return schedule(func, target)
    try:
        return schedule(func, target, Decisions(record.choices))
    except Exception as reason:  # it may come from anywhere, and must not break a compilation
        warnings.warn(f"the record of tuning for {record.kernel} is not used: {reason}", stacklevel=2)
        return schedule(func, target)
