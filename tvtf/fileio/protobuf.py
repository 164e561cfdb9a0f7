"""Protocol buffer classes declared in Python, in private descriptor pools, so that TensorFlow can be imported, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tvtf.errors import DataLossError

_KINDS: Final = (
    *("int32", "int64", "sint64", "uint32", "uint64", "fixed32", "float", "double", "bool", "string", "bytes"),
)
_SCALARS: Final = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _KINDS}


def declare(package: str, declarations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Declares protocol buffer messages without a ``.proto`` file, and returns the generated message classes by name.

    Args:
      package: the name of the protocol buffer package.
      declarations: for each message, its fields. A field is written as ``"1 int32 size"``, a repeated field with a star,
        ``"1 int32* sizes"``, a map from strings as ``"1 map:Pair pairs"``, a member of the oneof ``kind`` as
        ``"1 Pair pair kind"``.

    >>> declare("doctest", {"Pair": ("1 int32 left", "2 int32 right")})["Pair"](left=3).SerializeToString()
    b'\\x08\\x03'
    """
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in declarations.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, package, *field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{package}.{name}")) for name in declarations}


def parsed(decode: Callable[[bytes], Any], data: bytes, what: str) -> Any:
    """Decodes a protocol buffer message, and returns the message.

    Args:
      decode: the method ``FromString`` of the message's class.
      data: the encoded message.
      what: the name of the message in errors, with the file if there is one.

    Raises:
      DataLossError: ``data`` is not a valid message.
    """
    try:
        return decode(data)
    except DecodeError as error:
        raise DataLossError(None, None, f"{what} is not a valid protocol buffer: {error}") from error


def _add_field(message: Any, package: str, number: str, field_type: str, name: str, oneof: str = "") -> None:
    """Adds a field to the descriptor of a protocol buffer message.

    Args:
      message: the descriptor of the message.
      package: the package of messages.
      number: the number of the field.
      field_type: a scalar type or the name of a message. A star after it makes a repeated field, ``map:`` before it a
        map from strings.
      name: the name of the field.
      oneof: the name of the oneof that contains the field, or "".
    """
    constants = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number))
    if field_type.startswith("map:"):  # protocol buffers store a map as a repeated field of entries
        field_type = _add_map_entry_type(message, package, name, field_type.removeprefix("map:"))
    field.label = constants.LABEL_REPEATED if field_type.endswith("*") else constants.LABEL_OPTIONAL
    field_type = field_type.rstrip("*")
    field.type = _SCALARS.get(field_type, constants.TYPE_MESSAGE)
    if field_type not in _SCALARS:
        field.type_name = f".{package}.{field_type}"
    if oneof:
        names = [declaration.name for declaration in message.oneof_decl]
        field.oneof_index = names.index(oneof) if oneof in names else len(names)
        if oneof not in names:
            message.oneof_decl.add(name=oneof)


def _add_map_entry_type(message: Any, package: str, name: str, value_type: str) -> str:
    """Adds a message type for the entries of a map field, with a key and a value.

    Returns the type of the map field in the form that `_add_field` parses: ``"Message.NameEntry*"``.

    Args:
      message: the message that has the map field.
      package: the package of the message.
      name: the name of the map field.
      value_type: the type of its values.
    """
    camel_case_name = "".join(part.capitalize() for part in name.split("_"))
    entry = message.nested_type.add(name=f"{camel_case_name}Entry")
    entry.options.map_entry = True
    _add_field(entry, package, "1", "string", "key")
    _add_field(entry, package, "2", value_type, "value")
    return f"{message.name}.{entry.name}*"
