"""bfloat16 kernels compute what NumPy does with ml_dtypes, for every vector width."""

import re

import ml_dtypes
import numpy as np
import pytest
import tvm
import tvm_ffi
from schedule_programs import TARGETS, compiled, tensor
from tvm import te, tirx

from tvtf.ops.kernels import fastmath
from tvtf.passes.codegen.bfloat16 import Bfloat16Bits, without_bfloat16
from tvtf.passes.schedule.cpu import schedule

ALL = np.arange(1 << 16, dtype=np.uint16).view(ml_dtypes.bfloat16)
FLOATS = np.random.default_rng(1).integers(0, 1 << 32, 4000, dtype=np.uint32).view(np.float32)
TIES = (np.arange(4000, dtype=np.uint32) * 0x8000 + 0x3F000000).view(np.float32)
EDGES = np.asarray([0.0, -0.0, np.inf, -np.inf, np.nan, 3.4e38, 1e-45, -1e-45, 3.3895e38, 3.39e38], np.float32)


def run(result, operands, target):
    func = te.create_prim_func([*operands, result]).with_attr("global_symbol", "main")
    kernel = without_bfloat16(schedule(func, target))
    built = compiled({"main": kernel}, target)
    given = [tvm.runtime.tensor(value) for value in operands.values()]
    out = tvm.runtime.tensor(np.zeros([int(d) for d in result.shape], dtype_of(str(result.dtype))))
    built["main"](*given, out)
    return out.numpy()


def dtype_of(name):
    return ml_dtypes.bfloat16 if name == "bfloat16" else np.dtype(name)


def same(found, expected):
    """NumPy knows the NaN of its own types only."""
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def of_one(array, expression):
    x = tensor(array.shape, str(array.dtype))
    return te.compute(x.shape, lambda i: expression(x[i]), "y"), {x: array}


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.attrs["mcpu"])
@pytest.mark.parametrize("array", [FLOATS, TIES, EDGES], ids=["bits", "ties", "edges"])
def test_rounds_to_nearest_even(array, target):
    found = run(*of_one(array, lambda x: x.astype("bfloat16")), target)
    with np.errstate(invalid="ignore"):
        expected = array.astype(ml_dtypes.bfloat16)
    same(found, expected)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.attrs["mcpu"])
def test_every_value_comes_back_from_float32(target):
    np.testing.assert_array_equal(run(*of_one(ALL, lambda x: x.astype("float32")), target), ALL.astype(np.float32))
    np.testing.assert_array_equal(run(*of_one(ALL, lambda x: x), target).view(np.uint16), ALL.view(np.uint16))


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: t.attrs["mcpu"])
def test_each_operation_is_rounded(target):
    found = run(*of_one(ALL[1:], lambda x: (x + tirx.const(1, "bfloat16")) * x), target)
    with np.errstate(all="ignore"):
        expected = (ALL[1:] + ml_dtypes.bfloat16(1)) * ALL[1:]
    same(found, expected)


def test_names_bound_within_expressions_stay_distinct():
    x = tensor((70,), "bfloat16")
    twice = te.compute(x.shape, lambda i: fastmath.exp(x[i]) + fastmath.exp(-x[i]), "twice")
    array = np.linspace(-3, 3, 70).astype(ml_dtypes.bfloat16)
    wide = array.astype(np.float32)
    bfloat16 = ml_dtypes.bfloat16
    expected = np.exp(wide).astype(bfloat16) + np.exp(-wide).astype(bfloat16)
    np.testing.assert_array_equal(run(twice, {x: array}, TARGETS[0]), expected)


def test_not_a_number_is_found():
    found = run(
        *of_one(
            ALL, lambda x: tirx.Select(tirx.isnan(x.astype("float32")), tirx.const(1, "int8"), tirx.const(0, "int8"))
        ),
        TARGETS[0],
    )
    np.testing.assert_array_equal(found, np.isnan(ALL.astype(np.float32)))


def test_conditions_choose_among_bfloat16():
    x = tensor((40,), "bfloat16")
    other = tirx.const(2.1, "bfloat16")
    chosen = te.compute(x.shape, lambda i: tirx.if_then_else(i < 30, tirx.max(x[i], other), other), "chosen")
    array = np.linspace(0, 5, 40).astype(ml_dtypes.bfloat16)
    expected = np.where(np.arange(40) < 30, np.maximum(array, ml_dtypes.bfloat16(2.1)), ml_dtypes.bfloat16(2.1))
    np.testing.assert_array_equal(run(chosen, {x: array}, TARGETS[0]), expected)


def test_bits_are_reinterpreted_both_ways():
    bits = of_one(ALL, lambda x: tirx.reinterpret("uint16", x) ^ tirx.const(0x8000, "uint16"))
    np.testing.assert_array_equal(run(*bits, TARGETS[0]), ALL.view(np.uint16) ^ 0x8000)
    numbers = of_one(ALL.view(np.uint16), lambda x: tirx.reinterpret("bfloat16", x))
    np.testing.assert_array_equal(run(*numbers, TARGETS[0]).view(np.uint16), ALL.view(np.uint16))


def test_sums_in_a_buffer_of_the_kernel_are_float32():
    x = tensor((4, 33), "bfloat16")
    k = te.reduce_axis((tirx.IntImm("int64", 0), x.shape[1]), "k")
    total = te.compute(x.shape[:1], lambda i: te.sum(x[i, k].astype("float32"), axis=k), "total")
    narrow = te.compute(x.shape[:1], lambda i: total[i].astype("bfloat16"), "narrow")
    array = np.random.default_rng(0).standard_normal((4, 33)).astype(ml_dtypes.bfloat16)
    expected = array.astype(np.float32).sum(1).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(run(narrow, {x: array}, TARGETS[0]), expected)


def doubling(dtype):
    x = tensor((4,), dtype)
    return te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] + x[i], "y")])


def test_kernels_keep_their_parameters_and_others_stay_as_they_are():
    narrow, wide = map(doubling, ("bfloat16", "float32"))
    found = Bfloat16Bits(tvm.IRModule({"narrow": narrow, "wide": wide}))
    assert [str(p.ty.dtype.dtype) for p in found["narrow"].params] == ["bfloat16", "bfloat16"]
    assert not re.search(r"T.bfloat16|Cast\(\"bfloat16", found["narrow"].script())
    assert tvm_ffi.structural_equal(found["wide"], wide)
