"""Functions that are attributes of a traced call, such as a loop's body: they are traced to graphs with the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from tvtf.core.primitive import Primitive
from tvtf.core.tensor import SymbolicTensor
from tvtf.core.thread_state import state
from tvtf.ir.dim_equations import with_readable_dims
from tvtf.ir.graph import Graph, GraphBuilder

CONTROL_FLOW = ("cond", "while")
"""Primitives whose functions all take the call's last operands, among them what they capture."""

ALWAYS_RUN = ("condition", "forward")
"""Function attributes that run whenever the call does: what they need of sizes may be assumed for the whole trace."""


@contextmanager
def tracing(trace: GraphBuilder) -> Any:
    """Makes ``trace`` the thread's active trace in a ``with`` block. Tapes outside don't record the ops inside."""
    outer_trace, outer_tapes = state.trace, state.tapes
    # Observers are called for traced ops, too.
    state.trace = trace
    state.tapes = list(state.observers)
    try:
        yield trace
    finally:
        state.trace, state.tapes = outer_trace, outer_tapes


def traced_functions(
    trace: GraphBuilder, prim: Primitive[Any], operands: Sequence[SymbolicTensor], attrs: Mapping[str, Any]
) -> tuple[dict[str, Graph], list[SymbolicTensor]]:
    """Traces the functions among a call's attributes.

    Args:
      trace: the trace of the call.
      prim: the primitive that is called.
      operands: the call's operands.
      attrs: the call's attributes.

    Returns:
      The functions' graphs by attribute, and the operands to add to the call: what the functions capture.
    """
    graphs: dict[str, Graph] = {}
    for name, value in attrs.items():
        if _is_function(value):
            graphs[name] = _graph_of(trace, prim, name, operands, {**attrs, **graphs})
    captured = _captured_by(graphs, attrs)
    if not captured or prim.name.removeprefix("effect_") not in CONTROL_FLOW:
        return graphs, []
    return {name: graph.capturing(captured) for name, graph in graphs.items()}, [trace.own(outer) for outer in captured]


def _is_function(value: Any) -> bool:
    """Returns whether an attribute is a subgraph: a Graph, or an interpreter's Subfunction."""
    return isinstance(value, Graph) or hasattr(value, "mod")


def _graph_of(
    trace: GraphBuilder, prim: Primitive[Any], name: str, operands: Sequence[SymbolicTensor], attrs: dict[str, Any]
) -> Graph:
    """Traces a function attribute of a call, such as a loop's body, and returns the graph.

    The function's parameters have the types of the call's last operands, unless the primitive has a rule ``operands``.

    Args:
      trace: the trace of the call.
      prim: the primitive that is called.
      name: the name of the attribute that holds the function.
      operands: the operands of the call.
      attrs: the call's attributes; functions traced already are replaced by their graphs.
    """
    function = attrs[name]
    if isinstance(function, Graph):
        return function
    params = function.mod[function.name].params
    operand_types = [operand._type for operand in operands]
    # For example, a condition is an operand of `cond`, but no argument of a branch: the first operands are left out.
    first_argument = len(operands) - len(params)
    types = prim.operands(name, operand_types, attrs) if prim.operands else operand_types[first_argument:]
    with tracing(trace.inner(function.name)) as inner:
        inner.is_in_branch |= name not in ALWAYS_RUN
        outputs = function(
            *[inner.add_param(type_, param.name) for type_, param in zip(with_readable_dims(types), params)]
        )
    return inner.finish(outputs)


def _captured_by(graphs: Mapping[str, Graph], attrs: Mapping[str, Any]) -> list[Any]:
    """Returns what functions of a call capture while they are traced again, each tensor or Variable once.

    The call's operands hold what was captured when the functions were first traced. Tracing them again may capture
    more: a deferred call in a loop's body may become a call of Python, which is a parameter of the program.

    Args:
      graphs: the graphs of the call's functions, by the names of their attributes.
      attrs: the call's attributes.
    """
    captured_by_id: dict[int, Any] = {}
    for name, graph in graphs.items():
        is_traced_again = graph is not attrs[name]
        if is_traced_again:
            captured_by_id.update((id(outer), outer) for outer, _ in graph.captures)
    return list(captured_by_id.values())
