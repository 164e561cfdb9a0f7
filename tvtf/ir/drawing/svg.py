"""The SVG of a laid-out graph: boxes with text, curves with arrow heads, times as colours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from tvtf.ir.drawing.graph import Graph, Node
from tvtf.ir.drawing.layout import CHARACTER_WIDTH, FONT_SIZE, LINE_HEIGHT, PADDING, SMALL_FONT_SIZE, Box, Layout, Point

MARGIN = 14.0
CAPTION_HEIGHT = 30.0
FILLS = {
    "input": "#eef3f8",
    "variable": "#e9f5ea",
    "kernel": "#ffffff",
    "fused": "#f6eefb",
    "control": "#fff7e3",
    "result": "#eef3f8",
}
STROKES = {
    "input": "#8aa4bd",
    "variable": "#6fae76",
    "kernel": "#8c8c8c",
    "fused": "#a678c4",
    "control": "#cfa23a",
    "result": "#8aa4bd",
}
COLD, HOT = (255, 252, 235), (240, 110, 80)
"""The fill of a kernel that takes no time, and of the one that takes most; black text can be read on both."""
FONT = "ui-monospace, Menlo, 'DejaVu Sans Mono', 'Liberation Mono', Consolas, monospace"


def svg_of(graph: Graph, layout: Layout) -> str:
    """Draws a graph as an SVG document, given the layout of its boxes and edges. All names are escaped."""
    total = sum(node.seconds or 0.0 for node in graph.nodes)
    caption = graph.name + (f": {_microseconds(total)} in kernels, darker boxes take more of it" if total else "")
    width = max(layout.width, len(caption) * FONT_SIZE * CHARACTER_WIDTH) + 2 * MARGIN
    height = layout.height + CAPTION_HEIGHT + 2 * MARGIN
    longest = max((node.seconds or 0.0 for node in graph.nodes), default=0.0)
    boxes = [
        element
        for node, box in zip(graph.nodes, layout.boxes)
        for element in _box_elements(node, box, longest, total, graph.is_timed)
    ]
    edges = [_edge_element(points, edge.hover) for edge, points in zip(graph.edges, layout.curves)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" role="img">',
            '<defs><marker id="tvtf-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="#7a7a7a"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
            _text_element(caption, MARGIN, MARGIN + FONT_SIZE, FONT_SIZE, "start", bold=True),
            f'<g transform="translate({MARGIN:.1f} {MARGIN + CAPTION_HEIGHT:.1f})">',
            *edges,
            *boxes,
            "</g>",
            "</svg>",
        ]
    )


def _box_elements(node: Node, box: Box, longest: float, total: float, is_timed: bool) -> Iterator[str]:
    """Yields the SVG elements of a node: its frame, title and lines, and a line for its measured time.

    Args:
      node, box: the node, and the position and size of its frame.
      longest: the longest time of a node, in seconds: the colour shows the ratio of the node's time to it.
      total: the sum of all times: the last line shows the node's share of it.
      is_timed: whether times were measured.
    """
    fill = FILLS[node.kind]
    if node.seconds is not None and longest:
        fill = _heat(node.seconds / longest)
    elif is_timed and node.seconds is None and node.kind in ("kernel", "fused", "control"):
        fill = "#ffffff"  # in a drawing with times, other colours mean times
    corner_radius = min(box.height / 2, 14) if node.kind in ("input", "variable", "result") else 4
    left = box.x - box.width / 2
    top = box.y - box.height / 2
    yield f"<g><title>{escape(node.hover or node.title)}</title>"
    yield (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.1f}" height="{box.height:.1f}" '
        f'rx="{corner_radius:.1f}" fill="{fill}" stroke="{STROKES[node.kind]}"/>'
    )
    y = top + 0.7 * PADDING + FONT_SIZE
    yield _text_element(node.title, box.x, y, FONT_SIZE, "middle", bold=True)
    lines = list(node.lines)
    if node.seconds is not None:
        share = node.seconds / (total or 1.0)
        lines.append(f"{_microseconds(node.seconds)}  {share:.0%}")
    for line in lines:
        y += SMALL_FONT_SIZE * LINE_HEIGHT
        yield _text_element(line, box.x, y, SMALL_FONT_SIZE, "middle")
    yield "</g>"


def _text_element(text: str, x: float, y: float, size: float, anchor: str, bold: bool = False) -> str:
    """Returns the SVG element of a text. ``anchor``: whether the text starts at ``x`` or has its middle there."""
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}" fill="#1c1c1c"{weight}>'
        f"{escape(text)}</text>"
    )


def _edge_element(points: Sequence[Point], hover: str) -> str:
    """Returns the SVG element of an edge: Bézier curves with an arrow head. ``hover`` is the tooltip."""
    start, *rest = [f"{x:.1f} {y:.1f}" for x, y in points]
    return (
        f'<path d="M{start} C{" ".join(rest)}" fill="none" stroke="#7a7a7a" marker-end="url(#tvtf-arrow)">'
        f"<title>{escape(hover)}</title></path>"
    )


def _heat(share: float) -> str:
    """Returns the fill colour of a node: from light for the share 0 of the longest time to red for the share 1.

    >>> _heat(0.0), _heat(1.0)
    ('#fffceb', '#f06e50')
    """
    return "#" + "".join(f"{round(cold + (hot - cold) * share):02x}" for cold, hot in zip(COLD, HOT))


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"
