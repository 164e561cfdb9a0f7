"""Schedules for CPUs: PrimFuncs as legalize and fuse leave them become parallel, vectorised, tiled loops.

A function is read as a list of stages (`kernel`), cheap elementwise stages are inlined (`inline`), and what is left
is grouped and written anew: nests over one box of points (`elementwise`, on `box`, `turned`, `short`, `chunks`, `periods`, `rare`), reductions and
contractions with their epilogues (`reduction`, on `plan`, `tile`, `pack`, `transpose`, `tasks`, `slices`), convolutions
(`images`, `winograd`, `winograd_filter`, chains of them in `bands`, strided ones' gradients in `phases`), chains such as
softmax row by row (`rows`) or many short rows at once (`stacked`), and attention block by block (`blocks`). Every size
comes from the target (`target`).
"""

from __future__ import annotations

from tvm import ir, transform
from tvm.s_tir import SBlock, SBlockRealize
from tvm.target import Target
from tvm.tirx import PrimFunc

from .emit import with_scalar_calls
from .empty import without_empty
from .groups import emit_groups
from .inline import inlined
from .kernel import read_kernel
from .rare import with_rare_cases
from .target import CpuTarget

SCHEDULED = "tirx.is_scheduled"


def schedule(func: PrimFunc, target: Target) -> PrimFunc:
    """Return `func` with its loops written for a CPU; a function in an unknown form comes back as it is.

    Args:
        func: a function of blocks as `te.create_prim_func` or FuseTIR makes it, with int64 extents as Relax has them
            (a function with int32 loops comes back as it is). Dims may be symbolic.
        target: a target of kind `llvm`; `mcpu` and `num-cores` decide vectors, tiles and threads.

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
    body = with_rare_cases(with_scalar_calls(emit_groups(inlined(kernel), kernel, CpuTarget.of(target))))
    # Relax passes that look for reshapes insist on a root block.
    root = SBlockRealize([], True, SBlock([], [], [], "root", body))
    return func.with_body(root).with_attr(SCHEDULED, True).with_attr("s_tir", True)


def ScheduleCPU(target: Target) -> transform.Pass:  # noqa: N802  (a pass, named as TVM's)
    """A module pass: `schedule` for every PrimFunc that no earlier pass has scheduled."""

    @transform.module_pass(opt_level=0, name="ScheduleCPU")
    def run(mod: ir.IRModule, _context: transform.PassContext) -> ir.IRModule:
        result = mod.clone()
        for name, func in mod.functions.items():
            if isinstance(func, PrimFunc) and not (func.attrs and SCHEDULED in func.attrs):
                result.update_func(name, schedule(func, target))
        return result

    return run
