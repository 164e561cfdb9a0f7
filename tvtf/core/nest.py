"""``tf.nest``: nested structures of lists, tuples, named tuples, dicts (by sorted key) and records.

A record is an object of a class made by ``attrs``, or of one that defines ``__tf_flatten__`` and ``__tf_unflatten__``, as
dataclasses do for TensorFlow. A composite tensor is a leaf; with ``expand_composites=True`` it is the structure of its
components. The same holds for its spec.

Source: https://www.tensorflow.org/api_docs/python/tf/nest
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tvtf.core.composite import CompositeTensor, TypeSpec

_LEAF = (str, bytes)


class _TypeTable(dict[type, bool]):
    """A property of types, computed once for each: checks of abstract base classes take 0.3 us, as they run Python code."""

    MAX_TYPES = 1024  # a program that makes classes endlessly would fill the memory

    def __init__(self, compute: Callable[[type], bool]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, kind: type) -> bool:
        if len(self) >= self.MAX_TYPES:
            self.clear()
        result = self[kind] = self._compute(kind)
        return result


def _is_nested_type(kind: type) -> bool:
    return _records[kind] or (issubclass(kind, (list, tuple, Mapping)) and not issubclass(kind, _LEAF))


def _is_record_type(kind: type) -> bool:
    return _fields(kind) is not None or (hasattr(kind, "__tf_flatten__") and hasattr(kind, "__tf_unflatten__"))


def _is_composite_type(kind: type) -> bool:
    return issubclass(kind, CompositeTensor) or (issubclass(kind, TypeSpec) and not kind.is_leaf)


_nested = _TypeTable(_is_nested_type)
_records = _TypeTable(_is_record_type)
_composites = _TypeTable(_is_composite_type)
_nested_or_composite = _TypeTable(lambda kind: _nested[kind] or _composites[kind])
_mappings = _TypeTable(lambda kind: issubclass(kind, Mapping))


def _types_with_children(expand_composites: bool) -> _TypeTable:
    """Returns which types of values have children: composite tensors have them if they are expanded."""
    return _nested_or_composite if expand_composites else _nested


def is_nested(seq: Any) -> bool:
    """Returns whether a value is a list, tuple, mapping or record.

    >>> is_nested([1]), is_nested("ab")
    (True, False)
    """
    return _nested[type(seq)]


def _fields(kind: type) -> list[str] | None:
    """Returns the names of the attributes of a class made by ``attrs``, or None for other classes."""
    attributes = getattr(kind, "__attrs_attrs__", None)
    return None if attributes is None else [each.name for each in attributes]


def _is_mapping(value: Any) -> bool:
    return _mappings[type(value)]


def is_record(value: Any) -> bool:
    return _records[type(value)]


def metadata_of(record: Any) -> Any:
    """Returns the part of a record that is not nested structure, or None for one made by ``attrs``."""
    return None if _fields(type(record)) is not None else record.__tf_flatten__()[0]


def parts_of(structure: Any) -> Sequence[Any]:
    """Returns the children of a nested structure that is not a mapping."""
    if not is_record(structure):
        return structure  # type: ignore[no-any-return]
    fields = _fields(type(structure))
    return [getattr(structure, field) for field in fields] if fields is not None else structure.__tf_flatten__()[1]


def named_parts(structure: Any) -> list[tuple[Any, Any]]:
    """Returns the children of a nested structure with their keys, attribute names or indices."""
    if _is_mapping(structure):
        return [(key, structure[key]) for key in sorted_keys(structure)]
    fields = _fields(type(structure))
    return list(enumerate(parts_of(structure)) if fields is None else zip(fields, parts_of(structure)))


def with_parts(structure: Any, parts: Sequence[Any]) -> Any:
    """Returns a list, tuple, named tuple or record of the same type as ``structure``, with ``parts`` as its children."""
    if is_record(structure):
        record_type = type(structure)
        if _fields(record_type) is not None:
            return record_type(*parts)
        metadata, _ = structure.__tf_flatten__()
        return record_type.__tf_unflatten__(metadata, tuple(parts))
    if hasattr(structure, "_fields"):
        return _container_type(structure)(*parts)
    return tuple(parts) if isinstance(structure, tuple) else list(parts)


def _container_type(container: Any) -> type:
    """Returns the type of a container: of a tuple in an attribute, in which a wrapper tracks its elements, the tuple's."""
    return getattr(type(container), "_wrapped_type", type(container))


