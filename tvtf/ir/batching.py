"""Values put together in batches and taken apart into rows: tensors, tensors made of tensors, and nests of them."""

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
    """The specs of values stacked ``size`` at a time."""
    return nest.map_structure(lambda s: _batched(s, size), spec)


def without_leading(spec: Any) -> Any:
    """The specs of the rows of values.

    Raises:
      ValueError: a value is a scalar.
    """
    return nest.map_structure(_row_of, spec)


def _batched(spec: Any, size: int | None) -> Any:
    return _batched_spec(spec, size) if isinstance(spec, TensorSpec) else _batchable(spec)._batch(size)


@lru_cache(maxsize=256)
def _batched_spec(spec: TensorSpec, size: int | None) -> TensorSpec:
    return TensorSpec(TensorShape([size]).concatenate(spec.shape), spec.dtype)


def _row_of(spec: Any) -> Any:
    if not isinstance(spec, TensorSpec):
        return _batchable(spec)._unbatch()
    if spec.shape.rank == 0:
        raise ValueError("Unbatching a tensor is only supported for rank >= 1")
    return spec if spec.shape.rank is None else TensorSpec(spec.shape[1:], spec.dtype)


def _batchable(spec: Any) -> BatchableTypeSpec:
    if not isinstance(spec, BatchableTypeSpec):
        raise TypeError(f"elements of {spec!r} can't be stacked or sliced: convert them to tensors first")
    return spec


# -- as what values are stacked


def encoding(spec: Any) -> list[Any]:
    """The types of what values of a nest of specs are stacked as."""
    return [leaf for each in nest.flatten(spec) for leaf in _encoding(each)]


def _encoding(spec: Any) -> list[Any]:
    own = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return [spec] if own is spec else encoding(own)


def encoded(spec: Any, value: Any, minimum_rank: int = 0) -> list[Any]:
    """What a value of a nest of specs is stacked as."""
    pairs = zip(nest.flatten(spec), nest.flatten(value))
    return [leaf for s, v in pairs for leaf in _encoded(s, v, minimum_rank)]


def _encoded(spec: Any, value: Any, minimum_rank: int) -> list[Any]:
    own = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return [value] if own is spec else encoded(own, _batchable(spec)._encode(value, minimum_rank), minimum_rank)


def decoded(spec: Any, leaves: Iterable[Any]) -> Any:
    """The value of a nest of specs that is stacked, or cut, as ``leaves``."""
    left = iter(leaves)
    return nest.pack_sequence_as(spec, [_decoded(each, left) for each in nest.flatten(spec)])


def _decoded(spec: Any, left: Iterator[Any]) -> Any:
    own = spec if isinstance(spec, TensorSpec) else _batchable(spec)._encoding_specs()
    return next(left) if own is spec else _batchable(spec)._decode(decoded(own, left))


def as_told(spec: Any, value: Any) -> Any:
    """A batch with what its spec tells, such as its size, in the fields that are no tensors."""
    return decoded(spec, encoded(spec, value, 1))


def is_encoded(values: Any) -> bool:
    """Whether there are tensors made of tensors, or specs of them, that are stacked as other values than themselves."""
    specs = (nest.spec_of(each) for each in nest.flatten(values) if nest.is_composite(each))
    return any(isinstance(s, BatchableTypeSpec) and s._encoding_specs() is not s for s in specs)


class OfEncoded:
    """A function of values, as one of what values of their types are stacked as."""

    def __init__(self, fn: Callable[[Any], Any], elems: Any) -> None:
        self.fn = fn
        self.spec = nest.map_structure(type_spec_from_value, elems)
        self.row = without_leading(self.spec)
        self.leaves = encoded(self.spec, elems, 1)
        self.result: Any = None

    def __call__(self, leaves: Any) -> Any:
        result = self.fn(decoded(self.row, leaves))
        self.result = nest.map_structure(type_spec_from_value, result)
        return encoded(self.result, result)

    def whole(self, leaves: Sequence[Any]) -> Any:
        """The stacked results."""
        size = leaves[0].shape[0] if leaves and leaves[0].shape.rank else None
        return decoded(leading(self.result, size), leaves)


# -- eager values


def stacked(values: Sequence[Any], spec: Any) -> Any:
    """Values as one with a leading axis; ``spec`` is what each of them is.

    Raises:
      InvalidArgumentError: the shapes of tensors differ.
    """
    if type(spec) is TensorSpec:
        return _stacked(spec, values, 0)
    leaves = nest.flatten(spec)
    if all(_encoding(each) == [each] for each in leaves):
        columns = zip(*map(nest.flattener(spec), values))
        return nest.pack_sequence_as(spec, [_stacked(s, c, i) for i, (s, c) in enumerate(zip(leaves, columns))])
    columns = zip(*(encoded(spec, value) for value in values))
    made = [_stacked(s, column, i) for i, (s, column) in enumerate(zip(encoding(spec), columns))]
    return decoded(leading(spec, None), made)


def rows(value: Any, spec: Any) -> Iterator[Any]:
    """The rows of a value of that spec."""
    columns = [_rows(s, leaf) for s, leaf in zip(encoding(spec), encoded(spec, value, 1))]
    row_spec = without_leading(spec)
    return (decoded(row_spec, row) for row in zip(*columns))


def _rows(spec: Any, leaf: Any) -> Iterable[Any]:
    if not isinstance(spec, TensorSpec):
        return spec._rows(leaf)  # type: ignore[no-any-return]
    array = leaf.eager_array()
    return (EagerTensor(np.asarray(row, array.dtype)) for row in array)


def _stacked(spec: Any, column: Sequence[Any], number: int) -> Any:
    if not isinstance(spec, TensorSpec):
        return spec._stacked(column)
    return EagerTensor(_stack([leaf.eager_array() for leaf in column], number))


def _stack(column: Sequence[np.ndarray], number: int) -> np.ndarray:
    shape = column[0].shape
    for index, other in enumerate(column):
        if other.shape != shape:
            raise InvalidArgumentError(
                None,
                "IteratorGetNext",
                f"Cannot batch tensors with different shapes in component {number}. First element had shape "
                f"{_brackets(column[0])} and element {index} had shape {_brackets(other)}.",
            )
    if not shape:
        return np.array([each[()] for each in column], column[0].dtype)
    rows = aligned_array.empty((len(column), *shape), column[0].dtype)
    np.concatenate(column, out=rows.reshape(-1, *shape[1:]))
    return rows


def _brackets(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"
