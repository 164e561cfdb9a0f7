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
from tvtf.core.primitive import export
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, same_shape, simplify_dim, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, is_tensor
from tvtf.dtypes import int32, int64
from tvtf.errors import UnimplementedError
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import gather, gather_densely, places
from tvtf.ops.operands import attributes, integers, operand, positive
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
)
from tvtf.ops.value_checks import required, within

# -- partitions


@export("dynamic_partition")
@attributes(num_partitions=positive)
def dynamic_partition(data: Any, partitions: Any, num_partitions: int, name: str | None = None) -> list[Tensor]:
    """Distributes the slices of a tensor over ``num_partitions`` tensors.

    Args:
      data: tensor of shape (p..., d...).
      partitions: int32 tensor of shape (p...): for each slice the number of its tensor, in [0, num_partitions).
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
    x, numbers = convert_to_tensor(data), operand(partitions, int32, 1)
    shape, lead = x._type.shape, numbers._type.shape
    if not same_shape(shape[: len(lead)], lead):
        raise ArgumentError(
            f"data.shape must start with partitions.shape, got data.shape = {brackets(shape)}, partitions.shape = {brackets(lead)}"
        ).for_op("DynamicPartition")
    count = static_int(num_partitions, "num_partitions")
    message = f"partitions is not in [0, {count})"
    numbers = required(numbers, partial(_require_within, count=count), within(count), message)
    rows = bind.reshape(x, shape=(size_of(lead), *shape[len(lead) :]))
    flat = bind.reshape(numbers, shape=(size_of(lead),))
    return [_rows_where(rows, bind.equal(flat, number(i, flat))) for i in range(count)]


def _require_within(numbers: np.ndarray, count: int) -> None:
    wrong = np.argwhere((numbers < 0) | (numbers >= count))
    if len(wrong):
        at = tuple(int(i) for i in wrong[0])
        place = f"[{','.join(map(str, at))}]" if at else ""
        raise ArgumentError(f"partitions{place} = {numbers[at]} is not in [0, {count})").for_op("DynamicPartition")


def _rows_where(rows: Tensor, chosen: Tensor) -> Tensor:
    result = places(chosen)
    return gather_densely(rows, bind.reshape(result, shape=result._type.shape[:1]))


def _stitch_type(*inputs: TensorType, size: Any) -> TensorType:
    """Checks that each data tensor starts with the shape of its indices."""
    half = len(inputs) // 2
    indices, data = inputs[:half], inputs[half:]
    require_same_dtype(data, [f"data{i}" for i in range(half)])
    for i, (at, x) in enumerate(zip(indices, data)):
        if not same_shape(x.shape[: len(at.shape)], at.shape):
            raise ArgumentError(
                f"data[{i}].shape = {brackets(x.shape)} does not start with indices[{i}].shape = {brackets(at.shape)}",
                ValueError,
            )
    return TensorType((size, *data[0].shape[len(indices[0].shape) :]), data[0].dtype)


def _stitch_array(*arrays: np.ndarray, size: Any) -> np.ndarray:
    """Writes each row of data at its index; later tensors win, and rows without an index are zero."""
    half = len(arrays) // 2
    indices, data = arrays[:half], arrays[half:]
    rest = data[0].shape[indices[0].ndim :]
    count = max((int(i.max()) + 1 for i in indices if i.size), default=0)
    result = np.zeros((count, *rest), data[0].dtype)
    for at, x in zip(indices, data):
        result[at.reshape(-1)] = x.reshape(-1, *rest)
    return result


@host_primitive(
    tf_name="DynamicStitch",
    type=_stitch_type,
    numpy=_stitch_array,
    vjp=lambda ct, y, *inputs, size: (
        *(None for _ in inputs[: len(inputs) // 2]),
        *(gather(ct, at) for at in inputs[: len(inputs) // 2]),
    ),
)
def stitched(*inputs: Tensor, size: Any) -> Any:
    """Writes the slices of the inputs' second half at the indices in the first half, into ``size`` slices."""
    return inputs, {"size": size}


@export("dynamic_stitch")
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Tensor:
    """Merges the slices of several tensors at given indices; the last slice for an index wins.

    Args:
      indices: list of int32 tensors.
      data: list of tensors of one dtype; the shape of each begins with that of its indices, and the rest is the same.

    Returns:
      A tensor of shape (largest index + 1, rest...), zero where no index points.

    Raises:
      InvalidArgumentError: the shapes don't fit.

    >>> import tvtf as tf
    >>> tf.dynamic_stitch([[2], [0, 1]], [[30], [10, 20]]).numpy()
    array([10, 20, 30], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/dynamic_stitch
    """
    at = [convert_to_tensor(i, int32) for i in listed(indices, "indices", "dynamic_stitch")]
    parts = map(convert_to_tensor, listed(data, "data", "dynamic_stitch"))
    return bind.stitched(*at, *parts, size=_stitched_size(at))


def _stitched_size(places: Sequence[Tensor]) -> Dim:
    """Returns one more than the largest index if the trace knows all indices, else a fresh dim."""
    known = [x.eager_array() if isinstance(x, EagerTensor) else x.known for x in places]  # type: ignore[attr-defined]
    if any(array is None for array in known):
        return unknown_dim()
    return max((int(np.max(array)) + 1 for array in known if array.size), default=0)


