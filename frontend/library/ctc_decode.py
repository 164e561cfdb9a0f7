"""Decodes labels from the scores of frames (connectionist temporal classification), and removes repeated labels."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError, ArgumentValueError, incompatible_shapes
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType, agree_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, float64, int32, int64
from tvtf.errors import FailedPreconditionError
from tvtf.ops.cast import defaulted
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.operands import attributes, operand, positive
from tvtf.ops.rules import attribute_int, bind, optional_flag, require_dtype

Labels = list[int]
_NO_GRADIENT = {"vjp": "labels have no gradient"}


def _sparse_components(rows: list[Labels]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Converts rows of labels to a sparse tensor, and returns its indices, values and dense shape."""
    positions = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = [label for row in rows for label in row]
    widest = max(map(len, rows), default=0)
    indices = np.array(positions, np.int64).reshape(-1, 2)
    return indices, np.array(values, np.int64), np.array([len(rows), widest], np.int64)


def _checked_lengths(inputs: np.ndarray, lengths: np.ndarray, op: str) -> np.ndarray:
    """Checks the inputs of a CTC decoder, and raises TensorFlow's errors if they are empty or don't fit.

    Returns the number of frames to decode of each row, which is 0 for a negative length as in TensorFlow.

    Args:
      inputs: the scores, of shape (frames, batch, classes).
      lengths: the number of frames of each row, of shape (batch,).
      op: the op's name for the errors.
    """
    if not inputs.size:
        raise ArgumentError("inputs must not be empty")
    if len(lengths) != inputs.shape[1]:
        message = (
            f"len(sequence_length) != batch_size. len(sequence_length): {len(lengths)} batch_size: {inputs.shape[1]}"
        )
        raise FailedPreconditionError(None, op, f"{message} [Op:{op}] name: ")
    for i, length in enumerate(lengths):
        if length > len(inputs):
            raise FailedPreconditionError(None, op, f"sequence_length({i}) <= {len(inputs)} [Op:{op}] name: ")
    return np.maximum(lengths, 0)


def _decoded_types(
    inputs: TensorType, lengths: TensorType, counts: tuple[Any, ...], **_: Any
) -> tuple[TensorType, ...]:
    """Returns the result types of a CTC decoder, after checking the types of its inputs.

    The results are the three components of each sparse tensor of labels, and the scores. ``counts`` are the symbolic
    numbers of labels in the sparse tensors.
    """
    require_dtype(inputs, (float32, float64), "inputs")
    if len(inputs.shape) != 3:
        raise ArgumentError("inputs is not a 3-Tensor")
    if len(lengths.shape) != 1:
        raise ArgumentError("sequence_length is not a vector")
    components = []
    for count in counts:
        indices, values, dense_shape = (count, 2), (count,), (2,)
        components += [TensorType(shape, int64) for shape in (indices, values, dense_shape)]
    batch_size = inputs.shape[1]
    scores = TensorType((batch_size, len(counts)), inputs.dtype)
    return (*components, scores)


# -- the best class of each frame


def blank_class(value: Any, what: str) -> int | None:
    """Returns the index of the blank class as an int, or None for the default. ``what`` is the argument's name."""
    return None if value is None else attribute_int(value, what, -(2**31))


def _greedy(inputs: np.ndarray, lengths: np.ndarray, counts: Any, blank: int, merges: bool) -> tuple[np.ndarray, ...]:
    """Decodes labels greedily: takes the best class of each frame, and removes blanks and, if ``merges``, repetitions.

    Args:
      inputs: the logits, of shape (frames, batch, classes).
      lengths: the number of frames of each row.
      counts: not used: only the result types need these symbolic dims.
      blank: the class of "blank".
      merges: whether repeated classes count once.

    Returns:
      the components of a sparse tensor of labels, and for each row the negative sum of the best logits.
    """
    rows = []
    batch_size = inputs.shape[1]
    scores = np.zeros((batch_size, 1), inputs.dtype)
    for i, length in enumerate(_checked_lengths(inputs, lengths, "CTCGreedyDecoder")):
        logits = inputs[:length, i]  # of shape (frames, classes)
        best_classes = logits.argmax(-1).tolist()
        best_logits = logits.max(-1, initial=-np.inf)
        scores[i] = -best_logits.sum() if length else 0
        labels = [label for label, _ in groupby(best_classes)] if merges else best_classes
        rows.append([label for label in labels if label != blank])
    return (*_sparse_components(rows), scores)


