"""Random streams of stateful ops: generator states that advance with each call, from the global seed and op seeds.

An op's sequence is a Philox stream whose key is the global seed and whose high counter is the op's own seed, as in
TensorFlow's kernels. Eagerly the position in each stream is stored by op and seed; in a traced function each op has a
Variable of its own, which the function reads and assigns.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core.shape import Dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state as thread
from tvtf.core.variable_lock import Lock
from tvtf.dtypes import uint64
from tvtf.ops import philox
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import attribute_int, bind
from tvtf.state.seeds import MAX_INT32, seeds
from tvtf.state.variable import ResourceVariable

DEFAULT_SEED = 87654321
"""TensorFlow's global seed if only an op seed is given (DEFAULT_GRAPH_SEED)."""
STREAM = "_random_stream"
"""The attribute of a Variable with a generator state that holds its `Stream`."""


class Stream:
    """The random stream of one op in a function: a Variable with the generator state."""

    def __init__(self) -> None:
        """Creates the Variable outside of the trace, because the state must survive the traced call."""
        trace, thread.trace = thread.trace, None
        try:
            # Not `Variable`: that class calls the user's creator scopes, but this is not a Variable of the user's.
            self.variable = ResourceVariable(self._start(), trainable=False, name="random_state")
        finally:
            thread.trace = trace
        vars(self.variable)[STREAM] = self
        seeds.functions.add(self)

    def saved_start(self) -> np.ndarray | None:
        """Returns the generator state at which the stream starts, or None where each start is a random one."""
        raise NotImplementedError

    def restart(self) -> None:
        self.variable.assign(self._start())

    def advance(self, blocks: int) -> np.ndarray:
        """Returns the generator state, and advances it by ``blocks`` blocks."""
        before: np.ndarray = self.variable.numpy().copy()
        self.variable.assign(philox.skipped(before, blocks))
        return before

    def _start(self) -> np.ndarray:
        start = self.saved_start()
        return _random_state() if start is None else start


class TracedStream(Stream):
    """The random stream of one op in a traced function."""

    def __init__(self, op_seed: int | None, position: int) -> None:
        """Creates a stream. ``position`` is the index of the op among the function's ops without a seed.

        Where the stream starts is decided now: a later `set_seed` starts the stream again, but at the same numbers, as
        TensorFlow's graphs hold the global seed of their tracing. If a global seed is set, an op without a seed uses its
        position among such ops as its seed. Without any seed, each start is a random one.
        """
        self.op_seed = op_seed
        self.position = position
        start_seed = position if op_seed is None and seeds.seed is not None else op_seed
        self.start = None if start_seed is None else first_state(start_seed)
        super().__init__()

    def saved_start(self) -> np.ndarray | None:
        return self.start


class SavedStream(Stream):
    """The random stream of an op in a function of a loaded model, which starts where the saved one started."""

    def __init__(self, start: np.ndarray | None) -> None:
        """Creates a stream that starts at a generator state; None stands for a random one."""
        self.start = start
        super().__init__()

    def saved_start(self) -> np.ndarray | None:
        return self.start


def stream_of(variable: Any) -> Stream | None:
    """Returns the random stream whose state a Variable holds, or None for other Variables."""
    return vars(variable).get(STREAM)


def _random_state() -> np.ndarray:
    return np.frombuffer(os.urandom(24), np.uint64).copy()


def first_state(op_seed: int | None) -> np.ndarray:
    """Returns the initial Philox state of an op's random stream: the counter's low and high half, and the key.

    The key is the global seed (TensorFlow's default if none is set). The counter's high half is the op's seed. Without
    any seed, the state is random.
    """
    if seeds.seed is None and op_seed is None:
        return _random_state()
    key = DEFAULT_SEED if seeds.seed is None else seeds.seed % MAX_INT32
    counter = (op_seed or 0) % MAX_INT32
    # TensorFlow's kernels take the seeds (0, 0) for no seed, so TensorFlow replaces them.
    return np.array([0, MAX_INT32 if (key, counter) == (0, 0) else counter, key], np.uint64)


def reserve_blocks(op: str, op_seed: Any, blocks: Dim) -> Tensor:
    """Reserves blocks of random words for a call of an op, and returns the generator state at the first block.

    The op's random stream is advanced beyond these blocks. An eager op's stream is found by the op's name and seed.
    While tracing, each call of an op has its own stream. In vectorized maps, each element has blocks of its own.

    Args:
      op: the op's name, which may contain attributes.
      op_seed: the op's own seed, or None.
      blocks: the number of blocks that the call draws.
    """
    # "seed2" is the argument of TensorFlow's ops for the op seed; "seed" is the global one.
    op_seed = None if op_seed is None else attribute_int(op_seed, "seed2", -math.inf, math.inf)
    if thread.trace is None:
        return EagerTensor(_advance_eagerly(op, op_seed, blocks))
    stream = _new_stream(thread.trace.root, op_seed)
    before = stream.variable._as_tensor()
    element_index, element_count = _index_in_maps(thread.trace)
    # If the program uses the old state, it also advances the Variable.
    with thread.trace.together(before):
        stream.variable.assign(bind.philox_skip(before, blocks=blocks * element_count), read_value=False)
    return before if element_index is None else _skip_blocks(before, element_index, blocks)


