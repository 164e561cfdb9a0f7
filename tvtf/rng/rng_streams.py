"""Random streams of stateful ops: generator states that advance with each call, from the global seed and op seeds.

An op's sequence is a Philox stream whose key is the global seed and whose high counter is the op's own seed, as in
TensorFlow's kernels. Eagerly the position in each stream is stored by op and seed; in a traced function each op has a
Variable of its own, which the function reads and assigns.
"""

from __future__ import annotations

import math
import os
import weakref
from typing import Any

import numpy as np

from tvtf.core.shape import Dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state as thread
from tvtf.dtypes import uint64
from tvtf.ops import philox
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import attribute_int, bind
from tvtf.state.seeds import MAX_INT32, seeds
from tvtf.state.variable import ResourceVariable

DEFAULT_SEED = 87654321
"""TensorFlow's global seed if only an op seed is given (DEFAULT_GRAPH_SEED)."""


class Stream:
    """The random stream of one op in a traced function: a Variable with the generator state."""

    def __init__(self, op_seed: int | None, position: int) -> None:
        self.op_seed = op_seed
        self.position = position
        trace, thread.trace = thread.trace, None
        try:
            # not `Variable`, whose constructor calls creator scopes: this is not a Variable of the user's
            self.variable = ResourceVariable(self._start(), trainable=False, name="random_state")
        finally:
            thread.trace = trace
        seeds.functions.add(self)

    def _start(self) -> np.ndarray:
        """Returns the initial state; the seed of an op without one is its position among such ops, if a global seed is set."""
        op_seed = self.op_seed if seeds.seed is None or self.op_seed is not None else self.position
        return first_state(op_seed)

    def restart(self) -> None:
        self.variable.assign(self._start())


def first_state(op_seed: int | None) -> np.ndarray:
    """Returns the initial generator state of an op's stream."""
    if seeds.seed is None and op_seed is None:
        return np.frombuffer(os.urandom(24), np.uint64).copy()
    key = DEFAULT_SEED if seeds.seed is None else seeds.seed % MAX_INT32
    counter = (op_seed or 0) % MAX_INT32
    return np.array([0, MAX_INT32 if (key, counter) == (0, 0) else counter, key], np.uint64)


def advanced(op: str, op_seed: Any, blocks: Dim) -> Tensor:
    """Returns the state for an op to draw from, and advances its stream by ``blocks`` Philox blocks."""
    op_seed = None if op_seed is None else attribute_int(op_seed, "seed2", -math.inf, math.inf)
    if thread.trace is None:
        return EagerTensor(_advanced_eagerly(op, op_seed, blocks))
    stream = _stream_of(thread.trace.root, op_seed)
    now = stream.variable._as_tensor()
    place, count = _place_in_maps(thread.trace)
    with thread.trace.together(now):
        stream.variable.assign(bind.philox_skip(now, blocks=blocks * count), read_value=False)
    return now if place is None else _moved(now, place, blocks)


def _place_in_maps(trace: Any) -> tuple[Tensor | None, Dim]:
    """Returns the index of this element in all enclosing vectorized maps and their size: each element draws other numbers."""
    place, count, outer = None, 1, trace
    while outer is not None:
        if outer.element is not None:
            row, size = outer.element
            row = bind.multiply(bind.cast(trace.own(row), dtype=uint64), bind.cast(scalar_of(count), dtype=uint64))
            place = row if place is None else bind.add(place, row)
            count = count * size
        outer = outer.parent
    return place, count


def _moved(now: Tensor, place: Tensor, blocks: Dim) -> Tensor:
    """Returns the state advanced by ``place * blocks`` blocks: adds to the counter's low half, and carries to the high half."""
    low, high, key = (bind.stack_read(now, EagerTensor(np.array(i))) for i in range(3))
    moved = bind.add(low, bind.multiply(place, bind.cast(scalar_of(blocks), dtype=uint64)))
    return bind.stack(moved, bind.add(high, bind.cast(bind.less(moved, low), dtype=uint64)), key, axis=0)


def _advanced_eagerly(op: str, op_seed: int | None, blocks: int) -> np.ndarray:
    """Returns an eager op's generator state and advances its stream; the lock makes both one step."""
    with seeds.lock:
        if op_seed is None:
            return first_state(None if seeds.seed is None else seeds.next_op_seed())
        now = seeds.eager.get((op, op_seed))
        now = first_state(op_seed) if now is None else now
        seeds.eager[op, op_seed] = philox.skipped(now, blocks)
        return now


_positions: weakref.WeakKeyDictionary[Any, list[Stream]] = weakref.WeakKeyDictionary()


def _stream_of(root: Any, op_seed: int | None) -> Stream:
    """Creates a stream for an op of a trace; it lives as long as the trace."""
    streams = _positions.setdefault(root, [])
    streams.append(Stream(op_seed, sum(s.op_seed is None for s in streams)))
    return streams[-1]
