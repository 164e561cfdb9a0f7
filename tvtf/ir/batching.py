"""Batching: stacks values along a new leading axis and slices them into rows.

The values are tensors, composite tensors (ragged, sparse, extension types) and nests of them. A composite tensor is encoded
as one or more leaves that can be stacked, and decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tvtf.core import aligned_array, nest
from tvtf.core.composite import BatchableTypeSpec
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor
from tvtf.core.tensor_spec import TensorSpec, type_spec_from_value
from tvtf.errors import InvalidArgumentError


def is_batchable(spec: Any) -> bool:
    return isinstance(spec, (TensorSpec, BatchableTypeSpec))


def leading(spec: Any, size: int | None) -> Any:
    """Returns a nest of type specs with a new leading axis of ``size``: the specs of batches."""
    return nest.map_structure(lambda s: _batch_spec(s, size), spec)


def without_leading(spec: Any) -> Any:
    """Returns a nest of type specs without their leading axis: the specs of the rows of batched values.

    Raises:
      ValueError: a value is a scalar.
    """
    return nest.map_structure(_row_spec, spec)


def _batch_spec(spec: Any, size: int | None) -> Any:
    return _tensor_batch_spec(spec, size) if isinstance(spec, TensorSpec) else _batchable(spec)._batch(size)


@lru_cache(maxsize=256)
def _tensor_batch_spec(spec: TensorSpec, size: int | None) -> TensorSpec:
    return TensorSpec(TensorShape([size]).concatenate(spec.shape), spec.dtype)


def _row_spec(spec: Any) -> Any:
    """Returns the type spec of a row of values of the type ``spec``."""
    if not isinstance(spec, TensorSpec):
        return _batchable(spec)._unbatch()
    if spec.shape.rank == 0:
        raise ValueError("Unbatching a tensor is only supported for rank >= 1")
    return spec if spec.shape.rank is None else TensorSpec(spec.shape[1:], spec.dtype)


def _batchable(spec: Any) -> BatchableTypeSpec:
    if not isinstance(spec, BatchableTypeSpec):
        raise TypeError(f"elements of {spec!r} can't be stacked or sliced: convert them to tensors first")
    return spec


# -- encoding of composite tensors as leaves that can be stacked


def encoding(spec: Any) -> list[Any]:
    """Returns the type specs of the leaves of encoded values, for values of the types in the nest ``spec``."""
    return [leaf for each in nest.flatten(spec) for leaf in _encoding_of_leaf(each)]


def _encoding_of_leaf(spec: Any) -> list[Any]:
    """Returns the type specs of the leaves that values of one type spec are encoded as."""
    # A spec that is its own encoding stacks its values itself.
    inner = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return [spec] if inner is spec else encoding(inner)


def encoded(spec: Any, value: Any, minimum_rank: int = 0) -> list[Any]:
    """Encodes a value as a list of leaves that can be stacked. ``spec`` is the nest of the value's type specs."""
    pairs = zip(nest.flatten(spec), nest.flatten(value))
    return [leaf for each_spec, each in pairs for leaf in _encoded(each_spec, each, minimum_rank)]


def _encoded(spec: Any, value: Any, minimum_rank: int) -> list[Any]:
    inner = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return [value] if inner is spec else encoded(inner, _batchable(spec)._encode(value, minimum_rank), minimum_rank)


def decoded(spec: Any, leaves: Iterable[Any]) -> Any:
    """Decodes a list of leaves to a value of the types in the nest ``spec``: the inverse of :func:`encoded`."""
    remaining = iter(leaves)
    return nest.pack_sequence_as(spec, [_decoded(each, remaining) for each in nest.flatten(spec)])


def _decoded(spec: Any, remaining: Iterator[Any]) -> Any:
    """Decodes a tensor or composite tensor from the next leaves of ``remaining``."""
    inner = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return next(remaining) if inner is spec else _batchable(spec)._decode(decoded(inner, remaining))


def with_spec_fields(spec: Any, value: Any) -> Any:
    """Returns a batch with the fields of its type spec: encodes the batch and decodes it by the spec.

    Fields that are not tensors, such as the batch size, then come from the spec.
    """
    return decoded(spec, encoded(spec, value, 1))


def is_encoded(values: Any) -> bool:
    """Returns whether a nest contains a composite tensor (or type spec) that is encoded as values of other types."""
    specs = (nest.spec_of(each) for each in nest.flatten(values) if nest.is_composite(each))
    return any(isinstance(spec, BatchableTypeSpec) and spec._encoding_specs() is not spec for spec in specs)


