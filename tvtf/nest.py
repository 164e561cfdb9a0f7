"""Nested structures of tensors: lists, tuples, named tuples and dicts (by sorted key), as ``tf.nest`` walks them.

Source: https://www.tensorflow.org/api_docs/python/tf/nest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

_LEAF = (str, bytes)


def is_nested(structure: Any) -> bool:
    """True for a sequence (strings excluded) or a mapping.

    >>> is_nested([1]), is_nested("ab")
    (True, False)
    """
    return _is_nested_type(type(structure))  # type: ignore[arg-type] # types are hashable


@lru_cache(maxsize=1024)
def _is_nested_type(kind: type) -> bool:
    return issubclass(kind, (list, tuple, Mapping)) and not issubclass(kind, _LEAF)


def _children(structure: Any) -> Iterable[Any]:
    if isinstance(structure, Mapping):
        return (structure[k] for k in sorted_keys(structure))
    return structure


def sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """The mapping's keys in the order in which they are flattened."""
    try:
        return sorted(mapping)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def flatten(structure: Any) -> list[Any]:
    """The leaves, depth first.

    >>> flatten({"b": [2, (3,)], "a": 1})
    [1, 2, 3]
    """
    return list(_leaves(structure)) if is_nested(structure) else [structure]


def _leaves(structure: Any) -> Iterator[Any]:
    if not is_nested(structure):
        yield structure
        return
    for child in _children(structure):
        yield from _leaves(child)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any]) -> Any:
    """``flat_sequence`` in the form of ``structure``.

    >>> pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3])
    {'b': [2, 3], 'a': 1}

    Raises:
      ValueError: when the number of leaves differs.
    """
    flat = list(flat_sequence)
    if len(flat) == 1 and not is_nested(structure):
        return flat[0]
    expected = len(flatten(structure))
    if len(flat) != expected:
        raise ValueError(
            f"Could not pack sequence. Structure had {expected} atoms, but flat_sequence had {len(flat)} items. "
            f"Structure: {structure}, flat_sequence: {flat}."
        )
    return _rebuild(structure, iter(flat))


def _rebuild(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_nested(structure):
        return next(leaves)
    if isinstance(structure, Mapping):
        packed = {k: _rebuild(structure[k], leaves) for k in sorted_keys(structure)}
        return _same_mapping(structure, packed)
    children = [_rebuild(child, leaves) for child in structure]
    return _same_sequence(structure, children)


def _same_mapping(like: Mapping[Any, Any], packed: dict[Any, Any]) -> Any:
    ordered = {k: packed[k] for k in like}
    return ordered if type(like) is dict or not isinstance(like, dict) else _dict_like(like, ordered)


def _dict_like(like: dict[Any, Any], ordered: dict[Any, Any]) -> Any:
    copy = like.copy()
    copy.update(ordered)
    return copy


def _same_sequence(like: Any, children: list[Any]) -> Any:
    if hasattr(like, "_fields"):
        return type(like)(*children)
    return tuple(children) if isinstance(like, tuple) else children


def map_structure(function: Callable[..., Any], *structures: Any, **kwargs: Any) -> Any:
    """Applies ``function`` to the corresponding leaves of equally formed structures.

    >>> map_structure(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    check_types = kwargs.pop("check_types", True)
    kwargs.pop("expand_composites", None)
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types=check_types)
    leaves = zip(*map(flatten, structures))
    return pack_sequence_as(structures[0], [function(*each) for each in leaves])


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True) -> None:
    """Raises ValueError where the forms differ and TypeError where only their container types do."""
    if is_nested(nest1) != is_nested(nest2) or (is_nested(nest1) and not _same_arity(nest1, nest2)):
        raise ValueError(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: type={type(nest1).__name__} str={nest1}\n\n"
            f"Second structure: type={type(nest2).__name__} str={nest2}"
        )
    if not is_nested(nest1):
        return
    if check_types and not _same_container(nest1, nest2):
        raise TypeError(
            "The two structures don't have the same sequence type. "
            f"Input structure has type {type(nest1)!r}, while shallow structure has type {type(nest2)!r}."
        )
    for a, b in zip(_children(nest1), _children(nest2)):
        assert_same_structure(a, b, check_types)


def _same_arity(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b)
    return len(a) == len(b)


def _same_container(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        return isinstance(a, Mapping) and isinstance(b, Mapping)
    return isinstance(a, type(b)) or isinstance(b, type(a))
