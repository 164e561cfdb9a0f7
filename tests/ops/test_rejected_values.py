"""Compiled code rejects the values that a primitive's numpy column rejects, with the same class of error."""

import itertools

import numpy as np
import pytest
from table_support import OWN, some_cases, spec_of, tensor

import tvtf as tf
from tvtf.core.argument_error import ArgumentError
from tvtf.core.primitive import as_tuple, quietly
from tvtf.errors import OpError

FEW, MANY = 1, 8
"""Refused inputs of each primitive that are compiled."""
CHECKED = [p for p in OWN if (p.lower is not None or p.host) and "guard" not in p.why_not]


def other_values(array):
    """What takes an input's place, to find values that are refused."""
    if array.dtype.kind in "iu":
        limits = np.iinfo(array.dtype)
        numbers = (-1, 0, 1 << 20, limits.min, limits.max)
        return [np.full_like(array, n) for n in numbers if limits.min <= n <= limits.max] + _changed_once(array)
    if array.dtype.kind == "b":
        return [np.zeros_like(array), np.ones_like(array)]
    if array.dtype.kind == "f":
        return [np.full_like(array, n) for n in (-1.5, 0, np.nan, np.inf)]
    return []


def _changed_once(array):
    """One number out of range among the others."""
    last = array.copy()
    last.ravel()[-1:] = 1 << 6
    return [last.reshape(array.shape), np.ascontiguousarray(array[::-1])] if array.ndim else []


def rejected_inputs(prim):
    """Cases with inputs that the numpy column refuses and the type rule doesn't."""
    for case in some_cases(prim):
        if not case.is_compiled:
            continue
        for place, array in enumerate(case.arrays):
            for other in other_values(array):
                inputs = [*case.arrays[:place], other, *case.arrays[place + 1 :]]
                if is_rejected(case, inputs):
                    yield case, inputs


def is_rejected(case, inputs):
    try:
        quietly(case.prim.numpy, inputs, case.attrs)
    except (ArgumentError, OpError):
        return True
    except (ValueError, TypeError, IndexError, OverflowError, ArithmeticError):  # what eager ops turn into a refusal
        return True
    return False


def eager_class(case, inputs):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        case.prim.bind(*map(tensor, inputs), **case.attrs)
    return caught.type


def compiled_outcome(case, inputs):
    def run(*tensors):
        return as_tuple(case.prim.bind(*tensors, **case.attrs))

    try:
        found = tf.function(run, autograph=False).get_concrete_function(*map(spec_of, inputs))(*map(tensor, inputs))
    except Exception as error:  # whatever it is, it is compared
        return type(error)
    return [np.asarray(t).tolist() for t in found]


def error_differences(prim, most):
    for case, inputs in itertools.islice(rejected_inputs(prim), most):
        expected, found = eager_class(case, inputs), compiled_outcome(case, inputs)
        if found is not expected:
            yield f"{case.name} of {[x.tolist() for x in inputs]}: {expected.__name__}, compiled {found}"


@pytest.mark.parametrize("prim", CHECKED, ids=lambda p: p.name)
def test_values_rejected_eagerly_are_rejected_by_compiled_code(prim):
    lines = [*error_differences(prim, FEW)]
    assert not lines, "\n".join(["", *lines])


@pytest.mark.sweep
@pytest.mark.parametrize("prim", CHECKED, ids=lambda p: p.name)
def test_many_values_rejected_eagerly_are_rejected_by_compiled_code(prim):
    lines = [*error_differences(prim, MANY)]
    assert not lines, "\n".join(["", *lines])


def test_primitives_that_reject_values_have_a_guard_or_a_reason():
    silent = [p for p in CHECKED if p.guard is None and not p.host and next(rejected_inputs(p), None) is not None]
    assert not silent, f"{[p.name for p in silent]}: add a guard column, or the reason to why_not"
