"""Random streams of stateful ops: generator states that advance with each call, from the global seed and op seeds.

An op's sequence is a Philox stream whose key is the global seed and whose high counter is the op's own seed, as in
TensorFlow's kernels. Eagerly the position in each stream is stored by op and seed; in a traced function each op has a
Variable of its own, which the function reads and assigns.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tvtf.core.shape import Dim
from tvtf.core.tensor import EagerTensor, Tensor
from tvtf.core.thread_state import state as thread
from tvtf.dtypes import uint64
from tvtf.ops import philox
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import attribute_int, bind
from tvtf.state.random_streams import advance_eager_op, first_state, global_seed, running_function
from tvtf.state.seeds import seeds


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
    stream = running_function().stream(op_seed)  # type: ignore[union-attr]  # a trace is active
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
    skipped_blocks = bind.multiply(index, bind.cast(scalar_of(blocks), dtype=uint64))
    new_low = bind.add(low, skipped_blocks)
    carry = bind.cast(bind.less(new_low, low), dtype=uint64)
    return bind.stack(new_low, bind.add(high, carry), key, axis=0)


def _advance_eagerly(op: str, op_seed: int | None, blocks: int) -> np.ndarray:
    """Returns an eager op's generator state, and advances the op's random stream by ``blocks`` blocks, under a lock.

    An op without a seed has a new stream at each call, but not in a dataset's function, which TensorFlow would trace.
    """
    function = running_function()
    if function is not None:
        return advance_eager_op(function, op, op_seed, blocks, philox.skipped)
    with seeds.lock:
        if op_seed is None:
            return first_state(None if global_seed() is None else seeds.next_op_seed())
        states = seeds.positions.eager
        stored = states.get((op, op_seed))
        before = first_state(op_seed) if stored is None else stored
        states[op, op_seed] = philox.skipped(before, blocks)
        return before
