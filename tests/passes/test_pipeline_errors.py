"""Errors of passes, which TVM calls, as the user gets them."""

import pytest
import tvm

import tvtf as tf
from tvtf import extend


def test_ctrl_c_in_a_pass_is_raised_as_such():
    tf.function(lambda x: x + 1.0)(tf.ones(2))  # imports the compiler

    @tvm.ir.transform.module_pass(opt_level=0)
    def interrupted(mod, context):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted(tvm.IRModule())


def test_the_compiler_can_be_used_after_ctrl_c_in_a_pass():
    interruptions = []

    @tvm.ir.transform.module_pass(opt_level=0)
    def interrupted(mod, context):
        if not interruptions:
            interruptions.append(1)
            raise KeyboardInterrupt
        return mod

    extend.add_pass("interrupted", interrupted)
    try:
        function = tf.function(lambda x: x * 3.0 + 0.25)
        with pytest.raises(KeyboardInterrupt):
            function(tf.ones([2, 5]))
        assert function(tf.ones([2, 5])).numpy().tolist() == [[3.25] * 5] * 2
    finally:
        extend.remove_pass("interrupted")
