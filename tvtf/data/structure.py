"""Elements as nests of tensors, in which, unlike elsewhere, a list is one tensor."""

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
from tvtf.data.dataset_arguments import Held

Element = Any


def tensors_of(value: Any) -> Element:
    """``value`` with every leaf a tensor: tuples and dicts are kept, lists become tensors."""
    if isinstance(value, tuple) or nest.is_record(value):
        return nest.with_parts(value, [tensors_of(v) for v in nest.parts_of(value)])
    if isinstance(value, dict):
        pairs = ((k, tensors_of(v)) for k, v in value.items())
        return OrderedDict(pairs) if isinstance(value, OrderedDict) else dict(pairs)
    return value if value is None or isinstance(value, (CompositeTensor, Held)) else convert_to_tensor(value)


def result_of(value: Any) -> Element:
    """What a function of elements gives: a list is likely that of an op's results, so it is a tuple, as in TensorFlow."""
    return tensors_of(tuple(value) if isinstance(value, list) else value)


def spec_of(element: Element) -> Any:
    """The specs of an element's tensors, in its form."""
    return nest.map_structure(_leaf_spec, element)


def _leaf_spec(leaf: Any) -> Any:
    if leaf is None:
        return NoneTensorSpec()
    return leaf._type_spec if isinstance(leaf, (CompositeTensor, Held)) else TensorSpec(leaf.shape, leaf.dtype)


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
    parts = [(form[k], shapes[k]) for k in sorted(form)] if isinstance(form, dict) else _pairs(form, shapes)
    return [shape for own, given in parts for shape in flat_shapes(own, given)]


def _pairs(form: Any, shapes: Any) -> Any:
    return zip(nest.parts_of(form), nest.parts_of(shapes))


def arrays(element: Element) -> list[np.ndarray]:
    """The arrays of its tensors, those of composite ones among them."""
    return [leaf.eager_array() for leaf in nest.flatten(element, expand_composites=True) if leaf is not None]


def packer(like: Any) -> Callable[[Sequence[np.ndarray]], Element]:
    """From arrays to an element in the form of ``like``, an element or the specs of one."""
    if not nest.is_nested_or_composite(like):
        return lambda found: EagerTensor(found[0])
    form = nest.map_structure(lambda leaf: NoneTensorSpec() if leaf is None else leaf, like)
    return lambda found: nest.pack_sequence_as(form, [EagerTensor(a) for a in found], expand_composites=True)
