"""Passes run only on functions that they can change."""

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T  # noqa: N812 - TVM's own name for it

import tvtf as tf
from tvtf.passes.codegen.selective_passes import has_invariant_branches, only


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


def test_a_pass_sees_only_what_it_is_for():
    seen = []

    @tvm.transform.module_pass(opt_level=0, name="Noted")
    def noted(mod, _context):
        seen.extend(name.name_hint for name in mod.functions)
        return tvm.IRModule({name: func.with_attr("noted", True) for name, func in mod.functions_items()})

    mod = tvm.IRModule({"once": polls_once, "each": polls_each_iteration})
    done = only(noted, has_invariant_branches)(mod)
    assert seen == ["once"] and done["once"].attrs["noted"] and "noted" not in done["each"].attrs
    assert len(done.functions) == 2 and only(noted, lambda _: False)(mod).same_as(mod)


def test_a_long_chain_gives_what_its_ops_give_one_by_one(own_cache):
    ops = [tf.sin, tf.nn.softplus, tf.tanh, tf.math.erf, tf.exp, tf.sigmoid]

    def chain(x):
        for i in range(90):
            x = ops[i * 7 % 6](x) * 0.5
        return x

    x = tf.constant(np.linspace(-2, 2, 37, dtype="float32"))
    np.testing.assert_allclose(tf.function(chain)(x), chain(x), rtol=1e-5, atol=1e-6)
