"""Ops on regular patterns: eye, band_part, meshgrid, sequence_mask, space_to_depth, shapes that broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.allocation_check import require_room
from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import (
    Dim,
    TensorShape,
    TensorType,
    as_shape,
    brackets,
    is_static_shape,
    show_shape,
    simplify_dim,
)
from tvtf.core.tensor import SymbolicTensor, Tensor, constant, convert_to_tensor
from tvtf.core.text_format import HOLE
from tvtf.core.thread_state import state
from tvtf.dtypes import COMPILED, INTEGER, as_dtype, float32, int32, int64
from tvtf.dtypes import bool as boolean
from tvtf.ops.array import reshape
from tvtf.ops.broadcast_dims import broadcast_dims
from tvtf.ops.cast import cast_tensor
from tvtf.ops.concat_split import flattened
from tvtf.ops.create import arange, checked_dims
from tvtf.ops.dims import dim_max, scalar_of
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes, word_of
from tvtf.ops.rules import (
    attribute_int,
    bind,
    draw,
    is_computed,
    kernel,
    number,
    require_dtype,
    require_same_dtype,
    static_dims,
    static_int,
)
from tvtf.ops.value_checks import is_permutation, required


@export("eye", "linalg.eye")
def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """Returns the identity matrix, or a batch of them.

    Args:
      num_rows: integer scalar.
      num_columns: integer scalar; as many as rows by default.
      batch_shape: vector of integers; None for a single matrix.
      dtype: the result's dtype.

    >>> import tvtf as tf
    >>> tf.eye(2).numpy()
    array([[1., 0.],
           [0., 1.]], dtype=float32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) a size is negative.

    Source: https://www.tensorflow.org/api_docs/python/tf/eye
    """
    element_dtype = as_dtype(dtype)
    rows = checked_dims(num_rows, "num_rows")[0]
    columns = rows if num_columns is None else checked_dims(num_columns, "num_columns")[0]
    if state.trace is None:
        require_room(TensorType((rows, columns), element_dtype), "MatrixDiagV3")
    is_bool = element_dtype is boolean
    on, off = (number(v, convert_to_tensor(bool(v) if is_bool else v, element_dtype)) for v in (1, 0))
    row_indices = bind.range(size=rows, start=0, delta=1, dtype=int64)
    identity = bind.one_hot(row_indices, on, off, depth=columns, axis=1)
    if batch_shape is None:
        return identity
    return bind.broadcast_to(identity, shape=(*checked_dims(batch_shape, "batch_shape"), rows, columns))


# -- band_part


def _band_type(x: TensorType, *, lower: int, upper: int) -> TensorType:
    """Checks the operands of band_part, and returns the type of the result: the type of ``x``.

    ``x`` must hold matrices. The band has ``lower`` diagonals below the main diagonal and ``upper`` above it.
    """
    if len(x.shape) < 2:
        raise ArgumentError(f"input must be at least 2-dim, received shape: {brackets(x.shape)}")
    rows, columns = x.shape[-2:]
    for name, width, extent, extent_name in (
        ("num_lower", lower, rows, "rows"),
        ("num_upper", upper, columns, "columns"),
    ):
        if isinstance(extent, int) and width > extent:
            raise ArgumentError(
                f"{name} must be negative or less or equal to number of {extent_name} ({extent}) got: {width}"
            )
    return x


def _band_numpy(x: np.ndarray, *, lower: int, upper: int) -> np.ndarray:
    offsets = np.arange(x.shape[-1]) - np.arange(x.shape[-2])[:, None]
    in_band = (offsets >= -lower if lower >= 0 else True) & (offsets <= upper if upper >= 0 else True)
    return np.where(in_band, x, np.zeros((), x.dtype))


def _band_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, lower: int, upper: int
) -> None:
    """Emits ONNX's Trilu once for each side of ``band_part``, which sets elements outside a diagonal band to 0.

    ``lower`` and ``upper`` are the numbers of diagonals to keep below and above the main diagonal.
    """
    (x,) = inputs
    (x_type,), _ = types
    dtype = x_type.dtype
    # Not every ONNX runtime has Trilu for the other dtypes.
    supported_dtype = dtype
    if dtype.is_floating and dtype.size == 2:
        supported_dtype = float32
    elif dtype.size < 8 and dtype is not float32:
        supported_dtype = int64
    band = emitter.cast(x, supported_dtype) if supported_dtype is not dtype else x
    # A negative width keeps all diagonals of that side.
    if upper >= 0:  # the lower triangle, up to the highest diagonal
        band = emitter.computed("Trilu", [band, emitter.const(np.array(upper))], upper=0)
    if lower >= 0:  # the upper triangle, from the lowest diagonal
        band = emitter.computed("Trilu", [band, emitter.const(np.array(-lower))], upper=1)
    if supported_dtype is not dtype:
        band = emitter.cast(band, dtype)
    emitter.node("Identity", [band], outputs)


@primitive(
    name="band_part",
    tf_name="MatrixBandPart",
    type=_band_type,
    numpy=_band_numpy,
    lower=kernel("array.band_part"),
    vjp=lambda cotangent, y, x, *, lower, upper: bind.band_part(cotangent, lower=lower, upper=upper),
    batch=lambda size, inputs, batched, *, lower, upper: bind.band_part(inputs[0], lower=lower, upper=upper),
    onnx=_band_nodes,
    samples=lambda: [
        Sample((draw(i, s),), {"lower": a, "upper": b}, COMPILED)
        for i, (s, a, b) in enumerate((((3, 4), 1, 1), ((2, 3, 3), -1, 0), ((3, 2), 0, -1), ((2, 2), -1, -1)))
    ],
)
def band(x: Tensor, lower: int, upper: int) -> Any:
    """Returns matrices with zeros outside a band around the diagonal of the last two axes."""
    return (x,), {"lower": lower, "upper": upper}


@export("linalg.band_part")
def band_part(input: Any, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Sets the elements of matrices to 0, except for a band about the diagonal.

    The band has ``num_lower`` diagonals below the main diagonal and ``num_upper`` above it. -1 keeps all on that side.

    >>> import tvtf as tf
    >>> tf.linalg.band_part([[1, 2], [3, 4]], -1, 0).numpy()
    array([[1, 0],
           [3, 4]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the rank is below 2, or the band is wider than the matrix.

    Source: https://www.tensorflow.org/api_docs/python/tf/linalg/band_part
    """
    if is_computed(num_lower) or is_computed(num_upper):
        return _computed_band(convert_to_tensor(input), num_lower, num_upper)
    lower, upper = static_int(num_lower, "num_lower"), static_int(num_upper, "num_upper")
    return bind.band_part(convert_to_tensor(input), lower=lower, upper=upper)


