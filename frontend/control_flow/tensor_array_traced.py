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
from tvtf.ops.array import reshape
from tvtf.ops.dims import scalar_of
from tvtf.ops.rules import bind, dims_of
from tvtf.ops.scatter import tensor_scatter_nd_update
from tvtf.ops.stack import new_stack, stack_of

COUNT = "count"
"""In a loop's ``room_for``: rows are reserved for one more element per iteration, at the array's count."""

BEYOND = None, None
"""In a trace's ``array_writes``: a write for which no loop reserves a row."""


class TracedArray:
    """An array whose ``buffer`` has ``room`` rows, of which ``count`` are elements; both are dims or tensors.

    Without a buffer nothing has been written, and the elements' shape may be unknown.
    """

    def __init__(self, dtype: DType, count: Any, dynamic: bool, infer_shape: bool, element_shape: TensorShape) -> None:
        self.dtype, self.dynamic, self.infer_shape = dtype, dynamic, infer_shape
        self.element_shape = element_shape
        self.count = self.room = count
        self.buffer: Tensor | None = None

    @classmethod
    def of_size(
        cls, dtype: DType, size: Any, dynamic: bool, infer_shape: bool, element_shape: TensorShape
    ) -> TracedArray:
        return cls(dtype, _count(size), dynamic, infer_shape, element_shape)

    # -- as components

    def components(self) -> tuple[Tensor, ...]:
        if self.buffer is None:
            return ()
        return (self.buffer, _scalar(self.count)) if self.dynamic else (self.buffer,)

    def with_components(self, components: Sequence[Tensor]) -> TracedArray:
        if not components:
            return self
        buffer, *count = components
        array = self._with(buffer)
        array.count = count[0] if count else self.count
        return array

    def _with(self, buffer: Any) -> TracedArray:
        array = copy.copy(self)
        array.buffer = buffer
        return array

    def settled_as(self, dims: Sequence[Dim] | None, room: Any) -> TracedArray:
        """Returns the array with a buffer of elements of these dims; with ``room`` more rows if its size is dynamic.

        Control flow carries tensors, so that an array needs its buffer before it begins.
        """
        array = self
        if self.dynamic and room is not None:
            array = self._with_more_rows(room)
        if array.buffer is not None:
            return array
        if dims is not None:
            return array._with_buffer(dims)
        return array._with_buffer(self.element_shape.as_list()) if self.element_shape.is_fully_defined() else array

    def _with_more_rows(self, more: Any) -> TracedArray:
        """Returns the array with ``more`` additional rows of zeros; without a buffer yet, only their number is recorded."""
        if self.buffer is not None:
            rows = _stack(more, TensorType(self.buffer._type.shape[1:], self.dtype))
            return self._with(bind.concat(self.buffer, rows, axis=0))
        array = copy.copy(self)
        both = isinstance(self.room, int) and isinstance(more, int)
        array.room = self.room + more if both else bind.add(_scalar(self.room), _scalar(more))
        return array

    def _with_buffer(self, dims: Sequence[Dim]) -> TracedArray:
        if self.buffer is not None:
            return self
        return self._with(_stack(self.room, TensorType(tuple(dims), self.dtype)))

    def _filled(self) -> Tensor:
        """Returns the buffer; zeros if nothing has been written."""
        if self.buffer is None and not self.element_shape.is_fully_defined():
            raise InvalidArgumentError(
                None,
                "TensorListStack",
                "Tried to stack list which only contains uninitialized tensors and has a non-fully-defined "
                f"element_shape: {self.element_shape}",
            )
        return self._with_buffer(self.element_shape.as_list() if self.buffer is None else ()).buffer  # type: ignore[return-value]

    # -- elements

    def write(self, index: Any, value: Any) -> TracedArray:
        """Returns the array with ``value`` at ``index``."""
        value = self.checked(convert_to_tensor(value, dtype_hint=self.dtype))
        array = self._with_buffer(value._type.shape)
        if self.dynamic:
            array = array._reaching(index)
        array._require(index, "modify")
        at = _scalar(index)
        dims, shape = array.buffer._type.shape[1:], value._type.shape  # type: ignore[union-attr]
        if not isinstance(shape, AnyShape) and not isinstance(dims, AnyShape) and not same_shape(dims, shape):
            value = bind.ensure_shape(state.trace.own(value), shape=dims)  # sizes known only at run time
        array = array._with(bind.stack_write(array.buffer, at, value))
        array.element_shape = self.element_shape.merge_with(value.shape) if self.infer_shape else self.element_shape
        return array

    def checked(self, value: Tensor) -> Tensor:
        """Checks an element's dtype and shape against the array's."""
        if value.dtype is not self.dtype:
            raise InvalidArgumentError(
                None,
                "TensorListSetItem",
                f"Invalid data types; op elements {value.dtype.name} but list elements {self.dtype.name}",
            )
        known = self.element_shape if self.buffer is None else TensorShape(self.buffer._type.shape[1:])
        if not known.is_compatible_with(value.shape):
            raise ValueError(f"Inconsistent shapes: saw {value.shape} but expected {known} ")
        if self.buffer is not None:
            agree_shape(self.buffer._type.shape[1:], value._type.shape)  # what it cannot prove is compared at run time
        return value

    def _reaching(self, index: Any) -> TracedArray:
        """Returns the array with enough elements for this index; the buffer grows now if both are static."""
        last, room = _known(index), self.buffer._type.shape[0]  # type: ignore[union-attr]
        array = self
        if last is not None and isinstance(room, int):
            array = self._with_more_rows(last + 1 - room) if last >= room else copy.copy(self)
        elif self._is_in_bounds(index):
            array = copy.copy(self)
        else:
            array = self._with(_grown_for(self.buffer, index))  # type: ignore[arg-type]
        if last is not None and isinstance(self.count, int):
            array.count = max(self.count, last + 1)
        else:
            array.count = bind.maximum(_scalar(self.count), bind.add(_scalar(index), convert_to_tensor(1)))
        return array

    def _is_in_bounds(self, index: Any) -> bool:
        """Returns whether the enclosing loop reserves a row for this write: for its counter, or for one more element.

        For any other index the number of rows is unknown before the loop, so its body extends the array.
        """
        loop = _loop()
        if loop is None:
            return False
        var, offset = _base_and_offset(index, loop)
        if loop.room_for is not None and not _reserves_nothing(loop):
            return offset <= 0 and self._has_room(loop.room_for, var, loop)
        counted = any(var is not None and p._var is var for p in loop.params)
        in_bounds = not _reserves_nothing(loop) and (counted or (offset <= 0 and self._is_count(var, loop)))
        state.trace.root.array_writes.append((var if counted else None, offset) if in_bounds else BEYOND)
        return in_bounds

    def _has_room(self, room_for: set[Any], var: Any, loop: Any) -> bool:
        """Returns whether a row was reserved for the loop's counter or, instead, for one more element per iteration.

        Each reserved row is good for one write, and is used up by it.
        """
        if var in room_for:
            room_for.discard(COUNT)
            return True
        if COUNT in room_for and self._is_count(var, loop):
            room_for.clear()
            return True
        return False

    def _is_count(self, var: Any, loop: Any) -> bool:
        return var is not None and _base_and_offset(self.count, loop) == (var, 0)

    def _require(self, index: Any, verb: str) -> None:
        """Checks an index: now if it is static, else at run time."""
        size, known = self.buffer._type.shape[0], _known(index)  # type: ignore[union-attr]
        if known is not None and isinstance(size, int):
            if not 0 <= known < size:
                raise InvalidArgumentError(
                    None, "TensorList", f"Trying to {verb} element {known} in a list with {size} elements."
                )
            return
        at, end = _scalar(index), _scalar(size)
        is_inside = bind.logical_and(bind.less_equal(convert_to_tensor(0), at), bind.less(at, end))
        message = f"Trying to {verb} an element that is not in a list with {size} elements."
        bind.guard(is_inside, message=message)

    def read(self, index: Any) -> Tensor:
        array = self._with(self._filled())
        array._require(index, "access")
        return bind.stack_read(array.buffer, _scalar(index))

    def stack(self) -> Tensor:
        buffer = self._filled()
        if not self.dynamic:
            return buffer
        return buffer[: self.count]

    def gather(self, indices: Any) -> Tensor:
        return bind.gather(self._filled(), convert_to_tensor(indices), axis=0, batch_dims=0)

    def concat(self) -> Tensor:
        stacked = self.stack()
        if stacked.ndim < 2:
            raise InvalidArgumentError(
                None, "TensorListConcat", "Concat saw a scalar shape at index 0 but requires at least vectors."
            )
        return reshape(stacked, [-1, *stacked.shape[2:]])

    def unstack(self, value: Tensor) -> TracedArray:
        self.checked(value[0])
        array = self._with(value)
        array.count = array.room = value._type.shape[0]
        array.element_shape = self.element_shape.merge_with(value.shape[1:])
        return array

    def scatter(self, indices: Any, value: Tensor) -> TracedArray:
        places = convert_to_tensor(indices)
        array = self._with_buffer(value._type.shape[1:])
        known = static_value(places)
        if self.dynamic and known is not None and known.size:
            array = array._reaching(int(known.max()))
        return array._with(tensor_scatter_nd_update(array.buffer, places[:, None], value))

    def split(self, value: Tensor, lengths: Tensor) -> TracedArray:
        """Replaces the elements by parts of ``value``, which must have the same length: the buffer is one tensor."""
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
    """Returns the trace of the loop body that is being traced."""
    trace = state.trace
    while trace is not None and not trace.name.startswith("while"):
        trace = trace.parent
    return trace


