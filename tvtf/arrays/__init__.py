"""Defines ``tf.experimental.numpy``: NumPy's functions on tensors, composed of tvtf's public functions."""

import math

import numpy as np

from tvtf.api import namespaces
from tvtf.arrays import behavior, convert, create, elementwise, indexing, products, random, reductions, shaping
from tvtf.core.primitive import exports
from tvtf.core.tensor import Tensor

NAMES = {
    **{name: getattr(np, name) for name in ("float16", "float32", "float64", "complex64", "complex128", "inexact")},
    **{f"{sign}int{bits}": getattr(np, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{name: getattr(np, name) for name in ("bool_", "int_", "object_", "iinfo", "issubdtype")},
    "float_": np.float64,
    "complex_": np.complex128,
    "string_": np.bytes_,
    "unicode_": np.str_,
    "pi": math.pi,
    "e": math.e,
    "inf": math.inf,
    "newaxis": None,
    "ndarray": Tensor,
}
"""The names that are NumPy's own objects, or constants."""

for _name, _value in NAMES.items():
    exports[f"experimental.numpy.{_name}"] = _value
namespaces.install()

__all__ = ["behavior", "convert", "create", "elementwise", "indexing", "products", "random", "reductions", "shaping"]
