"""Stacks of per-iteration values of a loop: one buffer if their size is known before the loop.

Values whose size differs between iterations are appended to one vector, with a table of their offsets and dims.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tvtf.core.shape import Dim, TensorType, fresh_dim, size_of
from tvtf.core.tensor import Tensor
from tvtf.core.thread_state import state
from tvtf.dtypes import int64
from tvtf.frontend.control_flow.rematerialize import is_computable_from
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, dims_of
from tvtf.ops.stack import new_stack


def stacks_for(types: Sequence[TensorType], known: Collection[Any], bound: Dim | None) -> Stacks:
    """Creates the stacks on which a loop saves values for its gradient: in each iteration, one value of each type.

    A value whose size is known before the loop is saved in a buffer of rows. Other values are appended to a vector.

    Args:
      types: the types of the values.
      known: the symbolic dims that are known before the loop.
      bound: the greatest number of iterations, None if unknown.
    """
    stacks: list[Any] = []
    for tensor_type in types:
        has_known_size = all(is_computable_from(dim, known) for dim in tensor_type.shape)
        stacks.append(_FixedSizeStack(tensor_type) if has_known_size else _VaryingSizeStack(tensor_type))
    return Stacks(stacks, bound)


class Stacks:
    """The stacks of a loop: their initial buffers, and which buffers get more rows as the loop runs."""

    def __init__(self, stacks: Sequence[_FixedSizeStack | _VaryingSizeStack], bound: Dim | None) -> None:
        """Creates the initial buffers of all stacks.

        Args:
          stacks: the stacks, each of which has one or two buffers.
          bound: the greatest number of iterations, None if unknown.
        """
        self.stacks = stacks
        self.is_bound = bound is not None
        row_count = 0 if bound is None else bound
        self.start = [buffer for stack in stacks for buffer in stack.start(row_count)]
        have_row_per_iteration = self._rows()
        # Without a bound, buffers with one row per iteration get more rows while the loop runs.
        self.growing = [] if self.is_bound else [i for i, has_rows in enumerate(have_row_per_iteration) if has_rows]
        self.vary = bool(self.growing) or not all(have_row_per_iteration)

    def _rows(self) -> list[bool]:
        """Returns, for each buffer of all stacks, whether the buffer has one row per iteration."""
        return [row for stack in self.stacks for row in stack.rows]

    def shapes(self) -> list[Any]:
        """Returns the shapes of the buffers after the loop, with a new symbolic dim for an unknown number of rows."""
        fixed = [has_rows and self.is_bound for has_rows in self._rows()]
        return [x._type.shape if is_fixed else _of_any_rows(x._type.shape) for x, is_fixed in zip(self.start, fixed)]

    def written(self, buffers: Sequence[Tensor], index: Tensor, values: Sequence[Tensor]) -> list[Tensor]:
        """Returns the buffers with an iteration's values written at ``index``."""
        # A stack has one or two buffers, one for each entry of its `rows`.
        remaining = iter(buffers)
        results = list[Tensor]()
        for stack, value in zip(self.stacks, values, strict=True):
            results += stack.written([next(remaining) for _ in stack.rows], index, value)
        return results

    def read(self, buffers: Sequence[Tensor], index: Tensor) -> list[Tensor]:
        """Returns the values that iteration ``index`` wrote to the buffers."""
        remaining = iter(buffers)
        return [stack.read([next(remaining) for _ in stack.rows], index) for stack in self.stacks]


def _of_any_rows(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Returns a buffer's shape with a new symbolic dim for the number of rows."""
    return (fresh_dim(state.trace.root.unique("rows")), *shape[1:])


class _FixedSizeStack:
    """A stack of values of one size: a buffer with a row per iteration."""

    rows = (True,)

    def __init__(self, of: TensorType) -> None:
        self.of = of

    def start(self, rows: Dim) -> list[Tensor]:
        return [new_stack(rows, self.of)]

    def written(self, buffers: Sequence[Tensor], index: Tensor, value: Tensor) -> list[Tensor]:
        return [bind.stack_write(buffers[0], index, value)]

    def read(self, buffers: Sequence[Tensor], index: Tensor) -> Tensor:
        return bind.stack_read(buffers[0], index)  # type: ignore[no-any-return]


class _VaryingSizeStack:
    """A stack of values of varying sizes: a table of offsets and dims, and a vector of all elements."""

    rows = (True, False)

    def __init__(self, of: TensorType) -> None:
        self.of = of

    def start(self, rows: Dim) -> list[Tensor]:
        return [new_stack(rows, TensorType((1 + len(self.of.shape),), int64)), new_stack(0, self.of._replace(shape=()))]

    def written(self, buffers: Sequence[Tensor], index: Tensor, value: Tensor) -> list[Tensor]:
        """Appends the elements of ``value`` to the vector, and writes their offset and the value's dims to the table.

        Returns the new table and the new vector. ``index`` is the index of the iteration.
        """
        table, flat = buffers
        offset = flat._type.shape[0]  # the value begins where the vector ends so far
        offset_and_dims = [bind.reshape(_wide(size), shape=(1,)) for size in (offset, *value._type.shape)]
        table_row = bind.concat(*offset_and_dims, axis=0)
        elements = bind.reshape(value, shape=(size_of(value._type.shape),))
        return [bind.stack_write(table, index, table_row), bind.concat(flat, elements, axis=0)]

    def read(self, buffers: Sequence[Tensor], index: Tensor) -> Tensor:
        """Returns the value that iteration ``index`` saved: a slice of the vector, reshaped.

        The slice's offset and the value's dims are read from the table.
        """
        table, flat = buffers
        table_row = bind.stack_read(table, index)
        offset = table_row[0]
        saved_dims = dims_of(table_row[1:])
        dims = [dim if isinstance(dim, int) else saved for dim, saved in zip(self.of.shape, saved_dims)]
        elements = bind.dynamic_slice(flat, offset, axes=(0,), sizes=(size_of(dims),), wrap=False)
        return bind.reshape(elements, shape=tuple(dims))  # type: ignore[no-any-return]


def _wide(dim: Dim) -> Tensor:
    """Returns a dim as an int64 scalar, the type of the table's entries."""
    return bind.cast(scalar_of(dim), dtype=int64)  # type: ignore[no-any-return]
