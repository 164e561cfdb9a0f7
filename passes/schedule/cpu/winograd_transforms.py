"""Winograd's transforms for 3 by 3 and 5 by 5 windows: sparse matrices, applied to squares of vectors in registers.

Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2016. Squares of six inputs interpolate at
0, ±1/√2, ±√2 and infinity, where the numbers stay small: with the usual 0, ±1, ±2 the worst error is three times as
large (on choosing points: Barabasz et al., "Error Analysis and Improving the Accuracy of Winograd Convolution", 2020).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

from tvm import ir, tirx
from tvm.ir import TensorLoad
from tvm.tirx import Stmt, Var

from tvtf.passes.schedule.cpu import access, emit, subroutine
from tvtf.passes.schedule.cpu.emit import index
from tvtf.passes.schedule.cpu.subroutine import Array

Matrix = Sequence[Sequence[float]]
LoadFromColumn = Callable[[ir.Expr, ir.Expr], ir.Expr]
StoreToColumn = Callable[[ir.Expr, ir.Expr, ir.Expr], Stmt]
LoadElement = Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]
StoreElement = Callable[[ir.Expr, ir.Expr, ir.Expr, ir.Expr], Stmt]
FirstLane = Callable[[int, int, int], TensorLoad]
"""Returns the memory location of the first lane of an element, by its tile, row and column."""
_UNIT_STEPS = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


@dataclass(frozen=True)
class Transforms:
    """The matrices of Winograd's algorithm F(size x size, window x window), in one dimension.

    A tile of `side` by `side` inputs and a window give `size` by `size` results: `results(filters(w) * inputs(x))`.
    Each of the three is a sequence of matrices, applied in order to the columns and then to the rows.
    """

    size: int
    inputs: tuple[Matrix, ...]
    filters: tuple[Matrix, ...]
    results: tuple[Matrix, ...]

    @property
    def side(self) -> int:
        """The side of a tile of inputs: `size + window - 1`."""
        return len(self.inputs[0][0])

    @property
    def products(self) -> int:
        """The number of products of a tile: one for each position in the transformed tile."""
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
F2X2_3X3 = Transforms(
    2,
    (((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, -1, 0, 1)),),
    (((1, 0, 0), (0.5, 0, 0.5), (0, 0.5, 0), (0, 0, 1)), _BUTTERFLY),
    (_BUTTERFLY, ((1, 1, 0, 0), (0, 0, 1, 1))),
)
F4X4_3X3 = Transforms(
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


# F(2x2, 5x5) uses the points of F(4x4, 3x3): the values there are multiplied, whichever factor has more terms.
F2X2_5X5 = Transforms(
    2,
    F4X4_3X3.inputs,
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
BY_WINDOW = {3: (F2X2_3X3, F4X4_3X3), 5: (F2X2_5X5,)}


def _transposed(matrix: Matrix) -> Matrix:
    """Returns the transpose of a matrix."""
    return tuple(zip(*matrix, strict=True))


def _filter_gradient_transforms(forward: Transforms) -> Transforms:
    """Returns the Winograd transforms of a filter's gradient, given those of the forward convolution.

    In the sum that defines a convolution, input, filter and result are symmetric. So the gradient's matrices are the
    transposed matrices of the filter and of the result, exchanged and in reverse order.
    """
    return Transforms(
        size=forward.size,
        inputs=forward.inputs,
        filters=tuple(_transposed(matrix) for matrix in reversed(forward.results)),
        results=tuple(_transposed(matrix) for matrix in reversed(forward.filters)),
    )


GRADIENTS = {window: _filter_gradient_transforms(known[-1]) for window, known in BY_WINDOW.items()}
"""Transforms of a tile of six by six inputs and a tile of cotangents to what they add to a window's gradient."""


@dataclass(frozen=True)
class _RegisterColumn:
    """A column of `lanes`-wide vectors in a local buffer, which LLVM keeps in registers."""

    buffer: Var
    lanes: int

    def __call__(self, row: ir.Expr, lane: ir.Expr) -> ir.Expr:
        """Returns the element in a row and lane of the column."""
        return emit.load(self.buffer, [lane + row * self.lanes])

    def store(self, row: ir.Expr, lane: ir.Expr, item: ir.Expr) -> Stmt:
        """Returns the store of an element into a row and lane of the column."""
        return emit.store(self.buffer, item, [lane + row * self.lanes])


