"""CPU time of the machine and of processes, from Linux's ``/proc``; zero on other systems."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1
RESOLUTION = 2 / _TICKS
"""The resolution of differences of these numbers, in seconds."""
_IDLE, _IO_WAIT = 3, 4
"""Indices of fields in the first line of ``/proc/stat``. Source: https://man7.org/linux/man-pages/man5/proc_stat.5.html"""


def busy_seconds() -> float:
    """Returns the CPU seconds of all programs on all cores since the machine started."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    ticks = list(map(int, stat.read_text().splitlines()[0].split()[1:9]))
    return (sum(ticks) - ticks[_IDLE] - ticks[_IO_WAIT]) / _TICKS


def seconds_used_by(process: int) -> float:
    """Returns the CPU seconds of a process, all its threads included."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.is_file():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS
