"""Impossible sizes end in numbers or tvtf's errors, never in a signal; values used only for their shape aren't computed."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import size_programs
import tvm
from schedule_programs import HOST, compiled
from tvm import te, tirx

import tvtf as tf

PROGRAM = Path(size_programs.__file__)
FEW = ("shape_zeros64", "softmax")


def errors_of(names):
    """What the programs print, in a process whose memory is bounded."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, PROGRAM, ",".join(names)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, f"{run.stdout[-300:]} {run.stderr[-600:]}"
    lines = run.stdout.splitlines()
    assert len(lines) == len(names) * len(size_programs.SIZES), run.stdout[-600:]
    return lines


def test_sizes_that_overflow():
    lines = errors_of(FEW)
    assert f"shape_zeros64 {1 << 61} [(2,)]" in lines
    rejected = [line for line in lines if f" {1 << 61} " in line and "Error" in line]
    assert len(rejected) == len(FEW) - 1


@pytest.mark.sweep
def test_sizes_that_overflow_in_every_program():
    assert not [line for line in errors_of([*size_programs.programs()]) if "InternalError" in line]


@tf.function(input_signature=[tf.TensorSpec([], tf.int64)])
def shape_and_size(n):
    x = tf.zeros([n, 2])
    return tf.shape(x, tf.int64), tf.size(x, tf.int64)


def test_the_shape_of_a_value_that_is_not_computed():
    assert [t.numpy().tolist() for t in shape_and_size(tf.constant(1 << 40, tf.int64))] == [[1 << 40, 2], 1 << 41]
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than int64 counts"):
        shape_and_size(tf.constant(1 << 62, tf.int64))


@pytest.mark.parametrize("op", [tf.shape, tf.size])
def test_a_shape_that_int32_does_not_hold_is_rejected(op):
    few, many = tf.constant(3, tf.int64), tf.constant(1 << 31, tf.int64)
    run = tf.function(lambda n: op(tf.zeros([n, 2])))
    assert run(few).numpy().max() >= 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="more than int32 counts"):
        run(many)
    with pytest.raises(tf.errors.InvalidArgumentError, match="output type is 32-bit but dim 0 is"):
        tf.function(lambda: op(tf.zeros([1 << 32])))()


def test_an_unstored_tensor_of_computed_size_is_rejected():
    v = tf.Variable(1.0)

    @tf.function
    def run(n):
        v.assign(2.0)
        total = tf.reduce_sum(tf.range(n))
        v.assign(3.0)
        return total

    with pytest.raises(tf.errors.ResourceExhaustedError, match=r"OOM .* one of: Range \(told,\) .*test_sizes.py, line"):
        run(tf.constant(1 << 60, tf.int64))
    assert v.numpy() == 2.0
    assert run(tf.constant(4, tf.int64)).numpy() == 6


def test_a_kernel_requests_its_workspace():
    """A kernel's own intermediate of a size that a call tells: the kernel fails, and the process goes on."""
    n = tirx.Var("n", "int64")
    x = te.placeholder((n,), "float32", "x")
    separate = te.compute((n, n), lambda i, j: x[i] * x[j], "apart")
    out = te.compute((n,), lambda i: separate[i, n - 1 - i] + separate[0, i], "out")
    squares = compiled({"squares": te.create_prim_func([x, out]).with_attr("global_symbol", "squares")}, HOST)[
        "squares"
    ]
    small, large = (tvm.runtime.tensor(np.ones(size, np.float32)) for size in (3, 1 << 23))
    squares(small, small)
    assert small.numpy().tolist() == [2.0] * 3
    with pytest.raises(
        RuntimeError, match="ResourceExhaustedError:squares: OOM when allocating a workspace of .*n.* bytes"
    ):
        squares(large, large)
