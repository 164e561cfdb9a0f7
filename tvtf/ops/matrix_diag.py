"""Diagonals of matrices, single and in bands: diag, diag_part, set_diag.

Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag_part
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_shape, brackets, is_static_shape, same_dim, simplify_dim
from tvtf.core.specialization import unknown_size
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, static_value
from tvtf.dtypes import int64
from tvtf.ops.dims import at_least_zero, dim_min, scalar_of
from tvtf.ops.operands import attributes, operands
from tvtf.ops.rules import bind

ALIGNMENTS = ("RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT")
NOWHERE = -1
"""The index of an element that isn't on a diagonal, and of padding, which isn't in the matrix."""
NOT_GIVEN = -1
"""The default of ``num_rows`` and ``num_cols`` in `tf.linalg.diag`, which stands for the smallest possible number."""


class Band(NamedTuple):
    """Describes the diagonals ``low`` to ``high`` of a matrix, which are stored as rows of one length.

    Diagonal k is above the main one for k > 0. ``align`` says where shorter diagonals are padded, as for
    `tf.linalg.diag_part`.
    """

    low: int
    high: int
    rows: int
    columns: int
    align: str

    @property
    def longest(self) -> int:
        """Returns the length of the longest diagonal of the band, to which the others are padded."""
        return min(self.rows + min(self.high, 0), self.columns - max(self.low, 0))

    def length(self, k: int) -> int:
        """Returns the number of elements of diagonal ``k``."""
        return min(self.rows + min(k, 0), self.columns - max(k, 0))

    def _begin(self, k: int) -> int:
        """Returns the index in its padded row at which diagonal ``k`` begins: 0 unless it is right-aligned."""
        above_alignment, below_alignment = self.align.split("_")
        is_right_aligned = (k >= 0 and above_alignment == "RIGHT") or (k <= 0 and below_alignment == "RIGHT")
        return self.longest - self.length(k) if is_right_aligned else 0

    def flat_indices(self) -> np.ndarray:
        """Returns the index in the flattened matrix of each element of the diagonals, highest diagonal first.

        All diagonals are padded to the length of the longest one. Padding has the index NOWHERE.
        """
        indices = np.full((self.high - self.low + 1, self.longest), NOWHERE)
        for row, k in enumerate(range(self.high, self.low - 1, -1)):
            length = self.length(k)
            # Diagonal k > 0 starts in column k of the first row, and k < 0 in row -k of the first column.
            matrix_rows = np.arange(length) + max(-k, 0)
            matrix_columns = np.arange(length) + max(k, 0)
            begin = self._begin(k)  # after the padding on the left, if there is any
            indices[row, begin : begin + length] = matrix_rows * self.columns + matrix_columns
        return indices.reshape(-1)

    def inverse(self) -> np.ndarray:
        """Returns for each element of the flattened matrix its index in the flattened diagonals, or NOWHERE."""
        flat_indices = self.flat_indices()
        indices = np.full(self.rows * self.columns, NOWHERE)
        indices[flat_indices[flat_indices != NOWHERE]] = np.flatnonzero(flat_indices != NOWHERE)
        return indices


def _diagonal_range(k: Any, align: str) -> tuple[int, int]:
    """Returns the indices of the lowest and the highest diagonal, from the argument ``k``. Also checks ``align``.

    ``k`` is an int or a pair of ints, known while tracing. For example, 1 gives ``(1, 1)``.
    """
    op = "MatrixDiagPartV3"
    if align not in ALIGNMENTS:
        raise ArgumentError(f"align must be one of {', '.join(ALIGNMENTS)}, but got {align!r}").for_op(op)
    value = static_value(convert_to_tensor(k))
    if value is None or value.ndim > 1 or value.size not in (1, 2):
        raise ArgumentError(f"k must be an int or a pair of ints that tracing knows, but got {k}").for_op(op)
    bounds = value.reshape(-1)
    return int(bounds[0]), int(bounds[-1])  # the same element for a single int


def _ordered(low: int, high: int) -> tuple[int, int]:
    """Returns the lowest and highest diagonal after checking their order, with TensorFlow's error."""
    if low > high:
        raise ArgumentError(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}").for_op(
            "MatrixDiagV3"
        )
    return low, high


