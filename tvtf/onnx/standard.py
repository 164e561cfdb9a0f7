"""The ONNX standard at the opset that tvtf writes: versions, dtypes, operators' signatures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import onnx
from onnx import TensorProto

from tvtf import dtypes
from tvtf.dtypes import DType

OPSET: Final = 20
IR_VERSION: Final = 9
"""The version of the file format that came with opset 20; onnxruntime reads it since 1.17."""

ELEMENT: Final[dict[DType, int]] = {
    dtypes.float16: TensorProto.FLOAT16,
    dtypes.bfloat16: TensorProto.BFLOAT16,
    dtypes.float32: TensorProto.FLOAT,
    dtypes.float64: TensorProto.DOUBLE,
    dtypes.int8: TensorProto.INT8,
    dtypes.int16: TensorProto.INT16,
    dtypes.int32: TensorProto.INT32,
    dtypes.int64: TensorProto.INT64,
    dtypes.uint8: TensorProto.UINT8,
    dtypes.uint16: TensorProto.UINT16,
    dtypes.uint32: TensorProto.UINT32,
    dtypes.uint64: TensorProto.UINT64,
    dtypes.bool: TensorProto.BOOL,
    dtypes.float8_e5m2: TensorProto.FLOAT8E5M2,
    dtypes.float8_e4m3fn: TensorProto.FLOAT8E4M3FN,
    dtypes.float8_e5m2fnuz: TensorProto.FLOAT8E5M2FNUZ,
    dtypes.float8_e4m3fnuz: TensorProto.FLOAT8E4M3FNUZ,
}
DTYPE: Final = {number: dtype for dtype, number in ELEMENT.items()}
_BY_TEXT: Final = {f"tensor({TensorProto.DataType.Name(number).lower()})": dtype for dtype, number in ELEMENT.items()}


@lru_cache(maxsize=512)
def schema(op: str) -> onnx.defs.OpSchema:
    """Returns the ONNX standard's definition of an operator, in the opset that tvtf writes.

    Raises:
      onnx.defs.SchemaError: ONNX has no operator of this name.
    """
    return onnx.defs.get_schema(op, OPSET, "")


@lru_cache(maxsize=512)
def allowed(op: str) -> dict[str, frozenset[DType]]:
    """Returns the allowed dtypes of each type variable in an operator's signature, such as ``T``.

    The signature may also name a type directly, such as ``tensor(int64)``. Such a type is a key of the result, too.
    """
    definition = schema(op)
    type_texts: dict[str, tuple[str, ...]] = {}
    for constraint in definition.type_constraints:
        type_texts[constraint.type_param_str] = tuple(constraint.allowed_type_strs)
    for parameter in (*definition.inputs, *definition.outputs):
        type_texts.setdefault(parameter.type_str, (parameter.type_str,))
    return {name: _dtypes(texts) for name, texts in type_texts.items()}


def _dtypes(texts: Sequence[str]) -> frozenset[DType]:
    """Converts ONNX's texts of types, such as ``tensor(float)``, to dtypes; leaves out types that tvtf doesn't have."""
    return frozenset(_BY_TEXT[text] for text in texts if text in _BY_TEXT)


def type_variables(parameters: Sequence[Any], count: int) -> Iterator[str | None]:
    """Yields the type variable of each of ``count`` arguments of an ONNX operator.

    Yields None for an argument of a variadic parameter that accepts mixed types.
    """
    for position in range(count):
        parameter = parameters[min(position, len(parameters) - 1)]  # the last parameter may be variadic
        yield parameter.type_str if parameter.is_homogeneous else None
