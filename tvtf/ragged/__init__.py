"""Ragged tensors: rows of several lengths, and what public functions do on them."""

import sys

from tvtf.api.namespaces import refusing as _refusing
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
    shown,
    sparse,
    structure,
    tensor,
    texts,
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
    "shown",
    "sparse",
    "structure",
    "tensor",
    "texts",
]
_refusing(sys.modules[__name__], "ragged")
