"""Operations whose results have no elements: nothing is computed for them, but their operands are checked."""

import numpy as np
import pytest

import tvtf as tf
from tvtf.passes.lower.legalize import legalize

SPEC = tf.TensorSpec([2, 4, 4])


def names_of_kernels(function, *specs):
    module = tf.function(function, autograph=False).get_concrete_function(*specs).module()
    return sorted(var.name_hint for var, _ in legalize(module).functions_items() if var.name_hint != "main")


def cut(x):
    return tf.concat([x, x], 2)[1:1, 3:4, 2]


def test_operands_of_empty_results_are_not_computed(capfd, own_cache):
    assert names_of_kernels(cut, SPEC) == ["empty_1"]  # the first was the slice's, and the reshape needs no operand
    assert tf.function(cut, autograph=False)(tf.ones([2, 4, 4])).shape == (0, 1)
    assert capfd.readouterr() == ("", "")  # TVM warns of dead code


def test_other_results_are_computed():
    kernels = names_of_kernels(lambda x: (cut(x), tf.concat([x, x], 2)), SPEC)
    assert kernels == ["concat", "empty_1"]


@pytest.mark.parametrize("rows", [0, 3])
def test_results_of_unknown_sizes_agree(rows):
    x = np.ones([rows, 4], np.float32)
    function = tf.function(lambda x: tf.sin(x)[:, 2:2] + 1.0, input_signature=[tf.TensorSpec([None, 4])])
    assert function(x).shape == (rows, 0)


def test_indices_of_empty_results_are_checked():
    gather = tf.function(lambda x, i: tf.gather(x, i + 1), autograph=False)
    assert gather(tf.zeros([3, 0]), tf.constant([1])).shape == (1, 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices are not in \[0, 3\)"):
        gather(tf.zeros([3, 0]), tf.constant([2]))
