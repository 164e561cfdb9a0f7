"""``tf.TensorArray``: a list of tensors eagerly; in a trace one stacked tensor that loops update in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.primitive import export
from tvtf.core.shape import TensorShape, as_shape, same_dim, substitute_dim
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.core.thread_state import state
from tvtf.dtypes import DType, as_dtype, float32
from tvtf.frontend.control_flow.tensor_array_eager import EagerArray
from tvtf.frontend.control_flow.tensor_array_traced import BEYOND, TracedArray

if TYPE_CHECKING:
    from tvtf.frontend.control_flow.abstract_trace import AbstractTrace


@export("TensorArray")
class TensorArray(CompositeTensor):
    """An array of tensors; each write returns the array with the element replaced.

    In a traced function the elements are rows of one tensor, so they have one shape, and a loop writes them in place. A
    loop needs that shape before it begins: from ``element_shape``, or by tracing its body once more.

    Args:
      dtype: of the elements.
      size: how many there are.
      dynamic_size: whether writing beyond the end appends elements. A traced ``for`` reserves rows before it begins: for
        one more element per iteration, and for one at each index that it counts to.
      clear_after_read: eagerly, whether an element can be read only once (the default).
      infer_shape: whether all elements must have one shape.
      element_shape: that shape, as far as it is known.

    Raises:
      ValueError: ``size`` is missing, or the shape of an element doesn't fit ``element_shape``.
      InvalidArgumentError, OutOfRangeError: an index is out of range, or an element doesn't have ``dtype``.

    >>> import tvtf as tf
    >>> @tf.function
    ... def squares(n):
    ...     found = tf.TensorArray(tf.int32, size=n)
    ...     for i in tf.range(n):
    ...         found = found.write(i, i * i)
    ...     return found.stack()
    >>> squares(tf.constant(4)).numpy()
    array([0, 1, 4, 9], dtype=int32)

    Source: https://www.tensorflow.org/api_docs/python/tf/TensorArray
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        """Creates an array of ``size`` unwritten elements: a Python list eagerly, one tensor in a trace.

        ``tensor_array_name``, ``handle``, ``flow``, ``colocate_with_first_write_call`` and ``name`` are ignored.
        """
        if size is None:
            raise ValueError("Size must be declared for TensorArrays when eager execution is enabled.")
        element_dtype = as_dtype(dtype)
        shape = as_shape(element_shape)
        if state.trace is None:
            clear = True if clear_after_read is None else clear_after_read
            self._array: Any = EagerArray(element_dtype, int(size), bool(dynamic_size), clear, infer_shape, shape)
        else:
            self._array = TracedArray.of_size(element_dtype, size, bool(dynamic_size), infer_shape, shape)

    @classmethod
    def _of(cls, array: Any) -> TensorArray:
        """Returns a TensorArray over an eager or traced array. The constructor would create a new array."""
        result = cls.__new__(cls)
        result._array = array
        return result

    @property
    def dtype(self) -> DType:
        return self._array.dtype

    @property
    def element_shape(self) -> TensorShape:
        return self._array.element_shape

    @property
    def dynamic_size(self) -> bool:
        return self._array.dynamic

    @property
    def flow(self) -> Tensor:
        return convert_to_tensor(0)

    @property
    def handle(self) -> None:
        return None

    def identity(self) -> TensorArray:
        return self

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Returns the array with ``value`` at ``index``."""
        return self._of(self._array.write(index, value))

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Returns the element at ``index``; zeros if it was never written."""
        return self._array.read(index)

    def stack(self, name: str | None = None) -> Tensor:
        """Returns all elements as one tensor, along a new first axis."""
        return self._array.stack()

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Returns some elements as one tensor, along a new first axis."""
        return self._array.gather(indices)

    def concat(self, name: str | None = None) -> Tensor:
        """Returns all elements as one tensor, along their first axis."""
        return self._array.concat()

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Returns the array of the slices of ``value`` along its first axis."""
        return self._of(self._array.unstack(convert_to_tensor(value, dtype_hint=self.dtype)))

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Returns the array with the slices of ``value`` at ``indices``."""
        return self._of(self._array.scatter(indices, convert_to_tensor(value, dtype_hint=self.dtype)))

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Returns the array of consecutive pieces of ``value`` of the given lengths."""
        return self._of(self._array.split(convert_to_tensor(value, dtype_hint=self.dtype), convert_to_tensor(lengths)))

    def size(self, name: str | None = None) -> Tensor:
        """Returns the number of elements."""
        return self._array.size()

    def close(self, name: str | None = None) -> None:
        """Drops the elements."""
        self._array.close()

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> Any:
        raise NotImplementedError(
            "TensorArray.grad is not supported when executing eagerly; eager's gradient implementation does not use/need "
            "this function to compute gradients of operations that use TensorArrays."
        )

    @property
    def _type_spec(self) -> TensorArraySpec:
        array = self._array
        return TensorArraySpec._of(array)


