"""Random streams of stateful ops: generator states that advance with each call, from the global seed and op seeds.

An op's sequence is a Philox stream whose key is the global seed and whose high counter is the op's own seed, as in
TensorFlow's kernels. Eagerly the position in each stream is stored by op and seed; in a traced function each op has a
Variable of its own, which the function reads and assigns.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
    elements = elements_of_maps()
    return elements.own_state(_reserve_for_all(op, op_seed, blocks, elements), blocks)


def draw_for_elements(
    op: str,
    op_seed: Any,
    blocks: Dim,
    shape: tuple[Dim, ...],
    draw: Callable[[Tensor, tuple[Dim, ...]], Tensor],
    axis: int = 0,
) -> Tensor:
    """Draws random numbers from the stream of an op; in vectorized maps those of all elements at once, as TensorFlow.

    Args:
      op, op_seed, blocks: as for `reserve_blocks`.
      shape: the shape of the numbers of one element.
      draw: draws numbers of a shape from a generator state.
      axis: the axis of the elements among the axes of the numbers that are drawn at once.
    """
    elements = elements_of_maps()
    state = _reserve_for_all(op, op_seed, blocks, elements)
    if elements.index is None:
        return draw(state, shape)
    of_all = draw(state, (*shape[:axis], elements.count, *shape[axis:]))
    if axis:
        of_all = bind.transpose(of_all, perm=(axis, *(other for other in range(len(shape) + 1) if other != axis)))
    return bind.stack_read(of_all, elements.index)  # type: ignore[no-any-return]


def _reserve_for_all(op: str, op_seed: Any, blocks: Dim, elements: Elements) -> Tensor:
    """Reserves blocks for each element of the enclosing maps, and returns the state at the first element's first block."""
    # "seed2" is the argument of TensorFlow's ops for the op seed; "seed" is the global one.
    op_seed = None if op_seed is None else attribute_int(op_seed, "seed2", -math.inf, math.inf)
    if thread.trace is None:
        return EagerTensor(_advance_eagerly(op, op_seed, blocks))
    stream = running_function().stream(op_seed)  # type: ignore[union-attr]  # a trace is active
    before = stream.variable._as_tensor()
    # If the program uses the old state, it also advances the Variable.
    with thread.trace.together(before):
        stream.variable.assign(bind.philox_skip(before, blocks=blocks * elements.count), read_value=False)
    return before  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Elements:
    """The elements of all enclosing vectorized maps; nested maps of ``m`` and ``n`` elements have ``m * n``."""

    index: Tensor | None
    """The index of the current element; None outside of maps."""
    count: Dim

    def own_state(self, state: Tensor, blocks: Dim) -> Tensor:
        """Returns the generator state of the current element, if each has ``blocks`` blocks of its own from ``state``.

        The state consists of the low and high half of a 128-bit counter, and the key. An overflow of the low half
        carries over.
        """
        if self.index is None:
            return state

        def word(position: int) -> Tensor:
            return bind.cast(bind.stack_read(state, EagerTensor(np.array(position))), dtype=uint64)  # type: ignore[no-any-return]

        low, high, key = word(0), word(1), word(2)
        index = bind.cast(self.index, dtype=uint64)
        offset = bind.multiply(index, bind.cast(scalar_of(blocks), dtype=uint64))
        new_low = bind.add(low, offset)
        carry = bind.cast(bind.less(new_low, low), dtype=uint64)
        new_state = bind.stack(new_low, bind.add(high, carry), key, axis=0)
        return bind.cast(new_state, dtype=state.dtype)  # type: ignore[no-any-return]


def elements_of_maps() -> Elements:
    """Returns the elements of all vectorized maps around the active trace. The index lets each draw other numbers."""
    index, count, enclosing = None, 1, thread.trace
    while enclosing is not None:
        if enclosing.element is not None:
            element, size = enclosing.element
            element = thread.trace.own(element)
            if index is None:
                index = element
            else:
                index = bind.add(index, bind.multiply(element, bind.cast(scalar_of(count), dtype=element.dtype)))
            count = count * size
        enclosing = enclosing.parent
    return Elements(index, count)


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
