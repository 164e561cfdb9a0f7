"""Chains of convolutions are computed in bands of rows, and those around a depthwise one are fused."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering
from schedule_programs import NAMED_TARGETS, run_te, tensor, values
from test_schedule_kernels import convolve
from tvm import te, tirx
from tvm.target import Target

import tvtf as tf
from tvtf.ops.kernels import conv
from tvtf.passes.schedule.cpu import schedule
from tvtf.passes.schedule.cpu.conv_bands import bands_of
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget

POINT = ((1, 1), [(0, 0), (0, 0)], (1, 1), 1)
CASES = {
    "whole": ((4, 12, 12, 16), 96, 16, 3, 1, [(1, 1), (1, 1)]),
    "uneven": ((3, 15, 13, 5), 37, 20, 3, 1, [(2, 1), (0, 3)]),
    "strided": ((8, 18, 17, 8), 48, 24, 3, 2, [(1, 1), (1, 1)]),
    "wide window": ((6, 20, 11, 8), 32, 8, 5, 1, [(2, 2), (2, 2)]),
    "a prime number of rows": ((3, 23, 9, 8), 480, 16, 3, 1, [(1, 1), (1, 1)]),
    "without borders": ((4, 17, 14, 8), 32, 8, 3, 1, [(0, 0), (0, 0)]),
}


def around(window: int, wide: int, stride: int, padding: list[tuple[int, int]]) -> tuple:
    return (stride, stride), padding, (1, 1), wide


def chained(operands: list[te.Tensor], how: tuple) -> te.Tensor:
    """Widened, convolved by channel, narrowed; the first two followed by an offset and relu."""
    x, first, offset, window, last = operands
    y = positive(conv.conv_nd(x, first, *POINT), offset)
    return conv.conv_nd(positive(conv.conv_nd(y, window, *how), offset), last, *POINT)


def positive(y: te.Tensor, offset: te.Tensor) -> te.Tensor:
    return te.compute(y.shape, lambda *place: tirx.max(y(*place) + offset(place[-1]), tirx.const(0, "float32")))


def oracle(operands: list[np.ndarray], how: tuple) -> np.ndarray:
    x, first, offset, window, last = operands
    y = np.maximum(convolve(x, first, *POINT) + offset, 0)
    return convolve(np.maximum(convolve(y, window, *how) + offset, 0), last, *POINT)


@covering(case=CASES, target=NAMED_TARGETS)
def test_bands_give_what_whole_images_do(case, target: Target) -> None:
    x_shape, wide, results, window, stride, padding = case
    how = around(window, wide, stride, padding)
    shapes = [x_shape, (1, 1, x_shape[-1], wide), (wide,), (window, window, 1, wide), (1, 1, wide, results)]
    arrays = [values(shape) for shape in shapes]
    want = oracle(arrays, how)
    placeholders = [tensor(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    y = chained(placeholders, how)
    assert "band = T.alloc_buffer" in schedule(te.create_prim_func([*placeholders, y]), target).script()
    got = run_te(y, dict(zip(placeholders, arrays, strict=True)), want.shape, target)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_band_fits_the_cache_and_every_core_has_some() -> None:
    shapes = [(2, 96, 96, 24), (1, 1, 24, 144), (144,), (3, 3, 1, 144), (1, 1, 144, 24)]
    placeholders = [tensor(shape, name=f"x{i}") for i, shape in enumerate(shapes)]
    y = chained(placeholders, around(3, 144, 1, [(1, 1), (1, 1)]))
    kernel = read_kernel(te.create_prim_func([*placeholders, y]))
    bands = bands_of(inline_stages(kernel), kernel, CpuTarget(512, 32, 2))
    assert 12 <= bands.count <= 48
    assert bands.last_origin == 96 - bands.rows[-1].height
    assert bands_of(inline_stages(kernel), kernel, CpuTarget(512, 32, 2, level2_bytes=64 * 1024)) is None
    assert bands_of(inline_stages(kernel), kernel, CpuTarget(512, 32, 64)) is None


def test_a_block_with_a_computed_scalar_is_correct() -> None:
    """The scalar, too expensive to compute twice, is a stage of the fused kernel, and it isn't an image."""
    first, window, last = (tf.constant(values(s)) for s in [(1, 1, 8, 96), (3, 3, 96, 1), (1, 1, 96, 8)])

    def function(x, number):
        limit = tf.tanh(tf.exp(tf.sin(number)) + tf.math.log(tf.abs(number) + 2.0))
        y = tf.minimum(tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME") * limit), limit)
        return tf.nn.conv2d(tf.nn.depthwise_conv2d(y, window, (1, 1, 1, 1), "SAME"), last, 1, "SAME")

    x, number = tf.constant(values((6, 24, 24, 8))), tf.constant(1.5)
    np.testing.assert_allclose(tf.function(function)(x, number), function(x, number), rtol=1e-4, atol=1e-3)


def block(wide: int, returned: bool = False):
    arrays = [values(s) for s in [(1, 1, 8, wide), (wide,), (3, 3, wide, 1), (1, 1, wide, 8)]]
    first, offset, window, last = map(tf.constant, arrays)

    def function(x):
        y = tf.nn.relu(tf.nn.conv2d(x, first, 1, "SAME") + offset)
        z = tf.nn.relu(tf.nn.depthwise_conv2d(y, window, (1, 1, 1, 1), "SAME") + offset)
        z = tf.nn.conv2d(z, last, 1, "SAME") + x
        return (z, y) if returned else z

    return function


def kernels_of(function, x) -> list[str]:
    return [kernel.name for kernel in function.profile(x).kernels if "conv" in kernel.name]


def test_a_block_is_one_kernel_where_what_is_inside_is_large() -> None:
    x, function = tf.constant(values((6, 24, 24, 8))), block(96)
    compiled = tf.function(function)
    np.testing.assert_allclose(compiled(x), function(x), rtol=1e-4, atol=1e-3)
    assert len(kernels_of(compiled, x)) == 1


@pytest.mark.parametrize("side, returned", [(12, False), (24, True)], ids=["small", "returned"])
def test_a_block_is_not_fused(side: int, returned: bool) -> None:
    x, function = tf.constant(values((2, side, side, 8))), block(96, returned)
    compiled = tf.function(function)
    for got, want in zip(tf.nest.flatten(compiled(x)), tf.nest.flatten(function(x))):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)
    assert len(kernels_of(compiled, x)) == (2 if returned else 3)


def test_equal_blocks_are_one_kernel() -> None:
    first = block(96)
    x = tf.constant(values((6, 24, 24, 8)))
    twice = tf.function(lambda x: first(first(x)))
    np.testing.assert_allclose(twice(x), first(first(x)), rtol=1e-5, atol=1e-2)  # values of thousands
    assert [kernel.calls for kernel in twice.profile(x).kernels if "conv" in kernel.name] == [2]
