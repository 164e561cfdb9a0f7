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
    """Checks that ``data`` starts with the shape of the ids, which the segments' axis replaces."""
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
    """Raises the error for the first id that is too large; negative ids are allowed and skipped."""
    wrong = np.argwhere(ids >= num_segments)
    if len(wrong):
        place = tuple(wrong[0])
        place_text = brackets([int(p) for p in place]) if ids.ndim else ""
        raise ArgumentError(f"segment_ids{place_text} = {ids[place]} is out of range [0, {num_segments})")


def segment_numpy(update: Any, empty: Any) -> Any:
    """Returns the kernel of a segment reduction: ``update.at`` on rows with an id that isn't negative."""

    def run(data: np.ndarray, ids: np.ndarray, *, num_segments: int) -> np.ndarray:
        check_ids(ids, num_segments)
        wide = wide_type(data)
        rest = data.shape[ids.ndim :]
        result = np.full((num_segments, *rest), empty(data.dtype), wide)
        is_valid = ids.ravel() >= 0
        rows = data.reshape((ids.size, *rest))[is_valid].astype(wide)
        update.at(result, ids.ravel()[is_valid], rows)
        return result

    return run


def segment_guard(data: Tensor, ids: Tensor, *, num_segments: Dim) -> list[tuple[Tensor, str]]:
    lowest = int(np.iinfo(np.int64).min)
    return [(in_range(ids, num_segments, lowest), f"segment_ids are out of range [0, {num_segments})")]


def segment_batch(name: str) -> Callable[..., Any]:
    """Returns the batch rule of a segment reduction: each item's segments follow those of the item before."""

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool], *, num_segments: Dim) -> Tensor:
        """Adds ``item * num_segments`` to the ids of each item; negative ids, which are ignored, must stay negative."""
        data, ids = (stretch(size, x, b) for x, b in zip(inputs, batched))
        items = bind.range(size=size, start=0, delta=1, dtype=ids.dtype)
        offsets = bind.multiply(items, bind.cast(scalar_of(num_segments), dtype=ids.dtype))
        moved_ids = bind.add(ids, bind.reshape(offsets, shape=(size, *(1,) * (ids.ndim - 1))))
        all_ids = bind.select(bind.less(ids, number(0, ids)), ids, moved_ids)
        result = getattr(bind, name)(data, all_ids, num_segments=size * num_segments)
        return bind.reshape(result, shape=(size, num_segments, *result._type.shape[1:]))

    return rule


def gathered(rows: Tensor, ids: Tensor) -> Tensor:
    """Returns the row of each id, and zeros for negative ids."""
    zero = EagerTensor(np.zeros((), ids.dtype.np))
    rows_of_ids = bind.gather(rows, bind.maximum(ids, zero), axis=0, batch_dims=0)
    valid = bind.greater_equal(ids, zero)
    shape = (*ids._type.shape, *(1,) * (rows_of_ids.ndim - ids.ndim))
    return bind.select(bind.reshape(valid, shape=shape), rows_of_ids, EagerTensor(np.zeros((), rows.dtype.np)))


def _real_segment_type(data: TensorType, ids: TensorType, *, num_segments: Dim) -> TensorType:
    require_dtype(data, REAL, "data")
    return _segment_type(data, ids, num_segments=num_segments)


def segment_samples() -> list[Sample]:
    types = REAL
    return [
        Sample((draw(0, (4, 3)), np.array([0, 2, 0, -1], "int32")), {"num_segments": 3}, types),
        Sample((draw(1, (2, 2)), np.array([[1, 0], [1, 1]], "int64")), {"num_segments": 2}, types),
        Sample((draw(2, (0, 2)), np.zeros(0, "int32")), {"num_segments": 2}, types),
    ]


