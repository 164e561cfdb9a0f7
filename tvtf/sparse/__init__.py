"""Sparse tensors: the elements that are not zero, and what public functions do on them."""

import sys

from tvtf.api.namespaces import refusing as _refusing
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
_refusing(sys.modules[__name__], "sparse")
