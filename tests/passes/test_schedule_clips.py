"""Convolutions whose tiles skip the zero padding: NumPy's values."""

from __future__ import annotations

import numpy as np
import pytest
from convolution_checks import check_convolution
from covering import covering
from schedule_programs import NAMED_TARGETS, TARGETS, tensor
from tvm import te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv
from tvtf.passes.schedule.cpu.border_clips import with_clips
from tvtf.passes.schedule.cpu.kernel import Axis, Clip, read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget

CONVOLUTIONS = {
    "large window": ((2, 7, 8, 20), (5, 5, 20, 18), (1, 1), [(2, 2), (2, 2)], (1, 1), 1),
    "far taps": ((2, 9, 9, 16), (3, 3, 16, 33), (1, 1), [(4, 4), (4, 4)], (4, 4), 1),
    "taps that meet nothing": ((2, 5, 6, 24), (3, 3, 24, 20), (1, 1), [(8, 8), (7, 7)], (8, 7), 1),
    "strided": ((2, 9, 8, 32), (5, 5, 32, 20), (2, 2), [(2, 2), (1, 2)], (1, 1), 1),
    "one sided": ((2, 8, 8, 20), (4, 3, 20, 20), (1, 1), [(3, 0), (0, 2)], (1, 1), 1),
    "groups": ((2, 7, 7, 32), (5, 5, 16, 32), (1, 1), [(2, 2), (2, 2)], (1, 1), 2),
    "one dim": ((3, 12, 20), (5, 20, 17), (1,), [(8, 0)], (2,), 1),
    "three dims": ((2, 3, 4, 5, 16), (3, 3, 3, 16, 16), (1, 1, 1), [(1, 1)] * 3, (1, 1, 1), 1),
}


@covering(case=CONVOLUTIONS, target=NAMED_TARGETS)
def test_convolution_without_its_border(case, target: Target) -> None:
    check_convolution(case, target)


@pytest.mark.sweep
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("number", range(60))
def test_any_convolution_without_its_border(number: int, target: Target) -> None:
    rng = np.random.default_rng(number)
    window, dilations, strides = ([int(n) for n in rng.integers(1, most, 2)] for most in (6, 5, 3))
    reach = [(taps - 1) * wide for taps, wide in zip(window, dilations)]
    padding = [tuple(int(n) for n in rng.integers(0, most + 2, 2)) for most in reach]
    least = [max(1, far + 1 - low - high) for far, (low, high) in zip(reach, padding)]
    sides = [int(rng.integers(size, size + 9)) for size in least]
    channels, results = (int(n) for n in rng.integers(1, 40, 2))
    check_convolution(((2, *sides, channels), (*window, channels, results), strides, padding, dilations, 1), target)


def test_clips_keep_what_counts() -> None:
    for low, high, by_result, by_term in [(2, 9, 1, 1), (4, 8, 2, 3), (0, 7, 1, 2), (5, 6, 3, 1)]:
        result, term = (Axis(tirx.Var("at", "int64"), tirx.IntImm("int64", size)) for size in (7, 5))
        clip = Clip(result, term, by_result, by_term, low, high)
        inside = [[low <= r * by_result + t * by_term < high for t in range(5)] for r in range(7)]
        for first in range(7):
            for count in range(1, 7 - first + 1):
                start, stop = clip.bounds(first, count)
                for t in range(5):
                    assert start <= t < stop or not any(row[t] for row in inside[first : first + count])
        assert clip.saved_share(1) == pytest.approx(1 - np.mean(inside))


def test_filters_of_far_taps_sum_over_half_of_all_places() -> None:
    x, dy = tensor((2, 12, 12, 16)), tensor((2, 12, 12, 16), name="dy")
    how = ((1, 1), [(6, 6), (6, 6)], (6, 6), 1)
    kernel = read_kernel(te.create_prim_func([x, dy, conv.conv_nd_filter_grad(x, dy, (3, 3, 16, 16), *how)]))
    source, stage = kernel.stages
    clips = with_clips(stage, [source], CpuTarget(512, 32, 2)).clips
    assert [clip.saved_share(1) for clip in clips] == pytest.approx([1 / 3, 1 / 3])
