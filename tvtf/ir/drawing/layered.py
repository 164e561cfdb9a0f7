"""A layered layout of our own, for where graphviz isn't installed: boxes in rows, edges from one row to the next.

Sugiyama's method: rows by longest paths, points in the rows that an edge crosses, an order within rows by the mean of
neighbours (barycentre method), and x positions by the same without overlaps of boxes.
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
    """Computes a layout of a graph in rows. Each box is below all boxes that it takes values from."""
    return _Layers(graph).layout()


class _Layers:
    """Rows of items: first the graph's boxes, then the points at which edges cross rows."""

    def __init__(self, graph: Graph) -> None:
        """Assigns each node of a graph to a row, and adds points to the rows that edges cross."""
        self.graph = graph
        self.sizes = sizes_of(graph)
        self.rank = _row_indices(graph)
        self.paths = [self._items_on_edge(edge.tail, edge.head) for edge in graph.edges]
        self.above: list[list[int]] = [[] for _ in self.sizes]
        self.below: list[list[int]] = [[] for _ in self.sizes]
        for path in self.paths:
            for upper, lower in zip(path, path[1:]):
                if lower not in self.below[upper]:  # several edges may share a segment
                    self.below[upper].append(lower)
                    self.above[lower].append(upper)
        self.rows: list[list[int]] = [[] for _ in range(max(self.rank, default=-1) + 1)]
        for i, row in enumerate(self.rank):
            self.rows[row].append(i)

    def _items_on_edge(self, tail: int, head: int) -> list[int]:
        """Returns the items along an edge: its two boxes, and between them a new point for each row that the edge crosses.

        The points take room in their rows: the edge passes between the boxes of a row.

        Args:
          tail, head: the indices of the boxes that the edge connects.
        """
        points = []
        for row in range(self.rank[tail] + 1, self.rank[head]):
            points.append(len(self.sizes))  # the new item's index
            self.sizes.append((POINT_WIDTH, 0.0))
            self.rank.append(row)
        return [tail, *points, head]

    def layout(self) -> Layout:
        """Computes the layout: orders the items in each row, then places the boxes and draws the edges as curves."""
        self._order_rows()
        x = self._x_positions()
        tops = self._tops()
        boxes = []
        for i in range(len(self.graph.nodes)):
            row = self.rank[i]
            middle = tops[row] + self._height(row) / 2
            boxes.append(Box(x[i], middle, *self.sizes[i]))
        curves = [self._curve(path, x, tops) for path in self.paths]
        width = max((box.x + box.width / 2 for box in boxes), default=0.0)
        height = tops[-1] + self._height(len(self.rows) - 1) if self.rows else 0.0
        return Layout(boxes, curves, width, height)

    def _order_rows(self) -> None:
        """Sorts the items of each row by the mean column of their neighbours, to reduce crossings (the barycentre method).

        Sweeps alternate: down with the neighbours in the row above, then up with the neighbours in the row below.
        """
        columns: dict[int, int] = {}
        for row in self.rows:
            columns.update((i, column) for column, i in enumerate(row))
        for sweep in range(SWEEPS):
            is_downward = sweep % 2 == 0
            neighbours = self.above if is_downward else self.below
            for row in self.rows if is_downward else reversed(self.rows):
                means = {}
                for i in row:
                    neighbour_columns = [columns[neighbour] for neighbour in neighbours[i]]
                    means[i] = fmean(neighbour_columns or [columns[i]])  # without neighbours, an item keeps its column
                row.sort(key=lambda i: (means[i], i))
                columns.update((i, column) for column, i in enumerate(row))

    def _x_positions(self) -> list[float]:
        """Returns the x coordinate of each item's centre, close to the mean of the item's neighbours.

        Items keep the order of their row and don't overlap. The leftmost item starts at 0.
        """
        x = [0.0] * len(self.sizes)
        for row in self.rows:  # to begin with, side by side
            self._place_row(row, [0.0] * len(row), x)
        for sweep in range(SWEEPS):
            # Downward by the rows above, then upward by the rows below.
            is_downward = sweep % 2 == 0
            neighbours = self.above if is_downward else self.below
            for row in self.rows if is_downward else reversed(self.rows):
                desired = []
                for i in row:
                    neighbour_positions = [x[neighbour] for neighbour in neighbours[i]]
                    desired.append(fmean(neighbour_positions or [x[i]]))
                self._place_row(row, desired, x)
        left_edges = [centre - width / 2 for centre, (width, _) in zip(x, self.sizes)]
        leftmost = min(left_edges, default=0.0)
        return [centre - leftmost for centre in x]

    def _place_row(self, row: Sequence[int], desired: Sequence[float], x: list[float]) -> None:
        """Sets the x coordinates of a row's items in ``x``, close to the desired coordinates and without overlaps.

        The result is the mean of two solutions. One moves overlapping items to the right, the other to the left.
        """
        from_left = self._separated(row, desired, max, 1)
        from_right = self._separated(row[::-1], desired[::-1], min, -1)[::-1]
        for i, left, right in zip(row, from_left, from_right):
            x[i] = (left + right) / 2

    def _separated(
        self, row: Sequence[int], desired: Sequence[float], further: Callable[[float, float], float], sign: int
    ) -> list[float]:
        """Returns the x coordinates of a row's items: the desired ones, moved in one direction where items would overlap.

        Args:
          row: the items in order; in reverse for moving left.
          desired: the desired x coordinates in the same order.
          further: ``max`` for moving right, ``min`` for moving left.
          sign: 1 for moving right, -1 for moving left.
        """
        widths = [self.sizes[item][0] for item in row]
        positions = list(desired[:1])
        for index in range(1, len(row)):
            distance = (widths[index - 1] + widths[index]) / 2 + GAP
            nearest = positions[index - 1] + sign * distance  # the position that touches the previous item
            positions.append(further(desired[index], nearest))
        return positions

    def _height(self, row: int) -> float:
        """Returns the height of a row: that of its highest box."""
        return max(self.sizes[i][1] for i in self.rows[row])

    def _tops(self) -> list[float]:
        """Returns the y coordinate of the upper edge of each row."""
        tops: list[float] = []
        for row in range(len(self.rows)):
            tops.append(tops[-1] + self._height(row - 1) + LAYER_GAP if tops else 0.0)
        return tops

    def _curve(self, path: Sequence[int], x: Sequence[float], tops: Sequence[float]) -> list[Point]:
        """Returns the control points of an edge's Bézier curve, from the upper box to the lower box.

        Args:
          path: the upper box, the points in the rows between, and the lower box.
          x: the x coordinate of each item.
          tops: the y coordinate of the upper edge of each row.
        """

        def middle(item: int) -> float:
            return tops[self.rank[item]] + self._height(self.rank[item]) / 2

        upper, *crossed, lower = path
        # The edge leaves the upper box at its lower side and enters the lower box at its upper side.
        start = (x[upper], middle(upper) + self.sizes[upper][1] / 2)
        end = (x[lower], middle(lower) - self.sizes[lower][1] / 2)
        stops: list[Point] = [start]
        for item in crossed:  # rows are crossed vertically
            row = self.rank[item]
            stops += [(x[item], tops[row]), (x[item], tops[row] + self._height(row))]
        stops.append(end)
        points = stops[:1]
        # Cubic Bézier curves from stop to stop, which start and end vertically.
        for (x0, y0), (x1, y1) in zip(stops, stops[1:]):
            points += [(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2), (x1, y1)]
        return points


def _row_indices(graph: Graph) -> list[int]:
    """Returns the row of each node, the first one below all operands. An input's row is just above its first user."""
    rank = [0] * len(graph.nodes)
    # A node's index is larger than the indices of its operands: in this order the row of `edge.tail` is final.
    for edge in sorted(graph.edges, key=lambda edge: edge.head):
        rank[edge.head] = max(rank[edge.head], rank[edge.tail] + 1)
    nodes_with_operands = {edge.head for edge in graph.edges}
    for node in range(len(rank)):
        user_rows = [rank[edge.head] for edge in graph.edges if edge.tail == node]
        is_input = node not in nodes_with_operands
        if is_input and user_rows:
            rank[node] = min(user_rows) - 1
    return rank
