"""What is drawn of a function: a box for each kernel, input and result, and which values go from one to another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from textwrap import wrap
from typing import Any, Literal

from tvm import ir, relax

from tvtf.ir.entry import MAIN, Entry
from tvtf.ir.function_printer import FunctionPrinter, Page
from tvtf.ir.short_types import short_type
from tvtf.ir.tuple_items import outputs_of

Kind = Literal["input", "variable", "kernel", "fused", "control", "result"]
BOX_COLUMNS = 34
"""The most characters in a line of a box."""
MOST_OP_LINES = 4
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
    """A value that goes from one box to another, by their places."""

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
    """Returns the graph that is drawn of a module's ``main``: its calls, inputs and results.

    ``parts`` are the ops of fused kernels, ``seconds`` the measured times of kernels, both by the kernels' names.
    """
    builder = Builder(mod, entry, parts)
    builder.build()
    if seconds:
        _set_times(builder, seconds)
    return builder.graph


class Builder:
    """Collects the boxes of ``main``; ``made`` has the boxes that a variable comes from."""

    def __init__(self, mod: ir.IRModule, entry: Entry, parts: Mapping[str, list[str]]) -> None:
        self.mod = mod
        self.parts = parts
        self.graph = Graph(entry.name)
        self.printer = FunctionPrinter(Page(mod, entry), MAIN, mod[MAIN], 0)
        self.made: dict[Any, list[int]] = {}
        self.kernel_of: dict[int, str] = {}

    def build(self) -> None:
        """Adds nodes for the inputs, each call or branch, the new values of Variables, and the results."""
        main = self.mod[MAIN]
        outputs, bindings = outputs_of(main)
        for param in main.params:
            node_kind: Kind = "variable" if self.printer.is_donated(param) else "input"
            notes = ["updated in place"] if node_kind == "variable" else []
            self._add(
                Node(node_kind, _fit(self.printer.name_of(param)), [_fit(short_type(param.ty)), *notes]), [], param
            )
        for binding in bindings:
            self._bind(binding.var, getattr(binding, "value", None))
        for param, output in self.printer.updates(outputs):
            self._add(Node("variable", _fit(self.printer.name_of(param)), ["new value"]), [output])
        for result in self.printer.returned(outputs):
            caption = result.label or result.name or result.value[0].text
            self._add(
                Node("result", _fit(caption), [result.type] if result.type else []),
                [] if result.var is None else [result.var],
            )

    def _bind(self, var: Any, value: Any) -> None:
        """Adds a node for a binding of a call or branch.

        A binding that only renames a value, makes a tuple or takes an item of one gets no node: its users are connected to
        the nodes of its operands.
        """
        if isinstance(value, relax.Call):
            self._call(var, value)
        elif isinstance(value, relax.If):
            lines = [*self._body_lines("then", value.true_branch), *self._body_lines("else", value.false_branch)]
            self._add(Node("control", "if", [*lines, _type_line(var)]), relax.analysis.free_vars(value), var)
        elif value is not None:
            self.made[var] = [*chain.from_iterable(self.made.get(v, []) for v in relax.analysis.free_vars(value))]

    def _call(self, var: Any, call: relax.Call) -> None:
        """Adds a node for a call, whose lines list the ops of a fused kernel, or those in a loop's body or a branch."""
        printed = self.printer.values.value(call)
        name = printed.tokens[0].text
        ops = self.parts.get(name, [])
        bodies = [
            line for label, function in printed.functions for line in self._body_lines(label, self.mod[function].body)
        ]
        kind: Kind = "control" if bodies else "fused" if len(ops) > 1 else "kernel"
        lines = [*(_wrapped_words(ops) if len(ops) > 1 else []), *bodies, _type_line(var), self.printer.source(call)]
        node = Node(kind, _fit(name), [line for line in lines if line], name)
        self.kernel_of[len(self.graph.nodes)] = name
        self._add(node, relax.analysis.free_vars(call), var)

    def _body_lines(self, label: str, body: Any) -> list[str]:
        """Returns the kernels of a branch or a loop's body, in a few lines."""
        return _wrapped_words([f"{label}:", *self._op_names(body)], " ")

    def _op_names(self, body: Any) -> Iterator[str]:
        """Yields the names of the ops in a function's body, with those of the functions that it calls, and "if" for a branch."""
        for binding in (b for block in body.blocks for b in block.bindings):
            value = getattr(binding, "value", None)
            if isinstance(value, relax.If):
                yield "if"
            elif isinstance(value, relax.Call):
                printed = self.printer.values.value(value)
                called = [self.mod[function].body for label, function in printed.functions if not label]
                yield from chain.from_iterable(map(self._op_names, called)) if called else [printed.tokens[0].text]

    def _add(self, node: Node, operands: Sequence[Any], var: Any = None) -> None:
        """Adds a node, and edges from the nodes that computed its operands; ``var`` is the variable that it computes."""
        node_index = len(self.graph.nodes)
        self.graph.nodes.append(node)
        for operand in operands:
            hover = f"{self.printer.name_of(operand)}: {short_type(operand.ty)}"
            for tail in dict.fromkeys(self.made.get(operand, [])):
                self.graph.edges.append(Edge(tail, node_index, hover))
        if var is not None:
            self.made[var] = [node_index]


def _type_line(var: Any) -> str:
    """Returns the type of a value, or of the only one in a tuple."""
    fields: Sequence[Any] = getattr(var.ty, "fields", ())
    return _fit(short_type(fields[0] if len(fields) == 1 else var.ty))


def _set_times(builder: Builder, seconds: Mapping[str, float]) -> None:
    """Sets the measured times of nodes, given those of kernels; the nodes of one kernel share its time equally.

    A loop is compiled to a kernel ``loop``, ``loop_1`` ...: they belong to the loops in order, if there are as many.
    """
    call_counts = Counter(builder.kernel_of.values())
    loops = [index for index, name in builder.kernel_of.items() if name in LOOPS]
    # By length first, so that loop_10 follows loop_9.
    loop_kernels = sorted((n for n in seconds if _LOOP_KERNEL.fullmatch(n)), key=lambda n: (len(n), n))
    kernel_of_loop = dict(zip(loops, loop_kernels)) if len(loops) == len(loop_kernels) else {}
    for index, name in builder.kernel_of.items():
        kernel_seconds = seconds.get(kernel_of_loop.get(index, name))
        if kernel_seconds is not None:
            calls = 1 if index in kernel_of_loop else call_counts[name]
            builder.graph.nodes[index].seconds = kernel_seconds / calls


def _wrapped_words(words: Sequence[str], separator: str = " + ") -> list[str]:
    """Words in lines of a box, the first few."""
    lines = wrap(separator.join(words), BOX_COLUMNS, break_on_hyphens=False)
    return lines if len(lines) <= MOST_OP_LINES else [*lines[: MOST_OP_LINES - 1], "..."]


def _fit(text: str) -> str:
    """Shortens a text to fit in a line of a box."""
    return text if len(text) <= BOX_COLUMNS else f"{text[: BOX_COLUMNS - 3]}..."
