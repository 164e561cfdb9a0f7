"""Translates failures of compiled code into TensorFlow's exceptions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tvtf import errors
from tvtf.core.thread_state import state
from tvtf.ops.host import FAILURE, on_failure, take_failure

_GUARD = re.compile(FAILURE.format(kind=r"(\w+)", message="(.*?)"), re.DOTALL)
_KERNEL_MISMATCH = re.compile(r"Invalid (\w+)\.shape\[(\d+)\] on argument.*?\1: Tensor\((\[.*?\]), (\w+)\)", re.DOTALL)
_SIZES = re.compile(r"\((\d+) vs\. (\d+)\).*match_cast error", re.DOTALL)
_MISMATCH = re.compile(r"loc=param\[\d+\], param=(\w+), annotation=(R\.Tensor\(.*?\))\)\s+(.*)")


_OUT_OF_MEMORY = re.compile(r"bad_alloc|Unable to allocate|Maximum allowed dimension|length_error")


def is_of_other_sizes(error: Exception) -> bool:
    """Returns whether the arguments lack the sizes that code was compiled for; such a call has done nothing yet."""
    return _MISMATCH.search(str(error)) is not None


def raised_by(name: str, error: Exception, module: Callable[[], Any] | None = None) -> Exception:
    """Returns the exception for a failure inside the compiled function ``name``.

    ``module`` returns the function's module before all passes. An exported library has none; its messages hold lines.
    """
    for callback in on_failure:
        callback(state.depth)
    text = str(error)
    raised = take_failure(text)
    if raised is not None:
        return _with_line(raised, module)
    guard = _GUARD.search(text)
    if guard:
        kind = getattr(errors, guard[1], errors.InvalidArgumentError)
        return _with_line(kind(None, None, guard[2]), module)
    mismatch = _MISMATCH.search(text)
    if mismatch and "previous populated" in mismatch[3]:
        message = f"{name}: Incompatible shapes: the sizes of {mismatch[1]!r} do not fit those of the arguments before"
        return errors.InvalidArgumentError(None, None, f"{message}: expected shape {_shape_in(mismatch[2])}")
    if mismatch:
        return ValueError(f"{name}: argument {mismatch[1]!r} does not fit {mismatch[2]}: {mismatch[3].strip()}")
    sizes = _SIZES.search(text)
    if sizes:
        return errors.InvalidArgumentError(
            None, None, f"{name}: sizes that the program needs to be equal differ: {sizes[1]} and {sizes[2]}"
        )
    kernel = _KERNEL_MISMATCH.search(text)
    if kernel:
        dims = re.sub(r"T\.int64\((\d+)\)", r"\1", kernel[3])
        message = f"{name}: Incompatible shapes: {kernel[1]!r} has another size in dim {kernel[2]} than the program needs: {dims}"
        return errors.InvalidArgumentError(None, None, message)
    if isinstance(error, (TypeError, ValueError, errors.OpError)):
        return error
    if _OUT_OF_MEMORY.search(text):
        return errors.ResourceExhaustedError(None, None, f"{name}: OOM when allocating a tensor: {text}")
    return errors.InternalError(None, None, f"the compiled function {name!r} failed: {text}")


def _with_line(error: Exception, module: Callable[[], Any] | None) -> Exception:
    """Returns an error of a failed check with the user's line in its message, in place of what compiled code holds."""
    if module is None or not isinstance(error, errors.OpError):
        return error
    from tvtf.ir import check_lines  # libraries fail without TVM's compiler

    if not check_lines.has_call_index(error.message):
        return error
    return type(error)(error.node_def, error.op, check_lines.with_line(error.message, module()))


def _shape_in(annotation: str) -> str:
    """Returns the dims in a tensor type as the compiler prints it."""
    match = re.match(r"R\.Tensor\((\(.*?\))", annotation)
    return annotation if match is None else match[1]


def runtime_error(name: str, error: Exception) -> errors.InvalidArgumentError:
    """Returns an error that TensorFlow reports only when it runs the program, as it depends on the shapes of a call."""
    return errors.InvalidArgumentError(None, name, f"Graph execution error:\n\n{error}")
