"""Sums of products too long for a cache: filters' gradients in steps, against NumPy."""

from __future__ import annotations

import numpy as np
from convolution_oracle import gradients
from covering import covering
from schedule_programs import HOST, NAMED_TARGETS, run_te, tensor, values
from tvm import te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv
from tvtf.passes.schedule.choices import Decisions
from tvtf.passes.schedule.cpu import schedule
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.reduction_steps import Steps, steps_of
from tvtf.passes.schedule.cpu.target import CpuTarget

ONE_CORE = Target({**{key: HOST.attrs[key] for key in ("mcpu",)}, "kind": "llvm", "num-cores": 1})
GRADIENTS = {
    "blocks of rows": ((3, 97, 101, 8), (3, 2, 8, 8)),
    "rows of planes": ((2, 6, 45, 47, 12), (2, 1, 3, 12, 20)),
    "strided columns": ((2, 180, 160, 3), (4, 4, 3, 24)),
}


def _steps(x_shape: tuple[int, ...], w_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> Steps | None:
    how = _how(w_shape)
    x, dy = tensor(x_shape), tensor(y_shape, name="dy")
    kernel = read_kernel(te.create_prim_func([x, dy, conv.conv_nd_filter_grad(x, dy, w_shape, *how)]))
    stage = next(stage for stage in kernel.stages if stage.reduce)
    return steps_of(stage, CpuTarget(512, 32, 2))


def _how(w_shape: tuple[int, ...]) -> tuple:
    stride = 2 if w_shape[0] == 4 else 1
    rank = len(w_shape) - 2
    return (stride,) * rank, [(1, 0)] * rank, (1,) * rank, 1


@covering(case=GRADIENTS, target=NAMED_TARGETS | {"one core": ONE_CORE})
def test_filters_gradient_in_steps(case, target: Target) -> None:
    x_shape, w_shape = case
    strides, padding, *rest = _how(w_shape)
    places = [(size + 1 - window) // step + 1 for size, window, step in zip(x_shape[1:-1], w_shape, strides)]
    a, g = values(x_shape), values((x_shape[0], *places, w_shape[-1]))
    assert _steps(x_shape, w_shape, g.shape) is not None
    _dx, dw = gradients(a.astype("float64"), np.zeros(w_shape), g.astype("float64"), strides, padding, *rest)
    x, dy = tensor(x_shape), tensor(g.shape, name="dy")
    result = conv.conv_nd_filter_grad(x, dy, w_shape, strides, padding, *rest)
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, w_shape, target), dw, rtol=1e-4, atol=2e-3)


def test_steps_of_an_unknown_batch() -> None:
    x_shape, w_shape = GRADIENTS["blocks of rows"]
    how, n = _how(w_shape), tirx.Var("n", "int64")
    a, g = values(x_shape), values((3, 96, 101, 8))
    _dx, dw = gradients(a.astype("float64"), np.zeros(w_shape), g.astype("float64"), *how)
    x, dy = tensor((n, *x_shape[1:])), tensor((n, *g.shape[1:]), name="dy")
    result = conv.conv_nd_filter_grad(x, dy, w_shape, *how)
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, w_shape, HOST), dw, rtol=1e-4, atol=2e-3)


PANELS = {
    "many taps": ((5, 26, 27, 48), (5, 4, 48, 56)),
    "wide panels": ((3, 18, 20, 130), (2, 3, 130, 200)),
    "planes": ((2, 6, 18, 17, 96), (2, 2, 2, 96, 128)),
}


@covering(
    shifts=2,
    case=PANELS,
    target=NAMED_TARGETS | {"one core": ONE_CORE},
    ended={"bare": False, "with an epilogue": True},
)
def test_filters_gradient_in_panels(case, target: Target, ended: bool) -> None:
    x_shape, w_shape = case
    how = _how(w_shape)
    a, g = (
        values(x_shape),
        values((x_shape[0], *(size + 2 - w for size, w in zip(x_shape[1:], w_shape[:-2])), w_shape[-1])),
    )
    _dx, dw = gradients(a.astype("float64"), np.zeros(w_shape), g.astype("float64"), *how)
    x, dy = tensor(x_shape), tensor(g.shape, name="dy")
    result = conv.conv_nd_filter_grad(x, dy, w_shape, *how)
    if ended:
        result, dw = te.compute(result.shape, lambda *at: 1.0 - 2.0 * result(*at)), 1 - 2 * dw
    decisions = Decisions()
    schedule(te.create_prim_func([x, dy, result]), target, decisions)
    assert decisions.answers["panels"] == "yes"
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, w_shape, target), dw, rtol=1e-4, atol=4e-3)


def test_operands_that_a_cache_holds_are_not_cut() -> None:
    assert _steps((2, 20, 20, 8), (3, 2, 8, 8), (2, 19, 20, 8)) is None


def test_steps_cover_each_term_once() -> None:
    steps = _steps((3, 97, 101, 8), (3, 2, 8, 8), (3, 96, 101, 8))
    covered = [0] * 96
    for number in range(int(steps.counts[-1])):
        _n, rows, columns = steps.ranges(tirx.IntImm("int64", number))
        for row in range(int(rows.start), int(rows.start) + int(rows.extent)):
            covered[row] += 1
        assert int(columns.extent) == 101
    assert covered == [1] * 96