def _computed_band(x: Tensor, num_lower: Any, num_upper: Any) -> Tensor:
    """Computes band_part, which sets elements outside a diagonal band to 0, for widths that are computed at run time.

    The program checks each width against the number of rows or columns. A negative width keeps all on its side.

    Args:
      x: the matrices.
      num_lower, num_upper: the number of diagonals to keep below and above the main diagonal.
    """
    if x.ndim < 2:
        message = f"input must be at least 2-dim, received shape: {brackets(x.shape)}"
        raise ArgumentError(message).for_op("MatrixBandPart")
    rows, columns = (bind.cast(scalar_of(dim), dtype=int64) for dim in x._type.shape[-2:])
    # The number of diagonals by which an element lies below the main diagonal.
    diagonals_below = bind.subtract(reshape(arange(rows), [-1, 1]), reshape(arange(columns), [1, -1]))
    diagonals_above = bind.negative(diagonals_below)

    def within_side(width: Any, distance: Tensor, extent: Tensor, name: str, extent_name: str) -> Tensor:
        width = bind.cast(convert_to_tensor(width), dtype=int64)
        message = f"{name} must be negative or less or equal to number of {extent_name} ({HOLE}) got: {HOLE}"
        bind.guard(bind.less_equal(width, extent), extent, width, message=message, shown=2)
        keeps_all = bind.less(width, number(0, width))
        return bind.logical_or(keeps_all, bind.less_equal(distance, width))  # type: ignore[no-any-return]

    within_lower = within_side(num_lower, diagonals_below, rows, "num_lower", "rows")
    within_upper = within_side(num_upper, diagonals_above, columns, "num_upper", "columns")
    return bind.select(bind.logical_and(within_lower, within_upper), x, number(0, x))


