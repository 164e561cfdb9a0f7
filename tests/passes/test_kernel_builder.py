"""Kernels are built from TE functions as Relax builds them, with sizes as parameters in the order of their use."""

import pytest
import tvm_ffi
from tvm import relax, te, tirx
from tvm.relax.utils import gen_call_tir_inputs

from tvtf.passes.lower.kernel_builder import build_kernel

SIZES = [tirx.Var(name, "int64") for name in "nmkl"]
n, m, k, l = SIZES  # noqa: E741


def tensor(*shape, name="x"):
    return relax.Var(name, relax.TensorType(shape, "float32"))


def doubled(x):
    return te.compute(x.shape, lambda *i: x(*i) * 2.0, name="doubled")


def zeros(*, shape):
    return te.compute(shape, lambda *_: tirx.const(0.0, "float32"), name="zeros")


def sum_and_product(x, y):
    total = te.compute(x.shape, lambda *i: x(*i) + y(*i), name="total")
    return total, te.compute(x.shape, lambda *i: x(*i) * y(*i), name="product")


def moved(x, sizes, *, by):
    return te.compute(sizes, lambda *i: x(*(index + shift for index, shift in zip(i, by[0]))), name="moved")


CALLS = {
    "known sizes": (doubled, [tensor(2, 3)], {}),
    "a scalar": (doubled, [tensor()], {}),
    "symbolic sizes": (doubled, [tensor(n, 3, m)], {}),
    "a calculated size": (doubled, [tensor(n, n * 2)], {}),
    "only a calculated size": (doubled, [tensor(n * 2)], {}),
    "two results": (sum_and_product, [tensor(n), tensor(n, name="y")], {}),
    "a size of the result": (zeros, [], {"shape": (n, 4)}),
    "a calculated size of the result": (zeros, [], {"shape": (n + 1, 4)}),
    "a calculated size that compute knows": (lambda: zeros(shape=(n + 1, 4)), [], {}),
    "a shape, and sizes in nested tuples": (moved, [tensor(n, 8), relax.ShapeExpr([m, 4])], {"by": ((k, 1),)}),
}


@pytest.mark.parametrize("compute, inputs, attrs", CALLS.values(), ids=CALLS)
def test_kernels_are_those_of_relax(compute, inputs, attrs):
    function, arguments, types = build_kernel(compute, *inputs, **attrs)
    expected, expected_arguments, expected_types = gen_call_tir_inputs(compute, *inputs, **attrs)
    assert tvm_ffi.structural_equal(function, expected)
    assert len(arguments) == len(expected_arguments) == len(function.params) - len(types)
    assert all(a.same_as(b) for a, b in zip(arguments, expected_arguments))
    assert tvm_ffi.structural_equal(list(types), list(expected_types))


def test_sizes_are_passed_in_the_order_of_their_use():
    for first, *others in (SIZES, SIZES[::-1]):
        total = sum(others, first)
        function, arguments, _ = build_kernel(zeros, shape=(total, 2))
        assert arguments == [first, *others]
        assert [param.name for param in function.params[:4]] == [size.name for size in (first, *others)]
