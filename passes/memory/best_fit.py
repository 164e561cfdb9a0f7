"""Assigns offsets in one block of memory to values with known lifetimes: best fit, largest first.

Source: Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference, 2020 (greedy by size).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tvtf.core.aligned_array import ALIGNMENT


class Interval(NamedTuple):
    """Bytes in use from one step to another, both included."""

    first: int
    last: int
    size: int

    def meets(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def rounded(size: int) -> int:
    """Returns a size rounded up to the alignment, so that the next value is aligned, too."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def placed(intervals: Sequence[Interval]) -> list[int]:
    """Returns an offset for each interval, such that intervals in use at the same step don't overlap.

    >>> placed([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    [128, 0, 128]
    """
    offsets = [0] * len(intervals)
    assigned: list[int] = []
    for number in sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].first)):
        interval = intervals[number]
        occupied = ((offsets[i], offsets[i] + intervals[i].size) for i in assigned if interval.meets(intervals[i]))
        offsets[number] = _best_gap(occupied, interval.size)
        assigned.append(number)
    return offsets


def _best_gap(occupied: Iterable[tuple[int, int]], size: int) -> int:
    """Returns the start of the smallest gap that is large enough, else the end of the occupied range."""
    best, least, end = -1, 0, 0
    for start, stop in sorted(occupied):
        gap = start - end
        if gap >= size and (best < 0 or gap < least):
            best, least = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def extent(intervals: Sequence[Interval], offsets: Sequence[int]) -> int:
    """Returns the size of the block."""
    return max((o + i.size for i, o in zip(intervals, offsets)), default=0)


def most_live(intervals: Iterable[Interval]) -> int:
    """Returns the largest sum of sizes in use at one step, a lower bound on the size of any block.

    >>> most_live([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    192
    """
    changes = sorted(change for i in intervals for change in ((i.first, 1, i.size), (i.last + 1, 0, -i.size)))
    live = most = 0
    for _, _, size in changes:
        live += size
        most = max(most, live)
    return most
