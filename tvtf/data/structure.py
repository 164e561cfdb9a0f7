"""Elements as nests of tensors, in which, unlike elsewhere, a list is one tensor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.composite import BatchableTypeSpec, CompositeTensor
from tvtf.errors import InvalidArgumentError
from tvtf.shape import TensorShape
from tvtf.spec import TensorSpec
from tvtf.tensor import EagerTensor, convert_to_tensor

Element = Any


def tensors_of(value: Any) -> Element:
    """``value`` with every leaf a tensor: tuples and dicts are kept, lists become tensors."""
    if isinstance(value, tuple):
        parts = [tensors_of(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        pairs = ((k, tensors_of(v)) for k, v in value.items())
        return OrderedDict(pairs) if isinstance(value, OrderedDict) else dict(pairs)
    return value if isinstance(value, CompositeTensor) else convert_to_tensor(value)


def result_of(value: Any) -> Element:
    """What a function of elements gives: a list is likely that of an op's results, so it is a tuple, as in TensorFlow."""
    return tensors_of(tuple(value) if isinstance(value, list) else value)


def spec_of(element: Element) -> Any:
    """The specs of an element's tensors, in its form."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    return leaf._type_spec if isinstance(leaf, CompositeTensor) else TensorSpec(leaf.shape, leaf.dtype)


def leading(spec: Any, size: int | None) -> Any:
    """The specs of elements stacked ``size`` at a time."""
    return nest.map_structure(lambda s: _batched(s, size), spec)


def without_leading(spec: Any) -> Any:
    """The specs of the rows of elements.

    Raises:
      ValueError: an element is a scalar.
    """
    return nest.map_structure(_row_of, spec)


def _batched(spec: Any, size: int | None) -> Any:
    if isinstance(spec, TensorSpec):
        return TensorSpec(TensorShape([size]).concatenate(spec.shape), spec.dtype)
    return _batchable(spec)._batch(size)


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


def rows(element: Element) -> Iterator[Element]:
    """The rows of an element's leaves."""
    columns = [_rows(leaf) for leaf in nest.flatten(element)]
    return (nest.pack_sequence_as(element, row) for row in zip(*columns))


def _rows(leaf: Any) -> Iterable[Any]:
    if isinstance(leaf, CompositeTensor):
        return _batchable(leaf._type_spec)._rows(leaf)
    array = leaf.eager_array()
    return (EagerTensor(np.asarray(row, array.dtype)) for row in array)


def relaxed(one: Any, other: Any) -> Any:
    """Specs that cover both.

    Raises:
      TypeError: their forms or dtypes differ.
    """
    try:
        return nest.map_structure(_common, one, other)
    except ValueError as error:
        raise TypeError(f"Incompatible dataset elements:\n  {one} vs.   {other}") from error


def _common(a: Any, b: Any) -> Any:
    return a if a == b else a.most_specific_compatible_type(b)


def flat_shapes(form: Any, shapes: Any) -> list[TensorShape]:
    """The shapes of the leaves of ``form``, given in its form: a list is a shape there."""
    if not nest.is_nested(form):
        return [TensorShape(shapes.tolist() if isinstance(shapes, np.ndarray) else shapes)]
    parts = [(form[k], shapes[k]) for k in sorted(form)] if isinstance(form, dict) else zip(form, shapes)
    return [shape for own, given in parts for shape in flat_shapes(own, given)]


def arrays(element: Element) -> list[np.ndarray]:
    """The arrays of its tensors, those of composite ones among them."""
    return [leaf.eager_array() for leaf in nest.flatten(element, expand_composites=True)]


def packer(like: Any) -> Callable[[Sequence[np.ndarray]], Element]:
    """From arrays to an element in the form of ``like``, an element or the specs of one."""
    if not nest.is_nested_or_composite(like):
        return lambda found: EagerTensor(found[0])
    return lambda found: nest.pack_sequence_as(like, [EagerTensor(a) for a in found], expand_composites=True)


def stacked(elements: Sequence[Element], spec: Any) -> Element:
    """Elements as one with a leading axis; ``spec`` is what each of them is.

    Raises:
      InvalidArgumentError: the shapes of tensors differ.
    """
    columns = zip(*map(nest.flatten, elements))
    made = [_stacked(s, column, i) for i, (s, column) in enumerate(zip(nest.flatten(spec), columns))]
    return nest.pack_sequence_as(spec, made)


def _stacked(spec: Any, column: Sequence[Any], number: int) -> Any:
    if not isinstance(spec, TensorSpec):
        return _batchable(spec)._stacked(column)
    return EagerTensor(_stack([leaf.eager_array() for leaf in column], number))


def _stack(column: Sequence[np.ndarray], number: int) -> np.ndarray:
    for index, other in enumerate(column):
        if other.shape != column[0].shape:
            raise InvalidArgumentError(
                None,
                "IteratorGetNext",
                f"Cannot batch tensors with different shapes in component {number}. First element had shape "
                f"{_brackets(column[0])} and element {index} had shape {_brackets(other)}.",
            )
    return np.stack(column)


def _brackets(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"
