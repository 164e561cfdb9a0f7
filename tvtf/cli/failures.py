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
    """Decorates a command to report bad input, full disks, missing files and missing extras without a traceback.

    Other errors are tvtf's own, and keep their traceback.
    """

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except (ImportError, OpError, OSError, ValueError) as failure:
            raise click.ClickException(one_line(message(failure))) from failure

    return run  # type: ignore[return-value]


def message(failure: Exception) -> str:
    """Returns an error's text; an error of the system includes the path.

    >>> message(FileNotFoundError(2, "No such file or directory", "x.npy"))
    'x.npy: No such file or directory'
    """
    if isinstance(failure, OSError) and failure.strerror:
        return f"{failure.filename}: {failure.strerror}" if failure.filename else failure.strerror
    return str(failure)


def one_line(text: str) -> str:
    """Replaces line breaks by spaces.

    >>> one_line("a\\n  b")
    'a b'
    """
    return re.sub(r"\s*\n\s*", " ", text.strip())
