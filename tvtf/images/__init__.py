"""``tf.image``: sizes, colours, random transforms, boxes, measures; and images as files."""

from tvtf.images import (
    boxes,
    codecs,
    colours,
    files,
    glimpse,
    measures,
    projective,
    random_boxes,
    random_transforms,
    resampling,
    sizes,
    suppression,
)

__all__ = [
    "boxes",
    "codecs",
    "colours",
    "files",
    "glimpse",
    "measures",
    "projective",
    "random_boxes",
    "random_transforms",
    "resampling",
    "sizes",
    "suppression",
]
