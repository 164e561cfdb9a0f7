"""Sorting and searching: sort, argsort, top_k, searchsorted, unique."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets, size_of
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import REAL, DType, as_dtype, float32, int16, int32, int64
from tvtf.errors import InvalidArgumentError
from tvtf.ops.dims import proves, scalar_of
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.indexing import flat_ids
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import attributes, one_of, operand
from tvtf.ops.rules import (
    bind,
    canonical_axis,
    draw,
    kernel,
    require_dtype,
    require_rank,
    require_same_dtype,
    size_argument,
    static_value,
    stretch,
)

# -- sorting along the last axis: NaN counts as the largest, and equal elements keep their order


def _order(x: np.ndarray, descending: bool) -> np.ndarray:
    """Returns the indices that sort each row stably: equal elements keep their order.

    For a descending order, the row is reversed before an ascending sort, and the indices after it. A mere reversal at
    the end would reverse equal elements.
    """
    is_half_float = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    keys = x.astype(np.float32) if is_half_float else x
    if not descending:
        return np.argsort(keys, -1, kind="stable")
    reversed_order = np.argsort(np.flip(keys, -1), -1, kind="stable")
    last_index = x.shape[-1] - 1
    return np.flip(last_index - reversed_order, -1)


def _row_type(x: TensorType, result: DType | None = None) -> TensorType:
    """Checks the dtype and rank of a sort's input, and returns the type of the result.

    The result has the shape of the input and the dtype ``result``, or the input's for None.
    """
    require_dtype(x, REAL, "values")
    if not x.shape:
        raise ArgumentError("input must be >= 1-D, got shape []")
    return TensorType(x.shape, result or x.dtype)


def along_rows(x: Tensor, indices: Tensor) -> Tensor:
    """Gathers from each row of ``x`` the elements at its own row of ``indices``."""
    return bind.gather(x, indices, axis=x.ndim - 1, batch_dims=x.ndim - 1)


def _sort_vjp(cotangent: Tensor, y: Tensor, x: Tensor, *, descending: bool) -> Tensor:
    """Returns the cotangent of the unsorted input: ``cotangent`` in the order that the inverse permutation restores."""
    order = bind.argsort(x, descending=descending)
    # The argsort of a permutation is its inverse.
    return along_rows(cotangent, bind.argsort(order, descending=False))


def _row_samples(**options: Any) -> Any:
    """Returns a function that makes the test samples of a sort. ``options`` are further fields of a sample."""
    shapes = ((7,), (2, 5), (0,), (2, 1, 3), (3, 0))

    def make() -> list[Sample]:
        """Returns test samples of several shapes, with equal elements, and with symbolic sizes."""
        samples = []
        for seed, shape in enumerate(shapes):
            descending = bool(seed % 2)  # both in turn
            samples.append(Sample((draw(seed, shape),), {"descending": descending}, REAL, **options))
        for descending in (True, False):
            with_ties = draw(8, (9,), -1, 1)  # nine numbers of a narrow range: integers have equal elements
            samples.append(Sample((with_ties,), {"descending": descending}, REAL, gradient=False))
        symbolic_dims = (("n", "m"),)
        samples.append(Sample((draw(7, (2, 6)),), {"descending": True}, REAL, symbolic=symbolic_dims, **options))
        return samples

    return make


def _top_nodes(emitter: NodeEmitter, x: str, dtype: DType, count: Dim, descending: bool) -> tuple[str, str]:
    """Emits ONNX's TopK of each row of ``x``, in a dtype that ONNX runtimes can sort.

    Returns the name of the values, cast back to ``dtype``, and the name of the int64 indices.

    Args:
      emitter: adds nodes to the ONNX graph.
      x: the name of the input.
      dtype: the dtype of the input.
      count: the number of elements of each row to return.
      descending: whether to return the largest elements; otherwise the smallest.
    """
    sortable_dtypes = {"int8": int32, "int16": int32, "uint8": int32, "uint16": int32, "uint32": int64, "uint64": int64}
    sortable_dtypes |= {"float16": as_dtype("float32"), "bfloat16": as_dtype("float32")}
    sortable_dtype = sortable_dtypes.get(dtype.name)  # None: ONNX runtimes sort the dtype itself
    if sortable_dtype is not None:
        x = emitter.cast(x, sortable_dtype)
    if dtype.name == "uint64":
        x = _with_flipped_sign(emitter, x)
    counts = emitter.shape((count,))
    values = emitter.temp()
    indices = emitter.temp()
    emitter.node("TopK", [x, counts], [values, indices], axis=-1, largest=int(descending), sorted=1)
    if dtype.name == "uint64":
        values = _with_flipped_sign(emitter, values)
    if sortable_dtype is not None:
        values = emitter.cast(values, dtype)
    return values, indices


def _with_flipped_sign(emitter: NodeEmitter, x: str) -> str:
    """Emits nodes that flip the highest bit of int64 numbers: the bits of uint64 numbers then sort in their order."""
    return emitter.computed("Add", [x, emitter.const(np.array(np.iinfo(np.int64).min))])


def _sort_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, descending: bool) -> None:
    """Emits ONNX's TopK of all elements of each row, which sorts the row."""
    (x,) = inputs
    (x_type,), _ = types
    values, _ = _top_nodes(emitter, x, x_type.dtype, x_type.shape[-1], descending)
    emitter.node("Identity", [values], outputs)


