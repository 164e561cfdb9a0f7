"""TE kernels of normalisation over trailing axes: mean, variance, result, one stage each, for rows in cache."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tvm import te, tirx

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import accumulator_dtype, as_dtype, compute, reduce_axis

Value = Callable[..., Any]


class TrailingAxes:
    """A tensor as rows that span all axes from ``first`` on."""

    def __init__(self, x: te.Tensor, first: int) -> None:
        self.x, self.first = x, first
        self.outer, self.inner = list(x.shape[:first]), list(x.shape[first:])
        self.dtype = accumulator_dtype(str(x.dtype))
        self.size = prod(self.inner[1:], start=self.inner[0]).astype(self.dtype)

    def wide(self, *place: Any) -> Any:
        return as_dtype(self.x(*place), self.dtype)

    def mean(self, value: Value, name: str) -> te.Tensor:
        """Computes the mean of ``value(place)`` over each row."""
        axes = [reduce_axis(d, "k") for d in self.inner]
        total = self._per_row(lambda *row: te.sum(value(*row, *(k.var for k in axes)), axis=axes), f"{name}_sum")
        return self._per_row(lambda *row: total(*row) / self.size, name)

    def _per_row(self, body: Value, name: str) -> te.Tensor:
        return compute(self.outer, body, name) if self.outer else te.compute((), body, name=name)

    def each(self, value: Value, name: str, dtype: str | None = None) -> te.Tensor:
        return compute(self.x.shape, lambda *p: as_dtype(value(*p), dtype or self.dtype), name)

    def row(self, place: tuple[Any, ...]) -> tuple[Any, ...]:
        return place[: self.first]

    def standardized(self, epsilon: float) -> tuple[Value, te.Tensor]:
        """Returns the standardized elements as a function of their place, and one over each row's deviation."""
        mean = self.mean(self.wide, "row_mean")

        def centered(*p: Any) -> Any:
            return self.wide(*p) - mean(*self.row(p))

        variance = self.mean(lambda *p: centered(*p) * centered(*p), "row_variance")
        small = tirx.const(epsilon, self.dtype)
        one = tirx.const(1, self.dtype)
        inverse = self._per_row(lambda *row: one / scalar.sqrt(variance(*row) + small), "row_inverse")
        return (lambda *p: centered(*p) * inverse(*self.row(p))), inverse


def layer_norm(x: te.Tensor, scale: te.Tensor, offset: te.Tensor, *, first: int, epsilon: float) -> te.Tensor:
    """Normalizes ``x`` over the axes from ``first`` on, times ``scale``, plus ``offset``."""
    rows = TrailingAxes(x, first)
    standard, _ = rows.standardized(epsilon)

    def body(*p: Any) -> Any:
        inner = p[first:]
        return standard(*p) * as_dtype(scale(*inner), rows.dtype) + as_dtype(offset(*inner), rows.dtype)

    return rows.each(body, "layer_norm", str(x.dtype))


def layer_norm_grad(g: te.Tensor, x: te.Tensor, *, first: int, epsilon: float) -> te.Tensor:
    """Computes ``(g - mean(g) - y * mean(g * y)) / deviation``, where ``y`` is ``x`` normalized from ``first`` on."""
    rows, gradient = TrailingAxes(x, first), TrailingAxes(g, first)
    standard, inverse = rows.standardized(epsilon)
    mean = rows.mean(gradient.wide, "gradient_mean")
    dot = rows.mean(lambda *p: gradient.wide(*p) * standard(*p), "gradient_dot")

    def body(*p: Any) -> Any:
        row = rows.row(p)
        return inverse(*row) * (gradient.wide(*p) - mean(*row) - standard(*p) * dot(*row))

    return rows.each(body, "layer_norm_grad", str(x.dtype))
