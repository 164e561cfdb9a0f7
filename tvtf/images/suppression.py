"""Non-maximum suppression: removes boxes that overlap boxes with higher scores.

Source: ``tensorflow/core/kernels/image/non_max_suppression_op.cc``
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, agree_dim, agree_shape, brackets, show_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.dtypes import float16, float32, int32
from tvtf.ops.cast import cast
from tvtf.ops.computed_arguments import computed
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.operands import attributes, operand, scalar_int
from tvtf.ops.rules import bind, require_dtype

LOWEST = float("-inf")


def overlap(boxes: np.ndarray, i: int, j: int) -> float:
    """Returns the intersection over union of boxes ``i`` and ``j``; a box has two opposite corners, in any order."""
    a, b = boxes[i], boxes[j]
    start_a = np.minimum(a[:2], a[2:])
    end_a = np.maximum(a[:2], a[2:])
    start_b = np.minimum(b[:2], b[2:])
    end_b = np.maximum(b[:2], b[2:])
    area_a = float(np.prod(end_a - start_a))
    area_b = float(np.prod(end_b - start_b))
    if min(area_a, area_b) <= 0:
        return 0.0
    common_start = np.maximum(start_a, start_b)
    common_end = np.minimum(end_a, end_b)
    sides = np.clip(common_end - common_start, 0, None)  # 0 where they don't overlap
    intersection = float(np.prod(sides))
    return intersection / (area_a + area_b - intersection)


def select_boxes(
    scores: np.ndarray,
    similarity_of: Callable[[int, int], float],
    max_count: int,
    max_overlap: float,
    min_score: float,
    sigma: float,
) -> tuple[list[int], list[float]]:
    """Selects boxes by greedy non-maximum suppression: in the order of scores, unless they overlap a selected box too much.

    With ``sigma`` > 0 (soft suppression), overlaps lower a box's score instead. Returns the indices of the selected
    boxes, best first, and their scores.
    """
    scale = -0.5 / sigma if sigma > 0 else 0.0
    # Each entry has the negative score, the box, and the number of selected boxes with which it was compared already.
    queue = [(-float(s), i, 0) for i, s in enumerate(scores) if s > min_score]
    heapq.heapify(queue)
    selected: list[int] = []
    selected_scores: list[float] = []
    while queue and len(selected) < max_count:
        score, box, compared_count = heapq.heappop(queue)
        new_score, is_suppressed = -score, False
        for other in reversed(selected[compared_count:]):
            similarity = similarity_of(box, other)
            new_score *= np.exp(scale * similarity * similarity) if similarity <= max_overlap or scale else 0.0
            if not scale and similarity > max_overlap:
                is_suppressed = True
                break
            if new_score <= min_score:
                break
        if is_suppressed or new_score <= min_score:
            continue
        if new_score == -score:
            selected.append(box)
            selected_scores.append(new_score)
        else:
            # A box with a lowered score competes again.
            heapq.heappush(queue, (-new_score, box, len(selected)))
    return selected, selected_scores


def _boxes_types(boxes: TensorType, scores: TensorType, *rest: TensorType, count: Any) -> tuple[TensorType, ...]:
    """Checks ranks and the number of columns, and returns the types of the selected indices and scores."""
    if len(boxes.shape) != 2:
        raise ArgumentError(f"boxes must be 2-D{brackets(boxes.shape)}")
    if not agree_dim(boxes.shape[1], 4):
        raise ArgumentError("boxes must have 4 columns")
    return _selected_types(boxes, scores, count)


def _overlaps_types(overlaps: TensorType, scores: TensorType, *rest: TensorType, count: Any) -> tuple[TensorType, ...]:
    """Checks that the matrix of overlaps is square, and returns the types of the selected indices and scores."""
    if len(overlaps.shape) != 2:
        raise ArgumentError(f"overlaps must be 2-D{brackets(overlaps.shape)}")
    if not agree_dim(*overlaps.shape):
        raise ArgumentError(f"overlaps must be square{brackets(overlaps.shape)}")
    return _selected_types(overlaps, scores, count)


def _selected_types(boxes: TensorType, scores: TensorType, count: Any) -> tuple[TensorType, ...]:
    """Checks that there is a score for each box, and returns the types of the selected indices and scores.

    Args:
      boxes, scores: the types of the boxes and of their scores.
      count: the number of selected boxes.
    """
    if len(scores.shape) != 1:
        raise ArgumentError(f"scores must be 1-D{brackets(scores.shape)}")
    box_count, score_count = boxes.shape[0], scores.shape[0]
    if not agree_dim(box_count, score_count):
        raise ArgumentError(
            f"scores has incompatible shape (Dimensions must be equal, but are {box_count} and {score_count})"
        )
    return TensorType((count,), int32), TensorType((count,), scores.dtype)


def _select_boxes_array(
    boxes: np.ndarray,
    scores: np.ndarray,
    max_count: np.ndarray,
    max_overlap: np.ndarray,
    min_score: np.ndarray,
    sigma: np.ndarray,
    count: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Checks the arguments of non-maximum suppression, and selects boxes.

    The arguments are those of `select_boxes`, as arrays. ``count``, the symbolic number of selected boxes, is needed by
    the op's type rule only.

    Returns:
      The indices and the scores of the selected boxes.
    """
    if not 0 <= max_overlap <= 1:
        raise ArgumentError("iou_threshold must be in [0, 1]")
    if max_count < 0:
        raise ArgumentError("output size must be non-negative")
    overlap_of = functools.partial(overlap, boxes)
    selected, selected_scores = select_boxes(
        scores, overlap_of, int(max_count), float(max_overlap), float(min_score), float(sigma)
    )
    return np.array(selected, np.int32), np.array(selected_scores, scores.dtype)


