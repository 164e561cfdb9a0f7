"""Views of tensors' memory as TVM tensors and back, by DLPack and without copies."""

from __future__ import annotations

from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi

from tvtf.core import aligned_array
from tvtf.core.string_handles import handles_of, strings_of
from tvtf.core.tensor import EagerTensor
from tvtf.dtypes import FLOAT8

_BITS = {np.dtype(ml_dtypes.bfloat16): "uint16"} | {kind.np: "uint8" for kind in FLOAT8}
"""Dtypes that NumPy's DLPack doesn't have -> the integer dtype as which their bits are passed."""
_BY_NAME = {kind.name: kind for kind in _BITS}


def handle_of(tensor: EagerTensor) -> Any:
    """Returns the TVM tensor that views an eager tensor's memory.

    The view is cached, except for string tensors: string handles are valid for one call only.
    """
    handle = tensor._handle
    return _viewed(tensor, tensor._array) if handle is None else handle


def variable_handle(variable: Any) -> Any:
    """Returns the TVM tensor that views a Variable's memory. Compiled code assigns the Variable by writing to this memory."""
    handle = variable._handle
    return _viewed(variable, variable._memory) if handle is None else handle


def _viewed(owner: Any, array: np.ndarray) -> Any:
    """Returns a TVM tensor that views ``array``, the memory of ``owner``, and caches this view in ``owner``."""
    handle = to_handle(array)
    # The handles of strings last for one call, so they are not cached.
    if array.dtype != object:
        owner._handle = handle
    return handle


def to_handle(array: np.ndarray) -> Any:
    """Returns a TVM tensor that views a NumPy array without a copy.

    Only a strided or read-only array is copied first.
    """
    if not array.flags.c_contiguous or not array.flags.writeable:
        array = aligned_array.aligned_copy(array)
    bits = _BITS.get(array.dtype)
    if bits is not None:  # bfloat16 or float8, which NumPy's DLPack doesn't have
        return _seen_as(tvm_ffi.from_dlpack(array.view(bits)), array.shape, array.dtype.name)
    if array.dtype.kind == "c":
        return _pairs(array, f"float{array.itemsize * 4}")
    if array.dtype == object:
        return _pairs(handles_of(array), "int32")
    handle = tvm_ffi.from_dlpack(array)
    # NumPy gives empty arrays zero strides, which kernels reject; a view has the usual strides.
    return handle if array.size else _seen_as(handle, array.shape, array.dtype.name)


def _pairs(array: np.ndarray, part: str) -> Any:
    """Returns a TVM tensor that views complex numbers or string handles as vectors of two elements of dtype ``part``.

    TVM has no dtype for these numbers.
    """
    return _seen_as(tvm_ffi.from_dlpack(array.reshape(-1).view(part)), array.shape, f"{part}x2")


def _seen_as(handle: Any, shape: Any, dtype: str) -> Any:
    """Returns a TVM tensor with another shape and dtype that views the same memory."""
    return _view_maker()(handle, tvm_ffi.Shape(tuple(shape)), dtype, 0)


@cache
def _view_maker() -> Any:
    """Returns the function of TVM's runtime that makes a view of a tensor.

    The method ``_create_view`` of tensors is there only once TVM's Python is imported, and processes that run compiled
    libraries load the runtime alone.
    """
    return tvm_ffi.get_global_func("runtime.TVMTensorCreateView")


def tensor_of(handle: Any) -> EagerTensor:
    """Returns an eager tensor that views the TVM tensor ``handle``, a result of compiled code."""
    array = to_array(handle)
    tensor = EagerTensor(array)
    # The handles of strings last for one call, so they are not cached.
    if array.dtype != object:
        tensor._handle = handle
    return tensor


def to_array(handle: Any) -> np.ndarray:
    """Returns a NumPy array that views a TVM tensor; strings are looked up by their handles.

    NumPy's DLPack rejects three kinds of dtypes. Complex numbers and string handles arrive as pairs of their halves.
    bfloat16 and float8 are viewed as integers of the same size first.
    """
    try:
        return np.from_dlpack(handle)
    except (RuntimeError, BufferError):
        name = str(handle.dtype)
    if name.endswith("x2"):
        halves = np.from_dlpack(_seen_as(handle, (*handle.shape, 2), name.removesuffix("x2")))
        if halves.dtype.kind == "i":
            return strings_of(halves.view(np.int64)[..., 0])
        return halves.view(f"complex{halves.itemsize * 16}")[..., 0]
    kind = _BY_NAME[name]
    return np.from_dlpack(_seen_as(handle, handle.shape, _BITS[kind])).view(kind)
