"""Assigns offsets in one block of memory to values with known lifetimes: best fit, largest first.

Source: Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference, 2020 (greedy by size).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tvtf.core.aligned_array import ALIGNMENT


class Interval(NamedTuple):
    """The steps of a program during which bytes are in use: from the first to the last, both included."""

    first: int
    last: int
    size: int

    def meets(self, other: Interval) -> bool:
        return self.first <= other.last and other.first <= self.last


def rounded(size: int) -> int:
    """Returns a size rounded up to the alignment, so that the value after it is aligned, too."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def placed(intervals: Sequence[Interval]) -> list[int]:
    """Assigns each interval an offset in one block of memory; intervals that are in use at the same step don't overlap.

    >>> placed([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    [128, 0, 128]
    """
    offsets = [0] * len(intervals)
    assigned: list[int] = []
    largest_first = sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].first))
    for number in largest_first:
        interval = intervals[number]
        occupied = ((offsets[i], offsets[i] + intervals[i].size) for i in assigned if interval.meets(intervals[i]))
        offsets[number] = _best_gap(occupied, interval.size)
        assigned.append(number)
    return offsets


def _best_gap(occupied: Iterable[tuple[int, int]], size: int) -> int:
    """Returns the offset of the smallest gap between occupied ranges that fits ``size`` bytes (best fit).

    Without such a gap, the end of the last range is returned.
    """
    best, smallest_gap, end = -1, 0, 0
    for start, stop in sorted(occupied):
        gap = start - end
        if gap >= size and (best < 0 or gap < smallest_gap):
            best, smallest_gap = end, gap
        end = max(end, stop)
    return end if best < 0 else best


def extent(intervals: Sequence[Interval], offsets: Sequence[int]) -> int:
    """Returns the size of the block of memory in which intervals have these offsets."""
    return max((offset + interval.size for interval, offset in zip(intervals, offsets)), default=0)


def most_live(intervals: Iterable[Interval]) -> int:
    """Returns the largest sum of sizes in use at one step, a lower bound on the size of any block for the intervals.

    >>> most_live([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    192
    """
    # At each step, releases (0) sort before allocations (1).
    changes = sorted(
        change
        for interval in intervals
        for change in ((interval.first, 1, interval.size), (interval.last + 1, 0, -interval.size))
    )
    live = most = 0
    for _, _, size in changes:
        live += size
        most = max(most, live)
    return most