def _padding_value(value: Any, x: Tensor) -> Tensor:
    """Converts a padding value to a scalar of the dtype of ``x``; ints serve for bool, too, as the default 0 must."""
    return convert_to_tensor(bool(value) if x.dtype.is_bool and isinstance(value, int) else value, x.dtype)


def _gather_or_default(source: Tensor, indices: np.ndarray, shape: tuple[Dim, ...], default: Tensor) -> Tensor:
    """Gathers elements along the last axis of ``source``, and reshapes the last axis of the result to ``shape``.

    Where the index is NOWHERE, the result is ``default``.
    """
    result_shape = (*source._type.shape[:-1], *shape)
    is_element = indices != NOWHERE
    if not is_element.any():  # nothing to gather: the source may be empty
        return bind.broadcast_to(default, shape=result_shape)  # type: ignore[no-any-return]
    # NOWHERE is negative: the gather reads element 0 for it, which the select replaces
    gathered = bind.gather(source, EagerTensor(np.maximum(indices, 0)), axis=source.ndim - 1, batch_dims=0)
    result = bind.reshape(gathered, shape=result_shape)
    if is_element.all():
        return result
    mask = is_element.reshape([dim for dim in shape if isinstance(dim, int)])
    return bind.select(EagerTensor(mask), result, default)


def _static_matrix_size(x: Tensor) -> tuple[int, int]:
    """Returns the number of rows and the number of columns of the matrices ``x``.

    Raises an error unless both are known while tracing.
    """
    if x.ndim < 2:
        message = f"input must be at least 2-dim, received shape: {brackets(x.shape)}"
        raise ArgumentError(message).for_op("MatrixDiagPartV3")
    rows, columns = x._type.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise unknown_size(TypeError(f"the matrix's own dims must be known while tracing, but the shape is {x.shape}"))
    return rows, columns


def _band(x: Tensor, k: Any, align: str) -> Band:
    """Returns the band of diagonals of a matrix that the arguments ``k`` and ``align`` describe.

    Raises:
      InvalidArgumentError: a diagonal lies outside the matrix.
    """
    band = Band(*_diagonal_range(k, align), *_static_matrix_size(x), align)
    for name, bound in (("lower", band.low), ("upper", band.high)):
        if bound and not -band.rows < bound < band.columns:
            raise ArgumentError(
                f"{name}_diag_index is out of bound: {bound}. It must be between {-band.rows} and {band.columns}"
            ).for_op("MatrixDiagPartV3")
    _ordered(band.low, band.high)
    return band


