"""Ops that partition and reorder slices.

They are dynamic_partition, dynamic_stitch, unravel_index, reverse_sequence, space_to_batch, batch_to_space and patches.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.integers import ceil_div
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType, agree_dim, agree_shape, brackets, simplify_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor import static_value as known_value
from tvtf.dtypes import int32, int64
from tvtf.errors import UnimplementedError
from tvtf.ops.concat_split import stack
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import gather, gather_densely, nonzero_indices
from tvtf.ops.operands import attributes, integers, operand, operands_of_list, positive
from tvtf.ops.reduce import reduce_sum
from tvtf.ops.rules import (
    attribute_int,
    attribute_ints,
    attribute_text,
    bind,
    listed,
    number,
    require_dtype,
    require_same_dtype,
    static_int,
    static_value,
    variadic_inputs,
)
from tvtf.ops.value_checks import required, within

# -- partitions


@export("dynamic_partition")
@attributes(num_partitions=positive)
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Distributes the slices of a tensor over ``num_partitions`` tensors.

    Args:
      data: tensor of shape (p..., d...).
      partitions: int32 tensor of shape (p...): for each slice the index of its tensor, in [0, num_partitions).
      num_partitions: int.

    Returns:
      A list of tensors of shape (slices, d...), slices in the order they had.

    Raises:
      InvalidArgumentError: ``data`` does not begin with the shape of ``partitions``.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.dynamic_partition([10, 20, 30], [1, 0, 1], 2)]
    [[20], [10, 30]]

    Source: https://www.tensorflow.org/api_docs/python/tf/dynamic_partition
    """
    data_tensor = convert_to_tensor(data)
    numbers = operand(partitions, int32, 1)
    data_shape, partitions_shape = data_tensor._type.shape, numbers._type.shape
    if not agree_shape(data_shape[: len(partitions_shape)], partitions_shape):
        raise ArgumentError(
            f"data.shape must start with partitions.shape, got data.shape = {brackets(data_shape)}, "
            f"partitions.shape = {brackets(partitions_shape)}"
        ).for_op("DynamicPartition")
    count = static_int(num_partitions, "num_partitions")
    message = f"partitions is not in [0, {count})"
    numbers = required(numbers, partial(_require_within, count=count), within(count), message)
    # The axes of `partitions` become one: each slice of the data is a row with one number.
    rows = bind.reshape(data_tensor, shape=(size_of(partitions_shape), *data_shape[len(partitions_shape) :]))
    flat_numbers = bind.reshape(numbers, shape=(size_of(partitions_shape),))
    return [_rows_where(rows, bind.equal(flat_numbers, number(i, flat_numbers))) for i in range(count)]


def _require_within(numbers: np.ndarray, count: int) -> None:
    """Checks that all partition numbers are in [0, count). Raises TensorFlow's error for the first wrong one."""
    wrong_positions = np.argwhere((numbers < 0) | (numbers >= count))
    if len(wrong_positions):
        position = tuple(wrong_positions[0].tolist())
        position_text = f"[{','.join(map(str, position))}]" if position else ""
        message = f"partitions{position_text} = {numbers[position]} is not in [0, {count})"
        raise ArgumentError(message).for_op("DynamicPartition")


def _rows_where(rows: Tensor, mask: Tensor) -> Tensor:
    """Returns the rows at which the bool vector ``mask`` is true."""
    indices = nonzero_indices(mask)
    # `nonzero_indices` returns index vectors of shape (true elements, 1)
    return gather_densely(rows, bind.reshape(indices, shape=indices._type.shape[:1]))


