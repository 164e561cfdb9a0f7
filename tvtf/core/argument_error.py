"""How a type rule refuses its arguments: one exception inside, TensorFlow's types outside."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Iterable
from dis import opmap
from typing import Any

from tvtf.core.deferred_shape import until_told
from tvtf.core.thread_state import state
from tvtf.errors import InvalidArgumentError, NotFoundError, OpError, ResourceExhaustedError


class ArgumentError(Exception):
    """Raised by type rules; the primitive adds its name and picks the type.

    TensorFlow raises InvalidArgumentError eagerly where it raises ``graph`` (ValueError for shapes, TypeError for dtypes)
    while tracing.
    """

    eager: type[OpError] = InvalidArgumentError

    def __init__(self, message: str, graph: type[Exception] = ValueError, traced: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.graph = graph
        self.traced = traced or (message if "{op}" in message else f"{{op}}: {message}")

    def told_by(self, op: str) -> BaseException:
        """The error to raise; where sizes are unknown that calls tell, those decide whether it is one."""
        if state.trace is None:
            return self.eager(None, op, f"{self.message.replace('{op}', op)} [Op:{op}] name: ")
        told = self.traced.replace("{op}", op)
        if issubclass(self.graph, OpError):
            return self.graph(None, op, told)
        if self.graph is TypeError:
            return of_any_size(TypeError(told))
        return until_told(_of_shapes(self.graph(told)), meant=False)


def _of_shapes(error: Exception) -> Exception:
    """``error``, which is for shapes: in a trace for those of one call, a branch may have it that the call never takes."""
    error.is_of_shapes = True  # type: ignore[attr-defined]
    return error


def is_of_shapes(error: BaseException) -> bool:
    return getattr(error, "is_of_shapes", False)


def of_any_size(error: TypeError) -> TypeError:
    """``error``, which is for a dtype: no size that a call tells changes it, and no call is waited for."""
    error.is_of_any_size = True  # type: ignore[attr-defined]
    return error


def is_of_any_size(error: BaseException) -> bool:
    return getattr(error, "is_of_any_size", False)


class ArgumentValueError(ArgumentError):
    """Raised for what only values tell: TensorFlow's kernels raise InvalidArgumentError for it, in graphs, too."""

    def __init__(self, message: str) -> None:
        super().__init__(message, InvalidArgumentError)


class WithoutKernel(ArgumentError):
    """Raised for a dtype that an op allows and no device here computes."""

    eager = NotFoundError

    def __init__(self, dtype: str, computed: Iterable[str]) -> None:
        kernels = ", ".join(computed)
        message = f"Could not find device for node {{op}} of {dtype}: kernels are registered for {kernels}"
        super().__init__(message, InvalidArgumentError)


MISTAKES = (
    *(AttributeError, LookupError, ArithmeticError, MemoryError, RecursionError),
    *(TypeError, ValueError),
)
"""What Python raises where an argument is not what the code that got it takes."""
_TOO_LARGE = re.compile("array is too big|aximum (allowed|supported) (dimension|size)")
"""What NumPy says of more bytes than it can count."""
_OF_A_CALL = re.compile(r"\S+\(\) (missing|got|takes) ")
OURS = {"tvtf", "numpy", "scipy", "ml_dtypes", "tvm", "tvm_ffi", "PIL", *sys.stdlib_module_names} - {"__main__"}


def instead(
    error: Exception, op: str, arguments: Iterable[Any], kind: type[Exception] | None = ValueError
) -> BaseException:
    """What to raise where an argument broke the code of an op: ``error`` itself if it was meant, or is the user's own.

    ``kind`` is what a value that the code can't take becomes; None is :class:`ArgumentError`. Sizes may have been what it can't
    take: where calls tell them, they decide.
    """
    if not isinstance(error, MISTAKES) or _is_meant(error):
        return error
    told = _told(error, op, arguments, kind)
    return until_told(told, meant=False) if isinstance(told, Exception) else told


def _told(error: Exception, op: str, arguments: Iterable[Any], kind: type[Exception] | None) -> BaseException:
    if isinstance(error, MemoryError) or (isinstance(error, ValueError) and _TOO_LARGE.search(str(error))):
        return ResourceExhaustedError(None, op, f"{op}: OOM when allocating a tensor: {error}")
    told = f" can't work with the arguments ({', '.join(map(_brief, arguments))}): {error}"
    message = op + told
    if isinstance(error, OverflowError):
        return OverflowError(message)
    if isinstance(error, (AttributeError, TypeError)) or _is_conversion(error):
        return TypeError(message)
    return (
        kind(message)
        if kind is not None and isinstance(error, ValueError)
        else ArgumentError("{op}" + told).told_by(op)
    )


def _is_conversion(error: Exception) -> bool:
    """Whether Python could not make a number of something."""
    return str(error).startswith(("invalid literal for", "could not convert", "cannot convert"))


def _is_meant(error: Exception) -> bool:
    if isinstance(error, TypeError) and _OF_A_CALL.match(str(error)):
        return True
    frames = list(traceback.walk_tb(error.__traceback__))
    roots = [frame.f_globals.get("__name__", "").partition(".")[0] for frame, _ in frames]
    if any(root not in OURS for root in roots):
        return True
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return last is None or (
        roots[-1] == "tvtf" and last.tb_frame.f_code.co_code[last.tb_lasti] == opmap["RAISE_VARARGS"]
    )


def _brief(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # of an object that is not whole
        text = object.__repr__(value)
    return text if len(text) < 100 else text[:97] + "..."
