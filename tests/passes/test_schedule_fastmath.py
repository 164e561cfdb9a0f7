"""Vectorised elementary functions: errors in ulp against references of more digits, and the edges of each format."""

from __future__ import annotations

import math
import re
from functools import cache

import numpy as np
import pytest
import scipy.special
import tvm
from schedule_programs import AVX2, HOST, TARGETS, compiled, tensor
from tvm import te, tirx
from tvm.target import Target

from tvtf.api.namespaces import all_names
from tvtf.core.primitive import table
from tvtf.dtypes import float32
from tvtf.ops.kernels import approx, scalar
from tvtf.passes.codegen.let_bindings import with_hoisted_lets
from tvtf.passes.codegen.llvm import lower_kernels
from tvtf.passes.codegen.native_code import native
from tvtf.passes.schedule.cpu import schedule

UNOPTIMIZED = Target({**HOST.attrs, "kind": "llvm", "opt-level": 0})
RNG = np.random.default_rng(3)
COUNT = 5000
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 1e-38, -1e-38, 88.7, 88.8, -87.3, -88.0, -100.0]
EDGES += [-103.9, -104.0, 1e30, -1e30, 1.0, -1.0, 0.625, -0.625, 9.0, -9.0, 4.0, -4.0, 0.5, -0.5, 3e38, 709.7, -745.0]


def spread(low: float, high: float) -> np.ndarray:
    """Numbers of many sizes, of both signs."""
    return np.exp(RNG.uniform(np.log(low), np.log(high), COUNT)) * RNG.choice([-1, 1], COUNT)


def within(low: float, high: float) -> np.ndarray:
    return RNG.uniform(low, high, COUNT)


def each(function) -> np.ufunc:
    return np.vectorize(function, otypes=["float64"])


# name: reference, arguments, bounds in ulp for float32 and float64 (None: C's own function is called)
CASES = {
    "exp": (np.exp, [within(-104, 89), within(-750, 715)], 2, 2),
    "expm1": (np.expm1, [within(-40, 89), spread(1e-30, 1)], 2, 2),
    "log": (np.log, [np.abs(spread(1e-44, 1e38)), within(0.5, 2)], 1, 1),
    "log1p": (np.log1p, [spread(1e-30, 0.9), np.abs(spread(1, 1e38))], 2, 2),
    "tanh": (np.tanh, [within(-10, 10), spread(1e-30, 1)], 5, 3),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), [within(-88, 88), within(-2, 2)], 3, 4),
    "sinh": (np.sinh, [within(-89, 89), spread(1e-30, 1)], 4, 4),
    "cosh": (np.cosh, [within(-89, 89)], 4, 4),
    "asinh": (np.arcsinh, [spread(1e-30, 3e38), within(-3, 3)], 3, 3),
    "acosh": (np.arccosh, [1 + np.abs(spread(1e-7, 1e38))], 3, 3),
    "atanh": (np.arctanh, [within(-1, 1), spread(1e-30, 1)], 3, 3),
    "sin": (np.sin, [within(-9, 9), within(-1e6, 1e6), spread(1e-30, 1), spread(1e6, 3e38)], 8, 2),
    "cos": (np.cos, [within(-9, 9), within(-1e6, 1e6), spread(1e-30, 1), spread(1e6, 3e38)], 8, 2),
    "tan": (np.tan, [within(-9, 9), within(-1e6, 1e6), spread(1e-30, 1), spread(1e6, 3e38)], 8, 4),
    "asin": (np.arcsin, [within(-1, 1), spread(1e-30, 1)], 3, 3),
    "acos": (np.arccos, [within(-1, 1), spread(1e-30, 1)], 2, 2),
    "atan": (np.arctan, [within(-9, 9), spread(1e-30, 1e30)], 3, 3),
    "erf": (each(math.erf), [within(-5, 5), spread(1e-30, 1)], 6, 4),
    "erfc": (each(math.erfc), [within(-5, 10.2), spread(1e-30, 1)], 5, 8),
    "erfinv": (scipy.special.erfinv, [within(-1, 1), spread(1e-30, 1)], 1, None),
    "lgamma": (each(scipy.special.gammaln), [within(-20, 40), np.abs(spread(1e-30, 1e36))], 1, None),
    "digamma": (scipy.special.digamma, [within(1, 40), np.abs(spread(1e-30, 1e36))], 1, None),
}
UNLIKE_SCIPY = {
    "erfinv": [0.0],
    "lgamma": [-np.inf],
    "digamma": [0.0, -1e-45, 1e-45, -np.inf, -1.0, -4.0, -9.0, -88.0, -100.0, -104.0, -745.0],
}


def arguments(name: str, dtype: str) -> np.ndarray:
    edges = [edge for edge in EDGES if edge not in UNLIKE_SCIPY.get(name, ())]
    return np.concatenate([edges, *CASES[name][1]]).astype(dtype)