def _argsort_nodes(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, descending: bool) -> None:
    """Emits ONNX's TopK of all elements of each row, whose indices are the row's sorting order."""
    (x,) = inputs
    (x_type,), _ = types
    _, indices = _top_nodes(emitter, x, x_type.dtype, x_type.shape[-1], descending)
    emitter.node("Cast", [indices], outputs, to=6)  # ONNX's number for int32


@primitive(
    name="argsort",
    type=lambda x, *, descending: _row_type(x, int32),
    numpy=lambda x, *, descending: _order(x, descending),
    lower=kernel("sort.argsort"),
    batch=lambda size, inputs, batched, *, descending: bind.argsort(inputs[0], descending=descending),
    onnx=_argsort_nodes,
    samples=_row_samples(gradient=False),
)
def argsort_rows(x: Tensor, descending: bool) -> Any:
    """Returns the int32 indices that sort each row."""
    return (x,), {"descending": descending}


@primitive(
    name="sort",
    type=lambda x, *, descending: _row_type(x),
    numpy=lambda x, *, descending: np.take_along_axis(x, _order(x, descending), -1),
    lower=kernel("sort.sort"),
    vjp=_sort_vjp,
    batch=lambda size, inputs, batched, *, descending: bind.sort(inputs[0], descending=descending),
    onnx=_sort_nodes,
    samples=_row_samples(),
)
def sort_rows(x: Tensor, descending: bool) -> Any:
    """Sorts each row."""
    return (x,), {"descending": descending}


def _along_axis(values: Any, axis: Any, direction: str, apply: Any, op: str) -> Tensor:
    """Sorts along any axis by ``apply``, which sorts rows along the last axis.

    A transpose moves the axis to the end, and another one moves it back.

    Args:
        values: the tensor to sort.
        axis: an int, or a value that converts to one.
        direction: "ASCENDING" or "DESCENDING".
        apply: ``apply(x, descending=...)`` sorts along the last axis, or returns the indices that sort.
        op: the name of the op in errors.
    """
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ValueError(
            f"Argument `direction` should be one of ASCENDING, DESCENDING. Received: direction={direction}"
        )
    x = convert_to_tensor(values)
    try:
        sorted_axis = canonical_axis(axis, x.ndim)
    except ArgumentError as axis_error:
        raise axis_error.for_op(op) from None
    descending = direction == "DESCENDING"
    if sorted_axis == x.ndim - 1:
        return apply(x, descending=descending)
    other_axes = [i for i in range(x.ndim) if i != sorted_axis]
    perm = (*other_axes, sorted_axis)
    inverse_perm = tuple(int(i) for i in np.argsort(perm))
    result = apply(bind.transpose(x, perm=perm), descending=descending)
    return bind.transpose(result, perm=inverse_perm)


