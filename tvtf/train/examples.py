"""Defines ``tf.train.Example`` and related protocol buffers, in which records of data are stored."""

from __future__ import annotations

from typing import Any

from tvtf.core.primitive import exports
from tvtf.examples.messages import CLASSES

_MEANING = {
    "BytesList": ("Strings of bytes.", "BytesList(value=[b'a', b'b'])"),
    "FloatList": ("Floats, stored as float32.", "FloatList(value=[0.5])"),
    "Int64List": ("Integers of 64 bits.", "Int64List(value=[3])"),
    "Feature": ("Values of one of the three kinds.", "Feature(int64_list=tf.train.Int64List(value=[3]))"),
    "Features": ("Features by name.", "Features(feature={'age': tf.train.Feature()})"),
    "FeatureList": ("Features one after another.", "FeatureList(feature=[tf.train.Feature()])"),
    "FeatureLists": ("Lists of features by name.", "FeatureLists(feature_list={'rows': tf.train.FeatureList()})"),
    "Example": ("One example: features by name.", "Example(features=tf.train.Features())"),
    "SequenceExample": ("One example; some features are sequences.", "SequenceExample()"),
}


def _export_message_class(name: str) -> Any:
    """Exports a protocol buffer's class as ``tf.train.<name>``, with a docstring that shows an example."""
    meaning, example = _MEANING[name]
    message = CLASSES[name]
    message.__module__ = __name__  # protobuf leaves it open; pickle would search all imported modules for the class
    message.__doc__ = f"""{meaning}

    A protocol buffer: ``SerializeToString``, ``FromString``, ``CopyFrom`` ... are those of ``google.protobuf``.

    >>> import tvtf as tf
    >>> message = tf.train.{example}
    >>> tf.train.{name}.FromString(message.SerializeToString()) == message
    True

    Source: https://www.tensorflow.org/api_docs/python/tf/train/{name}
    """
    exports[f"train.{name}"] = message
    return message


BytesList = _export_message_class("BytesList")
FloatList = _export_message_class("FloatList")
Int64List = _export_message_class("Int64List")
Feature = _export_message_class("Feature")
Features = _export_message_class("Features")
FeatureList = _export_message_class("FeatureList")
FeatureLists = _export_message_class("FeatureLists")
Example = _export_message_class("Example")
SequenceExample = _export_message_class("SequenceExample")
