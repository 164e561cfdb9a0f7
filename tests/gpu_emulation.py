"""Emulated GPU kernels whose threads take turns in another order."""

from __future__ import annotations

import tvm_ffi
from tvm import tirx


def backwards(body: tirx.Stmt) -> tirx.Stmt:
    """The emulation with each phase's threads in the opposite order: a race between them would change the result."""

    def turned(loop: tirx.For) -> tirx.Stmt:
        if loop.loop_var.name != "thread":
            return loop
        # Of the last thread less this one, TVM's simplifier makes wrong indices; their number is a power of two.
        other = tirx.bitwise_xor(loop.loop_var, loop.extent - 1)
        swapped = tvm_ffi.structural_map(
            loop.body, (tirx.Var, lambda var: other if var.same_as(loop.loop_var) else var)
        )
        return tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, swapped)

    return tvm_ffi.structural_map(body, (tirx.For, turned))
