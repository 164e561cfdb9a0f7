"""Stand-ins for extension types that this program doesn't declare, as arguments and results of loaded functions.

Source: https://www.tensorflow.org/guide/extension_type#loading_a_savedmodel_when_the_extensiontype_is_unavailable
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvtf.composites.extension.fields import PLAIN, ImmutableDict, is_reserved
from tvtf.composites.extension.specs import ExtensionTypeSpec, listed, of_fields
from tvtf.composites.extension.types import ExtensionType
from tvtf.core.composite import CompositeTensor, TypeSpec
from tvtf.core.shape import TensorShape
from tvtf.core.tensor import Tensor
from tvtf.dtypes import DType


class AnonymousExtensionType(ExtensionType):
    """A value with the fields of an extension type, without its methods."""

    _tf_extension_type_do_not_transform_this_class = True

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(_convert_fields(fields, (Tensor, CompositeTensor), "AnonymousExtensionType"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Cannot set attribute `{name}`. AnonymousExtensionType instances are immutable.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Cannot delete attribute `{name}`. AnonymousExtensionType instances are immutable.")

    def __repr__(self) -> str:
        return f"AnonymousExtensionType({listed(vars(self))})"

    @property
    def _type_spec(self) -> AnonymousExtensionTypeSpec:
        return AnonymousExtensionTypeSpec.from_value(self)


class AnonymousExtensionTypeSpec(ExtensionTypeSpec):
    """The spec of an :class:`AnonymousExtensionType`."""

    value_type = AnonymousExtensionType

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(_convert_fields(fields, (TypeSpec,), "AnonymousExtensionTypeSpec"))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"Cannot set attribute `{name}`. AnonymousExtensionTypeSpec instances are immutable.")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"Cannot delete attribute `{name}`. AnonymousExtensionTypeSpec instances are immutable.")

    def _fields(self) -> dict[str, Any]:
        return vars(self)

    @classmethod
    def from_value(cls, value: Any) -> Any:
        return of_fields(cls, vars(value))


def _convert_fields(fields: Mapping[str, Any], allowed_types: tuple[type, ...], class_name: str) -> dict[str, Any]:
    for name in fields:
        if is_reserved(name) or (name.startswith("__") and name.endswith("__")):
            raise ValueError(f"Reserved field name {name} was encountered when trying to instantiate an {class_name}.")
    return {name: _convert_value(value, allowed_types) for name, value in fields.items()}


def _convert_value(value: Any, allowed_types: tuple[type, ...]) -> Any:
    """Converts a field's value to an immutable value: mappings become ImmutableDict, also inside tuples.

    Raises ValueError for an unsupported type; ``allowed_types`` are supported besides plain values.
    """
    if isinstance(value, (*PLAIN, DType, TensorShape, *allowed_types)):
        return value
    if isinstance(value, tuple):
        return tuple(_convert_value(element, allowed_types) for element in value)
    if isinstance(value, Mapping):
        converted = {}
        for key, mapped_value in value.items():
            converted[_convert_value(key, allowed_types)] = _convert_value(mapped_value, allowed_types)
        return ImmutableDict(converted)
    raise ValueError(f"Cannot convert anonymous fields from an unsupported `value` argument: {value!r}.")
