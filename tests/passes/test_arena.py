"""The memory plan's arena for intermediates: correct values in every kind of function and thread, and memory use."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from tvm import relax

import tvtf as tf
from tests.training_programs import cnn, transformer
from tvtf.passes.memory import memory_plan
from tvtf.runtime.arena import Layout

X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def layers(x):
    for _ in range(3):
        x = tf.tanh(tf.matmul(x, x) / 4.0)
    return x


def expected():
    x = X
    for _ in range(3):
        x = np.tanh(x @ x / 4)
    return x


def test_intermediates_of_known_size_are_planned():
    memory = tf.function(layers).memory(tf.TensorSpec([8, 8]))
    assert memory == (256, 256, 512, 512, 0)


def test_unknown_dims_are_not():
    memory = tf.function(layers).memory(tf.TensorSpec([None, None]))
    assert memory.arena == 0 and memory.unplanned > 0


def test_results_stay_as_they_are_when_the_function_is_called_again():
    run = tf.function(layers)
    first = run(tf.constant(X))
    kept = first.numpy().copy()
    run(tf.constant(X * 3))
    np.testing.assert_array_equal(first, kept)
    np.testing.assert_allclose(first, expected(), rtol=1e-5, atol=1e-6)


def test_reshapes_take_no_memory_of_their_own():
    def f(x):
        y = tf.reshape(tf.matmul(x, x), [4, 16])
        return tf.matmul(y, tf.reshape(tf.matmul(x, x + 1.0), [16, 4]))

    run = tf.function(f)
    np.testing.assert_allclose(run(tf.constant(X)), f(tf.constant(X)), rtol=1e-4, atol=1e-5)
    assert run.memory(tf.constant(X)).live <= 3 * 256


def test_reshapes_that_are_views_have_no_kernel():
    def products(x):
        return tf.matmul(tf.reshape(tf.matmul(x, x), [4, 16]), tf.reshape(tf.matmul(x, x + 1.0), [16, 4]))

    fn = tf.function(products)
    before, after = (str(fn.ir(X, after=phase)) for phase in ("donate", "arena"))
    assert "T_reshape" in before and "T_reshape" not in after


def test_a_reshaped_result_is_memory_of_its_own():
    @tf.function
    def f(x):
        y = tf.matmul(x, x)
        return tf.reshape(y, [64]), tf.matmul(y, y)

    flat, _ = f(tf.constant(X))
    kept = flat.numpy().copy()
    f(tf.constant(X + 1))
    np.testing.assert_array_equal(flat, kept)


@pytest.mark.parametrize("n", [0, 1, 5])
def test_loops_and_branches_compute_in_it(n):
    @tf.function
    def f(x, n):
        i = 0
        while i < n:
            if tf.reduce_sum(x) > 0.0:
                x = tf.tanh(tf.matmul(tf.matmul(x, x), x))
            else:
                x = tf.matmul(x + 1.0, x - 1.0) / 8.0
            i += 1
        return x

    def eager(x):
        for _ in range(n):
            x = np.tanh(x @ x @ x) if x.sum() > 0 else (x + 1) @ (x - 1) / 8
        return x

    np.testing.assert_allclose(f(tf.constant(X), tf.constant(n)), eager(X), rtol=1e-5, atol=1e-6)


def test_threads_have_arenas_of_their_own():
    run = tf.function(layers)
    inputs = [tf.constant(X * (1 + i)) for i in range(4)]
    alone = [run(x).numpy() for x in inputs]
    wrong = []

    def work(number):
        for _ in range(50):
            if not np.array_equal(run(inputs[number]).numpy(), alone[number]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_functions_of_a_thread_share_a_block_that_grows():
    from tvtf.runtime.arena import _blocks

    small, large = tf.function(layers), tf.function(layers)
    before = small(tf.constant(X)).numpy()
    large(tf.ones([64, 64]))
    assert max(b.memory.size for b in _blocks.free) >= 2 * 64 * 64 * 4
    np.testing.assert_array_equal(small(tf.constant(X)), before)


@pytest.mark.parametrize("program", [cnn, transformer])
def test_the_arena_of_a_training_step_is_little_more_than_what_is_live(program):
    step, batch = program(2)
    memory = step.memory(batch)
    assert memory.live <= memory.arena <= 1.2 * memory.live
    assert memory.results <= 64 and memory.unplanned == 0


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads Linux's resident size")
@pytest.mark.parametrize(("program", "batch"), [("cnn", 64), pytest.param("transformer", 32, marks=pytest.mark.sweep)])
def test_resident_memory_of_a_training_step_grows_by_little_more_than_what_is_live(program, batch):
    """In a process of its own: a small step first loads the compiler; code and threads are not counted."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.training_programs", program, str(batch)],
        capture_output=True,
        text=True,
        check=True,
    )
    grown, live = map(int, ran.stdout.split())
    assert live > 8e6
    assert grown <= 1.2 * live


def test_the_plan_is_the_same_every_time(tmp_path):
    program = """
import tvtf as tf
@tf.function
def f(x):
    for _ in range(6):
        x = tf.add_n([tf.matmul(part, part) for part in tf.split(tf.tanh(x), 6)])
        x = tf.concat([x] * 6, 0)
    return x
f(tf.ones((18, 3)))
"""
    plans = [_dumped(program, tmp_path / str(run)) for run in range(3)]
    assert plans[0] == plans[1] == plans[2]


def _dumped(program, folder):
    names = {"TVTF_DUMP": str(folder), "TVTF_CACHE_DIR": str(folder / "cache")}
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, **names})
    (plan,) = folder.glob("000/*_arena.py")
    return plan.read_text()


@pytest.mark.parametrize("dtype, item_bytes", [("float32x2", 8), ("float64x2", 16), ("bfloat16", 2), ("bool", 1)])
def test_temporary_tensors_have_room_for_their_items(dtype, item_bytes):
    """Complex numbers are pairs of floats in compiled code."""
    size = memory_plan.bytes_of(relax.TensorType([100, 3], dtype))
    assert size == memory_plan.align_up(300 * item_bytes)
    (tensor,) = Layout([size, 0, [100, 3], dtype]).tensors(np.zeros(size, np.uint8))
    assert (str(tensor.dtype), tuple(tensor.shape)) == (dtype, (100, 3))
