"""Convolutions in groups of few channels: vectors over several groups, each input spread over its group's results."""

from __future__ import annotations

import random

import numpy as np
import pytest
from convolution_oracle import convolve, gradients
from covering import covering
from schedule_programs import NAMED_TARGETS, TARGETS, run_te, tensor, values
from tvm import te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv
from tvtf.passes.schedule.cpu.grouped_conv_lanes import with_groups_in_lanes
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import Stage, read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget

CASES = {
    "groups of four": ((2, 9, 11, 32), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 4),
    "groups of two": ((2, 9, 11, 32), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 2),
    "a part of a vector": ((1, 7, 30, 20), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 4),
    "steps": ((2, 9, 21, 32), (3, 3), (2, 2), [(1, 1), (1, 1)], (1, 1), 4),
    "dilation": ((1, 12, 13, 16), (3, 3), (1, 1), [(2, 2), (2, 2)], (2, 2), 4),
    "uneven border": ((1, 8, 14, 24), (2, 5), (1, 1), [(0, 1), (1, 3)], (1, 1), 4),
    "one dim": ((3, 40, 32), (5,), (1,), [(2, 2)], (1,), 4),
    "three dims": ((1, 4, 5, 9, 16), (2, 3, 3), (1, 1, 1), [(1, 0), (1, 1), (1, 1)], (1, 1, 1), 4),
}


def drawn(seed):
    rng = random.Random(seed)
    rank, size = rng.choice([1, 2, 2, 3]), rng.choice([2, 4])
    window = tuple(rng.randint(1, 4) for _ in range(rank))
    padding = [(rng.randint(0, extent), rng.randint(0, extent)) for extent in window]
    sizes = [extent + rng.randint(0, 12) for extent in window]
    shape = (rng.randint(1, 2), *sizes, size * rng.randint(2, 12))
    return shape, window, tuple(rng.choice([1, 1, 2]) for _ in window), padding, (1,) * rank, size


def is_spread(result, operands):
    kernel = read_kernel(te.create_prim_func([*operands, result]))
    stages, _ = with_groups_in_lanes(inline_stages(kernel), kernel, CpuTarget(512, 32, 2))
    return any(isinstance(stage, Stage) and stage.broadcast_axis is not None for stage in stages)


def check(case, target, is_sure=True):
    shape, window, strides, padding, dilations, size = case
    how, w_shape = (strides, padding, dilations, shape[-1] // size), (*window, size, shape[-1])
    a, b = values(shape), values(w_shape)
    want = convolve(a.astype("float64"), b, *how)
    x, w = tensor(shape), tensor(w_shape, name="w")
    y = conv.conv_nd(x, w, *how)
    assert is_spread(y, [x, w]) or not is_sure
    np.testing.assert_allclose(run_te(y, {x: a, w: b}, want.shape, target), want, rtol=1e-4, atol=1e-4)
    g = values(want.shape)
    dy = tensor(g.shape, name="dy")
    dx = conv.conv_nd_input_grad(dy, w, shape, *how)
    assert is_spread(dx, [dy, w]) or not is_sure or max(strides) > 1
    want_dx = gradients(a, b, g.astype("float64"), *how)[0]
    np.testing.assert_allclose(run_te(dx, {dy: g, w: b}, shape, target), want_dx, rtol=1e-4, atol=1e-4)


@covering(case=CASES, target=NAMED_TARGETS)
def test_groups(case, target: Target) -> None:
    check(case, target)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("seed", range(60))
def test_groups_of_drawn_shapes(seed, target: Target) -> None:
    check(drawn(seed), target, is_sure=False)


def test_groups_that_fill_vectors_are_left_as_they_are() -> None:
    x, w = tensor((2, 9, 11, 64)), tensor((3, 3, 16, 64), name="w")
    assert not is_spread(conv.conv_nd(x, w, (1, 1), [(1, 1), (1, 1)], (1, 1), 4), [x, w])


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_what_follows_and_an_unknown_number_of_images(target: Target) -> None:
    n, how = tirx.Var("n", "int64"), ((1, 1), [(1, 1), (1, 1)], (1, 1), 8)
    a, b, offset = values((3, 9, 14, 32)), values((3, 3, 4, 32)), values((32,))
    x, w, by = tensor((n, 9, 14, 32)), tensor(b.shape, name="w"), tensor(offset.shape, name="by")
    y = conv.conv_nd(x, w, *how)
    ended = te.compute(y.shape, lambda *at: tirx.max(y(*at) + by(at[-1]), tirx.const(0, "float32")))
    assert is_spread(ended, [x, w, by])
    want = np.maximum(convolve(a.astype("float64"), b, *how) + offset, 0)
    got = run_te(ended, {x: a, w: b, by: offset}, want.shape, target)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
