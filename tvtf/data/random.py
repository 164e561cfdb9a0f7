"""Draws the random choices of input pipelines as TensorFlow does: equal seeds give equal orders.

Source: ``tensorflow/core/kernels/data/shuffle_dataset_op.cc`` and ``random_seed_ops.cc``.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tvtf.data.argument_conversion import int_argument
from tvtf.frontend.host.python_call import traced
from tvtf.ops import philox
from tvtf.ops.rules import static_value
from tvtf.state.random_streams import DEFAULT_SEED, global_seed, is_traced, next_op_seed
from tvtf.state.seeds import MAX_INT32

_CHUNK = 256
"""Blocks of the Philox stream that one call of NumPy computes."""


def seed_pair(seed: Any) -> tuple[int, int]:
    """Returns the two seeds of a dataset, from the global seed and its own seed, as ``tf.compat.v1.get_seed`` does.

    If neither is set, both results are random. If only one is set, a default replaces the other.
    """
    graph_seed = global_seed()
    if graph_seed is None and seed is None:
        first, second = np.random.SeedSequence().generate_state(2, np.uint32)
        return int(first), int(second)
    if graph_seed is None:
        return DEFAULT_SEED, _as_31_bit_int(seed)
    op_seed = next_op_seed() if seed is None else _as_31_bit_int(seed)
    pair = graph_seed % MAX_INT32, op_seed % MAX_INT32
    if pair == (0, 0):  # TensorFlow's kernels take these for no seeds
        return 0, MAX_INT32
    return pair


def _as_31_bit_int(seed: Any) -> int:
    """Returns a seed as a 31-bit int."""
    value = static_value(seed % MAX_INT32, "seed")
    return int_argument(value, "seed") if isinstance(value, float) else int(value)


def words(pair: tuple[int, int]) -> Iterator[int]:
    """Yields the infinite stream of random 32-bit words of the Philox generator with two seeds."""
    first_seed, second_seed = pair
    state = np.array([0, second_seed, first_seed], np.uint64)
    first_block = 0
    while True:
        blocks = np.arange(first_block, first_block + _CHUNK, dtype=np.uint64)
        yield from map(int, philox.blocks_at(state, blocks).ravel())
        first_block += _CHUNK


class SeedGenerator:
    """The seed pairs of each iteration over a dataset: a new pair each time, or always the same."""

    def __init__(self, seed: int | None, new_each_time: bool) -> None:
        self.new_each_time = new_each_time
        self._start = seed_pair(seed)
        self._restart()
        if new_each_time and is_traced():  # each run of the function makes the dataset
            traced(self._restart, [], [])

    def _restart(self) -> tuple[()]:
        self.restore(self._start, 0)
        return ()

    def restore(self, pair: tuple[int, int], drawn: int) -> None:
        """Continues after ``drawn`` pairs."""
        self.pair, self.drawn = pair, drawn
        self._words = itertools.islice(words(pair), 2 * drawn, None)

    def next_pair(self) -> tuple[int, int]:
        """Returns the seeds of the next iteration."""
        if not self.new_each_time:
            return self.pair
        self.drawn += 1
        return next(self._words), next(self._words)


class RandomFunction(abc.ABC):
    """A user's function of elements, whose random ops start again with each iterator over the dataset."""

    @abc.abstractmethod
    def may_draw(self) -> bool:
        """Returns whether the function may call random ops."""

    def assigns_variables(self) -> bool:
        """Returns whether the function is known to assign Variables."""
        return False
