"""Tensors' memory as compiled code takes and gives it, without copies."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi

from tvtf.core import aligned_array
from tvtf.core.string_handles import numbers_of, texts_of
from tvtf.core.tensor import EagerTensor
from tvtf.dtypes import FLOAT8

_BITS = {np.dtype(ml_dtypes.bfloat16): "uint16"} | {kind.np: "uint8" for kind in FLOAT8}
"""Dtypes that NumPy's DLPack doesn't have -> as what their bits go through it."""
_BY_NAME = {kind.name: kind for kind in _BITS}


def handle_of(tensor: EagerTensor) -> Any:
    """The tensor's memory as TVM takes it; made once per tensor, and for strings once per call."""
    handle = tensor._handle
    if handle is None:
        handle = to_handle(tensor._array)
        if tensor._array.dtype != object:
            tensor._handle = handle
    return handle


def variable_handle(variable: Any) -> Any:
    """A Variable's memory; what compiled code writes there is the Variable's value."""
    handle = variable._handle
    if handle is None:
        handle = to_handle(variable._memory)
        if variable._memory.dtype != object:
            variable._handle = handle
    return handle


def to_handle(array: np.ndarray) -> Any:
    """An array as a TVM tensor of the same memory; a strided or read-only one is copied."""
    if not array.flags.c_contiguous or not array.flags.writeable:
        array = aligned_array.copied(array)
    bits = _BITS.get(array.dtype)
    if bits is not None:
        return _seen_as(tvm_ffi.from_dlpack(array.view(bits)), array.shape, array.dtype.name)
    if array.dtype.kind == "c":
        return _pairs(array, f"float{array.itemsize * 4}")
    if array.dtype == object:
        return _pairs(numbers_of(array), "int32")
    handle = tvm_ffi.from_dlpack(array)
    # NumPy gives empty arrays zero strides, which kernels refuse; a view has the usual ones.
    return handle if array.size else _seen_as(handle, array.shape, array.dtype.name)


def _pairs(array: np.ndarray, part: str) -> Any:
    """An array of numbers that TVM has no type for, each as a vector of its two halves."""
    return _seen_as(tvm_ffi.from_dlpack(array.reshape(-1).view(part)), array.shape, f"{part}x2")


def _seen_as(handle: Any, shape: Any, dtype: str) -> Any:
    return handle._create_view(tuple(shape), dtype)


def tensor_of(handle: Any) -> EagerTensor:
    """A result of compiled code as a tensor of the same memory."""
    array = to_array(handle)
    tensor = EagerTensor(array)
    if array.dtype != object:
        tensor._handle = handle
    return tensor


def to_array(handle: Any) -> np.ndarray:
    """A TVM tensor as an array of the same memory. NumPy's DLPack has no small floats, whose bits go through it, and no pairs."""
    try:
        return np.from_dlpack(handle)
    except (RuntimeError, BufferError):
        name = str(handle.dtype)
    if name.endswith("x2"):
        halves = np.from_dlpack(_seen_as(handle, (*handle.shape, 2), name.removesuffix("x2")))
        if halves.dtype.kind == "i":
            return texts_of(halves.view(np.int64)[..., 0])
        return halves.view(f"complex{halves.itemsize * 16}")[..., 0]
    kind = _BY_NAME[name]
    return np.from_dlpack(_seen_as(handle, handle.shape, _BITS[kind])).view(kind)
