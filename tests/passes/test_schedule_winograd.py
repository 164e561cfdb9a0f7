"""Convolutions by Winograd's method: when it is chosen, and its rounding errors."""

from __future__ import annotations

import numpy as np
import pytest
from covering import covering
from schedule_programs import HOST, NAMED_TARGETS, TARGETS, run_relax, run_te, tensor, values
from test_schedule_kernels import convolve, gradients
from tvm import relax, te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv
from tvtf.passes.schedule.cpu import schedule, winograd_transforms
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.winograd_tiling import Shape, fastest_filter_tiling, fastest_tiling

MOSTLY_HOST = [TARGETS[0], pytest.param(TARGETS[1], marks=pytest.mark.sweep)]

WINOGRAD, FILTER_WINOGRAD = "filters = T.alloc_buffer", "transformed = T.alloc_buffer"
"""What only those kernels' schedules have."""

STEPS = (1, 1)
ALL_AROUND = [(1, 1), (1, 1)]
PLAIN = (STEPS, ALL_AROUND, (1, 1), 1)
WORST_ERROR = 3e-5
"""Of a result, in standard deviations of all; direct sums stay within a tenth of it."""
WORST_ERROR_OF_FIVES = 7e-5
"""Of a gradient for windows of five: what was summed at the points of size root two counts fourfold each way.

The largest of 100,000 errors: 2.5e-5 to 4.8e-5 in twelve draws."""
MEAN_ERROR = 1 / 12
"""The largest standard deviation of all errors, as a share of the worst; it differs by 2 % between draws."""
CASES = {
    "whole tiles": ((2, 8, 12, 32), 32, ALL_AROUND),
    "ragged tiles": ((8, 9, 13, 20), 32, ALL_AROUND),
    "uneven borders": ((4, 11, 10, 32), 64, [(0, 1), (2, 0)]),
    "without borders": ((2, 10, 14, 32), 32, [(0, 0), (0, 0)]),
    "many channels": ((8, 8, 8, 128), 128, ALL_AROUND),
    "odd results": ((4, 12, 12, 60), 52, ALL_AROUND),
}


DILATED = {
    "every phase alike": ((2, 16, 24, 32), 32, [(2, 2), (2, 2)], 2),
    "uneven phases": ((3, 25, 23, 32), 48, [(3, 3), (3, 3)], 3),
    "uneven borders of phases": ((2, 17, 22, 20), 32, [(0, 4), (3, 1)], 2),
    "phases without borders": ((2, 21, 24, 32), 32, [(0, 0), (0, 0)], 2),
}


GROUPED = {
    "groups": ((4, 12, 12, 64), 64, ALL_AROUND, 1, 2),
    "more results than channels": ((4, 11, 14, 64), 192, [(0, 1), (2, 0)], 1, 4),
    "odd results of groups": ((6, 13, 12, 96), 108, ALL_AROUND, 1, 3),
    "dilated groups": ((2, 17, 20, 128), 128, [(2, 2), (2, 2)], 2, 4),
}


AROUND_FIVE = [(2, 2), (2, 2)]
FIVES = {
    "whole tiles of windows of five": ((4, 8, 12, 64), 64, AROUND_FIVE, 1, 1, 5),
    "ragged tiles of windows of five": ((4, 11, 13, 36), 64, [(0, 3), (2, 0)], 1, 1, 5),
    "dilated windows of five": ((2, 25, 24, 64), 64, [(4, 4), (4, 4)], 2, 1, 5),
    "groups of windows of five": ((4, 14, 13, 128), 128, AROUND_FIVE, 1, 2, 5),
}
BLOCKS = {
    "blocks of channels": ((4, 7, 7, 256), 192, ALL_AROUND),
    "blocks of groups' channels": ((8, 8, 7, 256), 256, ALL_AROUND, 1, 2),
    "blocks for odd results": ((8, 7, 7, 192), 180, ALL_AROUND),
}


def of_all(case: tuple) -> tuple:
    """A case with its dilation, groups and window, which are 1, 1 and 3 where it doesn't tell."""
    return (*case, *(1, 1, 3)[len(case) - 3 :])


def test_windows_dilated_one_way_are_summed_directly() -> None:
    x, w = tensor((2, 16, 24, 32)), tensor((3, 3, 32, 32), name="w")
    for dilations, is_selected in (((2, 2), True), ((1, 2), False), ((2, 1), False)):
        padding = [(wide, wide) for wide in dilations]
        assert is_winograd(conv.conv_nd(x, w, STEPS, padding, dilations, 1), [x, w], HOST) == is_selected


