"""Reports a training run: the seconds of each stage, and a table at the end."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

START_TIME_FIELD = 22
"""The field of /proc/PID/stat with the process's start in clock ticks since boot, counted from 1 (proc_pid_stat(5))."""


def since_process_start() -> float | None:
    """Returns the seconds since the operating system started this process, or None if that is unknown.

    They include Python's own start.

    >>> seconds = since_process_start()
    >>> seconds is None or seconds > 0
    True
    """
    try:
        # The process's name is the second field, in parentheses, and may contain spaces.
        after_name = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = int(after_name[START_TIME_FIELD - 3])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


class Stages:
    """The seconds spent in each named stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def duration(seconds: float | None) -> str:
    """Formats a duration with a unit that suits its size.

    >>> duration(12.345), duration(0.0123), duration(4.5e-6), duration(None)
    ('12.3 s', '12.3 ms', '4.5 us', 'unknown')
    """
    if seconds is None:
        return "unknown"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            break
    return f"{seconds / size:.3g} {unit}"


def percent(share: float) -> str:
    """Returns a fraction as a percentage.

    >>> percent(0.98765)
    '98.77 %'
    """
    return f"{100 * share:.2f} %"


def show(console: Console, title: str, rows: list[tuple[str, str]]) -> None:
    """Prints rows of a name and a value as a table."""
    table = Table(title=title, title_justify="left", show_header=False)
    for name, value in rows:
        table.add_row(name, value)
    console.print(table)
