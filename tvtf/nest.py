"""Nested structures of tensors: lists, tuples, named tuples and dicts (by sorted key), as ``tf.nest`` walks them.

A tensor made of tensors is a leaf, and with ``expand_composites=True`` a structure of its components; so is its spec.

Source: https://www.tensorflow.org/api_docs/python/tf/nest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from tvtf.composite import CompositeTensor, TypeSpec

_LEAF = (str, bytes)


def is_nested(seq: Any) -> bool:
    """True for a sequence (strings excluded) or a mapping.

    >>> is_nested([1]), is_nested("ab")
    (True, False)
    """
    return _is_nested_type(type(seq))  # type: ignore[arg-type] # types are hashable


@lru_cache(maxsize=1024)
def _is_nested_type(kind: type) -> bool:
    return issubclass(kind, (list, tuple, Mapping)) and not issubclass(kind, _LEAF)


def is_composite(value: Any) -> bool:
    """True for a tensor made of tensors, and for its spec."""
    return _is_composite_type(type(value))  # type: ignore[arg-type] # types are hashable


@lru_cache(maxsize=1024)
def _is_composite_type(kind: type) -> bool:
    return issubclass(kind, CompositeTensor) or (issubclass(kind, TypeSpec) and not kind.is_leaf)


def is_nested_or_composite(structure: Any) -> bool:
    return is_nested(structure) or is_composite(structure)


def _branching(expand_composites: bool) -> Callable[[Any], bool]:
    """What is taken apart."""
    return is_nested_or_composite if expand_composites else is_nested


def spec_of(composite: Any) -> TypeSpec:
    """The spec of a composite tensor; a spec is its own."""
    return composite if isinstance(composite, TypeSpec) else composite._type_spec


def components_of(composite: Any) -> Any:
    """The nest of components of a composite tensor, or of specs of a spec."""
    if isinstance(composite, TypeSpec):
        return composite._component_specs
    return composite._type_spec._to_components(composite)


def _children(structure: Any) -> Iterable[Any]:
    if isinstance(structure, Mapping):
        return (structure[k] for k in sorted_keys(structure))
    return (components_of(structure),) if is_composite(structure) else structure


def sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """The mapping's keys in the order in which they are flattened."""
    try:
        return sorted(mapping)
    except TypeError:
        raise TypeError("nest only supports dicts with sortable keys.") from None


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """The leaves, depth first.

    >>> flatten({"b": [2, (3,)], "a": 1})
    [1, 2, 3]
    """
    return _leaves(structure, _branching(expand_composites))


def _leaves(structure: Any, branches: Callable[[Any], bool]) -> list[Any]:
    if not branches(structure):
        return [structure]
    children = list(_children(structure))
    if not any(map(branches, children)):
        return children
    return [leaf for child in children for leaf in _leaves(child, branches)]


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """``flat_sequence`` in the form of ``structure``.

    >>> pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3])
    {'b': [2, 3], 'a': 1}

    Raises:
      ValueError: when the number of leaves differs.
    """
    flat = list(flat_sequence)
    branches = _branching(expand_composites)
    if len(flat) == 1 and not branches(structure):
        return flat[0]
    expected = len(flatten(structure, expand_composites))
    if len(flat) != expected:
        raise ValueError(
            f"Could not pack sequence. Structure had {expected} atoms, but flat_sequence had {len(flat)} items.  "
            f"Structure: {structure!s}, flat_sequence: {flat}."
        )
    return _rebuild(structure, iter(flat), branches)


def packer(structure: Any) -> Callable[[Iterator[Any]], Any]:
    """What packs leaves, those of composite tensors among them, in the form of ``structure``, again and again.

    >>> packer({"b": (0, 0), "a": 0})(iter([1, 2, 3]))
    {'b': (2, 3), 'a': 1}
    """
    if not is_nested_or_composite(structure):
        return next
    if is_composite(structure):
        make, parts = spec_of(structure)._from_components, packer(components_of(structure))
        return lambda leaves: make(parts(leaves))
    if isinstance(structure, Mapping):
        of_keys = {k: packer(structure[k]) for k in sorted_keys(structure)}
        return lambda leaves: _same_mapping(structure, {k: pack(leaves) for k, pack in of_keys.items()})
    children = list(map(packer, structure))
    return lambda leaves: _same_sequence(structure, [pack(leaves) for pack in children])


def _rebuild(structure: Any, leaves: Iterator[Any], branches: Callable[[Any], bool]) -> Any:
    if not branches(structure):
        return next(leaves)
    if is_composite(structure):
        return spec_of(structure)._from_components(_rebuild(components_of(structure), leaves, branches))
    if isinstance(structure, Mapping):
        packed = {k: _rebuild(structure[k], leaves, branches) for k in sorted_keys(structure)}
        return _same_mapping(structure, packed)
    children = [_rebuild(child, leaves, branches) for child in structure]
    return _same_sequence(structure, children)


def _same_mapping(like: Mapping[Any, Any], packed: dict[Any, Any]) -> Any:
    ordered = {k: packed[k] for k in like}
    if type(like) is dict:
        return ordered
    return _dict_like(like, ordered) if isinstance(like, dict) else type(like)(ordered)  # type: ignore[call-arg]


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
    check_types, expand = kwargs.pop("check_types", True), kwargs.pop("expand_composites", False)
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types, expand)
    leaves = zip(*(flatten(s, expand) for s in structures))
    return pack_sequence_as(structures[0], [function(*each) for each in leaves], expand)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raises ValueError where the forms differ and TypeError where only their container types do."""
    branches = _branching(expand_composites)
    if branches(nest1) != branches(nest2) or (branches(nest1) and not _same_form(nest1, nest2)):
        raise ValueError(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: type={type(nest1).__name__} str={nest1!s}\n\n"
            f"Second structure: type={type(nest2).__name__} str={nest2!s}"
        )
    if not branches(nest1):
        return
    if check_types and not _same_container(nest1, nest2):
        raise TypeError(
            "The two structures don't have the same sequence type. "
            f"Input structure has type {type(nest1)!r}, while shallow structure has type {type(nest2)!r}."
        )
    for a, b in zip(_children(nest1), _children(nest2)):
        assert_same_structure(a, b, check_types, expand_composites)


def _same_form(a: Any, b: Any) -> bool:
    if is_composite(a) or is_composite(b):
        return is_composite(a) and is_composite(b) and _have_common_type(spec_of(a), spec_of(b))
    return _same_arity(a, b)


def _have_common_type(a: TypeSpec, b: TypeSpec) -> bool:
    return a.most_specific_common_supertype([b]) is not None


def _same_arity(a: Any, b: Any) -> bool:
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return set(a) == set(b)
    return len(a) == len(b)


def _same_container(a: Any, b: Any) -> bool:
    if is_composite(a):
        return True
    if isinstance(a, Mapping) or isinstance(b, Mapping):
        return isinstance(a, Mapping) and isinstance(b, Mapping)
    return isinstance(a, type(b)) or isinstance(b, type(a))
