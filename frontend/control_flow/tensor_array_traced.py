"""The ``tf.TensorArray`` of a trace: one tensor of all elements, which ``stack_write`` updates in place in loops."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from tvtf import dtypes
from tvtf.core.deferred_shape import AnyShape
from tvtf.core.shape import Dim, TensorShape, TensorType, agree_shape, same_shape
from tvtf.core.tensor import SymbolicTensor, Tensor, convert_to_tensor, static_value
from tvtf.core.thread_state import state
from tvtf.dtypes import DType
from tvtf.errors import InvalidArgumentError
from tvtf.ops.array import ensure_shape, reshape
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, dims_of
from tvtf.ops.scatter import tensor_scatter_nd_update
from tvtf.ops.stack import new_stack, stack_of

COUNT = "count"
"""In a loop's ``reserved_indices``: rows are reserved for one more element per iteration, at the array's count."""

BEYOND = None, None
"""In a trace's ``array_writes``: a write for which no loop reserves a row."""


class TracedArray:
    """A TensorArray in a trace: a tensor, ``buffer``, whose first ``count`` rows are the elements.

    The buffer has, or will have, ``row_count`` rows. Both numbers are dims or tensors. Without a buffer nothing has
    been written, and the elements' shape may be unknown.
    """

    def __init__(self, dtype: DType, count: Any, dynamic: bool, infer_shape: bool, element_shape: TensorShape) -> None:
        self.dtype, self.dynamic, self.infer_shape = dtype, dynamic, infer_shape
        self.element_shape = element_shape
        self.count = self.row_count = count
        self.buffer: Tensor | None = None

    @classmethod
    def of_size(
        cls, dtype: DType, size: Any, dynamic: bool, infer_shape: bool, element_shape: TensorShape
    ) -> TracedArray:
        return cls(dtype, _count(size), dynamic, infer_shape, element_shape)

    # -- as components

    def components(self) -> tuple[Tensor, ...]:
        """Returns the tensors that control flow carries for the array: the buffer, and the count of a dynamic array."""
        if self.buffer is None:
            return ()
        return (self.buffer, _scalar(self.count)) if self.dynamic else (self.buffer,)

    def with_components(self, components: Sequence[Tensor]) -> TracedArray:
        """Returns the array with other component tensors: the buffer, and the count of a dynamic array."""
        if not components:
            return self
        buffer, *count = components
        array = self._with(buffer)
        array.count = count[0] if count else self.count
        return array

    def _with(self, buffer: Any) -> TracedArray:
        """Returns a copy of the array with another buffer. Arrays of a trace are immutable."""
        array = copy.copy(self)
        array.buffer = buffer
        return array

    def with_settled_buffer(self, dims: Sequence[Dim] | None, extra_rows: Any) -> TracedArray:
        """Returns the array with its buffer allocated, if the shape of the elements is known.

        Control flow carries tensors, so an array needs a buffer before the control flow begins.

        Args:
          dims: the shape of the elements; if None, the array's ``element_shape`` is used.
          extra_rows: the number of rows to add to an array of dynamic size, or None.
        """
        array = self
        if self.dynamic and extra_rows is not None:
            array = self._with_more_rows(extra_rows)
        if array.buffer is not None:
            return array
        if dims is None and self.element_shape.is_fully_defined():
            dims = self.element_shape.as_list()
        return array if dims is None else array._with_buffer(dims)

    def _with_more_rows(self, more: Any) -> TracedArray:
        """Returns the array with ``more`` rows of zeros added to the buffer.

        Without a buffer, the larger number of rows is only recorded. The buffer is allocated with it later.
        """
        if self.buffer is not None:
            rows = _stack(more, TensorType(self.buffer._type.shape[1:], self.dtype))
            return self._with(bind.concat(self.buffer, rows, axis=0))
        array = copy.copy(self)
        if isinstance(self.row_count, int) and isinstance(more, int):
            array.row_count = self.row_count + more
        else:
            array.row_count = bind.add(_scalar(self.row_count), _scalar(more))
        return array

    def _with_buffer(self, dims: Sequence[Dim]) -> TracedArray:
        """Returns the array with a buffer of zeros for elements of shape ``dims``, if it has no buffer yet."""
        if self.buffer is not None:
            return self
        return self._with(_stack(self.row_count, TensorType(tuple(dims), self.dtype)))

    def _buffer_or_zeros(self) -> Tensor:
        """Returns the buffer, or a buffer of zeros if nothing has been written.

        Raises:
          InvalidArgumentError: nothing has been written, and the shape of the elements is unknown.
        """
        if self.buffer is not None:
            return self.buffer
        if not self.element_shape.is_fully_defined():
            raise InvalidArgumentError(
                None,
                "TensorListStack",
                "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
                f"element_shape: {self.element_shape}",
            )
        return self._with_buffer(self.element_shape.as_list()).buffer  # type: ignore[return-value]

    # -- elements

    def write(self, index: Any, value: Any) -> TracedArray:
        """Returns the array with ``value`` written at ``index``. An array of dynamic size grows if needed."""
        value = self.checked(convert_to_tensor(value, dtype_hint=self.dtype))
        if isinstance(value._type.shape, AnyShape):
            if self.element_shape.rank is not None:
                value = ensure_shape(value, self.element_shape)
            elif state.trace.specialization.assumes_scalars:
                value = ensure_shape(value, [])
        array = self._with_buffer(value._type.shape)
        if self.dynamic:
            array = array._extended_to(index)
        array._require_index(index, "modify")
        position = _scalar(index)
        row_dims, value_dims = array.buffer._type.shape[1:], value._type.shape  # type: ignore[union-attr]
        have_ranks = not isinstance(value_dims, AnyShape) and not isinstance(row_dims, AnyShape)
        if have_ranks and not same_shape(row_dims, value_dims):
            value = bind.ensure_shape(state.trace.own(value), shape=row_dims)  # compares sizes at run time
        array = array._with(bind.stack_write(array.buffer, position, value))
        array.element_shape = self.element_shape.merge_with(value.shape) if self.infer_shape else self.element_shape
        return array

    def checked(self, value: Tensor) -> Tensor:
        """Checks that the dtype and shape of an element fit the array, and returns the element.

        Raises:
          InvalidArgumentError: the element's dtype is another one.
          ValueError: its shape isn't compatible with that of the elements.
        """
        if value.dtype is not self.dtype:
            raise InvalidArgumentError(
                None,
                "TensorListSetItem",
                f"Invalid data types; op elements {value.dtype.name} but list elements {self.dtype.name}",
            )
        expected = self.element_shape if self.buffer is None else TensorShape(self.buffer._type.shape[1:])
        if not expected.is_compatible_with(value.shape):
            raise ValueError(f"Inconsistent shapes: saw {value.shape} but expected {expected} ")
        if self.buffer is not None:
            # Sizes that may differ are compared at run time.
            agree_shape(self.buffer._type.shape[1:], value._type.shape)
        return value

    def _extended_to(self, index: Any) -> TracedArray:
        """Returns an array of dynamic size with enough rows, and a large enough count, for a write at ``index``.

        If index and size are static, the buffer gets more rows now. Otherwise the buffer grows at run time, unless the
        loop has reserved a row for the write.
        """
        last, row_count = _known(index), self.buffer._type.shape[0]  # type: ignore[union-attr]
        array = self
        if last is not None and isinstance(row_count, int):
            array = self._with_more_rows(last + 1 - row_count) if last >= row_count else copy.copy(self)
        elif self._has_reserved_row(index):
            array = copy.copy(self)
        else:
            array = self._with(_buffer_extended_to(self.buffer, index))  # type: ignore[arg-type]
        if last is not None and isinstance(self.count, int):
            array.count = max(self.count, last + 1)
        else:
            array.count = bind.maximum(_scalar(self.count), bind.add(_scalar(index), convert_to_tensor(1)))
        return array

    def _has_reserved_row(self, index: Any) -> bool:
        """Returns whether the enclosing loop reserves a row for a write at this index.

        A loop reserves rows for two kinds of index: a loop variable plus a constant, and the array's count (an append).
        For other indices the number of rows is unknown before the loop, and the loop's body extends the array.
        """
        loop = _loop()
        if loop is None:
            return False
        var, offset = _base_and_offset(index, loop)
        may_reserve = not _reserves_no_rows(loop)
        if may_reserve and loop.reserved_indices is not None:
            # A `for` of known length: rows were reserved before the loop, for the indices in `reserved_indices`.
            return offset <= 0 and self._uses_reserved_row(loop.reserved_indices, var, loop)
        # Any other loop: rows are reserved after the body is traced, for the writes recorded here.
        is_loop_variable = var is not None and any(param._var is var for param in loop.params)
        is_append = offset <= 0 and self._is_count(var, loop)
        writes = state.trace.root.array_writes
        if not may_reserve or not (is_loop_variable or is_append):
            writes.append(BEYOND)
            return False
        writes.append((var if is_loop_variable else None, offset))
        return True

    def _uses_reserved_row(self, reserved_for: set[Any], var: Any, loop: Any) -> bool:
        """Returns whether the loop reserved a row for a write at index ``var``, and marks the row as used.

        Args:
          reserved_for: the indices that rows are reserved for: the variable of the loop's counter, and ``COUNT`` for an
            append. A row serves one write, so the set changes.
          var: the variable that the index is computed from.
          loop: the trace of the loop body.
        """
        if var in reserved_for:
            reserved_for.discard(COUNT)
            return True
        if COUNT in reserved_for and self._is_count(var, loop):
            reserved_for.clear()
            return True
        return False

    def _is_count(self, var: Any, loop: Any) -> bool:
        """Returns whether a variable is the array's count at the start of an iteration of the loop.

        A write at this index appends an element.
        """
        return var is not None and _base_and_offset(self.count, loop) == (var, 0)

    def _require_index(self, index: Any, verb: str) -> None:
        """Checks that ``index`` is a row of the buffer, and raises InvalidArgumentError otherwise.

        If index or size are unknown while tracing, a run-time check is emitted. ``verb`` is "modify" or "access", for
        the error message.
        """
        size = self.buffer._type.shape[0]  # type: ignore[union-attr]
        known = _known(index)
        if known is not None and isinstance(size, int):
            if not 0 <= known < size:
                raise InvalidArgumentError(
                    None, "TensorList", f"Trying to {verb} element {known} in a list with {size} elements."
                )
            return
        position = _scalar(index)
        is_nonnegative = bind.less_equal(convert_to_tensor(0), position)
        is_below_end = bind.less(position, _scalar(size))
        is_inside = bind.logical_and(is_nonnegative, is_below_end)
        message = f"Trying to {verb} an element that is not in a list with {size} elements."
        bind.guard(is_inside, message=message)

    def read(self, index: Any) -> Tensor:
        """Returns the element at an index."""
        array = self._with(self._buffer_or_zeros())
        array._require_index(index, "access")
        return bind.stack_read(array.buffer, _scalar(index))

    def stack(self) -> Tensor:
        """Returns all elements as one tensor, along a new first axis."""
        buffer = self._buffer_or_zeros()
        if not self.dynamic:
            return buffer
        return buffer[: self.count]  # more rows may be reserved

    def gather(self, indices: Any) -> Tensor:
        return bind.gather(self._buffer_or_zeros(), convert_to_tensor(indices), axis=0, batch_dims=0)

    def concat(self) -> Tensor:
        """Returns all elements as one tensor, concatenated along their first axis."""
        stacked = self.stack()
        if stacked.ndim < 2:
            raise InvalidArgumentError(
                None, "TensorListConcat", "Concat saw a scalar shape at index 0 but requires at least vectors."
            )
        return reshape(stacked, [-1, *stacked.shape[2:]])

    def unstack(self, value: Tensor) -> TracedArray:
        """Returns the array whose elements are the slices of ``value`` along its first axis."""
        self.checked(value[0])
        array = self._with(value)
        array.count = array.row_count = value._type.shape[0]
        array.element_shape = self.element_shape.merge_with(value.shape[1:])
        return array

    def scatter(self, indices: Any, value: Tensor) -> TracedArray:
        """Returns the array with the slices of ``value`` written at ``indices``.

        An array of dynamic size grows to the largest index, if the indices are known while tracing.
        """
        positions = convert_to_tensor(indices)
        array = self._with_buffer(value._type.shape[1:])
        static_positions = static_value(positions)
        if self.dynamic and static_positions is not None and static_positions.size:
            array = array._extended_to(int(static_positions.max()))
        return array._with(tensor_scatter_nd_update(array.buffer, positions[:, None], value))

    def split(self, value: Tensor, lengths: Tensor) -> TracedArray:
        """Returns the array whose elements are consecutive parts of ``value`` of the given lengths.

        The lengths must be equal, because the elements are rows of one tensor.
        """
        sizes = static_value(lengths)
        if sizes is None or len(set(sizes.tolist())) > 1:
            raise NotImplementedError(
                "the elements of a TensorArray have one shape in a compiled function: split into pieces of one length, or "
                "use tf.split"
            )
        return self.unstack(reshape(value, [len(sizes), int(sizes[0]), *value.shape[1:]]))

    def size(self) -> Tensor:
        return _scalar(self.count)

    def close(self) -> None:
        """Does nothing: the buffer is freed when it has no more uses."""


