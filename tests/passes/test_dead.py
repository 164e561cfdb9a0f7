"""Dead code is removed, except for what symbolic dims need."""

import pytest

import tvtf as tf
from tvtf.ir import dialect
from tvtf.passes.analysis.dead_code import drop_dead


def _ops(mod):
    return [
        dialect.read(b.value).primitive.name
        for block in mod["main"].body.blocks
        for b in block.bindings
        if dialect.is_dialect(b.value)
    ]


def _module(function, *specs):
    return tf.function(function).get_concrete_function(*specs).module()


def test_unused_bindings_are_dropped():
    mod = _module(lambda x: (tf.sin(x), tf.cos(tf.exp(x)))[0], tf.TensorSpec([3]))
    assert _ops(mod) == ["sin", "exp", "cos"]
    assert _ops(drop_dead(mod)) == ["sin"]


def test_effects_stay():
    def printing(x):
        tf.print(x)
        return tf.sin(x)

    assert _ops(drop_dead(_module(printing, tf.TensorSpec([3])))) == ["print_text", "sin"]


def test_uncalled_functions_are_dropped():
    def branching(x, flag):
        tf.cond(flag, lambda: tf.sin(x), lambda: tf.cos(x))
        return x + 1.0

    mod = _module(branching, tf.TensorSpec([3]), tf.TensorSpec([], tf.bool))
    assert len(mod.functions) == 3
    assert len(drop_dead(mod).functions) == 1


def test_a_tensor_whose_dims_are_used_stays():
    counted = _module(lambda x: tf.zeros(tf.shape(tf.where(x))[0]), tf.TensorSpec([4], tf.bool))
    assert "true_places" in _ops(drop_dead(counted))


@pytest.mark.parametrize("flags", [[True, False, True], [False, False, False]])
def test_zeros_as_many_as_places_that_hold(flags):
    assert tf.function(lambda x: tf.zeros(tf.shape(tf.where(x))[0]))(tf.constant(flags)).shape == [sum(flags)]
