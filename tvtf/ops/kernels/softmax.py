"""TE kernels of softmax and cross entropies.

Maximum, exponentials, sum and result are one stage each, so that a schedule can keep a row in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, compute, long, reduce_axis

Index = tuple[Any, ...]


class Rows:
    """Treats a tensor as rows along one axis, and builds TE stages that reduce each row or map each element."""

    def __init__(self, x: te.Tensor, axis: int) -> None:
        self.x, self.axis = x, axis
        self.dtype = accumulator_dtype(str(x.dtype))
        self.outer = [dim for i, dim in enumerate(x.shape) if i != axis]

    def upcast(self, index: Index) -> Any:
        """Returns an element in the accumulation dtype."""
        return as_dtype(self.x(*index), self.dtype)

    def row(self, index: Index) -> Index:
        """Returns the index of the row in which the element at ``index`` lies."""
        return index[: self.axis] + index[self.axis + 1 :]

    def reduced(self, combine: Callable[..., Any], value: Callable[..., Any], name: str) -> te.Tensor:
        """Reduces the elements of each row (a row: the elements along the axis) by the TE reducer ``combine``.

        ``value(index, row)`` computes the value of the element at ``index``. ``row`` is the index without the axis.
        """
        axis = reduce_axis(self.x.shape[self.axis], "k")

        def element_at(*row: Any) -> Any:
            return combine(value((*row[: self.axis], axis.var, *row[self.axis :]), row), axis=[axis])

        return compute(self.outer, element_at, name) if self.outer else _scalar(element_at, name)

    def each(self, value: Callable[..., Any], name: str, dtype: str | None = None) -> te.Tensor:
        """Computes ``value(element's index, row's index)`` for every element."""
        return compute(self.x.shape, lambda *index: as_dtype(value(index, self.row(index)), dtype or self.dtype), name)

    def per_row(self, value: Callable[..., Any], name: str, dtype: str | None = None) -> te.Tensor:
        """Computes ``value(row's index)`` for every row."""

        def element_at(*row: Any) -> Any:
            return as_dtype(value(row), dtype or self.dtype)

        return compute(self.outer, element_at, name) if self.outer else _scalar(element_at, name)

    def maximum(self) -> te.Tensor:
        """Computes each row's maximum. It may lose a NaN, but the exponential of the NaN element is NaN again."""
        return self.reduced(te.max, lambda index, row: self.upcast(index), "row_max")

    def shifted(self, largest: te.Tensor) -> Callable[..., Any]:
        """Returns a function (index of an element, index of its row) -> the element minus its row's ``largest``."""
        return lambda index, row: self.upcast(index) - largest(*row)

    def log_sum_exp(self, largest: te.Tensor) -> te.Tensor:
        """Computes log(sum(exp(x - largest))) of each row; subtracting the row's maximum avoids overflow."""
        shifted = self.shifted(largest)
        total = self.reduced(te.sum, lambda index, row: scalar.exp(shifted(index, row)), "row_sum")
        return self.per_row(lambda row: scalar.log(total(*row)), "row_log")

    def probabilities(self) -> Callable[..., Any]:
        """Builds the stages of softmax over each row.

        Returns a function (index of an element, index of its row) -> probability.
        """
        largest = self.maximum()
        shifted = self.shifted(largest)
        exponentials = self.each(lambda index, row: scalar.exp(shifted(index, row)), "row_exp")
        total = self.reduced(te.sum, lambda index, row: exponentials(*index), "row_sum")
        reciprocal = self.per_row(lambda row: tirx.const(1, self.dtype) / total(*row), "row_inverse")
        return lambda index, row: exponentials(*index) * reciprocal(*row)


def _scalar(element_at: Callable[..., Any], name: str) -> te.Tensor:
    return te.compute((), element_at, name=name)


def softmax(x: te.Tensor, *, axis: int) -> te.Tensor:
    rows = Rows(x, axis)
    return rows.each(rows.probabilities(), "softmax", str(x.dtype))


def softmax_grad(cotangent: te.Tensor, y: te.Tensor, *, axis: int) -> te.Tensor:
    """Computes the gradient of softmax along an axis: ``y * (cotangent - sum(cotangent * y))``.

    ``y`` is the result of softmax, and ``cotangent`` is that of ``y``.
    """
    rows = Rows(y, axis)
    y_at, cotangent_at = rows.upcast, Rows(cotangent, axis).upcast
    row_dot = rows.reduced(te.sum, lambda index, _row: cotangent_at(index) * y_at(index), "row_dot")

    def gradient_at(index: Any, row: Any) -> Any:
        return y_at(index) * (cotangent_at(index) - row_dot(*row))

    return rows.each(gradient_at, "softmax_grad", str(y.dtype))


def log_softmax(x: te.Tensor, *, axis: int) -> te.Tensor:
    """Computes ``x - max - log(sum(exp(x - max)))`` along an axis."""
    rows = Rows(x, axis)
    largest = rows.maximum()
    log_sum = rows.log_sum_exp(largest)
    shifted = rows.shifted(largest)
    return rows.each(lambda index, row: shifted(index, row) - log_sum(*row), "log_softmax", str(x.dtype))


def log_softmax_grad(cotangent: te.Tensor, y: te.Tensor, *, axis: int) -> te.Tensor:
    """Computes the gradient of log-softmax along an axis: ``cotangent - exp(y) * sum(cotangent)``.

    ``y`` is the result of log-softmax, and ``cotangent`` is that of ``y``.
    """
    rows = Rows(y, axis)
    y_at, cotangent_at = rows.upcast, Rows(cotangent, axis).upcast
    row_sum = rows.reduced(te.sum, lambda index, _row: cotangent_at(index), "row_sum")

    def gradient_at(index: Any, row: Any) -> Any:
        return cotangent_at(index) - scalar.exp(y_at(index)) * row_sum(*row)

    return rows.each(gradient_at, "log_softmax_grad", str(y.dtype))


def cross_entropy(labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes softmax cross entropy along the last axis: ``-sum(labels * log_softmax(logits))``.

    The largest logit of each row is subtracted first, which keeps the exponential from overflowing.
    """
    rows = Rows(logits, len(logits.shape) - 1)
    largest = rows.maximum()
    log_sum = rows.log_sum_exp(largest)
    shifted = rows.shifted(largest)
    label_at = Rows(labels, rows.axis).upcast

    def term(index: Index, row: Index) -> Any:
        negative_log_probability = log_sum(*row) - shifted(index, row)
        return label_at(index) * negative_log_probability

    return _narrowed(rows, rows.reduced(te.sum, term, "cross_entropy"))


def cross_entropy_grad(cotangent: te.Tensor, labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes the gradient of softmax cross entropy by the logits: ``cotangent * (softmax(logits) - labels)``.

    ``cotangent`` is that of each row's loss.
    """
    rows = Rows(logits, len(logits.shape) - 1)
    probability = rows.probabilities()
    label_at = Rows(labels, rows.axis).upcast
    scale = _row_scale(cotangent, rows)
    return rows.each(
        lambda index, row: scale(row) * (probability(index, row) - label_at(index)),
        "cross_entropy_grad",
        str(logits.dtype),
    )


def sparse_cross_entropy(labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes each row's cross entropy with an integer label: log(sum(exp(logits))) - logits[label].

    A label out of range counts as a logit of zero after the row's maximum is subtracted.
    """
    rows = Rows(logits, len(logits.shape) - 1)
    largest = rows.maximum()
    log_sum = rows.log_sum_exp(largest)
    shifted = rows.shifted(largest)

    def at_label(index: Index, row: Index) -> Any:
        return tirx.Select(_is_label(labels, index, row), shifted(index, row), tirx.const(0, rows.dtype))

    label_logit = rows.reduced(te.sum, at_label, "at_label")
    return rows.per_row(lambda row: log_sum(*row) - label_logit(*row), "cross_entropy", str(logits.dtype))


def sparse_cross_entropy_grad(cotangent: te.Tensor, labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes the gradient of sparse cross entropy by the logits: ``cotangent * (softmax(logits) - one_hot(labels))``.

    ``cotangent`` is that of each row's loss.
    """
    rows = Rows(logits, len(logits.shape) - 1)
    probability = rows.probabilities()
    scale = _row_scale(cotangent, rows)
    one = tirx.const(1, rows.dtype)
    zero = tirx.const(0, rows.dtype)

    def element_at(index: Index, row: Index) -> Any:
        one_hot = tirx.Select(_is_label(labels, index, row), one, zero)
        return scale(row) * (probability(index, row) - one_hot)

    return rows.each(element_at, "cross_entropy_grad", str(logits.dtype))


def _is_label(labels: te.Tensor, index: Index, row: Index) -> Any:
    """Returns whether the class of the element at ``index`` is the integer label of ``row``; classes are the last axis."""
    return labels(*row).astype("int64") == long(index[-1])


def _row_scale(cotangent: te.Tensor, rows: Rows) -> Callable[..., Any]:
    """Returns a function that reads a row's cotangent in the accumulation dtype."""
    return lambda row: as_dtype(cotangent(*row), rows.dtype)


def _narrowed(rows: Rows, values: te.Tensor) -> te.Tensor:
    """Casts per-row ``values`` from the accumulation dtype to the dtype of the tensor of ``rows``."""
    dtype = str(rows.x.dtype)
    return values if dtype == rows.dtype else rows.per_row(lambda row: values(*row), "narrow", dtype)
