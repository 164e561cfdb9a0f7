"""Declares the messages of ``tensorflow/core/example/{feature,example}.proto``, which ``tf.train`` exports."""

from __future__ import annotations

from typing import Final

from tvtf.core.argument_error import ArgumentError
from tvtf.fileio.protobuf import declare

CLASSES: Final = declare(
    "tensorflow",
    {
        "BytesList": ("1 bytes* value",),
        "FloatList": ("1 float* value",),
        "Int64List": ("1 int64* value",),
        "Feature": ("1 BytesList bytes_list kind", "2 FloatList float_list kind", "3 Int64List int64_list kind"),
        "Features": ("1 map:Feature feature",),
        "FeatureList": ("1 Feature* feature",),
        "FeatureLists": ("1 map:FeatureList feature_list",),
        "Example": ("1 Features features",),
        "SequenceExample": ("1 Features context", "2 FeatureLists feature_lists"),
    },
)


def from_json(text: bytes) -> bytes:
    """Converts the JSON of an ``Example`` message to the serialized message.

    Raises:
      ArgumentError: the text is not the JSON form of an ``Example``.
    """
    from google.protobuf import json_format

    try:
        return bytes(json_format.Parse(text, CLASSES["Example"]()).SerializeToString(deterministic=True))
    except (json_format.ParseError, UnicodeDecodeError) as error:
        raise ArgumentError(f"Error while parsing JSON: {error}") from None
