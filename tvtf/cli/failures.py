"""Reports errors that a user can fix as one line on stderr, with exit code 1 and no traceback."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from tvtf.errors import OpError

Command = TypeVar("Command", bound=Callable[..., Any])


def report_failures(command: Command) -> Command:
    """Decorates a command so that errors that the user can fix are printed in one line, without a traceback.

    Such errors come from bad input, full disks, missing files and missing packages. All other errors are bugs of tvtf, and
    keep their traceback.
    """

    @functools.wraps(command)
    def run_and_report(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ImportError, OpError, OSError, ValueError) as error:
            raise click.ClickException(one_line(message(error))) from error

    return run_and_report  # type: ignore[return-value]


def message(error: Exception) -> str:
    """Returns the text of an error for the user. For an error of the operating system it begins with the path.

    >>> message(FileNotFoundError(2, "No such file or directory", "x.npy"))
    'x.npy: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def one_line(text: str) -> str:
    """Replaces each line break in a text, and the spaces around it, by one space.

    >>> one_line("a\\n  b")
    'a b'
    """
    return re.sub(r"\s*\n\s*", " ", text.strip())
