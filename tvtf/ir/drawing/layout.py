"""The layout of a drawing: positions of boxes and edges, in pixels from the upper left corner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tvtf.ir.drawing.graph import Graph, Node
from tvtf.ir.short_types import MAX_CHARACTERS

FONT_SIZE, SMALL_FONT_SIZE = 13.0, 11.0
# Monospaced fonts are 0.60 (Menlo, DejaVu, Liberation) to 0.55 (Consolas) of their size wide; bold ones no wider.
CHARACTER_WIDTH = 0.62
LINE_HEIGHT = 1.35
PADDING = 9.0
LEAST_WIDTH = 56.0
TIME_COLUMNS = len("1,234.5 us  100%")
GAP = 22.0
LAYER_GAP = 38.0

Point = tuple[float, float]


class Box(NamedTuple):
    """A box by its centre and size."""

    x: float
    y: float
    width: float
    height: float


@dataclass
class Layout:
    """The boxes by node, the control points of each edge's Bézier curves, and the size of the drawing."""

    boxes: list[Box]
    curves: list[list[Point]]
    width: float
    height: float


def size_of(node: Node, is_timed: bool) -> tuple[float, float]:
    """Returns the width and height in pixels of a node's box, which contains a title and lines.

    If ``is_timed``, the drawing shows measured times: the box of a node with a time has one more line.
    """
    line_lengths = [len(line) for line in node.lines]
    if is_timed and node.seconds is not None:
        line_lengths.append(TIME_COLUMNS)
    columns = min(max(line_lengths, default=0), MAX_CHARACTERS)
    width = CHARACTER_WIDTH * max(len(node.title) * FONT_SIZE, columns * SMALL_FONT_SIZE)
    height = LINE_HEIGHT * (FONT_SIZE + SMALL_FONT_SIZE * len(line_lengths))
    return max(width + 2 * PADDING, LEAST_WIDTH), height + 1.4 * PADDING


def sizes_of(graph: Graph) -> list[tuple[float, float]]:
    """Returns the width and height in pixels of each node's box."""
    return [size_of(node, graph.is_timed) for node in graph.nodes]
