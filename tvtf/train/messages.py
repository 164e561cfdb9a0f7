"""The protocol buffers of TensorFlow's checkpoints, declared in Python and kept in a pool of their own.

Field numbers and types are those of ``tensor_bundle.proto``, ``tensor_shape.proto``, ``tensor_slice.proto``,
``versions.proto``, ``trackable_object_graph.proto`` and ``checkpoint_state.proto`` in
https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/protobuf. A private pool lets real TensorFlow
live in the same process.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE: Final = "tvtf.checkpoint"
_SCALARS: Final = {
    name: getattr(descriptor_pb2.FieldDescriptorProto, f"TYPE_{name.upper()}")
    for name in ("int32", "int64", "fixed32", "double", "bool", "string")
}

DECLARATIONS: Final[dict[str, tuple[str, ...]]] = {
    "VersionDef": ("1 int32 producer", "2 int32 min_consumer", "3 int32* bad_consumers"),
    "BundleHeaderProto": ("1 int32 num_shards", "2 int32 endianness", "3 VersionDef version"),
    "Dim": ("1 int64 size", "2 string name"),
    "TensorShapeProto": ("2 Dim* dim", "3 bool unknown_rank"),
    "Extent": ("1 int64 start", "2 int64 length"),
    "TensorSliceProto": ("1 Extent* extent",),
    "BundleEntryProto": (
        "1 int32 dtype",
        "2 TensorShapeProto shape",
        "3 int32 shard_id",
        "4 int64 offset",
        "5 int64 size",
        "6 fixed32 crc32c",
        "7 TensorSliceProto* slices",
    ),
    "ObjectReference": ("1 int32 node_id", "2 string local_name"),
    "SerializedTensor": ("1 string name", "2 string full_name", "3 string checkpoint_key"),
    "SlotVariableReference": (
        "1 int32 original_variable_node_id",
        "2 string slot_name",
        "3 int32 slot_variable_node_id",
    ),
    "RegisteredSaver": ("1 string name", "2 string object_name"),
    "BoolValue": ("1 bool value",),
    "TrackableObject": (
        "1 ObjectReference* children",
        "2 SerializedTensor* attributes",
        "3 SlotVariableReference* slot_variables",
        "4 RegisteredSaver registered_saver",
        "5 BoolValue has_checkpoint_values",
    ),
    "TrackableObjectGraph": ("1 TrackableObject* nodes",),
    "CheckpointState": (
        "1 string model_checkpoint_path",
        "2 string* all_model_checkpoint_paths",
        "3 double* all_model_checkpoint_timestamps",
        "4 double last_preserved_timestamp",
    ),
}


def _declare() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="tvtf_checkpoint.proto", package=PACKAGE, syntax="proto3")
    for name, fields in DECLARATIONS.items():
        message = file.message_type.add(name=name)
        for field in fields:
            _add_field(message, *field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    find = pool.FindMessageTypeByName
    return {name: message_factory.GetMessageClass(find(f"{PACKAGE}.{name}")) for name in DECLARATIONS}


def _add_field(message: Any, number: str, kind: str, name: str) -> None:
    labels = descriptor_pb2.FieldDescriptorProto
    field = message.field.add(name=name, number=int(number))
    field.label = labels.LABEL_REPEATED if kind.endswith("*") else labels.LABEL_OPTIONAL
    kind = kind.rstrip("*")
    field.type = _SCALARS.get(kind, labels.TYPE_MESSAGE)
    if kind not in _SCALARS:
        field.type_name = f".{PACKAGE}.{kind}"


_CLASSES: Final = _declare()

BundleHeaderProto: Final = _CLASSES["BundleHeaderProto"]
BundleEntryProto: Final = _CLASSES["BundleEntryProto"]
TrackableObjectGraph: Final = _CLASSES["TrackableObjectGraph"]
CheckpointState: Final = _CLASSES["CheckpointState"]