def is_composite(value: Any) -> bool:
    """Returns whether a value is a composite tensor or the spec of one."""
    return _composites[type(value)]


def is_nested_or_composite(structure: Any) -> bool:
    return _nested_or_composite[type(structure)]


def spec_of(composite: Any) -> TypeSpec:
    """Returns the spec of a composite tensor; a spec itself unchanged."""
    return composite if isinstance(composite, TypeSpec) else composite._type_spec


def components_of(composite: Any) -> Any:
    """Returns the nest of components of a composite tensor, or of component specs of a spec."""
    if isinstance(composite, TypeSpec):
        return composite._component_specs
    return composite._type_spec._to_components(composite)


def _children(structure: Any) -> Iterable[Any]:
    """Returns the children of a nested structure, those of a mapping in the order of its sorted keys."""
    if type(structure) is tuple or type(structure) is list:
        return structure  # type: ignore[no-any-return]
    if _is_mapping(structure):
        return (structure[key] for key in sorted_keys(structure))
    return (components_of(structure),) if is_composite(structure) else parts_of(structure)


def sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    """Returns a mapping's keys in the order of flattening."""
    try:
        return sorted(mapping)
    except TypeError as error:
        raise TypeError(f"nest only supports dicts with sortable keys: {error}") from None


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Returns the leaves of a structure, depth first.

    >>> flatten({"b": [2, (3,)], "a": 1})
    [1, 2, 3]
    """
    leaves: list[Any] = []
    _append_leaves(structure, _types_with_children(expand_composites), leaves)
    return leaves


def _append_leaves(structure: Any, has_children: _TypeTable, leaves: list[Any]) -> None:
    """Appends the leaves of ``structure`` to ``leaves``, depth first."""
    if not has_children[type(structure)]:
        leaves.append(structure)
        return
    for child in _children(structure):
        if has_children[type(child)]:
            _append_leaves(child, has_children, leaves)
        else:
            leaves.append(child)


def pack_sequence_as(structure: Any, flat_sequence: Sequence[Any], expand_composites: bool = False) -> Any:
    """Packs a flat sequence of leaves into the form of ``structure``.

    >>> pack_sequence_as({"b": [0, 0], "a": 0}, [1, 2, 3])
    {'b': [2, 3], 'a': 1}

    Raises:
      ValueError: the number of leaves differs.
      TypeError: ``flat_sequence`` is not a sequence.
    """
    if not isinstance(flat_sequence, Iterable) or isinstance(flat_sequence, _LEAF) or hasattr(flat_sequence, "dtype"):
        raise TypeError(
            f"Attempted to pack value:\n  {flat_sequence!s}\ninto a structure, but found incompatible type "
            f"`{type(flat_sequence)}` instead."
        )
    flat = list(flat_sequence)
    has_children = _types_with_children(expand_composites)
    if not has_children[type(structure)]:
        if len(flat) == 1:
            return flat[0]
        raise ValueError(
            f"The target structure is of type `{type(structure)}`\n  {structure}\nHowever the input is a sequence "
            f"({type(flat_sequence)}) of length {len(flat)}.\n  {flat_sequence}\nnest cannot guarantee that it is safe to "
            "map one to the other."
        )
    expected = len(flatten(structure, expand_composites))
    if len(flat) != expected:
        raise ValueError(
            f"Could not pack sequence. Structure had {expected} atoms, but flat_sequence had {len(flat)} items.  "
            f"Structure: {structure!s}, flat_sequence: {flat}."
        )
    return _from_leaves(structure, iter(flat), has_children)


def _packed(structure: Any, flat: Sequence[Any], expand_composites: bool) -> Any:
    """Packs as many leaves as ``structure`` had into its form, as `pack_sequence_as` does after counting them again.

    If the structure was changed since, that function raises its error.

    Args:
      structure: the structure.
      flat: the leaves.
      expand_composites: whether composite tensors are structures of their components.
    """
    leaves = iter(flat)
    try:
        packed = _from_leaves(structure, leaves, _types_with_children(expand_composites))
    except StopIteration:
        return pack_sequence_as(structure, flat, expand_composites)
    return packed if next(leaves, leaves) is leaves else pack_sequence_as(structure, flat, expand_composites)


def flattener(structure: Any) -> Callable[[Any], list[Any]]:
    """Returns a function that flattens nested values of the same form as ``structure``.

    For many values it is faster than :func:`flatten`, as it inspects the form only once.

    >>> flattener({"b": (0, 0), "a": 0})({"b": (2, 3), "a": 1})
    [1, 2, 3]
    """
    if not is_nested(structure):
        return lambda value: [value]
    if _is_mapping(structure):
        keys = sorted_keys(structure)
        flatten_children = flattener([structure[key] for key in keys])
        return lambda value: flatten_children([value[key] for key in keys])
    children = parts_of(structure)
    if not any(map(is_nested, children)):
        return (lambda value: list(parts_of(value))) if is_record(structure) else list
    flatteners = list(map(flattener, children))
    return lambda value: [
        leaf for flatten_child, child in zip(flatteners, parts_of(value)) for leaf in flatten_child(child)
    ]


def packer(structure: Any) -> Callable[[Iterator[Any]], Any]:
    """Returns a function that packs an iterator of leaves into a nested value of the same form as ``structure``.

    The components of composite tensors count as leaves.

    >>> packer({"b": (0, 0), "a": 0})(iter([1, 2, 3]))
    {'b': (2, 3), 'a': 1}
    """
    if not is_nested_or_composite(structure):
        return next
    if is_composite(structure):
        from_components = spec_of(structure)._from_components
        pack_components = packer(components_of(structure))
        return lambda leaves: from_components(pack_components(leaves))
    if _is_mapping(structure):
        packers = {key: packer(structure[key]) for key in sorted_keys(structure)}
        if type(structure) is dict and list(structure) == list(packers):  # the keys are in sorted order already
            return lambda leaves: {k: pack(leaves) for k, pack in packers.items()}
        return lambda leaves: _same_mapping(structure, {k: pack(leaves) for k, pack in packers.items()})
    children = list(map(packer, parts_of(structure)))
    if type(structure) is tuple:
        return lambda leaves: tuple([pack(leaves) for pack in children])
    return lambda leaves: with_parts(structure, [pack(leaves) for pack in children])


def _from_leaves(structure: Any, leaves: Iterator[Any], has_children: _TypeTable) -> Any:
    """Returns a nested value of the same form as ``structure``, with leaves taken from ``leaves`` in the order of `flatten`.

    ``has_children`` says which types of values have children.
    """
    kind = type(structure)
    if not has_children[kind]:
        return next(leaves)
    if kind is tuple or kind is list:
        # Leaves are taken here, without a call for each.
        items = [_from_leaves(x, leaves, has_children) if has_children[type(x)] else next(leaves) for x in structure]
        return kind(items)
    if is_composite(structure):
        components = _from_leaves(components_of(structure), leaves, has_children)
        return spec_of(structure)._from_components(components)
    if _is_mapping(structure):
        packed = {key: _from_leaves(structure[key], leaves, has_children) for key in sorted_keys(structure)}
        return _same_mapping(structure, packed)
    return with_parts(structure, [_from_leaves(child, leaves, has_children) for child in parts_of(structure)])


def _same_mapping(mapping: Mapping[Any, Any], packed: dict[Any, Any]) -> Any:
    ordered = {key: packed[key] for key in mapping}
    if type(mapping) is dict:
        return ordered
    return _dict_like(mapping, ordered) if isinstance(mapping, dict) else type(mapping)(ordered)  # type: ignore[call-arg]


def _dict_like(mapping: dict[Any, Any], ordered: dict[Any, Any]) -> Any:
    copy = mapping.copy()
    copy.update(ordered)
    return copy


def map_structure(func: Callable[..., Any], *structures: Any, **kwargs: Any) -> Any:
    """Applies ``func`` to the corresponding leaves of structures of the same form. Returns the results in that form.

    >>> map_structure(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structures:
        raise ValueError("Must provide at least one structure")
    check_types = kwargs.pop("check_types", True)
    expand = kwargs.pop("expand_composites", False)
    if kwargs:
        raise ValueError(
            f"Only valid keyword arguments are `check_types` and `expand_composites`, not: `{'`, `'.join(kwargs)}`"
        )
    if len(structures) == 1:
        return _packed(structures[0], [func(leaf) for leaf in flatten(structures[0], expand)], expand)
    for other in structures[1:]:
        assert_same_structure(structures[0], other, check_types, expand)
    corresponding_leaves = zip(*(flatten(structure, expand) for structure in structures))
    return pack_sequence_as(structures[0], [func(*leaves) for leaves in corresponding_leaves], expand)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Checks that two nested structures have the same form.

    Args:
      nest1, nest2: the structures.
      check_types: whether containers must have the same type.
      expand_composites: whether composite tensors count as containers of their components.

    Raises:
      ValueError: the structures differ in form.
      TypeError: only the types of their containers differ.
    """
    difference = _first_difference(nest1, nest2, check_types, _types_with_children(expand_composites))
    if difference is not None:
        error_type, detail = difference
        raise error_type(
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {_text(nest1)}\n\nSecond structure: {_text(nest2)}\n\nMore specifically: {detail}\n"
            f"Entire first structure:\n{_text_with_dots(nest1)}\nEntire second structure:\n{_text_with_dots(nest2)}"
        )


def _first_difference(
    a: Any, b: Any, check_types: bool, has_children: _TypeTable
) -> tuple[type[Exception], str] | None:
    """Returns the first difference in form between two nested structures, or None.

    It is given as the type and the text of the exception that TensorFlow raises. ``has_children`` says which types of
    values have children.
    """
    if has_children[type(a)] != has_children[type(b)]:
        outer, leaf = (a, b) if has_children[type(a)] else (b, a)
        return ValueError, f'Substructure "{_text(outer)}" is a sequence, while substructure "{_text(leaf)}" is not'
    if not has_children[type(a)]:
        return None
    difference = _container_difference(a, b, check_types)
    if difference is not None:
        return difference
    for child_a, child_b in zip(_children(a), _children(b)):
        difference = _first_difference(child_a, child_b, check_types, has_children)
        if difference is not None:
            return difference
    return None


def _container_difference(a: Any, b: Any, check_types: bool) -> tuple[type[Exception], str] | None:
    """Returns the difference of two containers in type, keys or length, or None; their children aren't compared.

    It is the type and the text of the exception that TensorFlow raises.
    """
    if is_composite(a) and is_composite(b):
        if _have_common_type(spec_of(a), spec_of(b)):
            return None
        specs = f"{_text(spec_of(a))} vs. {_text(spec_of(b))}"
        return ValueError, f"Incompatible CompositeTensor TypeSpecs: {specs}"
    if is_composite(a) or is_composite(b) or (check_types and not _same_container(a, b)):
        return (ValueError if is_composite(a) or is_composite(b) else TypeError), (
            "The two namedtuples don't have the same sequence type. "
            f"First structure {_text(a)} has type {type(a).__name__}, while second structure {_text(b)} has type "
            f"{type(b).__name__}"
        )
    if check_types and _is_mapping(a) and set(a) != set(b):
        return ValueError, (
            "The two dictionaries don't have the same set of keys. "
            f"First structure has keys {_text(list(a))}, while second structure has keys {_text(list(b))}"
        )
    if _size(a) != _size(b):
        return ValueError, (
            "The two structures don't have the same number of elements. "
            f"First structure: {_text(a)}. Second structure: {_text(b)}"
        )
    return None


def _size(structure: Any) -> int:
    return len(structure if _is_mapping(structure) else parts_of(structure))


def _text(value: Any) -> str:
    return f"type={type(value).__name__} str={value!s}"


class _Dot:
    def __repr__(self) -> str:
        return "."


def _text_with_dots(structure: Any) -> str:
    """Returns the text of a structure with dots for its leaves."""
    return str(map_structure(lambda leaf: _Dot(), structure))


def _have_common_type(a: TypeSpec, b: TypeSpec) -> bool:
    return a.most_specific_common_supertype([b]) is not None


def _same_container(a: Any, b: Any) -> bool:
    """Returns whether two containers have compatible types: both mappings, equal named tuples, or class and subclass."""
    if _is_mapping(a) or _is_mapping(b):
        return _is_mapping(a) and _is_mapping(b)
    first, second = _container_type(a), _container_type(b)
    if hasattr(a, "_fields") or hasattr(b, "_fields"):
        return (first.__name__, getattr(a, "_fields", None)) == (second.__name__, getattr(b, "_fields", None))
    return isinstance(a, second) or isinstance(b, first)
