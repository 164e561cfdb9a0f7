"""Sparse tensors, stored as the indices and values of their non-zero elements, and public functions on them."""

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
