"""Windows without reuse are read directly from the image, also at its borders."""

from __future__ import annotations

import random

import numpy as np
import pytest
from convolution_oracle import Geometry, convolve, gradients
from covering import covering
from schedule_programs import HOST, NAMED_TARGETS, TARGETS, run_te, tensor, values
from tvm import te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv, pool
from tvtf.passes.schedule.cpu.depthwise_filter_grad import Edges
from tvtf.passes.schedule.cpu.groups import group_stages, with_special_forms
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.windows import Windows

CASES = {
    "one tile a row": ((2, 7, 7, 40), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "several tiles": ((1, 5, 50, 32), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "several tiles in one border": ((1, 3, 45, 16), (3, 2), (1, 1), [(1, 1), (40, 20)], (1, 1)),
    "border on one side": ((2, 8, 41, 24), (2, 5), (1, 2), [(0, 1), (0, 3)], (1, 1)),
    "strides": ((2, 17, 33, 20), (3, 5), (2, 3), [(1, 1), (2, 2)], (1, 1)),
    "taps beyond the image": ((2, 5, 6, 16), (3, 3), (1, 1), [(9, 10), (6, 9)], (7, 7)),
    "half a vector": ((2, 6, 9, 8), (3, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)),
    "one dim": ((2, 40, 35), (9,), (1,), [(8, 0)], (1,)),
    "three dims": ((1, 4, 5, 19, 17), (2, 3, 3), (1, 2, 1), [(1, 0), (1, 1), (1, 1)], (1, 1, 1)),
}


def drawn(seed):
    numbers = random.Random(seed)
    rank = numbers.choice([1, 2, 2, 3])
    sizes = [numbers.randint(1, 9) for _ in range(rank - 1)] + [numbers.randint(1, 60)]
    window = [numbers.randint(1, 5) for _ in range(rank)]
    dilations = [numbers.choice([1, 1, 1, 2, 3, 7]) for _ in range(rank)]
    strides = [numbers.choice([1, 1, 2, 3]) if wide == 1 else 1 for wide in dilations]
    reaches = [(size - 1) * wide + 1 for size, wide in zip(window, dilations)]
    padding = [(numbers.randint(0, reach), max(0, reach - size) + 1) for reach, size in zip(reaches, sizes)]
    shape = (numbers.randint(1, 3), *sizes, numbers.choice([8, 12, 16, 20, 33, 48, 70]))
    return shape, tuple(window), tuple(strides), padding, tuple(dilations)


def is_selected(result, operands, rule=Windows):
    kernel = read_kernel(te.create_prim_func([*operands, result]))
    target = CpuTarget.of(HOST)
    return any(
        isinstance(group, rule)
        for group in with_special_forms(group_stages(inline_stages(kernel), target), kernel, target)
    )


def check_depthwise(case, target, is_sure=True):
    shape, window, *how = case
    w_shape, how = (*window, 1, shape[-1]), (*how, shape[-1])
    a, b = values(shape), values(w_shape)
    want = convolve(a.astype("float64"), b, *how)
    x, w = tensor(shape), tensor(w_shape, name="w")
    y = conv.conv_nd(x, w, *how)
    assert is_selected(y, [x, w]) or not is_sure
    np.testing.assert_allclose(run_te(y, {x: a, w: b}, want.shape, target), want, rtol=1e-4, atol=1e-4)
    g = values(want.shape)
    dy = tensor(g.shape, name="dy")
    want_dx, want_dw = gradients(a, b, g.astype("float64"), *how)
    dx = run_te(conv.conv_nd_input_grad(dy, w, shape, *how), {dy: g, w: b}, shape, target)
    np.testing.assert_allclose(dx, want_dx, rtol=1e-4, atol=1e-4)
    result = conv.conv_nd_filter_grad(x, dy, w_shape, *how)
    assert is_selected(result, [x, dy], Edges) or not is_sure
    near = max(1e-4, 1e-5 * want_dw.std())  # sums of thousands of terms, some of which nearly cancel
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, w_shape, target), want_dw, rtol=1e-4, atol=near)


