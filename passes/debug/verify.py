"""Self-checking compilation (TVTF_VERIFY=1): compares results before and after passes.

Dialect passes are compared by NumPy, scheduled kernels with their unscheduled form. The check names the first pass that
changed the numbers, and the output or kernel that it changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tvm
from tvm import ir, relax, tirx
from tvm.target import Target

from tvtf.core.tensor import EagerTensor
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype
from tvtf.errors import InternalError
from tvtf.ir import dialect
from tvtf.ir.interpreter import evaluate
from tvtf.ops.rules import random_array
from tvtf.passes.codegen.align import item_aligned
from tvtf.passes.codegen.llvm import kernel_module

SYMBOLIC_SIZE = 3
"""The value of symbolic dims in a check."""
_TOLERANCE = {"float16": 2e-2, "bfloat16": 8e-2, "float32": 2e-4, "float64": 1e-9}
NUDGE = 8
"""Units in the last place by which inputs are perturbed to measure how rounding affects each element of a result: where
Adam divides by a mean of squares near zero, any other order of summation shows. A pass may change an element by as
much. Source: N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, chapter 1 (condition numbers)."""


def check_pass(name: str, before: tvm.IRModule, after: tvm.IRModule) -> None:
    """Checks that a pass kept the results of ``main``, by interpreting ``main`` before and after on random inputs.

    Raises:
      InternalError: an output differs; the text names the pass and the output.
    """
    inputs = _random_inputs(before["main"])
    expected, actual = (_evaluate(mod, inputs) for mod in (before, after))
    different = [
        position
        for position, (wanted, found) in enumerate(zip(expected, actual, strict=True))
        if not _is_close(wanted, found)
    ]
    # A pass may reorder sums, for example. So an output may differ by as much as a rounding of the inputs changes it.
    rounded_outputs = _evaluate(before, [_perturbed(array) for array in inputs]) if different else []
    for position in different:
        rounding_error = _absolute_difference(expected[position], rounded_outputs[position])
        if not _is_close(expected[position], actual[position], rounding_error):
            raise _error(f"the pass {name!r} changed output {position} of main", expected[position], actual[position])


def _perturbed(array: np.ndarray) -> np.ndarray:
    """Returns the array with every second float moved away from zero by ``NUDGE`` units in the last place."""
    moved = array.copy()
    if array.dtype.kind == "f":
        moved.ravel()[::2] += NUDGE * np.spacing(array.ravel()[::2])
    return moved


def _absolute_difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the absolute difference of each element, zero where it isn't finite."""
    difference = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where(np.isfinite(difference), difference, 0.0)


def _evaluate(mod: tvm.IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Interprets ``main`` with NumPy, and returns its outputs."""
    inputs = [EagerTensor(array) for array in arrays]
    # The trace and gradient tapes that are active in the user's program must not record these ops.
    users_trace, users_tapes = state.trace, state.tapes
    state.trace, state.tapes = None, []
    try:
        return [output.eager_array() for output in evaluate(mod, "main", inputs)]
    finally:
        state.trace, state.tapes = users_trace, users_tapes


def _random_inputs(function: relax.Function) -> list[np.ndarray]:
    return [_random(i, dialect.from_relax_type(param.ty)) for i, param in enumerate(function.params)]


def _random(seed: int, tensor_type: Any) -> np.ndarray:
    return random_array(seed, [_size(dim) for dim in tensor_type.shape], tensor_type.dtype, 0.0, 2.0)


def _size(dim: Any) -> int:
    return dim if isinstance(dim, int) else SYMBOLIC_SIZE


def _is_close(expected: np.ndarray, actual: np.ndarray, extra: Any = 0.0) -> bool:
    """Returns whether two arrays agree within the tolerance of their dtype; integers and bools must be equal.

    The tolerance is relative to each element, and to the largest element of ``expected``.

    Args:
      expected: the expected array, whose dtype gives the tolerance.
      actual: the actual array.
      extra: a number or array that is added to the absolute tolerance.
    """
    tolerance = _TOLERANCE.get(expected.dtype.name, 0.0)
    if expected.dtype.kind in "biu":
        return bool(np.array_equal(expected, actual))
    wide_expected = expected.astype(np.float64)
    wide_actual = actual.astype(np.float64)
    absolute_tolerance = tolerance * max(1.0, _magnitude(wide_expected)) + extra
    return np.allclose(wide_expected, wide_actual, rtol=tolerance, atol=absolute_tolerance, equal_nan=True)


def _magnitude(array: np.ndarray) -> float:
    finite = array[np.isfinite(array)]
    return float(np.abs(finite).max()) if finite.size else 0.0


def _error(subject: str, expected: np.ndarray, actual: np.ndarray) -> InternalError:
    """Returns the error that says what a pass changed, with the first values."""
    values = f"expected {expected.ravel()[:5]}, found {actual.ravel()[:5]}"
    return InternalError(None, "verify", f"TVTF_VERIFY: {subject}: {values}; TVTF_DUMP=DIR keeps the IR of every step")


def check_schedules(before: tvm.IRModule, after: tvm.IRModule, target: Target) -> None:
    """Checks that scheduling kept the results of each kernel of static shape, by running it before and after.

    Both forms of the kernel run on the same random inputs. A wrong schedule would give wrong numbers without an error.

    Args:
      before: the kernels as they were lowered.
      after: the scheduled kernels, by the same names.
      target: the device for which they are scheduled.

    Raises:
      InternalError: the results differ; the text names the kernel.
    """
    for var, kernel in before.functions.items():
        if isinstance(kernel, tirx.PrimFunc) and _is_checkable(kernel):
            _check_kernel(var.name_hint, kernel, after[var], target)


def _is_checkable(kernel: tirx.PrimFunc) -> bool:
    return all(
        hasattr(param.ty, "shape") and all(isinstance(dim, tirx.IntImm) for dim in param.ty.shape)
        for param in kernel.params
    )


def _check_kernel(name: str, kernel: tirx.PrimFunc, scheduled: tirx.PrimFunc, target: Target) -> None:
    """Raises an InternalError if a scheduled kernel computes other results than the original one on random arrays."""
    arrays = [_buffer(i, param) for i, param in enumerate(kernel.params)]
    expected, actual = (_run_kernel(func, arrays, target) for func in (kernel, scheduled))
    for a, b in zip(expected, actual):
        if not _is_close(a, b):
            raise _error(f"the schedule of kernel {name!r} changed its result", a, b)


def _buffer(seed: int, param: Any) -> np.ndarray:
    dtype = _dtype_of(param)
    return random_array(seed, [int(dim) for dim in param.ty.shape], dtype, 0.0, 2.0)


def _dtype_of(param: Any) -> DType:
    return as_dtype(str(param.ty.dtype.dtype))


def _run_kernel(kernel: tirx.PrimFunc, arrays: Sequence[np.ndarray], target: Target) -> list[np.ndarray]:
    """Compiles a kernel, runs it on copies of the arrays, and returns all copies: the kernel's inputs and outputs."""
    mod = ir.IRModule({"kernel": item_aligned(kernel).with_attr("global_symbol", "kernel")})
    built = tvm.compile(mod, target) if target.kind.name == "cuda" else kernel_module(mod, target)
    memory = [tvm.runtime.tensor(array.copy()) for array in arrays]
    built["kernel"](*memory)
    return [each.numpy() for each in memory]
