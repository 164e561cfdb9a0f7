"""Kernels with sizes as parameters: their numbers, which sizes share code, and which kernels stay as they are."""

from dataclasses import replace

import numpy as np
import pytest
from covering import covering
from tvm import tirx
from tvm.target import Target

import tvtf as tf
from tvtf.core.shape import TensorType, fresh_dim
from tvtf.ir.trace import trace_graph
from tvtf.ops.rules import bind
from tvtf.passes import pipeline
from tvtf.passes.codegen import llvm
from tvtf.passes.lower import runtime_sizes
from tvtf.passes.schedule.cpu import access

RNG = np.random.default_rng(0)
SMALL = [(16, 64), (2, 8, 1, 96), (16, 2, 2, 80), (48, 64)]
LARGE = [(2048, 64), (8, 32, 32, 144), (512, 7, 48), (256, 1280)]
DTYPES = ["float32", "float64", "int32"]


def integers(shape, dtype="float32", most=8):
    """Small integers, of which sums in any order are equal."""
    return RNG.integers(-most, most + 1, shape).astype(dtype)


def assert_equal(results, expected):
    for result, right in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result.numpy(), right)


@covering(shape=SMALL + LARGE, dtype=DTYPES)
def test_elementwise(shape, dtype):
    @tf.function
    def run(x, row, scalar):
        squares = row * row
        return tf.nn.relu(x * row + squares - scalar), tf.where(x > 0, x, squares), x - scalar

    x, row, scalar = integers(shape, dtype), integers(shape[-1:], dtype), integers((), dtype)
    expected = np.maximum(x * row + row * row - scalar, 0), np.where(x > 0, x, row * row), x - scalar
    assert_equal(run(tf.constant(x), tf.constant(row), tf.constant(scalar)), expected)


@covering(shape=SMALL + LARGE, dtype=DTYPES)
def test_sums_along_columns(shape, dtype):
    axes = tuple(range(len(shape) - 1))

    @tf.function
    def run(x, row):
        return (
            tf.reduce_sum(x, axes),
            tf.reduce_sum((x - row) * (x - row), axes, keepdims=True),
            tf.reduce_max(x, axes) + row,
            tf.reduce_min(2 * x, axes),
            tf.reduce_any(x > 7, axes),
        )

    x, row = integers(shape, dtype), integers(shape[-1:], dtype, 2)
    expected = (
        x.sum(axes, dtype=dtype),
        ((x - row) ** 2).sum(axes, keepdims=True, dtype=dtype),
        x.max(axes) + row,
        (2 * x).min(axes),
        (x > 7).any(axes),
    )
    assert_equal(run(tf.constant(x), tf.constant(row)), expected)


@pytest.mark.parametrize("shape", SMALL + LARGE)
def test_batch_normalization(shape):
    axes = list(range(len(shape) - 1))
    x, gain, seed = (RNG.normal(size=s).astype("float32") for s in (shape, shape[-1:], shape))

    def run(x, gain, seed):
        with tf.GradientTape() as tape:
            tape.watch([x, gain])
            mean, variance = tf.nn.moments(x, axes)
            y = tf.nn.batch_normalization(x, mean, variance, gain, gain, 1e-3)
        return mean, variance, y, *tape.gradient(y, [x, gain], seed)

    arguments = [tf.constant(a) for a in (x, gain, seed)]
    for result, right in zip(tf.function(run)(*arguments), run(*arguments), strict=True):
        np.testing.assert_allclose(result.numpy(), right.numpy(), rtol=2e-4, atol=2e-4 * np.abs(right.numpy()).max())


@pytest.mark.parametrize("shape", [(64, 64), (2048, 64)])
def test_updates_in_place(shape):
    start, grad = integers(shape), integers(shape)
    weights = tf.Variable(start)

    @tf.function
    def step(grad):
        weights.assign_sub(2.0 * grad)

    for _ in range(3):
        step(tf.constant(grad))
    np.testing.assert_array_equal(weights.numpy(), start - 6 * grad)


def test_empty_and_unaligned_sizes_stay_as_they_are():
    double = tf.function(lambda x: (x + x, tf.reduce_sum(x, 0)))
    for shape in [(0, 64), (64, 0), (3, 5), (17, 64), (64, 17)]:
        x = integers(shape)
        assert_equal(double(tf.constant(x)), (x + x, x.sum(0)))


def test_products_of_a_zero_and_an_overflow_are_zero():
    factors = np.full((512, 64), 3.0, "float32")
    factors[0] = 0
    np.testing.assert_array_equal(tf.function(lambda x: tf.reduce_prod(x, 0))(tf.constant(factors)), np.zeros(64))


def test_few_rows_are_split_among_the_cores():
    mod = tf.function(lambda x, row: tf.exp(x) * row).get_concrete_function(
        tf.TensorSpec([3, 262144]), tf.TensorSpec([262144])
    ).module()  # fmt: skip
    for cores, parameters in ((1, 5), (32, 3)):
        target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": cores})
        assert len(pipeline.lower(mod, target, kernels=False)["fused_exp_multiply"].params) == parameters


