"""Checks for code that runs without Python, in an exported library or on a GPU: rejects host ops, makes messages constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from tvtf.core.text_format import HOLE
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ir.dialect import bindings_of
from tvtf.ops.host import runs_on_host
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.analysis.rewriter import Bindings, rewrite_functions

IN_A_LIBRARY = "a library runs without Python: save the module and load it with tvtf instead"
ON_A_GPU = "Python's arrays lie in the processor's memory: run it under tf.device('CPU')"

CALL = "call_python"
ELIDED = "..."
"""Stands for a tensor's value in a message."""


def reject_host_ops(why: str) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """Returns a pass that raises UnimplementedError if a module contains an op that Python or NumPy computes.

    ``why`` is the end of the error's text: the reason why the code can't run such an op.
    """

    def check(mod: tvm.IRModule) -> tvm.IRModule:
        """Checks all bindings of a module; returns the module unchanged."""
        for func in mod.functions.values():
            for binding in _bindings(func):
                _check_runs_without_python(binding.value, why)
        return mod

    return check


def _bindings(func: Any) -> list[Any]:
    return bindings_of(func.body) if isinstance(func, relax.Function) else []


def _check_runs_without_python(value: Any, why: str) -> None:
    """Raises UnimplementedError if a value is a call of Python or of a NumPy kernel.

    ``why`` is the end of the error's text: the reason why the code can't run such a call.
    """
    if not dialect.is_dialect(value):
        return
    bound = dialect.read(value)
    primitive = bound.primitive
    calls_python = primitive.name == CALL
    if calls_python or runs_on_host(primitive, dialect.dtypes_of(value, bound)):
        computed_by = "Python" if calls_python else "NumPy"
        where = f" ({value.span.source_name.name}:{value.span.line})" if value.span is not None else ""
        text = f"{primitive.name}{where} is computed by {computed_by}, and {why}"
        raise UnimplementedError(None, primitive.tf_name, text)


def with_fixed_messages(mod: tvm.IRModule) -> tvm.IRModule:
    """Gives guards (run-time checks) that show tensors in their message a constant message.

    Only Python formats tensors. At start, the VM looks up every function that its code names: one call of Python, even
    in a branch that is never taken, would keep the library from loading.
    """
    return drop_dead(rewrite_functions(mod, _fixed_message))


def _fixed_message(out: Bindings, binding: relax.VarBinding) -> None:
    """Copies a binding to ``out``; the message of a guard (run-time check) is copied without the values of tensors.

    Code that runs without Python can't format these values.
    """
    value = binding.value
    bound = dialect.read(value) if dialect.is_dialect(value) else None
    if bound is not None and bound.primitive.name == "guard" and bound.attrs.get("shown"):
        # The tensors shown come first, then the values that a failing guard writes.
        ok, *operands = bound.inputs
        pending = operands[bound.attrs["shown"] :]
        fixed_message = bound.attrs["message"].replace(HOLE, ELIDED)
        value = dialect.write(bound.primitive, [ok, *pending], {"message": fixed_message}, value.ty, value.span)
    out.rebind(binding, value)
