"""A function's kernels drawn as a graph in SVG; ``fn.draw(...)`` (docs/ir.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tvm import ir

from tvtf.ir.drawing.graph import Graph, graph_of
from tvtf.ir.drawing.graphviz import dot_layout
from tvtf.ir.drawing.layered import layered_layout
from tvtf.ir.drawing.layout import Layout
from tvtf.ir.drawing.svg import svg_of
from tvtf.ir.entry import Entry


class Drawing:
    """A drawing of a compiled function: notebooks show it, :meth:`save` writes it to a file; ``svg`` is the SVG text."""

    def __init__(self, graph: Graph, layout: Layout) -> None:
        self.graph = graph
        self.layout = layout
        self.svg = svg_of(graph, layout)

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Writes the SVG into a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Drawing of {self.graph.name}: {len(self.graph.nodes)} boxes; .save(path) writes it as SVG>"


def draw_module(
    mod: ir.IRModule,
    entry: Entry,
    parts: Mapping[str, list[str]],
    seconds: Mapping[str, float] | None = None,
    layout: Callable[[Graph], Any] | None = None,
) -> Drawing:
    """Draws the calls of a module's ``main`` as a graph.

    Args:
      mod: the IRModule.
      entry: the user's names of the function, its arguments and its results.
      parts: the names of the ops in each fused kernel, by the kernel's name.
      seconds: the measured times of kernels, by the kernel's name.
      layout: computes the positions of boxes and edges; by default Graphviz's ``dot`` if installed, else rows of boxes.
    """
    graph = graph_of(mod, entry, parts, seconds)
    if layout is not None:
        return Drawing(graph, layout(graph))
    return Drawing(graph, dot_layout(graph) or layered_layout(graph))
