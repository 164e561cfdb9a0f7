"""Declares the protocol buffers of TensorFlow's checkpoints in Python.

Field numbers and types are those of ``tensor_bundle.proto``, ``tensor_shape.proto``, ``tensor_slice.proto``,
``versions.proto``, ``trackable_object_graph.proto`` and ``checkpoint_state.proto`` in
https://github.com/tensorflow/tensorflow/tree/master/tensorflow/core/protobuf.
"""

from __future__ import annotations

from typing import Final

from tvtf.fileio.protobuf import declare

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


_CLASSES: Final = declare("tvtf.checkpoint", DECLARATIONS)

BundleHeaderProto: Final = _CLASSES["BundleHeaderProto"]
BundleEntryProto: Final = _CLASSES["BundleEntryProto"]
TrackableObjectGraph: Final = _CLASSES["TrackableObjectGraph"]
CheckpointState: Final = _CLASSES["CheckpointState"]
