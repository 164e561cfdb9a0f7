"""Axes read with a period (repeated rows or elements), and slow paths for a few arguments."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import HOST, TARGETS, run_te, tensor, values
from tvm import te, tirx

from tvtf.ops.kernels import scalar
from tvtf.passes.schedule.cpu import schedule

few = settings(max_examples=10, deadline=None, derandomize=True)
LARGE = np.array([1e300, -1e17, 3e8, np.inf, np.nan, 0.0, -0.0])


def repeated(x, count):
    length = int(x.shape[-1])
    shape = [*x.shape[:-1], tirx.IntImm("int64", length * count)]
    return te.compute(shape, lambda *i: x(*i[:-1], tirx.floordiv(i[-1], count)) + tirx.const(1, str(x.dtype)))


def tiled(x, count):
    length = int(x.shape[-1])
    shape = [*x.shape[:-1], tirx.IntImm("int64", length * count)]
    return te.compute(shape, lambda *i: x(*i[:-1], tirx.floormod(i[-1], length)) + tirx.const(1, str(x.dtype)))


@few
@given(
    st.sampled_from([(7,), (150,), (20_000,), (3, 20), (40, 17)]),
    st.sampled_from([1, 2, 3, 4, 8, 16, 19]),
    st.sampled_from(["float32", "float64", "int8", "float16"]),
    st.sampled_from(TARGETS),
)
def test_repeated_elements_and_rows(shape, count, dtype, target):
    x, a = tensor(shape, dtype), values(shape, dtype)
    wide = (*shape[:-1], shape[-1] * count)
    np.testing.assert_array_equal(run_te(repeated(x, count), {x: a}, wide, target), np.repeat(a, count, -1) + 1)
    np.testing.assert_array_equal(run_te(tiled(x, count), {x: a}, wide, target), np.tile(a, count) + 1)


def test_places_that_differ_in_a_period():
    x, w, a, b = tensor((50,)), tensor((4,), name="w"), values((50,)), values((4,))
    split = lambda i: (tirx.floordiv(i, 4), tirx.floormod(i, 4))  # noqa: E731
    y = te.compute((tirx.IntImm("int64", 200),), lambda i: x(split(i)[0]) * w(split(i)[1]))
    np.testing.assert_array_equal(run_te(y, {x: a, w: b}, (200,), HOST), (a[:, None] * b).ravel())


def test_other_divisions_are_left():
    x, a = tensor((30,)), values((30,))
    y = te.compute((tirx.IntImm("int64", 60),), lambda i: x(tirx.floordiv(i + 1, 3)) + x(tirx.floormod(i * 2, 7)))
    i = np.arange(60)
    np.testing.assert_array_equal(run_te(y, {x: a}, (60,), HOST), a[(i + 1) // 3] + a[i * 2 % 7])


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("rows", [1, 5, 37])
def test_large_angles_among_small_ones(rows, target):
    """A vector with one goes by itself; results in other kernels' forms, of stages that read each other, are the same."""
    a = np.random.default_rng(rows).normal(size=(rows, 21))
    a[::2, :7] = LARGE
    x = tensor(a.shape, "float64")
    with np.errstate(invalid="ignore"):
        want = np.sin(np.cos(a) + a)
    y = te.compute(x.shape, lambda *i: scalar.cos(x(*i)) + x(*i))
    found = run_te(te.compute(x.shape, lambda *i: scalar.sin(y(*i))), {x: a}, a.shape, target)
    np.testing.assert_allclose(found, want, rtol=1e-13)
    k = te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", 21)), "k")
    total = te.compute(x.shape[:1], lambda i: te.sum(scalar.tan(x(i, k)), axis=k))
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(run_te(total, {x: a}, (rows,), target), np.tan(a).sum(1), rtol=1e-11)


def test_vectors_are_tested_once():
    x = tensor((64,), "float64")
    script = schedule(te.create_prim_func([x, te.compute(x.shape, lambda i: scalar.sin(x(i)))]), HOST).script()
    assert script.count("llvm.vector.reduce.or") == 1 and "T.vectorized" in script
