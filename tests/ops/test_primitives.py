"""Every primitive of the table against its numpy column: eager, compiled, exported, differentiated, batched."""

import gradient_support
import numpy as np
import onnx_support
import pytest
import tolerances
from table_support import (
    OWN,
    all_cases,
    arrays_of,
    compiled_differences,
    differences,
    function_of,
    some_cases,
    specs_of,
    tensor,
)

from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import quietly
from tvtf.dtypes import ALL, as_dtype
from tvtf.errors import OpError, UnimplementedError
from tvtf.onnx import export

BATCH = 2


def each(primitives):
    return pytest.mark.parametrize("prim", primitives, ids=lambda p: p.name)


def message(lines):
    """The assertion's message: every line, so that one run tells all."""
    return "\n".join(["", *lines])


# -- eager


@each(OWN)
def test_eager_is_the_numpy_column(prim):
    lines = [line for case in all_cases(prim) for line in eager_differences(case)]
    assert not lines, message(lines)


def eager_differences(case):
    try:
        found = arrays_of(case.prim.bind(*map(tensor, case.arrays), **case.attrs))
        return differences(case, found, "eager") + type_differences(case, found)
    except Exception as error:  # whatever breaks in one case must be told with its name
        return [f"{case.name}: eager fails: {type(error).__name__}: {error}"]


def type_differences(case, found):
    return [
        f"{case.name}: result {i} has shape {f.shape}, the type rule says {t.shape}"
        for i, (f, t) in enumerate(zip(found, case.types))
        if f.shape != tuple(t.shape)
    ]


# -- compiled

LOWERED = [p for p in OWN if p.lower is not None or p.host]


@each(LOWERED)
def test_compiled_is_the_numpy_column(prim):
    cases = [c for c in some_cases(prim) if c.is_compiled]
    lines = compiled_differences(cases) if cases else []
    assert not lines, message(lines)


@each(LOWERED)
def test_compiled_with_unknown_dims_is_the_numpy_column(prim):
    cases = symbolic_cases(some_cases(prim))
    lines = compiled_differences(cases, symbolic=True) if cases else []
    assert not lines, message(lines)


def symbolic_cases(cases):
    return [c for c in cases if c.is_compiled and c.sample.symbolic is not None]


@pytest.mark.sweep
@each(LOWERED)
def test_compiled_in_every_dtype_is_the_numpy_column(prim):
    cases = [c for c in all_cases(prim) if c.is_compiled]
    lines = compiled_differences(cases) + compiled_differences(symbolic_cases(cases), symbolic=True)
    assert not lines, message(lines)


# -- exported

EXPORTED = [p for p in OWN if p.onnx is not None]


@each(EXPORTED)
def test_onnx_is_the_numpy_column(prim):
    cases = [c for c in some_cases(prim) if c.is_exported]
    lines = [line for c in cases for line in onnx_differences(c)]
    lines += [line for c in symbolic_cases(cases) for line in onnx_differences(c, symbolic=True)]
    assert not lines, message(lines)


@pytest.mark.sweep
@each(EXPORTED)
def test_onnx_in_every_dtype_is_the_numpy_column(prim):
    cases = [c for c in all_cases(prim) if c.is_exported]
    lines = [line for c in cases for line in onnx_differences(c)]
    assert not lines, message(lines)


def onnx_differences(case, symbolic=False):
    try:
        model = export(function_of([case]), *specs_of(case, symbolic))
        found = onnx_support.run_model(model, case.arrays)
        return [] if found is None else differences(case, found, "ONNX", tolerances.EXPORTED)
    except UnimplementedError as error:
        return [] if "onnx" in case.prim.why_not else [f"{case.name}: {error}"]
    except Exception as error:  # whatever breaks in one case must be told with its name
        return [f"{case.name}: ONNX fails: {type(error).__name__}: {str(error)[:400]}"]


# -- NaN, infinities and both zeros among the inputs

SPECIAL = [np.nan, np.inf, -np.inf, -0.0, 0.0]
FINITE_ONLY = {
    "attention": "of a row of -inf alone its logarithm of the sum, which only the gradient reads, is -inf instead of NaN",
    "conv": "NumPy multiplies the zeros of the padding, too, and 0 times infinity is NaN",
    "sparse_matmul": "SciPy adds values of the same place before it multiplies them, which may be infinities of both signs",
    "conv_input_grad": "compiled code multiplies the zeros between strides, too",
}
LEFT_OUT_OF_MAXIMA = ("reduce_max", "reduce_min", "max_pool", "max_pool_grad", "max_pool_pick", "searchsorted")
"""Primitives whose ONNX operators (ReduceMax, ReduceMin, MaxPool) ONNX Runtime computes without NaN; ONNX leaves it open."""


def special_cases(prim):
    """The float32 cases, with special values in three of ten places."""
    rng = np.random.default_rng(7)
    for case in all_cases(prim)[:60]:
        if any(a.dtype == np.float32 and a.size for a in case.arrays):
            case.arrays = [special(a, rng) if a.dtype == np.float32 and a.size else a for a in case.arrays]
            if has_result(case):
                yield case


def special(array, rng):
    return np.where(rng.random(array.shape) < 0.3, rng.choice(SPECIAL, array.shape), array).astype(np.float32)


def has_result(case):
    """Whether there is one: decompositions refuse NaN."""
    try:
        return bool(case.expected)
    except ArgumentError:
        return False


