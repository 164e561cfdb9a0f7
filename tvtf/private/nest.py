"""Names of ``tensorflow.python.util.nest``: walks structures as deep as a shallow one, and with the paths of their leaves.

Source: https://github.com/tensorflow/tensorflow/blob/v2.21.0/tensorflow/python/util/nest.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tvtf.core import nest

Path = tuple[Any, ...]


def _children_predicate(expand_composites: bool) -> Callable[[Any], bool]:
    """Returns the function that decides whether a value is a nested structure or a leaf.

    With ``expand_composites``, composite tensors such as RaggedTensors count as structures of their components.
    """
    return nest.is_nested_or_composite if expand_composites else nest.is_nested


def _items(structure: Any) -> list[tuple[Any, Any]]:
    """Returns the children of a nested structure, each with its key, field name or index.

    A composite tensor has one child, the list of its components, with the name of its type.
    """
    if nest.is_composite(structure):
        return [(nest.spec_of(structure).value_type.__name__, nest.components_of(structure))]
    if is_namedtuple(structure):
        return list(zip(structure._fields, structure))
    return nest.named_parts(structure)


def is_namedtuple(instance: Any, strict: bool = False) -> bool:
    """Returns whether a value is a named tuple. The parameter ``strict`` is TensorFlow's, and has no effect."""
    return isinstance(instance, tuple) and hasattr(instance, "_fields")


def is_mapping(obj: Any) -> bool:
    return isinstance(obj, Mapping)


def is_attrs(obj: Any) -> bool:
    """Returns whether a value's class was made by ``attrs``."""
    return hasattr(type(obj), "__attrs_attrs__")


def sequence_like(instance: Any, args: Sequence[Any]) -> Any:
    """Makes a nested structure of the same type as ``instance`` from the children ``args``.

    For a mapping, the children must be in the order of the sorted keys. For example, ``{"b": 1, "a": 2}`` and ``[3, 4]`` give
    ``{"b": 4, "a": 3}``.
    """
    if isinstance(instance, Mapping):
        children = dict(zip(nest.sorted_keys(instance), args))
        return type(instance)((key, children[key]) for key in instance)  # type: ignore[call-arg]
    if nest.is_composite(instance):
        (components,) = args
        return nest.spec_of(instance)._from_components(components)
    return nest.with_parts(instance, list(args))


# -- as deep as another structure


def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Checks that ``input_tree`` has the same nested containers as ``shallow_tree``.

    In place of a leaf of ``shallow_tree``, ``input_tree`` may have any nested structure.

    Args:
      shallow_tree, input_tree: the nested structures.
      check_types: whether containers must have the same type.
      expand_composites: whether composite tensors count as containers of their components.

    Raises:
      TypeError: a container of ``shallow_tree`` is a leaf, or a container of a different type, in ``input_tree``.
      ValueError: keys or lengths of containers differ.
    """
    has_children = _children_predicate(expand_composites)
    if not has_children(shallow_tree):
        return
    _check_same_container(shallow_tree, input_tree, check_types, has_children)
    shallow_items = _items(shallow_tree)
    input_items = dict(_items(input_tree))
    if len(shallow_items) != len(input_items):
        raise ValueError(
            "The two structures don't have the same sequence length. "
            f"Input structure has length {len(input_items)}, while shallow structure has length {len(shallow_items)}."
        )
    input_children = _corresponding_parts(shallow_tree, input_items)
    for (_, shallow_child), input_child in zip(shallow_items, input_children):
        assert_shallow_structure(shallow_child, input_child, check_types, expand_composites)


def _check_same_container(shallow: Any, deep: Any, check_types: bool, has_children: Callable[[Any], bool]) -> None:
    """Checks that ``deep`` is a container of the same type as the container ``shallow``.

    Without ``check_types``, it may be of another type. ``has_children`` returns whether a value is a container.

    Raises:
      TypeError: ``deep`` is a leaf, or a container of a different type.
    """
    if not has_children(deep):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(deep)}."
        )
    if nest.is_composite(shallow) or nest.is_composite(deep):
        nest.assert_same_structure(shallow, deep, check_types, expand_composites=True)
    elif check_types and not nest._same_container(shallow, deep):
        raise TypeError(
            "The two structures don't have the same sequence type. "
            f"Input structure has type {type(deep)}, while shallow structure has type {type(shallow)}."
        )


def _corresponding_parts(shallow_tree: Any, deep: dict[Any, Any]) -> list[Any]:
    """Returns the children of a deep structure in the order of the children of ``shallow_tree``.

    ``deep`` contains the children of the deep structure by key or index. For a mapping, the order is that of the sorted keys.

    Raises:
      ValueError: a key of ``shallow_tree`` is missing in the deep structure.
    """
    if not isinstance(shallow_tree, Mapping):
        return list(deep.values())
    missing = [key for key in nest.sorted_keys(shallow_tree) if key not in deep]
    if missing:
        raise ValueError(
            "The shallow_tree's keys are not a subset of the input_tree's keys. The shallow_tree has the following keys "
            f"that are not in the input_tree: {missing}."
        )
    return [deep[key] for key in nest.sorted_keys(shallow_tree)]


def _leaves_up_to(
    shallow: Any, deep: Any, has_children: Callable[[Any], bool], path: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Yields the parts of ``deep`` at the positions of the leaves of ``shallow``, each with its path.

    For example, ``{"a": 0}`` and ``{"a": [1, 2]}`` give ``(("a",), [1, 2])``. ``path`` contains the keys and indices of
    ``shallow`` in the whole structure. ``has_children`` returns whether a value is a structure, and not a leaf.
    """
    if not has_children(shallow):
        yield path, deep
        return
    deep_children = _corresponding_parts(shallow, dict(_items(deep)))
    for (key, shallow_child), deep_child in zip(_items(shallow), deep_children):
        yield from _leaves_up_to(shallow_child, deep_child, has_children, (*path, key))


