"""Sparse tensors: the elements that are not zero, and what public functions do on them."""

from tvtf.sparse import (
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

operators.install()

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