@export("meshgrid")
def meshgrid(*args: Any, indexing: str = "xy", name: str = "meshgrid") -> list[Tensor]:
    """Returns the coordinates of a grid from its vectors: one tensor of the grid's shape for each.

    Args:
      args: vectors (or scalars).
      indexing: "xy" (the first two axes swapped, as for pictures) or "ij".

    >>> import tvtf as tf
    >>> x, y = tf.meshgrid([1, 2], [3, 4])
    >>> x.numpy()
    array([[1, 2],
           [1, 2]], dtype=int32)

    Raises:
      ValueError: ``indexing`` is neither "xy" nor "ij".

    Source: https://www.tensorflow.org/api_docs/python/tf/meshgrid
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"Argument `indexing` parameter must be either 'xy' or 'ij', got '{indexing}'")
    vectors = [flattened(convert_to_tensor(arg)) for arg in args]
    for vector in vectors[1:]:
        require_same_dtype((vector._type, vectors[0]._type))
    axes = list(range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        axes[:2] = [1, 0]
    shape: list[Dim] = [1] * len(vectors)
    for vector, axis in zip(vectors, axes):
        shape[axis] = vector._type.shape[0]
    return [_along(vector, axis, tuple(shape)) for vector, axis in zip(vectors, axes)]


def _along(vector: Tensor, axis: int, shape: tuple[Dim, ...]) -> Tensor:
    """Broadcasts a vector along ``axis`` to ``shape``."""
    lifted = bind.reshape(vector, shape=tuple(dim if i == axis else 1 for i, dim in enumerate(shape)))
    return bind.broadcast_to(lifted, shape=shape)


@export("sequence_mask")
def sequence_mask(lengths: Any, maxlen: Any = None, dtype: Any = boolean, name: str | None = None) -> Tensor:
    """Returns a mask for each length, along a new last axis of size ``maxlen``.

    Elements before the length are True (or 1), the others False (or 0).

    Args:
      lengths: integer tensor of any shape; cast to the dtype of ``maxlen``.
      maxlen: int or integer scalar. None means the largest length.
      dtype: the dtype of the result.

    >>> import tvtf as tf
    >>> tf.sequence_mask([1, 2], 3).numpy()
    array([[ True, False, False],
           [ True,  True, False]])

    Source: https://www.tensorflow.org/api_docs/python/tf/sequence_mask
    """
    counts = convert_to_tensor(lengths)
    length = _largest(counts) if maxlen is None else convert_to_tensor(maxlen)
    if length.ndim:
        detail = f"received `maxlen` = {maxlen} with shape '{length.shape}' instead"
        raise ValueError(f"Argument `maxlen` must be scalar for sequence_mask, {detail}")
    positions = arange(length, dtype=length.dtype)
    expanded = bind.reshape(cast_tensor(counts, positions.dtype), shape=(*counts._type.shape, 1))
    mask = bind.less(positions, expanded)
    return mask if as_dtype(dtype) is boolean else bind.cast(mask, dtype=as_dtype(dtype))


def _largest(counts: Tensor) -> Tensor:
    result = bind.reduce_max(counts, axis=tuple(range(counts.ndim)), keepdims=False)
    return bind.maximum(result, number(0, counts))  # type: ignore[no-any-return]


# -- shapes that broadcast


@export("broadcast_static_shape")
def broadcast_static_shape(shape_x: Any, shape_y: Any) -> TensorShape:
    """Returns the shape to which two shapes broadcast. Unknown dims broadcast to unknown dims.

    >>> import tvtf as tf
    >>> tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3]))
    TensorShape([2, 3])

    Raises:
      ValueError: the shapes don't broadcast.

    Source: https://www.tensorflow.org/api_docs/python/tf/broadcast_static_shape
    """
    first, second = as_shape(shape_x), as_shape(shape_y)
    if first.rank is None or second.rank is None:
        return TensorShape(None)
    rank = max(first.rank, second.rank)
    # The shorter shape is padded with ones in front.
    first_dims = [1] * (rank - first.rank) + list(first)
    second_dims = [1] * (rank - second.rank) + list(second)
    return TensorShape([_broadcast_known(a, b, first, second) for a, b in zip(first_dims, second_dims)])


def _broadcast_known(a: int | None, b: int | None, first: TensorShape, second: TensorShape) -> int | None:
    """Returns the dim to which two dims broadcast, for ``broadcast_static_shape``. None is an unknown dim.

    ``first`` and ``second`` are the whole shapes, which the error shows.
    """
    if a is None:  # a known dim decides if it isn't 1
        return None if b == 1 else b
    if b is None:
        return None if a == 1 else a
    if a != b and 1 not in (a, b):
        raise ValueError(
            "Incompatible shapes for broadcasting. Two shapes are compatible if for each dimension pair they are either "
            f"equal or one of them is 1. Received: {first} and {second}."
        )
    return a if b == 1 else b


@export("broadcast_dynamic_shape")
def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Returns the shape to which two shapes broadcast. All three are integer vectors.

    >>> import tvtf as tf
    >>> tf.broadcast_dynamic_shape([2, 1], [3]).numpy()
    array([2, 3], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) the shapes don't broadcast.

    Source: https://www.tensorflow.org/api_docs/python/tf/broadcast_dynamic_shape
    """
    if _is_of_any_length(shape_x) or _is_of_any_length(shape_y):
        return _broadcast_sizes(shape_x, shape_y)
    first, second = static_dims(shape_x), static_dims(shape_y)
    result = broadcast_dims(first, second)
    if result is None:
        raise ArgumentError(f"Incompatible shapes: {brackets(first)} vs. {brackets(second)}").for_op("BroadcastArgs")
    dtype = next((shape.dtype for shape in (shape_x, shape_y) if isinstance(shape, Tensor)), int32)
    if is_static_shape((*first, *second)):
        return constant(np.array(result, dtype.np))
    sizes = _broadcast_sizes(shape_x, shape_y)  # checks the sizes that are unknown while tracing
    if isinstance(sizes, SymbolicTensor):
        # The result's value is known in terms of symbolic dims. The alias is another tensor, so `sizes` keeps its own.
        sizes = sizes.alias()
        sizes.known = np.array([*result], object)
    return sizes


