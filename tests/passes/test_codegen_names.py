"""Let expressions become statements: the same values, in time linear in their number."""

import numpy as np
import pytest
import tvm
import tvm_ffi
from schedule_programs import HOST, compiled, tensor
from tvm import te, tirx

from tvtf.ops.kernels.special import let, libm, real
from tvtf.passes.codegen.let_bindings import HoistLets, with_hoisted_lets
from tvtf.passes.schedule.cpu import schedule

SIZES = [1, 5, 21]


def kernel(expression, size):
    x = tensor((size,), "float64")
    y = te.compute(x.shape, lambda i: expression(x(i), i), "y")
    return with_hoisted_lets(schedule(te.create_prim_func([x, y]).with_attr("global_symbol", "main"), HOST))


def run(expression, array):
    built = compiled({"main": kernel(expression, array.size)}, HOST)
    out = tvm.runtime.tensor(np.zeros(array.size))
    built["main"](tvm.runtime.tensor(array), out)
    return out.numpy()


def names_in(func):
    found = []
    tvm_ffi.structural_walk(func.body, (tirx.Let, found.append))
    return len(found)


def chain(x, count):
    return x if not count else let(x * real(0.5) + x * x, lambda v: chain(v, count - 1))


def chained(array, count):
    for _ in range(count):
        array = array * 0.5 + array * array
    return array


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 4, 60])
def test_names_that_use_each_other_twice(count, size):
    """60 of them would otherwise take 2**60 steps."""
    array = np.linspace(0, 0.5, size)
    np.testing.assert_allclose(run(lambda x, _: chain(x, count), array), chained(array, count), rtol=1e-12)


@pytest.mark.parametrize("size", [*SIZES, 40])
def test_names_of_what_comparisons_give(size):
    """TVM's analyzer can't have the value of a vector's comparison bound to a name."""
    array = np.linspace(-1, 1, size)

    def counted(x, _):
        above = te.max(x * real(0.0), (x > real(0.25)).astype("int32").astype("float64"))
        return let(x + above, lambda v: v * v - v)

    x = array + (array > 0.25)
    np.testing.assert_allclose(run(counted, array), x * x - x, rtol=1e-12, atol=1e-15)


def values(x, count):
    return x if not count else let(values(x, count - 1), lambda v: v * v - v)


def test_names_within_values():
    array = np.linspace(0, 1, 21)
    expected = array
    for _ in range(40):
        expected = expected * expected - expected
    np.testing.assert_allclose(run(lambda x, _: values(x, 40), array), expected, rtol=1e-12)


@pytest.mark.parametrize("size", SIZES)
def test_names_around_calls_of_the_library(size):
    array = np.linspace(0.1, 2, size)
    found = run(lambda x, _: let(x * x, lambda v: let(libm("log1p", v) + v, lambda w: libm("expm1", w) - v)), array)
    np.testing.assert_allclose(found, np.expm1(np.log1p(array**2) + array**2) - array**2, rtol=1e-12)


def test_a_shared_expression_is_bound_once():
    array = np.linspace(0, 1, 21)

    def twice(x, _):
        shared = let(x + real(1), lambda v: v * v)
        return shared * tirx.Select(x > real(0.5), shared, -shared)

    assert names_in(kernel(twice, 21)) == 0
    expected = (array + 1) ** 4 * np.where(array > 0.5, 1, -1)
    np.testing.assert_allclose(run(twice, array), expected, rtol=1e-12)


def test_stores_of_a_vector_share_what_they_name():
    x, y, z = (tirx.decl_buffer((8,), "float64", name) for name in "xyz")
    lane, name = tirx.Var("lane", "int64"), tirx.Var("t", "float64")
    named = [tirx.Let(name, x[lane] * x[lane], name + real(k)) for k in (1, 2)]
    stores = tirx.SeqStmt([tirx.BufferStore(y, named[0], [lane]), tirx.BufferStore(z, named[1], [lane])])
    body = tirx.For(lane, 0, tirx.IntImm("int64", 8), tirx.ForKind.VECTORIZED, stores)
    bound = []
    tvm_ffi.structural_walk(with_hoisted_lets(tirx.PrimFunc([x, y, z], body)).body, (tirx.Bind, bound.append))
    assert len(bound) == 1


def test_a_branch_keeps_its_names():
    array = np.linspace(0, 1, 21)

    def branching(x, i):
        inside = let(x + real(1), lambda v: v * v)
        return let(x * real(2), lambda w: tirx.if_then_else(tirx.floormod(i, 2) == 0, inside + w, w))

    assert names_in(kernel(branching, 21)) == 2
    expected = np.where(np.arange(21) % 2 == 0, (array + 1) ** 2, 0) + 2 * array
    np.testing.assert_allclose(run(branching, array), expected, rtol=1e-12)


def test_a_module_without_names_stays_as_it_is():
    x = tensor((7,))
    func = te.create_prim_func([x, te.compute(x.shape, lambda i: x[i] + 1.0)])
    mod = tvm.IRModule({"main": func}).with_attr("mark", 7)
    found = HoistLets(mod)
    assert tvm_ffi.structural_equal(found["main"], func)
    assert found.attrs["mark"] == 7
