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
    """Treats a tensor as rows that span all axes starting at ``first``, and builds TE stages that compute on rows."""

    def __init__(self, x: te.Tensor, first: int) -> None:
        self.x, self.first = x, first
        self.outer, self.inner = list(x.shape[:first]), list(x.shape[first:])
        self.dtype = accumulator_dtype(str(x.dtype))
        self.size = prod(self.inner[1:], start=self.inner[0]).astype(self.dtype)

    def upcast(self, *index: Any) -> Any:
        """Returns an element in the accumulation dtype."""
        return as_dtype(self.x(*index), self.dtype)

    def mean(self, value: Value, name: str) -> te.Tensor:
        """Computes the mean of ``value(*index)`` over the elements of each row, in stages whose names begin with ``name``."""
        axes = [reduce_axis(extent, "k") for extent in self.inner]
        total = self._per_row(lambda *row: te.sum(value(*row, *(axis.var for axis in axes)), axis=axes), f"{name}_sum")
        return self._per_row(lambda *row: total(*row) / self.size, name)

    def _per_row(self, element_at: Value, name: str) -> te.Tensor:
        """Computes ``element_at(*row index)`` for each row."""
        return compute(self.outer, element_at, name) if self.outer else te.compute((), element_at, name=name)

    def each(self, value: Value, name: str, dtype: str | None = None) -> te.Tensor:
        """Computes ``value(*index)`` for each element, cast to ``dtype`` or the accumulation dtype."""
        return compute(self.x.shape, lambda *p: as_dtype(value(*p), dtype or self.dtype), name)

    def row(self, index: tuple[Any, ...]) -> tuple[Any, ...]:
        """Returns the index of the row in which the element at ``index`` lies."""
        return index[: self.first]

    def standardized(self, epsilon: float) -> tuple[Value, te.Tensor]:
        """Subtracts each row's mean from its elements, and divides them by the row's standard deviation.

        Returns a function of an element's index, and a tensor with 1 / sqrt(variance + epsilon) of each row.
        """
        mean = self.mean(self.upcast, "row_mean")

        def centered(*index: Any) -> Any:
            return self.upcast(*index) - mean(*self.row(index))

        def square(*index: Any) -> Any:
            return centered(*index) * centered(*index)

        variance = self.mean(square, "row_variance")
        epsilon_constant, one = tirx.const(epsilon, self.dtype), tirx.const(1, self.dtype)

        def inverse(*row: Any) -> Any:
            return one / scalar.sqrt(variance(*row) + epsilon_constant)

        inverse_deviation = self._per_row(inverse, "row_inverse")

        def standardized_element(*index: Any) -> Any:
            return centered(*index) * inverse_deviation(*self.row(index))

        return standardized_element, inverse_deviation


def layer_norm(x: te.Tensor, scale: te.Tensor, offset: te.Tensor, *, first: int, epsilon: float) -> te.Tensor:
    """Computes layer normalization over the axes starting at ``first``: the standardized ``x`` times scale plus offset.

    A row is the elements along those axes. ``scale`` and ``offset`` have the shape of a row.
    """
    rows = TrailingAxes(x, first)
    standardized, _ = rows.standardized(epsilon)

    def element_at(*index: Any) -> Any:
        factor = as_dtype(scale(*index[first:]), rows.dtype)
        return standardized(*index) * factor + as_dtype(offset(*index[first:]), rows.dtype)

    return rows.each(element_at, "layer_norm", str(x.dtype))


def layer_norm_grad(g: te.Tensor, x: te.Tensor, *, first: int, epsilon: float) -> te.Tensor:
    """Computes the gradient of normalization: ``(g - mean(g) - y * mean(g * y)) / deviation``.

    Here ``y`` is ``x`` normalized over the axes starting at ``first``, and ``g`` is the cotangent of ``y``.
    """
    rows = TrailingAxes(x, first)
    gradient = TrailingAxes(g, first)
    standardized, inverse_deviation = rows.standardized(epsilon)

    def product(*index: Any) -> Any:
        return gradient.upcast(*index) * standardized(*index)

    mean = rows.mean(gradient.upcast, "gradient_mean")
    projection = rows.mean(product, "gradient_dot")

    def element_at(*index: Any) -> Any:
        row = rows.row(index)
        remainder = gradient.upcast(*index) - mean(*row) - standardized(*index) * projection(*row)
        return inverse_deviation(*row) * remainder

    return rows.each(element_at, "layer_norm_grad", str(x.dtype))
