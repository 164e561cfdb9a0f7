"""Schedules for CPUs: PrimFuncs as legalize and fuse leave them become parallel, vectorized, tiled loops.

Four words name the parts of a kernel, from small to large:

- tile: results that a core holds in vector registers while it sums their terms (`tile`, `lane_tile`);
- panel: a piece of an operand that is packed (copied) in the order in which tiles read it (`pack`);
- block: the tiles, rows or terms whose operands stay in a cache meanwhile. Blocks of an image's rows are called bands
  (`conv_bands`), those of attention's rows strips (`row_strips`), those of a sum's terms steps (`reduction_steps`);
- chunk: what one task of a thread does, one or more blocks. Chunks of a sum's terms are called slices
  (`split_reduction`).

Three more words recur. One iteration of a loop nest is given by its `axis_indices`, an index for each axis. A range is some
consecutive indices of one axis. A form is one way to write the loops of a group, such as Winograd's method for a
convolution.

A function is read as a list of stages (`kernel`). Cheap elementwise stages are inlined (`inline`), and copies are
padded against cache conflicts (`cache_conflicts`). The rest is grouped (`groups`), and each group becomes one nest:

- elementwise stages of equal extents: `elementwise`, on `merged_loops`, `transposed_reads`, `short_axis`, `chunks`,
  `periods`, `slow_path_lanes`;
- reductions and contractions with their epilogues: `reduction`, planned by `tile_plan` and `vector_axis`, written by
  `tasks`, `tile`, `lane_tile`, `pack`, `transpose`, and if they are large by `split_reduction`, `panels`,
  `reduction_steps`;
- convolutions: `padded_images`, `windows`, `depthwise_filter_grad`, `border_clips`, `winograd`, `winograd_filter`;
  chains of them in `conv_bands`, gradients of strided ones in `interleaved_results`, grouped ones in `merged_axes`
  and `grouped_conv_lanes`;
- chains such as softmax: `rows` row by row, `short_row_lanes` many short rows at once;
- attention: `attention_blocks`, its gradient in `row_strips`, without the masked parts (`triangle`).

At the end, what kernels have in common becomes subroutines (`subroutine`, `outline`, `region`), in addition to those
that the rules call (`product_tile`, `band_copy`, `winograd_transforms`).

Every size is derived from the target (`target`).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import nullcontext

from tvm import ir, transform
from tvm.s_tir import SBlock, SBlockRealize
from tvm.target import Target
from tvm.tirx import PrimFunc, Stmt, Var

from tvtf.passes.schedule.choices import Decisions, deciding
from tvtf.passes.schedule.cpu.access import with_scalar_pairs
from tvtf.passes.schedule.cpu.cache_conflicts import with_padded_rows
from tvtf.passes.schedule.cpu.direct_stores import with_direct_stores
from tvtf.passes.schedule.cpu.emit import with_scalar_calls
from tvtf.passes.schedule.cpu.empty_extents import without_empty
from tvtf.passes.schedule.cpu.groups import emit_groups
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import INPLACE_PAIRS, Kernel, read_kernel
from tvtf.passes.schedule.cpu.outline import with_called_loops
from tvtf.passes.schedule.cpu.parallel_threshold import parallel_over_sizes
from tvtf.passes.schedule.cpu.product_tile import in_kernel
from tvtf.passes.schedule.cpu.slow_path_lanes import with_slow_paths
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.tuned_choices import describe, record_for
from tvtf.passes.schedule.tuning_records import Record, records

SCHEDULED = "tirx.is_scheduled"


def schedule(func: PrimFunc, target: Target, decisions: Decisions | None = None) -> PrimFunc:
    """Returns `func` with its loops written for a CPU; a function in an unknown form is returned unchanged.

    Args:
        func: a function of blocks as `te.create_prim_func` or FuseTIR makes it, with int64 extents as Relax has them
            (a function with int32 loops is returned unchanged). Dims may be symbolic.
        target: a target of kind `llvm`; `mcpu` and `num-cores` determine vectors, tiles and threads.
        decisions: choices that replace the rules' own; by default the rules choose.

    Raises:
        UnknownChoiceError: a decision isn't offered by the rules for this function.

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
    with deciding(decisions) if decisions else nullcontext(), parallel_over_sizes(func):
        body = with_called_loops(_loops_of_kernel(kernel, target), _overlapping(func))
    if decisions:
        decisions.check_all_used()
    # Relax passes that look for reshapes require a root block.
    root = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return func.with_body(root).with_attr(SCHEDULED, True).with_attr("s_tir", True)


def _loops_of_kernel(kernel: Kernel, target: Target) -> Stmt:
    """Returns the loop nests of a kernel: inlines and pads its stages, groups them, and emits a nest for each group."""
    stages, kernel = with_padded_rows(inline_stages(kernel), kernel)
    with in_kernel(stages):
        loops = with_scalar_calls(emit_groups(stages, kernel, CpuTarget.of(target)))
    if kernel.has_pairs():
        loops = with_scalar_pairs(loops)
    return with_direct_stores(with_slow_paths(loops))


def _overlapping(func: PrimFunc) -> list[tuple[Var, Var]]:
    """Returns the pairs of a function's parameters that may be the same memory: results computed in place of operands."""
    return [
        (func.params[int(result)], func.params[int(operand)])
        for result, operand in (func.attrs or {}).get(INPLACE_PAIRS, ())
    ]


def ScheduleCPU(target: Target) -> transform.Pass:  # noqa: N802  (a pass, named as TVM's)
    """Returns a module pass that schedules every PrimFunc for a CPU, by a tuning record if there is one.

    The pass skips functions that are marked as scheduled: by an earlier phase, or because their loops were written by
    hand.
    """

    @transform.module_pass(opt_level=0, name="ScheduleCPU")
    def run(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        """Schedules each kernel of the module that isn't scheduled yet."""
        result = mod.clone()
        known = records(describe(target))
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc) and not (func.attrs and SCHEDULED in func.attrs):
                result.update_func(name, _schedule_as_tuned(func, target, known))
        return result

    return run


def _schedule_as_tuned(func: PrimFunc, target: Target, known: Mapping[str, Record]) -> PrimFunc:
    """Schedules a kernel by its tuning record, or by the default rules if there is none or it can't be used.

    Args:
        func: the kernel.
        target: the CPU.
        known: the tuning records by the kernel's key.
    """
    record = record_for(func, known)
    if record is None:
        return schedule(func, target)
    try:
        return schedule(func, target, Decisions(record.choices))
    except Exception as error:  # a record may come from an untrusted source, and must not make a compilation fail
        warnings.warn(f"the record of tuning for {record.kernel} is not used: {error}", stacklevel=2)
        return schedule(func, target)