@covering(case=CASES, target=NAMED_TARGETS)
def test_depthwise_convolutions(case, target: Target) -> None:
    check_depthwise(case, target)


def test_rows_of_nothing_but_border_around_a_window_of_one() -> None:
    check_depthwise(((2, 5, 9, 16), (1, 3), (1, 1), [(1, 1), (1, 1)], (1, 1)), HOST, is_sure=False)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("seed", range(60))
def test_depthwise_convolutions_of_drawn_shapes(seed, target: Target) -> None:
    check_depthwise(drawn(seed), target, is_sure=False)


def test_what_follows_a_filters_gradient_runs_in_the_same_nest() -> None:
    n, how = tirx.Var("n", "int64"), ((2, 1), [(1, 1), (1, 1)], (1, 1), 20)
    a, b = values((3, 9, 30, 20)), values((3, 3, 1, 20))
    g = values((3, 5, 30, 20))
    x, dy, w = tensor((n, *a.shape[1:])), tensor((n, *g.shape[1:]), name="dy"), tensor(b.shape, name="w")
    grad = conv.conv_nd_filter_grad(x, dy, b.shape, *how)
    moved = te.compute(w.shape, lambda *at: w(*at) - tirx.const(0.5, "float32") * grad(*at))
    assert is_selected(moved, [x, dy, w], Edges)
    want = b - 0.5 * gradients(a, b, g.astype("float64"), *how)[1]
    got = run_te(moved, {x: a, dy: g, w: b}, want.shape, HOST)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_what_follows_runs_in_the_same_nest() -> None:
    n, how = tirx.Var("n", "int64"), ((1, 1), [(1, 1), (1, 1)], (1, 1), 20)
    a, b, offset = values((3, 9, 30, 20)), values((3, 3, 1, 20)), values((20,))
    x, w, by = tensor((n, 9, 30, 20)), tensor(b.shape, name="w"), tensor(offset.shape, name="by")
    y = conv.conv_nd(x, w, *how)
    ended = te.compute(y.shape, lambda *at: tirx.max(y(*at) + by(at[-1]), tirx.const(0, "float32")))
    assert is_selected(ended, [x, w, by])
    want = np.maximum(convolve(a.astype("float64"), b, *how) + offset, 0)
    np.testing.assert_allclose(run_te(ended, {x: a, w: b, by: offset}, want.shape, HOST), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_pools(target: Target) -> None:
    a, window, strides, padding = values((2, 9, 31, 20)), (3, 3), (2, 1), [(1, 1), (1, 1)]
    shape, x = Geometry((9, 31), window, strides, padding, (1, 1)), tensor((2, 9, 31, 20))
    largest = pool.max_pool_nd(x, window, strides, padding)
    want = np.max([shape.pad(a, -np.inf)[place] for _, place in shape.taps()], 0)
    assert is_selected(largest, [x])
    np.testing.assert_array_equal(run_te(largest, {x: a}, want.shape, target), want.astype("float32"))
    ones = np.sum([shape.pad(np.ones_like(a))[place] for _, place in shape.taps()], 0)
    mean = np.sum([shape.pad(a)[place] for _, place in shape.taps()], 0) / ones
    got = run_te(pool.avg_pool_nd(x, window, strides, padding), {x: a}, mean.shape, target)
    np.testing.assert_allclose(got, mean, rtol=1e-5, atol=1e-5)


GRADIENTS = {
    "step one": ((2, 9, 31, 20), (3, 3), (1, 1), [(1, 1), (1, 1)]),
    "no padding": ((2, 9, 31, 20), (3, 3), (1, 1), [(0, 0), (0, 0)]),
    "uneven padding": ((1, 8, 11, 70), (4, 2), (1, 1), [(1, 2), (0, 1)]),
    "windows as large as images": ((2, 4, 5, 16), (4, 5), (1, 1), [(1, 2), (2, 2)]),
    "window of one": ((2, 5, 6, 16), (1, 3), (1, 1), [(0, 0), (1, 1)]),
    "steps": ((2, 9, 31, 20), (3, 3), (2, 2), [(1, 1), (1, 1)]),
    "few channels": ((2, 9, 12, 3), (3, 3), (1, 1), [(1, 1), (1, 1)]),
    "more places than a byte holds": ((1, 12, 14, 16), (11, 12), (1, 1), [(5, 5), (5, 6)]),
    "three dims": ((1, 4, 5, 19, 17), (2, 3, 3), (1, 1, 1), [(1, 0), (1, 1), (1, 1)]),
}


def drawn_pool(seed):
    numbers = random.Random(seed)
    rank, shape = numbers.choice([1, 2, 2, 3]), []
    window = [numbers.randint(1, 5) for _ in range(rank)]
    padding = [(numbers.randint(0, size - 1), numbers.randint(0, size - 1)) for size in window]
    shape = [numbers.randint(size, size + 20) for size in window]
    strides = [numbers.choice([1, 1, 1, 2]) for _ in window]
    return (2, *shape, numbers.choice([1, 3, 8, 12, 16, 20, 33, 70])), tuple(window), tuple(strides), padding


def check_gradient_of_a_max_pool(case, target):
    shape, window, strides, padding = case
    geometry, rng = Geometry(shape[1:-1], window, strides, padding, (1,) * len(window)), np.random.default_rng(0)
    a = rng.integers(0, 4, shape).astype("float32")
    a[rng.random(shape) < 0.02], a[rng.random(shape) < 0.02] = np.nan, -np.inf
    around = geometry.pad(np.where(np.isnan(a), np.inf, a), -np.inf)
    real, taps = geometry.pad(np.ones_like(a)), list(geometry.taps())
    y = np.max([around[place] for _, place in taps], 0)
    g, want, left = values(y.shape), np.zeros(around.shape), np.ones(y.shape, bool)
    for _, place in taps:
        wins = left & (real[place] > 0) & (around[place] == y)
        want[place] += np.where(wins, g, 0)
        left &= ~wins
    want = want[(slice(None), *(slice(low, low + size) for (low, _), size in zip(padding, shape[1:-1])))]
    y[y == np.inf] = np.nan
    dy, x, best = tensor(y.shape, name="dy"), tensor(shape), tensor(y.shape, name="y")
    dx = pool.max_pool_nd_grad(dy, x, best, window, strides, padding)
    got = run_te(dx, {dy: g, x: a, best: y.astype("float32")}, shape, target)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@covering(case=GRADIENTS, target=NAMED_TARGETS)
def test_gradients_of_max_pools(case, target: Target) -> None:
    check_gradient_of_a_max_pool(case, target)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("seed", range(60))
def test_gradients_of_max_pools_of_drawn_shapes(seed, target: Target) -> None:
    check_gradient_of_a_max_pool(drawn_pool(seed), target)


@pytest.mark.parametrize(("name", "count"), [("step one", 2), ("uneven padding", 2), ("steps", 1)])
def test_gradients_of_max_pools_make_no_padded_copy_of_what_steps_of_one_read(name, count) -> None:
    shape, window, strides, padding = GRADIENTS[name]
    x = tensor(shape)
    y = tensor(pool.max_pool_nd(x, window, strides, padding).shape, name="y")
    dx = pool.max_pool_nd_grad(y, x, y, window, strides, padding)
    kernel, target = read_kernel(te.create_prim_func([x, y, dx])), CpuTarget.of(HOST)
    groups = with_special_forms(group_stages(inline_stages(kernel), target), kernel, target)
    assert sum(isinstance(group, Windows) for group in groups) == count
