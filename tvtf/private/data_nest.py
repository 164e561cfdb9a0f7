"""Names of ``tensorflow.python.data.util.nest``: nests as elements of datasets, in which a list is a leaf.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/data/util/nest.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvtf.core import nest
from tvtf.private.nest import sequence_like


class _ListLeaf:
    """A list, as a leaf that the functions of `tvtf.core.nest` don't look into."""

    def __init__(self, value: list[Any]) -> None:
        self.value = value


def _with_list_leaves(structure: Any) -> Any:
    """Replaces the lists in a nested structure by leaves."""
    if isinstance(structure, list):
        return _ListLeaf(structure)
    if not nest.is_nested(structure):
        return structure
    return sequence_like(structure, [_with_list_leaves(part) for _, part in nest.named_parts(structure)])


def _leaf(value: Any) -> Any:
    """Returns the value of a leaf: the list itself for a leaf that stands for one."""
    return value.value if isinstance(value, _ListLeaf) else value


def is_nested(structure: Any) -> bool:
    """Returns whether a value is a nested structure, such as a tuple or dict, and not a list."""
    return nest.is_nested(_with_list_leaves(structure))


def flatten(structure: Any) -> list[Any]:
    """Returns the leaves of a nested structure in order, lists whole."""
    return [_leaf(value) for value in nest.flatten(_with_list_leaves(structure))]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """Packs leaves into a nest of the same structure. A list in ``structure`` takes one leaf."""
    return nest.pack_sequence_as(_with_list_leaves(structure), flat_sequence)


def map_structure(func: Callable[..., Any], *structure: Any, **check_types_dict: Any) -> Any:
    """Calls a function on the corresponding leaves of structures, lists whole. Returns the results in the same structure.

    ``check_types_dict`` may contain ``check_types``, whether the types of the structures must be the same.
    """
    nests = [_with_list_leaves(each) for each in structure]
    return nest.map_structure(lambda *leaves: func(*map(_leaf, leaves)), *nests, **check_types_dict)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises an error if two nests differ in structure, where lists are leaves.

    Args:
      nest1, nest2: the nests.
      check_types: whether the types of the structures are compared, too.

    Raises:
      ValueError: the structures differ.
      TypeError: the types of the structures differ, and ``check_types`` is set.
    """
    nest.assert_same_structure(_with_list_leaves(nest1), _with_list_leaves(nest2), check_types)


NAMES: dict[str, dict[str, Any]] = {
    "python.data.util.nest": {
        "assert_same_structure": assert_same_structure,
        "flatten": flatten,
        "is_nested": is_nested,
        "map_structure": map_structure,
        "pack_sequence_as": pack_sequence_as,
    }
}
