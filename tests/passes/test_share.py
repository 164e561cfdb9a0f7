"""Kernels of the same structure are one: counts of kernels, and the numbers that the program gives."""

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import tvtf as tf
from tvtf.passes import pipeline
from tvtf.passes.analysis.rewriter import Bindings
from tvtf.passes.lower.dedup_kernels import share_kernels
from tvtf.runtime.target import host_target

ROWS = tf.TensorSpec([None, 4])


def chain(x, factors):
    for factor in factors:
        x = tf.nn.softmax(tf.exp(x) @ (tf.eye(4) * factor))
    return x


def counts(function):
    """How many kernels there are before and after each is there once, and how many kinds there are."""
    mod = function.get_concrete_function().module()
    target = host_target()
    with target, tvm.transform.PassContext(opt_level=3):
        for phase in pipeline.phases(target):
            if phase.name == "share":
                shared = phase.run(mod)
                return len(kernels(mod)), len(kernels(shared)), len({str(k.body) for k in kernels(shared)})
            mod = phase.run(mod)
    raise AssertionError("no phase shares kernels")


def kernels(mod):
    return [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]


@pytest.mark.parametrize("spec", [ROWS, tf.TensorSpec([3, 4])])
def test_calls_of_unknown_dims_share_kernels(spec):
    function = tf.function(lambda x: chain(x, range(1, 7)), input_signature=[spec], autograph=False)
    before, after, kinds = counts(function)
    assert after <= before
    assert after == kinds
    few = tf.function(lambda x: chain(x, range(1, 4)), input_signature=[spec], autograph=False)
    assert counts(few)[1] == after
    x = np.random.RandomState(0).randn(3, 4).astype("float32")
    np.testing.assert_allclose(function(x), chain(tf.constant(x), range(1, 7)), rtol=1e-5)


@pytest.mark.parametrize(("pure", "left"), [(True, 1), (False, 2)])
def test_kernels_with_effects_are_not_shared_with_those_that_return_results(pure, left):
    func = copy_of_one()
    names = [tvm.ir.GlobalVar(name) for name in "abc"]
    for name in names:
        own = name is names[0] or pure
        Bindings.typed(name, relax.FuncType(func.ty.params, func.ty.ret, own))
    assert len(share_kernels(tvm.IRModule(dict.fromkeys(names, func))).functions) == left


def test_kernels_that_are_called_from_outside_are_kept():
    entries = {tvm.ir.GlobalVar(name): copy_of_one().with_attr("global_symbol", name) for name in "abc"}
    assert len(share_kernels(tvm.IRModule(entries)).functions) == 3


def copy_of_one():
    x, y = (tirx.decl_buffer((4,), "float32", name) for name in "xy")
    return tirx.PrimFunc([x, y], tirx.BufferStore(y, tirx.BufferLoad(x, [0]), [0])).with_attr("s_tir", True)
