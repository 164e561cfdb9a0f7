"""Protocol buffers declared in Python, in pools of their own, so that real TensorFlow can live in the same process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_KINDS: Final = ("int32", "int64", "uint32", "uint64", "fixed32", "float", "double", "bool", "string", "bytes")
_SCALARS: Final = {name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}") for name in _KINDS}


def declare(package: str, declarations: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The classes of messages by name; fields are written as ``"1 int32* sizes"``, with a star where they are repeated.

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


def _add_field(message: Any, package: str, number: str, kind: str, name: str) -> None:
    labels = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number))
    field.label = labels.LABEL_REPEATED if kind.endswith("*") else labels.LABEL_OPTIONAL
    kind = kind.rstrip("*")
    field.type = _SCALARS.get(kind, labels.TYPE_MESSAGE)
    if kind not in _SCALARS:
        field.type_name = f".{package}.{kind}"