def transform_tile(
    matrices: Sequence[Matrix], load_item: LoadElement, store_item: StoreElement, lanes: int, dtype: str
) -> Stmt:
    """Emits a two-dimensional Winograd transform of one tile: along its columns, then along its rows.

    Both are loops. Unrolled, the code is six times as long, takes four times as long to compile, and is faster by 0 to
    8 % of a transform, about a percent of a convolution: it has to store most of a tile of 36 vectors, too.

    Args:
        matrices: the matrices to multiply by, in order.
        load_item: returns the element at a row, column and lane; each element of a tile is a vector of channels.
        store_item: returns the store of an element at a row, column and lane.
        lanes: the channels of a vector.
        dtype: the type of sums.
    """
    # The last matrix has a row for each row of the transformed tile, the first one a column for each of the tile.
    result_side, side = len(matrices[-1]), len(matrices[0][0])
    columns = emit.scratch([side * result_side * lanes], dtype, "columns", "local")

    def indices(row: ir.Expr, column: ir.Expr, lane: ir.Expr) -> list[ir.Expr]:
        return [(column * result_side + row) * lanes + lane]

    def transform_column(column: ir.Expr) -> Stmt:
        """Emits the transform of one column of the tile into the scratch buffer.

        The tile is multiplied by the matrix from both sides: first its columns are transformed, then the rows.
        """
        return _product_with_column(
            matrices,
            lambda row, lane: load_item(row, column, lane),
            lambda row, lane, item: emit.store(columns, item, indices(row, column, lane)),
            lanes,
            dtype,
        )

    def transform_row(row: ir.Expr) -> Stmt:
        """Emits the transform of one row of the scratch buffer, and the stores of the results.

        The buffer contains the transformed columns of the tile.
        """
        return _product_with_column(
            matrices,
            lambda column, lane: emit.load(columns, indices(row, column, lane)),
            lambda column, lane, item: store_item(row, column, lane, item),
            lanes,
            dtype,
        )

    return emit.sequence(
        [emit.allocate(columns), emit.loop(side, transform_column), emit.loop(result_side, transform_row)]
    )


def transform_tiles(
    matrices: tuple[Matrix, ...],
    source: FirstLane,
    destination: FirstLane,
    counts: tuple[int, int],
    lanes: int,
    dtype: str,
    source_is_scratch: bool = False,
) -> Stmt:
    """Returns a call of the subroutine that transforms neighbouring tiles and vectors of channels.

    Args:
        matrices: the matrices of the Winograd transform, in order.
        source: returns the first lane of an element to read, by tile, row and column.
        destination: returns the first lane of an element to write, by tile, row and column.
        counts: the numbers of tiles and of vectors.
        lanes: the channels of a vector.
        dtype: the elements' type.
        source_is_scratch: whether to compile in the source's strides, a tenth faster. Those of scratch buffers are
            equal in many kernels.

    Raises:
        ValueError: strides in memory aren't constant.
    """
    locations = [destination, source]
    strides = [
        access.constant_offset(location(0, 0, 0), location(*step)) for location in locations for step in _UNIT_STEPS
    ]
    constant_strides = [step for step in strides if step is not None]
    if len(constant_strides) < len(strides):
        raise ValueError(f"transform_tiles: expected constant strides, received those of {destination(0, 0, 0)}")
    name = _transform_subroutine(matrices, lanes, dtype, tuple(constant_strides[3:]) if source_is_scratch else None)
    passed = constant_strides[:3] if source_is_scratch else constant_strides
    return subroutine.call(name, [location(0, 0, 0) for location in locations], [*counts, *passed])


@dataclass(frozen=True)
class _ArrayOfTiles:
    """An array of tiles, whose elements are vectors of channels, and the strides between tiles, rows and columns."""

    array: Var
    lanes: int
    by_tile: ir.Expr
    by_row: ir.Expr
    by_column: ir.Expr

    def load(self, tile: ir.Expr, vector: ir.Expr, row: ir.Expr, column: ir.Expr, lane: ir.Expr) -> ir.Expr:
        return emit.load(self.array, [self._offset(tile, vector, row, column, lane)])

    def store(
        self, tile: ir.Expr, vector: ir.Expr, row: ir.Expr, column: ir.Expr, lane: ir.Expr, item: ir.Expr
    ) -> Stmt:
        return emit.store(self.array, item, [self._offset(tile, vector, row, column, lane)])

    def _offset(self, tile: ir.Expr, vector: ir.Expr, row: ir.Expr, column: ir.Expr, lane: ir.Expr) -> ir.Expr:
        offset_of_tile = tile * self.by_tile
        return offset_of_tile + self.by_row * row + self.by_column * column + vector * self.lanes + lane


@cache
def _transform_subroutine(
    matrices: tuple[Matrix, ...], lanes: int, dtype: str, source_strides: tuple[int, ...] | None
) -> str:
    """Makes the subroutine that applies a Winograd transform to several tiles, and returns its name.

    Its arguments are the result, the source, the numbers of tiles and of vectors, and strides to the next tile, row and
    column: the result's, then the source's. With `source_strides`, the source's strides are compiled in.
    """

    def emit_body(arrays: Sequence[Var], numbers: Sequence[ir.Expr]) -> Stmt:
        """Emits the loops over tiles and vectors of channels of a Winograd transform.

        Args:
            arrays: the result and the source.
            numbers: the numbers of tiles and of vectors, then the strides between tiles, rows and columns: those of the
                result, and those of the source unless they are constants.
        """
        result, source = arrays
        tiles, vectors, *strides = numbers
        strides = [*strides, *map(index, source_strides or ())]
        result_tiles = _ArrayOfTiles(result, lanes, *strides[:3])
        source_tiles = _ArrayOfTiles(source, lanes, *strides[3:])

        def transform_vector(tile_and_vector: list[ir.Expr]) -> Stmt:
            """Emits the Winograd transform of one vector of channels of one tile, given the indices of both.

            The lanes of a vector are channels, which all have the same transform.
            """
            load_item = partial(source_tiles.load, *tile_and_vector)
            store_item = partial(result_tiles.store, *tile_and_vector)
            return transform_tile(matrices, load_item, store_item, lanes, dtype)

        return emit.nest([tiles, vectors], transform_vector)

    # Two counts and three strides, and three more strides if the source's are passed.
    return subroutine.subroutine([Array(dtype)] * 2, 8 if source_strides is None else 5, emit_body)


