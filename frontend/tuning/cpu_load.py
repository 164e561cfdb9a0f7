"""How much of this process's cores other programs take: what is timed beside them tells little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

STAT = Path("/proc/stat")
IDLE = (3, 4)
"""Where a core's line has the ticks in which it did nothing, or waited for a disk (proc_stat(5)); guests' count twice."""
COUNTED = 8
LEAST_TICKS = 1000


class Ticks(NamedTuple):
    """Clock ticks since some time: those that the cores had, those in which they worked, those of this process."""

    all: int
    busy: int
    own: float


def ticks(stat: str, cores: set[int], own: float) -> Ticks:
    """Reads ``/proc/stat``.

    >>> ticks("cpu0 10 0 5 80 5 0 0 0 0 0\\ncpu1 1 1 1 1 1 1 1 1 0 0", {0}, 15.0)
    Ticks(all=100, busy=15, own=15.0)
    """
    lines = [line.split() for line in stat.splitlines()]
    named = {f"cpu{core}" for core in cores}
    counts = [[int(count) for count in line[1 : 1 + COUNTED]] for line in lines if line and line[0] in named]
    whole = sum(map(sum, counts))
    return Ticks(whole, whole - sum(line[i] for line in counts for i in IDLE), own)


def now() -> Ticks | None:
    """The ticks until now, None where the system has no such file."""
    try:
        text = STAT.read_text()
    except OSError:
        return None
    times = os.times()
    own = (times.user + times.system) * os.sysconf("SC_CLK_TCK")
    return ticks(text, os.sched_getaffinity(0), own)


def others_share(start: Ticks | None, end: Ticks | None) -> float:
    """The part of the cores' time that other programs took; 0 where nobody knows, or too little time has passed to tell.

    >>> others_share(Ticks(0, 0, 0.0), Ticks(2000, 1500, 1000.0))
    0.25
    """
    if start is None or end is None or end.all - start.all < LEAST_TICKS:
        return 0.0
    return max(0.0, (end.busy - start.busy - (end.own - start.own)) / (end.all - start.all))