@export("TensorArraySpec")
class TensorArraySpec(TypeSpec):
    """The type of a :class:`TensorArray`.

    >>> import tvtf as tf
    >>> tf.TensorArraySpec([2], tf.int32, dynamic_size=True)
    TensorArraySpec(TensorShape([2]), tf.int32, True, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/TensorArraySpec
    """

    def __init__(
        self,
        element_shape: Any = None,
        dtype: Any = float32,
        dynamic_size: bool = False,
        infer_shape: bool = True,
    ) -> None:
        """Describes TensorArrays by the shape and dtype of their elements, and by their options."""
        self._element_shape = as_shape(element_shape)
        self._dtype = as_dtype(dtype)
        self._dynamic_size = dynamic_size
        self._infer_shape = infer_shape
        self._like: Any = None  # the array of which `_of` makes the spec

    @classmethod
    def _of(cls, array: Any) -> TensorArraySpec:
        """Returns the spec of an eager or traced array, from which the spec can rebuild TensorArrays."""
        spec = cls(array.element_shape, array.dtype, array.dynamic, array.infer_shape)
        spec._like = array
        return spec

    @property
    def value_type(self) -> type:
        return TensorArray

    @property
    def _component_specs(self) -> tuple[TensorSpec, ...]:
        if self._like is None:
            raise NotImplementedError("a TensorArray can't be an argument of a compiled function: pass array.stack()")
        return tuple(map(TensorSpec.from_tensor, self._like.components()))

    def _to_components(self, value: Any) -> tuple[Tensor, ...]:
        return value._array.components()

    def _from_components(self, components: Any) -> TensorArray:
        """Rebuilds a TensorArray from its component tensors: an eager array if a compiled function returned them."""
        if components and all(isinstance(component, EagerTensor) for component in components) and state.trace is None:
            return TensorArray._of(EagerArray.made_of(self._like, components))
        return TensorArray._of(self._like.with_components(components))

    def _serialize(self) -> tuple[Any, ...]:
        return self._element_shape, self._dtype, self._dynamic_size, self._infer_shape


# -- arrays carried by loops: each has a buffer of a known shape


def with_array_buffers(values: Any, iteration: Callable[[AbstractTrace], Any], extra_rows: Any = None) -> Any:
    """Returns a loop's variables with a buffer for each TensorArray that has none yet.

    Unknown element shapes are inferred by tracing one iteration.

    Args:
      values: the loop variables.
      iteration: runs the loop's body in an abstract trace, and returns its results.
      extra_rows: the number of rows to add to arrays of dynamic size, None if it is unknown.
    """
    leaves = nest.flatten(values)
    arrays = [leaf._array for leaf in leaves if isinstance(leaf, TensorArray) and isinstance(leaf._array, TracedArray)]
    if all(array.buffer is not None and not array.dynamic for array in arrays):
        return values
    element_dims: list[Any] = [None] * len(leaves)
    if any(array.buffer is None and not array.element_shape.is_fully_defined() for array in arrays):
        element_dims = _inferred_element_dims(iteration)
    new_leaves = [_with_array_buffer(leaf, dims, extra_rows) for leaf, dims in zip(leaves, element_dims)]
    return nest.pack_sequence_as(values, new_leaves)


def _inferred_element_dims(iteration: Callable[[AbstractTrace], Any]) -> list[Any]:
    """Returns the shape of the elements that an iteration writes to each TensorArray; None for other loop variables.

    A buffer needs its shape before the loop, so an iteration is traced to find what it writes. Sizes that the iteration
    computes are those of the first iteration.
    """
    from tvtf.frontend.control_flow.abstract_trace import AbstractTrace
    from tvtf.ir.trace import tracing

    abstract = AbstractTrace("while_shapes")
    with tracing(abstract):
        loop_vars = nest.flatten(iteration(abstract))
        element_shapes = [_element_dims(value) for value in loop_vars]
    all_dims = [dim for shape in element_shapes if shape is not None for dim in shape]
    sizes = abstract.sizes(all_dims)

    def in_first_iteration(shape: Any) -> Any:
        return None if shape is None else tuple(substitute_dim(dim, sizes) for dim in shape)

    return [in_first_iteration(shape) for shape in element_shapes]


def _element_dims(value: Any) -> Any:
    """Returns the shape of a TensorArray's elements; None for other values, and for arrays without a buffer."""
    array = value._array if isinstance(value, TensorArray) else None
    return array.buffer._type.shape[1:] if isinstance(array, TracedArray) and array.buffer is not None else None


def _with_array_buffer(value: Any, dims: Any, extra_rows: Any) -> Any:
    """Returns a TensorArray with a buffer for elements of shape ``dims``, and other loop variables unchanged."""
    if not isinstance(value, TensorArray) or not isinstance(value._array, TracedArray):
        return value
    return TensorArray._of(value._array.with_settled_buffer(dims, extra_rows))


def params_of(abstract: AbstractTrace, values: Sequence[Any]) -> list[Any]:
    """Returns loop variables as parameters of an abstract trace. TensorArrays are returned unchanged."""
    return nest.map_structure(
        lambda value: value if isinstance(value, TensorArray) else abstract.param_of(value), list(values)
    )


