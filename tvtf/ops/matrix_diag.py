"""Diagonals of matrices, single and in bands: diag, diag_part, set_diag.

Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag_part
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, brackets, is_static_shape, same_dim, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, static_value
from tvtf.dtypes import int64
from tvtf.ops.dims import at_least_zero, dim_min, scalar_of
from tvtf.ops.operands import attributes
from tvtf.ops.rules import bind

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
NOWHERE = -1


class Band(NamedTuple):
    """The diagonals ``low`` to ``high`` of a matrix as rows of one length.

    ``align`` says where shorter ones are padded.
    """

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def longest(self) -> int:
        return min(self.rows + min(self.high, 0), self.columns - max(self.low, 0))

    def length(self, k: int) -> int:
        return min(self.rows + min(k, 0), self.columns - max(k, 0))

    def _begin(self, k: int) -> int:
        above, below = self.align.split("_")
        to_the_right = (k >= 0 and above == "RIGHT") or (k <= 0 and below == "RIGHT")
        return self.longest - self.length(k) if to_the_right else 0

    def places(self) -> np.ndarray:
        """Returns for each element of the diagonals, highest first, its index in the flat matrix.

        Padding has the index NOWHERE.
        """
        indices = np.full((self.high - self.low + 1, self.longest), NOWHERE)
        for line, k in enumerate(range(self.high, self.low - 1, -1)):
            steps, begin = np.arange(self.length(k)), self._begin(k)
            indices[line, begin : begin + len(steps)] = (steps + max(-k, 0)) * self.columns + steps + max(k, 0)
        return indices.reshape(-1)

    def inverse(self) -> np.ndarray:
        """Returns for each element of the flat matrix its index in the flat diagonals, or NOWHERE."""
        places = self.places()
        indices = np.full(self.rows * self.columns, NOWHERE)
        indices[places[places != NOWHERE]] = np.flatnonzero(places != NOWHERE)
        return indices


def _bounds(k: Any, align: str) -> tuple[int, int]:
    """Returns the first and last diagonal that ``k`` names; both must be known while tracing."""
    if align not in ALIGNMENTS:
        raise ArgumentError(f"align must be one of {', '.join(ALIGNMENTS)}, but got {align!r}").for_op(
            "MatrixDiagPartV3"
        )
    value = static_value(convert_to_tensor(k))
    if value is None or value.ndim > 1 or value.size not in (1, 2):
        raise ArgumentError(f"k must be an int or a pair of ints that tracing knows, but got {k}").for_op(
            "MatrixDiagPartV3"
        )
    return int(value.reshape(-1)[0]), int(value.reshape(-1)[-1])


def _ordered(low: int, high: int) -> tuple[int, int]:
    if low > high:
        raise ArgumentError(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}").for_op(
            "MatrixDiagV3"
        )
    return low, high


def _padding(value: Any, x: Tensor) -> Tensor:
    return convert_to_tensor(bool(value) if x.dtype.is_bool and isinstance(value, int) else value, x.dtype)


def _picked(source: Tensor, places: np.ndarray, shape: tuple[Dim, ...], otherwise: Tensor) -> Tensor:
    """Gathers ``source[..., places]`` in another shape; ``otherwise`` where the place is NOWHERE."""
    if (places == NOWHERE).all():
        return bind.broadcast_to(otherwise, shape=(*source._type.shape[:-1], *shape))  # type: ignore[no-any-return]
    result = bind.gather(source, EagerTensor(np.maximum(places, 0)), axis=source.ndim - 1, batch_dims=0)
    result = bind.reshape(result, shape=(*source._type.shape[:-1], *shape))
    there = EagerTensor((places != NOWHERE).reshape([d for d in shape if isinstance(d, int)]))
    return result if (places != NOWHERE).all() else bind.select(there, result, otherwise)


def _known_dims(x: Tensor) -> tuple[int, int]:
    """Returns the numbers of rows and columns, which must be known while tracing."""
    if x.ndim < 2:
        raise ArgumentError(f"input must be at least 2-dim, received shape: {brackets(x.shape)}").for_op(
            "MatrixDiagPartV3"
        )
    rows, columns = x._type.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise unknown_size(TypeError(f"the matrix's own dims must be known while tracing, but the shape is {x.shape}"))
    return rows, columns


def _band(x: Tensor, k: Any, align: str) -> Band:
    """Returns the band of a matrix for the arguments ``k`` and ``align``.

    Raises:
      InvalidArgumentError: a diagonal lies outside the matrix.
    """
    band = Band(*_bounds(k, align), *_known_dims(x), align)
    for name, bound in (("lower", band.low), ("upper", band.high)):
        if bound and not -band.rows < bound < band.columns:
            raise ArgumentError(
                f"{name}_diag_index is out of bound: {bound}. It must be between {-band.rows} and {band.columns}"
            ).for_op("MatrixDiagPartV3")
    _ordered(band.low, band.high)
    return band


def _shape_of(band: Band) -> tuple[int, ...]:
    lines = band.high - band.low + 1
    return (band.longest,) if lines == 1 else (lines, band.longest)


@export("linalg.diag_part")
@attributes(align=str)
def diag_part(
    input: Any, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Returns the k-th diagonal of matrices (above the main one where k > 0, below where k < 0), or a band of diagonals.

    Args:
      input: tensor of shape (..., rows, columns).
      k: which diagonal, or the lowest and the highest of a band.
      padding_value: what short diagonals of a band are filled up with.
      align: to which side the short ones are moved: those above the main one, and those below.

    Returns:
      A tensor of shape (..., length), of a band (..., diagonals, greatest length), the highest first.

    >>> import tvtf as tf
    >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy()
    array([1, 4], dtype=int32)
    >>> tf.linalg.diag_part([[1, 2], [3, 4]], k=(-1, 0), padding_value=9).numpy()
    array([[1, 4],
           [3, 9]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) for a diagonal outside the matrix.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag_part
    """
    x = convert_to_tensor(input)
    if (line := _line_of_any_size(x, k, align)) is not None:
        return _line(x, line)
    band = _band(x, k, align)
    flat = bind.reshape(x, shape=(*x._type.shape[:-2], band.rows * band.columns))
    return _picked(flat, band.places(), _shape_of(band), _padding(padding_value, x))


