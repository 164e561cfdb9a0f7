"""Errors in converted code, with the user's files and lines in their text.

Source: the format is TensorFlow's, see tensorflow/python/autograph/pyct/error_utils.py.
"""

from __future__ import annotations

import traceback
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

from tvtf.errors import OpError
from tvtf.ir.user_lines import is_own_code

ATTRIBUTE = "ag_error_metadata"


class Frame(NamedTuple):
    """One line of the user's call stack. ``converted`` says whether AutoGraph has converted the function."""

    filename: str
    line: int
    function: str
    code: str | None
    converted: bool

    def __str__(self) -> str:
        """Formats the line as TensorFlow does. A star marks lines of converted functions."""
        star = "  *" if self.converted else ""
        code = (self.code or "<source unavailable>").strip()
        return f'    File "{self.filename}", line {self.line}, in {self.function}{star}\n        {code}'


class UserFrames(NamedTuple):
    """The user's frames, innermost first, and the error's message."""

    frames: tuple[Frame, ...]
    message: str

    def text(self) -> str:
        """Formats the frames, outermost first, and the message as the text of an error."""
        frames = "\n".join(map(str, reversed(self.frames)))
        message = "\n".join("    " + line for line in self.message.split("\n"))
        return f"in user code:\n\n{frames}\n\n{message}\n"


def attach(error: BaseException, converted: Any) -> None:
    """Adds the frames of a converted function to the call stack that is kept in an error.

    The error passes through the function and is raised again. The stack is the error's attribute ``ag_error_metadata``.
    """
    frames = _frames(error, converted)
    inner_frames: UserFrames | None = getattr(error, ATTRIBUTE, None)
    if inner_frames is None:
        metadata = UserFrames(frames, f"{type(error).__name__}: {error}")
    else:
        # Functions that this one called have added their frames: only this function's frame is new.
        metadata = UserFrames((*inner_frames.frames, *frames[-1:]), inner_frames.message)
    error.ag_error_metadata = metadata  # type: ignore[attr-defined]


def _frames(error: BaseException, converted: Any) -> tuple[Frame, ...]:
    """Returns the user's frames in an error's traceback, innermost first, up to that of the ``converted`` function.

    Frames of tvtf itself are left out.
    """
    converted_codes = set(code_objects(converted.__code__))
    walked = traceback.walk_tb(error.__traceback__)
    summaries = traceback.extract_tb(error.__traceback__)
    stack = list(zip(walked, summaries, strict=False))
    frames = []
    for (frame, line), summary in reversed(stack[1:]):  # the first frame is tvtf's, which caught the error
        if frame.f_code in converted_codes:
            frames.append(Frame(summary.filename, line, converted.ag_functions.get(line), summary.line, True))
            break
        if not is_own_code(summary.filename):
            frames.append(Frame(summary.filename, line, summary.name, summary.line, False))
    return tuple(frames)


def code_objects(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yields a function's code and that of all functions defined in it, outer ones first."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from code_objects(constant)


class MultilineKeyError(KeyError):
    """A KeyError whose text is printed unquoted, so that its lines stay lines."""

    def __str__(self) -> str:
        return str(self.args[0])


MultilineKeyError.__name__ = "KeyError"


def to_user_error(error: Exception) -> Exception:
    """Returns an error of the same type with the user's call stack in its text.

    The error itself is returned if it has no stack attached, or if its text can't be changed.
    """
    metadata: UserFrames | None = getattr(error, ATTRIBUTE, None)
    if metadata is None:
        return error
    user_error = _with_text(error, metadata.text())
    user_error.ag_error_metadata = metadata  # type: ignore[attr-defined]
    return user_error.with_traceback(error.__traceback__)


def _with_text(error: Exception, text: str) -> Exception:
    """Returns an error of the same type with another text.

    The error itself is returned if its class has a constructor of its own, because the arguments of the constructor
    aren't known.
    """
    error_type = type(error)
    if isinstance(error, OpError):
        return error_type(error.node_def, error.op, text)
    if error_type is KeyError:  # Python prints a KeyError's text quoted, on one line
        return MultilineKeyError(text)
    if isinstance(error, (OSError, UnicodeError)):  # their constructors have other arguments
        return error
    for base in error_type.__mro__:
        has_constructor = "__init__" in vars(base) or "__new__" in vars(base)
        if has_constructor and base.__module__ != "builtins":
            return error
    return error_type(text)