def _loop() -> Any:
    """Returns the trace of the innermost while loop around the active trace, or None if there is no loop."""
    trace = state.trace
    while trace is not None and not trace.name.startswith("while"):  # traces of loop bodies have such names
        trace = trace.parent
    return trace


def _reserves_no_rows(loop: Any) -> bool:
    """Returns whether this loop or an enclosing loop reserves no rows for writes. TensorArrays then grow at run time.

    ``loop`` is the trace of the loop's body. Such a trace has the empty set as ``reserved_indices``.
    """
    while loop is not None and loop.reserved_indices != frozenset():
        loop = loop.parent
    return loop is not None


def _buffer_extended_to(buffer: Tensor, index: Any) -> Tensor:
    """Emits code that extends a buffer with rows of zeros at run time, to at least ``index + 1`` rows."""
    rows, *dims = buffer._type.shape
    new_row_count = bind.maximum(scalar_of(rows), bind.add(bind.cast(_scalar(index), dtype=dtypes.int64), scalar_of(1)))
    (new_size,) = dims_of(state.trace.own(bind.reshape(new_row_count, shape=(1,))))  # the number as a symbolic dim
    new_rows = new_stack(new_size - rows, TensorType(tuple(dims), buffer.dtype))  # type: ignore[operator]
    return bind.ensure_shape(bind.concat(buffer, new_rows, axis=0), shape=(new_size, *dims))  # type: ignore[no-any-return]


