"""Labels from frames' scores, as connectionist temporal classification decodes them; and labels without their repetitions."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from typing import Any

import numpy as np

from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.primitive import export
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import float32, float64, int32, int64
from tvtf.errors import FailedPreconditionError
from tvtf.ops.cast import defaulted
from tvtf.ops.host import host_primitive, unknown_dim
from tvtf.ops.operands import attributes, operand, positive
from tvtf.ops.rules import attribute_int, bind, optional_flag, require_dtype

Labels = list[int]
_NO_GRADIENT = {"vjp": "labels have no gradient"}


def _flat(rows: list[Labels]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of labels as the parts of a sparse tensor."""
    places = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = [label for row in rows for label in row]
    widest = max(map(len, rows), default=0)
    indices = np.array(places, np.int64).reshape(-1, 2)
    return indices, np.array(values, np.int64), np.array([len(rows), widest], np.int64)


def _check(inputs: np.ndarray, lengths: np.ndarray, op: str) -> None:
    if not inputs.size:
        raise ArgumentError("inputs must not be empty")
    if len(lengths) != inputs.shape[1]:
        told = f"len(sequence_length) != batch_size. len(sequence_length): {len(lengths)} batch_size: {inputs.shape[1]}"
        raise FailedPreconditionError(None, op, f"{told} [Op:{op}] name: ")
    for i, length in enumerate(lengths):
        if length > len(inputs):
            raise FailedPreconditionError(None, op, f"sequence_length({i}) <= {len(inputs)} [Op:{op}] name: ")


def _decoded_types(
    inputs: TensorType, lengths: TensorType, counts: tuple[Any, ...], **_: Any
) -> tuple[TensorType, ...]:
    require_dtype(inputs, (float32, float64), "inputs")
    if len(inputs.shape) != 3:
        raise ArgumentError("inputs is not a 3-Tensor")
    if len(lengths.shape) != 1:
        raise ArgumentError("sequence_length is not a vector")
    paths = [
        kind
        for count in counts
        for kind in (TensorType((count, 2), int64), TensorType((count,), int64), TensorType((2,), int64))
    ]
    return (*paths, TensorType((inputs.shape[1], len(counts)), inputs.dtype))


# -- the best class of each frame


def blank_class(value: Any, what: str) -> int | None:
    return None if value is None else attribute_int(value, what, -(2**31))


def _greedy(inputs: np.ndarray, lengths: np.ndarray, counts: Any, blank: int, merges: bool) -> tuple[np.ndarray, ...]:
    _check(inputs, lengths, "CTCGreedyDecoder")
    rows, scores = [], np.zeros((inputs.shape[1], 1), inputs.dtype)
    for i, length in enumerate(lengths):
        best = inputs[:length, i].argmax(-1).tolist()
        scores[i] = -inputs[:length, i].max(-1, initial=-np.inf).sum() if length else 0
        kept = [label for label, _ in groupby(best)] if merges else best
        rows.append([label for label in kept if label != blank])
    return (*_flat(rows), scores)


@host_primitive(tf_name="CTCGreedyDecoder", type=_decoded_types, numpy=_greedy, why_not=_NO_GRADIENT)
def ctc_greedy(inputs: Tensor, lengths: Tensor, counts: tuple[Any, ...], blank: int, merges: bool) -> Any:
    """The parts of a sparse tensor of labels, and the scores of the paths."""
    return (inputs, lengths), {"counts": counts, "blank": blank, "merges": merges}


