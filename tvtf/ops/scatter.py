"""Ops that write by index: segment reductions, scatter_nd and tensor_scatter_nd_*."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import Primitive, Sample, export, primitive
from tvtf.core.shape import Dim, TensorType, agree_dim, brackets
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.dtypes import COMPILED, FLOATING, NUMERIC, REAL, DType, float32, int64
from tvtf.ops.dims import scalar_of
from tvtf.ops.indexing import (
    by_policy,
    check_nd,
    guard_nd,
    in_range,
    index_depth,
    nd_places,
    require_index,
    where_counted,
    with_batch_places,
)
from tvtf.ops.onnx_nodes import Names, NodeEmitter, RuleTypes
from tvtf.ops.operands import operands
from tvtf.ops.rules import (
    bind,
    draw,
    kernel,
    number,
    require_dtype,
    require_same_dtype,
    size_argument,
    static_dims,
    stretch,
    zeros_like,
)
from tvtf.ops.scan import wide_type


def _segment_type(data: TensorType, ids: TensorType, *, num_segments: Dim) -> TensorType:
    """Checks the inputs of a segment reduction, and returns the type of the result.

    The shape of ``data`` must start with the shape of ``ids``. In the result, one axis of segments replaces these axes.
    """
    require_dtype(data, NUMERIC, "data")
    require_index(ids)
    rank = len(ids.shape)
    if len(data.shape) < rank or not all(map(agree_dim, data.shape, ids.shape)):
        raise ArgumentError(
            f"data.shape = {brackets(data.shape)} does not start with segment_ids.shape = {brackets(ids.shape)}"
        )
    if isinstance(num_segments, int) and num_segments < 0:
        raise ArgumentError(f"Input num_segments == {num_segments} must not be negative.")
    return TensorType((num_segments, *data.shape[rank:]), data.dtype)


def check_ids(ids: np.ndarray, num_segments: int) -> None:
    """Checks segment ids and raises TensorFlow's error for the first that is too large. Negative ids are skipped."""
    wrong_positions = np.argwhere(ids >= num_segments)
    if len(wrong_positions):
        position = tuple(wrong_positions[0])
        position_text = brackets([int(each) for each in position]) if ids.ndim else ""
        raise ArgumentError(f"segment_ids{position_text} = {ids[position]} is out of range [0, {num_segments})")


def segment_numpy(ufunc: Any, value_of_empty: Any) -> Any:
    """Returns the NumPy kernel of a segment reduction. It combines the rows that have the same id by ``ufunc.at``.

    ``value_of_empty(dtype)`` is the result of an empty segment. Rows with a negative id are ignored.
    """

    def reduce_segments(data: np.ndarray, ids: np.ndarray, *, num_segments: int) -> np.ndarray:
        """Combines the rows of ``data`` that have the same segment id. ``ids`` has an id for each row.

        They are combined in an accumulation dtype, which is wider for 16-bit floats.
        """
        check_ids(ids, num_segments)
        accumulation_dtype = wide_type(data)
        row_shape = data.shape[ids.ndim :]
        rows = data.reshape((ids.size, *row_shape))
        row_ids = ids.ravel()
        result = np.full((num_segments, *row_shape), value_of_empty(data.dtype), accumulation_dtype)
        is_valid = row_ids >= 0  # rows with a negative id are skipped
        ufunc.at(result, row_ids[is_valid], rows[is_valid].astype(accumulation_dtype))
        return result

    return reduce_segments


def segment_guard(data: Tensor, ids: Tensor, *, num_segments: Dim) -> list[tuple[Tensor, str]]:
    """Checks at run time that no id is too large; negative ids, which are skipped, may have any value."""
    lowest = int(np.iinfo(np.int64).min)
    return [(in_range(ids, num_segments, lowest), f"segment_ids are out of range [0, {num_segments})")]


