"""Lowers ``while`` loops with growing arrays to two nested loops; the outer one enlarges full arrays.

Each enlargement doubles the rows, so that writing n rows takes time proportional to n (amortized).
Source: Cormen, Leiserson, Rivest & Stein, Introduction to Algorithms, 4th ed., section 16.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvtf.core.primitive import table
from tvtf.core.shape import TensorType, fresh_dim
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import int64
from tvtf.ir.trace import Graph, trace_graph
from tvtf.ops.control import own_dims, varying_dims
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind
from tvtf.ops.stack import new_stack

FIRST_ROWS = 8
"""Rows that an empty array gets at its first enlargement."""


def lower_growing_loop(inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Binds a ``while`` that has ``arrays`` as loops without; returns its results."""
    return _Growing(attrs, inputs).bound()


class _Growing:
    """One loop to lower; its first carried value is the condition's result, so that each iteration tests it once."""

    def __init__(self, attrs: dict[str, Any], inputs: Sequence[Tensor]) -> None:
        self.condition, self.body = attrs["condition"], attrs["body"]
        self.count, self.arrays = attrs["carried"], attrs["arrays"]
        self.shapes = ((), *attrs["shapes"])
        self.inputs = inputs

    def bound(self) -> tuple[Tensor, ...]:
        """Binds the outer loop: enlarge the arrays, then run the inner loop until one of them is full."""
        start = [*self.condition(*self.inputs), *self.inputs]
        types = [self._own_type(i, x._type) for i, x in enumerate(start)]
        more, again = self._graph("goes_on", lambda going, *_: going, types), self._graph("larger", self.larger, types)
        return self._loop(start, more, again, self.shapes)[1:]

    def larger(self, *carried: Tensor) -> tuple[Tensor, ...]:
        """Enlarges the arrays, then runs the iterations that fit into them."""
        start = list(carried)
        for index, step, _ in self.arrays:
            start[1 + index] = _with_more_rows(start[1 + index]) if step else start[1 + index]
        types = [self._own_type(i, x._type) for i, x in enumerate(start)]
        within = self._graph("has_room", self.has_room, types)
        iteration = self._graph("iteration", self.iteration, types)
        ends = [(x if self._grows(i) else t).shape for i, (x, t) in enumerate(zip((x._type for x in start), types))]
        return self._loop(start, within, iteration, ends[: 1 + self.count])

    def has_room(self, going: Tensor, *carried: Tensor) -> Tensor:
        """Returns whether the loop goes on and every array has rows for the next iteration's writes.

        The inner loop ends before an array overflows; the outer one enlarges it, and enters the inner one again.
        """
        for index, step, counters in self.arrays:
            for counter in counters if step else ():
                kind = carried[counter].dtype
                end = bind.add(carried[counter], convert_to_tensor(step, kind))
                rows = bind.cast(scalar_of(carried[index]._type.shape[0]), dtype=kind)
                going = bind.logical_and(going, bind.less_equal(end, rows))
        return going

    def iteration(self, going: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        after = self.body(*carried)
        return (*self.condition(*after, *carried[self.count :]), *after)

    def _grows(self, place: int) -> bool:
        return place - 1 in {index for index, step, _ in self.arrays if step}

    def _own_type(self, place: int, of: TensorType) -> TensorType:
        """Returns a carried value's type with fresh symbols for the dims that change between iterations."""
        if place > self.count:
            return of
        return of._replace(shape=own_dims(of, varying_dims(of, self.shapes, place)))

    def _graph(self, name: str, function: Any, types: Sequence[TensorType]) -> Graph:
        return trace_graph(name, function, types, state.trace)

    def _loop(self, start: Sequence[Tensor], condition: Graph, body: Graph, shapes: Sequence[Any]) -> Any:
        return table["while"].bind(
            *start, condition=condition, body=body, carried=1 + self.count, bound=None, shapes=tuple(shapes), arrays=()
        )


def _with_more_rows(array: Tensor) -> Tensor:
    """Returns the array with twice its rows and a few more.

    The row count gets a symbol of its own, since TVM matches tensors by symbols and not by expressions of symbols.
    """
    rows, *dims = array._type.shape
    more = fresh_dim(state.trace.root.unique("rows"))
    bind.told_dims(bind.cast(bind.reshape(scalar_of(2 * rows + FIRST_ROWS), shape=(1,)), dtype=int64), dims=(more,))
    added = new_stack(more - rows, TensorType(tuple(dims), array.dtype))
    return bind.ensure_shape(bind.concat(array, added, axis=0), shape=(more, *dims))
