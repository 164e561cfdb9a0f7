"""Ragged tensors: rows of several lengths, and what public functions do on them."""

from tvtf.ragged import (
    broadcasting,
    build,
    crossing,
    dispatch,
    dynamic_shape,
    filling,
    gathering,
    getitem,
    joining,
    kernels,
    partition,
    sparse,
    structure,
    tensor,
    texts,
)

dispatch.install()

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
    "sparse",
    "structure",
    "tensor",
    "texts",
]