def test_kernels_that_read_only_sizes_compute_no_operand():
    def sizes(x, weights, y):
        return bind.common_dims(tf.matmul(x, weights), y, dims=(fresh_dim("rows"), 64))

    types = [TensorType(shape, tf.float32) for shape in ((fresh_dim("n"), 8), (8, 64), (fresh_dim("m"), 64))]
    target = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
    mod = pipeline.lower(trace_graph("sizes", sizes, types).module(), target, kernels=False)
    assert {"common", "matmul"} <= {var.name_hint for var in mod.get_global_vars()}


def test_other_sizes_use_the_same_code(own_cache, compiled):
    def run(x, row):
        return tf.exp(x) * row, tf.reduce_mean(x, [0, 1])

    # Rows of 144 columns are summed with other register tiles than those of 64 and 128.
    for shape, count in [((2, 512, 128), 2), ((64, 64, 144), 1), ((4, 512, 64), 0)]:
        x, row = integers(shape), integers(shape[-1:])
        products, means = tf.function(run)(tf.constant(x), tf.constant(row))
        np.testing.assert_allclose(products.numpy(), np.exp(x) * row, rtol=1e-5)
        np.testing.assert_allclose(means.numpy(), x.mean((0, 1)), rtol=1e-5, atol=1e-6)
        assert len(compiled) == count
        compiled.clear()


def test_small_and_large_sizes_have_code_of_their_own(own_cache, compiled):
    for shape in [(4, 64), (4096, 64)]:
        tf.function(lambda x: tf.exp(x) - x)(tf.ones(shape))
        assert len(compiled) == 1
        compiled.clear()


def test_a_program_compiles_an_equal_kernel_once(own_cache, compiled):
    inputs = [tf.constant(integers((rows, 64))) for rows in range(4, 20)]
    results = tf.function(lambda *inputs: [tf.exp(x) - x for x in inputs])(*inputs)
    for x, result in zip(inputs, results, strict=True):
        np.testing.assert_allclose(result.numpy(), np.exp(x.numpy()) - x.numpy(), rtol=1e-5)
    assert len(compiled) == 1


def test_an_error_in_a_kernel_is_raised_for_all_that_share_it(own_cache, monkeypatch):
    def fail(self, part, cost):
        raise RuntimeError("LLVM fails, as this test has it")

    monkeypatch.setattr(llvm._Objects, "_compile_part", fail)
    inputs = [tf.ones((rows, 64)) for rows in range(4, 12)]
    with pytest.raises(RuntimeError, match="LLVM fails, as this test has it"):
        tf.function(lambda *inputs: [tf.exp(x) - x for x in inputs])(*inputs)


def test_tensors_from_outside_are_still_checked():
    def run(x):
        found = tf.numpy_function(lambda a: np.ones((3, 64), np.float32), [x], tf.float32)
        found.set_shape([8, 64])
        return found * 2.0 + x

    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="8"):
        tf.function(run)(tf.ones((8, 64)))


def test_a_kernel_that_is_called_with_other_sizes_is_found(monkeypatch):
    right = runtime_sizes._elementwise_with_sizes

    def wrong(func, kernel, target):
        sized = right(func, kernel, target)
        return None if sized is None else replace(sized, sizes=tuple(size + 1 for size in sized.sizes))

    monkeypatch.setattr(runtime_sizes, "_elementwise_with_sizes", wrong)
    with pytest.raises(
        tf.errors.InternalError, match="the phase 'sizes' left .* takes 528 items as 'b0', and is given"
    ):
        tf.function(lambda x: tf.exp(x) - x)(tf.ones((8, 64)))


def test_the_arithmetic_of_a_shape_is_no_operation_of_a_kernel():
    n, place = tirx.Var("n", "int64"), tirx.Var("place", "int64")
    plain, computed = (tirx.decl_buffer((size,), "float32") for size in (n, n * 16 + 1))
    assert access.operations(plain[place] + plain[place]) == access.operations(computed[place] + computed[place]) == 1


def test_what_runs_once_has_sizes_as_parameters(compiled, own_cache):
    """The kernels on constants of a network, such as a folded batch normalization, are compiled once for all layers."""
    sizes = [(64, 64), (64, 128), (128, 256)]
    random = np.random.default_rng(0)
    layers = [
        (random.standard_normal(s).astype("float32"), random.standard_normal(s[1:]).astype("float32")) for s in sizes
    ]
    held = [(tf.constant(w), tf.constant(scale)) for w, scale in layers]

    @tf.function
    def net(x):
        for w, scale in held:
            x = tf.nn.relu(x @ (w * tf.math.rsqrt(scale * scale + 1.0)))
        return x

    x = random.standard_normal((8, 64)).astype("float32")
    found, expected = net(tf.constant(x)).numpy(), x.astype("float64")
    for w, scale in layers:
        expected = np.maximum(expected @ (w / np.sqrt(scale * scale + 1)), 0)
    assert np.abs(found - expected).max() < 1e-6 * expected.max()
    assert sum("multiply" in name and "matmul" not in name for name in compiled) <= 2
