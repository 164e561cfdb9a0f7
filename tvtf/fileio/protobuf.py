"""Protocol buffer classes declared in Python, in private descriptor pools, so that TensorFlow can be imported, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from tvtf.errors import DataLossError

_KINDS: Final = ("int32", "int64", "uint32", "uint64", "fixed32", "float", "double", "bool", "string", "bytes")
_SCALARS: Final = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _KINDS}


def declare(package: str, declarations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Declares messages; returns their classes by name.

    A field is written as ``"1 int32 size"``, a repeated one with a star, ``"1 int32* sizes"``, a map from strings as
    ``"1 map:Pair pairs"``, and a member of the oneof ``kind`` as ``"1 Pair pair kind"``.

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
    """Decodes a message.

    Args:
      decode: a class's ``FromString``.
      what: the message's name in the error, with its file if it has one.

    Raises:
      DataLossError: ``data`` is not a valid message.
    """
    try:
        return decode(data)
    except DecodeError as error:
        raise DataLossError(None, None, f"{what} is not a valid protocol buffer: {error}") from error


def _add_field(message: Any, package: str, number: str, kind: str, name: str, oneof: str = "") -> None:
    """Adds a field to a message's descriptor; ``kind`` ends in ``*`` if it is repeated, or starts with ``map:``."""
    labels = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number))
    if kind.startswith("map:"):
        kind = _add_entry(message, package, name, kind.removeprefix("map:"))
    field.label = labels.LABEL_REPEATED if kind.endswith("*") else labels.LABEL_OPTIONAL
    kind = kind.rstrip("*")
    field.type = _SCALARS.get(kind, labels.TYPE_MESSAGE)
    if kind not in _SCALARS:
        field.type_name = f".{package}.{kind}"
    if oneof:
        names = [each.name for each in message.oneof_decl]
        field.oneof_index = names.index(oneof) if oneof in names else len(names)
        if oneof not in names:
            message.oneof_decl.add(name=oneof)


def _add_entry(message: Any, package: str, name: str, kind: str) -> str:
    """Adds the message type of a map's entries; returns it in the notation of `declare`."""
    entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    _add_field(entry, package, "1", "string", "key")
    _add_field(entry, package, "2", kind, "value")
    return f"{message.name}.{entry.name}*"
