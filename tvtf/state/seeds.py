"""The global random seed, and the op seeds and random streams derived from it."""

from __future__ import annotations

import random
import threading
import weakref
from typing import Any, Protocol

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.variable_lock import Lock

MAX_INT32 = 2**31 - 1


class Restartable(Protocol):
    """A random stream that `set_seed` restarts."""

    def restart(self) -> None: ...


class Positions:
    """How far the streams have come that are derived from the global seed: those of op seeds, and those of eager ops."""

    def __init__(self, seed: int | None) -> None:
        self.op_seeds = random.Random(seed)
        self.eager: dict[Any, np.ndarray] = {}

    def copy(self) -> Positions:
        copied = Positions(None)
        copied.op_seeds.setstate(self.op_seeds.getstate())
        copied.eager.update(self.eager)
        return copied


class Thread(threading.local):
    """What a thread does with the global seed."""

    tried: Positions | None = None
    """The positions of a function that the thread tries out, which leave the program's as they are."""


class Seeds:
    """The global seed of the process, and the positions in the streams derived from it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.thread = Thread()
        self.functions: weakref.WeakSet[Restartable] = weakref.WeakSet()
        self.reset(None)

    def reset(self, seed: int | None) -> None:
        """Sets the global seed, and restarts the random streams of eager ops and of traced functions.

        ``seed`` None stands for the operating system's entropy.
        """
        self.seed = seed
        self._of_program = Positions(seed)
        for stream in list(self.functions):
            stream.restart()

    @property
    def positions(self) -> Positions:
        """The positions that this thread continues. The caller holds the lock."""
        return self.thread.tried or self._of_program

    def next_op_seed(self) -> int:
        """Draws a seed for an op without one, a number that depends on the global seed."""
        return self.positions.op_seeds.randint(0, MAX_INT32)


seeds = Seeds()


@export("random.set_seed")
def set_seed(seed: int | None) -> None:
    """Sets the global seed of random ops.

    Ops without a seed of their own become reproducible. The random streams of ops with a seed restart.

    Eager ops then return the same numbers as in TensorFlow. In a ``tf.function`` an op with a seed returns TensorFlow's
    numbers, too; one without a seed has a stream that depends on its position in the function. A function keeps the seed
    that was set when it was traced: a later call starts its numbers again, and does not change them.

    Args:
      seed: an int; None for unpredictable numbers.

    >>> import tvtf as tf
    >>> tf.random.set_seed(1)
    >>> a = tf.random.uniform([2])
    >>> tf.random.set_seed(1)
    >>> bool((a.numpy() == tf.random.uniform([2]).numpy()).all())
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/random/set_seed
    """
    with seeds.lock:
        seeds.reset(None if seed is None else int(seed))