def _segment_nodes(mode: str, empty: Callable[[np.dtype], Any]) -> Any:
    """Returns the ONNX rule of a segment reduction.

    It writes ScatterND with one extra row for negative ids, which is sliced off.
    """

    def nodes(emitter: Any, inputs: Any, outputs: Any, types: Any, *, num_segments: Dim) -> None:
        data, shape = types[0][0], types[1][0].shape
        start, negative, safe, lifted = (emitter.temp() for _ in range(4))
        first = emitter.const(np.array(empty(data.dtype.np), data.dtype.np))
        emitter.node("Expand", [first, emitter.shape((num_segments + 1, *shape[1:]))], [start])
        ids = emitter.cast(inputs[1], int64)
        emitter.node("Less", [ids, emitter.const(np.array(0))], [negative])
        last = emitter.shape((num_segments,))
        emitter.node("Where", [negative, last, ids], [safe])
        emitter.node("Unsqueeze", [safe, emitter.const(np.array([-1]))], [lifted])
        scattered = scatter_node(emitter, [start, lifted, inputs[0]], data.dtype, mode)
        emitter.node("Slice", [scattered, emitter.const(np.array([0])), last, emitter.const(np.array([0]))], outputs)

    return nodes


def scatter_node(emitter: Any, inputs: Sequence[str], dtype: DType, mode: str) -> str:
    """Writes ScatterND; 16-bit floats are reduced in float32."""
    wide = float32 if dtype in FLOATING and dtype.size == 2 and mode != "none" else dtype
    data, places, updates = inputs
    operands = (
        [data, places, updates] if wide is dtype else [emitter.cast(data, wide), places, emitter.cast(updates, wide)]
    )
    scattered = emitter.temp()
    emitter.node("ScatterND", operands, [scattered], reduction=mode)
    return scattered if wide is dtype else emitter.cast(scattered, dtype)


