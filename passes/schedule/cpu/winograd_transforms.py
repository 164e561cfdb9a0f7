"""Winograd's transforms for 3 by 3 and 5 by 5 windows: sparse matrices, applied to squares of vectors in registers.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. Squares of six inputs interpolate at
0, ±1/√2, ±√2 and infinity, where the numbers stay small: with the usual 0, ±1, ±2 the worst error is three times as
large (on choosing points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.subroutine import Array

Matrix = Sequence[Sequence[float]]
Column = Callable[[int, ir.Expr], ir.Expr]
Read = Callable[[int, int, ir.Expr], ir.Expr]
Write = Callable[[int, int, ir.Expr, ir.Expr], Stmt]
Place = Callable[[int, int, int], TensorLoad]
"""The first lane of a tile, row and column."""
_FOLLOWING = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@dataclass(frozen=True)
class Transforms:
    """Transforms of a square of inputs and a window to `size` squared results: `results(filters * inputs)`.

    Each is a sequence of matrices, applied in order.
    """

    size: int
    inputs: tuple[Matrix, ...]
    filters: tuple[Matrix, ...]
    results: tuple[Matrix, ...]

    @property
    def side(self) -> int:
        """The side of a square of inputs."""
        return len(self.inputs[0][0])

    @property
    def products(self) -> int:
        return self.side**2


# Values at a point and at its negative are the sum and the difference of the even and odd powers' parts.
_BUTTERFLY = ((1, 0, 0, 0), (0, 1, 1, 0), (0, 1, -1, 0), (0, 0, 0, 1))
_BUTTERFLIES = (
    (1, 0, 0, 0, 0, 0),
    (0, 1, 1, 0, 0, 0),
    (0, 1, -1, 0, 0, 0),
    (0, 0, 0, 1, 1, 0),
    (0, 0, 0, 1, -1, 0),
    (0, 0, 0, 0, 0, 1),
)
_NEAR, _FAR = 0.5**0.5, 2**0.5
OF_TWO = Transforms(
    2,
    (((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)),),
    (((1, 0, 0), (0.5, 0, 0.5), (0, 0.5, 0), (0, 0, 1)), _BUTTERFLY),
    (_BUTTERFLY, ((1, 1, 0, 0), (0, 0, 1, 1))),
)
OF_FOUR = Transforms(
    4,
    (
        (
            (1, 0, -2.5, 0, 1, 0),
            (0, 0, -2, 0, 1, 0),
            (0, -2 * _NEAR, 0, _NEAR, 0, 0),
            (0, 0, -0.5, 0, 1, 0),
            (0, -0.5 * _FAR, 0, _FAR, 0, 0),
            (0, 1, 0, -2.5, 0, 1),
        ),
        _BUTTERFLIES,
    ),
    (
        (
            (1, 0, 0),
            (-2 / 3, 0, -1 / 3),
            (0, -2 / 3 * _NEAR, 0),
            (1 / 6, 0, 1 / 3),
            (0, 1 / 6 * _FAR, 0),
            (0, 0, 1),
        ),
        _BUTTERFLIES,
    ),
    (
        _BUTTERFLIES,
        (
            (1, 1, 0, 1, 0, 0),
            (0, 0, _NEAR, 0, _FAR, 0),
            (0, 0.5, 0, 2, 0, 0),
            (0, 0, 0.5 * _NEAR, 0, 2 * _FAR, 1),
        ),
    ),
)


# With the points of tiles of four: the values there are multiplied, whichever factor has more terms.
TWO_OF_FIVE = Transforms(
    2,
    OF_FOUR.inputs,
    (
        (
            (1, 0, 0, 0, 0),
            (-2 / 3, 0, -1 / 3, 0, -1 / 6),
            (0, -2 / 3 * _NEAR, 0, -1 / 3 * _NEAR, 0),
            (1 / 6, 0, 1 / 3, 0, 2 / 3),
            (0, 1 / 6 * _FAR, 0, 1 / 3 * _FAR, 0),
            (0, 0, 0, 0, 1),
        ),
        _BUTTERFLIES,
    ),
    (_BUTTERFLIES, ((1, 1, 0, 1, 0, 0), (0, 0, _NEAR, 0, _FAR, 1))),
)
BY_WINDOW = {3: (OF_TWO, OF_FOUR), 5: (TWO_OF_FIVE,)}


def _transposed(matrix: Matrix) -> Matrix:
    return tuple(zip(*matrix, strict=True))


def _gradient(of: Transforms) -> Transforms:
    """Returns the gradient's transforms: a sum over three indices is symmetric, so they are the others' transposed."""
    return Transforms(
        of.size, of.inputs, tuple(map(_transposed, reversed(of.results))), tuple(map(_transposed, reversed(of.filters)))
    )


GRADIENTS = {window: _gradient(known[-1]) for window, known in BY_WINDOW.items()}
"""Transforms of a square of six inputs and a square of cotangents to what they add to a window."""


@dataclass(frozen=True)
class _Column:
    """A column of vectors in registers."""

    buffer: Var
    lanes: int

    def __call__(self, at: int, lane: ir.Expr) -> ir.Expr:
        return emit.load(self.buffer, [lane + at * self.lanes])

    def filled(self, at: int, value: Callable[[ir.Expr], ir.Expr]) -> Stmt:
        start = at * self.lanes
        return emit.vectorized(self.lanes, lambda lane: emit.store(self.buffer, value(lane), [lane + start]))


def transformed_square(matrices: Sequence[Matrix], read: Read, write: Write, lanes: int, dtype: str) -> Stmt:
    """Applies the matrices to the columns of a square, then to the rows of the result.

    `read(row, column, lane)` returns an item, `write(row, column, lane, item)` stores one; both run along vectors.
    """
    parts: list[Stmt] = []
    columns = [
        _applied(matrices, partial(_of_column, read, column), parts, lanes, dtype)
        for column in range(len(matrices[0][0]))
    ]
    for row in range(len(matrices[-1])):
        row_result = _applied(matrices, partial(_of_row, columns, row), parts, lanes, dtype)
        parts += [_written(write, row, column, row_result) for column in range(len(matrices[-1]))]
    return emit.sequence(parts)


def transformed_squares(
    matrices: tuple[Matrix, ...],
    read: Place,
    write: Place,
    counts: tuple[int, int],
    lanes: int,
    dtype: str,
    source_is_scratch: bool = False,
) -> Stmt:
    """Calls the subroutine that transforms the squares of some neighbouring tiles and vectors, as ``counts`` says.

    `read(tile, row, column)` and `write(tile, row, column)` are the first lanes. Distances in a source that is a scratch
    buffer are the same in many kernels: with them the subroutine is made, which is a tenth faster than to pass them.

    Raises:
        ValueError: distances in memory aren't constant.
    """
    places = [write, read]
    known = [access.constant_offset(place(0, 0, 0), place(*following)) for place in places for following in _FOLLOWING]
    steps = [step for step in known if step is not None]
    if len(steps) < len(known):
        raise ValueError(f"transformed_squares: expected constant distances, received those of {write(0, 0, 0)}")
    name = _squares(matrices, lanes, dtype, tuple(steps[3:]) if source_is_scratch else None)
    passed = steps[:3] if source_is_scratch else steps
    return subroutine.call(name, [place(0, 0, 0) for place in places], [*counts, *passed])


@cache
def _squares(matrices: tuple[Matrix, ...], lanes: int, dtype: str, source_steps: tuple[int, ...] | None) -> str:
    """Makes the subroutine; its numbers are the counts, and the steps to the next tile, row and column of both arrays.

    ``source_steps`` are the source's steps where they aren't passed.
    """

    def body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Transforms all squares; `steps` are the result's distances, then the source's."""
        (result, source), (tiles, vectors, *steps) = arrays, numbers
        steps = [*steps, *map(index, source_steps or ())]

        def square(at: list[ir.Expr]) -> Stmt:
            """Transforms the square of a tile and a vector, given by their numbers."""

            def place(row: int, column: int, lane: ir.Expr, by: Sequence[ir.Expr]) -> list[ir.Expr]:
                return [at[0] * by[0] + by[1] * row + by[2] * column + at[1] * lanes + lane]

            return transformed_square(
                matrices,
                lambda row, column, lane: emit.load(source, place(row, column, lane, steps[3:])),
                lambda row, column, lane, item: emit.store(result, item, place(row, column, lane, steps[:3])),
                lanes,
                dtype,
            )

        return emit.nest([tiles, vectors], square)

    return subroutine.subroutine([Array(dtype)] * 2, 8 if source_steps is None else 5, body)