def _reserves_nothing(loop: Any) -> bool:
    """Returns whether this loop, or an enclosing one, reserves no rows: its arrays grow by themselves."""
    while loop is not None and loop.room_for != frozenset():
        loop = loop.parent
    return loop is not None


def _grown_for(buffer: Tensor, index: Any) -> Tensor:
    """Returns the buffer, extended at run time by zero rows up to this index."""
    rows, *dims = buffer._type.shape
    end = bind.maximum(scalar_of(rows), bind.add(bind.cast(_scalar(index), dtype=dtypes.int64), scalar_of(1)))
    (size,) = dims_of(state.trace.own(bind.reshape(end, shape=(1,))))
    more = new_stack(size - rows, TensorType(tuple(dims), buffer.dtype))  # type: ignore[operator]
    return bind.ensure_shape(bind.concat(buffer, more, axis=0), shape=(size, *dims))  # type: ignore[no-any-return]


def _count(size: Any) -> Any:
    """Returns a size as a number, a dim, or a tensor that is computed at run time."""
    if isinstance(size, SymbolicTensor) and size.known is not None:
        return size.known.item()
    known = _known(size)
    return known if known is not None else bind.cast(convert_to_tensor(size), dtype=dtypes.int32)


def _known(index: Any) -> int | None:
    if isinstance(index, Tensor):
        value = static_value(index)
        return None if value is None else int(value)
    return int(index) if hasattr(index, "__index__") else None


