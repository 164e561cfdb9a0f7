"""Offsets in the arena: values that live at the same time don't overlap, and memory is close to the minimum."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tvtf.passes.memory.best_fit import Interval, assign_offsets, extent, peak_live_bytes

INTERVALS = st.lists(
    st.builds(lambda first, more, size: Interval(first, first + more, 64 * size), *[st.integers(0, 20)] * 3),
    max_size=30,
)


@given(INTERVALS)
def test_what_is_in_use_at_once_does_not_overlap(intervals):
    offsets = assign_offsets(intervals)
    for step in range(42):
        parts = sorted((o, o + i.size) for i, o in zip(intervals, offsets) if i.first <= step <= i.last and i.size)
        assert all(before[1] <= after[0] for before, after in zip(parts, parts[1:]))


@given(INTERVALS)
def test_a_block_is_at_least_what_is_live_and_at_most_all(intervals):
    assert peak_live_bytes(intervals) <= extent(intervals, assign_offsets(intervals)) <= sum(i.size for i in intervals)


def test_forward_and_backward_activations_take_what_is_live():
    """Each layer's activation lives until its gradient; sizes fall and rise as in a convolutional network."""
    rng = np.random.default_rng(0)
    sizes = [64 * int(s) for s in rng.integers(1, 100, 20)]
    forward = [Interval(i, 40 - i, size) for i, size in enumerate(sizes)]
    backward = [Interval(40 - i, 41 - i, size) for i, size in enumerate(sizes)]
    intervals = forward + backward
    assert extent(intervals, assign_offsets(intervals)) <= 1.1 * peak_live_bytes(intervals)


def test_a_freed_place_is_used_again():
    assert assign_offsets([Interval(0, 1, 64), Interval(2, 3, 64)]) == [0, 0]
