"""Elements as nests of tensors, in which, unlike elsewhere, a list is one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.composite import CompositeTensor, TypeSpec
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
        return {k: tensors_of(v) for k, v in value.items()}
    return value if isinstance(value, CompositeTensor) else convert_to_tensor(value)


def spec_of(element: Element) -> Any:
    """The specs of an element's tensors, in its form."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    return leaf._type_spec if isinstance(leaf, CompositeTensor) else TensorSpec(leaf.shape, leaf.dtype)


def leading(spec: Any, size: int | None) -> Any:
    """The specs of elements stacked ``size`` at a time."""
    return nest.map_structure(lambda s: _with_shape(s, TensorShape([size]).concatenate(s.shape)), spec)


def without_leading(spec: Any) -> Any:
    """The specs of the rows of elements.

    Raises:
      ValueError: an element is a scalar.
    """
    return nest.map_structure(lambda s: _with_shape(s, _tail(s.shape)), spec)


def _tail(shape: TensorShape) -> TensorShape:
    if shape.rank == 0:
        raise ValueError("Unbatching a tensor is only supported for rank >= 1")
    return shape if shape.rank is None else TensorShape(shape.as_list()[1:])


def _with_shape(spec: Any, shape: TensorShape) -> Any:
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"elements of {spec!r} can't be stacked or sliced here: convert them to dense tensors first")
    return TensorSpec(shape, spec.dtype)


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
    if isinstance(a, TypeSpec) or isinstance(b, TypeSpec):
        return a.most_specific_compatible_type(b)
    if a.dtype is not b.dtype:
        raise ValueError(f"types {a.dtype!r} and {b.dtype!r}")
    return TensorSpec(a.shape.most_specific_compatible_shape(b.shape), a.dtype)


def arrays(element: Element) -> list[np.ndarray]:
    return [leaf.eager_array() for leaf in nest.flatten(element)]


def packer(like: Any) -> Callable[[Sequence[np.ndarray]], Element]:
    """From arrays to an element in the form of ``like``."""
    if not nest.is_nested(like):
        return lambda found: EagerTensor(found[0])
    return lambda found: nest.pack_sequence_as(like, [EagerTensor(a) for a in found])


def stacked(elements: Sequence[Element]) -> Element:
    """Elements of one shape as one element with a leading axis.

    Raises:
      InvalidArgumentError: their shapes differ.
    """
    columns = zip(*map(arrays, elements))
    return packer(elements[0])([_stack(column) for column in columns])


def _stack(column: Sequence[np.ndarray]) -> np.ndarray:
    for other in column:
        if other.shape != column[0].shape:
            raise InvalidArgumentError(
                None,
                "IteratorGetNext",
                "Cannot add tensor to the batch: number of elements does not match. Shapes are: [tensor]: "
                f"{_brackets(column[0])}, [batch]: {_brackets(other)}",
            )
    return np.stack(column)


def _brackets(array: np.ndarray) -> str:
    return f"[{','.join(map(str, array.shape))}]"
