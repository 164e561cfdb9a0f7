"""Layout by graphviz's ``dot``, where that program is installed."""

from __future__ import annotations

import shutil
import subprocess

from tvtf.ir.drawing.graph import Graph
from tvtf.ir.drawing.layout import GAP, LAYER_GAP, Box, Layout, Point, sizes_of

INCH = 72.0
"""Pixels of an inch, in which dot measures."""
MOST_SECONDS = 20.0


def dot_layout(graph: Graph) -> Layout | None:
    """Lays a graph out with Graphviz's program ``dot``; None if it isn't installed, fails or takes too long."""
    program = shutil.which("dot")
    if program is None or not graph.nodes:
        return None
    try:
        done = subprocess.run(
            [program, "-Tplain", "-y"], input=_source(graph), capture_output=True, text=True, timeout=MOST_SECONDS
        )
        return _parsed(done.stdout, graph) if done.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _source(graph: Graph) -> str:
    """Writes a graph in Graphviz's language, with the sizes of its nodes; their labels aren't needed for the layout."""
    nodes = [f"n{i} [width={w / INCH:.4f} height={h / INCH:.4f}]" for i, (w, h) in enumerate(sizes_of(graph))]
    edges = [f"n{e.tail} -> n{e.head}" for e in graph.edges]
    gaps = f"nodesep={GAP / INCH:.3f} ranksep={LAYER_GAP / INCH:.3f}"
    # With `dir=none` curves end at the boxes: dot would shorten them by the arrow heads, which are drawn elsewhere.
    style = 'node [shape=box fixedsize=true label=""] edge [dir=none]'
    return "\n".join(["digraph {", gaps, style, *nodes, *edges, "}"])


def _parsed(plain_text: str, graph: Graph) -> Layout:
    """Reads the layout from ``dot -Tplain``: a line for the graph, each node and each edge, in inches.

    Its words are ``graph scale width height``, ``node name x y width height ...`` and
    ``edge tail head count x1 y1 x2 y2 ...``, with the control points of the edge's curve.

    Raises:
      ValueError: the text has another form.
    """
    rows = [line.split() for line in plain_text.splitlines()]
    boxes = {int(r[1][1:]): Box(*(float(v) * INCH for v in r[2:6])) for r in rows if r[0] == "node"}
    curves: dict[tuple[int, int], list[list[Point]]] = {}
    for row in (r for r in rows if r[0] == "edge"):
        tail, head, count = int(row[1][1:]), int(row[2][1:]), int(row[3])
        values = [float(v) * INCH for v in row[4 : 4 + 2 * count]]
        curves.setdefault((tail, head), []).append(list(zip(values[::2], values[1::2])))
    (size,) = (r for r in rows if r[0] == "graph")
    if len(boxes) != len(graph.nodes):
        raise ValueError(f"dot laid out {len(boxes)} of {len(graph.nodes)} nodes")
    ordered = [curves[e.tail, e.head].pop() for e in graph.edges]
    return Layout([boxes[i] for i in range(len(boxes))], ordered, float(size[2]) * INCH, float(size[3]) * INCH)