def transform_and_store_tile(
    matrices: tuple[Matrix, ...],
    source: FirstLane,
    store_item: Callable[[ir.Expr, ir.Expr, ir.Expr, ir.Expr], Stmt],
    lanes: int,
    dtype: str,
) -> Stmt:
    """Emits the transform of a tile into scratch memory, then `store_item(row, column, lane, item)` for each element.

    The results can then have variable strides or an epilogue, which the transform's subroutine can't handle.

    Args:
        matrices: the matrices of the transform.
        source: returns the first lane of an element of the tile.
        store_item: emits the store of an element, given its row, column, lane and value.
        lanes: the length of a vector.
        dtype: the type of sums.
    """
    size = len(matrices[-1])
    result = emit.scratch([size, size, lanes], dtype, "square", "local")

    def first_lane(_tile: int, row: int, column: int) -> TensorLoad:
        return emit.load(result, [index(row), index(column), index(0)])

    def store_vector(position: list[ir.Expr]) -> Stmt:
        row, column = position
        return emit.vectorized(lanes, lambda lane: store_item(row, column, lane, emit.load(result, [*position, lane])))

    transform = transform_tiles(matrices, source, first_lane, (1, 1), lanes, dtype, source_is_scratch=True)
    return emit.sequence([emit.allocate(result), transform, emit.nest([size, size], store_vector)])


def _product_with_column(
    matrices: Sequence[Matrix], load_item: LoadFromColumn, store_item: StoreToColumn, lanes: int, dtype: str
) -> Stmt:
    """Emits the product of a transform's matrices with a column of vectors.

    The columns between two matrices are local buffers, which LLVM keeps in registers.

    Args:
        matrices: the matrices to multiply by, in order.
        load_item: returns an element of the column, given its row and lane.
        store_item: returns the store of an element of the product at a row and lane.
        lanes: the length of a vector.
        dtype: the type of sums.
    """
    *first_matrices, last_matrix = matrices
    statements: list[Stmt] = []
    for matrix in first_matrices:
        intermediate = _RegisterColumn(emit.scratch([len(matrix) * lanes], dtype, "square", "local"), lanes)
        statements.append(emit.allocate(intermediate.buffer))
        statements += _rows_of_product(matrix, load_item, intermediate.store, lanes, dtype)
        load_item = intermediate
    statements += _rows_of_product(last_matrix, load_item, store_item, lanes, dtype)
    return emit.sequence(statements)


def _rows_of_product(
    matrix: Matrix, load_item: LoadFromColumn, store_item: StoreToColumn, lanes: int, dtype: str
) -> Iterator[Stmt]:
    """Yields the stores of each row of the product of a matrix with a column of vectors."""
    for row, factors in enumerate(matrix):
        yield emit.vectorized(lanes, partial(_row_of_product, row, factors, load_item, store_item, dtype))


def _row_of_product(
    row: int, factors: Sequence[float], load_item: LoadFromColumn, store_item: StoreToColumn, dtype: str, lane: ir.Expr
) -> Stmt:
    """Returns the store of one lane of a row of a product; the lane is the last parameter, after those to bind."""
    return store_item(index(row), lane, _dot_product(factors, load_item, dtype, lane))


def _dot_product(factors: Sequence[float], load_item: LoadFromColumn, dtype: str, lane: ir.Expr) -> ir.Expr:
    """Returns the dot product of a matrix row with a column of vectors.

    Terms with another factor than 1 or -1 come last, so that each of their multiplications is fused with an addition in
    one instruction (FMA).

    Args:
        factors: the matrix row.
        load_item: loads the element of a row of the column, at a lane.
        dtype: the dtype of the elements.
        lane: the lane of the vectors.
    """
    nonzero_terms = [(row, factor) for row, factor in enumerate(factors) if factor]
    unit_terms = [(row, factor) for row, factor in nonzero_terms if abs(factor) == 1]
    other_terms = [(row, factor) for row, factor in nonzero_terms if abs(factor) != 1]
    total: ir.Expr | None = None
    for row, factor in [*unit_terms, *other_terms]:
        item = load_item(index(row), lane)
        product = item if abs(factor) == 1 else item * tirx.const(abs(factor), dtype)
        if total is None:
            total = product if factor > 0 else product * tirx.const(-1, dtype)
        else:
            total = total + product if factor > 0 else total - product
    return tirx.const(0, dtype) if total is None else total