def stored_square(
    matrices: tuple[Matrix, ...],
    read: Place,
    write: Callable[[ir.Expr, ir.Expr, ir.Expr, ir.Expr], Stmt],
    lanes: int,
    dtype: str,
) -> Stmt:
    """Calls the transform of a square of vectors, then runs `write(row, column, lane, item)` on each of its items."""
    size = len(matrices[-1])
    result = emit.scratch([size, size, lanes], dtype, "square", "local")

    def place(_tile: int, row: int, column: int) -> TensorLoad:
        return emit.load(result, [index(row), index(column), index(0)])

    def vector(at: list[ir.Expr]) -> Stmt:
        row, column = at
        return emit.vectorized(lanes, lambda lane: write(row, column, lane, emit.load(result, [*at, lane])))

    transform = transformed_squares(matrices, read, place, (1, 1), lanes, dtype, source_is_scratch=True)
    return emit.sequence([emit.allocate(result), transform, emit.nest([size, size], vector)])


def _of_column(read: Read, column: int, row: int, lane: ir.Expr) -> ir.Expr:
    return read(row, column, lane)


def _of_row(columns: Sequence[_Column], row: int, column: int, lane: ir.Expr) -> ir.Expr:
    return columns[column](row, lane)


def _written(write: Write, row: int, column: int, row_result: _Column) -> Stmt:
    return emit.vectorized(row_result.lanes, lambda lane: write(row, column, lane, row_result(column, lane)))


def _applied(matrices: Sequence[Matrix], read: Column, parts: list[Stmt], lanes: int, dtype: str) -> _Column:
    """Multiplies a column of vectors by all matrices, appending the statements to `parts`; returns the product."""
    for matrix in matrices:
        column = _Column(emit.scratch([len(matrix) * lanes], dtype, "square", "local"), lanes)
        parts.append(emit.allocate(column.buffer))
        parts += [column.filled(at, partial(_sum, row, read, dtype)) for at, row in enumerate(matrix)]
        read = column
    return column


def _sum(row: Sequence[float], read: Column, dtype: str, lane: ir.Expr) -> ir.Expr:
    """Returns a row of a matrix times a column; terms with a factor come last, where each is one FMA instruction."""
    terms = sorted((abs(factor) != 1, at, factor) for at, factor in enumerate(row) if factor)
    total: ir.Expr = tirx.const(0, dtype)
    for number, (_has_factor, at, factor) in enumerate(terms):
        part = read(at, lane) if abs(factor) == 1 else read(at, lane) * tirx.const(abs(factor), dtype)
        if not number:
            total = part if factor > 0 else part * tirx.const(-1, dtype)
        else:
            total = total + part if factor > 0 else total - part
    return total