@export("sort")
def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Tensor:
    """Sorts the elements along ``axis``; NaN counts as the largest.

    Args:
      values: real tensor of rank 1 or more.
      axis: int in [-rank, rank).
      direction: "ASCENDING" or "DESCENDING".

    >>> import tvtf as tf
    >>> tf.sort([3, 1, 2]).numpy()
    array([1, 2, 3], dtype=int32)

    Raises:
      ValueError: ``direction`` is neither "ASCENDING" nor "DESCENDING".
      InvalidArgumentError: (ValueError while tracing) the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/sort
    """
    return _along_axis(values, axis, direction, bind.sort, "Sort")


@export("argsort")
def argsort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", stable: bool = False, name: str | None = None
) -> Tensor:
    """Returns the int32 indices that sort ``values`` along ``axis``.

    Equal elements keep their order. NaN counts as the largest element.

    Args:
      values: real tensor of rank 1 or more.
      axis: int in [-rank, rank).
      direction: "ASCENDING" or "DESCENDING".
      stable: ignored, because the order is always stable.

    >>> import tvtf as tf
    >>> tf.argsort([3, 1, 2]).numpy()
    array([1, 2, 0], dtype=int32)

    Raises:
      ValueError: ``direction`` is neither "ASCENDING" nor "DESCENDING".
      InvalidArgumentError: (ValueError while tracing) the axis is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/argsort
    """
    return _along_axis(values, axis, direction, bind.argsort, "ArgSort")


# -- top_k


class TopKV2(NamedTuple):
    """The result of :func:`top_k`."""

    values: Tensor
    indices: Tensor


def _top_type(x: TensorType, *, k: Dim, index_type: DType) -> tuple[TensorType, TensorType]:
    """Checks that the last axis of top_k's input has at least ``k`` elements, and returns the results' types.

    The results are the values and the indices. An unknown size isn't checked here.
    """
    require_dtype(x, REAL, "input")
    if not x.shape:
        raise ArgumentError("input must be >= 1-D, got shape []")
    *row_dims, columns = x.shape
    if isinstance(k, int) and k < 0:
        raise ArgumentError(f"Need k >= 0, got {k}")
    if isinstance(k, int) and isinstance(columns, int) and columns < k:
        raise ArgumentError(f"input must have at least k columns. Had {columns}, needed {k}")
    shape = (*row_dims, k)
    return TensorType(shape, x.dtype), TensorType(shape, index_type)


def _top_numpy(x: np.ndarray, *, k: int, index_type: DType) -> tuple[np.ndarray, np.ndarray]:
    """Computes top_k of each row: the first ``k`` elements in descending order, and their indices."""
    indices = _order(x, True)[..., :k]
    return np.take_along_axis(x, indices, -1), indices


def _top_vjp(cotangents: Any, ys: Any, x: Tensor, *, k: Dim, index_type: DType) -> Tensor:
    """Returns the cotangent of top_k's input: adds the cotangents of the values at the indices of the values.

    The indices are converted to those of the flattened input.

    Args:
      cotangents: the cotangents of the values and of the indices. The latter isn't used.
      ys: the values and the indices.
      x: the input.
      k: the number of values of each row.
      index_type: the dtype of the indices.
    """
    # ``k`` and ``index_type`` aren't needed here, but all gradient rules receive them
    shape = x._type.shape
    *row_dims, columns = shape
    values_cotangent, _ = cotangents
    _, indices = ys
    flat_indices = flat_ids(indices, row_dims, columns)
    flat_cotangent = bind.unsorted_segment_sum(values_cotangent, flat_indices, num_segments=size_of(shape))
    return bind.reshape(flat_cotangent, shape=shape)


def _top_guard(x: Tensor, *, k: Dim, index_type: DType) -> list[tuple[Tensor, str]]:
    """Checks at run time that rows have at least ``k`` elements, unless their sizes prove it."""
    extent = x._type.shape[-1]
    if proves(extent >= k, extent, k):
        return []
    return [(bind.greater_equal(scalar_of(extent), scalar_of(k)), f"input must have at least k columns, needed {k}")]


