"""Loops whose arrays grow: a loop in a loop, of which the outer one makes arrays larger that are full.

Each time it doubles them, so that n rows are written in time proportional to n.
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

ROOM = 8
"""Rows that an array without any gets at first."""


def grown(inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """The results of a ``while`` with ``arrays``, by loops without."""
    return _Growing(attrs, inputs).bound()


class _Growing:
    """The loop; what it carries begins with whether it goes on, so that the condition is evaluated once for each iteration."""

    def __init__(self, attrs: dict[str, Any], inputs: Sequence[Tensor]) -> None:
        self.condition, self.body = attrs["condition"], attrs["body"]
        self.count, self.arrays = attrs["carried"], attrs["arrays"]
        self.shapes = ((), *attrs["shapes"])
        self.inputs = inputs

    def bound(self) -> tuple[Tensor, ...]:
        start = [*self.condition(*self.inputs), *self.inputs]
        types = [self._own(i, x._type) for i, x in enumerate(start)]
        more, again = self._graph("goes_on", lambda going, *_: going, types), self._graph("larger", self.larger, types)
        return self._loop(start, more, again, self.shapes)[1:]

    def larger(self, *carried: Tensor) -> tuple[Tensor, ...]:
        """The arrays with more rows, then the iterations for which these do."""
        start = list(carried)
        for index, step, _ in self.arrays:
            start[1 + index] = _with_more_rows(start[1 + index]) if step else start[1 + index]
        types = [self._own(i, x._type) for i, x in enumerate(start)]
        within, once = self._graph("has_room", self.has_room, types), self._graph("iteration", self.iteration, types)
        ends = [(x if self._grows(i) else t).shape for i, (x, t) in enumerate(zip((x._type for x in start), types))]
        return self._loop(start, within, once, ends[: 1 + self.count])

    def has_room(self, going: Tensor, *carried: Tensor) -> Tensor:
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

    def _own(self, place: int, of: TensorType) -> TensorType:
        """A carried value's type, with symbols of its own for the dims that vary."""
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
    """Twice as many rows, a number that has a symbol: TVM matches tensors with symbols, not with what is made of them."""
    rows, *dims = array._type.shape
    more = fresh_dim(state.trace.root.unique("rows"))
    bind.told_dims(bind.cast(bind.reshape(scalar_of(2 * rows + ROOM), shape=(1,)), dtype=int64), dims=(more,))
    added = new_stack(more - rows, TensorType(tuple(dims), array.dtype))
    return bind.ensure_shape(bind.concat(array, added, axis=0), shape=(more, *dims))
