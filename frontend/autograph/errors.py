"""Errors in converted code, with the user's files and lines in their text.

Source: the format is TensorFlow's, see tensorflow/python/autograph/pyct/error_utils.py.
"""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from tvtf.errors import OpError
from tvtf.ir import trace

ATTRIBUTE = "ag_error_metadata"


class Frame(NamedTuple):
    """One line of the user's stack; lines of converted functions are marked with a star."""

    filename: str
    line: int
    function: str
    code: str | None
    converted: bool

    def __str__(self) -> str:
        star = "  *" if self.converted else ""
        code = (self.code or "<source unavailable>").strip()
        return f'    File "{self.filename}", line {self.line}, in {self.function}{star}\n        {code}'


class UserFrames(NamedTuple):
    """The user's frames, innermost first, and the error's message."""

    frames: tuple[Frame, ...]
    message: str

    def text(self) -> str:
        frames = "\n".join(map(str, reversed(self.frames)))
        message = "\n".join("    " + line for line in self.message.split("\n"))
        return f"in user code:\n\n{frames}\n\n{message}\n"


def attach(error: BaseException, converted: Any) -> None:
    """Adds a converted function's frames to the user's stack that is kept in an error passing through it."""
    frames = _frames(error, converted.ag_source_map)
    inner_frames: UserFrames | None = getattr(error, ATTRIBUTE, None)
    if inner_frames is None:
        metadata = UserFrames(frames, f"{type(error).__name__}: {error}")
    else:
        # The functions that it called have added theirs: only its own frame is new.
        metadata = UserFrames((*inner_frames.frames, *frames[-1:]), inner_frames.message)
    error.ag_error_metadata = metadata  # type: ignore[attr-defined]


def _frames(error: BaseException, source_map: Any) -> tuple[Frame, ...]:
    """Returns the user's frames of an error's traceback, innermost first, up to the converted function's own.

    ``source_map`` maps lines of generated code to the user's lines. Frames of tvtf itself are left out.
    """
    origins = {(generated.filename, generated.lineno): origin for generated, origin in source_map.items()}
    frames = []
    for frame in reversed(traceback.extract_tb(error.__traceback__)[1:]):
        origin = origins.get((frame.filename, frame.lineno))
        if origin is not None:
            frames.append(
                Frame(origin.loc.filename, origin.loc.lineno, origin.function_name, origin.source_code_line, True)
            )
            break
        if not trace.is_own_code(frame.filename):
            frames.append(Frame(frame.filename, frame.lineno or 0, frame.name, frame.line, False))
    return tuple(frames)


class MultilineKeyError(KeyError):
    """A KeyError whose text is printed unquoted, so that its lines stay lines."""

    def __str__(self) -> str:
        return str(self.args[0])


MultilineKeyError.__name__ = "KeyError"


def to_user_error(error: Exception) -> Exception:
    """Returns the error to raise to the user: ``error`` with the user's stack in its text, if its type allows that."""
    metadata: UserFrames | None = getattr(error, ATTRIBUTE, None)
    if metadata is None:
        return error
    user_error = _with_text(error, metadata.text())
    user_error.ag_error_metadata = metadata  # type: ignore[attr-defined]
    return user_error.with_traceback(error.__traceback__)


def _with_text(error: Exception, text: str) -> Exception:
    """Returns an error of the same type with another text; the error itself if its type has its own constructor.

    What such a constructor takes isn't known.
    """
    error_type = type(error)
    if isinstance(error, OpError):
        return error_type(error.node_def, error.op, text)
    if error_type is KeyError:
        return MultilineKeyError(text)
    has_constructor = any(
        base.__module__ != "builtins" and ("__init__" in vars(base) or "__new__" in vars(base))
        for base in error_type.__mro__
    )
    return error if has_constructor or isinstance(error, (OSError, UnicodeError)) else error_type(text)
