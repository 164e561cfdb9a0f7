"""``tf.image``: sizes, colours, chance, boxes, measures; and images as files."""

from tvtf.images import (
    boxes,
    chance,
    codecs,
    colours,
    distorted,
    files,
    glimpse,
    measures,
    projective,
    resampling,
    sizes,
    suppression,
)

__all__ = [
    "boxes",
    "chance",
    "codecs",
    "colours",
    "distorted",
    "files",
    "glimpse",
    "measures",
    "projective",
    "resampling",
    "sizes",
    "suppression",
]