@export("linalg.diag")
@attributes(align=str)
def diag(
    diagonal: Any,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with the given k-th diagonal, or band of diagonals.

    Args:
      diagonal: tensor of shape (..., n), or (..., diagonals, n) for a band, the highest first.
      k: which diagonal, or the lowest and the highest of a band.
      num_rows, num_cols: of the matrices; -1 for as few as the diagonals take (square where both are open).
      padding_value: what lies outside.
      align: to which side short diagonals of a band were moved: those above the main one, and those below.

    >>> import tvtf as tf
    >>> tf.linalg.diag([1, 2]).numpy()
    array([[1, 0],
           [0, 2]], dtype=int32)
    >>> tf.linalg.diag([[8, 9], [1, 2]], k=(0, 1), align="LEFT_LEFT").numpy()
    array([[1, 8],
           [0, 2]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) where the diagonals don't fit the matrix.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag
    """
    x = convert_to_tensor(diagonal)
    low, high = _ordered(*_bounds(k, align))
    size, outside = x._type.shape[-1], _padding(padding_value, x)
    if not isinstance(size, int):
        return _diag_of_any_size(x, low, outside)
    rows, columns = _matrix_size(size, low, high, int(num_rows), int(num_cols))
    band = Band(low, high, rows, columns, align)
    return _placed(x, band, bind.broadcast_to(outside, shape=(*_lead(x, band), rows, columns)), "MatrixDiagV3")


def _diag_of_any_size(x: Tensor, k: int, outside: Tensor) -> Tensor:
    """Returns square matrices with one diagonal of symbolic length."""
    wide = _as_matrix_row(x, outside, k)
    return bind.select(_is_on_line(wide._type.shape[-1], k), wide, outside)  # type: ignore[no-any-return]


def _is_on_line(size: Dim, k: int) -> Tensor:
    on, off = (EagerTensor(np.array(v)) for v in (True, False))
    return bind.one_hot(_counted(size, k), on, off, depth=size, axis=1)  # type: ignore[no-any-return]


def _matrix_size(size: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """Returns the rows and columns of ``tf.linalg.diag``; -1 takes as few as the diagonals need."""
    least_rows, least_columns = size - min(high, 0), size + max(low, 0)
    for name, requested, least in (("rows", rows, least_rows), ("columns", columns, least_columns)):
        if requested != NOWHERE and requested < least:
            raise ArgumentError(f"The number of {name} is too small.").for_op("MatrixDiagV3")
    if rows == columns == NOWHERE:
        rows = columns = max(least_rows, least_columns)
    rows, columns = (least_rows if rows == NOWHERE else rows), (least_columns if columns == NOWHERE else columns)
    if rows != least_rows and columns != least_columns:
        raise ArgumentError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
        ).for_op("MatrixDiagV3")
    return rows, columns


def _lead(x: Tensor, band: Band) -> tuple[Dim, ...]:
    return x._type.shape[: x.ndim - len(_shape_of(band))]


def _placed(diagonals: Tensor, band: Band, matrix: Tensor, op: str) -> Tensor:
    """Returns ``matrix`` with its diagonals replaced."""
    shape = _shape_of(band)
    if diagonals.ndim < len(shape) or tuple(diagonals._type.shape[diagonals.ndim - len(shape) :]) != shape:
        raise ArgumentError(
            f"Expected diagonals whose last dims are {brackets(shape)}, but got shape {brackets(diagonals.shape)}"
        ).for_op(op)
    flat = bind.reshape(diagonals, shape=(*_lead(diagonals, band), int(np.prod(shape))))
    return _picked(flat, band.inverse(), (band.rows, band.columns), matrix)


@export("linalg.set_diag")
@attributes(align=str)
def set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Matrices with their k-th diagonal, or a band of diagonals, replaced.

    Args:
      input: tensor of shape (..., rows, columns).
      diagonal: tensor of shape (..., length of that diagonal), of a band (..., diagonals, greatest length), the highest first.
      k: which diagonal, or the lowest and the highest of a band.
      align: to which side short diagonals of a band were moved: those above the main one, and those below.

    >>> import tvtf as tf
    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [8, 9]).numpy()
    array([[8, 2],
           [3, 9]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) where the diagonal's length is another.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/set_diag
    """
    x, diagonals = convert_to_tensor(input), convert_to_tensor(diagonal, convert_to_tensor(input).dtype)
    if (line := _line_of_any_size(x, k, align)) is not None and diagonals.ndim:
        rows, columns = x._type.shape[-2:]
        if same_dim(rows, columns) and same_dim(diagonals._type.shape[-1], simplify_dim(rows - abs(line))):
            return _on_line(diagonals, x, line)
    return _placed(diagonals, _band(x, k, align), x, "MatrixSetDiagV3")


def _line_of_any_size(x: Tensor, k: Any, align: str) -> int | None:
    """Returns the number of a single diagonal of matrices of symbolic size, which needs no static indices.

    Returns None for matrices of static size and for bands.
    """
    if x.ndim < 2 or is_static_shape(x._type.shape[-2:]):
        return None
    low, high = _bounds(k, align)
    return low if low == high else None


def _line(x: Tensor, k: int) -> Tensor:
    """Gathers one diagonal of matrices of symbolic size."""
    *lead, rows, columns = x._type.shape
    flat = bind.reshape(x, shape=(*lead, simplify_dim(rows * columns)))
    length = at_least_zero(dim_min(simplify_dim(rows + min(k, 0)), simplify_dim(columns - max(k, 0))))
    steps = bind.multiply(_counted(length), scalar_of(simplify_dim(columns + 1)))
    places = bind.add(steps, scalar_of(simplify_dim(max(-k, 0) * columns + max(k, 0))))
    return bind.gather(flat, places, axis=x.ndim - 2, batch_dims=0)  # type: ignore[no-any-return]


def _counted(size: Dim, start: int = 0) -> Tensor:
    return bind.range(size=size, start=start, delta=1, dtype=int64)  # type: ignore[no-any-return]


def _on_line(diagonals: Tensor, x: Tensor, k: int) -> Tensor:
    mask = _is_on_line(x._type.shape[-1], k)
    return bind.select(mask, _as_matrix_row(diagonals, _padding(0, x), k), x)  # type: ignore[no-any-return]


def _as_matrix_row(diagonals: Tensor, outside: Tensor, k: int) -> Tensor:
    """Pads a diagonal to a row of its matrix, with each element in its column."""
    wide = bind.pad(diagonals, outside, paddings=(*((0, 0),) * (diagonals.ndim - 1), (max(k, 0), max(-k, 0))))
    return bind.reshape(wide, shape=(*wide._type.shape[:-1], 1, wide._type.shape[-1]))  # type: ignore[no-any-return]
