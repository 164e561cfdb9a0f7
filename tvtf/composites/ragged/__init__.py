"""Ragged tensors: rows of several lengths, and what public functions do on them."""

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
