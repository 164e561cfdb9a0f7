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
    """Exports a ``cond`` primitive as ONNX's If node; the two branches become subgraphs of the node."""
    predicate, *captured = inputs
    name = outputs[0]
    then_graph = _branch(program, bound.attrs["then_branch"], captured, types, f"{name}_then")
    else_graph = _branch(program, bound.attrs["else_branch"], captured, types, f"{name}_else")
    program.emitter.node("If", [predicate], outputs, then_branch=then_graph, else_branch=else_graph)


def _branch(
    program: Program, function: Any, captured: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits a branch of a ``cond``, ``function``, as an ONNX subgraph, and returns the subgraph.

    The branches of ONNX's If have no inputs. Their nodes read the values ``captured`` of the enclosing graph by name.
    ``types`` are the types of the branch's results.
    """
    branch_emitter = program.emitter.subgraph_emitter()
    results = program.emit_function(function, captured, branch_emitter)
    return _graph_with_results(branch_emitter, name, [], results, types)


def _graph_with_results(
    emitter: Emitter, name: str, inputs: Sequence[Any], results: Sequence[str], types: Sequence[TensorType]
) -> GraphProto:
    """Returns the subgraph of a branch or loop body, made of the nodes in ``emitter``.

    The outputs are copies of the values ``results``, because onnxruntime rejects values of the outer graph as outputs.
    """
    outputs = []
    output_names = [emitter.model.value(f"{name}_result", tensor_type.dtype) for tensor_type in types]
    for result, output_name, tensor_type in zip(results, output_names, types):
        emitter.node("Identity", [result], [output_name])
        outputs.append(emitter.info(output_name, tensor_type))
    return emitter.graph(name, inputs, outputs)


def _emit_loop(program: Program, bound: Bound, inputs: list[str], outputs: list[str], types: list[TensorType]) -> None:
    """Exports a ``while`` primitive as ONNX's Loop node.

    Loop has no subgraph for the condition. Therefore the condition is emitted twice: before the loop for the initial
    values, and at the end of the loop's body for the new values.

    Args:
      program: the exported program.
      bound: the primitive's attributes.
      inputs, outputs: the names of the inputs and outputs.
      types: the types of the outputs, which are the carried values.
    """
    carried, invariants = inputs[: len(types)], inputs[len(types) :]
    (starts,) = program.emit_function(bound.attrs["condition"], inputs, program.emitter)
    body = _loop_body(program, bound, invariants, types, f"{outputs[0]}_loop_body")
    unlimited = ""  # Loop's first input is the largest number of iterations; the empty name leaves it out
    program.emitter.node("Loop", [unlimited, starts, *carried], outputs, body=body)


def _loop_body(
    program: Program, bound: Bound, invariants: Sequence[str], types: Sequence[TensorType], name: str
) -> GraphProto:
    """Emits the body of ONNX's Loop as a subgraph, and returns the subgraph.

    The subgraph's inputs are the iteration number, a condition and the carried values, which have the given types. The
    outputs are the condition for the next iteration and the new carried values.

    Args:
      program: the exported program.
      bound: the ``while`` primitive's attributes.
      invariants: the names of values of the outer graph, which the subgraph reads.
      types: the types of the carried values.
      name: the name of the subgraph.
    """
    body_emitter = program.emitter.subgraph_emitter()
    bool_type = TensorType((), as_dtype("bool"))
    input_types = [TensorType((), as_dtype("int64")), bool_type, *types]
    input_names = []
    for suffix, input_type in zip(_body_input_suffixes(len(types)), input_types):
        input_names.append(body_emitter.model.value(f"{name}_{suffix}", input_type.dtype))
    _iteration, _condition, *carried = input_names  # ``while`` has no iteration number, and computes its own condition
    new_carried = program.emit_function(bound.attrs["body"], [*carried, *invariants], body_emitter)[: len(types)]
    (continues,) = program.emit_function(bound.attrs["condition"], [*new_carried, *invariants], body_emitter)
    infos = [body_emitter.info(input_name, type_) for input_name, type_ in zip(input_names, input_types)]
    return _graph_with_results(body_emitter, name, infos, [continues, *new_carried], [bool_type, *types])


def _body_input_suffixes(carried: int) -> list[str]:
    """Returns the ends of the names of a loop body's inputs, in the order that ONNX's Loop requires."""
    return ["iteration", "condition", *(f"carried_{i}" for i in range(carried))]


CONTROL.update({"cond": _emit_if, "while": _emit_loop, "effect_cond": _emit_if, "effect_while": _emit_loop})
"""An op with effects inside a branch or body raises its own error when that graph is emitted."""
