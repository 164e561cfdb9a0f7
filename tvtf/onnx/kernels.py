"""Lists dtypes that the standard allows but onnxruntime's CPU provider has no kernel for, and the exact replacement.

Read from ``onnxruntime.capi.onnxruntime_pybind11_state.get_all_opkernel_def()`` of onnxruntime 1.31 for opset 20;
float16 is left out because onnxruntime itself computes it in float32 where it has no kernel.
Source: https://github.com/microsoft/onnxruntime/blob/main/docs/OperatorKernels.md
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from tvtf import dtypes
from tvtf.dtypes import DType, as_dtype
from tvtf.onnx.standard import allowed

VERSION: Final = (1, 31)
"""The version of onnxruntime that the table was read from."""
_SMALL = "int16 int8 uint16 uint8"
_WIDE_UNSIGNED = "uint32 uint64"
_BLOCKS = "bfloat16 bool int16 int32 int64 uint16 uint32 uint64"

_FLOAT64_ONLY_LACKING: Final = """
    Acos Acosh Asin Asinh Atan Atanh Cosh Sinh Tan Elu HardSigmoid Selu Softplus Softsign ThresholdedRelu
    Conv ConvTranspose AveragePool InstanceNormalization GlobalAveragePool GlobalMaxPool
"""
_BFLOAT16_ONLY_LACKING: Final = """
    Abs Add BatchNormalization Ceil Div Equal Exp Expand Floor Greater GreaterOrEqual Less LessOrEqual Log LogSoftmax
    MatMul Mod Mul Neg Reciprocal Sigmoid Size Softmax Sqrt Sub Sum Tanh Tile
"""
_REDUCTIONS: Final = """
    ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare
"""

_LACKING: Final[dict[str, str]] = {
    **dict.fromkeys(_FLOAT64_ONLY_LACKING.split(), "float64"),
    **dict.fromkeys(_BFLOAT16_ONLY_LACKING.split(), "bfloat16"),
    **dict.fromkeys(_REDUCTIONS.split(), f"bfloat16 {_WIDE_UNSIGNED}"),
    **dict.fromkeys(("Erf", "Gelu", "LeakyRelu", "Mean"), "bfloat16 float64"),
    **dict.fromkeys(("ArgMax", "ArgMin"), f"bfloat16 int16 uint16 {_WIDE_UNSIGNED}"),
    **dict.fromkeys(("Clip", "Max", "Min", "Pad"), "bfloat16 int16 uint16"),
    **dict.fromkeys(("DepthToSpace", "SpaceToDepth"), _BLOCKS),
    "BitShift": "uint16",
    "CumSum": f"bfloat16 {_WIDE_UNSIGNED}",
    "Einsum": f"{_SMALL} {_WIDE_UNSIGNED}",
    "EyeLike": f"bool {_SMALL} uint32",
    "Gemm": f"bfloat16 int32 int64 {_WIDE_UNSIGNED}",
    "NonZero": "bfloat16 float64 int16 int8 uint16 uint32 uint64",
    "OneHot": f"bool float64 {_SMALL} {_WIDE_UNSIGNED}",
    "PRelu": f"bfloat16 float64 int32 int64 {_WIDE_UNSIGNED}",
    "Pow": f"bfloat16 {_SMALL} {_WIDE_UNSIGNED}",
    "Relu": "bfloat16 int16 int64",
    "Resize": "bfloat16 bool float64 int16 int64 uint16 uint32 uint64",
    "TopK": "uint16 uint32 uint64",
    "Trilu": f"bfloat16 {_SMALL} {_WIDE_UNSIGNED}",
    "Unique": "bool int16 int32 uint16 uint32 uint64 uint8",
    "Where": "bfloat16 bool int16 uint16 uint64",
}

_WIDER: Final[dict[str, str]] = {
    "bfloat16": "float32",
    "float16": "float32",
    "int8": "int16 int32 int64",
    "int16": "int32 int64",
    "int32": "int64",
    "uint8": "int16 int32 int64",
    "uint16": "int32 int64",
    "uint32": "int64",
    "bool": "uint8 int32",
}
"""The dtypes that hold every value of a dtype; 16-bit floats round once at the end, as tvtf's own kernels do."""

_MODULAR: Final = """
    Add Sub Mul Neg MatMul Gemm Einsum CumSum ReduceSum ReduceSumSquare ReduceProd
    Where Trilu NonZero Pad OneHot Expand Tile
"""
"""Ops whose uint64 result has the same bits as the int64 result: arithmetic modulo 2**64, and moving data."""

_SELECTING: Final = "MaxPool Relu"
"""Ops that only pick values: integers of up to 32 bits pass through float64 unchanged."""


@lru_cache(maxsize=4096)
def has_kernel(op: str, variable: str, dtype: DType) -> bool:
    """Returns whether onnxruntime can run the operator ``op`` for a dtype.

    ``variable`` is the type variable in the operator's signature, such as ``T``, that has the dtype.
    """
    return dtype in allowed(op)[variable] and dtype not in lacking(op)


@lru_cache(maxsize=512)
def lacking(op: str) -> frozenset[DType]:
    """Returns the dtypes for which onnxruntime has no kernel of ``op``."""
    return frozenset(map(as_dtype, _LACKING.get(op, "").split()))


@lru_cache(maxsize=4096)
def computed_in(op: str, variable: str, dtype: DType) -> DType | None:
    """Returns the dtype in which to export an operator for ``dtype``.

    It is ``dtype`` if onnxruntime has a kernel for it, else a wider dtype with a kernel and the same result. Without
    such a kernel it is ``dtype`` if the ONNX standard allows it, else None.

    >>> computed_in("ReduceSum", "T", dtypes.int8).name, computed_in("Conv", "T", dtypes.bfloat16).name
    ('int32', 'float32')
    """
    if has_kernel(op, variable, dtype):
        return dtype
    for wider in _wider_dtypes(op, dtype):
        if has_kernel(op, variable, wider):
            return wider
    return dtype if dtype in allowed(op)[variable] else None


def _wider_dtypes(op: str, dtype: DType) -> Iterable[DType]:
    """Returns the wider dtypes in which an operator gives the same result as in ``dtype``, in order of preference."""
    if dtype is dtypes.uint64:
        return (dtypes.int64,) if op in _MODULAR.split() else ()  # arithmetic modulo 2**64 gives the same bits
    # float64 holds every integer of up to 32 bits.
    through_float = ["float64"] if op in _SELECTING.split() and dtype.is_integer and dtype.size <= 4 else []
    return map(as_dtype, [*_WIDER.get(dtype.name, "").split(), *through_float])
