"""Conversions of Python lists and dense tensors to ragged tensors and back; ``tf.ragged``'s functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.composites.ragged.kernels import dim, positions, ranges
from tvtf.composites.ragged.partition import RowPartition, splits_of_lengths
from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.argument_error import incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, agree_dim, simplify_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype, int32, int64, string
from tvtf.dtypes import bool as bool_dtype
from tvtf.errors import InvalidArgumentError
from tvtf.ops.array import shape as shape_of
from tvtf.ops.bincount import bincount
from tvtf.ops.cast import cast, cast_tensor
from tvtf.ops.host import unknown_dim
from tvtf.ops.indexing import boolean_mask as dense_mask
from tvtf.ops.indexing import gather
from tvtf.ops.operands import integer_tensor
from tvtf.ops.reduce import reduce_max
from tvtf.ops.rules import bind, zeros_like


@export("ragged.constant")
def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = int64,
) -> Any:
    """Converts nested lists to a ragged tensor, or to a dense one if no dim is ragged.

    Args:
      pylist: nested lists, tuples or arrays; all scalars at the same depth.
      dtype: the dtype of the values.
      ragged_rank: the number of ragged dims; default: all but the outermost.
      inner_shape: the shape of each innermost value, if values are lists.
      row_splits_dtype: int32 or int64.

    >>> import tvtf as tf
    >>> tf.ragged.constant([[1, 2], [3], []])
    <tf.RaggedTensor [[1, 2], [3], []]>

    Raises:
      ValueError: scalars are at different depths, or ``ragged_rank`` does not fit them.

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/constant
    """
    depths = set(_depths(pylist))
    if len(depths) > 1:
        raise ValueError("all scalar values must have the same nesting depth")
    depth = max([*depths, _max_depth(pylist)])
    inner_dims = tuple(inner_shape) if inner_shape is not None else ()
    rank = depth - 1 - len(inner_dims) if ragged_rank is None else ragged_rank
    _check_ragged_rank(pylist, min(depths, default=None), depth, rank if inner_shape is None else 0)
    value_dtype = None if dtype is None else as_dtype(dtype)
    if rank <= 0:
        return convert_to_tensor(pylist, value_dtype)
    rows, splits = pylist, []
    for _ in range(rank):
        splits.append(np.cumsum([0, *map(len, rows)], dtype=as_dtype(row_splits_dtype).np))
        rows = [each for row in rows for each in row]
    values = _innermost_values(rows, value_dtype, inner_dims, depth - 1 - rank)
    return RaggedTensor.from_nested_row_splits(values, [EagerTensor(row_splits) for row_splits in splits])


def _check_ragged_rank(pylist: Any, scalar_depth: int | None, depth: int, rank: int) -> None:
    """Checks the argument ``ragged_rank`` (``rank``) of `tf.ragged.constant` against a nested list, or raises.

    ``scalar_depth`` is the nesting depth of the list's scalars (None without scalars), ``depth`` that of the list.
    """
    if scalar_depth == 0 and rank > 0:
        raise ValueError(f"Invalid pylist={pylist}: incompatible with ragged_rank={rank}")
    if scalar_depth is not None and rank > depth:
        raise ValueError(f"Invalid pylist={pylist}, max depth smaller than ragged_rank={rank}")
    if scalar_depth is not None and rank >= scalar_depth > 0:
        raise ValueError(
            f"pylist has scalar values depth {scalar_depth}, but ragged_rank={rank} requires scalar value depth greater "
            f"than {rank}"
        )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _depths(value: Any, depth: int = 0) -> list[int]:
    """Returns the nesting depth of each scalar in nested lists."""
    return [found for each in value for found in _depths(each, depth + 1)] if _is_list(value) else [depth]


def _max_depth(value: Any) -> int:
    return 1 + max([*map(_max_depth, value), 0]) if _is_list(value) else 0


def _innermost_values(rows: list[Any], dtype: DType | None, item_shape: tuple[int, ...], rank: int) -> Tensor:
    """Converts the elements of the innermost ragged rows to a tensor.

    Without elements, the tensor is empty. Its other dims then are ``item_shape``, or ``rank`` dims of size 0.
    """
    if rows:
        elements = [row.tolist() if isinstance(row, np.ndarray) else row for row in rows]
        return convert_to_tensor(elements, dtype)
    shape = (0, *item_shape) if item_shape else (0,) * (1 + rank)
    if dtype is string:
        return convert_to_tensor(np.empty(shape, object))
    return convert_to_tensor(np.zeros(shape, (dtype or as_dtype("float32")).np))


def from_tensor(tensor: Tensor, lengths: Any, padding: Any, ragged_rank: int, splits_dtype: DType) -> RaggedTensor:
    """Converts a dense tensor to a ragged tensor with ``ragged_rank`` ragged dims.

    Rows are cut to ``lengths``, or their trailing values equal to ``padding`` are removed. With neither, rows stay whole.
    """
    if lengths is not None and padding is not None:
        raise ValueError("Specify argument `lengths` or `padding`, but not both.")
    if ragged_rank < 1 or ragged_rank > tensor.ndim - 1:
        raise ValueError(f"Argument `ragged_rank` must be in [1, {tensor.ndim - 1}], but is {ragged_rank}")
    shape = tensor._type.shape
    # A list of vectors has the lengths of several levels of rows.
    if isinstance(lengths, (list, tuple)) and lengths and isinstance(lengths[0], (list, tuple, Tensor)):
        return _trim_nested(tensor, [convert_to_tensor(each, dtype_hint=int64) for each in lengths])
    are_whole = lengths is None and padding is None
    uniform_axes = ragged_rank if are_whole else ragged_rank - 1
    rows: Any = bind.reshape(tensor, shape=(size_of(shape[: uniform_axes + 1]), *shape[uniform_axes + 1 :]))
    if not are_whole:
        rows = _trim_rows(rows, lengths, padding, splits_dtype)
    return split_axis(rows, shape[: uniform_axes + 1], splits_dtype)


def split_axis(rows: Any, sizes: Sequence[Dim], splits_dtype: DType) -> Any:
    """Splits the first axis of a tensor, ragged or dense, into uniform axes of the given sizes."""
    for axis in range(len(sizes) - 1, 0, -1):
        rows = RaggedTensor.of_partition(rows, RowPartition.of_dims(size_of(sizes[:axis]), sizes[axis], splits_dtype))
    return rows


def _trim_rows(matrix: Tensor, lengths: Any, padding: Any, splits_dtype: DType) -> RaggedTensor:
    """Converts a dense matrix to a ragged tensor with rows of the given lengths, or without their trailing padding.

    Args:
      matrix: tensor of shape (rows, columns, ...).
      lengths: the length of each row, at most the number of columns; None if ``padding`` is given.
      padding: the value that is removed from the ends of rows, or None.
      splits_dtype: the dtype of the row splits.
    """
    width = dim(matrix, 1)
    zero = EagerTensor(np.zeros((), np.int64))
    if padding is not None:
        padding = convert_to_tensor(padding, matrix.dtype)
        padding.shape.assert_is_compatible_with(matrix.shape[2:])
        lengths = _lengths_without_padding(matrix, padding)
    limits = bind.cast(convert_to_tensor(lengths, dtype_hint=int64), dtype=int64)
    limits.shape.assert_has_rank(1)
    if not agree_dim(matrix._type.shape[0], limits._type.shape[0]):
        message = f"lengths of shape {limits.shape} do not fit a tensor of shape {matrix.shape}"
        raise incompatible_shapes(ValueError(message))
    row_sizes = bind.maximum(bind.minimum(limits, width), zero)
    starts = positions(matrix) * width
    splits, value_indices = ranges(starts, starts + row_sizes)
    return RaggedTensor(gather(joined_axes(matrix), value_indices), cast(splits, splits_dtype))


def joined_axes(matrix: Tensor) -> Tensor:
    """Merges the first two axes."""
    shape = matrix._type.shape
    return bind.reshape(matrix, shape=(simplify_dim(shape[0] * shape[1]), *shape[2:]))  # type: ignore[no-any-return]


def _lengths_without_padding(matrix: Tensor, padding: Tensor) -> Tensor:
    """Returns the length of each row of a dense matrix without its trailing padding."""
    is_value = bind.not_equal(matrix, padding)
    while is_value.ndim > 2:
        is_value = bind.reduce_any(is_value, axis=(is_value.ndim - 1,), keepdims=False)
    # A value counts as its column plus 1, and padding as 0. The maximum over a row then is the row's length.
    ends = cast(is_value, int64) * (cast(positions(_transposed(matrix)), int64) + 1)
    return reduce_max(ends, axis=1)


def _transposed(matrix: Tensor) -> Tensor:
    return bind.transpose(matrix, perm=(1, 0, *range(2, matrix.ndim)))  # type: ignore[no-any-return]


def _trim_nested(tensor: Tensor, lengths: list[Tensor]) -> RaggedTensor:
    """Converts a dense tensor to a ragged one with row lengths given for each level, the outermost first."""
    first, *inner_lengths = lengths
    outer = from_tensor(tensor, first, None, 1, int64)
    return outer.with_values(_trim_nested(outer.values, inner_lengths)) if inner_lengths else outer


def bounding_shape(ragged: RaggedTensor) -> Tensor:
    """Returns the shape of the smallest dense tensor that can hold a ragged tensor, as an int64 vector."""
    sizes = [ragged.nrows()]
    values: Any = ragged
    while isinstance(values, RaggedTensor):
        sizes.append(_max_row_length(values))
        values = values.values
    inner_shape = shape_of(values, int64)[1:]
    outer_shape = bind.stack(*[cast(size, int64) for size in sizes], axis=0)
    return bind.concat(outer_shape, inner_shape, axis=0)  # type: ignore[no-any-return]


def _max_row_length(ragged: RaggedTensor) -> Tensor:
    lengths = cast(ragged.row_lengths(), int64)
    return reduce_max(bind.concat(EagerTensor(np.zeros(1, np.int64)), lengths, axis=0))


def to_tensor(ragged: RaggedTensor, default: Any, shape: list[int | None] | None) -> Tensor:
    """Converts a ragged tensor to a dense tensor; short rows are padded with ``default``.

    Dims are cut or padded to ``shape``; a dim of None is as long as the longest row.
    """
    requested = shape or [None] * (ragged.shape.rank or 0)
    values: Any = ragged.values
    if isinstance(values, RaggedTensor):
        values = to_tensor(values, default, [None, *requested[2:]])
    default = _default(default, values)
    width = unknown_dim() if requested[1] is None else requested[1]
    dense = bind.ragged_dense(values, ragged.row_splits, default, width=width)
    return dense if requested[0] is None else _with_row_count(dense, default, requested[0])


def _default(default: Any, values: Tensor) -> Tensor:
    if default is None:
        return EagerTensor(np.array(b"" if values.dtype is string else 0, values.dtype.np))
    return convert_to_tensor(default, values.dtype)


def _with_row_count(dense: Tensor, default: Tensor, count: int) -> Tensor:
    """Truncates a dense tensor to ``count`` rows, or pads it with rows of the default."""
    # The dense tensor becomes one row of a ragged tensor, whose items are its rows.
    rows = RaggedTensor.from_row_splits(dense, bind.stack(EagerTensor(np.array(0)), dim(dense, 0), axis=0))
    return bind.ragged_dense(rows.values, rows.row_splits, default, width=count)[0]  # type: ignore[no-any-return]


def merge_dims(value: Any, outer: int, inner: int) -> Any:
    """Merges the axes from ``outer`` to ``inner`` of a ragged or dense tensor into one, as `RaggedTensor.merge_dims`.

    A ragged tensor consists of a partition of its values into rows (axes 0 and 1) and of the values, whose axis 0 is
    the ragged tensor's axis 1. The recursion removes partitions until the axes to merge are at the start.

    Raises:
      ValueError: ``outer`` is greater than ``inner``.
    """
    if outer == inner:
        return value
    if outer > inner:
        raise ValueError(f"Expected outer_axis ({outer}) to be less than or equal to inner_axis ({inner})")
    if not isinstance(value, RaggedTensor):
        shape = value._type.shape
        size = math.prod(shape[outer : inner + 1])
        return bind.reshape(value, shape=(*shape[:outer], size, *shape[inner + 1 :]))
    if outer == 0:  # axes 0 and 1 merge by dropping the partition into rows
        return merge_dims(value.values, 0, inner - 1)
    if outer == 1:  # merges axes 1 and 2, and then the next ones
        return merge_dims(_merge_inner_axes(value), 1, inner - 1)
    return value.with_values(merge_dims(value.values, outer - 1, inner - 1))


def _merge_inner_axes(ragged: RaggedTensor) -> RaggedTensor:
    """Merges axes 1 and 2 of a ragged tensor: the elements of each row are concatenated to one longer row.

    For example, ``[[[1], [2, 3]], [[4]]]`` becomes ``[[1, 2, 3], [4]]``.
    """
    values, splits = ragged.values, ragged.row_splits
    if isinstance(values, RaggedTensor):
        merged_splits = bind.gather(values.row_splits, splits, axis=0, batch_dims=0)
        return RaggedTensor(values.values, merged_splits)
    row_count, row_length, *inner_shape = values._type.shape
    merged_values = bind.reshape(values, shape=(row_count * row_length, *inner_shape))
    merged_splits = bind.multiply(splits, cast(dim(values, 1), splits.dtype))
    return RaggedTensor(merged_values, merged_splits)


@export("ragged.range")
def range_(
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = int64,
) -> RaggedTensor:
    """Returns a ragged tensor with one range per row.

    >>> import tvtf as tf
    >>> tf.ragged.range([3, 5, 2]), tf.ragged.range([0, 5], [3, 7])
    (<tf.RaggedTensor [[0, 1, 2], [0, 1, 2, 3, 4], [0, 1]]>, <tf.RaggedTensor [[0, 1, 2], [5, 6]]>)

    Raises:
      InvalidArgumentError: a step is zero.

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/range
    """
    if limits is None:
        starts, limits = 0, starts
    tensors = [convert_to_tensor(x) for x in (starts, limits, deltas)]
    value_dtype = (
        as_dtype(dtype) if dtype is not None else max((tensor.dtype for tensor in tensors), key=_promotion_rank)
    )
    shape = next((tensor._type.shape for tensor in tensors if tensor.ndim), (1,))
    rows = [cast(tensor if tensor.ndim else bind.broadcast_to(tensor, shape=shape), value_dtype) for tensor in tensors]
    splits, values = ranges(*rows)
    return RaggedTensor(values, cast(splits, as_dtype(row_splits_dtype)))


def _promotion_rank(dtype: DType) -> tuple[bool, int]:
    """Returns the key by which ``range`` selects its dtype: floats come after integers, wide dtypes after narrow ones."""
    return dtype.is_floating, dtype.np.itemsize


@export("ragged.row_splits_to_segment_ids")
def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Tensor:
    """Converts row splits to the row id of each value.

    >>> import tvtf as tf
    >>> tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5]).numpy()
    array([0, 0, 0, 2, 2])

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/row_splits_to_segment_ids
    """
    row_splits = convert_to_tensor(splits, dtype_hint=int64)
    if row_splits.dtype not in (int32, int64):
        raise ValueError("splits must have dtype int32 or int64")
    lengths = row_splits[1:] - row_splits[:-1]
    # A ragged tensor with rows of these lengths: its values are their positions in the row.
    splits, positions_in_rows = ranges(zeros_like(lengths), lengths)
    rows = RaggedTensor(positions_in_rows, cast(splits, row_splits.dtype))
    return cast(rows.value_rowids(), as_dtype(out_type or row_splits.dtype))


@export("ragged.segment_ids_to_row_splits")
def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """Converts sorted segment ids to row splits.

    >>> import tvtf as tf
    >>> tf.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2, 3, 4, 4, 4]).numpy()
    array([0, 3, 3, 5, 6, 9])

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/segment_ids_to_row_splits
    """
    dtypes = (x.dtype for x in (segment_ids, num_segments) if isinstance(x, Tensor))
    splits_dtype = as_dtype(out_type or next(dtypes, int64))
    ids = cast_tensor(integer_tensor(segment_ids, "segment_ids"), int32)
    ids.shape.assert_has_rank(1)
    count = None if num_segments is None else cast_tensor(integer_tensor(num_segments, "num_segments"), int32)
    return splits_of_lengths(bincount(ids, minlength=count, maxlength=count, dtype=splits_dtype))


@export("ragged.boolean_mask")
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Selects the values for which a mask is True; with a mask of several dims the result is ragged.

    >>> import tvtf as tf
    >>> tf.ragged.boolean_mask([[1, 2, 3], [4, 5, 6]], [[True, False, True], [False, False, True]])
    <tf.RaggedTensor [[1, 3], [6]]>

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/boolean_mask
    """
    if isinstance(mask, RaggedTensor) and mask.dtype is not bool_dtype:
        raise ValueError(
            f"Tensor conversion requested dtype bool for RaggedTensor with dtype {mask.dtype.name}: {mask}."
        )
    selected = mask if isinstance(mask, RaggedTensor) else convert_to_tensor(mask, bool_dtype)
    values = data if isinstance(data, RaggedTensor) else convert_to_tensor(data)
    if isinstance(selected, Tensor) and selected.ndim == 1:
        true_positions = bind.true_places(selected, count=unknown_dim())[:, 0]
        return gather_rows(values, true_positions) if isinstance(values, RaggedTensor) else dense_mask(values, selected)
    if isinstance(selected, Tensor):
        splits_dtype = values.row_splits.dtype if isinstance(values, RaggedTensor) else int64
        selected = from_tensor(selected, None, None, selected.ndim - 1, splits_dtype)
    if isinstance(values, Tensor):
        values = from_tensor(values, None, None, selected.ragged_rank, selected.row_splits.dtype)
    selected_values = boolean_mask(values.values, selected.values)
    if isinstance(selected.values, RaggedTensor):
        return values.with_values(selected_values)
    counts = _row_sums(cast(selected.values, int64), selected)
    return RaggedTensor(selected_values, cast(splits_of_lengths(counts), values.row_splits.dtype))


