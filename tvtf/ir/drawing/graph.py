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
    """Returns the graph of a module's ``main``."""
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
        """Adds boxes for the inputs, each call, and the results."""
        main = self.mod[MAIN]
        outputs, bindings = outputs_of(main)
        for param in main.params:
            kind: Kind = "variable" if self.printer.is_donated(param) else "input"
            note = ["updated in place"] if kind == "variable" else []
            self._add(Node(kind, _fit(self.printer.name_of(param)), [_fit(short_type(param.ty)), *note]), [], param)
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
        """Adds a node for a call or branch; names and tuples stand for the nodes of their values.

        So a drawing shows what is computed, and not how it is named.
        """
        if isinstance(value, relax.Call):
            self._call(var, value)
        elif isinstance(value, relax.If):
            lines = [*self._inner("then", value.true_branch), *self._inner("else", value.false_branch)]
            self._add(Node("control", "if", [*lines, _type_line(var)]), relax.analysis.free_vars(value), var)
        elif value is not None:  # names, tuples and their items
            self.made[var] = [*chain.from_iterable(self.made.get(v, []) for v in relax.analysis.free_vars(value))]

    def _call(self, var: Any, call: relax.Call) -> None:
        """Adds a node for a call, with the ops of a fused kernel and the contents of functions that it calls."""
        written = self.printer.values.value(call)
        name = written.tokens[0].text
        ops = self.parts.get(name, [])
        inner = [line for label, f in written.functions for line in self._inner(label, self.mod[f].body)]
        kind: Kind = "control" if inner else "fused" if len(ops) > 1 else "kernel"
        lines = [*(_wrapped(ops) if len(ops) > 1 else []), *inner, _type_line(var), self.printer.source(call)]
        node = Node(kind, _fit(name), [line for line in lines if line], name)
        self.kernel_of[len(self.graph.nodes)] = name
        self._add(node, relax.analysis.free_vars(call), var)

    def _inner(self, label: str, body: Any) -> list[str]:
        """Returns the kernels of a branch or a loop's body, in a few lines."""
        return _wrapped([f"{label}:", *self._names(body)], " ")

    def _names(self, body: Any) -> Iterator[str]:
        """Yields the names of the ops in a body, those of called functions and branches included."""
        for binding in (b for block in body.blocks for b in block.bindings):
            value = getattr(binding, "value", None)
            if isinstance(value, relax.If):
                yield "if"
            elif isinstance(value, relax.Call):
                written = self.printer.values.value(value)
                called = [self.mod[f].body for label, f in written.functions if not label]
                yield from chain.from_iterable(map(self._names, called)) if called else [written.tokens[0].text]

    def _add(self, node: Node, operands: Sequence[Any], var: Any = None) -> None:
        """Adds a node, and edges from the nodes that computed its operands."""
        place = len(self.graph.nodes)
        self.graph.nodes.append(node)
        for operand in operands:
            hover = f"{self.printer.name_of(operand)}: {short_type(operand.ty)}"
            for tail in dict.fromkeys(self.made.get(operand, [])):
                self.graph.edges.append(Edge(tail, place, hover))
        if var is not None:
            self.made[var] = [place]


def _type_line(var: Any) -> str:
    """Returns the type of a value, or of the only one in a tuple."""
    fields: Sequence[Any] = getattr(var.ty, "fields", ())
    return _fit(short_type(fields[0] if len(fields) == 1 else var.ty))


def _set_times(builder: Builder, seconds: Mapping[str, float]) -> None:
    """Gives boxes their kernels' times: boxes of one kernel share its time, native loops are named in order."""
    shared = Counter(builder.kernel_of.values())
    loops = [place for place, name in builder.kernel_of.items() if name in LOOPS]
    native = sorted((n for n in seconds if _LOOP_KERNEL.fullmatch(n)), key=lambda n: (len(n), n))
    of_loops = dict(zip(loops, native)) if len(loops) == len(native) else {}
    for place, name in builder.kernel_of.items():
        took = seconds.get(of_loops.get(place, name))
        if took is not None:
            builder.graph.nodes[place].seconds = took / (1 if place in of_loops else shared[name])


def _wrapped(words: Sequence[str], separator: str = " + ") -> list[str]:
    """Words in lines of a box, the first few."""
    lines = wrap(separator.join(words), BOX_COLUMNS, break_on_hyphens=False)
    return lines if len(lines) <= MOST_OP_LINES else [*lines[: MOST_OP_LINES - 1], "..."]


def _fit(text: str) -> str:
    """Shortens a text to fit in a line of a box."""
    return text if len(text) <= BOX_COLUMNS else f"{text[: BOX_COLUMNS - 3]}..."
