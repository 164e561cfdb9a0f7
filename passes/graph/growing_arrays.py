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
from tvtf.ir.graph import Graph
from tvtf.ir.trace import trace_graph
from tvtf.ops.control import own_dims, varying_dims
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind
from tvtf.ops.stack import new_stack

INITIAL_ROWS = 8
"""Number of rows of an empty array after its first enlargement."""


def lower_growing_loop(inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Any:
    """Binds a ``while`` whose attribute ``arrays`` names growing arrays as loops without; returns its results."""
    return _GrowingLoop(attrs, inputs).bind_loops()


class _GrowingLoop:
    """One loop to lower; its first carried value is the condition's result, so that each iteration tests it once."""

    def __init__(self, attrs: dict[str, Any], inputs: Sequence[Tensor]) -> None:
        self.condition, self.body = attrs["condition"], attrs["body"]
        self.count, self.arrays = attrs["carried"], attrs["arrays"]
        self.shapes = ((), *attrs["shapes"])
        self.inputs = inputs

    def bind_loops(self) -> tuple[Tensor, ...]:
        """Emits the outer ``while`` loop, and returns the results of the lowered loop.

        Each iteration of the outer loop enlarges the growing arrays, and runs the inner loop until an array is full.
        """
        # The condition's result is carried before the other values.
        initial_values = [*self.condition(*self.inputs), *self.inputs]
        types = [self._loop_type(i, value._type) for i, value in enumerate(initial_values)]
        condition = self._graph("goes_on", lambda going, *_carried: going, types)
        body = self._graph("larger", self.enlarge_and_run, types)
        _condition_result, *results = self._loop(initial_values, condition, body, self.shapes)
        return tuple(results)

    def enlarge_and_run(self, *carried: Tensor) -> tuple[Tensor, ...]:
        """Builds the body of the outer loop, which enlarges full arrays and then runs the inner loop.

        The inner loop runs iterations as long as every array has enough rows for its writes.

        Args:
          carried: the result of the original loop's condition, then the values that the original loop carries, and its
            invariant operands.
        """
        initial_values = list(carried)
        for index, added_rows, _counters in self.arrays:
            # Position 0 is the condition's result. With 0 added rows, the loop's body itself enlarges the array.
            if added_rows:
                initial_values[1 + index] = _with_more_rows(initial_values[1 + index])
        types = [self._loop_type(i, value._type) for i, value in enumerate(initial_values)]
        condition = self._graph("has_room", self.has_room, types)
        iteration = self._graph("iteration", self.iteration, types)
        # The inner loop doesn't enlarge arrays, so that these keep the shapes that they have now.
        result_types = [value._type if self._grows(i) else types[i] for i, value in enumerate(initial_values)]
        result_shapes = [result_type.shape for result_type in result_types]
        return self._loop(initial_values, condition, iteration, result_shapes[: 1 + self.count])

    def has_room(self, going: Tensor, *carried: Tensor) -> Tensor:
        """Builds the condition of the inner loop: the next iteration runs, and its writes fit in every growing array.

        The inner loop ends before an array overflows. The outer loop then enlarges the array, and runs the inner loop
        again.

        Args:
          going: the result of the original loop's condition.
          carried: the values that the original loop carries, and its invariant operands.
        """
        for index, added_rows, counters in self.arrays:
            if not added_rows:
                continue
            for counter in counters:
                next_row = carried[counter]
                end = bind.add(next_row, convert_to_tensor(added_rows, next_row.dtype))
                row_count = bind.cast(scalar_of(carried[index]._type.shape[0]), dtype=next_row.dtype)
                going = bind.logical_and(going, bind.less_equal(end, row_count))
        return going

    def iteration(self, going: Tensor, *carried: Tensor) -> tuple[Tensor, ...]:
        """Runs the loop's body, then its condition on the new values: one iteration of the inner loop."""
        after = self.body(*carried)
        return (*self.condition(*after, *carried[self.count :]), *after)

    def _grows(self, position: int) -> bool:
        """Returns whether the carried value at a position, where 0 is the condition's result, is a growing array."""
        return position - 1 in {index for index, added_rows, _ in self.arrays if added_rows}

    def _loop_type(self, position: int, tensor_type: TensorType) -> TensorType:
        """Returns the type that a value has in the loop, with fresh symbols for dims that change between iterations."""
        # Invariant operands come after the carried values, and don't change.
        if position > self.count:
            return tensor_type
        return tensor_type._replace(shape=own_dims(tensor_type, varying_dims(tensor_type, self.shapes, position)))

    def _graph(self, name: str, function: Any, types: Sequence[TensorType]) -> Graph:
        return trace_graph(name, function, types, state.trace)

    def _loop(self, start: Sequence[Tensor], condition: Graph, body: Graph, shapes: Sequence[Any]) -> Any:
        return table["while"].bind(
            *start, condition=condition, body=body, carried=1 + self.count, bound=None, shapes=tuple(shapes), arrays=()
        )


def _with_more_rows(array: Tensor) -> Tensor:
    """Returns a copy of a growing array with ``2 * rows + INITIAL_ROWS`` rows.

    The row count is a new symbol, since TVM matches tensors by symbols and not by expressions of symbols.
    """
    rows, *row_shape = array._type.shape
    new_rows = fresh_dim(state.trace.root.unique("rows"))
    row_count = bind.reshape(scalar_of(2 * rows + INITIAL_ROWS), shape=(1,))
    bind.told_dims(bind.cast(row_count, dtype=int64), dims=(new_rows,))
    added = new_stack(new_rows - rows, TensorType(tuple(row_shape), array.dtype))
    enlarged = bind.concat(array, added, axis=0)
    return bind.ensure_shape(enlarged, shape=(new_rows, *row_shape))