@cache
def built(dtype: str, target: Target) -> tvm.runtime.Module:
    """All functions in one library; each of them applied to an array of its own length."""
    names = [name for name, case in CASES.items() if dtype == "float32" or case[3] is not None]
    return compiled({name: unary(name, dtype, target) for name in names}, target)


def unary(name: str, dtype: str, target: Target) -> tirx.PrimFunc:
    x = tensor(arguments(name, dtype).shape, dtype)
    y = scalar.elementwise(lambda t, value: getattr(t, name)(value), [x], {})
    func = te.create_prim_func([x, y]).with_attr("global_symbol", name)
    return with_hoisted_lets(schedule(func, target))


def computed(name: str, dtype: str, target: Target = HOST) -> np.ndarray:
    x = arguments(name, dtype)
    result = tvm.runtime.tensor(np.full_like(x, 77))
    built(dtype, target)[name](tvm.runtime.tensor(x), result)
    return result.numpy()


def errors_in_ulp(name: str, dtype: str, got: np.ndarray) -> np.ndarray:
    """Where the result is finite; infinities, NaN and the signs of zeros must be the reference's."""
    reference = CASES[name][0]
    wide = "longdouble" if dtype == "float64" and isinstance(reference, np.ufunc) else "float64"
    with np.errstate(all="ignore"):
        exact = reference(arguments(name, dtype).astype(wide))
        want = exact.astype(dtype)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    zeros = want == 0
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))
    unit = np.spacing(np.maximum(np.abs(want[finite]), np.finfo(dtype).smallest_subnormal))
    return (np.abs(got[finite].astype(wide) - exact[finite]) / unit).astype("float64")


@pytest.mark.parametrize("target", [HOST, pytest.param(AVX2, marks=pytest.mark.sweep)], ids=["host", "avx2"])
@pytest.mark.parametrize("name", CASES)
def test_error_of_float32_in_ulp(name: str, target: Target) -> None:
    assert target in TARGETS or target is HOST
    assert errors_in_ulp(name, "float32", computed(name, "float32", target)).max() <= CASES[name][2]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case[3] is not None])
def test_error_of_float64_in_ulp(name: str) -> None:
    assert errors_in_ulp(name, "float64", computed(name, "float64")).max() <= CASES[name][3]


def test_tanh_never_passes_one() -> None:
    assert np.nanmax(np.abs(computed("tanh", "float32"))) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf", "erfc"])
def test_limits_are_reached_exactly(name: str, dtype: str) -> None:
    """An `1 - tanh(x) ** 2` of a large x is 0, and a power of `tanh(-x)` isn't the one of a fraction."""
    x = arguments(name, dtype)
    far = np.abs(x) > 40
    with np.errstate(over="ignore"):
        want = CASES[name][0](x[far].astype("float64")).astype(dtype)
    is_limit = np.isinf(x[far]) | (np.abs(want) >= 1)
    np.testing.assert_array_equal(computed(name, dtype)[far][is_limit], want[is_limit])


def binary(name: str, x: np.ndarray, y: np.ndarray, target: Target = HOST) -> np.ndarray:
    a, b = tensor(x.shape, str(x.dtype)), tensor(y.shape, str(y.dtype), name="y")
    result = te.compute(a.shape, lambda i: getattr(scalar, name)(a(i), b(i)))
    func = te.create_prim_func([a, b, result]).with_attr("global_symbol", "main")
    library = compiled({"main": with_hoisted_lets(schedule(func, target))}, target)
    out = tvm.runtime.tensor(np.full(x.shape, 77, x.dtype))
    library["main"](tvm.runtime.tensor(x), tvm.runtime.tensor(y), out)
    return out.numpy()


BINARY_EDGES = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5, 1e30, -1e30, 1e-40, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name, reference", [("power", np.power), ("atan2", np.arctan2)])
def test_functions_of_two_arguments(name: str, reference: np.ufunc) -> None:
    x, y = (grid.ravel().astype("float32") for grid in np.meshgrid(BINARY_EDGES, BINARY_EDGES))
    x = np.concatenate([x, within(0, 9), spread(1e-3, 1e3)]).astype("float32")
    y = np.concatenate([y, within(-9, 9), spread(1e-3, 1e3)]).astype("float32")
    with np.errstate(all="ignore"):
        exact = reference(x.astype("float64"), y.astype("float64"))
        want = exact.astype("float32")
    got = binary(name, x, y)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_array_equal(np.signbit(got[want == 0]), np.signbit(want[want == 0]))
    unit = np.spacing(np.maximum(np.abs(want[finite]), np.float32(1e-45)))
    assert (np.abs(got[finite] - exact[finite]) / unit).max() <= 3


