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
"""Number of elements from which running rows on other threads saves more than it costs."""

Step = Callable[[Any, list[Any], list[Any] | None], Any]


def product(extents: Any) -> Any:
    total = long(1)
    for extent in extents:
        total = total * long(extent)
    return total


def rows(count: Any, work: Any) -> Any:
    """Returns a loop over rows, parallel unless ``work`` is known to be small."""
    small = isinstance(work, tirx.IntImm) and int(work) < PARALLEL_FROM
    return T.serial(long(0), count, annotations=INDEPENDENT) if small else T.parallel(long(0), count)


def scan(inputs: list[te.Tensor], axis: int, reverse: bool, start: Any, step: Step) -> te.Tensor:
    """Computes ``step(previous result, current elements, previous elements)`` along ``axis``, from ``start``."""
    shape, dtype = list(inputs[0].shape), str(inputs[0].dtype)
    wide = accumulator_dtype(dtype)
    inputs = [cast(x, wide) for x in inputs]
    outer, length, inner = product(shape[:axis]), long(shape[axis]), product(shape[axis + 1 :])

    def body(ins: Any, outs: Any) -> Any:
        """Emits a loop along the axis, in which each element is computed from the one before."""
        with IRBuilder() as builder:
            sources, out = [flat_buffer(b) for b in ins], flat_buffer(outs[0])
            with (
                rows(outer, outer * length * inner) as row,
                T.serial(long(0), length) as k,
                T.serial(long(0), inner, annotations=INDEPENDENT) as j,
            ):
                at = (length - 1 - k if reverse else k) * inner + row * length * inner + j
                back = at + inner if reverse else at - inner
                here = [s[at] for s in sources]
                with T.If(k == 0):
                    with T.Then():
                        out[at] = step(tirx.const(start, wide), here, None)
                    with T.Else():
                        out[at] = step(out[back], here, [s[back] for s in sources])
            return builder.get()

    result = te.extern([shape], inputs, body, name="scan", dtype=wide)
    return narrowed(result, dtype)


def _running(combine: Callable[[Any, Any], Any], start: Any) -> Callable[..., te.Tensor]:
    """Returns the kernel of cumulative results of ``combine``, which include an element itself unless ``exclusive``."""

    def kernel(x: te.Tensor, *, axis: int, exclusive: bool, reverse: bool) -> te.Tensor:
        def step(old: Any, here: list[Any], before: list[Any] | None) -> Any:
            if exclusive:
                return old if before is None else combine(old, before[0])
            return combine(old, here[0])

        return scan([x], axis, reverse, start, step)

    return kernel


cumsum = _running(lambda old, new: old + new, 0)
cumprod = _running(lambda old, new: old * new, 1)


def linear_recurrence(a: te.Tensor, b: te.Tensor, *, axis: int, reverse: bool) -> te.Tensor:
    return scan([a, b], axis, reverse, 0, lambda old, here, _before: here[0] * old + here[1])


def cumulative_logsumexp(x: te.Tensor, *, axis: int, reverse: bool) -> te.Tensor:
    return scan([x], axis, reverse, float("-inf"), lambda old, here, _before: _logaddexp(old, here[0]))


def _logaddexp(x: Any, y: Any) -> Any:
    """Computes log(exp(x) + exp(y)); equal arguments are a case of their own, as inf - inf is NaN."""
    larger, smaller = tirx.Select(x > y, x, y), tirx.Select(x > y, y, x)
    sum_ = larger + scalar.log1p(scalar.exp(smaller - larger))
    return tirx.Select(x == y, x + tirx.const(0.6931471805599453, _type(x)), tirx.Select(x != x, x, sum_))


def _type(value: Any) -> str:
    return str(value.ty.dtype)
