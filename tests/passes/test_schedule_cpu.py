"""CPU schedules: the scheduled kernel gives NumPy's values for every rule, shape and vector width."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import tvm
import tvm_ffi
from hypothesis import given, settings
from hypothesis import strategies as st
from schedule_programs import AVX2, HOST, TARGETS, run, run_relax, run_te, tensor, values
from tvm import ir, relax, te, tirx
from tvm.target import Target

from tvtf.ops.kernels.matmul import matmul
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.native_code import native
from tvtf.passes.codegen.subroutines import lower_subroutine
from tvtf.passes.schedule.cpu import ScheduleCPU, emit, schedule, subroutine
from tvtf.passes.schedule.cpu.kernel import read_kernel
from tvtf.passes.schedule.cpu.target import CpuTarget
from tvtf.passes.schedule.cpu.tile_plan import plan_reduction

few = settings(max_examples=8, deadline=None, derandomize=True)
extents = st.sampled_from([1, 2, 3, 7, 10, 16, 17, 31, 40, 65])
targets = st.sampled_from(TARGETS)
op = relax.op
AVX512 = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": 2})


def reduce_over(x: te.Tensor, axes: tuple[int, ...], combine=te.sum) -> te.Tensor:
    over = {axis: te.reduce_axis((tirx.IntImm("int64", 0), x.shape[axis]), f"k{axis}") for axis in axes}
    kept = [axis for axis in range(len(x.shape)) if axis not in axes]

    def body(*place: ir.Expr) -> ir.Expr:
        at = dict(zip(kept, place))
        return combine(
            x(*[over[axis] if axis in over else at[axis] for axis in range(len(x.shape))]), axis=[*over.values()]
        )

    return te.compute([x.shape[axis] for axis in kept], body, "reduced")


@few
@given(extents, extents, st.sampled_from(["float32", "float64", "float16", "int32", "int8"]), targets)
def test_elementwise_with_broadcast(rows: int, columns: int, dtype: str, target: Target) -> None:
    x, row, column = tensor((rows, columns), dtype), tensor((columns,), dtype), tensor((rows, 1), dtype)
    y = te.compute(x.shape, lambda i, j: x[i, j] * row[j] + column[i, 0])
    inputs = {x: values((rows, columns), dtype), row: values((columns,), dtype), column: values((rows, 1), dtype)}
    a, b, c = inputs.values()
    np.testing.assert_allclose(
        run_te(y, inputs, a.shape, target),
        a * b + c,
        rtol=2e-2 if dtype == "float16" else 1e-6,
        atol=1e-2 if dtype == "float16" else 1e-6,
    )


@few
@given(st.integers(1, 300), targets)
def test_elementwise_with_unknown_size(size: int, target: Target) -> None:
    n = tirx.Var("n", "int64")
    x, b = tensor((n, 5)), tensor((5,))
    y = te.compute(x.shape, lambda i, j: x[i, j] + b[j])
    a, c = values((size, 5)), values((5,))
    np.testing.assert_array_equal(run_te(y, {x: a, b: c}, a.shape, target), a + c)


@pytest.mark.parametrize("size", [5, 300_001])
def test_unknown_size_serial_and_parallel(size: int) -> None:
    x = tensor((tirx.Var("n", "int64"),))
    y = te.compute(x.shape, lambda i: x[i] * tirx.const(2, "float32"))
    a = values((size,))
    np.testing.assert_array_equal(run_te(y, {x: a}, a.shape, HOST), a * 2)


@few
@given(extents, extents, targets)
def test_transpose(rows: int, columns: int, target: Target) -> None:
    x = tensor((rows, columns))
    a = values((rows, columns))
    y = te.compute((x.shape[1], x.shape[0]), lambda i, j: x[j, i])
    np.testing.assert_array_equal(run_te(y, {x: a}, (columns, rows), target), a.T)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("sizes", [(2, 1, 22), (5, 1, 9), (1, 2, 22), (2, 22, 1)])
def test_transpose_with_a_unit_axis_between(sizes: tuple[int, int, int], target: Target) -> None:
    images, rows, columns = sizes
    shape = (images, rows, columns, 64)
    x = tensor((images, 64, rows, columns))
    y = te.compute([tirx.IntImm("int64", size) for size in shape], lambda n, i, j, c: x[n, c, i, j])
    a = values((images, 64, rows, columns))
    np.testing.assert_array_equal(run_te(y, {x: a}, shape, target), a.transpose(0, 2, 3, 1))


def test_border_tests_leave_the_vector_loop() -> None:
    x = tensor((4, 100))
    edge = tirx.const(-1, "float32")
    y = te.compute(
        (x.shape[0], tirx.IntImm("int64", 107)),
        lambda i, j: tirx.if_then_else(tirx.all(j >= 3, j < 103), x[i, j - 3], edge),
    )
    a = values((4, 100))
    np.testing.assert_array_equal(run_te(y, {x: a}, (4, 107), HOST), np.pad(a, ((0, 0), (3, 4)), constant_values=-1))
    assert "if_then_else" not in schedule(te.create_prim_func([x, y]), HOST).script()


def test_two_outputs_share_a_nest() -> None:
    x = tensor((37, 3))
    y = te.compute(x.shape, lambda i, j: x[i, j] + tirx.const(1, "float32"))
    z = te.compute(x.shape, lambda i, j: y[i, j] * x[i, j])
    a = values((37, 3))
    first, second = run(te.create_prim_func([x, y, z]), [a], [a.shape, a.shape], "float32", HOST)
    np.testing.assert_array_equal(first, a + 1)
    np.testing.assert_allclose(second, (a + 1) * a, rtol=1e-6)


@few
@given(st.lists(extents, min_size=1, max_size=3), st.data(), targets)
def test_sum_over_any_axes(shape: list[int], data: st.DataObject, target: Target) -> None:
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    x, a = tensor(shape), values(shape)
    want = a.astype("float64").sum(axes)
    np.testing.assert_allclose(run_te(reduce_over(x, axes), {x: a}, want.shape, target), want, rtol=1e-4, atol=1e-4)


@few
@given(st.lists(extents, min_size=2, max_size=3), st.data(), targets)
def test_max_over_any_axes(shape: list[int], data: st.DataObject, target: Target) -> None:
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    x, a = tensor(shape), values(shape)
    result = run_te(reduce_over(x, axes, te.max), {x: a}, a.max(axes).shape, target)
    np.testing.assert_array_equal(result, a.max(axes))


@pytest.mark.parametrize("rows", [3, 70])
def test_two_reductions_across_rows_read_memory_in_its_order(rows: int) -> None:
    x, a = tensor((rows, 200)), values((rows, 200))
    largest = reduce_over(x, (0,), te.max)
    k = te.reduce_axis((tirx.IntImm("int64", 0), x.shape[0]), "k")
    total = te.compute((x.shape[1],), lambda j: te.sum(x[k, j] - largest[j], axis=[k]))
    want = (a - a.max(0)).astype("float64").sum(0)
    np.testing.assert_allclose(run_te(total, {x: a}, want.shape, HOST), want, rtol=1e-4)
    assert "T.vectorized(T.int64(16))" in schedule(te.create_prim_func([x, total]), AVX512).script()


def test_an_element_that_a_reduction_reads_twice_is_one_operand() -> None:
    keep_nan = te.comm_reducer(
        lambda a, b: tirx.Select(a <= b, b, tirx.Select(b <= tirx.infinity("float32"), a, b)),
        lambda kind: tirx.const(float("-inf"), kind),
    )
    x, a = tensor((20_000, 4)), values((20_000, 4))
    result = run_te(reduce_over(x, (1,), keep_nan), {x: a}, (20_000,), HOST)
    np.testing.assert_array_equal(result, a.max(1))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("rows", [1, 33, 5000])
def test_sum_with_unknown_rows(axes: tuple[int, ...], rows: int) -> None:
    x, a = tensor((tirx.Var("n", "int64"), 70)), values((rows, 70))
    want = a.astype("float64").sum(axes)
    np.testing.assert_allclose(run_te(reduce_over(x, axes), {x: a}, want.shape, HOST), want, rtol=1e-3, atol=1e-3)


def test_sum_of_twenty_million_ones_is_exact() -> None:
    x, ones = tensor((20_000_000,)), np.ones(20_000_000, "float32")
    assert run_te(reduce_over(x, (0,)), {x: ones}, (), HOST) == 20_000_000


def test_argmax_of_two_results_runs_as_written() -> None:
    def program(emit, x):
        return emit(op.argmax(x, axis=1))

    a = values((9, 40))
    np.testing.assert_array_equal(run_relax(program, [a], HOST), a.argmax(1))


@few
@given(extents, extents, extents, st.booleans(), st.booleans(), targets)
def test_matmul(m: int, n: int, k: int, left: bool, right: bool, target: Target) -> None:
    a, b = values((k, m) if left else (m, k)), values((n, k) if right else (k, n))
    x, y = tensor(a.shape), tensor(b.shape, name="y")
    want = (a.T if left else a).astype("float64") @ (b.T if right else b)
    np.testing.assert_allclose(
        run_te(matmul(x, y, left, right), {x: a, y: b}, (m, n), target), want, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_packed_matmul_with_ragged_tiles(left: bool, right: bool, target: Target) -> None:
    m, n, k = 301, 530, 70
    a, b = values((k, m) if left else (m, k)), values((n, k) if right else (k, n))
    x, y = tensor(a.shape), tensor(b.shape, name="y")
    want = (a.T if left else a).astype("float64") @ (b.T if right else b)
    np.testing.assert_allclose(
        run_te(matmul(x, y, left, right), {x: a, y: b}, (m, n), target), want, rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    ("a_shape", "b_shape"), [((3, 5, 7), (7, 4)), ((2, 1, 5, 7), (3, 7, 20)), ((1, 5, 7), (4, 7, 9))]
)
def test_matmul_broadcasts_batches(a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> None:
    a, b = values(a_shape), values(b_shape)
    x, y = tensor(a_shape), tensor(b_shape, name="y")
    np.testing.assert_allclose(run_te(matmul(x, y), {x: a, y: b}, (a @ b).shape, HOST), a @ b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int8", "int32"])
def test_batched_matmul_turns_an_operand_over(dtype: str, target: Target) -> None:
    a, b = values((3, 33, 37), dtype), values((3, 29, 37), dtype)
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    out = "int32" if "int" in dtype else "float64" if dtype == "float64" else "float32"
    want = a.astype("float64") @ b.astype("float64").swapaxes(1, 2)
    result = run_te(matmul(x, y, False, True, out_dtype=out), {x: a, y: b}, want.shape, target)
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)


def test_vectors_along_a_ragged_axis_are_whole() -> None:
    x, y = tensor((3000, 30)), tensor((30, 19), name="y")
    text = schedule(te.create_prim_func([x, y, matmul(x, y)]), AVX2).script()
    main = text[text.rindex("accumulator = ") :]
    assert "T.vectorized(T.int64(3))" in main[main.rindex("for i") :]
    assert "T.vectorized(T.int64(3))" not in main[: main.rindex("for i")]


@pytest.mark.parametrize(
    ("rows", "columns", "is_padded"),
    [
        (400, 72, False),
        (400, 71, True),
        (400, 7, True),
        (400, 8, False),
        (400, 64, False),
        (64, 72, False),
        (64, 71, False),
        (64, 73, False),
        (64, 24, False),
    ],
)
def test_rows_that_end_in_a_part_of_a_vector_are_padded(rows: int, columns: int, is_padded: bool) -> None:
    """But for those that are no more than a shorter vector, and where few rows would read the copy."""
    x, y = tensor((rows, 90)), tensor((90, columns), name="y")
    (stage,) = read_kernel(te.create_prim_func([x, y, matmul(x, y)])).stages
    plan = plan_reduction(stage, CpuTarget(512, 32, 2))
    assert bool(plan.padded) == is_padded


@pytest.mark.parametrize(
    ("terms", "columns", "vectors", "most"), [(9, 32, 2, 16), (27, 64, 4, 16), (16, 128, 4, 16), (300, 64, 2, 28)]
)
def test_sums_of_few_terms_are_stored_as_whole_rows(terms: int, columns: int, vectors: int, most: int) -> None:
    x, y = tensor((2000, terms)), tensor((terms, columns), name="y")
    (stage,) = read_kernel(te.create_prim_func([x, y, matmul(x, y)])).stages
    plan = plan_reduction(stage, CpuTarget(512, 32, 2))
    (rows,) = plan.sizes.values()
    assert plan.vectors == vectors
    assert most // 2 < rows * plan.vectors <= most


@pytest.mark.parametrize(("columns", "lanes"), [(65, 4), (69, 8), (71, 8), (75, 16), (7, 8)])
def test_rows_end_in_a_short_vector_where_whole_ones_run_in_halves(columns: int, lanes: int) -> None:
    x, y = tensor((400, 90)), tensor((90, columns), name="y")
    (stage,) = read_kernel(te.create_prim_func([x, y, matmul(x, y)])).stages
    halved = CpuTarget.of(Target({"kind": "llvm", "mcpu": "znver4"}))
    assert plan_reduction(stage, halved).padded == lanes
    assert plan_reduction(stage, replace(halved, is_halved=False)).padded == (16 if columns > 16 else 8)


@pytest.mark.parametrize("mcpu", ["znver4", "skylake-avx512", "x86-64-v3"])
@pytest.mark.parametrize("columns", [20, 37, 53])
def test_products_of_rows_that_end_in_a_part_of_a_vector(columns: int, mcpu: str) -> None:
    """Vectors as this target takes them, run on the machine at hand."""
    x, y = tensor((300, 40)), tensor((columns, 40), name="y")
    a, b = values((300, 40)), values((columns, 40))
    like = CpuTarget.of(Target({"kind": "llvm", "mcpu": mcpu}))
    with patch.object(CpuTarget, "of", lambda _target: like):
        got = run_te(matmul(x, y, False, True), {x: a, y: b}, (300, columns), HOST)
    np.testing.assert_allclose(got, a @ b.T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("columns", "lanes"), [(2, 2), (3, 4), (5, 8), (8, 8), (9, 16), (40, 16)])
def test_short_rows_take_the_shortest_vector_that_holds_them(columns: int, lanes: int) -> None:
    x, y = tensor((400, 90)), tensor((90, columns), name="y")
    (stage,) = read_kernel(te.create_prim_func([x, y, matmul(x, y)])).stages
    assert plan_reduction(stage, CpuTarget(512, 32, 2)).lanes == lanes


@pytest.mark.parametrize("rows", [1, 5, 64, 1001])
def test_matmul_with_unknown_rows(rows: int) -> None:
    a, b = values((rows, 30)), values((30, 50))
    x, y = tensor((tirx.Var("n", "int64"), 30)), tensor((30, 50), name="y")
    np.testing.assert_allclose(run_te(matmul(x, y), {x: a, y: b}, (rows, 50), HOST), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_matmul_of_half_types_sums_in_float32(dtype: str) -> None:
    a, b = np.ones((2, 5000)), np.ones((5000, 3))
    x, y = tensor(a.shape, dtype), tensor(b.shape, dtype, "y")
    inputs = {x: a.astype(values((1,), dtype).dtype), y: b.astype(values((1,), dtype).dtype)}
    result = run_te(matmul(x, y, out_dtype="float32"), inputs, (2, 3), HOST)
    np.testing.assert_array_equal(result, np.full((2, 3), 5000, "float32"))


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_fused_matmul_bias_relu(target: Target) -> None:
    def program(emit, x, w, b):
        return emit(op.nn.relu(emit(op.add(emit(op.matmul(x, w)), b))))

    x, w, b = values((37, 50)), values((50, 70)), values((70,))
    np.testing.assert_allclose(run_relax(program, [x, w, b], target), np.maximum(x @ w + b, 0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_costly_epilogue_of_a_matmul(rows: int, target: Target) -> None:
    def program(emit, x, w):
        product = emit(op.matmul(x, w))
        return emit(op.multiply(product, emit(op.sigmoid(product))))

    x, w = values((rows, 50)), values((50, 70))
    want = x @ w / (1 + np.exp(-(x @ w)))
    np.testing.assert_allclose(run_relax(program, [x, w], target), want, rtol=1e-4, atol=1e-4)


def test_a_costly_epilogue_is_a_loop_over_the_rows() -> None:
    x, w = tensor((6400, 50)), tensor((50, 64), name="w")
    product = matmul(x, w)
    ended = te.compute(product.shape, lambda i, j: tirx.exp(product[i, j]) / (product[i, j] + 1.0), "ended")
    cheap = te.compute(product.shape, lambda i, j: product[i, j] + 1.0, "cheap")
    for result, is_loop in ((ended, True), (cheap, False)):
        assert ("kept" in schedule(te.create_prim_func([x, w, result]), HOST).script()) == is_loop


def test_fused_matmul_and_sgd_update() -> None:
    def program(emit, w, x, dy):
        step = emit(op.multiply(emit(op.matmul(x, dy)), relax.const(0.1, "float32")))
        return emit(op.subtract(w, step))

    w, x, dy = values((90, 33)), values((90, 20)), values((20, 33))
    np.testing.assert_allclose(run_relax(program, [w, x, dy], HOST), w - 0.1 * (x @ dy), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("axis", [-1, 1])
def test_softmax(axis: int) -> None:
    def program(emit, x):
        return emit(op.nn.softmax(x, axis))

    a = values((6, 11, 37))
    e = np.exp(a - a.max(axis, keepdims=True))
    np.testing.assert_allclose(run_relax(program, [a], HOST), e / e.sum(axis, keepdims=True), rtol=1e-5)


def test_softmax_with_unknown_rows() -> None:
    def program(emit, x):
        return emit(op.nn.log_softmax(x))

    a = values((6, 37))
    kind = relax.TensorType((tirx.Var("n", "int64"), 37), "float32")
    want = a - a.max(1, keepdims=True)
    want -= np.log(np.exp(want).sum(1, keepdims=True))
    np.testing.assert_allclose(run_relax(program, [a], HOST, types=[kind]), want, rtol=1e-5, atol=1e-6)


def test_layer_norm() -> None:
    def program(emit, x, gamma, beta):
        return emit(op.nn.layer_norm(x, gamma, beta, axes=[-1]))

    x, gamma, beta = values((19, 70)), values((70,)), values((70,))
    want = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gamma + beta
    np.testing.assert_allclose(run_relax(program, [x, gamma, beta], HOST), want, rtol=1e-4, atol=1e-5)


def test_sum_of_squares() -> None:
    def program(emit, x):
        return emit(op.sum(emit(op.multiply(x, x))))

    a = values((300, 1001))
    np.testing.assert_allclose(run_relax(program, [a], HOST), (a.astype("float64") ** 2).sum(), rtol=1e-6)


def test_small_kernels_start_no_threads() -> None:
    x, y = tensor((8, 8)), tensor((8, 8), name="y")
    assert "parallel" not in schedule(te.create_prim_func([x, y, matmul(x, y)]), HOST).script()


def test_large_kernels_use_all_cores_and_whole_vectors() -> None:
    x, y = tensor((256, 256)), tensor((256, 256), name="y")
    script = schedule(te.create_prim_func([x, y, matmul(x, y)]), AVX2).script()
    assert "T.parallel" in script
    codes = [subroutine.function(name).script() for name in subroutines(script)]
    assert codes and all("T.vectorized(T.int64(8))" in code for code in codes)


def subroutines(script: str) -> list[str]:
    """The subroutines that a kernel calls."""
    return sorted(set(re.findall(r"tvtf_sub_\w+", script)))


def test_tasks_of_many_short_rows_are_many_rows_each() -> None:
    x = tensor((4, 90, 100, 3))
    shape = [tirx.IntImm("int64", size) for size in (4, 91, 100, 3)]
    y = te.compute(
        shape, lambda n, i, j, c: tirx.if_then_else(i < 90, tirx.exp(x[n, i, j, c]), tirx.const(0, "float32"))
    )
    assert f"T.parallel(T.int64({4 * 91}))" in schedule(te.create_prim_func([x, y]), HOST).script()
    a = values((4, 90, 100, 3))
    want = np.pad(np.exp(a), ((0, 0), (0, 1), (0, 0), (0, 0)))
    np.testing.assert_allclose(run_te(y, {x: a}, want.shape, HOST), want, rtol=1e-5)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
def test_the_update_of_a_matrix_for_few_classes(target: Target) -> None:
    """Vectors run along the rows of the matrix, which the update reads and writes a class apart."""
    x, g, w = tensor((64, 300)), tensor((64, 3), name="g"), tensor((300, 3), name="w")
    dw = matmul(x, g, True, False)
    y = te.compute(dw.shape, lambda i, j: w[i, j] - dw[i, j] * tirx.const(0.5, "float32"))
    a, b, c = values((64, 300)), values((64, 3)), values((300, 3))
    want = c - 0.5 * (a.T.astype("float64") @ b)
    np.testing.assert_allclose(run_te(y, {x: a, g: b, w: c}, want.shape, target), want, rtol=1e-4, atol=1e-4)


def test_other_forms_come_back_unchanged() -> None:
    x = te.placeholder((4,), "float32", "x")
    func = te.create_prim_func([x, te.compute((4,), lambda i: x[i] + tirx.const(1, "float32"))])
    loops_only = schedule(schedule(func, HOST), HOST)
    assert loops_only.same_as(schedule(loops_only, HOST))


def test_pass_leaves_scheduled_functions_alone() -> None:
    x = tensor((4,))
    func = te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] + tirx.const(1, "float32"))])
    module = tvm.IRModule({"done": func.with_attr("tirx.is_scheduled", True), "open": func})
    result = ScheduleCPU(HOST)(module)
    assert tvm_ffi.structural_equal(result["done"], module["done"])
    assert 'T.sblock("compute")' not in result["open"].script()
    assert result["open"].attrs["tirx.is_scheduled"]


def test_neon_compiles_to_an_object() -> None:
    target = Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "num-cores": 4})
    x, y = tensor((64, 100)), tensor((100, 33), name="y")
    func = schedule(te.create_prim_func([x, y, matmul(x, y)]).with_attr("global_symbol", "main"), target)
    names = subroutines(func.script())
    assembly = [
        native(lower_subroutine(name, subroutine.function(name), target), target).inspect_source("asm")
        for name in names
    ]
    assert names and all("fmla" in code for code in assembly)
    assert "bl\ttvtf_sub_" in native(lower_kernels(tvm.IRModule({"main": func}), target)[0], target).inspect_source(
        "asm"
    )


@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_functions_without_vector_form_stay_scalar(name: str) -> None:
    a = values((37,))
    x = tensor(a.shape)
    y = te.compute(x.shape, lambda i: getattr(tirx, name)(x(i)))
    np.testing.assert_allclose(run_te(y, {x: a}, a.shape, HOST), getattr(np, name)(a), rtol=1e-5)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_nothing_is_computed_of_no_points(shape: tuple[int, int]) -> None:
    x = tensor(shape)
    np.testing.assert_array_equal(
        run_te(reduce_over(x, (1,)), {x: values(shape)}, shape[:1], HOST), np.zeros(shape[:1])
    )
    np.testing.assert_array_equal(
        run_te(reduce_over(x, (0,)), {x: values(shape)}, shape[1:], HOST), np.zeros(shape[1:])
    )
    doubled = te.compute(x.shape, lambda i, j: x[i, j] * 2.0)
    assert run_te(doubled, {x: values(shape)}, shape, HOST).shape == shape


def test_bounds_keep_an_empty_operand_from_being_read() -> None:
    x, y = tensor((0,)), tensor((20,))
    joined = te.compute(y.shape, lambda i: tirx.if_then_else(i < 0, x[i], y[i]))
    b = values((20,))
    np.testing.assert_array_equal(run_te(joined, {x: values((0,)), y: b}, (20,), HOST), b)


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("sizes", [(64, 10, 1024), (33, 3, 1003), (90, 5, 2000)], ids=["pages", "ragged", "whole"])
def test_narrow_products_run_along_the_depth(sizes: tuple[int, int, int], target: Target) -> None:
    rows, columns, depth = sizes
    a, b = values((rows, depth)), values((depth, columns))
    x, y = tensor(a.shape), tensor(b.shape, name="y")
    product = matmul(x, y, False, False)
    assert "turned = T.alloc_buffer" in schedule(te.create_prim_func([x, y, product]), target).script()
    np.testing.assert_allclose(run_te(product, {x: a, y: b}, (rows, columns), target), a @ b, rtol=1e-4, atol=1e-3)


ROWS, COLUMNS, PLACE = (tirx.Var(name, "int64") for name in ("rows", "columns", "place"))


@pytest.mark.parametrize(
    "extents",
    [[80, ROWS, 256], [ROWS, COLUMNS], [ROWS, COLUMNS, 3], [4, ROWS, COLUMNS, 1], [ROWS, 5, 7], [1, ROWS, 1, COLUMNS]],
    ids=lambda extents: "x".join(map(str, extents)),
)
def test_the_offset_of_a_place_in_axes_of_unknown_sizes_is_the_place(extents):
    """Without a division: those in a vector are done lane by lane, which took 20 times as long as the rest."""
    first, *others = emit.unflatten(PLACE, extents)
    offset = first
    for extent, at in zip(extents[1:], others, strict=True):
        offset = offset * extent + at
    assert emit.simplified(offset).same_as(PLACE)
