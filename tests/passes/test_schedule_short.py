"""A short last axis with shared work: one computation for all its positions, fused in chunks with the pass that follows."""

from functools import reduce

import numpy as np
import pytest
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import HOST, TARGETS, run_te, tensor, values
from tvm import te, tirx

from tvtf.passes.schedule.cpu import schedule

LONG = 40
few = settings(max_examples=8, deadline=None, derandomize=True)


def long_work(x, lane):
    """A value of many operations, times one of a place's own factors."""
    dtype = str(x.ty.dtype)
    half = tirx.const(0.5, dtype)
    made = reduce(lambda total, _: total * half + x * x, range(LONG), x)
    chosen = tirx.const(3, dtype)
    for place, factor in enumerate((1, 2, 4)):
        chosen = tirx.Select(lane == place, tirx.const(factor, dtype), chosen)
    return made * chosen


def long_work_of(a, length):
    wide = a.astype("float64")
    made = reduce(lambda total, _: total * 0.5 + wide**2, range(LONG), wide)
    return made[:, None] * np.array([1, 2, 4, 3.0])[:length]


def blocks_of(x, rows, length):
    shape = [tirx.IntImm("int64", rows) if isinstance(rows, int) else rows, tirx.IntImm("int64", length)]
    return te.compute(shape, lambda i, k: long_work(x(i), k), "blocks")


def flat(blocks, count, length):
    at = lambda i: blocks[tirx.floordiv(i, length), tirx.floormod(i, length)]  # noqa: E731
    count = tirx.IntImm("int64", count) if isinstance(count, int) else count
    return te.compute((count,), lambda i: at(i) + tirx.const(1, str(blocks.dtype)), "flat")


@few
@given(
    st.sampled_from([1, 3, 16, 17, 40, 3000]),
    st.sampled_from([2, 4]),
    st.sampled_from(["float32", "float64"]),
    st.sampled_from(TARGETS),
)
def test_places_together(rows, length, dtype, target):
    x, a = tensor((rows,), dtype), values((rows,), dtype)
    found = run_te(blocks_of(x, rows, length), {x: a}, (rows, length), target)
    np.testing.assert_allclose(found, long_work_of(a, length), rtol=2e-5)


@few
@given(st.sampled_from([1, 5, 64, 2049, 20_001]), st.sampled_from([2, 4]), st.sampled_from(TARGETS))
def test_a_pass_over_the_places(count, length, target):
    rows = -(-count // length)
    x, a = tensor((rows,)), values((rows,))
    y = flat(blocks_of(x, rows, length), count, length)
    want = long_work_of(a, length).ravel()[:count] + 1
    np.testing.assert_allclose(run_te(y, {x: a}, (count,), target), want, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 2500])
def test_a_pass_of_unknown_size(rows):
    n = tirx.Var("n", "int64")
    x, a = tensor((n,)), values((rows,))
    y = flat(blocks_of(x, n, 4), n * 4, 4)
    want = long_work_of(a, 4).ravel() + 1
    np.testing.assert_allclose(run_te(y, {x: a}, (rows * 4,), HOST), want, rtol=2e-5, atol=1e-5)


def buffer_sizes(func):
    found = []
    tvm_ffi.structural_walk(func.body, (tirx.AllocBuffer, lambda made: found.append(made.buffer.ty.shape)))
    return [np.prod([int(extent) for extent in shape]) for shape in found]


def test_places_are_never_in_memory_all_at_once():
    x = tensor((50_000,))
    y = flat(blocks_of(x, 50_000, 4), 200_000, 4)
    assert max(buffer_sizes(schedule(te.create_prim_func([x, y]), HOST))) < 10_000