def _diagonals_shape(band: Band) -> tuple[int, ...]:
    """Returns the shape of a band's diagonals as rows of a matrix; of a single diagonal that of a vector."""
    count = band.high - band.low + 1
    return (band.longest,) if count == 1 else (count, band.longest)


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
      InvalidArgumentError: (ValueError while tracing) a diagonal lies outside the matrix.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag_part
    """
    x = convert_to_tensor(input)
    if (number := _symbolic_diagonal_number(x, k, align)) is not None:
        return _symbolic_diagonal(x, number)
    band = _band(x, k, align)
    flat = bind.reshape(x, shape=(*x._type.shape[:-2], band.rows * band.columns))
    return _gather_or_default(flat, band.flat_indices(), _diagonals_shape(band), _padding_value(padding_value, x))


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
    """Returns matrices with the given k-th diagonal, or band of diagonals.

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
      InvalidArgumentError: (ValueError while tracing) the diagonals don't fit the matrix.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/diag
    """
    x = convert_to_tensor(diagonal)
    low, high = _ordered(*_diagonal_range(k, align))
    size = x._type.shape[-1]
    outside = _padding_value(padding_value, x)
    if not isinstance(size, int):
        if low == high and int(num_rows) == int(num_cols) == -1:
            return _symbolic_diag(x, low, outside)
        raise unknown_size(
            ValueError(
                "the length of the diagonals must be known for a band, and for a given number of rows or columns, but the "
                f"shape of diagonal is {x.shape}"
            )
        )
    rows, columns = _matrix_size(size, low, high, int(num_rows), int(num_cols))
    band = Band(low, high, rows, columns, align)
    return _replace_diagonals(
        x, band, bind.broadcast_to(outside, shape=(*_batch_dims(x, band), rows, columns)), "MatrixDiagV3"
    )


def _symbolic_diag(x: Tensor, k: int, outside: Tensor) -> Tensor:
    """Returns square matrices with diagonal ``k`` of symbolic length and ``outside`` everywhere else."""
    rows = _as_matrix_row(x, outside, k)
    return bind.select(_diagonal_mask(rows._type.shape[-1], k), rows, outside)  # type: ignore[no-any-return]


def _diagonal_mask(size: Dim, k: int) -> Tensor:
    """Returns a bool matrix of ``size`` columns that is true on diagonal ``k``."""
    on, off = EagerTensor(np.array(True)), EagerTensor(np.array(False))
    return bind.one_hot(_int64_range(size, k), on, off, depth=size, axis=1)  # type: ignore[no-any-return]


def _matrix_size(size: int, low: int, high: int, rows: int, columns: int) -> tuple[int, int]:
    """Returns the numbers of rows and columns of the result of ``tf.linalg.diag``.

    Args:
      size: the length of the longest diagonal.
      low: the index of the lowest diagonal; it is negative below the main diagonal.
      high: the index of the highest diagonal.
      rows: the number of rows that the user requests, or `NOT_GIVEN`.
      columns: the number of columns that the user requests, or `NOT_GIVEN`.

    Raises:
      ArgumentError: the matrix is too small for the diagonals, or so large that the longest one would be longer.
    """
    # The longest diagonal takes `size` rows and columns. If all diagonals are below the main one, it begins in row
    # `-high`; if all are above, in column `low`.
    min_rows = size - min(high, 0)
    min_columns = size + max(low, 0)
    for name, requested, minimum in (("rows", rows, min_rows), ("columns", columns, min_columns)):
        if requested != NOT_GIVEN and requested < minimum:
            raise ArgumentError(f"The number of {name} is too small.").for_op("MatrixDiagV3")
    if rows == columns == NOT_GIVEN:  # then the matrix is square
        rows = columns = max(min_rows, min_columns)
    rows = min_rows if rows == NOT_GIVEN else rows
    columns = min_columns if columns == NOT_GIVEN else columns
    # With more rows and more columns than necessary, the longest diagonal would have more than `size` elements.
    if rows != min_rows and columns != min_columns:
        raise ArgumentError(
            "The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal."
        ).for_op("MatrixDiagV3")
    return rows, columns


def _batch_dims(x: Tensor, band: Band) -> tuple[Dim, ...]:
    """Returns the dims of ``x`` before those of a band's diagonals."""
    return x._type.shape[: x.ndim - len(_diagonals_shape(band))]


def _replace_diagonals(diagonals: Tensor, band: Band, matrix: Tensor, op: str) -> Tensor:
    """Replaces the diagonals of ``band`` in the matrices ``matrix`` by the elements of ``diagonals``.

    ``op`` is the name of TensorFlow's op in errors.
    """
    shape = _diagonals_shape(band)
    batch_rank = diagonals.ndim - len(shape)
    if batch_rank < 0 or tuple(diagonals._type.shape[batch_rank:]) != shape:
        raise ArgumentError(
            f"Expected diagonals whose last dims are {brackets(shape)}, but got shape {brackets(diagonals.shape)}"
        ).for_op(op)
    _require_same_batches(diagonals, matrix, len(shape), op)
    # One gather selects each element of the result: from the flattened diagonals, or else from the matrix.
    flat = bind.reshape(diagonals, shape=(*_batch_dims(diagonals, band), int(np.prod(shape))))
    return _gather_or_default(flat, band.inverse(), (band.rows, band.columns), matrix)


def _require_same_batches(diagonals: Tensor, matrix: Tensor, diagonal_rank: int, op: str) -> None:
    """Checks that there are diagonals for each matrix. ``diagonal_rank`` is 1 for a single diagonal, 2 for a band."""
    if not agree_shape(diagonals._type.shape[: diagonals.ndim - diagonal_rank], matrix._type.shape[:-2]):
        shapes = f"diagonal of shape {brackets(diagonals.shape)} and input of shape {brackets(matrix.shape)}"
        raise ArgumentError(f"The batch dimensions must be the same, but got {shapes}").for_op(op)


