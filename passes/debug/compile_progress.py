"""A spinner on the terminal while a compilation takes long, with the number of kernels that are compiled."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tvtf.core.thread_state import debug_settings

DELAY = 1.0
"""Seconds of a compilation after which the spinner appears."""
INTERVAL = 0.1
"""Seconds between two frames of the spinner."""


@dataclass
class CompileProgress:
    """The number of a compilation's kernels that are compiled, and of all; 0 of 0 until the compilation reaches kernels."""

    done: int = 0
    total: int = 0

    def __str__(self) -> str:
        return f"{self.done} of {self.total} kernels" if self.total else "passes"


@contextmanager
def compile_progress() -> Iterator[CompileProgress]:
    """Yields a progress counter for a ``with`` block, and shows a spinner on stderr if the block takes long.

    Nothing is shown if stderr isn't a terminal, in threads other than the main one (they compile for eager calls), or
    with ``TVTF_DEBUG`` of 2 or more, which prints its own lines.
    """
    progress = CompileProgress()
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or debug_settings.debug >= 2 or not _is_terminal(sys.stderr):
        yield progress
        return
    ended = threading.Event()
    thread = threading.Thread(target=_show, args=(progress, ended), name="tvtf-compile-progress", daemon=True)
    thread.start()
    try:
        yield progress
    finally:
        ended.set()
        thread.join()


def _is_terminal(stream: Any) -> bool:
    """Returns whether a stream writes to a terminal; programs may have replaced or closed ``sys.stderr``."""
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _show(progress: CompileProgress, ended: threading.Event) -> None:
    """Shows a spinner on stderr while a compilation runs, if it takes longer than ``DELAY`` seconds.

    Args:
      progress: describes the state of the compilation.
      ended: is set by another thread when the compilation ends. The spinner is then erased.
    """
    took_less_than_delay = ended.wait(DELAY)
    if took_less_than_delay:
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        return
    columns = SpinnerColumn(), TextColumn("compiling: {task.description}"), TimeElapsedColumn()
    # The program's own output mustn't be redirected: it goes where it would without a spinner.
    spinner = Progress(
        *columns, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
    )
    with spinner:
        task = spinner.add_task(str(progress), total=None)
        spinner.tasks[0].start_time = spinner.get_time() - DELAY
        while not ended.wait(INTERVAL):
            spinner.update(task, description=str(progress), refresh=True)
