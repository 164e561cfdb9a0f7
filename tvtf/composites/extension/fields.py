"""Fields of extension types: checks of their annotations, and conversion of their values.

Source: https://www.tensorflow.org/guide/extension_type#field_types
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.shape import TensorShape, as_shape
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import DType, as_dtype

NoneType = type(None)
PLAIN = (int, float, str, bytes, bool, NoneType)
REQUIRED: Any = type("Required", (), {"__repr__": lambda _: "ExtensionTypeField.NO_DEFAULT"})()
"""The default of a field that has none."""
RESERVED = frozenset(
    (
        *("self", "Spec", "_type_spec", "_shape_invariant_to_type_spec", "_consumers", "value_type"),
        *("is_compatible_with", "most_specific_compatible_type", "_with_tensor_ranks_only", "_to_components"),
        *("_from_components", "_component_specs", "_to_tensor_list", "_from_tensor_list"),
        *("_from_compatible_tensor_list", "_flat_tensor_specs", "_serialize", "_deserialize"),
        *("_to_legacy_output_types", "_to_legacy_output_shapes", "_to_legacy_output_classes", "_keras_mask"),
    )
)


def is_reserved(name: str) -> bool:
    """Returns whether a name is reserved, so that no field may have it."""
    return name in RESERVED or name.lower().startswith("_tf_extension_type")


class ImmutableDict(Mapping[Any, Any]):
    """The immutable dict that a field annotated as a mapping holds."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._dict = dict(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        return self._dict[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._dict)

    def __len__(self) -> int:
        return len(self._dict)

    def __repr__(self) -> str:
        return f"ImmutableDict({self._dict})"


class Stage(Enum):
    """Which kind of field is converted: a value's, a spec's, or a default.

    Converters of fields have the parameters ``value``, ``annotation``, ``path`` (the name of the field or part, for
    errors) and ``stage``.
    """

    VALUE = 1
    SPEC = 2
    DEFAULT = 3


class Field(NamedTuple):
    """One field of an extension type."""

    name: str
    annotation: Any
    default: Any = REQUIRED


def field(name: str, annotation: Any, default: Any) -> Field:
    """Creates a field of an extension type from its annotation, which is checked, and its default, which is converted.

    Raises:
      TypeError: the annotation is not supported, or the default doesn't fit it.
    """
    try:
        check_annotation(annotation)
    except TypeError as error:
        raise TypeError(f"In field {name!r}: {error}") from error
    if default is not REQUIRED:
        default = convert(default, annotation, f"default value for {name}", Stage.DEFAULT)
    return Field(name, annotation, default)


# -- annotations


def is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def is_tuple(annotation: Any) -> bool:
    return typing.get_origin(annotation) is tuple


def is_mapping(annotation: Any) -> bool:
    return typing.get_origin(annotation) is Mapping


def is_class_of(annotation: Any, base: type) -> bool:
    return isinstance(annotation, type) and not typing.get_args(annotation) and issubclass(annotation, base)


def check_annotation(annotation: Any, in_key: bool = False) -> None:
    """Checks the type annotation of an extension type's field.

    A string is accepted here, and checked when it can be resolved. ``in_key`` is True inside the type of a mapping's keys,
    where tensors are not allowed.

    Raises:
      TypeError: the annotation is not supported.
    """
    if isinstance(annotation, (str, typing.ForwardRef)) or annotation in (*PLAIN, None, DType):
        return
    if annotation in (Tensor, TensorShape) or is_class_of(annotation, CompositeTensor):
        if in_key:
            raise TypeError(f"Mapping had a key {annotation.__name__!r} with type {type(annotation).__name__!r}")
        return
    arguments = typing.get_args(annotation)
    if is_mapping(annotation):
        key_type, value_type = arguments
        check_annotation(key_type, True)
        check_annotation(value_type, in_key)
    elif is_tuple(annotation) or is_union(annotation):
        # The arguments of ``tuple[T, ...]`` are T and an ellipsis.
        for argument in arguments[:1] if _is_of_any_length(annotation) else arguments:
            check_annotation(argument, in_key)
    else:
        name = annotation.__name__ if is_class_of(annotation, object) else annotation
        raise TypeError(f"Unsupported type annotation {name!r}")


def _is_of_any_length(annotation: Any) -> bool:
    parts = typing.get_args(annotation)
    return is_tuple(annotation) and len(parts) == 2 and parts[1] is Ellipsis


# -- values


