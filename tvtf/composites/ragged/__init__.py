"""Ragged tensors, whose rows have different lengths, and public functions on them."""

from tvtf.composites.ragged import (
    broadcasting,
    build,
    crossing,
    dispatch,
    dynamic_shape,
    filling,
    formatting,
    gathering,
    getitem,
    joining,
    kernels,
    partition,
    sparse,
    string_ops,
    structure,
    tensor,
)

__all__ = [
    "broadcasting",
    "build",
    "crossing",
    "dispatch",
    "dynamic_shape",
    "filling",
    "gathering",
    "getitem",
    "joining",
    "kernels",
    "partition",
    "formatting",
    "sparse",
    "structure",
    "tensor",
    "string_ops",
]
