"""Exports control flow: ``cond`` as If, ``while`` as Loop. Branches and bodies see the values of the enclosing graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onnx import GraphProto

from tvtf.core.shape import TensorType
from tvtf.dtypes import as_dtype
from tvtf.ir.dialect import Bound
from tvtf.onnx.emitter import Emitter
from tvtf.onnx.program import CONTROL, Program


def _emit_if(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Emits an If node."""
    predicate, *captured = inputs
    branches = {
        f"{name}_branch": _branch(program, bound.attrs[f"{name}_branch"], captured, types, f"{outputs[0]}_{name}")
        for name in ("then", "else")
    }
    program.emitter.node("If", [predicate], outputs, **branches)


def _branch(
    program: Program, function: Any, captured: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits a branch as a graph without inputs."""
    inner = program.emitter.within()
    results = program.within(function, captured, inner)
    return _finished(inner, name, [], results, types)


def _finished(
    inner: Emitter, name: str, inputs: Sequence[Any], results: Sequence[str], types: Sequence[TensorType]
) -> GraphProto:
    """Returns a graph with new output values: onnxruntime rejects values of the outer graph as results."""
    output_names = [inner.model.value(f"{name}_result", t.dtype) for t in types]
    for source, result in zip(results, output_names):
        inner.node("Identity", [source], [result])
    return inner.graph(name, inputs, [inner.info(n, t) for n, t in zip(output_names, types)])


def _emit_loop(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Emits a Loop; the condition is emitted before the loop, and at the end of its body on the new values."""
    carried, invariants = inputs[: len(types)], inputs[len(types) :]
    (start,) = program.within(bound.attrs["condition"], inputs, program.emitter)
    body = _loop_body(program, bound, invariants, types, f"{outputs[0]}_loop_body")
    program.emitter.node("Loop", ["", start, *carried], outputs, body=body)


def _loop_body(
    program: Program, bound: Bound, invariants: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits the loop body: an iteration number, a condition and carried values in; a condition and new values out.

    ONNX's Loop tests after an iteration, so that the body computes the condition for the next one.
    """
    inner, flag = program.emitter.within(), TensorType((), as_dtype("bool"))
    signature = [TensorType((), as_dtype("int64")), flag, *types]
    names = [inner.model.value(f"{name}_{role}", t.dtype) for role, t in zip(_roles(len(types)), signature)]
    new = program.within(bound.attrs["body"], [*names[2:], *invariants], inner)[: len(types)]
    (continues,) = program.within(bound.attrs["condition"], [*new, *invariants], inner)
    infos = [inner.info(n, t) for n, t in zip(names, signature)]
    return _finished(inner, name, infos, [continues, *new], [flag, *types])


def _roles(carried: int) -> list[str]:
    return ["iteration", "condition", *(f"carried_{i}" for i in range(carried))]


CONTROL.update({"cond": _emit_if, "while": _emit_loop, "effect_cond": _emit_if, "effect_while": _emit_loop})
"""An op with effects inside a branch or body raises its own error when that graph is emitted."""
