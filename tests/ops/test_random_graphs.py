"""Random programs: eager, compiled, interpreted, as ONNX and as a library, for fixed and for unknown dims, give the same."""

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from columns import FIXED, UNKNOWN, Program, differences

import tvtf as tf

COLUMNS = 3
TOLERANCE = 1e-4
"""Some dozen float32 ops in a row, each within a few units of 6e-8, whose errors the next ones stretch."""

UNARY = {
    "sin": lambda a: tf.sin(a),
    "cos": lambda a: tf.cos(a),
    "tanh": lambda a: tf.tanh(a),
    "sigmoid": lambda a: tf.sigmoid(a),
    "relu": lambda a: tf.nn.relu(a),
    "softmax": lambda a: tf.nn.softmax(a),
    "log_softmax": lambda a: tf.nn.log_softmax(a),
    "abs": lambda a: tf.abs(a),
    "negative": lambda a: tf.negative(a),
    "bell": lambda a: tf.exp(tf.negative(tf.square(a))),
    "norm": lambda a: tf.sqrt(tf.add(tf.square(a), 1.0)),
    "log": lambda a: tf.math.log(tf.add(tf.abs(a), 1.0)),
    "center": lambda a: tf.subtract(a, tf.reduce_mean(a, axis=1, keepdims=True)),
    "share": lambda a: tf.multiply(a, tf.tanh(tf.reduce_sum(a, axis=0, keepdims=True))),
    "top": lambda a: tf.subtract(a, tf.reduce_max(a, axis=1, keepdims=True)),
    "bottom": lambda a: tf.subtract(a, tf.reduce_min(a)),
    "turn": lambda a: tf.transpose(tf.tanh(tf.transpose(a))),
    "flat": lambda a: tf.reshape(tf.sin(tf.reshape(a, [-1])), [-1, COLUMNS]),
    "mixed": lambda a: tf.tanh(tf.matmul(a, tf.constant(WEIGHTS, a.dtype))),
    "steps": lambda a: tf.cast(tf.cast(tf.greater(a, 100.0), tf.int32), a.dtype),
    "twice": lambda a: tf.reduce_sum(tf.stack([a, a], axis=0), axis=0),
    "parts": lambda a: tf.concat(tf.split(a, COLUMNS, axis=1)[::-1], axis=1),
}
BINARY = {
    "add": lambda a, b: tf.add(a, b),
    "subtract": lambda a, b: tf.subtract(a, b),
    "multiply": lambda a, b: tf.tanh(tf.multiply(a, b)),
    "divide": lambda a, b: tf.divide(a, tf.add(tf.square(b), 1.0)),
    "maximum": lambda a, b: tf.maximum(a, b),
    "minimum": lambda a, b: tf.minimum(a, b),
    "choose": lambda a, b: tf.where(tf.less(a, b), b, a),
    "gram": lambda a, b: tf.tanh(tf.matmul(tf.matmul(a, b, transpose_b=True), a)),
}
WEIGHTS = [[0.5, -0.25, 1.0], [0.125, 0.75, -0.5], [-1.0, 0.25, 0.5]]


def run_program(steps, *inputs):
    """Every step makes a tensor of the inputs' shape from earlier ones; the last comes out."""
    values = list(inputs)
    for name, *operands in steps:
        chosen = [values[i % len(values)] for i in operands]
        values.append((UNARY | BINARY)[name](*chosen))
    return values[-1]


def program(steps, rows, dtype=np.float32, bound=2.0, tolerance=TOLERANCE):
    arrays = [np.random.default_rng(i).uniform(-bound, bound, (rows, COLUMNS)).astype(dtype) for i in range(2)]
    dims = ((f"rows_{rows}", None),) * 2
    return Program(f"{steps} of {rows} rows", lambda *x: run_program(steps, *x), tuple(arrays), dims, tolerance)


def drawn(rng, fewest=1, most=8):
    """A list of steps: their names, and the numbers of the values that they take."""
    steps = []
    for _ in range(rng.integers(fewest, most + 1)):
        table = UNARY if rng.random() < 0.5 else BINARY
        count = 1 if table is UNARY else 2
        steps.append((str(rng.choice(sorted(table))), *rng.integers(0, 100, count).tolist()))
    return steps


def batch(seed, count=50, most_rows=9):
    rng = np.random.default_rng(seed)
    return [program(drawn(rng), int(rng.integers(1, most_rows + 1))) for _ in range(count)]


def agree(programs, ways=(*FIXED, *UNKNOWN)):
    lines = differences(programs, ways)
    assert not lines, "\n".join(["", *lines])


SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]
SKIPS_NAN = {"top", "bottom"}
"""Steps whose ONNX operators (ReduceMax, ReduceMin) may leave NaN out, as those of ONNX Runtime do."""


def with_special_values(one, rng):
    arrays = [np.where(rng.random(a.shape) < 0.25, rng.choice(SPECIAL, a.shape), a).astype(a.dtype) for a in one.arrays]
    return replace(one, arrays=tuple(arrays))


def special_batch(seed, count=50):
    rng = np.random.default_rng(seed)
    steps = [[step for step in drawn(rng) if step[0] not in SKIPS_NAN] or [("sin", 0)] for _ in range(count)]
    return [with_special_values(program(each, int(rng.integers(1, 10))), rng) for each in steps]


def test_random_programs_of_nan_and_infinities_agree():
    agree(special_batch(0, 10))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(41))
def test_more_random_programs_of_nan_and_infinities_agree(seed):
    agree(special_batch(seed), UNKNOWN if seed % 2 else FIXED)


def test_random_programs_agree():
    agree(batch(0, 14, 4))


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(201))
def test_ten_thousand_random_programs_agree(seed):
    agree(batch(seed), UNKNOWN if seed % 2 else FIXED)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
def test_random_programs_of_narrow_floats_agree(dtype):
    """Fused or not, each step's values are rounded; two units of a step may grow to some at the end."""
    rng = np.random.default_rng(0)
    tolerance = 8 * float(ml_dtypes.finfo(dtype).eps)
    drawn_ones = [program(drawn(rng, 2, 4), int(rng.integers(1, 21)), dtype, 1.0, tolerance) for _ in range(5)]
    agree(drawn_ones, ["compiled", "library for unknown dims"])


@pytest.mark.parametrize(
    "ways", [FIXED, pytest.param(UNKNOWN, marks=pytest.mark.sweep)], ids=["fixed dims", "unknown dims"]
)
def test_each_step_agrees(ways):
    agree([program([(name, 0, 1)[: 2 if name in UNARY else 3]], 2) for name in sorted(UNARY | BINARY)], ways)