@host_primitive(tf_name="CTCGreedyDecoder", type=_decoded_types, numpy=_greedy, why_not=_NO_GRADIENT)
def ctc_greedy(inputs: Tensor, lengths: Tensor, counts: tuple[Any, ...], blank: int, merges: bool) -> Any:
    """Returns the components of a sparse tensor of labels, and the scores of the paths."""
    return (inputs, lengths), {"counts": counts, "blank": blank, "merges": merges}


@export("nn.ctc_greedy_decoder")
@attributes(blank_index=blank_class)
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """Returns the best class of each frame, without blanks and repetitions.

    Args:
      inputs: float32 or float64 tensor of shape (frames, batch, classes): scores.
      sequence_length: int32 vector: the number of frames of each.
      merge_repeated: whether repeated classes count once.
      blank_index: the class of "blank", counted from the end if negative; the last one by default.

    Returns:
      A list of one int64 SparseTensor of shape (batch, longest); and, of shape (batch, 1), the negative sums of the best scores.

    Raises:
      FailedPreconditionError: a sequence_length is larger than the number of frames.
      InvalidArgumentError: the shapes don't fit.

    >>> import tvtf as tf
    >>> scores = tf.one_hot([[1], [1], [2], [0]], 3)
    >>> (labels,), _ = tf.nn.ctc_greedy_decoder(scores, [4])
    >>> labels.values.numpy()
    array([1, 0])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_greedy_decoder
    """
    scores = defaulted(inputs, (float32, float64), float32)
    lengths = operand(sequence_length, int32, 1)
    if scores.ndim != 3:
        raise ArgumentError("inputs is not a 3-Tensor").for_op("CTCGreedyDecoder")
    merges = optional_flag(merge_repeated, "merge_repeated")
    blank = -1 if blank_index is None else blank_index
    classes = scores.shape[2]
    if not -classes <= blank < classes:
        message = f"blank_index expected to be between {-classes} and {classes - 1} but was {blank}"
        raise ArgumentValueError(message).for_op("CTCGreedyDecoder")
    *components, sums = bind.ctc_greedy(scores, lengths, counts=(unknown_dim(),), blank=blank % classes, merges=merges)
    return [SparseTensor(*components)], sums


# -- the best labels by the sum of their paths


def _beam(inputs: np.ndarray, lengths: np.ndarray, counts: Any, width: int) -> tuple[np.ndarray, ...]:
    """Decodes the best labels of each row of logits by a CTC beam search that keeps ``width`` prefixes.

    Returns the components of sparse tensors, one for each of ``counts``: of the best labels, the second best, and
    so on. The last result has the log-probabilities of the labels, of shape (batch, paths).
    """
    frame_counts = _checked_lengths(inputs, lengths, "CTCBeamSearchDecoder")
    path_count = len(counts)
    scores = np.zeros((inputs.shape[1], path_count), inputs.dtype)
    labels_by_path: list[list[list[int]]] = [[] for _ in range(path_count)]  # of each path, the labels of all rows
    for row, frame_count in enumerate(frame_counts):
        paths = _prefix_beam_search(inputs[:frame_count, row], width)  # the most probable first
        if len(paths) < path_count:
            raise ArgumentError("requested more paths than the beam width.")
        for path, (labels, score) in enumerate(paths[:path_count]):
            labels_by_path[path].append(list(labels))
            scores[row, path] = score
    components: list[np.ndarray] = []
    for labels_by_row in labels_by_path:
        components += _sparse_components(labels_by_row)
    return (*components, scores)


