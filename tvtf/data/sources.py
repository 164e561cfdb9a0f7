"""Defines datasets of arrays, ranges, random numbers and Python generators."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import TensorSpec
from tvtf.data.argument_conversion import int_argument
from tvtf.data.base import INFINITE, UNKNOWN, Dataset
from tvtf.data.random import SeedGenerator, words
from tvtf.data.structure import Element, arrays, flat_shapes, packer, spec_of, tensors_of
from tvtf.dtypes import as_dtype, int64, string
from tvtf.errors import InvalidArgumentError
from tvtf.frontend.host.python_call import raises_op_errors
from tvtf.ir.batching import without_leading
from tvtf.ops.rules import attribute_bool
from tvtf.state.random_streams import is_run_of_graph


class Tensors(Dataset):
    """A dataset of one element."""

    repr_name = "_TensorDataset"

    def __init__(self, tensors: Any) -> None:
        self.element = tensors_of(tensors)
        super().__init__(spec_of(self.element), 1)

    def handles(self) -> Iterator[Any]:
        yield self.element


class ElementList(Dataset):
    """A dataset of elements that are already computed."""

    repr_name = "_VariantDataset"

    def __init__(self, elements: Sequence[Element], spec: Any) -> None:
        self.listed = elements
        super().__init__(spec, len(elements))

    def handles(self) -> Iterator[Any]:
        return iter(self.listed)


class _Examples(threading.local):
    """Whether datasets are made as examples, whose sizes are not those of a run."""

    being_made = False


examples = _Examples()


@contextmanager
def making_examples() -> Iterator[None]:
    """Has datasets of tensors with different numbers of rows made without an error."""
    examples.being_made = True
    try:
        yield
    finally:
        examples.being_made = False


def common_size(sizes: Sequence[int]) -> int:
    """Returns the number of rows that all tensors have.

    Raises:
      ValueError: the numbers differ, or there are no tensors.
      InvalidArgumentError: the numbers differ where TensorFlow knows them only when the program runs.
    """
    if not sizes:
        raise ValueError("Invalid `element`. `element` should not be empty.")
    other = next((size for size in sizes if size != sizes[0]), None)
    if other is None or examples.being_made:
        return int(min(sizes))
    if is_run_of_graph():
        raise InvalidArgumentError(
            None, "TensorSliceDataset", "All components must have the same size in the 0th dimension"
        )
    raise ValueError(f"Dimensions {sizes[0]} and {other} are not compatible")


class Slices(Dataset):
    """The rows of arrays in memory; a handle is a row index."""

    repr_name = "_TensorSliceDataset"

    def __init__(self, tensors: Any) -> None:
        element = tensors_of(tensors)
        super().__init__(without_leading(spec_of(element)), self._length(element))
        self.columns = arrays(element)
        self.pack = packer(element)

    @staticmethod
    def _length(element: Element) -> int:
        """Returns the common first dim of an element's tensors. Raises ValueError if they differ."""
        return common_size([leaf.shape[0] for leaf in nest.flatten(element) if leaf is not None and leaf.shape.rank])

    def handles(self) -> Iterator[Any]:
        return iter(range(self.size))

    def value(self, handle: int) -> Element:
        return self.pack([np.asarray(column[handle], column.dtype) for column in self.columns])

    def batch_value(self, handles: Sequence[int]) -> Element:
        first = handles[0]
        count = len(handles)
        # A slice is a view; other rows are gathered in one step.
        rows = slice(first, first + count) if _consecutive(handles) else list(handles)
        return self.pack([column[rows] for column in self.columns])


def _consecutive(handles: Sequence[int]) -> bool:
    return handles[-1] - handles[0] == len(handles) - 1 and all(
        following - handle == 1 for handle, following in zip(handles, handles[1:])
    )


class Range(Dataset):
    """Integers of a range, as ``range`` of Python."""

    def __init__(self, *args: Any, output_type: Any = int64, name: str | None = None) -> None:
        """Stores a range of integers, given by ``stop``, ``start, stop`` or ``start, stop, step``, as in Python."""
        if not 1 <= len(args) <= 3:
            raise ValueError(f"Invalid `args`. The length of `args` should be between 1 and 3 but was {len(args)}.")
        self.numbers = range(*map(int_argument, args, ("stop",) if len(args) == 1 else ("start", "stop", "step")))
        self.dtype = as_dtype(output_type)
        super().__init__(TensorSpec([], self.dtype), len(self.numbers))

    def handles(self) -> Iterator[Any]:
        return iter(self.numbers)

    def value(self, handle: int) -> Element:
        return EagerTensor(np.array(handle, self.dtype.np))

    def batch_value(self, handles: Sequence[int]) -> Element:
        return EagerTensor(np.array(handles, self.dtype.np))


