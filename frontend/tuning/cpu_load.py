"""The share of this process's cores that other programs use: parallel kernels timed concurrently with them look slow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
IDLE = (3, 4)
"""The columns of idle ticks and of ticks waiting for a disk (proc_stat(5))."""
COUNTED = 8
"""The columns to add up; the guests' columns after them are contained in others."""
MIN_TICKS = 1000
"""The shortest interval, in ticks of all cores, from which a share is computed."""


class Ticks(NamedTuple):
    """Clock ticks since boot, summed over CPU cores: all ticks, ticks of busy cores, and this process's ticks."""

    all: int
    busy: int
    own: float


def ticks(stat: str, cores: set[int], own: float) -> Ticks:
    """Parses the text of ``/proc/stat``, and returns the clock ticks of these CPU cores.

    ``own`` are this process's ticks.

    >>> ticks("cpu0 10 0 5 80 5 0 0 0 0 0\\ncpu1 1 1 1 1 1 1 1 1 0 0", {0}, 15.0)
    Ticks(all=100, busy=15, own=15.0)
    """
    core_names = {f"cpu{core}" for core in cores}
    total = idle = 0
    for line in stat.splitlines():
        name, *columns = line.split() or [""]
        if name in core_names:
            counts = list(map(int, columns[:COUNTED]))
            total += sum(counts)
            idle += sum(counts[column] for column in IDLE)
    return Ticks(total, total - idle, own)


def current_ticks() -> Ticks | None:
    """Reads the clock ticks of this process's CPU cores until now. Returns None if the system has no ``/proc/stat``."""
    try:
        text = STAT.read_text()
    except OSError:
        return None
    times = os.times()
    own_ticks = (times.user + times.system) * os.sysconf("SC_CLK_TCK")
    return ticks(text, os.sched_getaffinity(0), own_ticks)


def others_share(start: Ticks | None, end: Ticks | None) -> float:
    """Returns the fraction of the cores' time that other programs used, between two readings of the clock ticks.

    The fraction is 0 if a reading is None, or if the time between them was too short.

    >>> others_share(Ticks(0, 0, 0.0), Ticks(2000, 1500, 1000.0))
    0.25
    """
    if start is None or end is None or end.all - start.all < MIN_TICKS:
        return 0.0
    return max(0.0, (end.busy - start.busy - (end.own - start.own)) / (end.all - start.all))
