"""Tolerances for the difference of two computations: a table by dtype, and the ops that need more, with reasons.

A difference is measured against ``1 + |expected|``; integers, bools and strings must be equal.
"""

BY_DTYPE = {
    # libm's, our own and onnxruntime's polynomials differ by a few of float32's 6e-8; sums of some dozen terms add up.
    "float32": 5e-6,
    "complex64": 5e-6,
    # A few units of 1.1e-16, and the same for sums.
    "float64": 1e-12,
    "complex128": 1e-12,
    # Computed in float32 and rounded once: at most one unit of 2**-10 apart, where the float32 values straddle a tie.
    "float16": 2e-3,
    # The same with units of 2**-7.
    "bfloat16": 1.6e-2,
}

EXPORTED = BY_DTYPE | {
    # A node's attributes (epsilon, alpha) are float32 in ONNX, and its reference evaluator computes Erf in float32.
    "float64": 1e-7,
}

FACTOR = {}
"""(op, dtype name) -> factor on the table above."""

FINITE_DIFFERENCES = 2e-6
"""Central differences with step 1e-5 in float64: truncation is 1e-10 times the third derivative, rounding 1e-11."""


def of(op: str, dtype: str, by_dtype: dict[str, float] = BY_DTYPE) -> float:
    """The tolerance of an op's results of a dtype; zero means equal."""
    return by_dtype.get(dtype, 0.0) * FACTOR.get((op, dtype), 1)
