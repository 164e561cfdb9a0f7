"""``tf.image``: sizes, colours, random changes, boxes, measures; and images as files."""

from tvtf.images import (
    boxes,
    codecs,
    colours,
    distorted,
    files,
    glimpse,
    measures,
    projective,
    random,
    resampling,
    sizes,
    suppression,
)

__all__ = [
    "boxes",
    "codecs",
    "colours",
    "distorted",
    "files",
    "glimpse",
    "measures",
    "projective",
    "random",
    "resampling",
    "sizes",
    "suppression",
]