@export("nn.ctc_greedy_decoder")
@attributes(blank_index=blank_class)
def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """The best class of each frame, without blanks and repetitions.

    Args:
      inputs: float32 or float64 tensor of shape (frames, batch, classes): scores.
      sequence_length: int32 vector: how many frames each has.
      merge_repeated: whether classes that follow themselves count once.
      blank_index: the class of "blank", from the end where negative; the last where None.

    Returns:
      A list of one int64 SparseTensor of shape (batch, longest); and, of shape (batch, 1), the negative sums of the best scores.

    Raises:
      FailedPreconditionError: more frames than there are.
      InvalidArgumentError: shapes that don't fit.

    >>> import tvtf as tf
    >>> scores = tf.one_hot([[1], [1], [2], [0]], 3)
    >>> (labels,), _ = tf.nn.ctc_greedy_decoder(scores, [4])
    >>> labels.values.numpy()
    array([1, 0])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_greedy_decoder
    """
    scores, lengths = defaulted(inputs, (float32, float64), float32), operand(sequence_length, int32, 1)
    if scores.ndim != 3:
        raise ArgumentError("inputs is not a 3-Tensor").told_by("CTCGreedyDecoder")
    merges = optional_flag(merge_repeated, "merge_repeated")
    blank, classes = -1 if blank_index is None else blank_index, scores.shape[2]
    if not -classes <= blank < classes:
        told = f"blank_index expected to be between {-classes} and {classes - 1} but was {blank}"
        raise ArgumentValueError(told).told_by("CTCGreedyDecoder")
    *parts, sums = bind.ctc_greedy(scores, lengths, counts=(unknown_dim(),), blank=blank % classes, merges=merges)
    return [SparseTensor(*parts)], sums


# -- the best labels by the sum of their paths


def _beam(inputs: np.ndarray, lengths: np.ndarray, counts: Any, width: int) -> tuple[np.ndarray, ...]:
    _check(inputs, lengths, "CTCBeamSearchDecoder")
    best = [_best_labels(inputs[:length, i], width)[: len(counts)] for i, length in enumerate(lengths)]
    if any(len(found) < len(counts) for found in best):
        raise ArgumentError("requested more paths than the beam width.")
    parts = [part for k in range(len(counts)) for part in _flat([list(found[k][0]) for found in best])]
    scores = np.array([[score for _, score in found] for found in best], inputs.dtype)
    return (*parts, scores.reshape(inputs.shape[1], len(counts)))


