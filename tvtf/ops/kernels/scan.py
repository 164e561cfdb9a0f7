"""Kernels of scans along an axis: rows in parallel, the steps of a row in sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvtf.ops.kernels import scalar
from tvtf.ops.kernels.common import INDEPENDENT, accumulator_dtype, cast, flat_buffer, long
from tvtf.ops.kernels.reduce import narrowed

PARALLEL_FROM = 1 << 15
"""Minimum number of elements for which running rows on other threads saves more than it costs."""

Step = Callable[[Any, list[Any], list[Any] | None], Any]


def product(extents: Any) -> Any:
    total = long(1)
    for extent in extents:
        total = total * long(extent)
    return total


def rows(count: Any, work: Any) -> Any:
    """Returns a parallel TIR loop over ``count`` rows, or a serial one if all rows have few elements (``work``)."""
    is_small = isinstance(work, tirx.IntImm) and int(work) < PARALLEL_FROM
    return T.serial(long(0), count, annotations=INDEPENDENT) if is_small else T.parallel(long(0), count)


def scan(inputs: list[te.Tensor], axis: int, reverse: bool, start: Any, step: Step) -> te.Tensor:
    """Computes a sequential scan along an axis, such as a cumulative sum.

    Args:
        inputs: tensors of one shape.
        axis: the axis; rows along it are independent.
        reverse: scan from the end.
        start: the previous result at the first element.
        step: computes a result from the previous result, the inputs' current elements and their previous elements
            (None at the first element).
    """
    first, *_ = inputs
    shape = list(first.shape)
    dtype = str(first.dtype)
    accumulation_dtype = accumulator_dtype(dtype)
    inputs = [cast(x, accumulation_dtype) for x in inputs]
    row_count = product(shape[:axis])
    length = long(shape[axis])
    inner_size = product(shape[axis + 1 :])

    def build_ir(ins: Any, outs: Any) -> Any:
        """Emits a cumulative op as a loop along the axis. It computes each element from the element before it.

        Args:
          ins, outs: the buffers of the inputs and of the results.
        """
        with IRBuilder() as builder:
            sources = [flat_buffer(buffer) for buffer in ins]
            out = flat_buffer(outs[0])
            with (
                rows(row_count, row_count * length * inner_size) as row,
                T.serial(long(0), length) as k,
                T.serial(long(0), inner_size, annotations=INDEPENDENT) as j,
            ):
                # A row holds ``inner_size`` independent scans, whose elements alternate in memory.
                position_in_scan = length - 1 - k if reverse else k
                position = position_in_scan * inner_size + row * length * inner_size + j
                previous_position = position + inner_size if reverse else position - inner_size
                elements = [source[position] for source in sources]
                previous_elements = [source[previous_position] for source in sources]
                with T.If(k == 0):
                    with T.Then():
                        out[position] = step(tirx.const(start, accumulation_dtype), elements, None)
                    with T.Else():
                        out[position] = step(out[previous_position], elements, previous_elements)
            return builder.get()

    result = te.extern([shape], inputs, build_ir, name="scan", dtype=accumulation_dtype)
    return narrowed(result, dtype)


def _cumulative_kernel(combine: Callable[[Any, Any], Any], start: Any) -> Callable[..., te.Tensor]:
    """Returns the kernel of a cumulative op such as `tf.cumsum`, from the op's binary operation.

    Args:
        combine: computes the next result from the accumulated value and an element.
        start: the operation's identity, 0 for sums.
    """

    def kernel(x: te.Tensor, *, axis: int, exclusive: bool, reverse: bool) -> te.Tensor:
        """Computes the cumulative op along ``axis``. ``reverse`` begins at the end."""

        def step(accumulated: Any, current: list[Any], previous: list[Any] | None) -> Any:
            """Computes an element from the one before it, and from the input at this and the previous position."""
            # An exclusive result lacks its own element; the first one is ``start``.
            if exclusive:
                return accumulated if previous is None else combine(accumulated, previous[0])
            return combine(accumulated, current[0])

        return scan([x], axis, reverse, start, step)

    return kernel


cumsum = _cumulative_kernel(lambda old, new: old + new, 0)
cumprod = _cumulative_kernel(lambda old, new: old * new, 1)


def linear_recurrence(a: te.Tensor, b: te.Tensor, *, axis: int, reverse: bool) -> te.Tensor:
    return scan(
        [a, b], axis, reverse, 0, lambda previous_result, current, _previous: current[0] * previous_result + current[1]
    )


def cumulative_logsumexp(x: te.Tensor, *, axis: int, reverse: bool) -> te.Tensor:
    """Computes the log of the cumulative sum of exponentials along ``axis``."""
    return scan(
        [x], axis, reverse, float("-inf"), lambda accumulated, current, _previous: _logaddexp(accumulated, current[0])
    )


def _logaddexp(x: Any, y: Any) -> Any:
    """Computes log(exp(x) + exp(y)). Equal arguments are a case of their own, because inf - inf is NaN."""
    larger, smaller = tirx.Select(x > y, x, y), tirx.Select(x > y, y, x)
    sum_ = larger + scalar.log1p(scalar.exp(smaller - larger))
    # log(2 exp(x)) = x + log(2) for equal arguments; NaN in x stays
    return tirx.Select(x == y, x + tirx.const(0.6931471805599453, _type(x)), tirx.Select(x != x, x, sum_))


def _type(value: Any) -> str:
    return str(value.ty.dtype)