def test_half_types_are_computed_in_float32() -> None:
    x = tensor((50,), "float16")
    script = te.create_prim_func([x, te.compute(x.shape, lambda i: scalar.exp(x(i)))]).script()
    assert "T.float16(" not in script


def test_a_rounded_sum_is_not_undone() -> None:
    """TVM's simplifier would take (x + 1) - 1 for x."""
    x = tensor((7,))
    one = tirx.const(1, "float32")
    y = te.compute(x.shape, lambda i: approx.rounded(x(i) + one) - one)
    func = te.create_prim_func([x, y]).with_attr("global_symbol", "main")
    library = compiled({"main": schedule(func, HOST)}, HOST)
    out = tvm.runtime.tensor(np.full(7, 77, "float32"))
    library["main"](tvm.runtime.tensor(np.full(7, 1e-10, "float32")), out)
    np.testing.assert_array_equal(out.numpy(), np.zeros(7, "float32"))


ALLOWED = {
    "nextafter": "steps through the bits, one comparison after the other; nobody calls it in a loop that matters",
}
"""Elementwise primitives of float32 that call the C library for each element, with the reason."""


def elementwise_primitives() -> list:
    """Those lowered by `scalar` from float32 tensors alone."""
    found = []
    all_names()
    for primitive in table.values():
        samples = primitive.samples() if callable(primitive.samples) else primitive.samples or ()
        floats = [s for s in samples if float32 in (s.dtypes or ()) and not s.attrs]
        if floats and getattr(primitive.lower, "__qualname__", "") == "scalar.<locals>.lower":
            found.append((primitive, len(floats[0].inputs)))
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_float64_are_within_an_ulp(target) -> None:
    rng, many = np.random.default_rng(0), 4_000
    edges = [*BINARY_EDGES, 1e300, -1e300, 5e-324, 1e-310, 2.0**53 + 2, 1 - 2.0**-53, 1 + 2.0**-52]
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    bases = np.exp(rng.uniform(-700, 700, many)), rng.uniform(0.1, 4, many), 1 + rng.normal(0, 1e-9, many)
    exponents = rng.uniform(-1.1, 1.1, many), rng.uniform(-100, 100, many), rng.uniform(-1e11, 1e11, many)
    whole = rng.integers(-9, 9, many).astype("float64")
    x, y = np.concatenate([x, *bases, rng.normal(0, 9, many)]), np.concatenate([y, *exponents, whole])
    with np.errstate(all="ignore"):
        want = np.power(x, y)
    found = binary("power", x, y, target)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(found[~finite], want[~finite])
    assert (np.abs(found[finite] - want[finite]) <= np.spacing(np.abs(want[finite]))).all()
    assert (np.signbit(found) == np.signbit(want))[finite].all()


@pytest.mark.parametrize("target", TARGETS)
def test_remainders_are_exact_for_any_quotient(target) -> None:
    edges = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 3e38, 1e-45, -1e-45], "float32")
    bits = np.random.default_rng(0).integers(0, 2**32, (2, 20_000), dtype="uint32").view("float32")
    short = np.random.default_rng(1).uniform(-9, 9, (2, 2_000)).astype("float32")
    a, b = (
        np.concatenate([short[0], bits[0], np.repeat(edges, 10)]),
        np.concatenate([short[1], bits[1], np.tile(edges, 10)]),
    )
    with np.errstate(invalid="ignore"):
        want = np.fmod(a, b)
    found = binary("truncate_remainder", a, b, target)
    np.testing.assert_array_equal(found, want)
    assert (np.signbit(found) == np.signbit(want))[~np.isnan(want)].all()


def test_no_element_is_computed_by_the_c_library() -> None:
    kernels = {}
    for primitive, count in elementwise_primitives():
        operands = [tensor((64,), name=f"x{i}") for i in range(count)]
        func = te.create_prim_func([*operands, primitive.lower(*operands)], index_dtype_override="int64")
        scheduled = schedule(func.with_attr("global_symbol", primitive.name), HOST)
        assert scheduled.attrs["tirx.is_scheduled"], primitive.name
        kernels[primitive.name] = with_hoisted_lets(scheduled)
    assert len(kernels) > 40
    host, _ = lower_kernels(tvm.IRModule(kernels), UNOPTIMIZED)
    assert callers(native(host, UNOPTIMIZED).inspect_source("ll")) == set(ALLOWED)


def callers(code: str) -> set[str]:
    """Kernels in LLVM's code that call something other than its own intrinsics."""
    found = set()
    for body in re.split(r"^define ", code, flags=re.MULTILINE)[1:]:
        name = re.search(r"@(\w+)\(", body).group(1)
        called = re.findall(r"call [^@\n]*@([\w.]+)\(", body)
        if name.endswith("_compute_") and any(not symbol.startswith("llvm.") for symbol in called):
            found.add(name.removesuffix("_compute_"))
    return found
