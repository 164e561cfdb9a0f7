"""Chains along short rows, many rows at once: NumPy's values for every number of rows and items."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import HOST, TARGETS, dtype_of, run, run_te, tensor, values
from tvm import te, tirx

from tvtf.ops.kernels import norm, softmax
from tvtf.ops.kernels import reduce as reductions
from tvtf.passes.schedule.cpu import schedule
from tvtf.passes.schedule.cpu.subroutine import PREFIX

few = settings(max_examples=5, deadline=None, derandomize=True)
many = settings(max_examples=40, deadline=None, derandomize=True)
ROWS = st.integers(1, 200)
LENGTHS = st.integers(1, 40)
TYPES = st.sampled_from(["float32", "float64", "float16"])


def shares(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def check(rows: int, length: int, dtype: str, target) -> None:
    x, a = tensor((rows, length), dtype), values((rows, length), dtype)
    close = {"rtol": 2e-2, "atol": 2e-2} if dtype_of(dtype).itemsize == 2 else {"rtol": 2e-5, "atol": 2e-6}
    wide = a.astype("float64")
    found = run_te(softmax.softmax(x, axis=1), {x: a}, a.shape, target)
    np.testing.assert_allclose(found.astype("float64"), shares(wide, 1), **close)
    found = run_te(reductions.sum(x, axis=(1,), keepdims=False), {x: a}, (rows,), target)
    np.testing.assert_allclose(found.astype("float64"), wide.sum(1), rtol=close["rtol"], atol=2e-5)


@few
@given(ROWS, LENGTHS, TYPES, st.sampled_from(TARGETS))
def test_rows_of_any_length(rows, length, dtype, target):
    check(rows, length, dtype, target)


@pytest.mark.sweep
@many
@given(ROWS, LENGTHS, TYPES, st.sampled_from(TARGETS))
def test_rows_of_every_length(rows, length, dtype, target):
    check(rows, length, dtype, target)


@pytest.mark.parametrize("rows", [3, 32, 150])
def test_unknown_number_of_rows(rows):
    n = tirx.Var("n", "int64")
    x, a = tensor((n, 6)), values((rows, 6))
    found = run_te(softmax.softmax(x, axis=1), {x: a}, a.shape, HOST)
    np.testing.assert_allclose(found, shares(a, 1), rtol=2e-5)


@pytest.mark.parametrize("shape, axis", [((1, 16), 1), ((1, 7), 1), ((16, 1), 2), ((3, 1, 4), 2)])
def test_axes_of_one_item_beside_an_unknown_number_of_rows(shape, axis):
    x, a = tensor((tirx.Var("n", "int64"), *shape)), values((70, *shape))
    np.testing.assert_array_equal(run_te(softmax.softmax(x, axis=axis), {x: a}, a.shape, HOST), np.ones_like(a))


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_rows_of_several_axes_with_weights_of_their_own(target):
    """Rows behind other axes, of two axes, beside operands of one value per row, per place, and of labels."""
    x, a = tensor((3, 50, 2, 3)), values((3, 50, 2, 3))
    scale, offset = tensor((2, 3), name="scale"), tensor((2, 3), name="offset")
    b, c = values((2, 3)), values((2, 3))
    found = run_te(
        norm.layer_norm(x, scale, offset, first=2, epsilon=1e-3), {x: a, scale: b, offset: c}, a.shape, target
    )
    separate = a - a.mean((2, 3), keepdims=True)
    want = separate / np.sqrt((separate**2).mean((2, 3), keepdims=True) + 1e-3) * b + c
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)
    labels, logits, ct = tensor((50,), "int32", "labels"), tensor((50, 7), name="logits"), tensor((50,), name="ct")
    k, z, g = RNG_LABELS, values((50, 7)), values((50,))
    result = softmax.sparse_cross_entropy_grad(ct, labels, logits)
    found = run_te(result, {ct: g, labels: k, logits: z}, z.shape, target)
    np.testing.assert_allclose(found, g[:, None] * (shares(z, 1) - np.eye(7)[k]), rtol=1e-4, atol=1e-6)


RNG_LABELS = np.random.default_rng(1).integers(0, 7, 50).astype("int32")


def test_a_result_in_the_middle_is_kept():
    x, a = tensor((40, 5)), values((40, 5))
    total = reductions.sum(x, axis=(1,), keepdims=True)
    share = te.compute(x.shape, lambda i, k: x(i, k) / total(i, tirx.IntImm("int64", 0)))
    found = run(te.create_prim_func([x, total, share]), [a], [(40, 1), (40, 5)], "float32", HOST)
    np.testing.assert_allclose(found[0], a.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found[1], a / a.sum(1, keepdims=True), rtol=1e-4)


def test_short_rows_are_turned_and_long_ones_are_not():
    scripts = [
        schedule(te.create_prim_func([x, reductions.sum(x, axis=(1,), keepdims=False)]), HOST).script()
        for x in (tensor((64, 10)), tensor((64, 100)))
    ]
    assert [PREFIX in script for script in scripts] == [True, False]