class Random(Dataset):
    """An infinite dataset of random int64 numbers below 2**32."""

    def __init__(self, seed: Any, rerandomize_each_iteration: bool | None) -> None:
        rerandomize = rerandomize_each_iteration
        new_each_time = rerandomize is not None and attribute_bool(rerandomize, "rerandomize_each_iteration")
        self.seeds = SeedGenerator(seed, new_each_time)
        super().__init__(TensorSpec([], int64), INFINITE)

    def handles(self) -> Iterator[Any]:
        return (EagerTensor(np.array(word, np.int64)) for word in words(self.seeds.next_pair()))


_END = object()


class Generator(Dataset):
    """The elements that a Python generator yields, converted to tensors and checked against a spec."""

    repr_name = "_FlatMapDataset"

    def __init__(self, generator: Callable[..., Any], spec: Any, args: Sequence[Any]) -> None:
        if not callable(generator):
            raise TypeError("`generator` must be a Python callable.")
        self.generator, self.args = generator, args
        super().__init__(spec, UNKNOWN)

    def handles(self) -> Iterator[Any]:
        """Yields the values of the user's generator, converted to the element spec; its exceptions become OpErrors."""
        with raises_op_errors("PyFunc"):
            values = iter(self.generator(*self.args))
        while True:
            with raises_op_errors("PyFunc"):
                value = next(values, _END)
            if value is _END:
                return
            yield self._checked(value)

    def _checked(self, value: Any) -> Element:
        return self._convert(self.element_spec, value, value)

    def _convert(self, spec: Any, value: Any, element: Any) -> Element:
        """Converts a value from the user's generator, or a part of the value, to the structure of ``spec``.

        A list becomes a tuple if the spec has a tuple, otherwise a tensor. ``element`` is the whole value, for errors.
        """
        if isinstance(spec, dict):
            if not isinstance(value, dict) or set(value) != set(spec):
                raise self._wrong_structure(element)
            return {key: self._convert(spec[key], value[key], element) for key in spec}
        if not isinstance(spec, tuple):
            return self._leaf(spec, value)
        if not isinstance(value, (tuple, list)) or len(value) != len(spec):
            raise self._wrong_structure(element)
        return tuple(self._convert(part_spec, part, element) for part_spec, part in zip(spec, value))

    def _leaf(self, spec: Any, value: Any) -> Any:
        """Converts a value that the generator yielded to a tensor of a spec's dtype, and checks its shape.

        A composite tensor must match its spec, and is returned unchanged.
        """
        if not isinstance(spec, TensorSpec):
            if not spec.is_compatible_with(value):
                raise self._wrong_structure(value)
            return value
        try:
            # NumPy casts what the program yields, as in TensorFlow: 1.5 to the int 1, None to NaN.
            array = value if spec.dtype == string else np.asarray(value, spec.dtype.np)
            tensor = convert_to_tensor(array, spec.dtype)
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgumentError(
                None,
                "PyFunc",
                f"`generator` yielded an element that could not be converted to the expected type. The expected type "
                f"was {spec.dtype.name}, but the yielded element was {value}.",
            ) from None
        if not spec.shape.is_compatible_with(tensor.shape):
            raise InvalidArgumentError(
                None,
                "PyFunc",
                f"`generator` yielded an element of shape {tensor.shape} where an element of shape {spec.shape} was "
                "expected.",
            )
        return tensor

    def _wrong_structure(self, value: Any) -> InvalidArgumentError:
        """Returns the error for a yielded value that does not have the element spec's structure."""
        return InvalidArgumentError(
            None,
            "PyFunc",
            "`generator` yielded an element that did not match the expected structure. The expected structure was "
            f"{self.element_spec}, but the yielded element was {value}.",
        )


def signature(output_types: Any, output_shapes: Any, output_signature: Any) -> Any:
    """Returns the element spec that ``from_generator`` was called with: a signature, or nested dtypes and shapes.

    Args:
      output_types: nested dtypes, or None.
      output_shapes: shapes in the same structure, or None if all are unknown.
      output_signature: nested specs, or None.

    Raises:
      TypeError: both the signature and dtypes or shapes are given, or neither.
    """
    if output_signature is not None:
        if output_types is not None or output_shapes is not None:
            raise TypeError("The `output_types` and `output_shapes` arguments can't be used with `output_signature`.")
        return output_signature
    if output_types is None:
        raise TypeError(
            "To specify the output signature you need to provide either the `output_signature` argument or the `output_types` argument."
        )
    types = nest.flatten(output_types)
    shapes = [None] * len(types) if output_shapes is None else flat_shapes(output_types, output_shapes)
    specs = [TensorSpec(shape, dtype) for shape, dtype in zip(shapes, types)]
    return nest.pack_sequence_as(output_types, specs)
