"""Writing by index: segment reductions, scatter_nd and tensor_scatter_nd_*."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.dtypes import COMPILED, NUMERIC
from tvtf.ops.arrange import brackets
from tvtf.ops.indexing import in_range, require_index
from tvtf.ops.rules import bind, draw, kernel
from tvtf.primitive import Sample, primitive
from tvtf.refusal import Refused
from tvtf.shape import Dim, TensorType, agree_dim
from tvtf.tensor import EagerTensor, Tensor, convert_to_tensor


def _segment_type(data: TensorType, ids: TensorType, *, num_segments: Dim) -> TensorType:
    require_index(ids)
    rank = len(ids.shape)
    if len(data.shape) < rank or not all(map(agree_dim, data.shape, ids.shape)):
        raise Refused(
            f"data.shape = {brackets(data.shape)} does not start with segment_ids.shape = {brackets(ids.shape)}"
        )
    if isinstance(num_segments, int) and num_segments < 0:
        raise Refused(f"Input num_segments == {num_segments} must not be negative.")
    return TensorType((num_segments, *data.shape[rank:]), data.dtype)


def check_ids(ids: np.ndarray, num_segments: int) -> None:
    wrong = np.argwhere(ids >= num_segments)
    if len(wrong):
        place = tuple(wrong[0])
        shown = brackets([int(p) for p in place]) if ids.ndim else ""
        raise Refused(f"segment_ids{shown} = {ids[place]} is out of range [0, {num_segments})")


def segment_numpy(update: Any, empty: Any) -> Any:
    def run(data: np.ndarray, ids: np.ndarray, *, num_segments: int) -> np.ndarray:
        check_ids(ids, num_segments)
        wide = np.float32 if data.dtype.itemsize == 2 and data.dtype.kind not in "iu" else data.dtype
        rest = data.shape[ids.ndim :]
        result = np.full((num_segments, *rest), empty(data.dtype), wide)
        kept = ids.ravel() >= 0
        rows = data.reshape((ids.size, *rest))[kept].astype(wide)
        update.at(result, ids.ravel()[kept], rows)
        return result

    return run


def segment_guard(data: Tensor, ids: Tensor, *, num_segments: Dim) -> list[tuple[Tensor, str]]:
    lowest = int(np.iinfo(np.int64).min)
    return [(in_range(ids, num_segments, lowest), f"segment_ids are out of range [0, {num_segments})")]


def gathered(rows: Tensor, ids: Tensor) -> Tensor:
    """The row of each id, zeros for negative ones."""
    zero = EagerTensor(np.zeros((), ids.dtype.np))
    taken = bind.gather(rows, bind.maximum(ids, zero), axis=0, batch_dims=0)
    valid = bind.greater_equal(ids, zero)
    shape = (*ids._type.shape, *(1,) * (taken.ndim - ids.ndim))
    return bind.select(bind.reshape(valid, shape=shape), taken, EagerTensor(np.zeros((), rows.dtype.np)))


def segment_samples() -> list[Sample]:
    types = tuple(t for t in NUMERIC if t in COMPILED)
    return [
        Sample((draw(0, (4, 3)), np.array([0, 2, 0, -1], "int32")), {"num_segments": 3}, types),
        Sample((draw(1, (2, 2)), np.array([[1, 0], [1, 1]], "int64")), {"num_segments": 2}, types),
        Sample((draw(2, (0, 2)), np.zeros(0, "int32")), {"num_segments": 2}, types),
    ]


def _segment_nodes(mode: str, empty: float) -> Any:
    """ScatterND over a row more than there are segments: negative ids go there, and it is cut off."""

    def nodes(e: Any, inputs: Any, outputs: Any, types: Any, *, num_segments: Dim) -> None:
        data, ids = types[0]
        shape = types[1][0].shape
        start, wide, negative, safe, lifted, filled = (e.temp() for _ in range(6))
        e.node("Expand", [e.const(np.array(empty, data.dtype.np)), e.shape((num_segments + 1, *shape[1:]))], [start])
        e.node("Cast", [inputs[1]], [wide], to=7)
        e.node("Less", [wide, e.const(np.array(0))], [negative])
        last = e.shape((num_segments,))
        e.node("Where", [negative, last, wide], [safe])
        e.node("Unsqueeze", [safe, e.const(np.array([-1]))], [lifted])
        e.node("ScatterND", [start, lifted, inputs[0]], [filled], reduction=mode)
        e.node("Slice", [filled, e.const(np.array([0])), last, e.const(np.array([0]))], outputs)

    return nodes


@primitive(
    name="unsorted_segment_sum",
    type=_segment_type,
    numpy=segment_numpy(np.add, lambda t: 0),
    lower=kernel("indexing.segment_sum"),
    vjp=lambda ct, y, data, ids, *, num_segments: (gathered(ct, ids), None),
    onnx=_segment_nodes("add", 0),
    guard=segment_guard,
    samples=segment_samples,
    public=("math.unsorted_segment_sum",),
)
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Any:
    """The sum of the slices of ``data`` that have the same id; negative ids are left out.

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
    from tvtf.ops.rules import static_dims

    return (convert_to_tensor(data), convert_to_tensor(segment_ids)), {
        "num_segments": static_dims(num_segments, "num_segments")[0]
    }