def _top_k_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, k: Dim, index_type: DType
) -> None:
    """Emits ONNX's TopK for top_k, with the indices cast to ``index_type``."""
    (x,) = inputs
    (x_type,), _ = types
    values, indices = _top_nodes(emitter, x, x_type.dtype, k, True)
    emitter.node("Identity", [values], outputs[:1])
    emitter.node("Identity", [emitter.cast(indices, index_type)], outputs[1:])


@primitive(
    name="top_k",
    tf_name="TopKV2",
    type=_top_type,
    numpy=_top_numpy,
    lower=kernel("sort.top_k"),
    vjp=_top_vjp,
    batch=lambda size, inputs, batched, *, k, index_type: bind.top_k(inputs[0], k=k, index_type=index_type),
    onnx=_top_k_nodes,
    guard=_top_guard,
    samples=lambda: [
        Sample((draw(i, s),), {"k": k, "index_type": t}, REAL)
        for i, (s, k, t) in enumerate((((7,), 3, int32), ((2, 5), 5, int64), ((3,), 0, int32)))
    ],
)
def top_rows(x: Tensor, k: Dim, index_type: DType) -> Any:
    """Returns the ``k`` largest elements of each row and their indices."""
    return (x,), {"k": k, "index_type": index_type}


@export("math.top_k", "nn.top_k")
@attributes(sorted=bool, index_type=one_of(int16, int32, int64))
def top_k(input: Any, k: Any = 1, sorted: bool = True, index_type: Any = int32, name: str | None = None) -> TopKV2:
    """Returns the ``k`` largest elements of the last axis, largest first, and their indices.

    Args:
      input: real tensor of shape (..., n), n >= k.
      k: int, or a scalar computed from shapes.
      sorted: ignored, because the result is always sorted.
      index_type: int16, int32 or int64.

    Returns:
      values and indices of shape (..., k); of equal elements the first comes first.

    >>> import tvtf as tf
    >>> values, indices = tf.math.top_k([1, 5, 3], 2)
    >>> values.numpy(), indices.numpy()
    (array([5, 3], dtype=int32), array([1, 2], dtype=int32))

    Raises:
      InvalidArgumentError: (ValueError while tracing) k is negative or larger than n.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/top_k
    """
    return TopKV2(*bind.top_k(convert_to_tensor(input), k=_count(k), index_type=as_dtype(index_type)))


def _count(k: Any) -> Dim:
    """Converts the argument ``k`` to a dim."""
    return size_argument(k, "k")


@export("math.in_top_k", "nn.in_top_k")
def in_top_k(targets: Any, predictions: Any, k: Any, name: str | None = None) -> Tensor:
    """Returns whether the target of each row is among its ``k`` largest predictions; ties at the edge are all in.

    Args:
      targets: int32 or int64 vector of class numbers.
      predictions: float32 tensor of shape (batch, classes).
      k: int or scalar integer tensor.

    >>> import tvtf as tf
    >>> tf.math.in_top_k([1, 0], [[0.1, 0.9], [0.2, 0.8]], 1).numpy()
    array([ True, False])

    Source: https://www.tensorflow.org/api_docs/python/tf/math/in_top_k
    """
    classes_of_rows, scores = convert_to_tensor(targets), operand(predictions, float32)
    require_dtype(classes_of_rows._type, (int32, int64), "targets")
    require_rank(scores._type, 2, "predictions")
    require_rank(classes_of_rows._type, 1, "targets")
    rows, classes = scores._type.shape
    if not agree_dim(rows, classes_of_rows._type.shape[0]):
        raise ArgumentError(
            f"First dimension of predictions {rows} must match length of targets {classes_of_rows._type.shape[0]}"
        )
    limit = convert_to_tensor(k, classes_of_rows.dtype)
    if limit.ndim:
        raise ArgumentError(f"k must be 0-D, got shape {brackets(limit._type.shape)}").for_op("InTopKV2")
    on, off = EagerTensor(np.array(True)), EagerTensor(np.array(False))
    is_target = bind.one_hot(bind.cast(classes_of_rows, dtype=int64), on, off, depth=classes, axis=1)
    zero = EagerTensor(np.zeros((), scores.dtype.np))
    target_scores = bind.reduce_sum(bind.select(is_target, scores, zero), axis=(1,), keepdims=True)
    is_larger = bind.cast(bind.greater(scores, target_scores), dtype=int32)
    # A target that is out of range, or whose score is not finite, is never in the top k.
    is_finite = bind.reduce_all(bind.is_finite(bind.select(is_target, scores, zero)), axis=(1,), keepdims=False)
    is_valid = bind.logical_and(is_finite, bind.reduce_any(is_target, axis=(1,), keepdims=False))
    larger_count = bind.reduce_sum(is_larger, axis=(1,), keepdims=False)
    return bind.logical_and(is_valid, bind.less(bind.cast(larger_count, dtype=int64), bind.cast(limit, dtype=int64)))


