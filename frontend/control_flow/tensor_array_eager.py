"""The ``tf.TensorArray`` of eager execution: a list that writes change."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, Tensor, convert_to_tensor, hooks
from tvtf.dtypes import DType
from tvtf.errors import InvalidArgumentError, OutOfRangeError
from tvtf.ops.rules import bind


class EagerArray:
    """The list of a TensorArray's elements. An element that was not written, or cleared by a read, is None."""

    def __init__(
        self, dtype: DType, size: int, dynamic: bool, clear: bool, infer_shape: bool, element_shape: TensorShape
    ) -> None:
        self.dtype, self.dynamic, self.clear, self.infer_shape = dtype, dynamic, clear, infer_shape
        self.element_shape = element_shape
        self.items: list[Any] = [None] * size
        self.cleared: set[int] = set()

    @classmethod
    def made_of(cls, like: Any, components: Any) -> EagerArray:
        """Creates an eager array from the tensors that a compiled function returned for a TensorArray.

        Args:
          like: the traced array, which has the dtype and options.
          components: the buffer, whose rows are the elements. For an array of dynamic size the number of elements
            follows, because the buffer may have more rows.
        """
        buffer, *count = (component.eager_array() for component in components)
        rows = buffer[: int(count[0])] if count else buffer
        array = cls(
            like.dtype,
            size=0,  # the elements follow
            dynamic=like.dynamic,
            clear=False,
            infer_shape=like.infer_shape,
            element_shape=TensorShape(buffer.shape[1:]),
        )
        array.items = [EagerTensor(np.array(row)) for row in rows]
        return array

    def components(self) -> tuple[Tensor, ...]:
        return ()

    def with_components(self, _: Any) -> EagerArray:
        return self  # an eager array has no component tensors that could be replaced

    def read(self, index: Any) -> Tensor:
        """Returns the element at an index.

        With ``clear`` the element is then dropped, and a second read is an error.
        """
        i = int(index)
        if i < 0:
            raise OutOfRangeError(None, None, f"Reading from negative indices (index {i}) is not allowed.")
        if i >= len(self.items):
            raise OutOfRangeError(None, None, f"Tried to read from index {i} but array size is: {len(self.items)} ")
        if self.items[i] is None and i in self.cleared:
            raise InvalidArgumentError(
                None,
                None,
                f"Could not read index {i} twice because it was cleared after a previous read (perhaps try setting "
                "clear_after_read = false?)",
            )
        element = self.element(i)
        if self.clear:
            self.items[i] = None
            self.cleared.add(i)
        return element

    def element(self, i: int) -> Tensor:
        """Returns the element; zeros if it was never written, which needs a known element shape."""
        if self.items[i] is None:
            if not self.element_shape.is_fully_defined():
                raise ValueError(f"Cannot convert a partially known TensorShape {self.element_shape} to a Tensor.")
            self.items[i] = EagerTensor(np.zeros(tuple(self.element_shape), self.dtype.np))  # type: ignore[arg-type] # it is defined
        return self.items[i]

    def write(self, index: Any, value: Any) -> EagerArray:
        """Sets the element at an index, and returns the array. An array of dynamic size grows if needed."""
        i = int(index)
        if i < 0:
            raise OutOfRangeError(None, None, f"Writing to negative indices (index {i}) is not allowed.")
        if i >= len(self.items) and not self.dynamic:
            raise OutOfRangeError(
                None,
                None,
                f"Tried to write to index {i} but array is not resizeable and size is: {len(self.items)} ",
            )
        tensor = self.checked(convert_to_tensor(value, dtype_hint=self.dtype))
        self.items += [None] * (i + 1 - len(self.items))  # a negative count adds nothing
        self.items[i] = tensor
        return self

    def checked(self, value: Tensor) -> Tensor:
        """Checks the dtype and shape of an element to write, and returns the element.

        With ``infer_shape``, elements that are written later must have the same shape.

        Raises:
          InvalidArgumentError: the dtype is not that of the array.
          ValueError: the shape isn't compatible with that of the elements.
        """
        if value.dtype is not self.dtype:
            raise InvalidArgumentError(
                None,
                None,
                f"TensorArray dtype is {self.dtype.name} but Op is trying to write dtype {value.dtype.name} ",
            )
        if not self.element_shape.is_compatible_with(value.shape):
            raise ValueError(f"Incompatible shape for value ({value.shape}), expected ({self.element_shape})")
        if self.infer_shape:
            self.element_shape = self.element_shape.merge_with(value.shape)
        return value

    def all(self) -> list[Tensor]:
        return [self.element(i) for i in range(len(self.items))]

    def stack(self) -> Tensor:
        """Returns all elements as one tensor, along a new first axis. Without elements, the axis has size 0."""
        if not self.items and self.element_shape.is_fully_defined():
            return EagerTensor(np.zeros((0, *self.element_shape), self.dtype.np))  # type: ignore[arg-type] # it is defined
        return hooks.pack(self.all(), self.dtype) if self.items else EagerTensor(np.zeros(0, self.dtype.np))

    def gather(self, indices: Any) -> Tensor:
        """Returns the elements at ``indices`` as one tensor, stacked along a new first axis."""
        return hooks.pack(
            [self.element(int(i)) for i in np.asarray(convert_to_tensor(indices).numpy()).ravel()], self.dtype
        )

    def concat(self) -> Tensor:
        """Concatenates all elements along their first axis."""
        elements = self.all()
        for i, element in enumerate(elements):
            if not element.ndim:
                raise InvalidArgumentError(
                    None, None, f"Concat saw a scalar shape at index {i} but requires at least vectors."
                )
        return bind.concat(*elements, axis=0)

    def unstack(self, value: Tensor) -> EagerArray:
        """Replaces the elements by the slices of ``value`` along its first axis, and returns the array."""
        rows = list(value)
        if len(rows) > len(self.items) and not self.dynamic:
            raise ValueError(f"Cannot unstack {len(rows)} tensors into a TensorArray of static size {len(self.items)} ")
        self.items = rows
        return self

    def scatter(self, indices: Any, value: Tensor) -> EagerArray:
        for index, each in zip(convert_to_tensor(indices).numpy(), value):
            self.write(index, each)
        return self

    def split(self, value: Tensor, lengths: Tensor) -> EagerArray:
        """Replaces the elements by consecutive parts of ``value`` of the given lengths, and returns the array.

        For example, a vector of size 5 and lengths ``[2, 3]`` give elements of sizes 2 and 3.
        """
        sizes = lengths.numpy()
        error_text = self.split_error(value, sizes)
        if error_text:
            raise InvalidArgumentError(None, None, error_text)
        ends = np.cumsum(sizes)
        self.items = [value[end - size : end] for size, end in zip(sizes.tolist(), ends.tolist())]
        return self

    def split_error(self, value: Tensor, sizes: Any) -> str:
        """Checks the lengths for a split of ``value``: returns TensorFlow's error text, or "" if they are valid."""
        if np.ndim(sizes) != 1:
            return f"Expected lengths to be a vector, received shape: {list(np.shape(sizes))} "
        if not value.ndim:
            return f"Expected value to be at least a vector, but received shape: {value.shape.as_list()} "
        if sizes.sum() != value.shape[0]:
            return (
                f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sizes.sum()} and "
                f"value's shape is: {value.shape.as_list()} "
            )
        if not self.dynamic and len(sizes) != len(self.items):
            return (
                f"TensorArray's size is not equal to the size of lengths ({len(self.items)} vs. {len(sizes)}), and the "
                "TensorArray is not marked as dynamically resizeable."
            )
        return ""

    def size(self) -> Tensor:
        return convert_to_tensor(len(self.items))

    def close(self) -> None:
        self.items.clear()
