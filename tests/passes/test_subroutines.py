"""Subroutines: register tiles and transforms that kernels call, with the values that they have written out in place."""

from __future__ import annotations

import re
from unittest.mock import patch

import numpy as np
import pytest
import tvm
import tvm_ffi
from schedule_programs import HOST, TARGETS, run_te, tensor, values
from tvm import te, tirx
from tvm.target import Target

import tvtf as tf
from tvtf.passes.codegen.subroutines import SubroutineCompiler, names_in, subroutine_key
from tvtf.passes.schedule.cpu import access, emit, product_tile, schedule, subroutine, tasks
from tvtf.passes.schedule.cpu.region import Region

TERMS = 96


def sums(item, rows: int, columns: int) -> te.Tensor:
    k = te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", TERMS)), "k")
    shape = tuple(tirx.IntImm("int64", size) for size in (rows, columns))
    return te.compute(shape, lambda i, j: te.sum(item(i, j, k), axis=k), "sums")


CASES = {
    "plain": ((33, TERMS), (TERMS, 50), lambda x, y: lambda i, j, k: x[i, k] * y[k, j], lambda a, b: a @ b),
    "every second column": (
        (33, TERMS), (TERMS, 100), lambda x, y: lambda i, j, k: x[i, k] * y[k, j * 2], lambda a, b: a @ b[:, ::2],
    ),
    "every third row": (
        (99, TERMS), (TERMS, 50), lambda x, y: lambda i, j, k: x[i * 3, k] * y[k, j], lambda a, b: a[::3] @ b,
    ),
    "terms from the end": (
        (33, TERMS), (TERMS, 50),
        lambda x, y: lambda i, j, k: x[i, TERMS - 1 - k] * y[k, j], lambda a, b: a[:, ::-1] @ b,
    ),
    "columns from the end": (
        (33, TERMS), (TERMS, 50), lambda x, y: lambda i, j, k: x[i, k] * y[k, 49 - j], lambda a, b: a @ b[:, ::-1],
    ),
    "one factor for all rows": (
        (TERMS, 50), (TERMS, 50), lambda x, y: lambda i, j, k: x[k, j] * y[k, j],
        lambda a, b: np.broadcast_to((a * b).sum(0), (33, 50)),
    ),
    "a diagonal": (
        (33 + TERMS, TERMS), (TERMS, 50), lambda x, y: lambda i, j, k: x[i + k, k] * y[k, j],
        lambda a, b: np.stack([a[np.arange(TERMS) + i, np.arange(TERMS)] @ b for i in range(33)]),
    ),
    "rows that wrap around": (
        (7, TERMS), (TERMS, 50), lambda x, y: lambda i, j, k: x[i % 7, k] * y[k, j],
        lambda a, b: a[np.arange(33) % 7] @ b,
    ),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=["host", "avx2"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_products_are_right_for_any_access(case, target: Target) -> None:
    a_shape, b_shape, item, expected = case
    a, b = values(a_shape), values(b_shape)
    x, y = tensor(a_shape), tensor(b_shape, name="y")
    result = run_te(sums(item(x, y), 33, 50), {x: a, y: b}, (33, 50), target)
    want = expected(a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(result, want, rtol=1e-4, atol=1e-4)
    with patch.object(tasks, "call_product_tile", return_value=None):
        np.testing.assert_array_equal(run_te(sums(item(x, y), 33, 50), {x: a, y: b}, (33, 50), target), result)


def test_columns_that_repeat_are_not_taken_for_one() -> None:
    """The last tile's first, second and last column are the same, but not those between."""
    a, b = values((33, TERMS)), values((TERMS, 2))
    x, y = tensor(a.shape), tensor(b.shape, name="y")
    result = run_te(sums(lambda i, j, k: x[i, k] * y[k, (j % 4) // 2], 33, 53), {x: a, y: b}, (33, 53), HOST)
    np.testing.assert_allclose(result, (a @ b)[:, np.arange(53) % 4 // 2], rtol=1e-4, atol=1e-4)


def product(rows: int, terms: int, columns: int) -> tirx.PrimFunc:
    x, y = tensor((rows, terms)), tensor((terms, columns), name="y")
    k = te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", terms)), "k")
    shape = tuple(tirx.IntImm("int64", size) for size in (rows, columns))
    z = te.compute(shape, lambda i, j: te.sum(x[i, k] * y[k, j], axis=k))
    return schedule(te.create_prim_func([x, y, z]).with_attr("global_symbol", "main"), HOST)


def called(func: tirx.PrimFunc) -> set[str]:
    return set(re.findall(r"tvtf_sub_\w+", func.script()))


def test_kernels_with_the_same_tile_call_the_same_subroutines() -> None:
    assert called(product(320, 128, 64)) & called(product(640, 128, 64))
    assert called(product(32, 128, 64)) == called(product(32, 128, 64))


def test_products_of_other_sizes_share_a_tile() -> None:
    """Strides are passed: those of both factors and of the result differ here."""
    assert called(product(320, 128, 64)) == called(product(320, 200, 64))
    assert called(product(320, 128, 64)) & called(product(320, 128, 128))


def test_two_tiles_that_call_a_subroutine_are_a_loop() -> None:
    assert [product(28, 64, columns).script().count("tvtf_sub_") for columns in (64, 128)] == [1, 1]


def test_strides_beyond_int32_are_passed() -> None:
    func = product(32, 2**31, 64)
    assert called(func) and f"T.int64({2**31})" in func.script()


def test_sums_of_few_terms_are_written_out_if_there_are_many() -> None:
    assert not called(product(3200, product_tile.MIN_TERMS - 1, 64))
    assert called(product(3200, product_tile.MIN_TERMS, 64))
    assert called(product(32, product_tile.MIN_TERMS - 1, 64))


def test_what_a_call_writes_is_known() -> None:
    func = product(32, 128, 64)
    assert func.params[2] in subroutine.written_buffers(func.body)
    assert not {func.params[0], func.params[1]} & subroutine.written_buffers(func.body)


def copying(factor: float) -> str:
    def body(arrays, numbers):
        (result, source), (count,) = arrays, numbers
        value = tirx.const(factor, "float32")
        return emit.loop(count, lambda i: emit.store(result, emit.load(source, [i]) * value, [i]))

    return subroutine.subroutine([subroutine.Array("float32")] * 2, 1, body)


def test_equal_subroutines_have_one_name() -> None:
    assert copying(2.0) == copying(2.0) != copying(3.0)


def test_a_subroutine_is_compiled_once_whether_begun_early_or_not() -> None:
    host = Target(HOST)
    with (
        patch("tvtf.passes.codegen.subroutines.compiler_threads", lambda: 2),
        SubroutineCompiler(host, {}, None) as early,
    ):
        with subroutine.notify_on_new(early.begin):
            name = copying(4.0)
            copying(4.0)
        late = SubroutineCompiler(host, {}, None)
        find = lambda: subroutine.function(name)  # noqa: E731
        assert early.code(name, lambda: None) == late.code(name, find)
    assert [cost.name for cost in early.costs] == [cost.name for cost in late.costs] == [name]
    copying(5.0)  # outside the block nothing is begun
    assert len(early.costs) == 1


def test_an_unknown_subroutine_is_an_error() -> None:
    compiler = SubroutineCompiler(Target(HOST), {}, None)
    with pytest.raises(RuntimeError, match="no subroutine is called tvtf_sub_none"):
        compiler.code("tvtf_sub_none", lambda: None)


def test_functions_with_constant_operands_begin_subroutines_early() -> None:
    weights = tf.constant(np.random.default_rng(1).standard_normal((3, 3, 8, 16)), tf.float32)
    with patch.object(SubroutineCompiler, "begin", autospec=True) as begin:
        step = tf.function(lambda x: tf.nn.relu(tf.nn.conv2d(x, weights, 1, "SAME")))
        step(tf.ones((2, 19, 21, 8)))
    assert {name.startswith(subroutine.PREFIX) for _, name in (call.args for call in begin.call_args_list)} == {True}


def test_names_are_found_in_code_of_any_format() -> None:
    name = subroutine.PREFIX + "0123456789" * 4
    assert names_in(b"\x7fELF..." + name.encode() + b"\0more" + name.encode()) == [name]
    assert names_in(b"tvtf_sub_short") == []


def test_keys_depend_on_the_target() -> None:
    targets = [tvm.target.Target({"kind": "llvm", "mcpu": cpu}) for cpu in ("x86-64-v3", "x86-64-v4")]
    assert len({subroutine_key("name", target, {}) for target in targets}) == 2


def stores_of(func: tirx.PrimFunc) -> list[tirx.BufferStore]:
    found: list[tirx.BufferStore] = []
    tvm_ffi.structural_walk(func.body, (tirx.BufferStore, found.append))
    return found


@pytest.mark.parametrize("is_maximum", [False, True], ids=["sum", "maximum"])
@pytest.mark.parametrize("columns", [160, 171])
def test_slices_of_a_long_sum_are_combined_by_calls(columns: int, is_maximum: bool) -> None:
    """And so is what follows, here an update of another array by the result and its square."""
    a, b = values((6000, columns)), values((columns,))
    x, y = tensor(a.shape), tensor(b.shape, name="y")
    k = te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", 6000)), "k")
    reduce = te.max if is_maximum else te.sum
    total = te.compute(y.shape, lambda j: reduce(x[k, j], axis=k))
    updated = te.compute(y.shape, lambda j: y[j] - 0.5 * total[j] + total[j] * total[j])
    want = a.max(0) if is_maximum else a.astype("float64").sum(0)
    result = run_te(updated, {x: a, y: b}, (columns,), HOST)
    np.testing.assert_allclose(result, b - 0.5 * want + want**2, rtol=1e-4, atol=1e-2)
    func = schedule(te.create_prim_func([x, y, updated]), HOST)
    assert is_maximum or (called(func) and not stores_of(func))


@pytest.mark.parametrize("cores", [2, 4])
def test_a_maximum_that_keeps_nan_is_not_written_out_for_each_slice(cores: int) -> None:
    """It uses its operand twice, so that the value would double with each slice."""
    x = tensor((6000, 171))
    k = te.reduce_axis((tirx.IntImm("int64", 0), tirx.IntImm("int64", 6000)), "k")

    def larger(a, b):
        return tirx.Select(tirx.any(a > b, a != a), a, b)

    maximum = te.comm_reducer(larger, lambda dtype: tirx.min_value(dtype))
    result = te.compute((emit.index(171),), lambda j: maximum(x[k, j], axis=k))
    target = Target({"kind": "llvm", "mcpu": "x86-64-v4", "num-cores": cores})
    assert len(schedule(te.create_prim_func([x, result]), target).script()) < 20_000


def test_subroutines_of_regions_have_the_same_name_in_any_kernel() -> None:
    """Their names are digests of their content with the names in it, which shipped code is found by."""

    def fill(*extents: int) -> set[str]:
        out = tirx.decl_buffer([emit.index(extent) for extent in extents], "float32", "out")
        loops = emit.nest(list(extents), lambda indices: emit.store(out, tirx.const(0.0, "float32"), indices))
        region = Region(loops)
        assert region.can_be_called
        call = region.call(())
        return set(re.findall(r"tvtf_sub_\w+", str(call)))

    known, subroutine._NAMES = subroutine._NAMES, {}
    try:
        first = fill(9, 5, 7)
        subroutine._NAMES = {}
        assert fill(400) == first == fill(3, 3, 5, 200)
    finally:
        subroutine._NAMES = known


def test_offsets_of_merged_axes_are_linear_in_parts_of_the_loop() -> None:
    buffer = tirx.decl_buffer([emit.index(extent) for extent in (3, 32, 64)], "float32", "x")
    task, i = (tirx.Var(name, "int64") for name in ("task", "i"))
    place = (task * 9 + i) * 16
    digits = [place // 2048, place // 64 % 32, place % 64]
    offset = access.flat_offset(buffer, digits)
    assert tvm_ffi.structural_equal(offset, emit.simplified(task * 144 + i * 16))
    narrow = tirx.Var("j", "int32") * 3 + 1
    assert "//" not in str(access.flat_offset(buffer, [narrow // 2048, narrow // 64 % 32, narrow % 64]))
    # Digits of two numbers stay.
    assert "//" in str(access.flat_offset(buffer, [place // 2048, task // 64 % 32, place % 64]))