def _is_of_any_length(sizes: Any) -> bool:
    """Returns whether a vector of sizes has an unknown length, so that its elements can't become dims of the trace."""
    if not isinstance(sizes, SymbolicTensor) or sizes.dtype not in INTEGER:
        return False  # static_dims rejects other dtypes
    return sizes.known is None and not is_static_shape(sizes._type.shape)


def _broadcast_sizes(shape_x: Any, shape_y: Any) -> Tensor:
    """Computes ``broadcast_dynamic_shape`` at run time, for shapes whose rank is unknown while tracing.

    The shorter vector is padded with ones in front.

    Args:
      shape_x, shape_y: the shapes, which are vectors.
    """
    symbolic_dtypes = [shape.dtype for shape in (shape_x, shape_y) if isinstance(shape, SymbolicTensor)]
    dtype = symbolic_dtypes[0] if symbolic_dtypes else int32
    x = convert_to_tensor(shape_x, dtype)
    y = convert_to_tensor(shape_y, dtype)
    (x_rank,) = x._type.shape
    (y_rank,) = y._type.shape
    one = constant(np.array(1, dtype.np))
    rank = dim_max(x_rank, y_rank)

    def padded(shape: Tensor, shape_rank: Any) -> Tensor:
        ones = bind.broadcast_to(one, shape=(simplify_dim(rank - shape_rank),))
        return bind.concat(ones, shape, axis=0)  # type: ignore[no-any-return]

    second = padded(y, y_rank)
    first = required(padded(x, x_rank), _check_broadcast, _broadcasts, "Incompatible shapes", second)
    # A size of 1 gives way to the other size.
    return bind.select(bind.equal(first, one), second, first)  # type: ignore[no-any-return]


def _broadcasts(first: Tensor, second: Tensor) -> Tensor:
    one = constant(np.array(1, first.dtype.np))
    ones = bind.logical_or(bind.equal(first, one), bind.equal(second, one))
    return bind.logical_or(ones, bind.equal(first, second))  # type: ignore[no-any-return]


def _check_broadcast(first: np.ndarray, second: np.ndarray) -> None:
    if not ((first == second) | (first == 1) | (second == 1)).all():
        raise ArgumentError(f"Incompatible shapes: {brackets(first)} vs. {brackets(second)}").for_op("BroadcastArgs")


# -- blocks of space