def flatten_with_tuple_paths_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> list[tuple[Path, Any]]:
    """Returns the parts of ``input_tree`` at the positions of the leaves of ``shallow_tree``, each with its path."""
    assert_shallow_structure(shallow_tree, input_tree, check_types, expand_composites)
    return list(_leaves_up_to(shallow_tree, input_tree, _children_predicate(expand_composites)))


def flatten_up_to(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> list[Any]:
    """Returns the parts of ``input_tree`` at the positions of the leaves of ``shallow_tree``.

    For example, ``{"a": 0}`` and ``{"a": [1, 2]}`` give ``[[1, 2]]``.

    Args:
      shallow_tree, input_tree: the nested structures.
      check_types: whether containers must have the same type.
      expand_composites: whether composite tensors count as containers of their components.
    """
    with_paths = flatten_with_tuple_paths_up_to(shallow_tree, input_tree, check_types, expand_composites)
    return [value for _, value in with_paths]


def map_structure_with_tuple_paths_up_to(shallow_tree: Any, func: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Calls ``func(path, *values)`` for each leaf of ``shallow_tree``. Returns the results in the structure of ``shallow_tree``.

    ``values`` are the parts of the inputs at the position of the leaf.

    Raises:
      ValueError: there are no inputs.
    """
    if not inputs:
        raise ValueError("Cannot map over no sequences")
    check_types = kwargs.pop("check_types", True)
    expand_composites = kwargs.pop("expand_composites", False)
    flat_inputs = []  # for each input, a list of pairs of a path and a value
    for tree in inputs:
        flat_inputs.append(flatten_with_tuple_paths_up_to(shallow_tree, tree, check_types, expand_composites))
    results = []
    for pairs in zip(*flat_inputs):
        path, _ = pairs[0]  # the paths are the same in all inputs
        values = [value for _, value in pairs]
        results.append(func(path, *values, **kwargs))
    return nest.pack_sequence_as(shallow_tree, results, expand_composites)


def map_structure_up_to(shallow_tree: Any, func: Any, *inputs: Any, **kwargs: Any) -> Any:
    """Calls ``func`` on the inputs' parts at each leaf of ``shallow_tree``. Returns the results in this structure."""
    return map_structure_with_tuple_paths_up_to(
        shallow_tree, lambda _, *values, **options: func(*values, **options), *inputs, **kwargs
    )


def get_traverse_shallow_structure(traverse_fn: Any, structure: Any, expand_composites: bool = False) -> Any:
    """Returns a structure of bools that says which parts of ``structure`` are to be traversed.

    The bools are nested like ``structure``, but only as deep as ``traverse_fn`` decides.

    Args:
      traverse_fn: returns whether to traverse a part of the structure, or a bool for each of the part's children.
      structure: the nest to traverse.
      expand_composites: whether composite tensors count as structures.

    Raises:
      TypeError: ``traverse_fn`` returns neither a bool nor bools in the form of the part.
    """
    has_children = _children_predicate(expand_composites)
    decision = traverse_fn(structure)
    if not has_children(structure):
        _check_flag(decision)
        return decision
    if not has_children(decision):
        _check_flag(decision)
        flags = [decision for _ in _items(structure)] if decision else None
    else:
        assert_shallow_structure(decision, structure, expand_composites=expand_composites)
        flags = [flag for _, flag in _items(decision)]
    if flags is None:
        return False
    children = [child for _, child in _items(structure)]
    child_structures = [_child_flags(traverse_fn, *each, expand_composites) for each in zip(flags, children)]
    return sequence_like(structure, child_structures)


def _child_flags(traverse_fn: Any, is_traversed: Any, child: Any, expand_composites: bool) -> Any:
    """Returns False for a child that is not traversed, or else the structure of bools for the child."""
    _check_flag(is_traversed)
    return is_traversed and get_traverse_shallow_structure(traverse_fn, child, expand_composites)


def _check_flag(flag: Any) -> None:
    """Raises TypeError unless the result of a user's ``traverse_fn`` is a bool."""
    if not isinstance(flag, bool):
        raise TypeError(f"traverse_fn returned a non-boolean value: {flag!r} of type {type(flag)}.")


# -- with paths


def _walk(structure: Any, has_children: Callable[[Any], bool]) -> Iterator[tuple[Path, Any]]:
    """Yields the leaves of a nested structure, each with its path of keys and indices."""
    return _leaves_up_to(structure, structure, has_children)


def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple[Path, Any]]:
    """Returns the leaves of a nested structure, each with its path of keys and indices.

    For example, ``{"a": [1, 2]}`` gives ``[(("a", 0), 1), (("a", 1), 2)]``.
    """
    return list(_walk(structure, _children_predicate(expand_composites)))


def yield_flat_paths(nest: Any, expand_composites: bool = False) -> Iterator[Path]:
    """Yields the paths of the leaves of a nested structure, each a tuple of keys and indices."""
    return (path for path, _ in _walk(nest, _children_predicate(expand_composites)))


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """Returns the leaves of a nested structure, each with its path as a string.

    For example, ``{"a": [1, 2]}`` gives ``[("a/0", 1), ("a/1", 2)]``.

    Args:
      structure: the structure.
      separator: the text between the steps of a path.
      expand_composites: whether composite tensors are structures of their components.
    """
    with_paths = flatten_with_tuple_paths(structure, expand_composites)
    return [(separator.join(map(str, path)), value) for path, value in with_paths]


def map_structure_with_tuple_paths(func: Any, *structure: Any, **kwargs: Any) -> Any:
    """Calls ``func(path, *leaves)`` for the leaves of structures of the same form. Returns the results in this form.

    A path is a tuple of keys and indices.
    """
    for other in structure[1:]:
        options = {key: value for key, value in kwargs.items() if key in ("check_types", "expand_composites")}
        nest.assert_same_structure(structure[0], other, **options)
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **kwargs)


