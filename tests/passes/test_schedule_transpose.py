"""Transposes of blocks in registers, and kernels over transposed operands: NumPy's values."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import HOST, TARGETS, compiled, run_te, tensor, values
from tvm import te, tirx

import tvtf as tf
from tvtf.passes.schedule.cpu import emit, schedule
from tvtf.passes.schedule.cpu.subroutine import PREFIX
from tvtf.passes.schedule.cpu.transpose import transposed_tile

few = settings(max_examples=12, deadline=None, derandomize=True)
TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "bool"]


def transposed(x, perm):
    place = {axis: position for position, axis in enumerate(perm)}
    return te.compute([x.shape[p] for p in perm], lambda *i: x(*(i[place[axis]] for axis in range(len(perm)))))


@few
@given(
    st.lists(st.sampled_from([1, 2, 5, 16, 17, 40]), min_size=2, max_size=4).flatmap(
        lambda shape: st.tuples(st.just(shape), st.permutations(range(len(shape))))
    ),
    st.sampled_from(TYPES),
    st.sampled_from(TARGETS),
)
def test_any_order_of_axes(case, dtype, target) -> None:
    shape, perm = case
    x, a = tensor(shape, dtype), values(shape, dtype)
    want = a.transpose(perm)
    np.testing.assert_array_equal(run_te(transposed(x, perm), {x: a}, want.shape, target), want)


@few
@given(st.sampled_from([3, 16, 130]), st.sampled_from([2, 31, 300]), st.sampled_from(TARGETS))
def test_both_ways_in_one_pass(rows, columns, target) -> None:
    x, z, b = tensor((rows, columns)), tensor((columns, rows), name="z"), tensor((rows,), name="b")
    y = te.compute(z.shape, lambda i, j: x[j, i] * x[j, i] + z[i, j] - b[j])
    a, c, d = values((rows, columns)), values((columns, rows)), values((rows,))
    np.testing.assert_allclose(run_te(y, {x: a, z: c, b: d}, c.shape, target), a.T**2 + c - d, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 3, 50])
@pytest.mark.parametrize("perm", [(1, 0, 2), (2, 1, 0), (1, 2, 0)])
def test_rows_of_unknown_number(rows, perm) -> None:
    x, a = tensor((tirx.Var("n", "int64"), 20, 6)), values((rows, 20, 6))
    want = a.transpose(perm)
    np.testing.assert_array_equal(run_te(transposed(x, perm), {x: a}, want.shape, HOST), want)


def test_what_a_condition_guards_is_not_read_ahead() -> None:
    x, a = tensor((40, 33)), values((40, 33))
    edge = tirx.const(0, "float32")
    size = tirx.IntImm("int64", 50)
    y = te.compute((x.shape[1], size), lambda i, j: tirx.if_then_else(j < 40, x[j, i], edge))
    np.testing.assert_array_equal(run_te(y, {x: a}, (33, 50), HOST), np.pad(a.T, ((0, 0), (0, 10))))
    assert "Shuffle" not in schedule(te.create_prim_func([x, y]), HOST).script()


@pytest.mark.parametrize(("lanes", "rows"), [(2, 2), (4, 3), (8, 8), (16, 16), (16, 5)])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_transposed_tile(lanes: int, rows: int, dtype: str) -> None:
    source, target = (tirx.decl_buffer((lanes, lanes), dtype, name) for name in ("source", "target"))
    body = transposed_tile(
        lambda row, lane: emit.load(source, [emit.index(row), lane]),
        lambda column, lane, item: emit.store(target, item, [emit.index(column), lane]),
        (rows, lanes),
        lanes,
        dtype,
    )
    func = tirx.PrimFunc([source, target], body).with_attrs({"global_symbol": "main", "s_tir": True})
    given, result = values((lanes, lanes), dtype), tvm.runtime.tensor(np.full((lanes, lanes), 77, dtype))
    compiled({"main": func}, HOST)["main"](tvm.runtime.tensor(given), result)
    want = given.T.copy()
    want[:, rows:] = 0
    np.testing.assert_array_equal(result.numpy(), want)


@pytest.mark.parametrize(("size", "is_turned"), [(32, False), (64, True)])
def test_little_operands_are_not_turned_over_in_registers(size, is_turned) -> None:
    """The shuffles of one block are longer than all else: what is done within a microsecond needs none."""
    x, a = tensor((size, size)), values((size, size))
    y = transposed(x, (1, 0))
    np.testing.assert_array_equal(run_te(y, {x: a}, a.shape, HOST), a.T)
    text = schedule(te.create_prim_func([x, y]), HOST).script()
    assert ("Shuffle" in text or PREFIX in text) == is_turned


@pytest.mark.parametrize("reduce", [tf.reduce_any, tf.reduce_all])
@pytest.mark.parametrize("rows", [16, 999, 1000])
def test_rows_of_bools_are_reduced(reduce, rows) -> None:
    """TVM rewrites bools to bytes, but no shuffles of them: a mask of 1000 by 16 could not be compiled."""
    mask = np.random.default_rng(rows).random((rows, 16)) > 0.95
    reduced = tf.function(lambda x: reduce(tf.logical_not(x), axis=1))(mask)
    np.testing.assert_array_equal(reduced, reduce(~mask, axis=1))
