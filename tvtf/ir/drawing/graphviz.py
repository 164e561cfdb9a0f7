"""Layout by graphviz's ``dot``, where that program is installed."""

from __future__ import annotations

import shutil
import subprocess

from tvtf.ir.drawing.graph import Graph
from tvtf.ir.drawing.layout import GAP, LAYER_GAP, Box, Layout, Point, sizes_of

INCH = 72.0
"""Pixels of an inch, in which dot measures."""
MAX_SECONDS = 20.0


def dot_layout(graph: Graph) -> Layout | None:
    """Computes a graph's layout with Graphviz's program ``dot``.

    Returns None if ``dot`` isn't installed, fails or takes longer than ``MAX_SECONDS``, or if the graph is empty.
    """
    program = shutil.which("dot")
    if program is None or not graph.nodes:
        return None
    try:
        # `-Tplain`: positions as text; `-y`: the y axis points down, as in SVG.
        completed = subprocess.run(
            [program, "-Tplain", "-y"], input=_source(graph), capture_output=True, text=True, timeout=MAX_SECONDS
        )
        return _parsed(completed.stdout, graph) if completed.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None


def _source(graph: Graph) -> str:
    """Returns a graph as text in Graphviz's language. Nodes have their sizes, but no labels: the layout needs none."""
    # With `dir=none` curves end at the boxes: dot would shorten them by the arrow heads, which are drawn elsewhere.
    style = 'node [shape=box fixedsize=true label=""] edge [dir=none]'
    gaps = f"nodesep={GAP / INCH:.3f} ranksep={LAYER_GAP / INCH:.3f}"
    lines = ["digraph {", gaps, style]
    for index, (width, height) in enumerate(sizes_of(graph)):
        lines.append(f"n{index} [width={width / INCH:.4f} height={height / INCH:.4f}]")
    lines += [f"n{edge.tail} -> n{edge.head}" for edge in graph.edges]
    return "\n".join([*lines, "}"])


def _parsed(plain_text: str, graph: Graph) -> Layout:
    """Parses the output of ``dot -Tplain`` to a layout. Sizes in the text are inches.

    The text has a line ``graph scale width height``, a line ``node name x y width height ...`` for each node, and a line
    ``edge tail head count x1 y1 x2 y2 ...`` for each edge, with the control points of the edge's curve.

    Raises:
      ValueError: the text is not a layout of this graph in the "plain" format.
    """
    boxes: dict[int, Box] = {}
    curves: dict[tuple[int, int], list[list[Point]]] = {}  # by tail and head: several edges may connect the same nodes
    sizes = []
    for kind, *fields in map(str.split, plain_text.splitlines()):
        if kind == "node":
            # Nodes are named n0, n1 ...: without the letter, a name is an index.
            boxes[int(fields[0][1:])] = Box(*(float(field) * INCH for field in fields[1:5]))
        elif kind == "edge":
            tail = int(fields[0][1:])
            head = int(fields[1][1:])
            count = int(fields[2])
            coordinates = [float(field) * INCH for field in fields[3 : 3 + 2 * count]]
            curves.setdefault((tail, head), []).append(list(zip(coordinates[::2], coordinates[1::2])))
        elif kind == "graph":
            sizes.append((float(fields[1]) * INCH, float(fields[2]) * INCH))
    ((width, height),) = sizes
    if len(boxes) != len(graph.nodes):
        raise ValueError(f"dot laid out {len(boxes)} of {len(graph.nodes)} nodes")
    ordered_curves = [curves[edge.tail, edge.head].pop() for edge in graph.edges]
    return Layout([boxes[i] for i in range(len(boxes))], ordered_curves, width, height)