# -- searchsorted


def _search_type(sequence: TensorType, values: TensorType, *, side: str, out_type: DType) -> TensorType:
    """Checks the inputs of searchsorted, and returns the type of the result, which has the shape of the values.

    Args:
      sequence: the type of the sorted rows.
      values: the type of the values, of the same dtype and leading axes.
      side: "left" or "right".
      out_type: the dtype of the result.
    """
    # ``side`` isn't needed here, but all rules of the op receive it
    require_same_dtype((sequence, values), ("sorted_sequence", "values"))
    require_dtype(sequence, REAL, "sorted_sequence")
    row_dims, value_row_dims = sequence.shape[:-1], values.shape[:-1]
    if len(values.shape) != len(sequence.shape) or not all(map(agree_dim, row_dims, value_row_dims)):
        raise ArgumentError(
            f"Leading dim_size of both tensors must match: {brackets(sequence.shape)} vs. {brackets(values.shape)}"
        )
    return TensorType(values.shape, out_type)


def _search_numpy(sequence: np.ndarray, values: np.ndarray, *, side: Any, out_type: DType) -> np.ndarray:
    """Computes searchsorted by bisection: the index at which each value belongs in its sorted row.

    All comparisons with NaN fail, so NaN belongs first for "left" and last for "right".

    Args:
      sequence: sorted rows.
      values: rows of values to search for.
      side: "left" for the first possible index, "right" for the last.
      out_type: the dtype of the result.
    """
    length = sequence.shape[-1]
    low = np.zeros(values.shape, np.int64)
    high = np.full(values.shape, length)
    for _ in range(length.bit_length()):
        middle = (low + high) // 2
        element = np.take_along_axis(sequence, np.minimum(middle, length - 1), -1)
        is_before = element < values if side == "left" else ~(values < element)
        is_in_upper_half = (low < high) & is_before
        low = np.where(is_in_upper_half, middle + 1, low)
        high = np.where(is_in_upper_half, high, middle)
    return low.astype(out_type.np)


def _search_batch(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], **attrs: Any) -> Tensor:
    """Searches all rows of a batch, along which an operand without a batch axis is repeated."""
    return bind.searchsorted(*(stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched)), **attrs)


def _search_nodes(
    emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, side: str, out_type: DType
) -> None:
    """Emits ONNX nodes for searchsorted, which count the elements of the sorted row that are below each value.

    For "right", they count the elements that aren't above the value. Broadcasting compares each value with a whole row.

    Args:
      side: "left" or "right".
      out_type: the dtype of the positions.
    """
    # ``types`` isn't needed here, but all ONNX rules receive it
    sequence, values = inputs
    sequence_rows = emitter.computed("Unsqueeze", [sequence, emitter.const(np.array([-2]))])
    value_columns = emitter.computed("Unsqueeze", [values, emitter.const(np.array([-1]))])
    if side == "left":
        is_before = emitter.computed("Less", [sequence_rows, value_columns])
    else:  # not LessOrEqual, which counts none for NaN: all must count
        is_after = emitter.computed("Less", [value_columns, sequence_rows])
        is_before = emitter.computed("Not", [is_after])
    last_axis = emitter.const(np.array([-1]))
    count = emitter.computed("ReduceSum", [emitter.cast(is_before, int64), last_axis], keepdims=0)
    if out_type is not int64:
        count = emitter.cast(count, out_type)
    emitter.node("Identity", [count], outputs)


