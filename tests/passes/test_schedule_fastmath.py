"""Vectorised elementary functions: errors in ulp against float64, and the edges of float32."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.special
from schedule_programs import HOST, run_te, tensor
from tvm import ir, te

from tvtf.ops.kernels import fastmath
from tvtf.passes.schedule.cpu import schedule

EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-40, 1e-38, -1e-38, 88.7, 88.8, -87.3, -88.0, -100.0]
EDGES += [-103.9, -104.0, 1e30, -1e30, 1.0, -1.0, 0.625, -0.625, 9.0, -9.0, 4.0, -4.0]
RNG = np.random.default_rng(3)
CASES = {
    "exp": (fastmath.exp, np.exp, RNG.uniform(-104, 89, 20_000), 2),
    "log": (fastmath.log, np.log, np.exp(RNG.uniform(-103, 88, 20_000)), 2),
    "tanh": (fastmath.tanh, np.tanh, RNG.normal(0, 2, 20_000), 2),
    "sigmoid": (fastmath.sigmoid, scipy.special.expit, RNG.normal(0, 20, 20_000), 3),
    "erf": (fastmath.erf, scipy.special.erf, RNG.normal(0, 2, 20_000), 3),
}


def computed(function: Callable[[ir.Expr], ir.Expr], values: np.ndarray, dtype: str = "float32") -> np.ndarray:
    x = tensor(values.shape, dtype)
    return run_te(te.compute(x.shape, lambda i: function(x[i])), {x: values}, values.shape, HOST)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_error_in_ulp(case) -> None:
    function, reference, values, bound = case
    x = np.concatenate([EDGES, values, values * 1e-4]).astype("float32")
    with np.errstate(all="ignore"):
        exact = reference(x.astype("float64"))
        want = exact.astype("float32")
    got = computed(function, x)
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    error = np.abs(got[finite].astype("float64") - exact[finite]) / np.spacing(np.maximum(np.abs(want[finite]), 1e-45))
    assert error.max() <= bound


@pytest.mark.parametrize("name", ["tanh", "erf"])
def test_odd_functions_keep_the_sign_of_zero(name: str) -> None:
    zeros = np.array([0.0, -0.0], "float32")
    np.testing.assert_array_equal(np.signbit(computed(getattr(fastmath, name), zeros)), [False, True])


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_float_types(dtype: str) -> None:
    x = np.linspace(-3, 3, 50).astype(dtype)
    tolerance = 1e-3 if dtype == "float16" else 1e-14
    np.testing.assert_allclose(computed(fastmath.exp, x, dtype), np.exp(x), rtol=tolerance)


def test_no_call_is_left() -> None:
    x = tensor((1000,))
    y = te.compute(x.shape, lambda i: fastmath.sigmoid(x[i]) + fastmath.log(x[i]))
    script = schedule(te.create_prim_func([x, y]), HOST).script()
    assert "T.exp" not in script
    assert "T.log" not in script
