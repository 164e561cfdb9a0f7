"""Errors about arguments: raised inside as one exception, converted to the type and text that TensorFlow has."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable
from dis import opmap
from typing import Any

from tvtf.core.specialization import unknown_size
from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError, NotFoundError, OpError, ResourceExhaustedError


class ArgumentError(Exception):
    """The error of a type rule or kernel that rejects an argument. The primitive converts it to TensorFlow's exception.

    Args:
      message: the message; ``{op}`` in it stands for the op's name.
      graph: the exception that TensorFlow raises while tracing: ValueError for shapes, TypeError for dtypes. Eagerly it
        raises InvalidArgumentError.
      traced: the message while tracing, if it differs.
    """

    eager: type[OpError] = InvalidArgumentError

    def __init__(self, message: str, graph: type[Exception] = ValueError, traced: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.graph = graph
        self.traced = traced or (message if "{op}" in message else f"{{op}}: {message}")

    def for_op(self, op: str) -> BaseException:
        """Returns TensorFlow's exception for this error, with the op's name in the message.

        While tracing, symbolic sizes may have caused the error. The result may then be the signal UnknownSize, after which
        the function is traced again for static sizes.
        """
        if state.trace is None:  # eagerly
            return self.eager(None, op, f"{self.message.replace('{op}', op)} [Op:{op}] name: ")
        message = self.traced.replace("{op}", op)
        if issubclass(self.graph, OpError):
            return self.graph(None, op, message)
        if self.graph is TypeError:
            return of_any_size(TypeError(message))
        return incompatible_shapes(self.graph(message))


def incompatible_shapes(error: Exception) -> BaseException:
    """Returns the exception to raise for incompatible shapes: the signal UnknownSize if sizes are symbolic.

    The function is traced again for static sizes then. These may fit where tracing could not assume that symbolic sizes
    do: it can't solve ``a * b == c * d``. The error is marked as caused by shapes: a trace specialized for one call's
    shapes may raise it in a branch that the call never takes.
    """
    error.is_of_shapes = True  # type: ignore[attr-defined]
    return unknown_size(error, is_required=False)


def is_of_shapes(error: BaseException) -> bool:
    """Returns whether an error was marked as caused by shapes."""
    return getattr(error, "is_of_shapes", False)


def of_any_size(error: TypeError) -> TypeError:
    """Marks an error as independent of sizes, such as an error of a dtype, and returns it.

    To specialize the trace for static sizes would not avoid this error.
    """
    error.is_of_any_size = True  # type: ignore[attr-defined]
    return error


def is_of_any_size(error: BaseException) -> bool:
    """Returns whether an error was marked as independent of sizes."""
    return getattr(error, "is_of_any_size", False)


class ArgumentValueError(ArgumentError):
    """An argument whose value, not its type, is wrong: TensorFlow raises InvalidArgumentError for it in graphs, too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, InvalidArgumentError)


class WithoutKernel(ArgumentError):
    """A dtype that the op allows, but for which TensorFlow has no kernel on this device."""

    eager = NotFoundError

    def __init__(self, dtype: str, computed: Iterable[str]) -> None:
        kernels = ", ".join(computed)
        message = f"Could not find device for node {{op}} of {dtype}: kernels are registered for {kernels}"
        super().__init__(message, InvalidArgumentError)


MISTAKES = (
    *(AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError),
    *(TypeError, ValueError),
)
"""The exceptions of Python that an unsuitable argument can cause inside an op."""
_TOO_LARGE = re.compile("array is too big|aximum (allowed|supported) (dimension|size)")
"""NumPy's messages for arrays of more bytes than it can address."""
_SIGNATURE_MISMATCH = re.compile(r"\S+\(\) (missing|got|takes) ")
"""Python's messages for a call that doesn't fit the function's signature: clear enough for the user as they are."""
LIBRARY_ROOTS = {"tvtf", "numpy", "scipy", "ml_dtypes", "tvm", "tvm_ffi", "PIL", *sys.stdlib_module_names} - {
    "__main__"
}


def public_error_for(
    error: Exception, op: str, arguments: Iterable[Any], kind: type[Exception] | None = ValueError
) -> BaseException:
    """Returns the exception to raise instead of an internal error that an op's arguments caused.

    The new message names the op and the arguments. An error that tvtf raised deliberately, or that comes from the user's
    code, is returned unchanged. In a trace with symbolic sizes the result may be the signal UnknownSize, because static
    sizes may avoid the error.

    Args:
      error: the internal error.
      op: the op's name.
      arguments: the op's arguments.
      kind: the exception type that replaces a ValueError; None stands for :class:`ArgumentError`.
    """
    if not isinstance(error, MISTAKES) or _is_deliberate(error):
        return error
    result = _public_error(error, op, arguments, kind)
    # The result may be the signal UnknownSize already, which is no `Exception`.
    return unknown_size(result, is_required=False) if isinstance(result, Exception) else result


def _public_error(error: Exception, op: str, arguments: Iterable[Any], kind: type[Exception] | None) -> BaseException:
    """Returns the exception that TensorFlow's users expect for ``error``, with a message that names op and arguments.

    A ValueError is replaced by an exception of the type ``kind``, or by an ArgumentError if ``kind`` is None.
    """
    if isinstance(error, MemoryError) or (isinstance(error, ValueError) and _TOO_LARGE.search(str(error))):
        return ResourceExhaustedError(None, op, f"{op}: OOM when allocating a tensor: {error}")
    text = f" can't work with the arguments ({', '.join(map(_brief, arguments))}): {error}"
    message = op + text
    if isinstance(error, OverflowError):
        return OverflowError(message)
    if isinstance(error, (AttributeError, TypeError)) or _is_failed_conversion(error):
        return TypeError(message)
    if kind is not None and isinstance(error, ValueError):
        return kind(message)
    return ArgumentError("{op}" + text).for_op(op)


def _is_failed_conversion(error: Exception) -> bool:
    """Returns whether an error says, in Python's or NumPy's words, that a value can't be converted, as to a number."""
    return str(error).startswith(("invalid literal for", "could not convert", "cannot convert"))


def _is_deliberate(error: Exception) -> bool:
    """Returns whether an error is meant for the user: a ``raise`` statement in tvtf or the user's code raised it."""
    if isinstance(error, TypeError) and _SIGNATURE_MISMATCH.match(str(error)):
        return True  # Python's message says which argument is missing or unexpected
    frames = list(traceback.walk_tb(error.__traceback__))
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames]
    if any(package not in LIBRARY_ROOTS for package in packages):
        return True  # the user's code is among the stack frames
    # In tvtf's own code, an error is deliberate if a `raise` statement made it, not an operation that failed.
    innermost = error.__traceback__
    if innermost is None:
        return True
    while innermost.tb_next is not None:
        innermost = innermost.tb_next
    failed_instruction = innermost.tb_frame.f_code.co_code[innermost.tb_lasti]
    return packages[-1] == "tvtf" and failed_instruction == opmap["RAISE_VARARGS"]


def _brief(value: Any) -> str:
    """Returns the repr of a value, shortened to 100 characters."""
    try:
        text = repr(value)
    except Exception:  # a half-initialized object may have no repr
        text = object.__repr__(value)
    return text if len(text) < 100 else text[:97] + "..."
