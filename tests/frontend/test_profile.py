"""What a compiled function's kernels cost, counted and timed."""

from pathlib import Path

import numpy as np
import pytest

import tvtf as tf

HERE = str(Path(__file__))


@tf.function
def dense(x, w):
    return tf.nn.relu(tf.matmul(x, w) + 1.0)


def test_arithmetic_and_bytes_of_a_fused_kernel():
    (kernel,) = dense.cost(tf.TensorSpec([8, 4]), tf.TensorSpec([4, 2]))
    assert kernel.flops == 2 * 8 * 4 * 2 + 8 * 2
    assert kernel.bytes == 4 * (8 * 4 + 4 * 2 + 1 + 8 * 2)


@pytest.mark.parametrize("rows", [1, 8])
def test_bias_and_activation_end_the_kernel_of_the_product(rows):
    (kernel,) = dense.cost(tf.TensorSpec([rows, 4]), tf.TensorSpec([4, 2]))
    assert kernel.flops == 2 * rows * 4 * 2 + rows * 2


def test_the_lines_are_the_users():
    (kernel,) = dense.cost(tf.TensorSpec([8, 4]), tf.TensorSpec([4, 2]))
    line = dense.python_function.__code__.co_firstlineno + 2
    assert kernel.lines == ((HERE, line),)


def test_costs_of_unknown_sizes_are_unknown():
    (kernel,) = dense.cost(tf.TensorSpec([None, 4]), tf.TensorSpec([4, 2]))
    assert (kernel.flops, kernel.bytes) == (None, None)


def test_a_profile_times_the_kernels_of_a_call():
    profile = dense.profile(tf.ones([8, 4]), tf.ones([4, 2]), repeat=3)
    (kernel,) = (k for k in profile.kernels if k.cost)
    assert (kernel.calls, kernel.cost.flops) == (1, 144)
    assert 0 < kernel.seconds <= profile.seconds
    assert kernel.gigaflops == pytest.approx(144 / kernel.seconds * 1e-9)
    assert kernel.gigabytes == pytest.approx(228 / kernel.seconds * 1e-9)


def test_a_loop_is_one_kernel():
    @tf.function
    def powers(x):
        i = tf.constant(0)
        while i < 7:
            x = tf.matmul(x, x)
            i += 1
        return x

    profile = powers.profile(tf.ones([2, 2]))
    assert [k.calls for k in profile.kernels if k.name == "loop"] == [1]


def test_variables_keep_their_values():
    v = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        v.assign_add(x)
        return v * 2.0

    profile = step.profile(tf.constant([1.0, 1.0]), repeat=2)
    assert any(k.cost for k in profile.kernels)
    np.testing.assert_array_equal(v.numpy(), [1.0, 2.0])


def test_the_table_names_time_rates_kernel_and_line():
    profile = dense.profile(tf.ones([8, 4]), tf.ones([4, 2]), repeat=1)
    head, *lines = str(profile).splitlines()
    assert head.split() == ["us", "share", "calls", "GF/s", "GB/s", "kernel"]
    (line,) = (line for line in lines if Path(__file__).name in line)
    (kernel,) = (k for k in profile.kernels if k.cost)
    assert f"{kernel.name}  {Path(__file__).name}:{kernel.cost.lines[0][1]}" in line
    assert line.split()[2] == "1"


def test_a_function_without_kernels_has_an_empty_profile():
    assert tf.function(lambda x: x).profile(tf.ones([2])).kernels == ()


def test_no_runs_are_rejected():
    with pytest.raises(
        ValueError, match="^profile runs the function `repeat` times, which must be 1 or more, but got 0$"
    ):
        dense.profile(tf.ones([8, 4]), tf.ones([4, 2]), repeat=0)


def test_specs_are_rejected():
    text = "^dense is run in order to be timed: pass it tensors in place of tf.TensorSpecs$"
    for measured in (dense.profile, dense.tune):
        with pytest.raises(TypeError, match=text):
            measured(tf.TensorSpec([8, 4]), tf.ones([4, 2]))


def test_an_error_of_the_timed_function_is_that_of_its_calls():
    @tf.function
    def total(x, rows):
        return tf.reduce_sum(next(rows)) if tf.reduce_sum(x) > 0 else 0.0

    rows = tf.data.Dataset.from_tensors(np.ones(2, np.float32))
    advice = r"End of sequence.*total is called several times: pass it an iterator over `dataset.repeat\(\)`"
    for measured in (total.profile, total.tune):
        with pytest.raises(tf.errors.OutOfRangeError, match=advice):
            measured(tf.ones([2]), iter(rows))
    assert total.profile(tf.ones([2]), iter(rows.repeat())).kernels

    @tf.function
    def checked(x):
        tf.debugging.assert_positive(x, message="is negative")
        return x + 1.0

    with pytest.raises(tf.errors.InvalidArgumentError, match="is negative"):
        checked.profile(tf.constant([-1.0]))