def _index_in_maps(trace: Any) -> tuple[Tensor | None, Dim]:
    """Returns the index of the current element in all enclosing vectorized maps, and the total number of elements.

    The index lets each element of a map draw different random numbers. Outside of maps, the result is (None, 1). Nested
    maps of ``m`` and ``n`` elements have ``m * n`` elements in total.
    """
    index, count, enclosing = None, 1, trace
    while enclosing is not None:
        if enclosing.element is not None:
            element, size = enclosing.element
            element = bind.multiply(
                bind.cast(trace.own(element), dtype=uint64), bind.cast(scalar_of(count), dtype=uint64)
            )
            index = element if index is None else bind.add(index, element)
            count = count * size
        enclosing = enclosing.parent
    return index, count


def _skip_blocks(state: Tensor, index: Tensor, blocks: Dim) -> Tensor:
    """Advances a Philox generator's state by ``index * blocks`` blocks, and returns the new state.

    The state consists of the low and high half of a 128-bit counter, and the key. An overflow of the low half carries
    over.
    """
    low = bind.stack_read(state, EagerTensor(np.array(0)))
    high = bind.stack_read(state, EagerTensor(np.array(1)))
    key = bind.stack_read(state, EagerTensor(np.array(2)))
    new_low = bind.add(low, bind.multiply(index, bind.cast(scalar_of(blocks), dtype=uint64)))
    return bind.stack(new_low, bind.add(high, bind.cast(bind.less(new_low, low), dtype=uint64)), key, axis=0)


def _advance_eagerly(op: str, op_seed: int | None, blocks: int) -> np.ndarray:
    """Returns an eager op's generator state, and advances the op's random stream by ``blocks`` blocks, under a lock.

    An op without a seed has a new stream at each call.
    """
    known: KnownStreams | None = getattr(_thread, "known", None)
    if known is not None:
        position = 0 if op_seed is not None else known.next_op_seed()
        with _streams_lock:  # other threads call the function, too
            return known.next(op, op_seed, position).advance(blocks)
    with seeds.lock:
        if op_seed is None:
            return first_state(None if seeds.seed is None else seeds.next_op_seed())
        stored = seeds.eager.get((op, op_seed))
        before = first_state(op_seed) if stored is None else stored
        seeds.eager[op, op_seed] = philox.skipped(before, blocks)
        return before


_streams_lock = Lock()
_streams_by_trace: weakref.WeakKeyDictionary[Any, list[TracedStream]] = weakref.WeakKeyDictionary()


def _new_stream(root: Any, op_seed: int | None) -> Stream:
    """Returns the random stream of an op in a trace. The stream lives as long as the outermost trace, ``root``."""
    streams = _streams_by_trace.setdefault(root, [])
    position = sum(stream.op_seed is None for stream in streams)
    known: KnownStreams | None = getattr(_thread, "known", None)
    if known is None:
        stream = TracedStream(op_seed, position)
    else:
        with _streams_lock:
            stream = known.next("", op_seed, position)
    streams.append(stream)
    return stream


StreamKey = tuple[str, int | None, int, int]
"""An op's name, its seed, its position among ops without a seed, and how often the function called it before in this call."""


class KnownStreams:
    """The random streams of a Python function's ops, and of the functions that each of its calls traces.

    The function of ``flat_map`` is such a function: it makes datasets. TensorFlow traces it, and theirs, only once.
    Therefore later calls continue the streams of earlier ones, and find the same op seeds: positions in the function.
    """

    def __init__(self, streams: dict[StreamKey, TracedStream]) -> None:
        """Begins a call of the function, whose calls so far have created ``streams``."""
        self.streams = streams
        self._op_seeds = itertools.count()
        self._occurrences: Counter[tuple[str, int | None, int]] = Counter()

    def next_op_seed(self) -> int:
        """Returns the seed of the next op of the function that has none."""
        return next(self._op_seeds)

    def next(self, op: str, op_seed: int | None, position: int) -> TracedStream:
        """Returns the stream that the same op had in an earlier call, or creates it. The caller holds `_streams_lock`."""
        occurrence = self._occurrences[op, op_seed, position]
        self._occurrences[op, op_seed, position] += 1
        key = op, op_seed, position, occurrence
        if key not in self.streams:
            self.streams[key] = TracedStream(op_seed, position)
        return self.streams[key]


@contextmanager
def continuing(streams: dict[StreamKey, TracedStream]) -> Iterator[None]:
    """Has ops and traced functions of the context continue these streams, to which new ones are added."""
    outer, _thread.known = getattr(_thread, "known", None), KnownStreams(streams)
    try:
        yield
    finally:
        _thread.known = outer


def next_op_seed() -> int:
    """Draws a seed for an op or dataset without one, from the global seed; in :func:`continuing`, its position there."""
    known: KnownStreams | None = getattr(_thread, "known", None)
    return seeds.next_op_seed() if known is None else known.next_op_seed()


_thread = threading.local()