@primitive(
    name="searchsorted",
    tf_name="LowerBound",
    type=_search_type,
    numpy=_search_numpy,
    lower=kernel("sort.searchsorted"),
    batch=_search_batch,
    onnx=_search_nodes,
    samples=lambda: [
        Sample((lambda t: np.sort(draw(0, (2, 5))(t), -1), draw(1, (2, 3))), {"side": s, "out_type": t}, REAL)
        for s, t in (("left", int32), ("right", int64))
    ],
)
def search_rows(sequence: Tensor, values: Tensor, side: str, out_type: DType) -> Any:
    """Returns where each value belongs in the sorted row of the same number."""
    return (sequence, values), {"side": side, "out_type": out_type}


@export("searchsorted")
@attributes(out_type=one_of(int32, int64))
def searchsorted(
    sorted_sequence: Any, values: Any, side: str = "left", out_type: Any = int32, name: str | None = None
) -> Tensor:
    """Returns where each value would go into the sorted last axis so that it stays sorted.

    Args:
      sorted_sequence: real tensor of shape (..., n), each row ascending.
      values: tensor of the same dtype and shape (..., m).
      side: "left" puts a value before its equals, "right" after them.
      out_type: int32 or int64.

    >>> import tvtf as tf
    >>> tf.searchsorted([1, 3, 5], [0, 3, 9]).numpy()
    array([0, 1, 3], dtype=int32)

    Raises:
      ValueError: ``side`` is neither "left" nor "right".

    Source: https://www.tensorflow.org/api_docs/python/tf/searchsorted
    """
    if side not in ("left", "right"):
        raise ValueError(f"Argument `side` must be either 'right' or 'left'. Received: `side` = '{side}'.")
    sequence = convert_to_tensor(sorted_sequence)
    value_tensor = convert_to_tensor(values)
    extent, shape = sequence._type.shape[-1], value_tensor._type.shape
    row_count = size_of(sequence._type.shape[:-1])
    sequence_rows = bind.reshape(sequence, shape=(row_count, extent))
    value_row_count = size_of(shape[:-1])
    if isinstance(row_count, int) and isinstance(value_row_count, int) and row_count != value_row_count:
        error = ArgumentError("Leading dim_size of both tensors must match.")
        raise error.for_op("LowerBound" if side == "left" else "UpperBound")
    value_rows = bind.reshape(value_tensor, shape=(row_count, shape[-1]))
    result = bind.searchsorted(sequence_rows, value_rows, side=side, out_type=as_dtype(out_type))
    return bind.reshape(result, shape=shape)


# -- unique: shapes that depend on the data


