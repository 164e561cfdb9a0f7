"""Elements as nests of tensors, in which, unlike elsewhere, a list is one tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf import nest
from tvtf.composite import CompositeTensor
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
    return a if a == b else a.most_specific_compatible_type(b)


def flat_shapes(form: Any, shapes: Any) -> list[TensorShape]:
    """The shapes of the leaves of ``form``, given in its form: a list is a shape there."""
    if not nest.is_nested(form):
        return [TensorShape(shapes.tolist() if isinstance(shapes, np.ndarray) else shapes)]
    parts = [(form[k], shapes[k]) for k in sorted(form)] if isinstance(form, dict) else zip(form, shapes)
    return [shape for own, given in parts for shape in flat_shapes(own, given)]


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
    return packer(elements[0])([_stack(column, number) for number, column in enumerate(columns)])


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
