"""A layered layout of our own, for where graphviz isn't installed: boxes in rows, edges from one row to the next.

Sugiyama's method: rows by longest paths, points in the rows that an edge crosses, an order within rows by the mean of neighbours,
places by the same under the widths of the boxes.
Source: https://doi.org/10.1109/TSMC.1981.4308636
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from tvtf.ir.drawing.graph import Graph
from tvtf.ir.drawing.layout import GAP, LAYER_GAP, Box, Layout, Point, sizes_of

SWEEPS = 12
"""Rounds of ordering and of placing: more change little in graphs of a few hundred boxes."""
POINT_WIDTH = 6.0
"""How much room a crossing edge takes in a row."""


def layered_layout(graph: Graph) -> Layout:
    """Boxes in rows, each below all that it takes values from."""
    return _Layers(graph).layout()


class _Layers:
    """Rows of items: first the graph's boxes, then the points at which edges cross rows."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.sizes = sizes_of(graph)
        self.rank = _ranks(graph)
        self.paths = [self._path(edge.tail, edge.head) for edge in graph.edges]
        self.above: list[list[int]] = [[] for _ in self.sizes]
        self.below: list[list[int]] = [[] for _ in self.sizes]
        for a, b in dict.fromkeys(pair for path in self.paths for pair in zip(path, path[1:])):
            self.below[a].append(b)
            self.above[b].append(a)
        self.rows = [[i for i, r in enumerate(self.rank) if r == row] for row in range(max(self.rank, default=-1) + 1)]

    def _path(self, tail: int, head: int) -> list[int]:
        """Returns the items along an edge: its boxes, and a new point in each row between.

        A line between distant rows has to pass between the boxes of the rows in the middle.
        """
        between = []
        for row in range(self.rank[tail] + 1, self.rank[head]):
            between.append(len(self.sizes))
            self.sizes.append((POINT_WIDTH, 0.0))
            self.rank.append(row)
        return [tail, *between, head]

    def layout(self) -> Layout:
        """Orders and places the rows."""
        self._order()
        x = self._places()
        tops = self._tops()
        centres = [tops[row] + self._height(row) / 2 for row in range(len(self.rows))]
        boxes = [Box(x[i], centres[self.rank[i]], *self.sizes[i]) for i in range(len(self.graph.nodes))]
        curves = [self._curve(path, x, tops) for path in self.paths]
        width = max((b.x + b.width / 2 for b in boxes), default=0.0)
        return Layout(boxes, curves, width, tops[-1] + self._height(len(self.rows) - 1) if self.rows else 0.0)

    def _order(self) -> None:
        """Sorts each row by the mean position of neighbours in the row above or below, in alternate sweeps."""
        for sweep in range(SWEEPS):
            place = {i: k for row in self.rows for k, i in enumerate(row)}
            neighbours = self.above if sweep % 2 == 0 else self.below
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                mean = {i: fmean([place[n] for n in neighbours[i]] or [place[i]]) for i in row}
                row.sort(key=lambda i: (mean[i], i))
                place.update((i, k) for k, i in enumerate(row))

    def _places(self) -> list[float]:
        """Returns the x of each item's centre: near the mean of its neighbours, in the row's order, without overlap."""
        x = [0.0] * len(self.sizes)
        for row in self.rows:
            self._put(row, [0.0] * len(row), x)
        for sweep in range(SWEEPS):
            # Downward by the rows above, then upward by the rows below.
            neighbours = self.above if sweep % 2 == 0 else self.below
            for row in self.rows if sweep % 2 == 0 else reversed(self.rows):
                self._put(row, [fmean([x[n] for n in neighbours[i]] or [x[i]]) for i in row], x)
        left = min((x[i] - self.sizes[i][0] / 2 for i in range(len(x))), default=0.0)
        return [value - left for value in x]

    def _put(self, row: Sequence[int], wanted: Sequence[float], x: list[float]) -> None:
        """Places a row as near to what is wanted as its widths allow: between the leftmost and the rightmost that do."""
        from_left = self._pushed(row, wanted, max, 1)
        from_right = self._pushed(row[::-1], wanted[::-1], min, -1)[::-1]
        for i, a, b in zip(row, from_left, from_right):
            x[i] = (a + b) / 2

    def _pushed(
        self, row: Sequence[int], wanted: Sequence[float], further: Callable[[float, float], float], sign: int
    ) -> list[float]:
        """Returns positions close to the wanted ones, in one direction, so that boxes don't overlap."""
        found: list[float] = []
        for k, (i, want) in enumerate(zip(row, wanted)):
            distance = (self.sizes[row[k - 1]][0] + self.sizes[i][0]) / 2 + GAP if k else 0.0
            found.append(further(want, found[-1] + sign * distance) if k else want)
        return found

    def _height(self, row: int) -> float:
        return max(self.sizes[i][1] for i in self.rows[row])

    def _tops(self) -> list[float]:
        tops: list[float] = []
        for row in range(len(self.rows)):
            tops.append(tops[-1] + self._height(row - 1) + LAYER_GAP if tops else 0.0)
        return tops

    def _curve(self, path: Sequence[int], x: Sequence[float], tops: Sequence[float]) -> list[Point]:
        """Draws a line down from the box above, straight through the rows that it crosses, into the box below."""
        stops: list[Point] = []
        for k, item in enumerate(path):
            row = self.rank[item]
            if 0 < k < len(path) - 1:
                stops += [(x[item], tops[row]), (x[item], tops[row] + self._height(row))]
                continue
            middle, half = tops[row] + self._height(row) / 2, self.sizes[item][1] / 2
            stops.append((x[item], middle + half if k == 0 else middle - half))
        points = stops[:1]
        # Cubic Bézier curves, which start and end vertically.
        for (x0, y0), (x1, y1) in zip(stops, stops[1:]):
            points += [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)]
        return points


def _ranks(graph: Graph) -> list[int]:
    """Returns the row of each box: below all that it takes values from; inputs just above the first that takes them."""
    rank = [0] * len(graph.nodes)
    # Boxes follow those that they take values from, so that a tail's row is final here.
    for edge in sorted(graph.edges, key=lambda e: e.head):
        rank[edge.head] = max(rank[edge.head], rank[edge.tail] + 1)
    fed = {edge.head for edge in graph.edges}
    for i in range(len(rank)):
        takers = [rank[e.head] for e in graph.edges if e.tail == i]
        if i not in fed and takers:
            rank[i] = min(takers) - 1
    return rank
