"""Random programs: eager, compiled, compiled for unknown dims, interpreted and exported give the same."""

import ml_dtypes
import numpy as np
import onnx_support
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_support import mismatch, tensor

import tvtf as tf
from tvtf.interpret import evaluate
from tvtf.onnx import export

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

STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(UNARY)), st.integers(0, 99)),
    st.tuples(st.sampled_from(sorted(BINARY)), st.integers(0, 99), st.integers(0, 99)),
)
PROGRAMS = st.lists(STEPS, min_size=1, max_size=8)


def run_program(steps, *inputs):
    """Every step makes a tensor of the inputs' shape from earlier ones; the last comes out."""
    values = list(inputs)
    for name, *operands in steps:
        chosen = [values[i % len(values)] for i in operands]
        values.append((UNARY | BINARY)[name](*chosen))
    return values[-1]


def check(steps, rows):
    arrays = [np.random.default_rng(i).uniform(-2, 2, (rows, COLUMNS)).astype(np.float32) for i in range(2)]
    expected = run_program(steps, *map(tensor, arrays)).eager_array()
    for how, found in outcomes(steps, arrays):
        assert found.shape == expected.shape and found.dtype == expected.dtype, how
        assert mismatch(found, expected, TOLERANCE) is None, f"{how}: {mismatch(found, expected, TOLERANCE)}"


def outcomes(steps, arrays):
    function = tf.function(lambda a, b: run_program(steps, a, b), autograph=False)
    unknown = function.get_concrete_function(*[tf.TensorSpec(["n", COLUMNS])] * 2)
    yield "compiled", function(*map(tensor, arrays)).eager_array()
    yield "compiled for unknown dims", unknown(*map(tensor, arrays)).eager_array()
    yield "interpreted", evaluate(unknown.module(), "main", [*map(tensor, arrays), *unknown.captures])[0].eager_array()
    yield "exported", onnx_support.run_model(export(unknown), arrays)[0]


@settings(max_examples=12)
@given(PROGRAMS, st.integers(1, 4))
def test_random_programs_agree(steps, rows):
    check(steps, rows)


SHORT_PROGRAMS = st.lists(STEPS, min_size=2, max_size=4)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16], ids=["bfloat16", "float16"])
@settings(max_examples=5)
@given(steps=SHORT_PROGRAMS, rows=st.integers(1, 20))
def test_random_programs_of_narrow_floats_agree(dtype, steps, rows):
    """Fused or not, each step's values are rounded; two units of a step may grow to some at the end."""
    arrays = [np.random.default_rng(i).uniform(-1, 1, (rows, COLUMNS)).astype(dtype) for i in range(2)]
    expected = run_program(steps, *map(tensor, arrays)).eager_array()
    function = tf.function(lambda a, b: run_program(steps, a, b), autograph=False)
    found = function(*map(tensor, arrays)).eager_array()
    assert found.dtype == dtype
    assert mismatch(found, expected, 8 * float(ml_dtypes.finfo(dtype).eps)) is None


@pytest.mark.sweep
@settings(max_examples=300)
@given(PROGRAMS, st.integers(1, 9))
def test_many_random_programs_agree(steps, rows):
    check(steps, rows)


@pytest.mark.parametrize("name", sorted(UNARY | BINARY))
def test_each_step_agrees(name):
    check([(name, 0, 1)[: 2 if name in UNARY else 3]], 2)
