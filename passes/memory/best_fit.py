"""Assigns offsets in one block of memory to values with known lifetimes: best fit, largest first.

Source: Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference, 2020 (greedy by size).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

from tvtf.core.aligned_array import ALIGNMENT
from tvtf.core.integers import round_up


class Interval(NamedTuple):
    """A live range: ``size`` bytes that are in use from the step ``first`` to the step ``last``, both included."""

    first: int
    last: int
    size: int

    def overlaps(self, other: Interval) -> bool:
        """Returns whether both are live at some step, so that they can't share memory."""
        return self.first <= other.last and other.first <= self.last


def align_up(size: int) -> int:
    """Rounds a size up to a multiple of the alignment, so that the next value is aligned, too."""
    return round_up(size, ALIGNMENT)


def assign_offsets(intervals: Sequence[Interval]) -> list[int]:
    """Assigns each interval an offset in one block of memory; intervals that are in use at the same step don't overlap.

    The largest intervals are placed first, each in the smallest gap that fits between those that are placed already.
    The result has the offsets in the order of the intervals.

    >>> assign_offsets([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    [128, 0, 128]
    """
    offsets = [0] * len(intervals)
    placed: list[int] = []
    largest_first = sorted(range(len(intervals)), key=lambda i: (-intervals[i].size, intervals[i].first))
    for index in largest_first:
        interval = intervals[index]
        occupied = ((offsets[i], offsets[i] + intervals[i].size) for i in placed if interval.overlaps(intervals[i]))
        offsets[index] = _best_gap(occupied, interval.size)
        placed.append(index)
    return offsets


def _best_gap(occupied: Iterable[tuple[int, int]], size: int) -> int:
    """Returns the offset of the smallest gap between occupied ranges that fits ``size`` bytes (best fit).

    If there is no such gap, the end of the last range is returned.

    Args:
      occupied: the start and end of each range, in any order; ranges may overlap.
      size: the number of bytes.
    """
    best_offset: int | None = None
    smallest_gap = 0
    gap_start = 0  # the end of all ranges so far
    for start, stop in sorted(occupied):
        gap = start - gap_start
        if gap >= size and (best_offset is None or gap < smallest_gap):
            best_offset, smallest_gap = gap_start, gap
        gap_start = max(gap_start, stop)
    return gap_start if best_offset is None else best_offset


def extent(intervals: Sequence[Interval], offsets: Sequence[int]) -> int:
    """Returns the size of the block of memory in which intervals have these offsets."""
    return max((offset + interval.size for interval, offset in zip(intervals, offsets)), default=0)


def peak_live_bytes(intervals: Iterable[Interval]) -> int:
    """Returns the largest sum of sizes in use at one step, a lower bound on the size of any block for the intervals.

    >>> peak_live_bytes([Interval(0, 1, 64), Interval(1, 2, 128), Interval(2, 3, 64)])
    192
    """
    change_at_step: Counter[int] = Counter()
    for interval in intervals:
        change_at_step[interval.first] += interval.size
        change_at_step[interval.last + 1] -= interval.size
    live_bytes = accumulate(change_at_step[step] for step in sorted(change_at_step))
    return max(live_bytes, default=0)
