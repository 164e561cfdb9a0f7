"""The graph that is drawn of a function: a node for each kernel, input and result, and an edge for each value between them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any, Literal

from tvm import ir, relax

from tvtf.ir.dialect import bindings_of
from tvtf.ir.entry import MAIN, Entry
from tvtf.ir.function_printer import FunctionPrinter, Page
from tvtf.ir.short_types import short_type
from tvtf.ir.tuple_items import outputs_of

Kind = Literal["input", "variable", "kernel", "fused", "control", "result"]
BOX_COLUMNS = 34
"""The most characters in a line of a box."""
MAX_OP_LINES = 4
_LOOP_KERNEL = re.compile(r"loop(_\d+)?")
LOOPS = ("while", "while_loop")


@dataclass
class Node:
    """A box: its title, smaller lines under it, a tooltip, and its seconds if they were measured."""

    kind: Kind
    title: str
    lines: list[str] = field(default_factory=list)
    hover: str = ""
    seconds: float | None = None


@dataclass(frozen=True)
class Edge:
    """A value that goes from one box to another. ``tail`` and ``head`` are indices of the boxes."""

    tail: int
    head: int
    hover: str


@dataclass
class Graph:
    """Boxes and edges of one function; edges go from earlier boxes to later ones."""

    name: str
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)

    @property
    def is_timed(self) -> bool:
        """Whether times of kernels are known."""
        return any(node.seconds is not None for node in self.nodes)


def graph_of(
    mod: ir.IRModule, entry: Entry, parts: Mapping[str, list[str]], seconds: Mapping[str, float] | None
) -> Graph:
    """Builds the graph to draw for a module's ``main``: a node for each input, call and result.

    ``parts`` are the ops of fused kernels, and ``seconds`` the measured times of kernels, both by the kernels' names.
    """
    builder = Builder(mod, entry, parts)
    builder.build()
    if seconds:
        _set_times(builder, seconds)
    return builder.graph


class Builder:
    """Builds the graph of ``main``. ``node_indices`` maps a Relax variable to the nodes that its value comes from."""

    def __init__(self, mod: ir.IRModule, entry: Entry, parts: Mapping[str, list[str]]) -> None:
        self.mod = mod
        self.parts = parts
        self.graph = Graph(entry.name)
        self.printer = FunctionPrinter(Page(mod, entry), MAIN, mod[MAIN], 0)
        self.node_indices: dict[Any, list[int]] = {}
        self.kernel_of: dict[int, str] = {}  # the callee's name, by the index of a call's node

    def build(self) -> None:
        """Adds nodes for the inputs, each call or branch, the new values of Variables, and the results."""
        main = self.mod[MAIN]
        outputs, bindings = outputs_of(main)
        for param in main.params:
            title = _fit(self.printer.name_of(param))
            type_text = _fit(short_type(param.ty))
            if self.printer.is_donated(param):
                node = Node("variable", title, [type_text, "updated in place"])
            else:
                node = Node("input", title, [type_text])
            self._add_node(node, [], param)
        for binding in bindings:
            self._add_binding(binding.var, getattr(binding, "value", None))
        for param, output in self.printer.updates(outputs):  # outputs that are new values of Variables
            self._add_node(Node("variable", _fit(self.printer.name_of(param)), ["new value"]), [output])
        for result in self.printer.returned(outputs):
            title = _fit(result.label or result.name or result.value[0].text)
            node = Node("result", title, [result.type] if result.type else [])
            self._add_node(node, [] if result.var is None else [result.var])

    def _add_binding(self, var: Any, value: Any) -> None:
        """Adds a node for the binding of a call or branch.

        Other bindings rename a value, build a tuple, or take an item of a tuple. They get no node: users of the variable
        are connected to the nodes of the operands.
        """
        if value is None:
            return
        if isinstance(value, relax.Call):
            self._add_call(var, value)
            return
        operands = relax.analysis.free_vars(value)
        if isinstance(value, relax.If):
            lines = [*self._body_lines("then", value.true_branch), *self._body_lines("else", value.false_branch)]
            self._add_node(Node("control", "if", [*lines, _type_line(var)]), operands, var)
            return
        operand_nodes: list[int] = []
        for operand in operands:
            operand_nodes += self.node_indices.get(operand, [])
        self.node_indices[var] = operand_nodes

    def _add_call(self, var: Any, call: relax.Call) -> None:
        """Adds a node for a call. The node's lines list the ops of a fused kernel, of a loop's body, or of branches."""
        printed = self.printer.values.value(call)
        name = printed.tokens[0].text
        ops = self.parts.get(name, [])
        kind: Kind = "kernel"
        lines = []
        if len(ops) > 1:  # the name of a kernel of one op says which op it is
            kind = "fused"
            lines += _wrapped_words(ops)
        for label, function in printed.functions:
            body_lines = list(self._body_lines(label, self.mod[function].body))
            if body_lines:
                kind = "control"
            lines += body_lines
        lines += [_type_line(var), self.printer.source(call)]
        node = Node(kind, _fit(name), [line for line in lines if line], name)
        self.kernel_of[len(self.graph.nodes)] = name
        self._add_node(node, relax.analysis.free_vars(call), var)

    def _body_lines(self, label: str, body: Any) -> list[str]:
        """Formats the names of the kernels in a branch or a loop's body as a few lines that start with ``label``."""
        return _wrapped_words([f"{label}:", *self._op_names(body)], " ")

    def _op_names(self, body: Any) -> Iterator[str]:
        """Yields the names of the ops in a function's body, and "if" for a branch.

        A call of a function yields the names of the ops in that function.
        """
        for binding in bindings_of(body):
            value = getattr(binding, "value", None)
            if isinstance(value, relax.If):
                yield "if"
            elif isinstance(value, relax.Call):
                printed = self.printer.values.value(value)
                # The callee is the function without a label; the others are bodies of loops, for example.
                callees = [function for label, function in printed.functions if not label]
                for callee in callees:
                    yield from self._op_names(self.mod[callee].body)
                if not callees:
                    yield printed.tokens[0].text

    def _add_node(self, node: Node, operands: Sequence[Any], var: Any = None) -> None:
        """Adds a node, and edges from the nodes of its operands. ``var`` is the variable that the node computes."""
        node_index = len(self.graph.nodes)
        self.graph.nodes.append(node)
        for operand in operands:
            hover = f"{self.printer.name_of(operand)}: {short_type(operand.ty)}"
            for tail in dict.fromkeys(self.node_indices.get(operand, [])):  # one edge for each node, in a fixed order
                self.graph.edges.append(Edge(tail, node_index, hover))
        if var is not None:
            self.node_indices[var] = [node_index]