@pytest.mark.sweep
@each([p for p in LOWERED if p.name not in FINITE_ONLY])
def test_special_values_are_computed_as_the_numpy_column_does(prim):
    cases = [c for c in special_cases(prim) if c.is_compiled]
    lines = compiled_differences(cases) if cases else []
    if prim.onnx is not None and prim.name not in LEFT_OUT_OF_MAXIMA:
        lines += [line for c in cases if c.is_exported for line in onnx_differences(c)]
    assert not lines, message(lines)


# -- differentiated


def smooth_cases(prim, *dtypes):
    return [c for c in all_cases(prim) if c.sample.gradient and is_smooth(c, dtypes)]


def is_smooth(case, dtypes):
    sources = [a for a in case.arrays if a.dtype.kind in "fc" and a.dtype.name in dtypes]
    return bool(sources) and any(t.dtype.name in dtypes for t in case.types)


DIFFERENTIABLE = [p for p in OWN if p.vjp is not None and smooth_cases(p, "float64", "complex128")]


@each(DIFFERENTIABLE)
def test_gradient_is_that_of_finite_differences(prim):
    lines = named(gradient_support.first_order, smooth_cases(prim, "float64", "complex128"))
    assert not lines, message(lines)


@each(DIFFERENTIABLE)
def test_second_gradient_is_that_of_finite_differences(prim):
    lines = named(gradient_support.second_order, smooth_cases(prim, "float64"))
    assert not lines, message(lines)


def named(check, cases):
    lines = []
    for case in cases:
        try:
            found = check(case)
        except Exception as error:  # whatever breaks in one case must be told with its name
            found = f"{check.__name__} fails: {type(error).__name__}: {error}"
        if found:
            lines.append(f"{case.name}: {found}")
    return lines


# -- batched

FIRST_ROW = {
    "assign": "a Variable has one value, the first row's",
    "told_dims": "rows that tell several shapes are refused",
}
BATCHED = [p for p in OWN if p.batch is not None and p.name not in FIRST_ROW]


@each(BATCHED)
def test_batch_rule_is_the_loop(prim):
    cases = {c.index: c for c in all_cases(prim)}.values()
    lines = [line for c in cases for flags in flags_of(c) for line in batch_differences(c, flags)]
    assert not lines, message(lines)


def flags_of(case):
    """All inputs batched, the first only, the last only."""
    count = len(case.arrays)
    single = [tuple(i == k for i in range(count)) for k in (0, count - 1)]
    return sorted({(True,) * count, *single}) if count else []


def batch_differences(case, flags):
    rows = rows_of(case, flags)
    inputs = [tensor(np.stack([r[i] for r in rows]) if f else a) for i, (a, f) in enumerate(zip(case.arrays, flags))]
    try:
        batch = case.prim.batch(BATCH, inputs, flags, **case.attrs)
        if batch is NotImplemented:  # for these inputs it is the loop
            return []
        found = arrays_of(batch)
        each_row = [arrays_of(case.prim.bind(*map(tensor, row), **case.attrs)) for row in rows]
    except Exception as error:  # whatever breaks in one case must be told with its name
        return [f"{case.name}: batched {flags} fails: {type(error).__name__}: {error}"]
    stacked = Stacked(case, [np.stack(results) for results in zip(*each_row)])
    return differences(stacked, found, f"batched {flags}")


def rows_of(case, flags):
    """The case's inputs, and a second row of them in another order (the same where that is no valid input)."""
    other = [a.ravel()[::-1].reshape(a.shape) if f else a for a, f in zip(case.arrays, flags)]
    try:
        quietly(case.prim.numpy, other, case.attrs)
    except ArgumentError:
        other = case.arrays
    return [case.arrays, other]


class Stacked:
    """The results of a loop as what a batch rule should give."""

    def __init__(self, case, expected):
        self.prim, self.name, self.types, self.expected = case.prim, case.name, case.types, expected


# -- refused


@each(OWN)
def test_unsupported_dtypes_are_rejected_before_numpy(prim):
    lines = [line for case in outside_cases(prim) for line in error_differences(case)]
    assert not lines, message(lines)


def outside_cases(prim):
    """One sample in every dtype that its samples don't have."""
    cases = [c for c in all_cases(prim) if c.dtype is not None]
    inside = {c.dtype for c in cases}
    samples = {c.index: c for c in cases if any(map(callable, c.sample.inputs))}.values()
    outside = [d for d in ALL if d not in inside and d.kind != "s"]
    return [c for d in outside for c in [drawn_case(samples, d)] if c]


def drawn_case(samples, dtype):
    """The first sample whose data exist in the dtype (there is no integer infinity)."""
    for case in samples:
        other = type(case)(case.prim, case.index, case.sample, dtype)
        try:
            _ = other.arrays
        except (OverflowError, ValueError, TypeError):
            continue
        return other
    return None


def error_differences(case):
    try:
        _ = case.types
    except OpError as error:
        return [] if case.prim.tf_name in str(error) else [f"{case.name}: the refusal does not name the op: {error}"]
    except Exception as error:  # a type rule that breaks is what this test is about
        return [f"{case.name}: the type rule fails: {type(error).__name__}: {error}"]
    return eager_differences(case)


def test_a_difference_is_reported_with_its_place():
    case = next(c for c in all_cases(OWN[0]) if c.dtype is as_dtype("float32") and c.arrays[0].shape == (3,))
    wrong = [e + np.float32(1) for e in case.expected]
    (line,) = differences(case, wrong, "compiled")
    assert line.startswith(f"{case.name}: compiled differs at (0,): np.float32(")
    assert " (3 of 3 elements, max diff " in line and line.endswith(" > 5e-06)")