def _count(size: Any) -> Any:
    """Converts a size to an int, to a symbolic dim, or to an int32 tensor if it is computed at run time."""
    if isinstance(size, SymbolicTensor) and size.known is not None:
        return size.known.item()
    known = _known(size)
    return known if known is not None else bind.cast(convert_to_tensor(size), dtype=dtypes.int32)


def _known(index: Any) -> int | None:
    """Returns an index as an int if its value is known while tracing, None otherwise."""
    if isinstance(index, Tensor):
        value = static_value(index)
        return None if value is None else int(value)
    return int(index) if hasattr(index, "__index__") else None


def _scalar(value: Any) -> Tensor:
    """Returns a number, symbolic dim or tensor as an int32 scalar of the trace."""
    if isinstance(value, Tensor):
        return value if value.dtype is dtypes.int32 else bind.cast(value, dtype=dtypes.int32)
    if isinstance(value, int) or not type(value).__module__.startswith("tvm"):  # symbolic dims are TVM's expressions
        return state.trace.own(convert_to_tensor(value, dtypes.int32))
    return bind.cast(scalar_of(value), dtype=dtypes.int32)


def _stack(count: Any, of: TensorType) -> Tensor:
    return stack_of(count, of) if isinstance(count, Tensor) else new_stack(count, of)


