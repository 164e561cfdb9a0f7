"""Convolution and pooling kernels, scheduled: NumPy's values, gradients included."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
import tvm_ffi
from convolution_checks import check_convolution
from convolution_oracle import Geometry, convolve, gradients
from covering import covering
from schedule_programs import HOST, NAMED_TARGETS, TARGETS, run_relax, run_te, tensor, values
from tvm import IRModule, relax, te, tirx
from tvm.target import Target

from tvtf.ops.kernels import conv, pool
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.schedule.cpu import schedule
from tvtf.passes.schedule.cpu.inline import inline_stages
from tvtf.passes.schedule.cpu.interleaved_results import phases_of
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.reduction import merged_reduction
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import plan_reduction

CONVOLUTIONS = {
    "plain": ((2, 9, 11, 5), (3, 3, 5, 7), (1, 1), [(0, 0), (0, 0)], (1, 1), 1),
    "one channel": ((2, 9, 11, 1), (3, 3, 1, 32), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "one channel, few results": ((2, 9, 11, 1), (5, 5, 1, 6), (1, 1), [(2, 2), (2, 2)], (1, 1), 1),
    "one result": ((2, 9, 11, 20), (3, 3, 20, 1), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "few results": ((2, 9, 11, 40), (3, 3, 40, 3), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "stride 2": ((2, 9, 11, 17), (3, 3, 17, 33), (2, 2), [(0, 1), (1, 1)], (1, 1), 1),
    "stride 2 over kernel 1": ((2, 9, 10, 17), (1, 1, 17, 33), (2, 2), [(0, 0), (0, 0)], (1, 1), 1),
    "stride 2 over kernel 4": ((2, 6, 8, 20), (4, 4, 20, 24), (2, 2), [(1, 1), (1, 1)], (1, 1), 1),
    "stride 3 over kernel 2": ((2, 9, 11, 4), (2, 2, 4, 6), (3, 3), [(0, 0), (0, 0)], (1, 1), 1),
    "uneven": ((2, 9, 11, 4), (5, 2, 4, 6), (2, 1), [(2, 2), (0, 1)], (1, 1), 1),
    "dilated": ((2, 9, 11, 4), (3, 3, 4, 6), (1, 1), [(2, 2), (2, 2)], (2, 2), 1),
    "strided and dilated": ((2, 9, 11, 4), (3, 3, 4, 6), (2, 2), [(2, 2), (2, 2)], (2, 2), 1),
    "depthwise": ((2, 9, 11, 20), (3, 3, 1, 20), (2, 2), [(1, 1), (1, 1)], (1, 1), 20),
    "depthwise in whole vectors": ((2, 9, 11, 48), (3, 3, 1, 48), (1, 1), [(1, 1), (1, 1)], (1, 1), 48),
    "depth multiplier": ((2, 9, 11, 6), (3, 3, 1, 12), (1, 1), [(1, 1), (1, 1)], (1, 1), 6),
    "groups of half a vector": ((2, 9, 11, 24), (3, 3, 8, 24), (1, 1), [(1, 1), (1, 1)], (1, 1), 3),
    "groups": ((2, 9, 11, 8), (3, 3, 4, 6), (2, 2), [(1, 1), (1, 1)], (1, 1), 2),
    "few channels": ((2, 5, 9, 7), (3, 3, 7, 13), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "two tiles a row": ((2, 5, 16, 8), (3, 3, 8, 40), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "large filter": ((9, 4, 4, 176), (3, 3, 176, 176), (1, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "bands of one image": ((1, 24, 12, 8), (3, 3, 8, 20), (1, 1), [(1, 1), (0, 2)], (1, 1), 1),
    "strided bands": ((1, 31, 9, 8), (3, 3, 8, 20), (2, 1), [(1, 1), (1, 1)], (1, 1), 1),
    "bands of taps far apart": ((2, 24, 9, 8), (2, 3, 8, 20), (1, 1), [(1, 2), (1, 1)], (3, 1), 1),
    "one dim": ((3, 30, 5), (4, 5, 9), (2,), [(3, 0)], (1,), 1),
    "three dims": ((2, 5, 6, 7, 3), (3, 2, 3, 3, 8), (1, 2, 1), [(1, 1), (0, 1), (1, 1)], (1, 1, 1), 1),
}


@covering(case=CONVOLUTIONS, target=NAMED_TARGETS)
def test_convolution_and_gradients(case, target: Target) -> None:
    check_convolution(case, target)


def test_depthwise_tiles_use_each_operand_for_many_results() -> None:
    x, w, dy = tensor((2, 9, 11, 48)), tensor((3, 3, 1, 48), name="w"), tensor((2, 7, 9, 48), name="dy")
    how = ((1, 1), [(0, 0), (0, 0)], (1, 1), 48)
    for y, operands, least in [
        (conv.conv_nd(x, w, *how), [x, w], 8),
        (conv.conv_nd_filter_grad(x, dy, (3, 3, 1, 48), *how), [x, dy], 9),
    ]:
        kernel = read_kernel(te.create_prim_func([*operands, y]))
        stage = next(stage for stage in kernel.stages if stage.reduce)
        plan = plan_reduction(stage, CpuTarget(512, 32, 2))
        assert prod(plan.sizes.values()) >= least


def test_convolution_with_unknown_batch() -> None:
    how = ((2, 2), [(1, 1), (1, 1)], (1, 1), 1)
    n = tirx.Var("n", "int64")
    a, b = values((5, 9, 9, 4)), values((3, 3, 4, 20))
    g = values((5, 5, 5, 20))
    x, w, dy = tensor((n, 9, 9, 4)), tensor(b.shape, name="w"), tensor((n, 5, 5, 20), name="dy")
    dx, dw = gradients(a, b, g, *how)
    close = {"rtol": 1e-4, "atol": 1e-3}
    y = run_te(conv.conv_nd(x, w, *how), {x: a, w: b}, g.shape, HOST)
    np.testing.assert_allclose(y, convolve(a, b, *how), **close)
    result = conv.conv_nd_input_grad(dy, w, (n, 9, 9, 4), *how)
    np.testing.assert_allclose(run_te(result, {dy: g, w: b}, a.shape, HOST), dx, **close)
    result = conv.conv_nd_filter_grad(x, dy, b.shape, *how)
    np.testing.assert_allclose(run_te(result, {x: a, dy: g}, b.shape, HOST), dw, **close)


def test_fused_convolution_bias_relu() -> None:
    def program(emit, x, w, b):
        how = ((1, 1), [(1, 1), (1, 1)], (1, 1), 1)
        y = emit(relax.BlockBuilder.current().call_te(conv.conv_nd, x, w, *how))
        return emit(relax.op.nn.relu(emit(relax.op.add(y, b))))

    x, w, b = values((3, 9, 9, 4)), values((3, 3, 4, 20)), values((20,))
    want = np.maximum(convolve(x, w, (1, 1), [(1, 1), (1, 1)], (1, 1), 1) + b, 0)
    np.testing.assert_allclose(run_relax(program, [x, w, b], HOST), want, rtol=1e-4, atol=1e-4)


def test_epilogue_of_a_band_reads_its_own_rows() -> None:
    def program(emit, x, w, before):
        how = ((2, 2), [(1, 1), (1, 1)], (1, 1), 1)
        y = emit(relax.BlockBuilder.current().call_te(conv.conv_nd, x, w, *how))
        return emit(relax.op.nn.relu(emit(relax.op.add(y, before))))

    x, w, before = values((1, 31, 9, 8)), values((3, 3, 8, 20)), values((1, 16, 5, 20))
    want = np.maximum(convolve(x, w, (2, 2), [(1, 1), (1, 1)], (1, 1), 1) + before, 0)
    np.testing.assert_allclose(run_relax(program, [x, w, before], HOST), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_convolution_of_half_types_sums_in_float32(dtype: str) -> None:
    kind = values((1,), dtype).dtype
    a, b = np.full((1, 3, 700), 1, kind), np.full((3, 700, 2), 1, kind)
    x, w = tensor(a.shape, dtype), tensor(b.shape, dtype, "w")
    result = run_te(conv.conv_nd(x, w, (1,), [(0, 0)], (1,)), {x: a, w: b}, (1, 1, 2), HOST)
    np.testing.assert_array_equal(result.astype("float32"), np.full((1, 1, 2), 2100, kind).astype("float32"))


POOLS = {
    "halves": ((2, 6, 8, 20), (2, 2), (2, 2), [(0, 0), (0, 0)]),
    "overlap": ((2, 7, 9, 20), (3, 3), (2, 2), [(1, 1), (1, 1)]),
    "every place": ((2, 5, 6, 3), (3, 3), (1, 1), [(1, 1), (1, 1)]),
    "gaps": ((2, 7, 8, 3), (2, 2), (3, 3), [(0, 1), (0, 0)]),
    "one dim": ((2, 13, 16), (4,), (2,), [(1, 2)]),
    "more places than a byte counts": ((1, 300, 5), (140,), (80,), [(0, 0)]),
    "three dims": ((2, 5, 4, 6, 5), (2, 2, 2), (2, 2, 2), [(0, 1), (0, 0), (0, 0)]),
}


@covering(case=POOLS, target=NAMED_TARGETS)
def test_pooling_and_gradients(case, target: Target) -> None:
    x_shape, window, strides, padding = case
    a = np.round(values(x_shape))
    shape = Geometry(x_shape[1:-1], window, strides, padding, [1] * len(window))
    largest, winner, total, count = pool_reference(a, shape)
    g = values(largest.shape)
    x, y, dy = tensor(x_shape), tensor(g.shape, name="y"), tensor(g.shape, name="dy")
    how = (window, strides, padding)
    np.testing.assert_array_equal(run_te(pool.max_pool_nd(x, *how), {x: a}, g.shape, target), largest)
    mean = run_te(pool.avg_pool_nd(x, *how), {x: a}, g.shape, target)
    np.testing.assert_allclose(mean, total / count, rtol=1e-5, atol=1e-6)
    to_winner, shared = pool_gradients(g, shape, a, winner, count)
    result = run_te(pool.max_pool_nd_grad(dy, x, y, *how), {dy: g, x: a, y: largest.astype("float32")}, x_shape, target)
    np.testing.assert_allclose(result, to_winner, rtol=1e-5, atol=1e-5)
    result = run_te(pool.avg_pool_nd_grad(dy, x_shape, *how), {dy: g}, x_shape, target)
    np.testing.assert_allclose(result, shared, rtol=1e-5, atol=1e-5)


def pool_reference(x: np.ndarray, shape: Geometry) -> tuple[np.ndarray, ...]:
    around = shape.pad(x, -np.inf)
    results = (x.shape[0], *shape.results, x.shape[-1])
    largest, winner = np.full(results, -np.inf), np.zeros(results, int)
    total, count = np.zeros(results), np.zeros(results)
    for number, (_tap, place) in enumerate(shape.taps()):
        value = around[place]
        winner = np.where(value > largest, number, winner)
        largest = np.maximum(largest, value)
        total += np.where(np.isfinite(value), value, 0)
        count += np.isfinite(value)
    return largest, winner, total, count


def pool_gradients(dy, shape: Geometry, x, winner, count) -> tuple[np.ndarray, np.ndarray]:
    to_winner, shared = np.zeros(shape.pad(x).shape), np.zeros(shape.pad(x).shape)
    for number, (_tap, place) in enumerate(shape.taps()):
        to_winner[place] += np.where(winner == number, dy, 0)
        shared[place] += dy / count
    return shape.crop(to_winner, x.shape[1:-1]), shape.crop(shared, x.shape[1:-1])


@pytest.mark.parametrize("place", range(4))
def test_max_pool_keeps_nan(place: int) -> None:
    a = np.zeros((1, 4, 20), "float32")
    a[0, place] = np.nan
    x = tensor(a.shape)
    result = run_te(pool.max_pool_nd(x, (4,), (4,), [(0, 0)]), {x: a}, (1, 1, 20), HOST)
    assert np.isnan(result).all()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "float16", "float64"])
def test_max_pool_of_any_dtype(dtype: str) -> None:
    a = np.abs(values((2, 6, 5))).astype(dtype)
    x = te.placeholder(tensor(a.shape).shape, dtype, "x")
    result = run_te(pool.max_pool_nd(x, (2,), (2,), [(0, 0)]), {x: a}, (2, 3, 5), HOST)
    np.testing.assert_array_equal(result, a.reshape(2, 3, 2, 5).max(2))


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("groups", [1, 24], ids=["all channels", "depthwise"])
def test_phases_are_stored_where_they_lie(groups: int, target: Target) -> None:
    """With what follows the gradient: a mask at the results' own places."""
    x_shape, w_shape, how = (2, 11, 8, 24), (3, 3, 24 // groups, 24), ((2, 2), [(1, 1), (0, 1)], (1, 1), groups)
    a, b = values(x_shape), values(w_shape)
    g = values(convolve(a, b, *how).shape)
    x, w, dy = tensor(x_shape), tensor(w_shape, name="w"), tensor(g.shape, name="dy")
    dx = conv.conv_nd_input_grad(dy, w, x_shape, *how)
    masked = te.compute(dx.shape, lambda *at: tirx.Select(x(*at) > 0.0, dx(*at), tirx.const(0, "float32")))
    kernel = read_kernel(te.create_prim_func([dy, w, x, masked]))
    found = phases_of(inline_stages(kernel), kernel)
    assert found is not None and len(found.phases) == 4
    want = np.where(a > 0, gradients(a, b, g, *how)[0], 0)
    got = run_te(masked, {dy: g, w: b, x: a}, x_shape, target)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_phases_are_stored_where_they_lie_if_a_result_is_used_twice(target: Target) -> None:
    """As by the relu of a transposed convolution: its choice among contractions is a stage of its own."""
    x_shape, w_shape, how = (2, 11, 8, 24), (3, 3, 24, 24), ((2, 2), [(1, 1), (0, 1)], (1, 1), 1)
    a, b = values(x_shape), values(w_shape)
    g = values(convolve(a, b, *how).shape)
    w, dy = tensor(w_shape, name="w"), tensor(g.shape, name="dy")
    dx = conv.conv_nd_input_grad(dy, w, x_shape, *how)
    relu = te.compute(dx.shape, lambda *at: tirx.Select(dx(*at) <= 0.0, tirx.const(0, "float32"), dx(*at)))
    kernel = read_kernel(te.create_prim_func([dy, w, relu]))
    found = phases_of(inline_stages(kernel), kernel)
    assert found is not None and len(found.replaced) == 2 and len(found.phases) == 4
    want = np.maximum(gradients(a, b, g, *how)[0], 0)
    np.testing.assert_allclose(run_te(relu, {dy: g, w: b}, x_shape, target), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_phases_do_not_read_what_is_computed_after_their_sums(target: Target) -> None:
    """An expensive operand of the result, which is a stage of its own between the sums and the result."""
    x_shape, w_shape, how = (2, 11, 8, 24), (3, 3, 24, 24), ((2, 2), [(1, 1), (0, 1)], (1, 1), 1)
    a, b, other = values(x_shape), values(w_shape), values(x_shape)
    g = values(convolve(a, b, *how).shape)
    w, dy, y = tensor(w_shape, name="w"), tensor(g.shape, name="dy"), tensor(x_shape, name="y")
    dx = conv.conv_nd_input_grad(dy, w, x_shape, *how)
    costly = te.compute(y.shape, lambda *at: tirx.exp(y(*at)) / (1.0 + tirx.exp(-y(*at) * y(*at))), "costly")
    result = te.compute(dx.shape, lambda *at: (dx(*at) + y(*at)) * costly(*at) + costly(*at) * costly(*at))
    e = np.exp(other.astype("float64")) / (1 + np.exp(-(other.astype("float64") ** 2)))
    want = (gradients(a, b, g, *how)[0] + other) * e + e * e
    np.testing.assert_allclose(
        run_te(result, {dy: g, w: b, y: other}, x_shape, target), want, rtol=1e-4, atol=1e-3 * abs(want).max()
    )


@pytest.mark.parametrize("window", [2, 4, 5])
def test_a_strided_gradient_is_a_sum_for_each_phase(window: int) -> None:
    dy, w = tensor((2, 3, 3, 24), name="dy"), tensor((window, window, 20, 24), name="w")
    dx = conv.conv_nd_input_grad(dy, w, (2, 6, 6, 20), (2, 2), [(1, 1)] * 2, (1, 1))
    kernel = read_kernel(te.create_prim_func([dy, w, dx]))
    found = phases_of(inline_stages(kernel), kernel)
    assert found is not None and len(found.phases) == 4


@pytest.mark.parametrize(
    ("channels", "results", "along_terms"), [(7, 13, False), (4, 7, False), (3, 13, True), (7, 100, True)]
)
def test_gradients_of_few_channels_fill_vectors_with_what_fills_them_more(
    channels: int, results: int, along_terms: bool
) -> None:
    dy, w = tensor((32, 16, 16, results), name="dy"), tensor((3, 3, channels, results), name="w")
    dx = conv.conv_nd_input_grad(dy, w, (32, 16, 16, channels), (1, 1), [(1, 1), (1, 1)], (1, 1))
    kernel = read_kernel(te.create_prim_func([dy, w, dx]))
    stage = next(stage for stage in kernel.stages if stage.reduce)
    plan = plan_reduction(merged_reduction(stage), CpuTarget(512, 32, 2))
    assert plan is not None and plan.along_terms == along_terms


@pytest.mark.parametrize("stride", [1, 2])
def test_rows_of_a_copy_do_not_meet_in_the_cache(stride: int) -> None:
    """256 channels are a quarter of a page: the copy's rows are a line longer, in the code, too."""
    x_shape, w_shape, how = (1, 5, 6, 256), (3, 3, 256, 20), ((stride, stride), [(1, 1), (1, 1)], (1, 1), 1)
    a, b = values(x_shape), values(w_shape)
    want = convolve(a, b, *how)
    x, w = tensor(x_shape), tensor(w_shape, name="w")
    y = conv.conv_nd(x, w, *how)
    func = schedule(te.create_prim_func([x, w, y]).with_attr("global_symbol", "main"), HOST)
    host, _ = lower_kernels(IRModule({"main": func}), HOST)
    assert any(size % 272 == 0 for size in buffers(host["main"]))
    np.testing.assert_allclose(run_te(y, {x: a, w: b}, want.shape, HOST), want, rtol=1e-4, atol=1e-3)


def buffers(func: tirx.PrimFunc) -> list[int]:
    """The items of each buffer of a lowered kernel."""
    found: list[int] = []
    tvm_ffi.structural_walk(
        func.body, (tirx.DeclBuffer, lambda node: found.append(prod(map(int, node.buffer.ty.shape))))
    )
    return found


def test_vectors_of_a_filters_gradient_run_along_channels_where_results_are_few() -> None:
    x, dy = tensor((2, 9, 11, 40)), tensor((2, 9, 11, 3), name="dy")
    dw = conv.conv_nd_filter_grad(x, dy, (3, 3, 40, 3), (1, 1), [(1, 1), (1, 1)], (1, 1))
    stage = next(stage for stage in read_kernel(te.create_prim_func([x, dy, dw])).stages if stage.reduce)
    for target in (CpuTarget(512, 32, 2), CpuTarget(256, 16, 2)):
        assert plan_reduction(stage, target).vector.size == 40


def test_large_operands_of_sliced_sums_cost_no_more_than_small_ones() -> None:
    """Slices stay in the cache: tiles of two vectors, however many places there are."""
    for side in (16, 112):
        x, dy = tensor((4, 2 * side, 2 * side, 3)), tensor((4, side, side, 32), name="dy")
        dw = conv.conv_nd_filter_grad(x, dy, (3, 3, 3, 32), (2, 2), [(0, 1), (0, 1)], (1, 1))
        stage = next(stage for stage in read_kernel(te.create_prim_func([x, dy, dw])).stages if stage.reduce)
        assert plan_reduction(stage, CpuTarget(512, 32, 2)).vectors == 2


def test_vectors_run_along_few_terms_where_those_of_neighbouring_results_are_far_in_memory() -> None:
    dy, w = tensor((2, 28, 28, 6), name="dy"), tensor((5, 5, 1, 6), name="w")
    y = conv.conv_nd_input_grad(dy, w, (2, 28, 28, 1), (1, 1), [(2, 2), (2, 2)], (1, 1))
    stage = next(stage for stage in inline_stages(read_kernel(te.create_prim_func([dy, w, y]))) if stage.reduce)
    plan = plan_reduction(merged_reduction(stage), CpuTarget(512, 32, 2))
    assert plan is not None
    assert plan.along_terms


def test_vectors_run_along_results_where_terms_end_in_parts_of_vectors() -> None:
    dy, w = tensor((1, 12, 12, 50), name="dy"), tensor((5, 5, 20, 50), name="w")
    y = conv.conv_nd_input_grad(dy, w, (1, 12, 12, 20), (1, 1), [(2, 2), (2, 2)], (1, 1))
    stage = next(stage for stage in inline_stages(read_kernel(te.create_prim_func([dy, w, y]))) if stage.reduce)
    plan = plan_reduction(merged_reduction(stage), CpuTarget(512, 32, 2))
    assert plan is not None
    assert not plan.along_terms