def _segment_op(
    kind: str, ufunc: np.ufunc, empty: Callable[[np.dtype], Any], mode: str, **columns: Any
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Declares ``math.unsorted_segment_{kind}``; ``empty`` is a segment's result without elements, ``mode`` ONNX's name."""
    name = f"unsorted_segment_{kind}"
    columns = {"type": _segment_type, "samples": segment_samples, **columns}
    return primitive(
        name=name,
        numpy=segment_numpy(ufunc, empty),
        lower=kernel(f"indexing.segment_{kind}"),
        batch=segment_batch(name),
        onnx=_segment_nodes(mode, empty),
        guard=segment_guard,
        public=(f"math.{name}",),
        **columns,
    )


@_segment_op("sum", np.add, lambda t: 0, "add", vjp=lambda ct, y, data, ids, *, num_segments: (gathered(ct, ids), None))
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the sum of the slices of ``data`` that have the same id; negative ids are left out.

    Args:
      data: numeric tensor whose shape begins with that of ``segment_ids``.
      segment_ids: int16, int32 or int64 tensor with values below ``num_segments``.
      num_segments: int, or a scalar computed from shapes.

    Returns:
      A tensor of shape (num_segments, *rest of data.shape).

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_sum([1, 2, 3], [0, 1, 0], 2).numpy()
    array([4, 2], dtype=int32)

    Raises:
      InvalidArgumentError: for an id out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_sum
    """
    return segment_front(data, segment_ids, num_segments)


def segment_front(data: Any, segment_ids: Any, num_segments: Any) -> Any:
    """Returns the inputs and attributes of a segment reduction, whose arguments they all share."""
    return (convert_to_tensor(data), convert_to_tensor(segment_ids)), {
        "num_segments": size_argument(num_segments, "num_segments", of_any_dtype=True)
    }


def lowest_finite(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else ml_dtypes.finfo(dtype).min


def highest_finite(dtype: np.dtype) -> Any:
    return np.iinfo(dtype).max if dtype.kind in "iu" else ml_dtypes.finfo(dtype).max


def _extreme_vjp(ct: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: Dim) -> tuple[Any, ...]:
    """Divides a segment's cotangent equally among equal extremes, as in TensorFlow."""
    best = bind.cast(bind.equal(data, gathered(y, ids)), dtype=data.dtype)
    count = bind.unsorted_segment_sum(best, ids, num_segments=num_segments)
    divisor = bind.maximum(count, EagerTensor(np.ones((), data.dtype.np)))
    return bind.multiply(best, gathered(bind.divide(ct, divisor), ids)), None


def _extreme_samples() -> list[Sample]:
    return [
        Sample((draw(0, (4, 3)), np.array([0, 1, 0, -1], "int32")), {"num_segments": 2}, REAL),
        Sample((draw(1, (4,)), np.array([0, 2, 0, -1], "int32")), {"num_segments": 3}, REAL, gradient=False),
        Sample((draw(2, (0, 2)), np.zeros(0, "int64")), {"num_segments": 2}, REAL, gradient=False),
    ]


@_segment_op(
    "max", np.maximum, lowest_finite, "max", vjp=_extreme_vjp, type=_real_segment_type, samples=_extreme_samples
)
def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the largest of the slices of ``data`` that have the same id; the lowest number where there are none.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_max([1, 2, 3], [0, 1, 0], 2).numpy()
    array([3, 2], dtype=int32)

    Raises:
      InvalidArgumentError: for an id out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_max
    """
    return segment_front(data, segment_ids, num_segments)


@_segment_op(
    "min", np.minimum, highest_finite, "min", vjp=_extreme_vjp, type=_real_segment_type, samples=_extreme_samples
)
def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the smallest of the slices of ``data`` that have the same id; the highest number where there are none.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_min([1, 2, 3], [0, 1, 0], 2).numpy()
    array([1, 2], dtype=int32)

    Raises:
      InvalidArgumentError: for an id out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_min
    """
    return segment_front(data, segment_ids, num_segments)


def _prod_vjp(ct: Tensor, y: Tensor, data: Tensor, ids: Tensor, *, num_segments: Dim) -> tuple[Any, ...]:
    """Multiplies the cotangent by the product of the segment's other elements.

    An element that isn't zero divides the segment's product of nonzero elements, and a zero takes it whole. Where
    another element is zero the product is zero.
    """
    zero, one = (EagerTensor(np.array(v, data.dtype.np)) for v in (0, 1))
    is_zero = bind.equal(data, zero)
    zeros = bind.unsorted_segment_sum(bind.cast(is_zero, dtype=data.dtype), ids, num_segments=num_segments)
    nonzero = bind.select(is_zero, one, data)
    product = gathered(bind.unsorted_segment_prod(nonzero, ids, num_segments=num_segments), ids)
    product_of_others = bind.select(is_zero, product, bind.divide(product, nonzero))
    others_nonzero = bind.equal(gathered(zeros, ids), bind.cast(is_zero, dtype=data.dtype))
    return bind.multiply(gathered(ct, ids), bind.select(others_nonzero, product_of_others, zero)), None


@_segment_op("prod", np.multiply, lambda t: 1, "mul", vjp=_prod_vjp)
def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """Returns the product of the slices of ``data`` that have the same id; one where there are none.

    >>> import tvtf as tf
    >>> tf.math.unsorted_segment_prod([1, 2, 3], [0, 1, 0], 2).numpy()
    array([3, 2], dtype=int32)

    Raises:
      InvalidArgumentError: for an id out of range.

    Source: https://www.tensorflow.org/api_docs/python/tf/math/unsorted_segment_prod
    """
    return segment_front(data, segment_ids, num_segments)


# -- tensor_scatter_nd_*


def _scatter_type(x: TensorType, indices: TensorType, updates: TensorType) -> TensorType:
    """Checks that the updates' shape is that of the slices which the index vectors name."""
    require_index(indices)
    require_same_dtype((x, updates), ("tensor", "updates"))
    if not indices.shape:
        raise ArgumentError("indices must be at least a vector")
    depth, lead = index_depth(indices), indices.shape[:-1]
    if depth > len(x.shape):
        raise ArgumentError(f"The inner {depth} dimensions of indices don't index into shape {brackets(x.shape)}")
    if len(updates.shape) < len(lead) or not all(map(agree_dim, lead, updates.shape)):
        raise ArgumentError(
            f"Outer dimensions of indices and update must match. Indices shape: {brackets(indices.shape)}, "
            f"updates shape:{brackets(updates.shape)}"
        )
    rest, inner = x.shape[depth:], updates.shape[len(lead) :]
    if len(rest) != len(inner) or not all(map(agree_dim, rest, inner)):
        raise ArgumentError(
            f"Inner dimensions of output shape must match inner dimensions of updates shape. "
            f"Output: {brackets(x.shape)} updates: {brackets(updates.shape)}"
        )
    return x


def _scatter_numpy(ufunc: Any) -> Any:
    """Returns the kernel of a scatter: ``ufunc.at`` in a wide dtype, or plain assignment for None."""

    def run(x: np.ndarray, indices: np.ndarray, updates: np.ndarray) -> np.ndarray:
        check_nd(indices, x.shape)
        result = x.astype(wide_type(x))
        places = nd_places(indices) if indices.shape[-1] else ...
        if ufunc is None:
            result[places] = updates
        elif indices.shape[-1]:
            ufunc.at(result, places, updates.astype(result.dtype))
        else:
            for row in updates.reshape((-1, *x.shape)):
                result = ufunc(result, row.astype(result.dtype))
        return result

    return run


def _scatter_guard(x: Tensor, indices: Tensor, updates: Tensor) -> list[tuple[Tensor, str]]:
    return guard_nd(indices, x._type.shape)


def _scatter_batch(name: str) -> Any:
    """Returns the batch rule of a scatter: each index vector is prefixed with its position in the batch."""

    def rule(size: Dim, inputs: Sequence[Tensor], batched: Sequence[bool]) -> Tensor:
        x, indices, updates = (stretch(size, t, b) for t, b in zip(inputs, batched))
        return getattr(bind, name)(x, with_batch_places(indices, 1), updates)

    return rule


def _scatter_nodes(mode: str) -> Any:
    def nodes(emitter: Any, inputs: Any, outputs: Any, types: Any) -> None:
        operands = [inputs[0], emitter.cast(inputs[1], int64), inputs[2]]
        emitter.node("Identity", [scatter_node(emitter, operands, types[0][0].dtype, mode)], outputs)

    return nodes


def _scatter_samples(domain: Sequence[DType], repeated: bool = True) -> Any:
    """Returns a function that makes samples, of duplicate indices too if ``repeated``."""
    twice = 2 if repeated else 1
    cases = (
        ((4, 2), [[0], [twice], [2]], (3, 2), "int32"),
        ((3, 3), [[0, 1], [2, 2]], (2,), "int64"),
        ((4,), np.zeros((0, 1)), (0,), "int32"),
    )
    return lambda: [
        Sample((draw(i, s), np.array(at, t), draw(i + 9, u)), {}, tuple(domain))
        for i, (s, at, u, t) in enumerate(cases)
    ]


@primitive(
    name="tensor_scatter_update",
    type=_scatter_type,
    numpy=_scatter_numpy(None),
    lower=kernel("indexing.scatter_update"),
    batch=_scatter_batch("tensor_scatter_update"),
    vjp=lambda ct, y, x, indices, updates: (
        bind.tensor_scatter_update(ct, indices, zeros_like(updates)),
        None,
        bind.gather_nd(ct, indices),
    ),
    onnx=_scatter_nodes("none"),
    guard=_scatter_guard,
    samples=_scatter_samples(COMPILED, repeated=False),
    public=("tensor_scatter_nd_update",),
)
def tensor_scatter_nd_update(tensor: Any, indices: Any, updates: Any, name: str | None = None) -> Any:
    """Returns a copy of ``tensor`` with the slices that the index vectors name replaced; the last of equal ones wins.

    Args:
      tensor: tensor of shape t.
      indices: int16, int32 or int64 tensor of shape (..., k).
      updates: tensor of the same dtype and shape ``indices.shape[:-1] + t[k:]``.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [8, 9]).numpy()
    array([8, 2, 9], dtype=int32)

    Raises:
      InvalidArgumentError: for an index out of range, or (ValueError while tracing) shapes that don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_update
    """
    return _scatter_front(tensor, indices, updates)


def _scatter_front(tensor: Any, indices: Any, updates: Any, policy: str | None = "", op: str = "") -> Any:
    """Returns the operands of a scatter.

    Updates that the policy ignores go to the first slice with a value that leaves it unchanged: zero where updates are
    added, else the slice itself.
    """
    x, new = operands(tensor, updates)
    places, is_valid = by_policy(policy, convert_to_tensor(indices), x._type.shape, op)
    if is_valid is not None:
        adds = op in ("TensorScatterAdd", "TensorScatterSub", "ScatterNd")
        new = where_counted(is_valid, new, zeros_like(new) if adds else bind.gather_nd(x, places))
    return (x, places, new), {}


def _scatter_op(
    kind: str, ufunc: np.ufunc, domain: Sequence[DType], vjp: Callable[..., Any]
) -> Callable[[Callable[..., Any]], Primitive[Any]]:
    """Declares ``tensor_scatter_nd_{kind}``, which combines old and new elements by ``ufunc``."""
    name = f"tensor_scatter_{kind}"
    return primitive(
        name=name,
        type=_scatter_type,
        numpy=_scatter_numpy(ufunc),
        lower=kernel(f"indexing.scatter_{kind}"),
        batch=_scatter_batch(name),
        vjp=vjp,
        onnx=_scatter_nodes(kind),
        guard=_scatter_guard,
        samples=_scatter_samples(domain),
        public=(f"tensor_scatter_nd_{kind}",),
    )


@_scatter_op("add", np.add, NUMERIC, lambda ct, y, x, indices, updates: (ct, None, bind.gather_nd(ct, indices)))
def tensor_scatter_nd_add(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Any:
    """Returns a copy of ``tensor`` with ``updates`` added to the slices that the index vectors name.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_add([1, 2, 3], [[0], [0]], [8, 9]).numpy()
    array([18,  2,  3], dtype=int32)

    Raises:
      InvalidArgumentError: for an index out of range, or (ValueError while tracing) shapes that don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_add
    """
    return _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterAdd")


@export("tensor_scatter_nd_sub")
def tensor_scatter_nd_sub(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Returns a copy of ``tensor`` with ``updates`` subtracted from the slices that the index vectors name.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_sub([9, 2, 3], [[0]], [8]).numpy()
    array([1, 2, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_sub
    """
    (x, places, new), _ = _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterSub")
    return bind.tensor_scatter_add(x, places, bind.subtract(zeros_like(new), new))


def _scatter_extreme_vjp(ct: Tensor, y: Tensor, x: Tensor, indices: Tensor, updates: Tensor) -> tuple[Any, ...]:
    """Divides the cotangent among all old and new values that equal the extreme, as in TensorFlow."""
    old = bind.cast(bind.equal(x, y), dtype=x.dtype)
    new = bind.cast(bind.equal(updates, bind.gather_nd(y, indices)), dtype=x.dtype)
    shared = bind.divide(ct, bind.tensor_scatter_add(old, indices, new))
    return bind.multiply(shared, old), None, bind.multiply(bind.gather_nd(shared, indices), new)


@_scatter_op("max", np.maximum, REAL, _scatter_extreme_vjp)
def tensor_scatter_nd_max(
    tensor: Any, indices: Any, updates: Any, bad_indices_policy: str = "", name: str | None = None
) -> Any:
    """Returns a copy of ``tensor`` with the larger of old and new at the slices that the index vectors name.

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
    """Returns a copy of ``tensor`` with the smaller of old and new at the slices that the index vectors name.

    >>> import tvtf as tf
    >>> tf.tensor_scatter_nd_min([1, 2, 3], [[0], [1]], [8, 0]).numpy()
    array([1, 0, 3], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/tensor_scatter_nd_min
    """
    return _scatter_front(tensor, indices, updates, bad_indices_policy, "TensorScatterMin")


@export("scatter_nd")
def scatter_nd(indices: Any, updates: Any, shape: Any, bad_indices_policy: str = "", name: str | None = None) -> Tensor:
    """Zeros of ``shape`` with ``updates`` added where the index vectors say.

    ``"IGNORE"`` leaves out those out of range.

    >>> import tvtf as tf
    >>> tf.scatter_nd([[1], [1]], [2, 3], [3]).numpy()
    array([0, 5, 0], dtype=int32)

    Raises:
      InvalidArgumentError: for an index out of range, or (ValueError while tracing) shapes that don't fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/scatter_nd
    """
    new = convert_to_tensor(updates)
    start = bind.broadcast_to(EagerTensor(np.zeros((), new.dtype.np)), shape=static_dims(shape))
    return bind.tensor_scatter_add(*_scatter_front(start, indices, new, bad_indices_policy, "ScatterNd")[0])
