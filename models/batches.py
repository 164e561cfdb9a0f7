"""Selects the rows to train on and their order, which depend only on seed and epoch, so that a run can be resumed."""

from __future__ import annotations

import numpy as np

HELD_OUT = 5


def split(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Splits ``count`` examples at random: returns the indices to train on, and those of a fifth to test with.

    >>> kept, held_out = split(10, seed=0)
    >>> len(kept), len(held_out), sorted({*kept.tolist(), *held_out.tolist()}) == list(range(10))
    (8, 2, True)
    """
    rows = np.random.default_rng([seed, count]).permutation(count)
    return rows[count // HELD_OUT :], rows[: count // HELD_OUT]


def order(count: int, seed: int, epoch: int) -> np.ndarray:
    """Returns a permutation of ``count`` rows for one epoch of one seed.

    >>> order(4, seed=0, epoch=1).tolist() == order(4, seed=0, epoch=1).tolist() != order(4, seed=0, epoch=2).tolist()
    True
    """
    return np.random.default_rng([seed, epoch, count]).permutation(count)
