"""Connectionist temporal classification: its loss, by two passes over the frames in logarithms.

Source: Graves et al., "Connectionist Temporal Classification", ICML 2006, sections 4.1 and 4.2
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tvtf.composites.sparse.dense import to_dense
from tvtf.composites.sparse.tensor import SparseTensor
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import export, public_names
from tvtf.core.shape import Dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import bfloat16, float16, float32, int32, int64
from tvtf.frontend.control_flow.map_scan_fold import scan
from tvtf.frontend.gradient.custom_gradient import custom_gradient
from tvtf.ops.aggregate import reduce_logsumexp
from tvtf.ops.array import transpose
from tvtf.ops.cast import cast
from tvtf.ops.compare import equal, not_equal, where
from tvtf.ops.create import arange, one_hot
from tvtf.ops.dims import scalar_of
from tvtf.ops.grids import sequence_mask
from tvtf.ops.indexing import gather
from tvtf.ops.lapack import product
from tvtf.ops.rules import bind, zeros_like
from tvtf.ops.softmax import log_softmax
from tvtf.ops.value_checks import required

LOG_ZERO = -1e30
"""The logarithm of probability zero: finite, so that differences of two are not NaN."""
LOG_NEARLY_ZERO = float(np.float32(np.log(1e-307)))
"""TensorFlow's logarithm for states in which a path of dense labels may not begin or end."""


