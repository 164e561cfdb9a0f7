"""The global seed of random numbers, and what is made from it: op seeds, and streams that start again with it."""

from __future__ import annotations

import random
import weakref
from typing import Any, Protocol

import numpy as np

from tvtf.core.primitive import export
from tvtf.core.variable_lock import Lock

MAX_INT32 = 2**31 - 1


class Restartable(Protocol):
    """A stream that begins anew when the global seed is set."""

    def restart(self) -> None: ...


class Seeds:
    """The global seed of the process, and the positions in the streams made from it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.functions: weakref.WeakSet[Restartable] = weakref.WeakSet()
        self.reset(None)

    def reset(self, seed: int | None) -> None:
        """Starts every stream again from a new global seed; None for the operating system's entropy."""
        self.seed = seed
        self.op_seeds = random.Random(seed)
        self.eager: dict[Any, np.ndarray] = {}
        for stream in list(self.functions):
            stream.restart()

    def next_op_seed(self) -> int:
        return self.op_seeds.randint(0, MAX_INT32)


seeds = Seeds()


@export("random.set_seed")
def set_seed(seed: int | None) -> None:
    """Sets the global seed: random ops without a seed of their own repeat, those with one start again.

    Eagerly, the numbers that follow are TensorFlow's own for the same calls. In a ``tf.function`` an op with a seed has
    TensorFlow's stream for it; one without has a stream of its own by its place in the function.

    Args:
      seed: an int; None for numbers that never repeat.

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