def _base_and_offset(index: Any, loop: Any) -> tuple[Any, int]:
    """Splits an index into a variable of the loop's body and a constant offset.

    For example, the index ``i + 2`` gives the variable of ``i`` and 2. The variable is None if the index depends on no
    tensor of the body.

    Args:
      index: the index.
      loop: the trace of the loop body.
    """
    var, offset = None, 0
    while isinstance(index, SymbolicTensor):
        var, addend = _base_and_addend(index)
        offset += addend
        if index._trace is loop:
            break
        # The variable may be captured from an enclosing trace.
        outer_of_var = {inner._var: outer for outer, inner in index._trace.captures.values()}
        index = outer_of_var.get(var)
    return var, offset


def _base_and_addend(index: SymbolicTensor) -> tuple[Any, int]:
    """Splits an index into a variable of the index's own trace and the sum of the constants that are added to it.

    The IR is followed backward: the index ``(i + 1) + 2`` gives the variable of ``i`` and 3.
    """
    from tvm import ir

    from tvtf.ir import dialect

    value_of = {binding.var: binding.value for binding in index._trace.bindings}
    var = index._var
    offset = 0
    while dialect.is_dialect(value_of.get(var)) and value_of[var].op.name == "tvtf.add":
        base, addend = dialect.read(value_of[var]).inputs
        if not isinstance(addend, ir.Constant):
            break
        var = base
        offset += int(addend.value.numpy())
    return var, offset