@host_primitive(tf_name="NonMaxSuppressionV5", type=_boxes_types, numpy=_select_boxes_array)
def kept_boxes(
    boxes: Tensor, scores: Tensor, most: Tensor, limit: Tensor, least: Tensor, sigma: Tensor, count: Any
) -> Any:
    """Returns the indices of the selected boxes, and their scores."""
    return (boxes, scores, most, limit, least, sigma), {"count": count}


def _operands(boxes: Any, scores: Any, *limits: Any) -> list[Tensor]:
    """Converts boxes, scores and thresholds to float32 tensors, after a check of the boxes' dtype."""
    corners = convert_to_tensor(boxes, dtype_hint=float32)
    require_dtype(corners._type, (float16, float32), "boxes")
    score_tensor = convert_to_tensor(scores, corners.dtype)
    return [cast(corners, float32), cast(score_tensor, float32), *map(_threshold, limits)]


def _threshold(value: Any) -> Tensor:
    threshold = convert_to_tensor(value)
    return cast(threshold, float32) if threshold.dtype is float16 else operand(threshold, float32, 3)


def _max_output_size(value: Any) -> Tensor:
    size = operand(value, int32, 2)
    if size.ndim:
        raise ArgumentError(f"max_output_size must be 0-D, got shape {show_shape(size._type.shape)}")
    return size


def _suppress(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any, sigma: Any = 0.0
) -> tuple[Tensor, Tensor]:
    """Converts the arguments of non-maximum suppression to tensors. Returns the selected boxes' indices and scores."""
    box_tensor, score_tensor, *options = _operands(boxes, scores, iou_threshold, score_threshold, sigma)
    max_count = _max_output_size(max_output_size)
    return bind.kept_boxes(box_tensor, score_tensor, max_count, *options, count=unknown_dim())  # type: ignore[no-any-return]