def convert_all(fields: Sequence[Field], values: dict[str, Any], stage: Stage) -> None:
    """Converts the values of an extension type's fields in place; ``values`` maps names to values.

    Raises:
      ValueError: the names of the values are not those of the fields.
      TypeError: a value can't be converted to its field's annotation.
    """
    names = {field_.name for field_ in fields}
    unexpected = set(values) - names
    if unexpected:
        raise ValueError(f"Got unexpected fields: {unexpected}")
    missing = names - set(values)
    if missing:
        raise ValueError(f"Missing required fields: {missing}")
    for field_ in fields:
        values[field_.name] = convert(values[field_.name], field_.annotation, field_.name, stage)


def convert(value: Any, annotation: Any, path: str, stage: Stage = Stage.VALUE) -> Any:
    """Converts the value of a field to the type that its annotation requires; ``path`` names the value in errors.

    Raises:
      TypeError: the value can't be converted.
    """
    for accepts_annotation, convert_value in _CONVERSIONS:
        if accepts_annotation(annotation):
            return convert_value(value, annotation, path, stage)
    raise TypeError(f"{path}: Unsupported type annotation {annotation!r}")


def _type_error(path: str, expected: str, value: Any) -> TypeError:
    return TypeError(f"{path}: expected {expected}, got {type(value).__name__!r}")


def _convert_tensor(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    """Converts the value of a field that is annotated as a tensor to a tensor.

    In a spec, the value must be a TensorSpec, which is returned unchanged. A default is not converted until a value uses it.
    """
    if stage is Stage.SPEC:
        if not (isinstance(value, TypeSpec) and value.value_type is Tensor):
            raise _type_error(path, "a TensorSpec", value)
        return value
    if isinstance(value, Tensor) or stage is Stage.DEFAULT:
        return value
    try:
        return convert_to_tensor(value)
    except (ValueError, TypeError) as error:
        raise _type_error(path, "a Tensor", value) from error


def _check_composite(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    """Checks the value of a field that is annotated with a composite tensor class, and returns it, or raises TypeError.

    The value must be an instance of the class, or in a spec a TypeSpec of the class.
    """
    if stage is Stage.SPEC:
        if not (isinstance(value, TypeSpec) and issubclass(value.value_type, annotation)):
            raise _type_error(path, f"a TypeSpec for {annotation.__name__!r}", value)
    elif not isinstance(value, annotation):
        raise _type_error(path, repr(annotation.__name__), value)
    return value


def _converter_by(constructor: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    """Returns a converter of field values that calls ``constructor``.

    If that raises TypeError, the converter raises a TypeError that names the field.
    """

    def convert_value(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
        try:
            return constructor(value)
        except TypeError as error:
            raise _type_error(path, repr(name), value) from error

    return convert_value


def _check_plain(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    expected_type = annotation or NoneType
    if not isinstance(value, expected_type):
        raise _type_error(path, repr(expected_type.__name__), value)
    return value


def _convert_tuple(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    """Converts the elements of a tuple field to their annotated types; for ``tuple[T, ...]`` all have the type T."""
    if not isinstance(value, Sequence):
        raise _type_error(path, "tuple", value)
    element_types = typing.get_args(annotation)
    if _is_of_any_length(annotation):
        element_types = element_types[:1] * len(value)
    if len(value) != len(element_types):
        raise TypeError(f"{path}: expected tuple with length {len(element_types)}, got {type(value).__name__!r})")
    converted = []
    for i, (element, element_type) in enumerate(zip(value, element_types)):
        converted.append(convert(element, element_type, f"{path}[{i}]", stage))
    return tuple(converted)


def _convert_mapping(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    """Converts the keys and values of a mapping field to their annotated types, and returns an ImmutableDict."""
    if not isinstance(value, Mapping):
        raise _type_error(path, "mapping", value)
    key_type, value_type = typing.get_args(annotation)
    converted = {}
    for key, mapped_value in value.items():
        converted_key = convert(key, key_type, f"{path}[<key>]", stage)
        converted[converted_key] = convert(mapped_value, value_type, f"{path}[{key!r}]", stage)
    return ImmutableDict(converted)


def _convert_union(value: Any, annotation: Any, path: str, stage: Stage) -> Any:
    """Converts the value of a union field to the first of the union's types that accepts the value."""
    for option in typing.get_args(annotation):
        try:
            return convert(value, option, path, stage)
        except TypeError:
            continue
    raise _type_error(path, repr(annotation), value)


_CONVERSIONS: tuple[tuple[Callable[[Any], bool], Callable[..., Any]], ...] = (
    (lambda a: a is Tensor, _convert_tensor),
    (lambda a: is_class_of(a, CompositeTensor), _check_composite),
    (lambda a: a is TensorShape, _converter_by(as_shape, "tf.TensorShape")),
    (lambda a: a is DType, _converter_by(as_dtype, "tf.DType")),
    (lambda a: a in (*PLAIN, None), _check_plain),
    (is_tuple, _convert_tuple),
    (is_mapping, _convert_mapping),
    (is_union, _convert_union),
)
