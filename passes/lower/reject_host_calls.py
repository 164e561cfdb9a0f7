"""Checks for code that runs without Python, in an exported library or on a GPU: rejects host ops, makes messages constant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax

from tvtf.core.text_format import HOLE
from tvtf.errors import UnimplementedError
from tvtf.ir import dialect
from tvtf.ops.host import runs_on_host
from tvtf.passes.analysis.dead_code import drop_dead
from tvtf.passes.analysis.rewriter import Bindings, rewrite_functions

IN_A_LIBRARY = "a library runs without Python: save the module and load it with tvtf instead"
ON_A_GPU = "Python's arrays lie in the processor's memory: run it under tf.device('CPU')"

CALL = "call_python"
ELIDED = "..."
"""Stands for a tensor's value in a message."""


def reject_host_ops(why: str) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """Returns a pass that changes nothing, and raises UnimplementedError for an op computed by Python or NumPy."""

    def check(mod: tvm.IRModule) -> tvm.IRModule:
        for func in mod.functions.values():
            for binding in _bindings(func):
                _check(binding.value, why)
        return mod

    return check


def _bindings(func: Any) -> list[Any]:
    return [b for block in func.body.blocks for b in block.bindings] if isinstance(func, relax.Function) else []


def _check(value: Any, why: str) -> None:
    """Raises UnimplementedError for a call of Python or of a NumPy kernel."""
    if not dialect.is_dialect(value):
        return
    bound = dialect.read(value)
    if bound.primitive.name == CALL or runs_on_host(bound.primitive, dialect.dtypes_of(value, bound)):
        kinds = "by Python" if bound.primitive.name == CALL else "by NumPy"
        where = f" ({value.span.source_name.name}:{value.span.line})" if value.span is not None else ""
        raise UnimplementedError(
            None, bound.primitive.tf_name, f"{bound.primitive.name}{where} is computed {kinds}, and {why}"
        )


def with_fixed_messages(mod: tvm.IRModule) -> tvm.IRModule:
    """Replaces guard messages that show tensors, which Python formats when a guard fails, by fixed ones.

    The VM looks up every function that its code names when it starts. One call of Python, even in a branch that is
    never taken, would keep the whole library from loading.
    """
    return drop_dead(rewrite_functions(mod, _fixed_message))


def _fixed_message(out: Bindings, binding: relax.VarBinding) -> None:
    """Replaces a guard that shows tensors by one with a fixed message.

    Without Python, nothing formats the tensors' values.
    """
    value = binding.value
    bound = dialect.read(value) if dialect.is_dialect(value) else None
    if bound is not None and bound.primitive.name == "guard" and bound.attrs.get("shown"):
        ok, *operands = bound.inputs
        attrs = {"message": bound.attrs["message"].replace(HOLE, ELIDED)}
        pending = operands[bound.attrs["shown"] :]
        value = dialect.write(bound.primitive, [ok, *pending], attrs, value.ty, value.span)
    out.again(binding, value)