def _row_sums(values: Tensor, rows: RaggedTensor) -> Tensor:
    """Returns the sum of each row, by differences of cumulative sums."""
    running = splits_of_lengths(values)
    return gather(running, rows.row_limits()) - gather(running, rows.row_starts())


def gather_rows(ragged: RaggedTensor, indices: Tensor) -> RaggedTensor:
    """Gathers the rows of a ragged tensor at a vector of indices."""
    starts = cast(gather(ragged.row_starts(), indices), int64)
    limits = cast(gather(ragged.row_limits(), indices), int64)
    splits, value_indices = ranges(starts, limits)
    values = ragged.values
    if isinstance(values, RaggedTensor):
        gathered: Any = gather_rows(values, value_indices)
    else:
        gathered = gather(values, value_indices)
    return RaggedTensor(gathered, cast(splits, ragged.row_splits.dtype))


@export("ragged.map_flat_values")
def map_flat_values(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Applies ``op`` to the innermost values of ragged arguments; the result has the same rows as the arguments.

    >>> import tvtf as tf
    >>> tf.ragged.map_flat_values(lambda x: x * 2, tf.ragged.constant([[1], [2, 3]]))
    <tf.RaggedTensor [[2], [4, 6]]>

    Raises:
      InvalidArgumentError: the arguments' rows differ.

    Source: https://www.tensorflow.org/api_docs/python/tf/ragged/map_flat_values
    """
    ragged = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, RaggedTensor)]
    if not ragged:
        return op(*args, **kwargs)
    check_same_rows(ragged)

    def flat_values(value: Any) -> Any:
        return value.flat_values if isinstance(value, RaggedTensor) else value

    flat_args = [flat_values(value) for value in args]
    flat_kwargs = {keyword: flat_values(value) for keyword, value in kwargs.items()}
    return ragged[0].with_flat_values(op(*flat_args, **flat_kwargs))


def check_same_rows(ragged: Sequence[RaggedTensor]) -> None:
    """Checks that ragged tensors have the same row splits. Only eager row splits are compared.

    Raises:
      InvalidArgumentError: the row splits differ.
    """

    def may_be_equal(first: Tensor, second: Tensor) -> bool:
        if isinstance(first, EagerTensor) and isinstance(second, EagerTensor):
            return np.array_equal(first.numpy(), second.numpy())
        return True  # the values of symbolic row splits are unknown while tracing

    expected = ragged[0].nested_row_splits
    for tensor in ragged[1:]:
        splits = tensor.nested_row_splits
        if len(splits) != len(expected) or not all(map(may_be_equal, expected, splits)):
            raise InvalidArgumentError(
                None, None, "Inputs must have identical ragged splits: Condition x == y did not hold."
            )
