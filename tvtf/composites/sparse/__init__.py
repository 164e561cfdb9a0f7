"""Sparse tensors: the elements that are not zero, and what public functions do on them."""

from tvtf.composites.sparse import (
    arrange,
    counts,
    cutting,
    dense,
    embedding,
    kernels,
    math,
    operators,
    reduce,
    sets,
    tensor,
)

__all__ = [
    "arrange",
    "counts",
    "cutting",
    "dense",
    "embedding",
    "kernels",
    "math",
    "operators",
    "reduce",
    "sets",
    "tensor",
]
