"""Handles elements as nests of tensors, in which, unlike elsewhere, a list is one tensor."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import EagerTensor, convert_to_tensor
from tvtf.core.tensor_spec import NoneTensorSpec, TensorSpec
from tvtf.data.dataset_arguments import NumberedObject

Element = Any


def tensors_of(value: Any) -> Element:
    """Converts a value to a dataset's element: every leaf to a tensor.

    Tuples and dicts stay nests, lists become tensors.
    """
    if isinstance(value, tuple) or nest.is_record(value):
        parts = [tensors_of(part) for part in nest.parts_of(value)]
        return nest.with_parts(value, parts)
    if isinstance(value, dict):
        converted = {key: tensors_of(child) for key, child in value.items()}
        return OrderedDict(converted) if isinstance(value, OrderedDict) else converted
    if value is None or isinstance(value, (CompositeTensor, NumberedObject)):
        return value
    return convert_to_tensor(value)


def result_of(value: Any) -> Element:
    """Converts the result of a user's function.

    A list is likely the results of an op and becomes a tuple, as in TensorFlow.
    """
    return tensors_of(tuple(value) if isinstance(value, list) else value)


def spec_of(element: Element) -> Any:
    """Returns the specs of an element's tensors, in its structure."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    """Returns the type spec of a leaf of an element: a tensor, composite tensor, dataset, iterator or None."""
    if leaf is None:
        return NoneTensorSpec()
    return (
        leaf._type_spec if isinstance(leaf, (CompositeTensor, NumberedObject)) else TensorSpec(leaf.shape, leaf.dtype)
    )


def relaxed(first: Any, second: Any) -> Any:
    """Returns the most specific element spec that covers two specs: their dims that differ become unknown.

    For example, shapes ``(2, 3)`` and ``(4, 3)`` give ``(None, 3)``.

    Args:
      first, second: the element specs.

    Raises:
      TypeError: the structures or dtypes differ.
    """
    try:
        return nest.map_structure(_common, first, second)
    except ValueError as error:
        raise TypeError(f"Incompatible dataset elements:\n  {first} vs.   {second}") from error


def _common(a: Any, b: Any) -> Any:
    return a if a == b else a.most_specific_compatible_type(b)


def flat_shapes(form: Any, shapes: Any) -> list[TensorShape]:
    """Returns the shapes of the leaves of ``form``; ``shapes`` has the same structure, with lists as shapes."""
    if not nest.is_nested(form):
        return [TensorShape(shapes.tolist() if isinstance(shapes, np.ndarray) else shapes)]
    parts = [(form[key], shapes[key]) for key in sorted(form)] if isinstance(form, dict) else _pairs(form, shapes)
    return [shape for part, part_shapes in parts for shape in flat_shapes(part, part_shapes)]


def _pairs(form: Any, shapes: Any) -> Any:
    return zip(nest.parts_of(form), nest.parts_of(shapes))


def arrays(element: Element) -> list[np.ndarray]:
    """Returns the arrays of an element's tensors, including the components of composite ones."""
    return [leaf.eager_array() for leaf in nest.flatten(element, expand_composites=True) if leaf is not None]


def array_getter(element_spec: Any) -> Callable[[Element], list[np.ndarray]]:
    """Specializes :func:`arrays` for elements of one spec; for dense tensors only, the result takes a third of its time."""
    if not all(type(spec) is TensorSpec for spec in nest.flatten(element_spec)):
        return arrays
    flatten = nest.flattener(element_spec)
    return lambda element: [tensor.eager_array() for tensor in flatten(element)]


def packer(like: Any) -> Callable[[Sequence[np.ndarray]], Element]:
    """Returns a function that packs arrays into an element with the structure of ``like``, an element or its specs."""
    if not nest.is_nested_or_composite(like):  # the common case, without the cost of packing a nest
        return lambda flat: EagerTensor(flat[0])
    form = nest.map_structure(lambda leaf: NoneTensorSpec() if leaf is None else leaf, like)
    return lambda flat: nest.pack_sequence_as(form, [EagerTensor(leaf) for leaf in flat], expand_composites=True)