class Growth:
    """The TensorArrays of dynamic size among a loop's variables, and the writes of an iteration to them.

    The trace of the loop's body records the writes in ``array_writes``. ``first_position`` is the position of the first
    variable among the tensors that the loop carries.
    """

    def __init__(self, values: Any, first_position: int = 0) -> None:
        tensors = zip(growing_array_shapes(values), nest.flatten(values, expand_composites=True))
        shapes = [shape for shape, tensor in tensors if tensor is not None]
        self.shapes = {first_position + i: shape for i, shape in enumerate(shapes) if shape is not None}
        self.before = len(state.trace.root.array_writes)

    def is_partial(self) -> bool:
        """Returns whether rows can be reserved for some writes of the loop's body, but not for all.

        The loop must then reserve no rows, and the body is traced again. Its recorded writes are removed for this.
        """
        writes = state.trace.root.array_writes[self.before :]
        has_unreserved = any(write is BEYOND for write in writes)
        has_reserved = any(write is not BEYOND for write in writes)
        if not (has_unreserved and has_reserved):
            return False
        self.forget()
        return True

    def forget(self) -> None:
        """Removes the recorded writes of the loop's body, which is traced again."""
        del state.trace.root.array_writes[self.before :]

    def rename(self, params: Sequence[Any], new_params: Sequence[Any]) -> None:
        """Replaces parameters of the loop's body in the recorded writes, after the body was traced again.

        A write is a pair of the parameter that the index is computed from, and a constant that is added.

        Args:
          params: the parameters of the body that was traced before.
          new_params: those of the body that was traced again.
        """
        new_vars = {param._var: new_param._var for param, new_param in zip(params, new_params)}
        writes = state.trace.root.array_writes
        for i in range(self.before, len(writes)):
            if writes[i] is not BEYOND:
                var, offset = writes[i]
                writes[i] = new_vars.get(var, var), offset

    def arrays(self, params: Sequence[Any], results: Sequence[Any]) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """Returns the ``arrays`` attribute of the while loop, after its body was traced.

        The attribute has a triple for each growing buffer: the buffer's position, the number of rows to add per
        iteration, and the positions of the counters from which indices of rows are computed. It is empty if a write has
        no reserved row, because the body then extends the arrays.

        Args:
          params: the parameters of the loop's body.
          results: the body's results.
        """
        writes = state.trace.root.array_writes[self.before :]
        if BEYOND in writes:
            return ()
        positions = {param._var: i for i, param in enumerate(params)}
        counters = {positions[var] for var, _ in writes if var in positions}
        # An iteration needs at most a row for each write, and as many more as an index is ahead of its counter.
        max_offset = max([0, *(offset for _, offset in writes)])
        row_count = len(writes) + max_offset
        attribute = []
        for position in self.shapes:
            added_rows = self._rows_to_add(row_count, params[position], results[position])
            # The loop variable after a buffer is the array's count. Rows are needed up to the count, too.
            counter_positions = tuple(sorted({position + 1, *counters}))
            attribute.append((position, added_rows, counter_positions))
        return tuple(attribute)

    def _rows_to_add(self, row_count: int, before: Tensor, after: Tensor) -> int:
        """Returns how many rows the loop adds to a buffer per iteration: 0 if the loop's body makes the buffer larger.

        ``before`` and ``after`` are the buffer before and after an iteration.
        """
        return row_count if same_dim(before._type.shape[0], after._type.shape[0]) else 0


def grows_arrays(before: Any, after: Any) -> bool:
    """Returns whether an iteration makes the buffer of a TensorArray larger.

    ``before`` and ``after`` are the loop variables before and after the iteration.
    """
    tensors_before = nest.flatten(before, expand_composites=True)
    tensors_after = nest.flatten(after, expand_composites=True)
    # The shapes mark the buffers of arrays that are allowed to grow. The sizes say whether this iteration made one larger.
    return any(
        shape is not None and not same_dim(old._type.shape[0], new._type.shape[0])
        for shape, old, new in zip(growing_array_shapes(before), tensors_before, tensors_after)
    )


def growing_array_shapes(values: Any) -> list[TensorShape | None]:
    """Returns the shapes, with an unknown number of rows, of the buffers of growing TensorArrays in ``values``.

    The list has an entry for each tensor in ``values``; it is None for all other tensors.
    """
    shapes: list[TensorShape | None] = []
    for value in nest.flatten(values):
        tensors = nest.flatten(value, expand_composites=True)
        value_shapes: list[TensorShape | None] = [None] * len(tensors)
        is_traced_array = isinstance(value, TensorArray) and isinstance(value._array, TracedArray)
        if is_traced_array and value.dynamic_size and tensors:
            value_shapes[0] = TensorShape([None, *tensors[0].shape[1:]])  # the buffer; the array's count follows
        shapes += value_shapes
    return shapes