@export("nn.ctc_loss")
def ctc_loss(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Returns the negative log-probability that the frames spell the labels, summed over all alignments.

    Args:
      labels: integer tensor of shape (batch, longest label), or a SparseTensor of that shape.
      logits: floating tensor of shape (frames, batch, classes); the classes include one for "blank".
      label_length: integer tensor of shape (batch,); not used with sparse labels.
      logit_length: integer tensor of shape (batch,).
      logits_time_major: whether the frames are the first axis, else the second.
      unique: accepted; the result of `tf.nn.ctc_unique_labels` is not needed here.
      blank_index: the class of "blank", counted from the end if negative; default 0; required with sparse labels.

    Returns:
      A tensor of shape (batch,).

    Raises:
      ValueError: the labels are sparse, and ``blank_index`` is missing.
      InvalidArgumentError: with sparse labels, a logit_length is larger than the number of frames.

    >>> import tvtf as tf
    >>> logits = tf.zeros([3, 1, 2])
    >>> tf.nn.ctc_loss([[1]], logits, label_length=[1], logit_length=[3]).numpy().round(4)
    array([0.2877], dtype=float32)

    Source: https://www.tensorflow.org/api_docs/python/tf/nn/ctc_loss
    """
    is_sparse = isinstance(labels, SparseTensor)
    if is_sparse and blank_index is None:
        raise ValueError("Argument `blank_index` must be provided when `labels` is a `SparseTensor`.")
    frames = convert_to_tensor(logits)
    dtype = frames.dtype
    frames = cast(frames, float32) if dtype in (float16, bfloat16) else frames
    if not logits_time_major:
        frames = transpose(frames, [1, 0, 2])
    lengths = cast(convert_to_tensor(logit_length), int32)
    if is_sparse:
        count = frames._type.shape[0]
        message = "sequence_length is larger than the number of frames"
        check = functools.partial(_check_frames, count=count)
        lengths = required(lengths, check, lambda x: bind.less_equal(cast(x, int64), scalar_of(count)), message)
        labels, label_length = _dense(labels), _label_counts(labels)
    label_length = cast(convert_to_tensor(label_length), int32)
    for name, each in (("label_length", label_length), ("logit_length", lengths)):
        if each.ndim != 1:
            raise ArgumentError(f"{name} must be a vector, but has shape {each.shape}", ValueError).for_op("CTCLoss")
    blank = _class_from(blank_index or 0, frames._type.shape[2])
    label_ids = cast(convert_to_tensor(labels), int32)
    if blank_index:
        # TensorFlow moves the blank to the first position: a label that names it means the class before it.
        label_ids = where(equal(label_ids, blank), blank - 1, label_ids)
    compute = custom_gradient(
        functools.partial(_loss_and_gradient, blank=blank, limit=LOG_ZERO if is_sparse else LOG_NEARLY_ZERO)
    )
    loss = compute(frames, label_ids, label_length, lengths)
    return loss if loss.dtype is dtype else cast(loss, dtype)  # type: ignore[no-any-return]


def _check_frames(lengths: np.ndarray, count: int) -> None:
    """Raises TensorFlow's error if a row of the batch is longer than the number of frames."""
    for i, length in enumerate(lengths):
        if length > count:
            raise ArgumentError(f"sequence_length({i}) <= {count}").for_op("CTCLoss")


def _class_from(index: int, classes: Dim) -> Any:
    """Returns a class index of at least 0. A negative ``index`` counts from the end, as -1 for the last of the classes."""
    if isinstance(classes, int):
        return index % classes
    return index if index >= 0 else _number(classes + index)


def _number(size: Dim) -> Any:
    """Returns a size as an int, or as an int32 scalar if it is known only at run time."""
    return size if isinstance(size, int) else cast(scalar_of(size), int32)


def _dense(labels: SparseTensor) -> Tensor:
    return to_dense(labels)


def _label_counts(labels: SparseTensor) -> Tensor:
    """Returns the number of labels of each row."""
    ones = SparseTensor(
        labels.indices, bind.broadcast_to(convert_to_tensor(1), shape=labels.values._type.shape), labels.dense_shape
    )
    dense = to_dense(ones)
    return bind.reduce_sum(dense, axis=(1,), keepdims=False)  # type: ignore[no-any-return]


class _AlignmentStates:
    """The states of CTC alignments, which are blanks and labels in turn, and the transitions between the states."""

    def __init__(self, labels: Tensor, counts: Tensor, blank: Any, classes: Dim, limit: float) -> None:
        """Lists the states of each row of labels: blank, label, blank, ..., label, blank.

        ``skips``, ``first`` and ``last`` are added to the log-probabilities of paths: of paths that skip the blank
        before a state, that begin in a state, or that end in a state. They are 0 for allowed paths, else very negative.
        """
        batch, size = labels._type.shape
        blanks = bind.broadcast_to(convert_to_tensor(blank, int32), shape=(batch, size))
        stacked = public_names()["stack"]([blanks, labels], axis=2)
        blank_label_pairs = bind.reshape(stacked, shape=(batch, 2 * size))
        last_blank = bind.broadcast_to(convert_to_tensor(blank, int32), shape=(batch, 1))
        self.classes = _number(classes)
        self.limit = limit
        self.states = bind.concat(blank_label_pairs, last_blank, axis=1)
        state_indices = arange(_number(2 * size + 1))
        label_before = self.shifted(cast(self.states, float32), 2, -1.0)  # -1: the first label has none before it
        is_label = bind.broadcast_to(equal(state_indices % 2, 1), shape=self.states._type.shape)
        is_new = bind.logical_and(is_label, not_equal(cast(self.states, float32), label_before))
        self.gradient_class = where(bind.logical_and(is_label, equal(self.states, blank)), -1, self.states)
        """The class that a state contributes to in the gradient; -1, as in TensorFlow, for a blank among the labels."""
        self.skips = where(is_new, 0.0, LOG_ZERO)
        ends = 2 * bind.reshape(counts, shape=(batch, 1))
        is_end = bind.logical_or(equal(state_indices, ends), equal(state_indices, ends - 1))
        self.last = where(is_end, 0.0, limit)
        self.first = where(bind.broadcast_to(state_indices < 2, shape=self.states._type.shape), 0.0, LOG_ZERO)

    @staticmethod
    def shifted(x: Tensor, by: int, fill: float) -> Tensor:
        """Shifts the values of the states by ``by`` states, to earlier states if ``by`` is negative.

        States without a new value are set to ``fill``. For example, ``[1, 2, 3]`` shifted by 1 with fill 0 is
        ``[0, 1, 2]``.
        """
        batch, size = x._type.shape
        filled = bind.broadcast_to(convert_to_tensor(fill, x.dtype), shape=(batch, abs(by)))
        if by > 0:
            return bind.concat(filled, x[:, : size - by], axis=1)  # type: ignore[index,no-any-return]
        return bind.concat(x[:, -by:], filled, axis=1)  # type: ignore[index,no-any-return]

    def forward(self, value: Tensor) -> Tensor:
        """Computes the log-probabilities of the states in the next frame, before the scores of that frame are added.

        A path stays in its state, moves to the next state, or skips a blank between two different labels.
        """
        return _log_sum_exp(
            value, self.shifted(value, 1, LOG_ZERO), self.shifted(value, 2, LOG_ZERO) + cast(self.skips, value.dtype)
        )

    def backward(self, value: Tensor) -> Tensor:
        """Computes the log-probabilities of the remaining frames for paths in each state, one frame earlier.

        This is the transition of ``forward`` in the other direction.
        """
        skipped = self.shifted(value + cast(self.skips, value.dtype), -2, LOG_ZERO)
        return _log_sum_exp(value, self.shifted(value, -1, LOG_ZERO), skipped)

    def frame_scores(self, scores: Tensor) -> Tensor:
        """Returns the scores of the states in each frame, from the ``scores`` of the classes.

        A state whose label is no class scores 0.
        """
        is_class = bind.logical_and(self.states >= 0, self.states < self.classes)
        gathered = gather(transpose(scores, [1, 0, 2]), where(is_class, self.states, 0), axis=2, batch_dims=1)
        rows = transpose(gathered, [1, 0, 2])
        return where(is_class, rows, zeros_like(rows))  # type: ignore[no-any-return]


def _log_sum_exp(*parts: Tensor) -> Tensor:
    """Computes the logarithm of the sum of the parts' exponentials, elementwise."""
    largest = functools.reduce(bind.maximum, parts)  # subtracted, to avoid an overflow of the exponentials
    return largest + bind.log(functools.reduce(bind.add, [bind.exp(part - largest) for part in parts]))  # type: ignore[no-any-return]


def _loss_and_gradient(
    logits: Tensor, labels: Tensor, counts: Tensor, lengths: Tensor, blank: Any, limit: float
) -> tuple[Tensor, Any]:
    """Computes the CTC loss of dense labels by the forward-backward algorithm, and returns the loss and its gradient.

    Args:
      logits: the scores, of shape (frames, batch, classes).
      labels: the labels, of shape (batch, longest).
      counts: the number of labels of each row.
      lengths: the number of frames of each row.
      blank: the class of "blank".
      limit: the log-probability of states in which no path may begin or end.
    """
    count, batch, classes = logits._type.shape
    dtype = logits.dtype
    paths = _AlignmentStates(labels, counts, blank, classes, limit)
    scores = log_softmax(logits)
    state_scores = paths.frame_scores(scores)
    ends = cast(paths.last, dtype)
    start = bind.broadcast_to(convert_to_tensor(limit, dtype), shape=ends._type.shape)
    first = bind.maximum(paths.forward(start), cast(paths.first, dtype))

    def backward_step(later: tuple[Tensor, Tensor], frame: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """Computes one step of the backward pass, from the ``later`` frame to this one.

        Returns the log-probabilities of the frames after this one for paths in each state. In the last frame of a row
        the path must end. Also returns them with this frame's scores, for paths in each state of the frame before.
        """
        score, index = frame
        backward_scores = where(bind.reshape(index >= lengths - 1, shape=(batch, 1)), ends, later[1])
        return backward_scores, paths.backward(backward_scores + score)

    backward_scores, _ = scan(
        backward_step, (state_scores, arange(_number(count))), initializer=(ends, ends), reverse=True
    )
    total_score = reduce_logsumexp(first + state_scores[0] + backward_scores[0], axis=-1)  # type: ignore[index]
    empty = bind.select(equal(counts, 0), convert_to_tensor(0, dtype), convert_to_tensor(limit, dtype))
    likelihood = where(equal(lengths, 0), empty, total_score)
    loss = where(likelihood < LOG_ZERO / 2, convert_to_tensor(np.inf, likelihood.dtype), -likelihood)

    def gradient(cotangent: Tensor) -> tuple[Any, ...]:
        """Computes the gradient by the logits: the probability of each class minus the posterior of the alignments."""
        first_frame = first + state_scores[0]  # type: ignore[index]
        later_frames = scan(
            lambda value, frame: paths.forward(value) + frame,
            state_scores[1:],  # type: ignore[index]
            initializer=first_frame,
        )
        forward_scores = bind.concat(bind.reshape(first_frame, shape=(1, *first._type.shape)), later_frames, axis=0)
        path_scores = forward_scores + backward_scores  # the log-probabilities of paths through each state
        log_likelihood = reduce_logsumexp(path_scores, axis=2, keepdims=True)
        is_impossible = log_likelihood < LOG_ZERO / 2  # no alignment: the sequence is shorter than its labels
        posteriors = where(is_impossible, zeros_like(path_scores), bind.exp(path_scores - log_likelihood))
        class_of_state = one_hot(paths.gradient_class, _number(classes), dtype=dtype)
        class_posteriors = product(transpose(posteriors, [1, 0, 2]), class_of_state)
        is_in_sequence = cast(transpose(sequence_mask(lengths, _number(count))), dtype)
        weights = bind.reshape(is_in_sequence * cotangent, shape=(count, batch, 1))
        return (bind.exp(scores) - transpose(class_posteriors, [1, 0, 2])) * weights, None, None, None

    return cast(loss, dtype), gradient