def _prefix_beam_search(frames: np.ndarray, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Decodes one batch element by CTC prefix beam search, and returns the ``width`` most probable label sequences.

    Each comes with its log-probability. Alignments that collapse to the same labels are summed, so a beam keeps two
    log-probabilities for each prefix: of alignments that end in a blank, and of those that end in the last label. Only
    the former may repeat that label. Sources: Graves et al. (2006), Hannun et al. (2014).
    """
    beam = {(): (0.0, -np.inf)}  # the empty prefix counts as ending in a blank
    for frame in frames.astype(np.float64):
        scores = frame - np.logaddexp.reduce(frame, keepdims=True)
        extended: dict[Any, list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        for prefix, (blank_end, label_end) in beam.items():
            _extend_prefix(extended, prefix, blank_end, label_end, scores)
        # The most probable prefixes first, whatever they end in.
        ranked = sorted(extended, key=lambda prefix: -np.logaddexp(extended[prefix][0], extended[prefix][1]))
        beam = {prefix: (extended[prefix][0], extended[prefix][1]) for prefix in ranked[:width]}
    return [(prefix, float(np.logaddexp(*log_probs))) for prefix, log_probs in beam.items()]


def _extend_prefix(
    extended: dict[Any, list[float]], prefix: tuple[int, ...], blank_end: float, label_end: float, scores: np.ndarray
) -> None:
    """Extends a prefix of labels by one more frame of a CTC beam search, and adds the results to ``extended``.

    Args:
      extended: maps prefixes to two log-probabilities: of paths that end in a blank, and in the last label.
      prefix: the labels so far.
      blank_end, label_end: the two log-probabilities of the prefix.
      scores: the log-probabilities of the classes in the frame, of "blank" last.
    """
    any_end = np.logaddexp(blank_end, label_end)
    last_label = prefix[-1] if prefix else None
    extended[prefix][0] = np.logaddexp(extended[prefix][0], any_end + scores[-1])
    for class_index, score in enumerate(scores[:-1]):
        before = any_end
        if class_index == last_label:
            # A repeated label extends the prefix only after a blank. Otherwise the two count as one label.
            extended[prefix][1] = np.logaddexp(extended[prefix][1], label_end + score)
            before = blank_end
        longer = extended[prefix + (class_index,)]  # noqa: RUF005 - unpacking in an index needs Python 3.11
        longer[1] = np.logaddexp(longer[1], before + score)


@host_primitive(tf_name="CTCBeamSearchDecoder", type=_decoded_types, numpy=_beam, why_not=_NO_GRADIENT)
def ctc_beam(inputs: Tensor, lengths: Tensor, counts: tuple[Any, ...], width: int) -> Any:
    """Returns the components of several sparse tensors of labels, and their scores."""
    return (inputs, lengths), {"counts": counts, "width": width}


@export("nn.ctc_beam_search_decoder")
@attributes(beam_width=positive, top_paths=positive)
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """Returns the labels of highest probability over all alignments, by a beam search over prefixes.

    Args:
      inputs: float32 or float64 tensor of shape (frames, batch, classes): logits, those of "blank" last.
      sequence_length: int32 vector: the number of frames of each.
      beam_width: the number of prefixes that are kept.
      top_paths: the number of labellings to return.

    Returns:
      A list of ``top_paths`` int64 SparseTensors of shape (batch, longest), the best first; and, of shape (batch, top_paths), the
      logarithms of their probabilities.

    Raises:
      FailedPreconditionError: a sequence_length is larger than the number of frames.
      InvalidArgumentError: ``top_paths`` is larger than ``beam_width``, or the shapes don't fit.

    >>> import tvtf as tf
    >>> logits = tf.constant([[[0., 4., 0.]], [[0., 4., 0.]], [[4., 0., 0.]]])
    >>> (labels,), _ = tf.nn.ctc_beam_search_decoder(logits, [3], beam_width=4)
    >>> labels.values.numpy()
    array([1, 0])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_beam_search_decoder
    """
    if top_paths > beam_width:
        raise ArgumentError("requested more paths than the beam width.").for_op("CTCBeamSearchDecoder")
    lengths = operand(sequence_length, int32, 1)
    counts = tuple(unknown_dim() for _ in range(top_paths))
    # The primitive returns three tensors for each path (indices, values and dense shape), then the scores.
    *components, scores = bind.ctc_beam(
        defaulted(inputs, (float32, float64), float32), lengths, counts=counts, width=beam_width
    )
    return [SparseTensor(*components[3 * i : 3 * i + 3]) for i in range(top_paths)], scores


# -- labels


def _unique(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds the distinct labels of each row, in order of their first occurrence.

    Returns the distinct labels, padded with zeros, and for each label its index among the distinct labels of its row.
    """
    unique = np.zeros(labels.shape, np.int64)
    indices = np.zeros(labels.shape, np.int32)
    for i, row in enumerate(labels.tolist()):
        distinct_labels = list(dict.fromkeys(row))
        index_of = {label: index for index, label in enumerate(distinct_labels)}
        unique[i, : len(distinct_labels)] = distinct_labels
        indices[i] = [index_of[label] for label in row]
    return unique, indices


@host_primitive(
    tf_name="Unique",
    type=lambda labels: (TensorType(labels.shape, int64), TensorType(labels.shape, int32)),
    numpy=_unique,
    why_not=_NO_GRADIENT,
)
def unique_in_rows(labels: Tensor) -> Any:
    """Returns the distinct labels of each row, and for each label its index among them."""
    return (labels,), {}


@export("nn.ctc_unique_labels")
def ctc_unique_labels(labels: Any, name: str | None = None) -> list[Tensor]:
    """Finds the distinct labels of each row, and for each label its index among the distinct labels of the row.

    Args:
      labels: integer tensor of shape (batch, longest).

    Returns:
      An int64 tensor of the distinct labels, padded with zeros, and an int32 tensor of the indices, both of that shape.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.nn.ctc_unique_labels([[3, 4, 4, 3]])]
    [[[3, 4, 0, 0]], [[0, 1, 1, 0]]]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_unique_labels
    """
    return list(bind.unique_in_rows(convert_to_tensor(labels)))


def _collapsed(labels: np.ndarray, lengths: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray]:
    """Merges repeated labels in each row of ``labels``, whose first ``lengths`` labels count.

    Returns the merged rows, padded with zeros to the longest, and their lengths. ``size`` is not used: only the result
    type needs this symbolic dim.
    """
    merged_rows = []
    for row, length in zip(labels.tolist(), np.maximum(lengths, 0)):
        merged_rows.append([label for label, _ in groupby(row[:length])])
    counts = np.array([len(row) for row in merged_rows])
    padded = np.zeros((len(merged_rows), counts.max(initial=0)), labels.dtype)
    for padded_row, row in zip(padded, merged_rows):
        padded_row[: len(row)] = row
    return padded, counts.astype(lengths.dtype)


@host_primitive(
    tf_name="ScatterNd",
    type=lambda labels, lengths, size: (TensorType((labels.shape[0], size), labels.dtype), lengths),
    numpy=_collapsed,
    why_not=_NO_GRADIENT,
)
def without_repetitions(labels: Tensor, lengths: Tensor, size: Any) -> Any:
    """Returns rows without repeated labels, and their lengths."""
    return (labels, lengths), {"size": size}


@export("nn.collapse_repeated")
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Merges equal labels that follow each other in a row into one.

    Args:
      labels: integer tensor of shape (batch, longest).
      seq_length: integer vector: the number of labels of each row.

    Returns:
      A tensor of shape (batch, longest result), padded with zeros, and the rows' lengths.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [1, 1, 1, 2, 3]], [5, 4])]
    [[[1, 2, 1], [1, 2, 0]], [3, 2]]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/collapse_repeated
    """
    classes, counts = convert_to_tensor(labels), convert_to_tensor(seq_length)
    is_one = counts.ndim == 1 and counts.shape[0] == 1  # for all rows
    if counts.ndim != 1 or not (is_one or agree_dim(classes._type.shape[0], counts._type.shape[0])):
        message = f"seq_length of shape {counts.shape} does not fit labels of shape {classes.shape}"
        raise incompatible_shapes(ValueError(message))
    if is_one:
        counts = bind.broadcast_to(counts, shape=classes._type.shape[:1])
    rows, lengths = bind.without_repetitions(classes, counts, size=unknown_dim())
    return rows, lengths