def _type_line(var: Any) -> str:
    """Formats the type of a variable in one line; for a tuple of one item, the type of the item."""
    fields: Sequence[Any] = getattr(var.ty, "fields", ())
    return _fit(short_type(fields[0] if len(fields) == 1 else var.ty))


def _set_times(builder: Builder, seconds: Mapping[str, float]) -> None:
    """Sets the measured times of nodes from the times of kernels. Nodes of the same kernel share its time equally.

    Loops are compiled to kernels ``loop``, ``loop_1`` ..., which are matched with the loops in order. If the numbers of
    loops and of such kernels differ, loops get no time.

    Args:
      builder: holds the graph, and the kernel of each node.
      seconds: the time of each kernel by its name.
    """
    call_counts = Counter(builder.kernel_of.values())
    loop_nodes = [index for index, name in builder.kernel_of.items() if name in LOOPS]
    loop_kernels = [name for name in seconds if _LOOP_KERNEL.fullmatch(name)]
    loop_kernels.sort(key=lambda name: (len(name), name))  # by length first, so that loop_10 follows loop_9
    kernel_of_loop = dict(zip(loop_nodes, loop_kernels)) if len(loop_nodes) == len(loop_kernels) else {}
    for index, name in builder.kernel_of.items():
        kernel_seconds = seconds.get(kernel_of_loop.get(index, name))
        if kernel_seconds is not None:
            # Each loop has a kernel of its own; other kernels may be called several times.
            call_count = 1 if index in kernel_of_loop else call_counts[name]
            builder.graph.nodes[index].seconds = kernel_seconds / call_count


def _wrapped_words(words: Sequence[str], separator: str = " + ") -> list[str]:
    """Joins words to text and breaks the text into lines of a box. At most ``MAX_OP_LINES`` lines are returned."""
    lines = wrap(separator.join(words), BOX_COLUMNS, break_on_hyphens=False)
    return lines if len(lines) <= MAX_OP_LINES else [*lines[: MAX_OP_LINES - 1], "..."]


def _fit(text: str) -> str:
    """Shortens a text to fit in a line of a box. A shortened text ends in "..."."""
    return text if len(text) <= BOX_COLUMNS else f"{text[: BOX_COLUMNS - 3]}..."
