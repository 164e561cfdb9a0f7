"""The fourth way to compute a value: `tvtf compile`d libraries, from Python and from C, against the NumPy column and eager code."""

import numpy as np
import pytest
import tolerances
from library_support import c_runner, library_differences, run_in_c, runs_without_python, written
from table_support import all_cases, mismatch, some_cases
from test_primitives import LOWERED, each, message, symbolic_cases

import tvtf as tf
from tvtf.passes.codegen.bytecode import Code
from tvtf.passes.codegen.planned_tensors import ArenaTensor, Scratch
from tvtf.saved.library import Library

SAMPLE = 4
"""One primitive in so many is compiled into a library by the default suite, all of them by the sweeps."""
TOGETHER = 20


def held(cases):
    return [c for c in cases if c.is_compiled and runs_without_python(c)]


def lines_of(cases):
    """The differences of all cases, so many in one library, with fixed and with unknown dims."""
    lines = []
    for chosen, symbolic in ((cases, False), (symbolic_cases(cases), True)):
        for start in range(0, len(chosen), TOGETHER):
            lines += library_differences(chosen[start : start + TOGETHER], symbolic)
    return lines


def test_a_library_of_several_primitives_is_the_numpy_column():
    lines = lines_of([c for prim in LOWERED[::SAMPLE] for c in held(all_cases(prim))[:1]])
    assert not lines, message(lines)


@pytest.mark.sweep
@each([p for p in LOWERED if held(all_cases(p))])
def test_a_library_is_the_numpy_column(prim):
    lines = lines_of(held(some_cases(prim)))
    assert not lines, message(lines)


# -- whole programs, whose intermediate values lie side by side in one block of memory


def weights(*shape, dtype="float32", seed=0):
    return tf.constant(np.random.default_rng(seed).normal(size=shape) * 0.2, dtype)


def cumulative(x):
    return tf.concat([tf.cumsum(x[:, :2], 1), tf.cumsum(x[:, 2:], 1)], 1)


def narrow_mlp(x):
    y = tf.cast(x, tf.bfloat16)
    for seed, (rows, columns) in enumerate([(4, 32), (32, 32), (32, 8)]):
        y = tf.nn.relu(tf.matmul(y, weights(rows, columns, dtype="bfloat16", seed=seed)))
    return tf.cast(tf.nn.softmax(y), tf.float32)


def residual(images):
    y = tf.nn.relu(tf.nn.conv2d(images, weights(3, 3, 4, 4), 1, "SAME"))
    y = tf.nn.conv2d(y, weights(3, 3, 4, 4, seed=1), 1, "SAME")
    return tf.reduce_mean(tf.nn.relu(images + y), axis=[1, 2])


def two_towers(x, y):
    left = tf.math.l2_normalize(tf.matmul(tf.tanh(tf.matmul(x, weights(4, 16))), weights(16, 8)), axis=1)
    right = tf.math.l2_normalize(
        tf.matmul(tf.tanh(tf.matmul(y, weights(4, 16, seed=1))), weights(16, 8, seed=2)), axis=1
    )
    return tf.matmul(left, right, transpose_b=True), left, right


def embedding(ids):
    rows = tf.gather(weights(10, 6), ids)
    mask = tf.cast(ids > 0, tf.float32)[:, :, None]
    return tf.reduce_sum(rows * mask, 1) / tf.maximum(tf.reduce_sum(mask, 1), 1.0)


def loop(x):
    for _ in tf.range(3):
        x = tf.concat([tf.cumsum(x[:, :2], 1), tf.nn.softmax(x[:, 2:])], 1)
    return x


def branches(x):
    doubled = tf.sort(x, axis=1)
    return tf.cond(
        tf.reduce_sum(x) > 0,
        lambda: tf.cumsum(doubled, 0),
        lambda: tf.matmul(doubled, doubled, transpose_a=True)[:1] + x,
    )


def passed_on(x, y):
    """Results that are arguments, constants, and one value twice."""
    total = tf.cumsum(x, 0)
    return x, total, tf.constant([1, 2, 3]), total, y, tf.zeros([0])


FLOATS = tf.TensorSpec([6, 4])
PROGRAMS = {
    "cumulative sums": (cumulative, [FLOATS]),
    "MLP in bfloat16": (narrow_mlp, [FLOATS]),
    "residual block": (residual, [tf.TensorSpec([2, 6, 6, 4])]),
    "two towers": (two_towers, [FLOATS, FLOATS]),
    "embedding with a mask": (embedding, [tf.TensorSpec([3, 5], tf.int32)]),
    "loop": (loop, [FLOATS]),
    "branches": (branches, [FLOATS]),
    "arguments and constants as results": (passed_on, [FLOATS, FLOATS]),
    "one argument as the result": (lambda x: x, [FLOATS]),
    "one constant as the result": (lambda x: tf.constant([1.5, 2.5]), [FLOATS]),
}


def passed_on(x, y):
    """Results that are arguments, constants, and one value twice."""
    total = tf.cumsum(x, 0)
    return x, total, tf.constant([1, 2, 3]), total, y, tf.zeros([0])


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    found = c_runner(tmp_path_factory.mktemp("runner"))
    if found is None:
        pytest.skip("no C compiler (cc) on this machine")
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_library_of_a_program_gives_what_eager_code_gives_in_python_and_in_c(name, runner, tmp_path):
    python, specs = PROGRAMS[name]
    arrays = [drawn(seed, spec) for seed, spec in enumerate(specs)]
    with tf.init_scope():
        eager = tf.nest.flatten(python(*map(tf.constant, arrays)))
    path = written(tf.function(python), specs, tmp_path)
    for found in (Library(path).run(arrays), run_in_c(runner, path, arrays)):
        assert len(found) == len(eager)
        for a, b in zip(found, eager):
            tolerance = tolerances.of("matmul", "bfloat16" if "bfloat16" in name else "float32")
            assert mismatch(a, b.numpy(), tolerance) is None, mismatch(a, b.numpy(), tolerance)


def drawn(seed, spec):
    rng = np.random.default_rng(seed)
    if spec.dtype.is_integer:
        return rng.integers(0, 10, spec.shape).astype(spec.dtype.np)
    return rng.normal(size=spec.shape).astype(spec.dtype.np)


def test_an_unaligned_offset_in_the_arena_is_rejected():
    scratch = Scratch(Code(None, 0), 256, by_caller=False)
    scratch.code.constant = lambda value: value
    scratch.register(ArenaTensor(64, (4,), "float32"))
    with pytest.raises(tf.errors.InternalError, match="the arena offset 80 is not a multiple of 64"):
        scratch.register(ArenaTensor(80, (4,), "float32"))