@export("image.non_max_suppression")
def non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = LOWEST,
    name: str | None = None,
) -> Tensor:
    """Returns the indices of boxes, best first, without those that overlap a better one too much.

    Args:
      boxes: shape (count, 4): two opposite corners.
      scores: shape (count,).
      max_output_size: the maximum number of boxes.
      iou_threshold: the intersection over union above which a box is removed.
      score_threshold: the score that a box must exceed.

    >>> import tvtf as tf
    >>> boxes = [[0., 0., 1., 1.], [0., 0., 1., 0.9], [2., 2., 3., 3.]]
    >>> tf.image.non_max_suppression(boxes, [0.8, 0.9, 0.5], 10).numpy()
    array([1, 2], dtype=int32)

    Raises:
      InvalidArgumentError: a shape is invalid, or ``iou_threshold`` is outside of [0, 1].

    Source: https://www.tensorflow.org/api_docs/python/tf/image/non_max_suppression
    """
    indices, _ = _suppress(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return indices


@export("image.non_max_suppression_with_scores")
def non_max_suppression_with_scores(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = LOWEST,
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Same as ``tf.image.non_max_suppression``, and also returns the scores.

    ``soft_nms_sigma`` > 0 lowers those of boxes that overlap.

    >>> import tvtf as tf
    >>> boxes = [[0., 0., 1., 1.], [0., 0., 1., 0.9], [2., 2., 3., 3.]]
    >>> found, scores = tf.image.non_max_suppression_with_scores(boxes, [0.8, 0.9, 0.5], 10, 0.99, soft_nms_sigma=0.5)
    >>> found.numpy(), scores.numpy().round(3)
    (array([1, 2, 0], dtype=int32), array([0.9  , 0.5  , 0.356], dtype=float32))

    Source: https://www.tensorflow.org/api_docs/python/tf/image/non_max_suppression_with_scores
    """
    return _suppress(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)


def _selected_by_overlaps(
    overlaps: np.ndarray,
    scores: np.ndarray,
    max_count: np.ndarray,
    max_overlap: np.ndarray,
    min_score: np.ndarray,
    count: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Selects boxes by a matrix of their overlaps, without soft suppression, and returns their indices and scores.

    Args:
      overlaps: matrix of the overlap of each pair of boxes.
      scores: the score of each box.
      max_count: the largest number of boxes to select.
      max_overlap: a box that overlaps a selected one by more is left out.
      min_score: boxes with a lower score are left out.
      count: not used: only the result types need this symbolic dim.
    """

    def overlap_of(i: int, j: int) -> float:
        return float(overlaps[i, j])

    no_soft_suppression = 0.0  # the parameter sigma
    selected, selected_scores = select_boxes(
        scores, overlap_of, int(max_count), float(max_overlap), float(min_score), no_soft_suppression
    )
    return np.array(selected, np.int32), np.array(selected_scores, scores.dtype)


@host_primitive(tf_name="NonMaxSuppressionWithOverlaps", type=_overlaps_types, numpy=_selected_by_overlaps)
def kept_by_overlaps(overlaps: Tensor, scores: Tensor, most: Tensor, limit: Tensor, least: Tensor, count: Any) -> Any:
    """Returns the indices that are selected by a matrix of overlaps, and their scores."""
    return (overlaps, scores, most, limit, least), {"count": count}


@export("image.non_max_suppression_overlaps")
def non_max_suppression_overlaps(
    overlaps: Any,
    scores: Any,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = LOWEST,
    name: str | None = None,
) -> Tensor:
    """Same as ``tf.image.non_max_suppression``, with a matrix of the overlaps of boxes.

    >>> import tvtf as tf
    >>> tf.image.non_max_suppression_overlaps([[1., 0.9], [0.9, 1.]], [0.3, 0.7], 10).numpy()
    array([1], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/image/non_max_suppression_overlaps
    """
    matrix, score_tensor, threshold, min_score = _operands(overlaps, scores, overlap_threshold, score_threshold)
    return bind.kept_by_overlaps(
        matrix, score_tensor, _max_output_size(max_output_size), threshold, min_score, count=unknown_dim()
    )[0]  # type: ignore[no-any-return]


# -- in batches


def _padded_types(boxes: TensorType, scores: TensorType, *rest: TensorType, size: int, padded: bool, **_: Any) -> Any:
    """Checks the shapes of boxes and scores, and returns the types of the padded indices and their numbers."""
    if not agree_dim(boxes.shape[-1], 4):
        raise ArgumentError("boxes must have 4 columns")
    if not agree_shape(boxes.shape[:-1], scores.shape):
        raise ArgumentError(
            f"scores has incompatible shape: {brackets(scores.shape)} for boxes {brackets(boxes.shape)}"
        )
    batch_shape = boxes.shape[:-2]
    width = size if padded else None
    return TensorType((*batch_shape, width), int32), TensorType(batch_shape, int32)


def _selected_padded(
    boxes: np.ndarray, scores: np.ndarray, max_overlap: np.ndarray, min_score: np.ndarray, size: int, padded: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Selects boxes by non-maximum suppression for each batch item.

    Args:
      boxes: array of shape (..., boxes, 4).
      scores: array of shape (..., boxes).
      max_overlap: a box that overlaps a selected one by more is left out.
      min_score: boxes with a lower score are left out.
      size: the largest number of boxes to select.
      padded: not used: only the result types depend on it.

    Returns:
      the indices of the selected boxes, padded with zeros to ``size``, and the number of selected boxes.
    """
    *batch_shape, box_count, _ = boxes.shape
    flat_boxes = boxes.reshape(-1, box_count, boxes.shape[-1])
    flat_scores = scores.reshape(-1, scores.shape[-1])
    padded_indices = np.zeros((len(flat_boxes), size), np.int32)
    counts = np.zeros(len(flat_boxes), np.int32)
    for item, (item_boxes, item_scores) in enumerate(zip(flat_boxes, flat_scores)):
        overlap_of = functools.partial(overlap, item_boxes)
        selected, _ = select_boxes(item_scores, overlap_of, size, float(max_overlap), float(min_score), 0.0)
        padded_indices[item, : len(selected)] = selected
        counts[item] = len(selected)
    return padded_indices.reshape(*batch_shape, size), counts.reshape(batch_shape)


@host_primitive(tf_name="NonMaxSuppressionV4", type=_padded_types, numpy=_selected_padded)
def kept_padded(boxes: Tensor, scores: Tensor, limit: Tensor, least: Tensor, size: int, padded: bool) -> Any:
    """Returns the indices of the selected boxes of each batch item, padded with zeros, and their number."""
    return (boxes, scores, limit, least), {"size": size, "padded": padded}


def _padded_specs(given: Mapping[str, Any]) -> list[TensorSpec]:
    *batch, _ = convert_to_tensor(given["scores"]).shape
    return [TensorSpec([*batch, None], int32), TensorSpec(batch, int32)]


@export("image.non_max_suppression_padded")
@computed("max_output_size", gives=_padded_specs, kind=lambda *found: found)
def non_max_suppression_padded(
    boxes: Any,
    scores: Any,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = LOWEST,
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """Same as ``tf.image.non_max_suppression`` for an image or a batch.

    Returns padded indices and the number of valid ones.

    Args:
      boxes: shape (..., count, 4).
      scores: shape (..., count).
      max_output_size, iou_threshold, score_threshold: as for ``tf.image.non_max_suppression``.
      pad_to_max_output_size: whether the result is as long as ``max_output_size``; always so for a batch.
      sorted_input, canonicalized_coordinates, tile_size: accepted; the result is the same.

    >>> import tvtf as tf
    >>> found, count = tf.image.non_max_suppression_padded([[0., 0., 1., 1.]], [0.8], 3, pad_to_max_output_size=True)
    >>> found.numpy(), count.numpy()
    (array([0, 0, 0], dtype=int32), np.int32(1))

    Source: https://www.tensorflow.org/api_docs/python/tf/image/non_max_suppression_padded
    """
    corners, score_tensor, threshold, min_score = _operands(boxes, scores, iou_threshold, score_threshold)
    size = scalar_int(max_output_size, "max_output_size")
    indices, count = bind.kept_padded(corners, score_tensor, threshold, min_score, size=size, padded=True)
    return (indices, count) if pad_to_max_output_size or corners.ndim > 2 else (indices[:count], count)


class CombinedNonMaxSuppression(NamedTuple):
    """The result of ``tf.image.combined_non_max_suppression``."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


def _combined_types(boxes: TensorType, scores: TensorType, *rest: Any, total: int, **_: Any) -> tuple[TensorType, ...]:
    """Checks ranks and batch sizes, and returns the types of boxes, scores, classes and counts."""
    if len(boxes.shape) != 4 or len(scores.shape) != 3:
        raise ArgumentError(
            f"boxes must be 4-D and scores 3-D, not {show_shape(boxes.shape)} and {show_shape(scores.shape)}"
        )
    batch, box_count, _, coordinates = boxes.shape
    score_batch, score_count, _ = scores.shape
    if not agree_dim(batch, score_batch):
        raise ArgumentError("boxes and scores must have same batch size")
    if not agree_dim(box_count, score_count):
        raise ArgumentError(
            f"scores has incompatible shape: {brackets(scores.shape)} for boxes {brackets(boxes.shape)}"
        )
    if not agree_dim(coordinates, 4):
        raise ArgumentError("box must have 4 columns")
    values_type = TensorType((batch, total), float32)  # of scores and of classes
    return TensorType((batch, total, 4), float32), values_type, values_type, TensorType((batch,), int32)


def _combined(
    boxes: np.ndarray,
    scores: np.ndarray,
    max_overlap: np.ndarray,
    min_score: np.ndarray,
    each: int,
    total: int,
    clip: bool,
) -> tuple[np.ndarray, ...]:
    """Selects at most ``each`` boxes per class, and of these the best ``total`` ones of all classes of each image.

    Args:
      boxes: shape (batch, count, classes or 1, 4); one box may serve all classes.
      scores: shape (batch, count, classes).
      max_overlap, min_score: the thresholds of `select_boxes`.
      each, total: the maximum numbers of boxes.
      clip: whether the boxes are clipped to [0, 1].

    Returns:
      The boxes, their scores and classes, padded with zeros, and the number of valid ones for each image.
    """
    count = len(boxes)
    if boxes.shape[2] not in (1, scores.shape[2]):
        raise ArgumentError(
            f"third dimension of boxes must be either 1 or num classes: {boxes.shape[2]} and {scores.shape[2]}"
        )
    corners = np.zeros((count, total, 4))
    best_scores = np.zeros((count, total))
    classes = np.zeros((count, total))
    valid_counts = np.zeros(count, np.int32)
    for image in range(count):
        candidates = []
        for class_number in range(scores.shape[2]):
            # All classes may share their boxes.
            class_boxes = boxes[image, :, min(class_number, boxes.shape[2] - 1)]
            class_scores = scores[image, :, class_number]
            selected, _ = select_boxes(
                class_scores,
                lambda i, j, b=class_boxes: overlap(b, i, j),  # type: ignore[misc]
                each,
                float(max_overlap),
                float(min_score),
                0.0,
            )
            candidates += [(float(class_scores[i]), class_number, class_boxes[i]) for i in selected]
        candidates = sorted(candidates, key=lambda candidate: -candidate[0])[:total]
        valid_counts[image] = len(candidates)
        for position, (score, class_number, box) in enumerate(candidates):
            corners[image, position], best_scores[image, position], classes[image, position] = box, score, class_number
    corners = np.clip(corners, 0, 1) if clip else corners
    return corners.astype(np.float32), best_scores.astype(np.float32), classes.astype(np.float32), valid_counts


@host_primitive(tf_name="CombinedNonMaxSuppression", type=_combined_types, numpy=_combined)
def kept_by_class(
    boxes: Tensor, scores: Tensor, limit: Tensor, least: Tensor, each: int, total: int, clip: bool
) -> Any:
    """Returns the best boxes of all classes of each image: boxes, scores, classes and the number of valid ones."""
    return (boxes, scores, limit, least), {"each": each, "total": total, "clip": clip}


def _combined_specs(given: Mapping[str, Any]) -> list[TensorSpec]:
    batch = convert_to_tensor(given["scores"]).shape[0]
    shapes = [batch, None, 4], [batch, None], [batch, None]
    return [*(TensorSpec(shape, float32) for shape in shapes), TensorSpec([batch], int32)]


@export("image.combined_non_max_suppression")
@computed("max_output_size_per_class", "max_total_size", gives=_combined_specs, kind=CombinedNonMaxSuppression)
@attributes(pad_per_class=bool, clip_boxes=bool)
def combined_non_max_suppression(
    boxes: Any,
    scores: Any,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = LOWEST,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """Returns the best boxes of all classes of each image: boxes, scores, classes, and the number of valid ones.

    Args:
      boxes: shape (batch, count, classes or 1, 4).
      scores: shape (batch, count, classes).
      max_output_size_per_class, max_total_size: the maximum numbers of boxes.
      iou_threshold, score_threshold: as for ``tf.image.non_max_suppression``.
      pad_per_class: pads to ``max_output_size_per_class`` times the classes if that is less than ``max_total_size``.
      clip_boxes: clips boxes to [0, 1].

    >>> import tvtf as tf
    >>> boxes = [[[[0., 0., 1., 1.]], [[0., 0., 0.5, 0.5]]]]
    >>> found = tf.image.combined_non_max_suppression(boxes, [[[0.9, 0.1], [0.2, 0.8]]], 1, 2)
    >>> found[1].numpy(), found[2].numpy(), found[3].numpy()
    (array([[0.9, 0.8]], dtype=float32), array([[0., 1.]], dtype=float32), array([2], dtype=int32))

    Source: https://www.tensorflow.org/api_docs/python/tf/image/combined_non_max_suppression
    """
    corners, score_tensor, threshold, min_score = _operands(boxes, scores, iou_threshold, score_threshold)
    each = scalar_int(max_output_size_per_class, "max_output_size_per_class")
    total = scalar_int(convert_to_tensor(max_total_size), "max_total_size")
    for argument, count in (("max_size_per_class", each), ("max_total_size", total)):
        if count <= 0:
            raise ArgumentError(f"{argument} must be positive")
    if pad_per_class and isinstance(score_tensor._type.shape[2], int):
        total = min(total, each * score_tensor._type.shape[2])
    found = bind.kept_by_class(
        corners, score_tensor, threshold, min_score, each=each, total=total, clip=bool(clip_boxes)
    )
    return CombinedNonMaxSuppression(*found)
