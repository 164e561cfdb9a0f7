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
    """Exports a ``cond`` primitive as ONNX's If node, with its branches as subgraphs."""
    predicate, *captured = inputs
    branches = {
        f"{name}_branch": _branch(program, bound.attrs[f"{name}_branch"], captured, types, f"{outputs[0]}_{name}")
        for name in ("then", "else")
    }
    program.emitter.node("If", [predicate], outputs, **branches)


def _branch(
    program: Program, function: Any, captured: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits a branch of a ``cond`` as a subgraph without inputs: it reads captured values of the enclosing graph by name."""
    branch_emitter = program.emitter.within()
    results = program.within(function, captured, branch_emitter)
    return _graph_with_results(branch_emitter, name, [], results, types)


def _graph_with_results(
    emitter: Emitter, name: str, inputs: Sequence[Any], results: Sequence[str], types: Sequence[TensorType]
) -> GraphProto:
    """Finishes a branch or loop body: returns the graph of the emitted nodes with copies of ``results`` as its outputs.

    They are copied since onnxruntime rejects values of the outer graph as results.
    """
    output_names = [emitter.model.value(f"{name}_result", t.dtype) for t in types]
    for source, result in zip(results, output_names):
        emitter.node("Identity", [source], [result])
    return emitter.graph(name, inputs, [emitter.info(n, t) for n, t in zip(output_names, types)])


def _emit_loop(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Exports a ``while`` primitive as ONNX's Loop node.

    The condition is emitted before the loop on the initial values, and at the end of its body on the new ones.
    """
    carried, invariants = inputs[: len(types)], inputs[len(types) :]
    (start,) = program.within(bound.attrs["condition"], inputs, program.emitter)
    body = _loop_body(program, bound, invariants, types, f"{outputs[0]}_loop_body")
    program.emitter.node("Loop", ["", start, *carried], outputs, body=body)


def _loop_body(
    program: Program, bound: Bound, invariants: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits the body of ONNX's Loop as a subgraph.

    Its inputs are the iteration number, a condition and the carried values, its outputs the condition for the next
    iteration and the new values: Loop tests the condition that the body computed.
    """
    body_emitter, bool_type = program.emitter.within(), TensorType((), as_dtype("bool"))
    signature = [TensorType((), as_dtype("int64")), bool_type, *types]
    names = [
        body_emitter.model.value(f"{name}_{role}", t.dtype) for role, t in zip(_value_names(len(types)), signature)
    ]
    _, _, *carried = names
    new_carried = program.within(bound.attrs["body"], [*carried, *invariants], body_emitter)[: len(types)]
    (continues,) = program.within(bound.attrs["condition"], [*new_carried, *invariants], body_emitter)
    infos = [body_emitter.info(n, t) for n, t in zip(names, signature)]
    return _graph_with_results(body_emitter, name, infos, [continues, *new_carried], [bool_type, *types])


def _value_names(carried: int) -> list[str]:
    return ["iteration", "condition", *(f"carried_{i}" for i in range(carried))]


CONTROL.update({"cond": _emit_if, "while": _emit_loop, "effect_cond": _emit_if, "effect_while": _emit_loop})
"""An op with effects inside a branch or body raises its own error when that graph is emitted."""