def test_far_taps_that_mostly_meet_the_border_are_summed_directly() -> None:
    x, w = tensor((2, 12, 12, 32)), tensor((3, 3, 32, 32), name="w")
    assert not is_winograd(conv.conv_nd(x, w, STEPS, [(11, 11)] * 2, (11, 11), 1), [x, w], HOST)


def product(matrices: tuple[winograd_transforms.Matrix, ...]) -> np.ndarray:
    total = np.eye(len(matrices[0][0]))
    for matrix in matrices:
        total = np.array(matrix) @ total
    return total


@pytest.mark.parametrize("window", winograd_transforms.GRADIENTS)
def test_gradient_s_transforms_give_a_correlation(window: int) -> None:
    of = winograd_transforms.GRADIENTS[window]
    x, dy = values((of.side,), "float64"), values((of.size,), "float64")
    inputs, filters, results = map(product, (of.inputs, of.filters, of.results))
    assert len(results) == window
    np.testing.assert_allclose(results @ ((filters @ dy) * (inputs @ x)), np.correlate(x, dy, "valid"), atol=1e-14)


@pytest.mark.parametrize(
    ("window", "transforms"),
    [(window, each) for window, known in winograd_transforms.BY_WINDOW.items() for each in known],
)
def test_transforms_give_a_correlation(window: int, transforms: winograd_transforms.Transforms) -> None:
    x, w = values((transforms.side,), "float64"), values((window,), "float64")
    inputs, filters, results = map(product, (transforms.inputs, transforms.filters, transforms.results))
    np.testing.assert_allclose(results @ ((filters @ w) * (inputs @ x)), np.correlate(x, w, "valid"), atol=1e-14)


def is_winograd(result: te.Tensor, operands: list[te.Tensor], target: Target) -> bool:
    return WINOGRAD in schedule(te.create_prim_func([*operands, result]), target).script()


def is_filter_winograd(result: te.Tensor, operands: list[te.Tensor], target: Target) -> bool:
    return FILTER_WINOGRAD in schedule(te.create_prim_func([*operands, result]), target).script()


def assert_near(y: np.ndarray, want: np.ndarray, worst: float = WORST_ERROR) -> None:
    np.testing.assert_allclose(y, want, rtol=0, atol=worst * want.std())
    assert np.std(y - want) < MEAN_ERROR * worst * want.std()


VOLUMES = {
    "one step": ((2, 5, 12, 9, 32), 3, 32, ([(1, 1), (1, 1), (1, 1)], (1, 1, 1))),
    "two planes a window": ((1, 6, 11, 12, 16), 2, 48, ([(0, 1), (0, 2), (1, 1)], (1, 1, 1))),
    "dilated": ((2, 7, 16, 18, 32), 3, 64, ([(2, 2), (2, 2), (2, 2)], (2, 2, 2))),
}


@pytest.mark.parametrize("target", MOSTLY_HOST, ids=["host", "avx2"])
@pytest.mark.parametrize("case", VOLUMES.values(), ids=VOLUMES)
def test_volumes_and_their_input_gradient(case, target: Target) -> None:
    x_shape, planes, results, (padding, dilations) = case
    how = ((1, 1, 1), padding, dilations, 1)
    a, b = values(x_shape), values((planes, 3, 3, x_shape[-1], results))
    exact = [v.astype("float64") for v in (a, b)]
    want = convolve(*exact, *how)
    g = values(want.shape)
    x, w, dy = tensor(a.shape), tensor(b.shape, name="w"), tensor(g.shape, name="dy")
    y, dx = conv.conv_nd(x, w, *how), conv.conv_nd_input_grad(dy, w, x_shape, *how)
    dw = conv.conv_nd_filter_grad(x, dy, b.shape, *how)
    want_dx, want_dw = gradients(*exact, g.astype("float64"), *how)
    assert_near(run_te(y, {x: a, w: b}, want.shape, target, WINOGRAD), want)
    assert_near(run_te(dx, {dy: g, w: b}, x_shape, target, WINOGRAD), want_dx)
    assert_near(run_te(dw, {x: a, dy: g}, b.shape, target, FILTER_WINOGRAD), want_dw)