@export("linalg.set_diag")
@attributes(align=str)
def set_diag(input: Any, diagonal: Any, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT") -> Tensor:
    """Replaces the k-th diagonal of matrices, or a band of diagonals.

    Args:
      input: tensor of shape (..., rows, columns).
      diagonal: tensor of shape (..., length), or of shape (..., diagonals, greatest length) for a band, highest first.
      k: the index of the diagonal, or of the lowest and the highest one of a band.
      align: the sides to which short diagonals of a band are aligned, above and below the main diagonal.

    >>> import tvtf as tf
    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [8, 9]).numpy()
    array([[8, 2],
           [3, 9]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the length of ``diagonal`` is not that of the matrix's diagonal.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/set_diag
    """
    x, diagonals = operands(input, diagonal)
    if (number := _symbolic_diagonal_number(x, k, align)) is not None and diagonals.ndim:
        rows, columns = x._type.shape[-2:]
        # The faster form for symbolic sizes needs square matrices, whose diagonal's length is known in terms of them.
        if same_dim(rows, columns) and same_dim(diagonals._type.shape[-1], simplify_dim(rows - abs(number))):
            _require_same_batches(diagonals, x, 1, "MatrixSetDiagV3")
            return _set_symbolic_diagonal(diagonals, x, number)
    return _replace_diagonals(diagonals, _band(x, k, align), x, "MatrixSetDiagV3")


def _symbolic_diagonal_number(x: Tensor, k: Any, align: str) -> int | None:
    """Returns the index of the single diagonal to extract from matrices of symbolic size.

    Returns None for matrices of static size, and for several diagonals, which need indices known while tracing.

    Args:
      x: the matrices.
      k: the index of a diagonal, or those of the lowest and the highest.
      align: how shorter diagonals are aligned.
    """
    if x.ndim < 2 or is_static_shape(x._type.shape[-2:]):
        return None
    low, high = _diagonal_range(k, align)
    return low if low == high else None


def _symbolic_diagonal(x: Tensor, k: int) -> Tensor:
    """Gathers the diagonal ``k`` of matrices whose numbers of rows and columns are symbolic.

    Diagonal 0 is the main one. A positive ``k`` counts upwards from it, a negative ``k`` downwards.
    """
    *batch, rows, columns = x._type.shape
    flat = bind.reshape(x, shape=(*batch, simplify_dim(rows * columns)))
    first_row, first_column = max(-k, 0), max(k, 0)  # of the diagonal's first element
    rows_below = simplify_dim(rows + min(k, 0))
    columns_right = simplify_dim(columns - first_column)
    length = at_least_zero(dim_min(rows_below, columns_right))
    # Along a diagonal, indices into the flattened matrix grow by columns + 1.
    offsets = bind.multiply(_int64_range(length), scalar_of(simplify_dim(columns + 1)))
    first_index = simplify_dim(first_row * columns + first_column)
    indices = bind.add(offsets, scalar_of(first_index))
    return bind.gather(flat, indices, axis=x.ndim - 2, batch_dims=0)  # type: ignore[no-any-return]


def _int64_range(size: Dim, start: int = 0) -> Tensor:
    """Returns ``size`` consecutive int64 numbers, starting at ``start``."""
    return bind.range(size=size, start=start, delta=1, dtype=int64)  # type: ignore[no-any-return]


def _set_symbolic_diagonal(diagonals: Tensor, x: Tensor, k: int) -> Tensor:
    """Returns the square matrices ``x`` of symbolic size with diagonal ``k`` replaced."""
    mask = _diagonal_mask(x._type.shape[-1], k)
    return bind.select(mask, _as_matrix_row(diagonals, _padding_value(0, x), k), x)  # type: ignore[no-any-return]


def _as_matrix_row(diagonals: Tensor, outside: Tensor, k: int) -> Tensor:
    """Pads diagonal ``k`` to a row of its matrix, with each element in its column."""
    padded = bind.pad(diagonals, outside, paddings=(*((0, 0),) * (diagonals.ndim - 1), (max(k, 0), max(-k, 0))))
    return bind.reshape(padded, shape=(*padded._type.shape[:-1], 1, padded._type.shape[-1]))  # type: ignore[no-any-return]