def _scalar(value: Any) -> Tensor:
    """Returns a number, dim or tensor as an int32 scalar of the trace."""
    if isinstance(value, Tensor):
        return value if value.dtype is dtypes.int32 else bind.cast(value, dtype=dtypes.int32)
    if isinstance(value, int) or not type(value).__module__.startswith("tvm"):
        return state.trace.own(convert_to_tensor(value, dtypes.int32))
    return bind.cast(scalar_of(value), dtype=dtypes.int32)


def _stack(count: Any, of: TensorType) -> Tensor:
    return stack_of(count, of) if isinstance(count, Tensor) else new_stack(count, of)


def _base_and_offset(index: Any, loop: Any) -> tuple[Any, int]:
    """Returns the loop-body variable that an index is computed from by adding a number, and that number."""
    var, offset = None, 0
    while isinstance(index, SymbolicTensor):
        var, more = _base_and_addend(index)
        offset += more
        # The variable may be captured from an enclosing trace.
        outer = {inner._var: outer for outer, inner in index._trace.captures.values()}
        index = None if index._trace is loop else outer.get(var)
    return var, offset


def _base_and_addend(index: SymbolicTensor) -> tuple[Any, int]:
    """Returns the variable that an index is computed from by adding constants, and their sum."""
    from tvm import ir

    from tvtf.ir import dialect

    values = {b.var: b.value for b in index._trace.bindings}
    var, offset = index._var, 0
    while dialect.is_dialect(values.get(var)) and values[var].op.name == "tvtf.add":
        x, y = dialect.read(values[var]).inputs
        if not isinstance(y, ir.Constant):
            break
        var, offset = x, offset + int(y.value.numpy())
    return var, offset