# -- indices and sequences


_BEYOND = "index is out of bound as with dims"


def _require_places(places: np.ndarray, count: int) -> None:
    if np.any((places < 0) | (places >= count)):
        raise ArgumentError(_BEYOND).for_op("UnravelIndex")


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
    at = convert_to_tensor(indices)
    require_dtype(at._type, (int32, int64), "indices")
    sizes = [int(d) for d in static_value(_vector(dims, "dims"), "dims")]
    count = math.prod(sizes)
    at = required(at, partial(_require_places, count=count), within(count), _BEYOND)
    rest, coordinates = at, []
    for size in reversed(sizes):
        coordinates.append(bind.floormod(rest, number(size, at)))
        rest = bind.floordiv(rest, number(size, at))
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
      InvalidArgumentError: (ValueError while tracing) the lengths are not one for each sequence.

    >>> import tvtf as tf
    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1).numpy()
    array([[2, 1, 3],
           [6, 5, 4]], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/reverse_sequence
    """
    x, lengths = convert_to_tensor(input), convert_to_tensor(seq_lengths)
    along = attribute_int(seq_axis, "seq_dim", -(2**63), 64)
    batch = attribute_int(0 if batch_axis is None else batch_axis, "batch_dim", -(2**63), 64)
    shape = x._type.shape
    for axis, what in ((along, "seq_dim"), (batch, "batch_dim")):
        if not 0 <= axis < x.ndim:
            raise ArgumentError(f"{what} must be at least 0 and < input rank ( {axis} vs. {x.ndim})").for_op(
                "ReverseSequence"
            )
    if along == batch:
        raise ArgumentError(f"batch_dim == seq_dim == {along}").for_op("ReverseSequence")
    if lengths.ndim != 1 or not agree_dim(lengths._type.shape[0], shape[batch]):
        raise ArgumentError(f"len(seq_lens) != input.dims({batch}), ({lengths.shape[0]} vs. {shape[batch]})").for_op(
            "ReverseSequence"
        )
    check = partial(_require_lengths, size=shape[along], along=along)
    message = f"seq_lens is not in [0, input.dims({along})]"
    lengths = required(lengths, check, within(shape[along] + 1), message)
    order = (batch, along, *(i for i in range(x.ndim) if i not in (batch, along)))
    back = tuple(int(i) for i in np.argsort(order))
    steps = bind.range(size=shape[along], start=0, delta=1, dtype=lengths.dtype)
    steps, ends = bind.reshape(steps, shape=(1, shape[along])), bind.reshape(lengths, shape=(shape[batch], 1))
    mirrored = bind.subtract(bind.subtract(ends, number(1, ends)), steps)
    at = bind.select(bind.less(steps, ends), mirrored, bind.broadcast_to(steps, shape=(shape[batch], shape[along])))
    return bind.transpose(gather(bind.transpose(x, perm=order), at, batch_dims=1), perm=back)


def _require_lengths(lengths: np.ndarray, size: int, along: int) -> None:
    """Raises the error for the first length out of range, in TensorFlow's words."""
    for i, length in enumerate(lengths):
        if not 0 <= length <= size:
            message = f"seq_lens({i}) > input.dims({along})" if length > 0 else f"seq_lens({i}) < 0"
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
    vectors = [convert_to_tensor(v, int32) if is_tensor(v) else v for v in (input_shape, block_shape)]
    sizes, blocks = (np.array(static_value(v, "shape"), np.int32).reshape(-1) for v in vectors)
    least = np.zeros((len(blocks), 2), np.int32)
    if base_paddings is not None:
        least = np.array(static_value(base_paddings, "base_paddings"), np.int32).reshape(-1, 2)
    extra = -(sizes + least.sum(axis=1)) % blocks
    paddings = np.stack([least[:, 0], least[:, 1] + extra], axis=1)
    return EagerTensor(paddings.astype(np.int32)), EagerTensor(np.stack([0 * extra, extra], axis=1).astype(np.int32))


def _blocks(x: Tensor, block_shape: Any, pairs: Any, what: str) -> tuple[list[int], list[tuple[int, int]]]:
    """Returns block sizes and pairs of paddings or crops as ints, after checking their shapes."""
    blocks = [int(b) for b in static_value(_vector(block_shape, "block_shape"), "block_shape")]
    edges = np.array(static_value(integers(pairs, what), what))
    if edges.shape != (len(blocks), 2):
        raise ArgumentError(
            f"{what} should have shape [{len(blocks)}, 2] instead of {brackets(edges.shape)}", ValueError
        )
    if x.ndim < 1 + len(blocks):
        raise ArgumentError(f"input rank should be >= {1 + len(blocks)} instead of {x.ndim}")
    return blocks, [(int(a), int(b)) for a, b in edges]


def _vector(value: Any, what: str) -> Any:
    rank = np.ndim(static_value(integers(value, what), what))
    if rank != 1:
        raise ArgumentError(f"{what} rank should be 1 instead of {rank}")
    return value


def _quotient(dim: Dim, divisor: int, x: Tensor) -> Dim:
    """Divides a dim by a block's size; a symbolic dim is taken to be a multiple."""
    if isinstance(dim, int):
        if dim % divisor:
            raise ValueError(
                f"Dimension size must be evenly divisible by {divisor} but is {dim}, of shape {brackets(x.shape)}"
            )
        return dim // divisor
    return simplify_dim(dim // divisor)


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
    blocks, edges = _blocks(x, block_shape, paddings, "paddings")
    rest = x.ndim - 1 - len(blocks)
    padded = bind.pad(x, number(0, x), paddings=((0, 0), *edges, *((0, 0),) * rest))
    n, *dims = padded._type.shape
    sizes = [_quotient(d, b, x) for d, b in zip(dims, blocks)]
    split = bind.reshape(padded, shape=(n, *itertools.chain(*zip(sizes, blocks)), *dims[len(blocks) :]))
    inner = [2 * i + 2 for i in range(len(blocks))]
    outer = [2 * i + 1 for i in range(len(blocks))]
    moved = bind.transpose(split, perm=(*inner, 0, *outer, *range(split.ndim - rest, split.ndim)))
    total = simplify_dim(n * int(np.prod(blocks)))
    return bind.reshape(moved, shape=(total, *sizes, *dims[len(blocks) :]))


@export("batch_to_space")
def batch_to_space(input: Any, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Batches made the places within blocks of space: undoes `tf.space_to_batch`.

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
    blocks, edges = _blocks(x, block_shape, crops, "crops")
    count = len(blocks)
    total, *dims = x._type.shape
    n = _quotient(total, int(np.prod(blocks)), x)
    split = bind.reshape(x, shape=(*blocks, n, *dims))
    pairs = itertools.chain(*((count + 1 + i, i) for i in range(count)))
    moved = bind.transpose(split, perm=(count, *pairs, *range(2 * count + 1, split.ndim)))
    sizes = [simplify_dim(d * b) for d, b in zip(dims, blocks)]
    merged: Any = bind.reshape(moved, shape=(n, *sizes, *dims[count:]))
    cut = tuple(slice(a, None if b == 0 else -b) for a, b in edges)
    inside = (slice(None), *cut)
    return merged[inside]


@export("extract_volume_patches")
def extract_volume_patches(input: Any, ksizes: Any, strides: Any, padding: str, name: str | None = None) -> Tensor:
    """Windows of volumes, with what is in them in the last axis.

    Args:
      input: numeric tensor of shape (n, planes, rows, columns, channels).
      ksizes, strides: five ints, the first and last 1.
      padding: "SAME" or "VALID".

    Returns:
      A tensor of shape (n, out_planes, out_rows, out_columns, size of a window * channels).

    Raises:
      ValueError: for another padding, or sizes of another form.

    >>> import tvtf as tf
    >>> tf.extract_volume_patches(tf.reshape(tf.range(8.), [1, 2, 2, 2, 1]), [1, 2, 2, 2, 1], [1] * 5, "VALID").numpy()
    array([[[[[0., 1., 2., 3., 4., 5., 6., 7.]]]]], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/extract_volume_patches
    """
    x = convert_to_tensor(input)
    arguments = (("ksizes", ksizes), ("strides", strides))
    sizes, steps = (attribute_ints(each, what, "extract_volume_patches") for what, each in arguments)
    padding = attribute_text(padding, "padding", ("SAME", "VALID"))
    if len(sizes) != 5 or len(steps) != 5 or x.ndim != 5:
        raise ArgumentError(f"input, ksizes and strides must have 5 dims, but are {x.shape}, {ksizes}, {strides}")
    if {sizes[0], sizes[4], steps[0], steps[4]} != {1}:
        message = f"Only support ksizes and strides across space, but they are {ksizes} and {strides}"
        raise UnimplementedError(None, "ExtractVolumePatches", f"{message} [Op:ExtractVolumePatches]")
    if min(*sizes, *steps) < 1:
        raise ArgumentError(f"ksizes and strides must be positive, but are {ksizes} and {strides}")
    dims = [int(d) for d in x.shape[1:4]]
    if padding == "SAME":
        outs = [-(-d // s) for d, s in zip(dims, steps[1:4])]
        missing = [max((o - 1) * s + k - d, 0) for o, s, k, d in zip(outs, steps[1:4], sizes[1:4], dims)]
        edges = tuple((m // 2, m - m // 2) for m in missing)
        x = bind.pad(x, number(0, x), paddings=((0, 0), *edges, (0, 0)))
    else:
        outs = [(d - k) // s + 1 for d, s, k in zip(dims, steps[1:4], sizes[1:4])]
    volume: Any = x
    windows = [volume[_window(at, outs, steps[1:4])] for at in itertools.product(*map(range, sizes[1:4]))]
    return bind.concat(*windows, axis=4)


def _window(start: Sequence[int], counts: Sequence[int], steps: Sequence[int]) -> tuple[slice, ...]:
    """Returns the index of one tap's values in all windows."""
    return (slice(None), *(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(start, counts, steps)))
