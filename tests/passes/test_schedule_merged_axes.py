"""Results that merge two axes, as in grouped convolutions: sums are stored in place."""

from __future__ import annotations

import numpy as np
from covering import covering
from schedule_programs import HOST, NAMED_TARGETS, run_relax, run_te, tensor, values
from test_schedule_kernels import convolve, gradients
from tvm import relax, te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv
from tvtf.ops.kernels.common import compute, long, reduce_axis
from tvtf.passes.schedule.cpu import schedule

# channels, results, groups, strides
GROUPS = [(128, 128, 32, 1), (24, 36, 3, 1), (10, 15, 5, 2), (32, 8, 8, 1), (64, 64, 4, 2)]


def is_copied(result: te.Tensor, operands: list[te.Tensor]) -> bool:
    """Whether sums are put into memory before they are stored in their places."""
    script = schedule(te.create_prim_func([*operands, result]), HOST).script()
    return any(f"{name} = T.alloc_buffer" in script for name in ("conv", "conv_input_grad", "conv_filter_grad"))


@covering(case=GROUPS, target=NAMED_TARGETS)
def test_groups_and_their_gradients(case: tuple[int, int, int, int], target: Target) -> None:
    channels, results, groups, stride = case
    how = ((stride, stride), [(1, 1), (1, 1)], (1, 1), groups)
    a, b = values((2, 9, 11, channels)), values((3, 3, channels // groups, results))
    y = convolve(a, b, *how)
    g = values(y.shape)
    dx, dw = gradients(a, b, g, *how)
    x, w, dy = tensor(a.shape), tensor(b.shape, name="w"), tensor(g.shape, name="dy")
    results_of = {
        "y": (conv.conv_nd(x, w, *how), {x: a, w: b}, y),
        "dx": (conv.conv_nd_input_grad(dy, w, a.shape, *how), {dy: g, w: b}, dx),
        "dw": (conv.conv_nd_filter_grad(x, dy, b.shape, *how), {x: a, dy: g}, dw),
    }
    for name, (result, operands, want) in results_of.items():
        near = {"rtol": 1e-4, "atol": 3e-5 * want.std(), "err_msg": name}
        np.testing.assert_allclose(run_te(result, operands, want.shape, target), want, **near)
        assert stride > 1 or not is_copied(result, [*operands])


def test_an_epilogue_runs_on_each_sum() -> None:
    how = ((1, 1), [(1, 1), (1, 1)], (1, 1), 8)

    def program(emit, x, w, b):
        y = emit(relax.BlockBuilder.current().call_te(conv.conv_nd, x, w, *how))
        return emit(relax.op.nn.relu(emit(relax.op.add(emit(relax.op.add(y, b)), x))))

    x, w, b = values((2, 7, 9, 32)), values((3, 3, 4, 32)), values((32,))
    want = np.maximum(convolve(x, w, *how) + b + x, 0)
    np.testing.assert_allclose(run_relax(program, [x, w, b], HOST), want, rtol=1e-4, atol=1e-4)


def test_sums_that_are_read_twice_are_kept() -> None:
    x, y, five = tensor((6, 5, 8)), tensor((8, 40), name="y"), long(5)
    k = reduce_axis(8, "k")
    sums = compute((6, 5, 40), lambda a, b, c: te.sum(x(a, b, k) * y(k, c), axis=[k]), "sums")

    def both(p, c):
        row, at = tirx.floordiv(p, five), tirx.floormod(p, five)
        return sums(row, at, c) + sums(row, tirx.floormod(p + 1, five), c)

    a, b = values((6, 5, 8)), values((8, 40))
    want = (a @ b + np.roll(a @ b, -1, axis=1)).reshape(30, 40)
    whole = compute((30, 40), both, "whole")
    np.testing.assert_allclose(run_te(whole, {x: a, y: b}, (30, 40), HOST), want, rtol=1e-4, atol=1e-5)