class Unique(NamedTuple):
    """The result of :func:`unique`."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The result of :func:`unique_with_counts`."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment] # TensorFlow's name, over tuple.count


def _unique_elements(x: Any, out_idx: Any) -> tuple[Tensor, ...]:
    """Finds the distinct elements of a vector, by the primitive ``distinct``.

    Returns the distinct elements, the index of each element of ``x`` among them, and the count of each. ``out_idx`` is
    the dtype of indices and counts.
    """
    vector = convert_to_tensor(x)
    index_dtype = as_dtype(out_idx)
    if vector.ndim != 1:
        message = f"unique expects a 1D vector, but got shape {brackets(vector._type.shape)}"
        raise ArgumentError(message).for_op("Unique")
    return bind.distinct(vector, axis=0, out_idx=index_dtype, count=unknown_dim())


def unique_slices(x: Any, axis: Any, out_idx: Any, op: str) -> tuple[Tensor, ...]:
    """Returns the distinct slices along an axis, the index of each slice among them, and how often each occurs.

    Args:
      x: the tensor, or a value that converts to one.
      axis: a vector with the axis; empty for axis 0 of a vector.
      out_idx: the dtype of the indices.
      op: the name of TensorFlow's op in errors.

    Raises:
      InvalidArgumentError: ``axis`` isn't a vector of one axis of ``x``, or is empty and ``x`` isn't a vector.
    """
    tensor = convert_to_tensor(x)
    axes = np.ravel(static_value(axis, "axis")).tolist()
    rank = tensor.ndim
    if len(axes) > 1:  # the text is TensorFlow's
        raise InvalidArgumentError(None, op, f"axis does not support input tensors larger than 1 elements [Op:{op}]")
    if not axes and rank != 1:
        raise InvalidArgumentError(None, op, f"unique expects a 1D vector. [Op:{op}]")
    chosen_axis = axes[0] if axes else 0  # a vector has axis 0 only
    if not -rank <= chosen_axis < rank:
        raise InvalidArgumentError(None, op, f"axis has to be between [0, {rank}) [Op:{op}]")
    return bind.distinct(tensor, axis=chosen_axis % rank, out_idx=as_dtype(out_idx), count=unknown_dim())  # type: ignore[no-any-return]


def _numpy_uniques(
    array: np.ndarray, axis: int, out_idx: DType, count: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Finds distinct slices with ``np.unique`` and reorders them by first occurrence, as TensorFlow does.

    Returns the slices, each original slice's index among them, and how often each occurs.
    """
    slices = (
        array
        if array.ndim == 1
        else np.moveaxis(array, axis, 0).reshape(array.shape[axis], prod(array.shape[:axis] + array.shape[axis + 1 :]))
    )
    if slices.ndim == 2:  # np.unique can't sort rows of strings: elements are replaced by their rank among all
        slices = np.unique(slices, return_inverse=True, equal_nan=False)[1].reshape(slices.shape)
    _, first_occurrences, inverse, counts = np.unique(
        slices,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        equal_nan=False,
        axis=0 if slices.ndim > 1 else None,
    )
    # np.unique sorts by value: `order` sorts its results by first occurrence, `new_indices` is the inverse
    order = np.argsort(first_occurrences)
    new_indices = np.empty_like(order)
    new_indices[order] = np.arange(len(order))
    index_dtype = out_idx.np
    return (
        np.take(array, first_occurrences[order], axis),
        new_indices[inverse.reshape(-1)].astype(index_dtype),
        counts[order].astype(index_dtype),
    )


def _unique_types(x: TensorType, axis: int, out_idx: DType, count: Any) -> tuple[TensorType, ...]:
    """Returns the types of ``count`` distinct slices, of all slices' indices among them, and of the counts."""
    values = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return TensorType(values, x.dtype), TensorType((x.shape[axis],), out_idx), TensorType((count,), out_idx)


@host_primitive(
    tf_name="UniqueWithCounts",
    type=_unique_types,
    numpy=_numpy_uniques,
    vjp=lambda cotangent, y, x, axis, out_idx, count: (None,),
)
def distinct(x: Tensor, axis: int, out_idx: DType, count: Any) -> Any:
    """Returns ``count`` distinct slices along an axis, each slice's index among them, and how often each occurs."""
    return (x,), {"axis": axis, "out_idx": out_idx, "count": count}


@export("unique")
@attributes(out_idx=one_of(int32, int64))
def unique(x: Any, out_idx: Any = int32, name: str | None = None) -> Unique:
    """Returns the distinct elements of a vector in order of first occurrence, and each element's index among them.

    >>> import tvtf as tf
    >>> y, idx = tf.unique([7, 1, 7])
    >>> y.numpy(), idx.numpy()
    (array([7, 1], dtype=int32), array([0, 1, 0], dtype=int32))

    Source: https://www.tensorflow.org/api_docs/python/tf/unique
    """
    y, idx, _ = _unique_elements(x, out_idx)
    return Unique(y, idx)


@export("unique_with_counts")
@attributes(out_idx=one_of(int32, int64))
def unique_with_counts(x: Any, out_idx: Any = int32, name: str | None = None) -> UniqueWithCounts:
    """Same as :func:`unique`, and counts the occurrences of each distinct element.

    >>> import tvtf as tf
    >>> tf.unique_with_counts([7, 1, 7]).count.numpy()
    array([2, 1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/unique_with_counts
    """
    return UniqueWithCounts(*_unique_elements(x, out_idx))