def segment_batch(name: str) -> Callable[..., Any]:
    """Returns the batch rule (for ``vectorized_map``) of the segment reduction ``name``.

    All items of the batch are reduced at once, over ``size * num_segments`` segments. Each item has its own range of
    ids.
    """

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, num_segments: Dim) -> Tensor:
        """Reduces the segments of all items of the batch at once.

        The ids of an item follow the ids of the item before.
        """
        data, ids = (stretch(size, x, is_batched) for x, is_batched in zip(inputs, batched))
        item_numbers = bind.range(size=size, start=0, delta=1, dtype=ids.dtype)
        first_ids = bind.multiply(item_numbers, bind.cast(scalar_of(num_segments), dtype=ids.dtype))
        first_ids = bind.reshape(first_ids, shape=(size, *(1,) * (ids.ndim - 1)))  # broadcasts to the ids of each item
        is_skipped = bind.less(ids, number(0, ids))  # negative ids must stay negative
        all_ids = bind.select(is_skipped, ids, bind.add(ids, first_ids))
        result = getattr(bind, name)(data, all_ids, num_segments=size * num_segments)
        return bind.reshape(result, shape=(size, num_segments, *result._type.shape[1:]))

    return rule


def gathered(rows: Tensor, ids: Tensor) -> Tensor:
    """Gathers the row of ``rows`` for each id. A negative id gives zeros."""
    zero_id, zero = number(0, ids), number(0, rows)
    rows_of_ids = bind.gather(rows, bind.maximum(ids, zero_id), axis=0, batch_dims=0)
    is_valid = bind.greater_equal(ids, zero_id)
    row_rank = rows_of_ids.ndim - ids.ndim
    is_valid_row = bind.reshape(is_valid, shape=(*ids._type.shape, *(1,) * row_rank))
    return bind.select(is_valid_row, rows_of_ids, zero)


def _real_segment_type(data: TensorType, ids: TensorType, *, num_segments: Dim) -> TensorType:
    """Returns the type of a segment reduction's result, for reductions that complex numbers don't have."""
    require_dtype(data, REAL, "data")
    return _segment_type(data, ids, num_segments=num_segments)


def segment_samples() -> list[Sample]:
    """Returns test samples of a segment reduction: a negative id, ids of rank 2, and no rows."""
    return [
        Sample((draw(0, (4, 3)), np.array([0, 2, 0, -1], "int32")), {"num_segments": 3}, REAL),
        Sample((draw(1, (2, 2)), np.array([[1, 0], [1, 1]], "int64")), {"num_segments": 2}, REAL),
        Sample((draw(2, (0, 2)), np.zeros(0, "int32")), {"num_segments": 2}, REAL),
    ]


def _segment_nodes(mode: str, value_of_empty: Callable[[np.dtype], Any]) -> Any:
    """Returns the ONNX rule of a segment reduction: ScatterND with the reduction ``mode``.

    ``value_of_empty(dtype)`` is the result of an empty segment. Rows with a negative id are reduced into an extra row,
    which is sliced off.
    """

    def onnx_rule(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes, *, num_segments: Dim) -> None:
        """Emits ScatterND of the rows of ``data`` into rows of the initial value: one for each segment and one more.

        The extra row gets the rows with a negative id. It is sliced off at the end.
        """
        data, ids = inputs
        (data_type, _), (result_type,) = types
        dtype = data_type.dtype
        shape = result_type.shape
        initial = emitter.const(np.array(value_of_empty(dtype.np), dtype.np))
        initial_rows = emitter.computed("Expand", [initial, emitter.shape((num_segments + 1, *shape[1:]))])
        ids = emitter.cast(ids, int64)
        is_negative = emitter.computed("Less", [ids, emitter.const(np.array(0))])
        extra_row = emitter.shape((num_segments,))
        row_numbers = emitter.computed("Where", [is_negative, extra_row, ids])
        index_vectors = emitter.computed("Unsqueeze", [row_numbers, emitter.const(np.array([-1]))])
        scattered = scatter_node(emitter, [initial_rows, index_vectors, data], dtype, mode)
        start = emitter.const(np.array([0]))
        axis = emitter.const(np.array([0]))
        emitter.node("Slice", [scattered, start, extra_row, axis], outputs)

    return onnx_rule


def scatter_node(emitter: NodeEmitter, inputs: Names, dtype: DType, mode: str) -> str:
    """Emits ONNX's ScatterND with the reduction ``mode``, and returns the name of the result.

    16-bit floats are reduced in float32, for accuracy.

    Args:
        emitter: adds nodes to the ONNX graph.
        inputs: the names of the data, the index vectors and the updates.
        dtype: the dtype of the data and updates.
        mode: the reduction, as ONNX calls it; "none" replaces elements by updates.
    """
    data, indices, updates = inputs
    is_half_float = dtype in FLOATING and dtype.size == 2
    if not is_half_float or mode == "none":
        return emitter.computed("ScatterND", [data, indices, updates], reduction=mode)
    wide_operands = [emitter.cast(data, float32), indices, emitter.cast(updates, float32)]
    scattered = emitter.computed("ScatterND", wide_operands, reduction=mode)
    return emitter.cast(scattered, dtype)