class EncodedFunction:
    """A function on rows of values, wrapped to take and return encoded leaves."""

    def __init__(self, fn: Callable[[Any], Any], elems: Any) -> None:
        """Wraps ``fn`` for the rows of ``elems``, and encodes ``elems`` as ``leaves``."""
        self.fn = fn
        self.spec = nest.map_structure(type_spec_from_value, elems)
        self.row = without_leading(self.spec)
        self.leaves = encoded(self.spec, elems, 1)
        self.result: Any = None

    def __call__(self, leaves: Any) -> Any:
        """Calls the function on a decoded row, and returns the encoded result and records the result's type specs."""
        result = self.fn(decoded(self.row, leaves))
        self.result = nest.map_structure(type_spec_from_value, result)
        return encoded(self.result, result)

    def whole(self, leaves: Sequence[Any]) -> Any:
        """Decodes the results of all rows, given as leaves that are stacked along a leading axis."""
        size = leaves[0].shape[0] if leaves and leaves[0].shape.rank else None
        return decoded(leading(self.result, size), leaves)


# -- eager values


def stacked(values: Sequence[Any], spec: Any) -> Any:
    """Stacks eager values, the elements of a batch, along a new leading axis. ``spec`` is the type of each value.

    Raises:
      InvalidArgumentError: the shapes of tensors differ.
    """
    if type(spec) is TensorSpec:  # a single component
        return _stacked_leaf(spec, values, 0)
    leaf_specs = nest.flatten(spec)
    needs_encoding = any(_encoding_of_leaf(leaf_spec) != [leaf_spec] for leaf_spec in leaf_specs)
    if needs_encoding:
        leaf_specs = encoding(spec)
        columns = zip(*(encoded(spec, value) for value in values))  # a column: the same leaf of all values
    else:  # nests of tensors alone
        columns = zip(*map(nest.flattener(spec), values))
    stacks = [_stacked_leaf(leaf_spec, column, i) for i, (leaf_spec, column) in enumerate(zip(leaf_specs, columns))]
    return decoded(leading(spec, None), stacks) if needs_encoding else nest.pack_sequence_as(spec, stacks)


def rows(value: Any, spec: Any) -> Iterator[Any]:
    """Yields the rows of an eager value of type ``spec``, its slices along the leading axis."""
    columns = [_leaf_rows(s, leaf) for s, leaf in zip(encoding(spec), encoded(spec, value, 1))]
    row_spec = without_leading(spec)
    return (decoded(row_spec, row) for row in zip(*columns))


def _leaf_rows(spec: Any, leaf: Any) -> Iterable[Any]:
    if not isinstance(spec, TensorSpec):
        return spec._rows(leaf)  # type: ignore[no-any-return]
    array = leaf.eager_array()
    return (EagerTensor(np.asarray(row, array.dtype)) for row in array)


def _stacked_leaf(spec: Any, column: Sequence[Any], component: int) -> Any:
    """Stacks the same leaf of all values in a batch. ``component`` is the leaf's index, for error messages."""
    if not isinstance(spec, TensorSpec):
        return spec._stacked(column)
    return EagerTensor(_stack([leaf.eager_array() for leaf in column], component))


def _stack(elements: Sequence[np.ndarray], component: int) -> np.ndarray:
    """Stacks the arrays of one component of a dataset's elements along a new leading axis, in aligned memory.

    ``component`` is the component's index in an element, for the error message.

    Raises:
      InvalidArgumentError: the arrays' shapes differ.
    """
    shape = elements[0].shape
    for index, element in enumerate(elements):
        if element.shape != shape:
            raise InvalidArgumentError(
                None,
                "IteratorGetNext",
                f"Cannot batch tensors with different shapes in component {component}. First element had shape "
                f"{_brackets(elements[0])} and element {index} had shape {_brackets(element)}.",
            )
    if not shape:
        # NumPy doesn't concatenate scalars.
        return np.array([element[()] for element in elements], elements[0].dtype)
    rows = aligned_array.empty((len(elements), *shape), elements[0].dtype)
    # The stack has the memory layout of the arrays concatenated along their first axis.
    np.concatenate(elements, out=rows.reshape(-1, *shape[1:]))
    return rows


def _brackets(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"