def _stitch_type(*inputs: TensorType, size: Any) -> TensorType:
    """Checks the inputs of dynamic_stitch, and returns the type of the result, which has ``size`` rows.

    ``inputs`` are all index tensors, then all data tensors. The shape of a data tensor must start with the shape of its
    indices.
    """
    count = len(inputs) // 2
    indices, data = inputs[:count], inputs[count:]
    require_same_dtype(data, in_list="data", before=count)
    for i, (positions, values) in enumerate(zip(indices, data)):
        if len(values.shape) < len(positions.shape) or not all(map(agree_dim, values.shape, positions.shape)):
            raise ArgumentError(
                f"data[{i}].shape = {brackets(values.shape)} does not start with "
                f"indices[{i}].shape = {brackets(positions.shape)}",
                ValueError,
            )
    row_shape = data[0].shape[len(indices[0].shape) :]
    for i, (positions, values) in enumerate(zip(indices, data)):
        others = values.shape[len(positions.shape) :]
        if len(others) != len(row_shape) or not all(map(agree_dim, row_shape, others)):
            first, other = (f"data[{k}].shape[{len(indices[k].shape)}:]" for k in (0, i))
            raise ArgumentError(
                f"Need {first} = {other}, got data[0].shape = {brackets(data[0].shape)}, "
                f"data[{i}].shape = {brackets(values.shape)}, indices[0].shape = {brackets(indices[0].shape)}, "
                f"indices[{i}].shape = {brackets(positions.shape)}",
                ValueError,
            )
    return TensorType((size, *row_shape), data[0].dtype)


def _stitch_numpy(*arrays: np.ndarray, size: Any) -> np.ndarray:
    """Computes dynamic_stitch: stores each row of data at its index. Rows without an index are zero.

    ``arrays`` are all index arrays, then all data arrays. For a repeated index, the last array decides.
    """
    # ``size`` isn't needed here, but all rules of the op receive it
    half = len(arrays) // 2
    all_indices, all_data = arrays[:half], arrays[half:]
    row_shape = all_data[0].shape[all_indices[0].ndim :]
    largest_index = max((int(indices.max()) for indices in all_indices if indices.size), default=-1)
    result = np.zeros((largest_index + 1, *row_shape), all_data[0].dtype)
    for i, (indices, data) in enumerate(zip(all_indices, all_data)):
        if indices.size and indices.min() < 0:  # NumPy would count from the end
            raise ArgumentError(f"indices[{i}] is out of range").for_op("DynamicStitch")
        result[indices.reshape(-1)] = data.reshape(indices.size, *row_shape)
    return result