def _segment_op(
    suffix: str, ufunc: np.ufunc, value_of_empty: Callable[[np.dtype], Any], mode: str, **columns: Any
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Returns a decorator that declares the segment reduction ``math.unsorted_segment_{suffix}``.

    ``value_of_empty(dtype)`` is the result of an empty segment. ``mode`` is ONNX's name of the reduction.
    """
    name = f"unsorted_segment_{suffix}"
    columns = {"type": _segment_type, "samples": segment_samples, **columns}
    return primitive(
        name=name,
        numpy=segment_numpy(ufunc, value_of_empty),
        lower=kernel(f"indexing.segment_{suffix}"),
        batch=segment_batch(name),
        onnx=_segment_nodes(mode, value_of_empty),
        guard=segment_guard,
        public=(f"math.{name}",),
        **columns,
    )


@_segment_op(
    "sum",
    np.add,
    lambda t: 0,
    "add",
    vjp=lambda cotangent, y, data, ids, *, num_segments: (gathered(cotangent, ids), None),
)
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Computes the sum of the slices of ``data`` that have the same id. Slices with a negative id are left out.

    Args:
      data: numeric tensor whose shape begins with that of ``segment_ids``.
      segment_ids: int16, int32 or int64 tensor with values below ``num_segments``.
      num_segments: int, or a scalar computed from shapes.

    Returns:
      A tensor of shape (num_segments, *other dims of data).

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_sum([1, 2, 3], [0, 1, 0], 2).numpy()
    array([4, 2], dtype=int32)

    Raises:
      InvalidArgumentError: an id is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_sum
    """
    return segment_front(data, segment_ids, num_segments)


def segment_front(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    """Converts the arguments of a segment reduction to its inputs and attributes."""
    return (convert_to_tensor(data), convert_to_tensor(segment_ids)), {
        "num_segments": size_argument(num_segments, "num_segments", of_any_dtype=True)
    }


def lowest_finite(dtype: np.dtype) -> Any:
    """Returns the lowest finite number of a dtype."""
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min


def highest_finite(dtype: np.dtype) -> Any:
    """Returns the highest finite number of a dtype."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else ml_dtypes.finfo(dtype).max


def _extreme_vjp(cotangent: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: Dim) -> tuple[Any, ...]:
    """Divides the cotangent of a segment's extreme equally among the elements that equal it, as in TensorFlow."""
    is_extreme = bind.cast(bind.equal(data, gathered(y, ids)), dtype=data.dtype)  # 1 or 0
    extreme_count = bind.unsorted_segment_sum(is_extreme, ids, num_segments=num_segments)
    divisor = bind.maximum(extreme_count, number(1, data))  # an empty segment must not divide by zero
    share = bind.divide(cotangent, divisor)
    return bind.multiply(is_extreme, gathered(share, ids)), None


def _extreme_samples() -> list[Sample]:
    """Returns test samples of segment maxima and minima. Empty segments have no numeric gradient."""
    return [
        Sample((draw(0, (4, 3)), np.array([0, 1, 0, -1], "int32")), {"num_segments": 2}, REAL),
        Sample((draw(1, (4,)), np.array([0, 2, 0, -1], "int32")), {"num_segments": 3}, REAL, gradient=False),
        Sample((draw(2, (0, 2)), np.zeros(0, "int64")), {"num_segments": 2}, REAL, gradient=False),
    ]


@_segment_op(
    "max", np.maximum, lowest_finite, "max", vjp=_extreme_vjp, type=_real_segment_type, samples=_extreme_samples
)
def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Computes the elementwise maximum of the slices of ``data`` that have the same id.

    For an id without slices it is the dtype's lowest number.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_max([1, 2, 3], [0, 1, 0], 2).numpy()
    array([3, 2], dtype=int32)

    Raises:
      InvalidArgumentError: an id is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_max
    """
    return segment_front(data, segment_ids, num_segments)


@_segment_op(
    "min", np.minimum, highest_finite, "min", vjp=_extreme_vjp, type=_real_segment_type, samples=_extreme_samples
)
def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Computes the elementwise minimum of the slices of ``data`` that have the same id.

    For an id without slices it is the dtype's highest number.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_min([1, 2, 3], [0, 1, 0], 2).numpy()
    array([1, 2], dtype=int32)

    Raises:
      InvalidArgumentError: an id is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_min
    """
    return segment_front(data, segment_ids, num_segments)


def _prod_vjp(cotangent: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: Dim) -> tuple[Any, ...]:
    """Returns the cotangent of a segment product's data: the result's cotangent times the product of other elements.

    Let P be the product of a segment's nonzero elements. For a zero, the product of the others is P. For another
    element, it is P divided by the element. It is 0 if one of the others is zero.

    Args:
      cotangent: the cotangent of the result.
      y: the result.
      data: the elements, of shape (rows, ...).
      ids: the segment id of each row.
      num_segments: the number of segments.
    """
    # ``y`` isn't needed here, but all gradient rules receive it
    zero = number(0, data)
    one = number(1, data)
    is_zero = bind.equal(data, zero)
    own_zero_count = bind.cast(is_zero, dtype=data.dtype)  # 1 for a zero, else 0
    zero_counts = bind.unsorted_segment_sum(own_zero_count, ids, num_segments=num_segments)
    nonzero = bind.select(is_zero, one, data)
    segment_products = bind.unsorted_segment_prod(nonzero, ids, num_segments=num_segments)
    product = gathered(segment_products, ids)
    product_of_others = bind.select(is_zero, product, bind.divide(product, nonzero))
    others_nonzero = bind.equal(gathered(zero_counts, ids), own_zero_count)
    derivative = bind.select(others_nonzero, product_of_others, zero)
    # The ids are integers, which have no cotangent.
    return bind.multiply(gathered(cotangent, ids), derivative), None


@_segment_op("prod", np.multiply, lambda t: 1, "mul", vjp=_prod_vjp)
def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Computes the product of the slices of ``data`` that have the same id. It is 1 for an id without slices.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_prod([1, 2, 3], [0, 1, 0], 2).numpy()
    array([3, 2], dtype=int32)

    Raises:
      InvalidArgumentError: an id is out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_prod
    """
    return segment_front(data, segment_ids, num_segments)


# -- tensor_scatter_nd_*


def _scatter_type(x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
    """Checks the indices and updates of a scatter, and returns the type of the result: the type of ``x``.

    The last axis of ``indices`` has index vectors. The updates must have the shape of the slices at these indices.
    """
    require_index(indices)
    require_same_dtype((x, updates), ("tensor", "updates"))
    if not indices.shape:
        raise ArgumentError("indices must be at least a vector")
    depth = index_depth(indices)
    batch_shape = indices.shape[:-1]
    if depth > len(x.shape):
        raise ArgumentError(f"The inner {depth} dimensions of indices don't index into shape {brackets(x.shape)}")
    if len(updates.shape) < len(batch_shape) or not all(map(agree_dim, batch_shape, updates.shape)):
        raise ArgumentError(
            f"Outer dimensions of indices and update must match. Indices shape: {brackets(indices.shape)}, "
            f"updates shape:{brackets(updates.shape)}"
        )
    slice_shape, update_slice_shape = x.shape[depth:], updates.shape[len(batch_shape) :]
    if len(slice_shape) != len(update_slice_shape) or not all(map(agree_dim, slice_shape, update_slice_shape)):
        raise ArgumentError(
            f"Inner dimensions of output shape must match inner dimensions of updates shape. "
            f"Output: {brackets(x.shape)} updates: {brackets(updates.shape)}"
        )
    return x


def _scatter_numpy(ufunc: Any) -> Any:
    """Returns the NumPy kernel of a scatter, which combines old and new elements by ``ufunc.at``.

    Elements are combined in an accumulation dtype. If ``ufunc`` is None, the updates replace the elements.
    """

    def scatter(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        """Copies ``x``, and combines the updates with the elements or slices of the copy at the index vectors.

        Index vectors out of range raise an error.
        """
        check_nd(indices, x.shape)
        result = x.astype(wide_type(x))
        positions = nd_places(indices) if indices.shape[-1] else ...
        if ufunc is None:
            result[positions] = updates
        elif indices.shape[-1]:
            ufunc.at(result, positions, updates.astype(result.dtype))
        else:  # each index vector of length 0 means the whole tensor
            for update in updates.reshape((-1, *x.shape)):
                result = ufunc(result, update.astype(result.dtype))
        return result

    return scatter


def _scatter_guard(x: Tensor, indices: Tensor, updates: Tensor) -> list[tuple[Tensor, str]]:
    """Checks at run time that the index vectors lie within ``x``."""
    return guard_nd(indices, x._type.shape)


def _scatter_batch(name: str) -> Any:
    """Returns the batch rule (for ``vectorized_map``) of the scatter op ``name``.

    All items are scattered at once: the item's index is prepended to each index vector.
    """

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
        x, indices, updates = (stretch(size, tensor, is_batched) for tensor, is_batched in zip(inputs, batched))
        scatter = getattr(bind, name)
        return scatter(x, with_batch_places(indices, 1), updates)

    return rule


def _scatter_nodes(mode: str) -> Any:
    """Returns the ONNX rule of a scatter. It emits ScatterND with the reduction ``mode``, for int64 indices.

    ONNX takes no other dtype of indices.
    """

    def onnx_rule(emitter: NodeEmitter, inputs: Names, outputs: Names, types: RuleTypes) -> None:
        """Emits ONNX's ScatterND with the reduction ``mode``."""
        x, indices, updates = inputs
        (x_type, *_), _ = types
        scatter_inputs = [x, emitter.cast(indices, int64), updates]
        scattered = scatter_node(emitter, scatter_inputs, x_type.dtype, mode)
        emitter.node("Identity", [scattered], outputs)

    return onnx_rule


def _scatter_samples(domain: Sequence[DType], repeated: bool = True) -> Any:
    """Returns a function that makes the test samples of a scatter, with duplicate indices if ``repeated``."""
    second_index = 2 if repeated else 1

    def make() -> list[Sample]:
        """Makes the samples. Their inputs are a tensor, index vectors and updates."""
        inputs = [
            (draw(0, (4, 2)), np.array([[0], [second_index], [2]], "int32"), draw(9, (3, 2))),
            (draw(1, (3, 3)), np.array([[0, 1], [2, 2]], "int64"), draw(10, (2,))),
            (draw(2, (4,)), np.zeros((0, 1), "int32"), draw(11, (0,))),
        ]
        return [Sample(each, {}, tuple(domain)) for each in inputs]

    return make


@primitive(
    name="tensor_scatter_update",
    type=_scatter_type,
    numpy=_scatter_numpy(None),
    lower=kernel("indexing.scatter_update"),
    batch=_scatter_batch("tensor_scatter_update"),
    vjp=lambda cotangent, y, x, indices, updates: (
        bind.tensor_scatter_update(cotangent, indices, zeros_like(updates)),
        None,
        bind.gather_nd(cotangent, indices),
    ),
    onnx=_scatter_nodes("none"),
    guard=_scatter_guard,
    samples=_scatter_samples(COMPILED, repeated=False),
    public=("tensor_scatter_nd_update",),
)
def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """Returns a copy of ``tensor`` in which ``updates`` replace the slices at the index vectors.

    For an index vector that occurs several times, the last update is used.

    Args:
      tensor: tensor of shape t.
      indices: int16, int32 or int64 tensor of shape (..., k).
      updates: tensor of the same dtype and shape ``indices.shape[:-1] + t[k:]``.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [8, 9]).numpy()
    array([8, 2, 9], dtype=int32)

    Raises:
      InvalidArgumentError: an index is out of range, or (ValueError while tracing) the shapes don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_update
    """
    return _scatter_front(tensor, indices, updates)


def _scatter_front(tensor: Any, indices: Any, updates: Any, policy: str | None = "", op: str = "") -> Any:
    """Converts the operands of a scatter, and applies the policy for indices that are out of range.

    Updates that the policy ignores are written to the first slice, with a value that doesn't change the slice: zero if
    updates are added, else the slice itself.
    """
    x, new_values = operands(tensor, updates)
    index_vectors, is_valid = by_policy(policy, convert_to_tensor(indices), x._type.shape, op)
    if is_valid is not None:
        updates_are_added = op in ("TensorScatterAdd", "TensorScatterSub", "ScatterNd")
        neutral = zeros_like(new_values) if updates_are_added else bind.gather_nd(x, index_vectors)
        new_values = where_counted(is_valid, new_values, neutral)
    return (x, index_vectors, new_values), {}


def _scatter_op(
    suffix: str, ufunc: np.ufunc, domain: Sequence[DType], vjp: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Returns a decorator that declares the op ``tensor_scatter_nd_{suffix}``.

    Args:
        suffix: the operation, such as "add". It is also the reduction of ONNX's ScatterND.
        ufunc: combines old and new elements in NumPy.
        domain: the dtypes to test.
        vjp: the rule for the vector-Jacobian product.
    """
    name = f"tensor_scatter_{suffix}"
    return primitive(
        name=name,
        type=_scatter_type,
        numpy=_scatter_numpy(ufunc),
        lower=kernel(f"indexing.scatter_{suffix}"),
        batch=_scatter_batch(name),
        vjp=vjp,
        onnx=_scatter_nodes(suffix),
        guard=_scatter_guard,
        samples=_scatter_samples(domain),
        public=(f"tensor_scatter_nd_{suffix}",),
    )


@_scatter_op(
    "add",
    np.add,
    NUMERIC,
    lambda cotangent, y, x, indices, updates: (cotangent, None, bind.gather_nd(cotangent, indices)),
)
def tensor_scatter_nd_add(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Any:
    """Returns a copy of ``tensor`` with ``updates`` added to the slices at the index vectors.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_add([1, 2, 3], [[0], [0]], [8, 9]).numpy()
    array([18,  2,  3], dtype=int32)

    Raises:
      InvalidArgumentError: an index is out of range, or (ValueError while tracing) the shapes don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_add
    """
    return _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterAdd")


@export("tensor_scatter_nd_sub")
def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Returns a copy of ``tensor`` with ``updates`` subtracted from the slices at the index vectors.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_sub([9, 2, 3], [[0]], [8]).numpy()
    array([1, 2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_sub
    """
    (x, index_vectors, new_values), _ = _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterSub")
    return bind.tensor_scatter_add(x, index_vectors, bind.subtract(zeros_like(new_values), new_values))


def _scatter_extreme_vjp(cotangent: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor) -> tuple[Any, ...]:
    """Divides the cotangent of a maximum or minimum among all old and new values that equal it, as in TensorFlow."""
    # 1 for each value that equals the extreme, else 0
    is_old_extreme = bind.cast(bind.equal(x, y), dtype=x.dtype)
    is_new_extreme = bind.cast(bind.equal(updates, bind.gather_nd(y, indices)), dtype=x.dtype)
    extreme_count = bind.tensor_scatter_add(is_old_extreme, indices, is_new_extreme)
    share = bind.divide(cotangent, extreme_count)
    x_cotangent = bind.multiply(share, is_old_extreme)
    updates_cotangent = bind.multiply(bind.gather_nd(share, indices), is_new_extreme)
    return x_cotangent, None, updates_cotangent


@_scatter_op("max", np.maximum, REAL, _scatter_extreme_vjp)
def tensor_scatter_nd_max(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Any:
    """Returns a copy of ``tensor`` with the elementwise maximum of old slices and ``updates`` at the index vectors.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_max([1, 2, 3], [[0], [1]], [8, 0]).numpy()
    array([8, 2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_max
    """
    return _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterMax")


@_scatter_op("min", np.minimum, REAL, _scatter_extreme_vjp)
def tensor_scatter_nd_min(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Any:
    """Returns a copy of ``tensor`` with the elementwise minimum of old slices and ``updates`` at the index vectors.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_min([1, 2, 3], [[0], [1]], [8, 0]).numpy()
    array([1, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_min
    """
    return _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterMin")


@export("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None) -> Tensor:
    """Returns zeros of ``shape`` with ``updates`` added to the slices at the index vectors.

    The policy ``"IGNORE"`` leaves out updates whose index is out of range.

    >>> import tvtf as tf
    >>> tf.scatter_nd([[1], [1]], [2, 3], [3]).numpy()
    array([0, 5, 0], dtype=int32)

    Raises:
      InvalidArgumentError: an index is out of range, or (ValueError while tracing) the shapes don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/scatter_nd
    """
    new_values = convert_to_tensor(updates)
    zeros = bind.broadcast_to(EagerTensor(np.zeros((), new_values.dtype.np)), shape=static_dims(shape))
    return bind.tensor_scatter_add(*_scatter_front(zeros, indices, new_values, bad_indices_policy, "ScatterNd")[0])