def _best_labels(frames: np.ndarray, width: int) -> list[tuple[tuple[int, ...], float]]:
    """Labels with the logarithms of their probabilities, the best first: a beam of prefixes, by how they end."""
    beam = {(): (0.0, -np.inf)}
    for frame in frames.astype(np.float64):
        scores = frame - np.logaddexp.reduce(frame, keepdims=True)
        grown: dict[Any, list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        for prefix, (blank, label) in beam.items():
            _grow(grown, prefix, blank, label, scores)
        ranked = sorted(grown.items(), key=lambda item: -np.logaddexp(item[1][0], item[1][1]))
        beam = {prefix: (ends[0], ends[1]) for prefix, ends in ranked[:width]}
    return [(prefix, float(np.logaddexp(*ends))) for prefix, ends in beam.items()]


def _grow(
    grown: dict[Any, list[float]], prefix: tuple[int, ...], blank: float, label: float, scores: np.ndarray
) -> None:
    """What one more frame makes of a prefix that ends in blank, or in its last label, with these probabilities."""
    whole, last = np.logaddexp(blank, label), prefix[-1] if prefix else None
    grown[prefix][0] = np.logaddexp(grown[prefix][0], whole + scores[-1])
    for k, score in enumerate(scores[:-1]):
        if k == last:
            grown[prefix][1] = np.logaddexp(grown[prefix][1], label + score)
        longer = grown[prefix + (k,)]  # noqa: RUF005 - unpacking in an index needs Python 3.11
        longer[1] = np.logaddexp(longer[1], (blank if k == last else whole) + score)


@host_primitive(tf_name="CTCBeamSearchDecoder", type=_decoded_types, numpy=_beam, why_not=_NO_GRADIENT)
def ctc_beam(inputs: Tensor, lengths: Tensor, counts: tuple[Any, ...], width: int) -> Any:
    """The parts of several sparse tensors of labels, and their scores."""
    return (inputs, lengths), {"counts": counts, "width": width}


@export("nn.ctc_beam_search_decoder")
@attributes(beam_width=positive, top_paths=positive)
def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """The labels that are most probable by all their alignments, found with a beam of prefixes.

    Args:
      inputs: float32 or float64 tensor of shape (frames, batch, classes): logits, those of "blank" last.
      sequence_length: int32 vector: how many frames each has.
      beam_width: how many prefixes are kept.
      top_paths: how many labellings are given.

    Returns:
      A list of ``top_paths`` int64 SparseTensors of shape (batch, longest), the best first; and, of shape (batch, top_paths), the
      logarithms of their probabilities.

    Raises:
      FailedPreconditionError: more frames than there are.
      InvalidArgumentError: more paths than prefixes, or shapes that don't fit.

    >>> import tvtf as tf
    >>> logits = tf.constant([[[0., 4., 0.]], [[0., 4., 0.]], [[4., 0., 0.]]])
    >>> (labels,), _ = tf.nn.ctc_beam_search_decoder(logits, [3], beam_width=4)
    >>> labels.values.numpy()
    array([1, 0])

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_beam_search_decoder
    """
    if top_paths > beam_width:
        raise ArgumentError("requested more paths than the beam width.").told_by("CTCBeamSearchDecoder")
    lengths = operand(sequence_length, int32, 1)
    counts = tuple(unknown_dim() for _ in range(top_paths))
    *parts, scores = bind.ctc_beam(
        defaulted(inputs, (float32, float64), float32), lengths, counts=counts, width=beam_width
    )
    return [SparseTensor(*parts[3 * i : 3 * i + 3]) for i in range(top_paths)], scores


# -- labels


def _unique(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    found, places = np.zeros(labels.shape, np.int64), np.zeros(labels.shape, np.int32)
    for row, kept, where in zip(labels.tolist(), found, places):
        seen = {label: i for i, label in enumerate(dict.fromkeys(row))}
        kept[: len(seen)] = list(seen)
        where[:] = [seen[label] for label in row]
    return found, places


@host_primitive(
    tf_name="Unique",
    type=lambda labels: (TensorType(labels.shape, int64), TensorType(labels.shape, int32)),
    numpy=_unique,
    why_not=_NO_GRADIENT,
)
def unique_in_rows(labels: Tensor) -> Any:
    """The labels of each row, each once, and for each label its place among them."""
    return (labels,), {}


@export("nn.ctc_unique_labels")
def ctc_unique_labels(labels: Any, name: str | None = None) -> list[Tensor]:
    """The labels of each row, each once, zeros behind them; and for each label its place among them.

    Args:
      labels: integer tensor of shape (batch, longest).

    Returns:
      An int64 and an int32 tensor of that shape.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.nn.ctc_unique_labels([[3, 4, 4, 3]])]
    [[[3, 4, 0, 0]], [[0, 1, 1, 0]]]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_unique_labels
    """
    return list(bind.unique_in_rows(convert_to_tensor(labels)))


def _collapsed(labels: np.ndarray, lengths: np.ndarray, size: Any) -> tuple[np.ndarray, np.ndarray]:
    rows = [[label for label, _ in groupby(row[:count])] for row, count in zip(labels.tolist(), lengths)]
    counts = np.array([len(row) for row in rows])
    found = np.zeros((len(rows), counts.max(initial=0)), labels.dtype)
    for kept, row in zip(found, rows):
        kept[: len(row)] = row
    return found, counts.astype(lengths.dtype)


@host_primitive(
    tf_name="ScatterNd",
    type=lambda labels, lengths, size: (TensorType((labels.shape[0], size), labels.dtype), lengths),
    numpy=_collapsed,
    why_not=_NO_GRADIENT,
)
def without_repetitions(labels: Tensor, lengths: Tensor, size: Any) -> Any:
    """Rows in which no label follows itself, and their lengths."""
    return (labels, lengths), {"size": size}


@export("nn.collapse_repeated")
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Labels that follow themselves, once.

    Args:
      labels: integer tensor of shape (batch, longest).
      seq_length: integer vector: how many labels of each row count.

    Returns:
      A tensor of shape (batch, the longest that is left), zeros behind shorter rows; and their lengths.

    >>> import tvtf as tf
    >>> [x.numpy().tolist() for x in tf.nn.collapse_repeated([[1, 1, 2, 2, 1], [1, 1, 1, 2, 3]], [5, 4])]
    [[[1, 2, 1], [1, 2, 0]], [3, 2]]

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/collapse_repeated
    """
    found, lengths = bind.without_repetitions(
        convert_to_tensor(labels), convert_to_tensor(seq_length), size=unknown_dim()
    )
    return found, lengths
