"""Passes run only on functions that they can change."""

import numpy as np
import pytest
import tvm
from tvm import te
from tvm.script import tirx as T  # noqa: N812 - TVM's own name for it

import tvtf as tf
from tvtf.passes.codegen.selective_passes import (
    has_blocks_to_lower,
    has_invariant_branches,
    has_vector_indices,
    run_only_where,
)
from tvtf.passes.schedule.cpu import schedule
from tvtf.runtime.target import host_target


@T.prim_func(s_tir=True)
def polls_once(x: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        if n > 3:
            x[i] = T.float32(1)


@T.prim_func(s_tir=True)
def polls_each_iteration(x: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        if n > i:
            x[i] = T.float32(1)


@T.prim_func(s_tir=True)
def polls_what_it_reads(x: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(16):
        if x[0] > T.float32(1):
            x[i] = T.float32(n)


@T.prim_func(s_tir=True)
def polls_in_an_inner_loop(x: T.Buffer((16,), "float32"), n: T.int32):
    for i in range(4):
        for j in range(4):
            if n > i:
                x[i * 4 + j] = T.float32(1)


@pytest.mark.parametrize(
    "func, polls",
    [(polls_once, True), (polls_each_iteration, False), (polls_what_it_reads, False), (polls_in_an_inner_loop, True)],
)
def test_questions_with_one_answer_in_a_loop(func, polls):
    assert has_invariant_branches(func) is polls


@T.prim_func(s_tir=True)
def copies_neighbours(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in T.serial(T.int64(8)):
        for lane in T.vectorized(T.int64(8)):
            y[i * T.int64(8) + lane] = x[i * T.int64(8) + lane]


@T.prim_func(s_tir=True)
def copies_every_second(x: T.Buffer((64,), "float32"), y: T.Buffer((32,), "float32")):
    for i in T.serial(T.int64(4)):
        for lane in T.vectorized(T.int64(8)):
            y[i * T.int64(8) + lane] = x[(i * T.int64(8) + lane) * T.int64(2)]


@T.prim_func(s_tir=True)
def repeats(x: T.Buffer((64,), "float32"), y: T.Buffer((64,), "float32")):
    for i in T.serial(T.int64(8)):
        for lane in T.vectorized(T.int64(8)):
            y[i * T.int64(8) + lane] = x[(i * T.int64(8) + lane) // T.int64(3)]


@pytest.mark.parametrize("func, computes", [(copies_neighbours, False), (copies_every_second, True), (repeats, True)])
def test_vectors_of_indices_are_seen(func, computes):
    vectorized = tvm.tirx.transform.VectorizeLoop(True)(tvm.IRModule({"main": func}))["main"]
    assert has_vector_indices(vectorized) is computes


def test_what_a_schedule_writes_has_no_blocks_to_lower():
    rows, columns = tvm.tirx.IntImm("int64", 8), tvm.tirx.IntImm("int64", 64)
    x = te.placeholder((rows, columns), "float32", name="x")
    func = te.create_prim_func([x, te.compute(x.shape, lambda i, j: x[i, j] + 1.0)]).with_attr("global_symbol", "main")
    assert has_blocks_to_lower(func)
    assert not has_blocks_to_lower(schedule(func, host_target()))


@pytest.mark.parametrize("columns", [1, 4, 7, 16, 33])
@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_numbers_that_look_like_indices_keep_their_size(columns, dtype):
    far = tf.function(lambda k: tf.range(3, dtype=dtype)[:, None] * 5 - tf.range(columns, dtype=dtype) + k)
    np.testing.assert_array_equal(far(tf.constant(7, dtype)), np.arange(3)[:, None] * 5 - np.arange(columns) + 7)


@pytest.mark.parametrize("lower, upper", [(0, -1), (1, 2), (-1, 0)])
def test_bands_of_matrices_are_where_they_are(lower, upper):
    x = np.arange(1.0, 85.0, dtype=np.float32).reshape(7, 12)
    band = tf.function(tf.linalg.band_part)(x, tf.constant(lower), tf.constant(upper))
    np.testing.assert_array_equal(band, tf.linalg.band_part(x, lower, upper))
    rows, columns = np.indices(x.shape)
    inside = ((lower < 0) | (rows - columns <= lower)) & ((upper < 0) | (columns - rows <= upper))
    np.testing.assert_array_equal(band, np.where(inside, x, 0))


def test_a_pass_sees_only_what_it_is_for():
    seen = []

    @tvm.transform.module_pass(opt_level=0, name="Noted")
    def noted(mod, _context):
        seen.extend(name.name_hint for name in mod.functions)
        return tvm.IRModule({name: func.with_attr("noted", True) for name, func in mod.functions_items()})

    mod = tvm.IRModule({"once": polls_once, "each": polls_each_iteration})
    done = run_only_where(noted, has_invariant_branches)(mod)
    assert seen == ["once"] and done["once"].attrs["noted"] and "noted" not in done["each"].attrs
    assert len(done.functions) == 2 and run_only_where(noted, lambda _: False)(mod).same_as(mod)


def test_a_long_chain_gives_what_its_ops_give_one_by_one(own_cache):
    ops = [tf.sin, tf.nn.softplus, tf.tanh, tf.math.erf, tf.exp, tf.sigmoid]

    def chain(x):
        for i in range(90):
            x = ops[i * 7 % 6](x) * 0.5
        return x

    x = tf.constant(np.linspace(-2, 2, 37, dtype="float32"))
    np.testing.assert_allclose(tf.function(chain)(x), chain(x), rtol=1e-5, atol=1e-6)