def map_structure_with_paths(func: Any, *structure: Any, **kwargs: Any) -> Any:
    """Calls ``func(path, *leaves)`` for the leaves of structures of the same form. Returns the results in this form.

    A path is a string of keys and indices, such as "a/0".
    """

    def call_with_joined_path(path: Path, *values: Any, **options: Any) -> Any:
        return func("/".join(map(str, path)), *values, **options)

    return map_structure_with_tuple_paths(call_with_joined_path, *structure, **kwargs)


def list_to_tuple(structure: Any) -> Any:
    """Replaces all lists in a nested structure by tuples."""
    if isinstance(structure, list):
        return tuple(map(list_to_tuple, structure))
    if not nest.is_nested(structure):
        return structure
    return sequence_like(structure, [list_to_tuple(part) for _, part in _items(structure)])


def flatten_dict_items(dictionary: Mapping[Any, Any]) -> dict[Any, Any]:
    """Flattens a dict with nested structures as keys and values to a dict of leaves.

    For example, ``{("a", "b"): (1, 2)}`` gives ``{"a": 1, "b": 2}``.

    Raises:
      TypeError: the argument is not a mapping.
      ValueError: a key's structure differs from its value's, or a leaf occurs twice.
    """
    if not isinstance(dictionary, Mapping):
        raise TypeError("input must be a dictionary")
    flat: dict[Any, Any] = {}
    for key, value in dictionary.items():
        nest.assert_same_structure(key, value)
        for key_leaf, value_leaf in zip(nest.flatten(key), nest.flatten(value)):
            if key_leaf in flat:
                raise ValueError(f"Could not flatten dictionary: key {key_leaf} is not unique.")
            flat[key_leaf] = value_leaf
    return flat


NAMES: dict[str, dict[str, Any]] = {
    "python.util.nest": {
        "assert_same_structure": nest.assert_same_structure,
        "assert_shallow_structure": assert_shallow_structure,
        "flatten": nest.flatten,
        "flatten_dict_items": flatten_dict_items,
        "flatten_up_to": flatten_up_to,
        "flatten_with_joined_string_paths": flatten_with_joined_string_paths,
        "flatten_with_tuple_paths": flatten_with_tuple_paths,
        "flatten_with_tuple_paths_up_to": flatten_with_tuple_paths_up_to,
        "get_traverse_shallow_structure": get_traverse_shallow_structure,
        "is_attrs": is_attrs,
        "is_mapping": is_mapping,
        "is_namedtuple": is_namedtuple,
        "_is_namedtuple": is_namedtuple,
        "is_nested": nest.is_nested,
        "is_nested_or_composite": nest.is_nested_or_composite,
        "is_sequence": nest.is_nested,
        "list_to_tuple": list_to_tuple,
        "map_structure": nest.map_structure,
        "map_structure_up_to": map_structure_up_to,
        "map_structure_with_paths": map_structure_with_paths,
        "map_structure_with_tuple_paths": map_structure_with_tuple_paths,
        "map_structure_with_tuple_paths_up_to": map_structure_with_tuple_paths_up_to,
        "pack_sequence_as": nest.pack_sequence_as,
        "_sequence_like": sequence_like,
        "yield_flat_paths": yield_flat_paths,
        "_yield_sorted_items": _items,
        "_yield_value": lambda iterable: (part for _, part in _items(iterable)),
    }
}
