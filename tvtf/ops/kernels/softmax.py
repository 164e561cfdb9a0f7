"""TE kernels of softmax and cross entropies.

Maximum, exponentials, sum and result are one stage each, so that a schedule can keep a row in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, compute, long, reduce_axis

Place = tuple[Any, ...]


class Rows:
    """A tensor as rows along one axis, with reductions of rows and elementwise stages that read them."""

    def __init__(self, x: te.Tensor, axis: int) -> None:
        self.x, self.axis = x, axis
        self.dtype = accumulator_dtype(str(x.dtype))
        self.outer = [d for i, d in enumerate(x.shape) if i != axis]

    def wide(self, place: Place) -> Any:
        return as_dtype(self.x(*place), self.dtype)

    def row(self, place: Place) -> Place:
        return place[: self.axis] + place[self.axis + 1 :]

    def reduced(self, combine: Callable[..., Any], value: Callable[..., Any], name: str) -> te.Tensor:
        """Reduces ``value(place, row)`` over each row."""
        k = reduce_axis(self.x.shape[self.axis], "k")

        def body(*row: Any) -> Any:
            return combine(value((*row[: self.axis], k.var, *row[self.axis :]), row), axis=[k])

        return compute(self.outer, body, name) if self.outer else _scalar(body, name)

    def each(self, value: Callable[..., Any], name: str, dtype: str | None = None) -> te.Tensor:
        """Computes ``value(place, row)`` for every element."""
        return compute(self.x.shape, lambda *p: as_dtype(value(p, self.row(p)), dtype or self.dtype), name)

    def per_row(self, value: Callable[..., Any], name: str, dtype: str | None = None) -> te.Tensor:
        body = lambda *row: as_dtype(value(row), dtype or self.dtype)  # noqa: E731 - given to one of two forms
        return compute(self.outer, body, name) if self.outer else _scalar(body, name)

    def maximum(self) -> te.Tensor:
        """Computes each row's maximum; it may lose a NaN, which the exponentials bring back."""
        return self.reduced(te.max, lambda p, row: self.wide(p), "row_max")

    def shifted(self, largest: te.Tensor) -> Callable[..., Any]:
        return lambda p, row: self.wide(p) - largest(*row)

    def log_sum_exp(self, largest: te.Tensor) -> te.Tensor:
        """Computes the log of the sum of exponentials, relative to the maximum."""
        shifted = self.shifted(largest)
        total = self.reduced(te.sum, lambda p, row: scalar.exp(shifted(p, row)), "row_sum")
        return self.per_row(lambda row: scalar.log(total(*row)), "row_log")

    def probabilities(self) -> Callable[..., Any]:
        """Returns the softmax as a function ``value(place, row)``."""
        largest = self.maximum()
        shifted = self.shifted(largest)
        powers = self.each(lambda p, row: scalar.exp(shifted(p, row)), "row_exp")
        total = self.reduced(te.sum, lambda p, row: powers(*p), "row_sum")
        inverse = self.per_row(lambda row: tirx.const(1, self.dtype) / total(*row), "row_inverse")
        return lambda p, row: powers(*p) * inverse(*row)


def _scalar(body: Callable[..., Any], name: str) -> te.Tensor:
    return te.compute((), body, name=name)


def softmax(x: te.Tensor, *, axis: int) -> te.Tensor:
    rows = Rows(x, axis)
    return rows.each(rows.probabilities(), "softmax", str(x.dtype))


def softmax_grad(ct: te.Tensor, y: te.Tensor, *, axis: int) -> te.Tensor:
    rows = Rows(y, axis)
    wide_ct = Rows(ct, axis).wide
    dot = rows.reduced(te.sum, lambda p, row: wide_ct(p) * rows.wide(p), "row_dot")
    return rows.each(lambda p, row: rows.wide(p) * (wide_ct(p) - dot(*row)), "softmax_grad", str(y.dtype))


def log_softmax(x: te.Tensor, *, axis: int) -> te.Tensor:
    rows = Rows(x, axis)
    largest = rows.maximum()
    log_sum, shifted = rows.log_sum_exp(largest), rows.shifted(largest)
    return rows.each(lambda p, row: shifted(p, row) - log_sum(*row), "log_softmax", str(x.dtype))


def log_softmax_grad(ct: te.Tensor, y: te.Tensor, *, axis: int) -> te.Tensor:
    rows = Rows(y, axis)
    wide_ct = Rows(ct, axis).wide
    total = rows.reduced(te.sum, lambda p, row: wide_ct(p), "row_sum")
    return rows.each(
        lambda p, row: wide_ct(p) - scalar.exp(rows.wide(p)) * total(*row), "log_softmax_grad", str(y.dtype)
    )


def cross_entropy(labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    rows = Rows(logits, len(logits.shape) - 1)
    largest = rows.maximum()
    log_sum, shifted = rows.log_sum_exp(largest), rows.shifted(largest)
    wide = Rows(labels, rows.axis).wide
    loss = rows.reduced(te.sum, lambda p, row: wide(p) * (log_sum(*row) - shifted(p, row)), "cross_entropy")
    return _narrowed(rows, loss)


def cross_entropy_grad(ct: te.Tensor, labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    rows = Rows(logits, len(logits.shape) - 1)
    probability, wide = rows.probabilities(), Rows(labels, rows.axis).wide
    scale = _row_scale(ct, rows)
    return rows.each(
        lambda p, row: scale(row) * (probability(p, row) - wide(p)), "cross_entropy_grad", str(logits.dtype)
    )


def sparse_cross_entropy(labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes each row's log of the sum of exponentials minus its logit at the label."""
    rows = Rows(logits, len(logits.shape) - 1)
    largest = rows.maximum()
    log_sum, shifted = rows.log_sum_exp(largest), rows.shifted(largest)

    def at_label(p: Place, row: Place) -> Any:
        return tirx.Select(_is_label(labels, p, row), shifted(p, row), tirx.const(0, rows.dtype))

    chosen = rows.reduced(te.sum, at_label, "at_label")
    return rows.per_row(lambda row: log_sum(*row) - chosen(*row), "cross_entropy", str(logits.dtype))


def sparse_cross_entropy_grad(ct: te.Tensor, labels: te.Tensor, logits: te.Tensor) -> te.Tensor:
    """Computes the logits' cotangent: probabilities minus 1 at the label, times the loss's cotangent."""
    rows = Rows(logits, len(logits.shape) - 1)
    probability, scale = rows.probabilities(), _row_scale(ct, rows)
    one, zero = tirx.const(1, rows.dtype), tirx.const(0, rows.dtype)

    def body(p: Place, row: Place) -> Any:
        return scale(row) * (probability(p, row) - tirx.Select(_is_label(labels, p, row), one, zero))

    return rows.each(body, "cross_entropy_grad", str(logits.dtype))


def _is_label(labels: te.Tensor, place: Place, row: Place) -> Any:
    return labels(*row).astype("int64") == long(place[-1])


def _row_scale(ct: te.Tensor, rows: Rows) -> Callable[..., Any]:
    return lambda row: as_dtype(ct(*row), rows.dtype)


def _narrowed(rows: Rows, values: te.Tensor) -> te.Tensor:
    dtype = str(rows.x.dtype)
    return values if dtype == rows.dtype else rows.per_row(lambda row: values(*row), "narrow", dtype)