@host_primitive(
    tf_name="DynamicStitch",
    type=_stitch_type,
    numpy=_stitch_numpy,
    vjp=lambda cotangent, y, *inputs, size: (
        *(None for _ in inputs[: len(inputs) // 2]),
        *(gather(cotangent, positions) for positions in inputs[: len(inputs) // 2]),
    ),
)
def stitched(*inputs: Tensor, size: Any) -> Any:
    """Writes the slices of the inputs' second half at the indices in the first half, into ``size`` slices."""
    return inputs, {"size": size}


@export("dynamic_stitch")
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Merges the slices of several tensors at given indices. Of several slices for an index, the last one is used.

    Args:
      indices: list of int32 tensors. An eager tensor stands for the list of its rows, here and in ``data``.
      data: list of tensors of one dtype. Each shape begins with the shape of the indices. The other dims are equal.

    Returns:
      A tensor of shape (largest index + 1, other dims...). It is zero at indices that don't occur.

    Raises:
      InvalidArgumentError: the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.dynamic_stitch([[2], [0, 1]], [[30], [10, 20]]).numpy()
    array([10, 20, 30], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/dynamic_stitch
    """
    index_tensors = [convert_to_tensor(i, int32) for i in variadic_inputs(indices, "indices", "dynamic_stitch")]
    data_tensors = operands_of_list(variadic_inputs(data, "data", "dynamic_stitch"))
    if len(data_tensors) != len(index_tensors):
        for rows, name in ((indices, "indices"), (data, "data")):  # rows of a tensor that do not fit
            listed(rows, name, "dynamic_stitch")
        raise ValueError(
            f"List argument 'data' to 'dynamic_stitch' Op with length {len(data_tensors)} must match length "
            f"{len(index_tensors)} of argument 'indices'."
        )
    return bind.stitched(*index_tensors, *data_tensors, size=_stitched_row_count(index_tensors))


def _stitched_row_count(indices: Sequence[Tensor]) -> Dim:
    """Returns the number of rows that dynamic_stitch produces: one more than the largest index.

    It is an int if all indices are known while tracing, else a fresh symbolic dim.
    """
    arrays = [x.eager_array() if isinstance(x, EagerTensor) else x.known for x in indices]  # type: ignore[attr-defined]
    if any(array is None for array in arrays):
        return unknown_dim()
    largest_index = max((int(np.max(array)) for array in arrays if array.size), default=-1)
    return largest_index + 1


# -- indices and sequences


_OUT_OF_RANGE = "index is out of bound as with dims"


def _require_flat_indices(indices: np.ndarray, count: int) -> None:
    """Raises TensorFlow's error of unravel_index unless all indices are in [0, count)."""
    if np.any((indices < 0) | (indices >= count)):
        raise ArgumentError(_OUT_OF_RANGE).for_op("UnravelIndex")


@export("unravel_index")
def unravel_index(indices: Any, dims: Any, name: str | None = None) -> Tensor:
    """Converts indices into a flat array to coordinates in an array of shape ``dims``.

    Args:
      indices: int32 or int64 tensor of shape () or (n,).
      dims: the array's shape.

    Returns:
      A tensor of shape (len(dims),) or (len(dims), n).

    Raises:
      InvalidArgumentError: an index is out of range.

    >>> import tvtf as tf
    >>> tf.unravel_index([2, 5, 7], [3, 3]).numpy()
    array([[0, 1, 2],
           [2, 2, 1]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/unravel_index
    """
    flat_indices = convert_to_tensor(indices)
    require_dtype(flat_indices._type, (int32, int64), "indices")
    sizes = [int(dim) for dim in static_value(_require_vector(dims, "dims"), "dims")]
    count = math.prod(sizes)
    flat_indices = required(flat_indices, partial(_require_flat_indices, count=count), within(count), _OUT_OF_RANGE)
    quotients, coordinates = flat_indices, []
    for size in reversed(sizes):  # the last axis varies fastest: its coordinate is the remainder
        coordinates.append(bind.floormod(quotients, number(size, flat_indices)))
        quotients = bind.floordiv(quotients, number(size, flat_indices))
    rows = [bind.reshape(x, shape=(1, *x._type.shape)) for x in reversed(coordinates)]
    return bind.concat(*rows, axis=0)


@export("reverse_sequence")
def reverse_sequence(
    input: Any, seq_lengths: Any, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None
) -> Tensor:
    """Reverses the first elements of each sequence of a batch, as many as its length.

    Args:
      input: tensor of any dtype.
      seq_lengths: int32 or int64 tensor of shape (batch,).
      seq_axis, batch_axis: which axes of ``input`` are the sequence and the batch (0 where not given).

    Raises:
      InvalidArgumentError: (ValueError while tracing) the number of lengths is not that of sequences.

    >>> import tvtf as tf
    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy()
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/reverse_sequence
    """
    x, lengths = convert_to_tensor(input), convert_to_tensor(seq_lengths)
    sequence_axis = attribute_int(seq_axis, "seq_dim", -(2**63), 64)
    batch = attribute_int(0 if batch_axis is None else batch_axis, "batch_dim", -(2**63), 64)
    shape = x._type.shape
    for axis, attribute in ((sequence_axis, "seq_dim"), (batch, "batch_dim")):
        if not 0 <= axis < x.ndim:
            raise ArgumentError(f"{attribute} must be at least 0 and < input rank ( {axis} vs. {x.ndim})").for_op(
                "ReverseSequence"
            )
    if sequence_axis == batch:
        raise ArgumentError(f"batch_dim == seq_dim == {sequence_axis}").for_op("ReverseSequence")
    if lengths.ndim != 1 or not agree_dim(lengths._type.shape[0], shape[batch]):
        raise ArgumentError(f"len(seq_lens) != input.dims({batch}), ({lengths.shape[0]} vs. {shape[batch]})").for_op(
            "ReverseSequence"
        )
    check = partial(_require_lengths, size=shape[sequence_axis], axis=sequence_axis)
    message = f"seq_lens is not in [0, input.dims({sequence_axis})]"
    lengths = required(lengths, check, within(shape[sequence_axis] + 1), message)
    # Sequences are moved to axis 1, where each is gathered with its first elements in reverse.
    order = (batch, sequence_axis, *(i for i in range(x.ndim) if i not in (batch, sequence_axis)))
    inverse_order = tuple(int(i) for i in np.argsort(order))
    positions = bind.range(size=shape[sequence_axis], start=0, delta=1, dtype=lengths.dtype)
    positions = bind.reshape(positions, shape=(1, shape[sequence_axis]))
    ends = bind.reshape(lengths, shape=(shape[batch], 1))
    mirrored = bind.subtract(bind.subtract(ends, number(1, ends)), positions)
    source_indices = bind.select(
        bind.less(positions, ends), mirrored, bind.broadcast_to(positions, shape=(shape[batch], shape[sequence_axis]))
    )
    return bind.transpose(gather(bind.transpose(x, perm=order), source_indices, batch_dims=1), perm=inverse_order)


def _require_lengths(lengths: np.ndarray, size: int, axis: int) -> None:
    """Checks that the sequence lengths of reverse_sequence are in [0, size].

    Raises TensorFlow's error for the first wrong one. ``axis`` is the sequence axis, for the message.
    """
    for i, length in enumerate(lengths):
        if not 0 <= length <= size:
            message = f"seq_lens({i}) > input.dims({axis})" if length > 0 else f"seq_lens({i}) < 0"
            raise ArgumentError(message).for_op("ReverseSequence")


# -- blocks


@export("required_space_to_batch_paddings")
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Returns the paddings that make each dim a multiple of its block's, and the crops that undo them.

    Args:
      input_shape, block_shape: n ints.
      base_paddings: shape (n, 2), the least paddings; zeros where not given.

    Returns:
      Two int32 tensors of shape (n, 2).

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.required_space_to_batch_paddings([5], [2])]
    [[[0, 1]], [[0, 1]]]

    Source: https://www.tensorflow.org/api_docs/python/tf/required_space_to_batch_paddings
    """
    sizes, blocks = convert_to_tensor(input_shape, int32), convert_to_tensor(block_shape, int32)
    base = convert_to_tensor(np.zeros((len(blocks), 2)) if base_paddings is None else base_paddings, int32)
    values = [known_value(each) for each in (sizes, blocks, base)]
    known = [EagerTensor(value) for value in values if value is not None]
    if len(known) == len(values):
        sizes, blocks, base = known
    extra = bind.floormod(bind.negative(sizes + reduce_sum(base, axis=1)), blocks)
    before, after = base[:, 0], base[:, 1] + extra
    return stack([before, after], axis=1), stack([extra * 0, extra], axis=1)


def _block_arguments(x: Tensor, block_shape: Any, pairs: Any, name: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Checks the shapes of the arguments of space_to_batch or batch_to_space, and converts the arguments to ints.

    Returns the block sizes, and a pair of paddings or crops for each.

    Args:
      x: the input.
      block_shape: a vector of block sizes.
      pairs: the paddings or crops before and after each axis that is split into blocks.
      name: "paddings" or "crops", for errors.
    """
    sizes = static_value(_require_vector(block_shape, "block_shape"), "block_shape")
    blocks = [int(size) for size in sizes]
    block_rank = len(blocks)
    pair_array = np.array(static_value(integers(pairs, name), name))
    if pair_array.shape != (block_rank, 2):
        raise ArgumentError(
            f"{name} should have shape [{block_rank}, 2] instead of {brackets(pair_array.shape)}", ValueError
        )
    if x.ndim < 1 + block_rank:
        raise ArgumentError(f"input rank should be >= {1 + block_rank} instead of {x.ndim}")
    return blocks, [(int(before), int(after)) for before, after in pair_array]


def _require_vector(value: Any, name: str) -> Any:
    """Returns ``value`` after checking that it is a vector of integers."""
    rank = np.ndim(static_value(integers(value, name), name))
    if rank != 1:
        raise ArgumentError(f"{name} rank should be 1 instead of {rank}")
    return value


def _divided_dim(dim: Dim, divisor: int, x: Tensor) -> Dim:
    """Divides a dim of ``x`` by ``divisor``, the size of a block. A symbolic dim is assumed to be divisible."""
    if not isinstance(dim, int):
        return simplify_dim(dim // divisor)
    if dim % divisor:
        raise ValueError(
            f"Dimension size must be evenly divisible by {divisor} but is {dim}, of shape {brackets(x.shape)}"
        )
    return dim // divisor


@export("space_to_batch", "space_to_batch_nd", "nn.space_to_batch")
def space_to_batch(input: Any, block_shape: Any, paddings: Any, name: str | None = None) -> Tensor:
    """Divides space into blocks, and moves the positions within a block to the batch axis.

    Args:
      input: tensor of shape (n, s1..., rest...).
      block_shape: m ints, for the m axes after the first.
      paddings: shape (m, 2): zeros before and after each of them.

    Returns:
      A tensor of shape (n * product of the block, (s + paddings) / block..., rest...).

    Raises:
      ValueError: a padded dim is not a multiple of its block's.

    >>> import tvtf as tf
    >>> tf.space_to_batch([[1, 2, 3, 4]], [2], [[0, 0]]).numpy()
    array([[1, 3],
           [2, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/space_to_batch
    """
    x = convert_to_tensor(input)
    blocks, edges = _block_arguments(x, block_shape, paddings, "paddings")
    trailing_rank = x.ndim - 1 - len(blocks)
    padded = bind.pad(x, number(0, x), paddings=((0, 0), *edges, *((0, 0),) * trailing_rank))
    n, *dims = padded._type.shape
    block_counts = [_divided_dim(dim, block, x) for dim, block in zip(dims, blocks)]
    trailing_dims = dims[len(blocks) :]
    # Axes of the split tensor: 0 batch; 1, 3, ... number of the block; 2, 4, ... position in the block; the others.
    split = bind.reshape(padded, shape=(n, *itertools.chain(*zip(block_counts, blocks)), *trailing_dims))
    number_axes = range(1, 2 * len(blocks), 2)
    position_axes = range(2, 2 * len(blocks) + 1, 2)
    trailing_axes = range(2 * len(blocks) + 1, split.ndim)
    # Positions in blocks come first, to be merged into the batch axis.
    moved = bind.transpose(split, perm=(*position_axes, 0, *number_axes, *trailing_axes))
    total = simplify_dim(n * int(np.prod(blocks)))
    return bind.reshape(moved, shape=(total, *block_counts, *trailing_dims))


@export("batch_to_space")
def batch_to_space(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Moves parts of the batch axis to the positions within blocks of space: undoes `tf.space_to_batch`.

    Args:
      input: tensor of shape (n * product of the block, s1..., rest...).
      block_shape: m ints, for the m axes after the first.
      crops: shape (m, 2): what is cut off before and after each of them.

    Returns:
      A tensor of shape (n, s * block - crops..., rest...).

    Raises:
      ValueError: the batch is not a multiple of the block's size.

    >>> import tvtf as tf
    >>> tf.batch_to_space([[1, 3], [2, 4]], [2], [[0, 0]]).numpy()
    array([[1, 2, 3, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/batch_to_space
    """
    x = convert_to_tensor(input)
    blocks, crop_pairs = _block_arguments(x, block_shape, crops, "crops")
    count = len(blocks)
    total, *dims = x._type.shape
    n = _divided_dim(total, int(np.prod(blocks)), x)
    # Axes of the split tensor: the positions in a block, the batch, the numbers of the blocks, the others.
    split = bind.reshape(x, shape=(*blocks, n, *dims))
    number_and_position = itertools.chain(*((count + 1 + i, i) for i in range(count)))
    moved = bind.transpose(split, perm=(count, *number_and_position, *range(2 * count + 1, split.ndim)))
    sizes = [simplify_dim(dim * block) for dim, block in zip(dims, blocks)]
    merged: Any = bind.reshape(moved, shape=(n, *sizes, *dims[count:]))
    crop_slices = tuple(slice(before, None if after == 0 else -after) for before, after in crop_pairs)
    inside = (slice(None), *crop_slices)
    return merged[inside]


@export("extract_volume_patches")
def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """Extracts windows of volumes, each flattened into the last axis of the result.

    Args:
      input: numeric tensor of shape (n, planes, rows, columns, channels).
      ksizes, strides: five ints, the first and last 1.
      padding: "SAME" or "VALID".

    Returns:
      A tensor of shape (n, out_planes, out_rows, out_columns, size of a window * channels).

    Raises:
      ValueError: the padding is not supported, or the sizes are malformed.

    >>> import tvtf as tf
    >>> tf.extract_volume_patches(tf.reshape(tf.range(8.), [1, 2, 2, 2, 1]), [1, 2, 2, 2, 1], [1] * 5, "VALID").numpy()
    array([[[[[0., 1., 2., 3., 4., 5., 6., 7.]]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/extract_volume_patches
    """
    x = convert_to_tensor(input)
    arguments = (("ksizes", ksizes), ("strides", strides))
    sizes, step_sizes = (attribute_ints(each, attribute, "extract_volume_patches") for attribute, each in arguments)
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    if len(sizes) != 5 or len(step_sizes) != 5 or x.ndim != 5:
        raise ArgumentError(f"input, ksizes and strides must have 5 dims, but are {x.shape}, {ksizes}, {strides}")
    if {sizes[0], sizes[4], step_sizes[0], step_sizes[4]} != {1}:
        message = f"Only support ksizes and strides across space, but they are {ksizes} and {strides}"
        raise UnimplementedError(None, "ExtractVolumePatches", f"{message} [Op:ExtractVolumePatches]")
    if min(*sizes, *step_sizes) < 1:
        raise ArgumentError(f"ksizes and strides must be positive, but are {ksizes} and {strides}")
    # "SAME" gives ceil(size / stride) windows; of an odd number of zeros one more goes after the elements
    dims = [int(dim) for dim in x.shape[1:4]]
    if padding == "SAME":
        counts = [ceil_div(dim, size) for dim, size in zip(dims, step_sizes[1:4])]
        totals = [
            max((count - 1) * step + size - dim, 0)
            for count, step, size, dim in zip(counts, step_sizes[1:4], sizes[1:4], dims)
        ]
        edges = tuple((total // 2, total - total // 2) for total in totals)
        x = bind.pad(x, number(0, x), paddings=((0, 0), *edges, (0, 0)))
    else:
        counts = [(dim - size) // step + 1 for dim, step, size in zip(dims, step_sizes[1:4], sizes[1:4])]
    # One strided view for each position within a window, the channels of all joined.
    volume: Any = x
    windows = [volume[_tap_slices(tap, counts, step_sizes[1:4])] for tap in itertools.product(*map(range, sizes[1:4]))]
    return bind.concat(*windows, axis=4)


def _tap_slices(start: Sequence[int], counts: Sequence[int], strides: Sequence[int]) -> tuple[slice, ...]:
    """Returns the NumPy index that selects the element at one tap of all windows (a tap: a position in the window).

    ``start`` is the tap's offset along each axis, and ``counts`` has the numbers of windows.
    """
    slices = [slice(None)]  # of the batch axis
    for first, count, stride in zip(start, counts, strides):
        last = first + (count - 1) * stride
        slices.append(slice(first, last + 1, stride))
    return tuple(slices)