def test_volumes_strided_in_depth_and_those_of_odd_channels() -> None:
    for channels, strides, is_selected in ((32, (2, 1, 1), True), (24, (1, 1, 1), False), (32, (1, 2, 2), False)):
        x, w = tensor((2, 8, 12, 12, channels)), tensor((3, 3, 3, channels, 32), name="w")
        assert is_winograd(conv.conv_nd(x, w, strides, [(1, 1)] * 3, (1, 1, 1), 1), [x, w], HOST) == is_selected
    a, b, how = values((2, 8, 12, 12, 32)), values((3, 3, 3, 32, 32)), ((2, 1, 1), [(1, 1)] * 3, (1, 1, 1), 1)
    x, w, want = tensor(a.shape), tensor(b.shape, name="w"), convolve(a.astype("float64"), b.astype("float64"), *how)
    assert_near(run_te(conv.conv_nd(x, w, *how), {x: a, w: b}, want.shape, HOST), want)


ALL_CASES = CASES | DILATED | GROUPED | FIVES | BLOCKS
WHOLE = ("whole tiles", "every phase alike", "whole tiles of windows of five", "blocks of channels", "many channels")
"""Other cases end in parts of tiles or blocks."""


@pytest.mark.parametrize("target", MOSTLY_HOST, ids=["host", "avx2"])
@pytest.mark.parametrize(
    "case", [pytest.param(c, id=n, marks=[pytest.mark.sweep] if n in WHOLE else []) for n, c in ALL_CASES.items()]
)
def test_convolution_and_its_input_gradient(case, target: Target) -> None:
    x_shape, results, padding, dilation, groups, window = of_all(case)
    how = (STEPS, padding, (dilation, dilation), groups)
    a, b = values(x_shape), values((window, window, x_shape[-1] // groups, results))
    exact = [v.astype("float64") for v in (a, b)]
    want = convolve(*exact, *how)
    g = values(want.shape)
    x, w, dy = tensor(a.shape), tensor(b.shape, name="w"), tensor(g.shape, name="dy")
    y = conv.conv_nd(x, w, *how)
    assert_near(run_te(y, {x: a, w: b}, want.shape, target, WINOGRAD), want)
    dx = conv.conv_nd_input_grad(dy, w, x_shape, *how)
    want = gradients(*exact, g.astype("float64"), *how)[0]
    assert_near(run_te(dx, {dy: g, w: b}, x_shape, target), want)


FILTERS = {
    "chunks of whole tiles": ((2, 16, 16, 64), 64, ALL_AROUND),
    "ragged tiles": ((4, 19, 22, 32), 64, ALL_AROUND),
    "uneven borders": ((2, 15, 18, 64), 64, [(0, 1), (2, 0)]),
    "odd channels": ((4, 16, 17, 75), 52, ALL_AROUND),
    "odd sums of a panel": ((5, 8, 9, 196), 180, ALL_AROUND),
    "sums of a panel": ((4, 8, 9, 192), 160, ALL_AROUND),
    "phases": ((4, 17, 22, 64), 64, [(2, 2), (2, 2)], 2),
    "phases without borders": ((2, 27, 30, 52), 64, [(0, 0), (0, 0)], 3),
    "groups": ((4, 12, 12, 128), 128, ALL_AROUND, 1, 2),
    "more results than channels": ((8, 11, 14, 64), 192, [(0, 1), (2, 0)], 1, 2),
    "phases of groups": ((8, 24, 28, 128), 128, [(2, 2), (2, 2)], 2, 2),
    "windows of five": ((4, 13, 16, 64), 96, AROUND_FIVE, 1, 1, 5),
    "phases of windows of five": ((4, 25, 28, 64), 64, [(4, 4), (4, 4)], 2, 1, 5),
    "groups' sums of a panel": ((4, 8, 9, 512), 512, ALL_AROUND, 1, 4),
}


@covering(case=FILTERS, target=NAMED_TARGETS)
def test_filter_gradient(case, target: Target) -> None:
    x_shape, results, padding, dilation, groups, window = of_all(case)
    how = (STEPS, padding, (dilation, dilation), groups)
    a, b = values(x_shape), values((window, window, x_shape[-1] // groups, results))
    g = values(convolve(a, b, *how).shape)
    want = gradients(*(v.astype("float64") for v in (a, b, g)), *how)[1]
    x, dy = tensor(a.shape), tensor(g.shape, name="dy")
    dw = conv.conv_nd_filter_grad(x, dy, b.shape, *how)
    worst = WORST_ERROR_OF_FIVES if window == 5 else WORST_ERROR
    assert_near(run_te(dw, {x: a, dy: g}, b.shape, target, FILTER_WINOGRAD), want, worst)


def test_filter_gradients_dilated_one_way_and_of_odd_groups_are_direct_sums() -> None:
    for dilations, channels, groups, is_selected in (
        ((2, 2), 128, 1, True),
        ((1, 2), 128, 1, False),
        ((1, 1), 80, 2, False),
    ):
        padding = [(wide, wide) for wide in dilations]
        x, dy = tensor((4, 16, 16, channels)), tensor((4, 16, 16, 128), name="dy")
        dw = conv.conv_nd_filter_grad(x, dy, (3, 3, channels // groups, 128), STEPS, padding, dilations, groups)
        assert is_filter_winograd(dw, [x, dy], HOST) == is_selected


def test_filter_gradient_and_an_update_are_one_kernel() -> None:
    a, g, w = values((2, 16, 16, 64)), values((2, 16, 16, 64)), values((3, 3, 64, 64))
    want = w - 0.5 * gradients(a, w, g, *PLAIN)[1]

    def program(emit, x, dy, w):
        dw = emit(relax.BlockBuilder.current().call_te(conv.conv_nd_filter_grad, x, dy, w.ty.shape.values, *PLAIN))
        return emit(relax.op.subtract(w, emit(relax.op.multiply(dw, relax.const(0.5, "float32")))))

    assert_near(run_relax(program, [a, g, w], HOST), want)


def test_filter_gradients_stay_direct_sums_where_those_are_as_fast() -> None:
    for shape in [(1, 8, 8, 16, 32), (1, 4, 4, 64, 64), (8, 32, 32, 64, 6), (8, 32, 32, 3, 64)]:
        assert fastest_filter_tiling(Shape(*shape), CpuTarget.of(HOST)) is None


def test_epilogue_sees_each_result_once() -> None:
    def program(emit, x, w, b):
        y = emit(relax.BlockBuilder.current().call_te(conv.conv_nd, x, w, *PLAIN))
        return emit(relax.op.nn.relu(emit(relax.op.add(emit(relax.op.add(y, b)), x))))

    x, w, b = values((1, 9, 9, 32)), values((3, 3, 32, 32)), values((32,))
    want = np.maximum(convolve(x, w, *PLAIN) + b + x, 0)
    assert_near(run_relax(program, [x, w, b], HOST), want)


def test_prologue_melts_into_the_copy() -> None:
    a, b = values((2, 12, 12, 32)), values((3, 3, 32, 32))
    x, w = tensor(a.shape), tensor(b.shape, name="w")
    positive = te.compute(x.shape, lambda *place: tirx.max(x(*place), 0.0))
    y = run_te(conv.conv_nd(positive, w, *PLAIN), {x: a, w: b}, a.shape, HOST)
    assert_near(y, convolve(np.maximum(a, 0), b, *PLAIN))


@pytest.mark.parametrize(
    "shape",
    [Shape(1, 8, 8, 4, 32), Shape(1, 8, 8, 32, 20), Shape(1, 1, 1, 64, 64), Shape(1, 4, 4, 512, 512)],
    ids=["few channels", "odd results", "one place", "mostly filter"],
)
def test_direct_sums_where_they_are_as_fast(shape: Shape) -> None:
    assert fastest_tiling(shape, True, CpuTarget.of(HOST)) is None


def test_few_tiles_of_a_large_filter_are_summed_in_blocks() -> None:
    facts = CpuTarget(512, 32, 2)
    for shape, is_selected in ((Shape(8, 7, 7, 512, 512), True), (Shape(8, 56, 56, 64, 64), False)):
        cut = fastest_tiling(shape, False, facts)
        assert cut is not None
        assert bool(cut.block) == is_selected
    for case in BLOCKS.values():
        (images, height, width, channels), results, _padding, _dilation, groups, _window = of_all(case)
        cut = fastest_tiling(Shape(images, height, width, channels // groups, results // groups, groups), False, facts)
        assert cut is not None
        assert cut.block


def test_cores_share_a_single_image() -> None:
    facts = CpuTarget(512, 32, 4)
    cut = fastest_tiling(Shape(1, 16, 16, 128, 128), True, facts)
    assert cut is not None
    assert cut.tiles(16) // cut.rows * cut.groups >= facts.cores


def test_other_convolutions_stay_as_they_are() -> None:
    x, w = tensor((2, 12, 12, 32)), tensor((3, 3, 32, 32), name="w")
    for how in [((2, 2), ALL_AROUND, (1, 1)), (STEPS, ALL_AROUND, (2, 2)), (STEPS, ALL_AROUND, (1, 1), 4)]:
        groups = how[3] if len(how) > 3 else 1
        w = tensor((3, 3, 32 // groups, 32), name="w")
        assert not is_winograd(conv.conv_nd(x, w, *how), [x, w], HOST)
