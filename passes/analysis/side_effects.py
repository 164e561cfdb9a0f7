"""Kernels that are called for a side effect: raising an error, and writing into a Variable."""

from __future__ import annotations

from typing import Any

from tvm import ir, relax, te, tirx

from tvtf.ops.host import FAILURE

ON_HOST = "tirx.is_host_func"
"""TVM's attribute of kernels that run on the CPU although the others run on a GPU."""


READS_ON_HOST = "tvtf.reads_on_host"
"""Attribute of such a kernel whose arguments are computed on the GPU."""


def raising_kernel(kind: str, message: str) -> tirx.PrimFunc:
    """Builds the kernel of a run-time check: ``kernel(ok)`` raises an error if the bool scalar ``ok`` is false.

    TVM can only raise a RuntimeError. Its text (`FAILURE`) contains the actual error's class and message, from which
    the caller creates the actual error.

    Args:
      kind: the name of the error's class.
      message: the error's message.
    """
    # A bool may be at any address; TVM by default assumes an alignment of 64 bytes.
    ok = tirx.decl_buffer((), "bool", "ok", data_alignment=1)
    text = ir.StringImm(FAILURE.format(kind=kind, message=message))
    # TVM 0.27 documents the kind as first argument, but its constructor takes the condition first.
    check = tirx.AssertStmt(tirx.BufferLoad(ok, []), ir.StringImm("RuntimeError"), [text])
    # The kernel has no loops to schedule. It runs on the CPU even if a GPU computes `ok`.
    return (
        tirx.PrimFunc([ok], check)
        .with_attr("tirx.is_scheduled", True)
        .with_attr(ON_HOST, True)
        .with_attr(READS_ON_HOST, True)
    )


def copy_kernel(tensor_type: relax.TensorType) -> tirx.PrimFunc:
    """Returns ``kernel(source, destination)``, which copies a tensor of the given type."""
    source = te.placeholder(list(tensor_type.shape.values), str(tensor_type.dtype), "source")
    copied = te.compute(source.shape, lambda *i: source(*i), name="copy")
    return te.create_prim_func([source, copied])


def void_call(kernel: ir.GlobalVar, args: list[Any], span: Any) -> relax.Call:
    """Returns the call of a kernel that has no result and is called for its effect."""
    return relax.Call(kernel, args, span=span, ret_ty=relax.TupleType([]))
