"""Schedules for GPUs: PrimFuncs as legalize and fuse leave them become kernels of blocks and threads.

A function is read as on the CPU: a list of stages, cheap ones inlined. The rest is grouped, and each group is written
as one or two kernels by the builders in `block`: elementwise boxes (`elementwise`), reductions (`reduction`), matrix
products and convolutions (`contraction`, `split_k`; by the instructions in `tensorcore` and `warpgroup`, of which
`tiles` chooses one), chains row by row (`rows`), and loop nests that aren't read as stages (`opaque`). Every size is
derived from the target (`target`).
"""

from __future__ import annotations

from tvm import ir, transform
from tvm.s_tir import SBlock, SBlockRealize
from tvm.target import Target
from tvm.tirx import PrimFunc

from tvtf.passes.analysis.side_effects import ON_HOST
from tvtf.passes.schedule.cpu import SCHEDULED
from tvtf.passes.schedule.cpu.empty_extents import without_empty
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.gpu.groups import emit_groups
from tvtf.passes.schedule.gpu.opaque import emit_opaque
from tvtf.passes.schedule.gpu.target import GpuTarget


def schedule(func: PrimFunc, target: Target) -> PrimFunc:
    """Schedules a function for a GPU: replaces its loops by kernels of blocks and threads.

    Args:
        func: a function of blocks as `te.create_prim_func` or FuseTIR makes it, or of plain loops.
        target: a target of kind `cuda`; for one of kind `llvm` the kernels are emulated.
    """
    gpu = GpuTarget.of(target)
    kernel = read_kernel(func)
    if kernel is None:
        body = emit_opaque(func.body, gpu)
    else:
        kernel = without_empty(kernel)
        body = emit_groups(inline_stages(kernel), kernel, gpu)
    # Relax passes that look for reshapes require a root block.
    root = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return func.with_body(root).with_attr(SCHEDULED, True).with_attr("s_tir", True)


def ScheduleGPU(target: Target) -> transform.Pass:  # noqa: N802  (a pass, named as TVM's)
    """Returns a module pass that schedules every PrimFunc that doesn't run on the CPU.

    Some kernels run on the CPU although the others run on a GPU, such as those that raise a guard's error.
    """

    @transform.module_pass(opt_level=0, name="ScheduleGPU")
    def run(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        """Schedules each PrimFunc of the module that runs on the GPU."""
        result = mod.clone()
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc) and not (func.attrs and ON_HOST in func.attrs):
                result.update_func(name, schedule(func, target))
        return result

    return run