@export("nn.space_to_depth")
@attributes(data_format=word_of("NHWC", "NCHW", "NCHW_VECT_C"))
def space_to_depth(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Moves blocks of ``block_size`` x ``block_size`` pixels into the channels of one pixel.

    Args:
      input: tensor of shape (batch, height, width, channels), or (batch, channels, height, width) for "NCHW". The height
        and width are multiples of the block size.
      block_size: int above 1.

    >>> import tvtf as tf
    >>> tf.nn.space_to_depth([[[[1], [2]], [[3], [4]]]], 2).numpy()
    array([[[[1, 2, 3, 4]]]], dtype=int32)

    Raises:
      InvalidArgumentError: (ValueError while tracing) height or width is not a multiple of the block size.

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/space_to_depth
    """
    x = _channels_last(convert_to_tensor(input), data_format)
    batch, height, width, channels = x._type.shape
    block = _checked_block_size(block_size, (height, width))
    rows, columns = _divided(height, block), _divided(width, block)  # of blocks
    blocks = bind.reshape(x, shape=(batch, rows, block, columns, block, channels))
    pixels_last = bind.transpose(blocks, perm=(0, 1, 3, 2, 4, 5))
    result = bind.reshape(pixels_last, shape=(batch, rows, columns, simplify_dim(channels * block * block)))
    return _channels_back(result, data_format)


@export("nn.depth_to_space")
@attributes(data_format=word_of("NHWC", "NCHW", "NCHW_VECT_C"))
def depth_to_space(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Moves channels into blocks of ``block_size`` x ``block_size`` pixels: the inverse of :func:`space_to_depth`.

    >>> import tvtf as tf
    >>> tf.nn.depth_to_space([[[[1, 2, 3, 4]]]], 2).shape
    TensorShape([1, 2, 2, 1])

    Raises:
      InvalidArgumentError: (ValueError while tracing) the channels are not a multiple of the squared block size.

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/depth_to_space
    """
    x = _channels_last(convert_to_tensor(input), data_format)
    batch, rows, columns, depth = x._type.shape
    block = _checked_block_size(block_size, ())
    pixel_count = block * block
    if isinstance(depth, int) and depth % pixel_count:
        message = f"Input depth dimension {depth} should be divisible by: {pixel_count}"
        raise ArgumentError(message).for_op("DepthToSpace")
    channels = _divided(depth, pixel_count)
    blocks = bind.reshape(x, shape=(batch, rows, columns, block, block, channels))
    image_order = bind.transpose(blocks, perm=(0, 1, 3, 2, 4, 5))
    height, width = simplify_dim(rows * block), simplify_dim(columns * block)
    result = bind.reshape(image_order, shape=(batch, height, width, channels))
    return _channels_back(result, data_format)


def _divided(dim: Dim, divisor: int) -> Dim:
    return simplify_dim(dim // divisor)


def _checked_block_size(block_size: Any, extents: Sequence[Dim]) -> int:
    """Converts the block size of space_to_depth to an int, after checking it.

    The block size must be at least 2 and divide all known ``extents``.
    """
    size = attribute_int(block_size, "block_size", -(2**31))
    if size < 2:
        raise ArgumentError(f"Block size should be > 1, but was: {size}").for_op("SpaceToDepth")
    for extent in extents:
        if isinstance(extent, int) and extent % size:
            message = f"Image height and width should be divisible by block_size {size}, but one is {extent}"
            raise ArgumentError(message).for_op("SpaceToDepth")
    return size


def _channels_last(x: Tensor, data_format: str) -> Tensor:
    """Returns images with the channels as the last axis, after checking their rank and the data format."""
    if data_format not in ("NHWC", "NCHW"):
        raise ValueError(f"Expected data_format 'NHWC' or 'NCHW', but got {data_format!r}")
    if x.ndim != 4:
        raise ArgumentError(f"Input rank should be 4 instead of: {x.ndim}").for_op("SpaceToDepth")
    return x if data_format == "NHWC" else bind.transpose(x, perm=(0, 2, 3, 1))


def _channels_back(x: Tensor, data_format: str) -> Tensor:
    return x if data_format == "NHWC" else bind.transpose(x, perm=(0, 3, 1, 2))


@export("math.invert_permutation")
def invert_permutation(x: Any, name: str | None = None) -> Tensor:
    """Returns the inverse of a permutation of 0, ..., n - 1: the position of each number in the permutation.

    >>> import tvtf as tf
    >>> tf.math.invert_permutation([2, 0, 1]).numpy()
    array([1, 2, 0], dtype=int32)

    Raises:
      InvalidArgumentError: the vector is not a permutation.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/invert_permutation
    """
    perm = convert_to_tensor(x, int32 if isinstance(x, float) else None)
    require_dtype(perm._type, (int32, int64), "x")
    if perm.ndim != 1:
        raise ArgumentError(f"invert_permutation expects a 1D vector, but got shape {show_shape(perm._type.shape)}")
    message = "invert_permutation expects each of 0, ..., n - 1 once"
    perm = required(perm, _check_permutation, is_permutation, message)
    return bind.cast(bind.argsort(perm, descending=False), dtype=perm.dtype)


def _check_permutation(array: np.ndarray) -> None:
    """Checks that ``array`` is a permutation of 0, ..., n - 1, or raises TensorFlow's error for a wrong element."""
    count = len(array)
    outside = array[(array < 0) | (array >= count)]
    if outside.size:
        raise ArgumentValueError(f"{outside[0]} is not between 0 and {count}").for_op("InvertPermutation")
    distinct, first_positions = np.unique(array, return_index=True)
    if len(distinct) < count:
        repeated = np.delete(array, first_positions)[0]
        raise ArgumentValueError(f"{repeated} is duplicated in the input.").for_op("InvertPermutation")
