"""Who uses the cores, as Linux counts it; elsewhere nobody is said to."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 1
RESOLUTION = 2 / _TICKS
"""Seconds by which a difference of two of these numbers may be wrong."""
_IDLE, _IO_WAIT = 3, 4
"""Fields of ``/proc/stat``'s first line. Source: https://man7.org/linux/man-pages/man5/proc_stat.5.html"""


def busy_seconds() -> float:
    """Seconds of all cores in which some program ran, since the machine started."""
    stat = Path("/proc/stat")
    if not stat.is_file():
        return 0.0
    ticks = list(map(int, stat.read_text().splitlines()[0].split()[1:9]))
    return (sum(ticks) - ticks[_IDLE] - ticks[_IO_WAIT]) / _TICKS


def seconds_used_by(process: int) -> float:
    """Seconds in which a process, all its threads together, ran."""
    stat = Path(f"/proc/{process}/stat")
    if not stat.is_file():
        return 0.0
    user, system = stat.read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS
