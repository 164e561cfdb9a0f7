"""Errors in converted code, told with the user's files and lines.

Source: the format is TensorFlow's, see tensorflow/python/autograph/pyct/error_utils.py.
"""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tvtf.errors import OpError
from tvtf.ir import trace

ATTRIBUTE = "ag_error_metadata"


class Frame(NamedTuple):
    """One line of the user's stack; ``converted`` ones are marked with a star."""

    filename: str
    line: int
    function: str
    code: str | None
    converted: bool

    def __str__(self) -> str:
        star = "  *" if self.converted else ""
        code = (self.code or "<source unavailable>").strip()
        return f'    File "{self.filename}", line {self.line}, in {self.function}{star}\n        {code}'


class Told(NamedTuple):
    """The user's frames, innermost first, and what went wrong."""

    frames: tuple[Frame, ...]
    message: str

    def text(self) -> str:
        frames = "\n".join(map(str, reversed(self.frames)))
        message = "\n".join("    " + line for line in self.message.split("\n"))
        return f"in user code:\n\n{frames}\n\n{message}\n"


def attach(error: BaseException, converted: Any) -> None:
    """Adds the frames of one converted function to what is known of an error that passes through it."""
    frames = _frames(error, converted.ag_source_map)
    known: Told | None = getattr(error, ATTRIBUTE, None)
    if known is None:
        told = Told(frames, f"{type(error).__name__}: {error}")
    else:
        told = Told((*known.frames, *frames[-1:]), known.message)
    error.ag_error_metadata = told  # type: ignore[attr-defined]


def _frames(error: BaseException, source_map: Any) -> tuple[Frame, ...]:
    """The frames from the innermost out to the converted function's own."""
    lines = {(place.filename, place.lineno): origin for place, origin in source_map.items()}
    found = []
    for frame in reversed(traceback.extract_tb(error.__traceback__)[1:]):
        origin = lines.get((frame.filename, frame.lineno))
        if origin is not None:
            found.append(
                Frame(origin.loc.filename, origin.loc.lineno, origin.function_name, origin.source_code_line, True)
            )
            break
        if not trace.is_own_code(frame.filename):
            found.append(Frame(frame.filename, frame.lineno or 0, frame.name, frame.line, False))
    return tuple(found)


class MultilineKeyError(KeyError):
    """A KeyError that prints its text as it is, not as a repr."""

    def __str__(self) -> str:
        return str(self.args[0])


MultilineKeyError.__name__ = "KeyError"


def to_user_error(error: Exception) -> Exception:
    """The error to raise: of the same type, with the user's stack in its text where the type takes one."""
    told: Told | None = getattr(error, ATTRIBUTE, None)
    if told is None:
        return error
    made = _remade(error, told.text())
    made.ag_error_metadata = told  # type: ignore[attr-defined]
    return made.with_traceback(error.__traceback__)


def _remade(error: Exception, text: str) -> Exception:
    kind = type(error)
    if isinstance(error, OpError):
        return kind(error.node_def, error.op, text)
    if kind is KeyError:
        return MultilineKeyError(text)
    own = [c for c in kind.__mro__ if c.__module__ != "builtins" and ("__init__" in vars(c) or "__new__" in vars(c))]
    return error if own or isinstance(error, (OSError, UnicodeError)) else kind(text)
