"""Functions of one element, or of two."""

from __future__ import annotations

from math import prod
from operator import attrgetter

from benchmarks.workloads.primitives.record import SQUARE, Operand, Primitive


def unary(name: str, jax: str, torch: str, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> Primitive:
    """A function of one argument, by its name in each framework's namespace; JAX has no float64 unless it is enabled."""
    own, third, fourth = attrgetter(name), attrgetter(jax), attrgetter(torch)
    return Primitive(
        name.rpartition(".")[2] + ("" if dtype == "float32" else f" of {dtype}"),
        [Operand(SQUARE, low, high, dtype)],
        lambda tf, x: own(tf)(x),
        (lambda jax, x: third(jax)(x)) if dtype == "float32" else None,
        lambda torch, x: fourth(torch)(x),
        prod(SQUARE),
    )


def binary(name: str, jax: str, torch: str, low: float = -2.0, high: float = 2.0, dtype: str = "float32") -> Primitive:
    """A function of two arguments; the range is that of the first."""
    own, third, fourth = attrgetter(name), attrgetter(jax), attrgetter(torch)
    return Primitive(
        name.rpartition(".")[2] + ("" if dtype == "float32" else f" of {dtype}"),
        [Operand(SQUARE, low, high, dtype), Operand(SQUARE, dtype=dtype)],
        lambda tf, x, y: own(tf)(x, y),
        (lambda jax, x, y: third(jax)(x, y)) if dtype == "float32" else None,
        lambda torch, x, y: fourth(torch)(x, y),
        prod(SQUARE),
    )


ELEMENTWISE = [
    unary("exp", "numpy.exp", "exp"),
    unary("math.expm1", "numpy.expm1", "expm1"),
    unary("math.log", "numpy.log", "log", 0.1, 4),
    unary("math.log1p", "numpy.log1p", "log1p", -0.9, 4),
    unary("tanh", "numpy.tanh", "tanh"),
    unary("sigmoid", "nn.sigmoid", "sigmoid"),
    unary("sin", "numpy.sin", "sin"),
    unary("cos", "numpy.cos", "cos"),
    unary("math.tan", "numpy.tan", "tan"),
    unary("math.asin", "numpy.arcsin", "asin", -1, 1),
    unary("math.acos", "numpy.arccos", "acos", -1, 1),
    unary("math.atan", "numpy.arctan", "atan"),
    unary("math.sinh", "numpy.sinh", "sinh"),
    unary("math.cosh", "numpy.cosh", "cosh"),
    unary("math.asinh", "numpy.arcsinh", "asinh"),
    unary("math.acosh", "numpy.arccosh", "acosh", 1, 9),
    unary("math.atanh", "numpy.arctanh", "atanh", -0.99, 0.99),
    unary("math.erf", "scipy.special.erf", "erf"),
    unary("math.erfc", "scipy.special.erfc", "erfc"),
    unary("math.erfinv", "scipy.special.erfinv", "erfinv", -0.99, 0.99),
    unary("math.lgamma", "scipy.special.gammaln", "lgamma", 0.1, 9),
    unary("math.digamma", "scipy.special.digamma", "digamma", 0.1, 9),
    unary("sqrt", "numpy.sqrt", "sqrt", 0.1, 4),
    unary("math.rsqrt", "lax.rsqrt", "rsqrt", 0.1, 4),
    unary("nn.softplus", "nn.softplus", "nn.functional.softplus"),
    unary("nn.elu", "nn.elu", "nn.functional.elu"),
    unary("nn.selu", "nn.selu", "nn.functional.selu"),
    unary("nn.gelu", "nn.gelu", "nn.functional.gelu"),
    unary("nn.silu", "nn.silu", "nn.functional.silu"),
    unary("nn.relu", "nn.relu", "relu"),
    binary("pow", "numpy.power", "pow", 0.1, 4),
    binary("atan2", "numpy.arctan2", "atan2"),
    Primitive(
        "add",
        [Operand(SQUARE), Operand(SQUARE)],
        lambda tf, x, y: x + y,
        lambda jax, x, y: x + y,
        lambda torch, x, y: x + y,
        prod(SQUARE),
    ),
    binary("math.floormod", "numpy.mod", "remainder"),
    *(unary(name, f"numpy.{name}", name, dtype="float64") for name in ("exp", "sin", "cos", "tanh")),
    unary("math.log", "numpy.log", "log", 0.1, 4, "float64"),
    unary("math.tan", "numpy.tan", "tan", dtype="float64"),
    binary("pow", "numpy.power", "pow", 0.1, 4, "float64"),
]
