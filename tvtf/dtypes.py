"""Element types of tensors: TensorFlow's names, enum values and printed forms, over NumPy and ml_dtypes."""

from __future__ import annotations

import builtins
from typing import Any, Final

import ml_dtypes
import numpy as np


class DType:
    """An element type. It compares by ``is`` and ``==``, also with its name or NumPy type.

    >>> float32.name, float32.is_floating, float32 == "float32"
    ('float32', True, True)

    Source: https://www.tensorflow.org/api_docs/python/tf/dtypes/DType
    """

    __slots__ = ("name", "np", "as_datatype_enum", "kind", "is_complex", "is_differentiable", "__weakref__")

    def __init__(self, name: str, numpy_type: Any, enum: int, kind: str) -> None:
        self.name: Final = name
        self.np: Final = np.dtype(numpy_type)
        self.as_datatype_enum: Final = enum
        self.kind: Final = kind
        self.is_complex: Final = kind == "c"
        self.is_differentiable: Final = kind in "fc" and self.np.itemsize > 1

    @property
    def as_numpy_dtype(self) -> type:
        return self.np.type

    @property
    def base_dtype(self) -> DType:
        return self

    @property
    def is_floating(self) -> builtins.bool:
        return self.kind == "f"

    @property
    def is_integer(self) -> builtins.bool:
        return self.kind in "iu"

    @property
    def is_unsigned(self) -> builtins.bool:
        return self.kind == "u"

    @property
    def is_bool(self) -> builtins.bool:
        return self.kind == "b"

    @property
    def is_numeric(self) -> builtins.bool:
        return self.kind in "fciu"

    @property
    def real_dtype(self) -> DType:
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def size(self) -> int:
        """Bytes per element; 1 for string, as in TensorFlow."""
        return 1 if self.kind == "s" else self.np.itemsize

    @property
    def min(self) -> Any:
        return self._limits().min

    @property
    def max(self) -> Any:
        return self._limits().max

    def _limits(self) -> Any:
        """Returns the limits of the dtype by NumPy. Raises TypeError for complex numbers and strings."""
        if self.is_bool:
            return np.iinfo(np.uint8)
        if self.is_integer:
            return np.iinfo(self.np)
        if self.is_floating:
            return ml_dtypes.finfo(self.np)
        raise TypeError(f"Cannot find limits of {self!r}.")

    @property
    def limits(self) -> tuple[int, Any]:
        """The range of pixel values: (0, 1) for float32 and float64, else zero and the largest integer.

        Raises:
          ValueError: the dtype has no such range.
        """
        if self.is_bool or self.is_integer:
            return 0, True if self.is_bool else int(self.max)
        if self.name not in ("float32", "float64"):
            raise ValueError(f"{self} does not have defined limits.")
        return 0, 1

    @property
    def is_quantized(self) -> builtins.bool:
        return self.kind == "q"

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        return True

    def is_subtype_of(self, other: Any) -> builtins.bool:
        return self is other

    def most_specific_common_supertype(self, types: Any) -> DType | None:
        return self if all(self is other for other in types) else None

    def is_compatible_with(self, other: Any) -> builtins.bool:
        return self is as_dtype(other)

    def __eq__(self, other: object) -> builtins.bool:
        """Returns whether ``other`` denotes this dtype; it may be a DType, a name, or a NumPy or Python type."""
        if isinstance(other, DType):
            return self is other
        try:
            return self is as_dtype(other)
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


class UnsupportedDType(DType):
    """A dtype of TensorFlow that can be named and compared, but of which tvtf has no tensors.

    >>> float32 in (qint8, variant), qint8.is_quantized
    (False, True)

    Raises:
      NotImplementedError: the property ``np`` of this dtype is read.
    """

    __slots__ = ()

    def __init__(self, name: str, enum: int, kind: str) -> None:
        self.name = name  # type: ignore[misc]
        self.as_datatype_enum = enum  # type: ignore[misc]
        self.kind = kind  # type: ignore[misc]
        self.is_complex = self.is_differentiable = False  # type: ignore[misc]

    @property  # type: ignore[misc] # final in the base class
    def np(self) -> Any:
        raise NotImplementedError(f"tvtf has no tensors of {self!r}")


float32 = DType("float32", np.float32, 1, "f")
float64 = double = DType("float64", np.float64, 2, "f")
int32 = DType("int32", np.int32, 3, "i")
uint8 = DType("uint8", np.uint8, 4, "u")
int16 = DType("int16", np.int16, 5, "i")
int8 = DType("int8", np.int8, 6, "i")
string = DType("string", object, 7, "s")
complex64 = DType("complex64", np.complex64, 8, "c")
int64 = DType("int64", np.int64, 9, "i")
bool = DType("bool", np.bool_, 10, "b")  # noqa: A001 - TensorFlow's public name
bfloat16 = DType("bfloat16", ml_dtypes.bfloat16, 14, "f")
uint16 = DType("uint16", np.uint16, 17, "u")
complex128 = DType("complex128", np.complex128, 18, "c")
float16 = half = DType("float16", np.float16, 19, "f")
uint32 = DType("uint32", np.uint32, 22, "u")
uint64 = DType("uint64", np.uint64, 23, "u")
float8_e5m2 = DType("float8_e5m2", ml_dtypes.float8_e5m2, 24, "f")
float8_e4m3fn = DType("float8_e4m3fn", ml_dtypes.float8_e4m3fn, 25, "f")
float8_e4m3fnuz = DType("float8_e4m3fnuz", ml_dtypes.float8_e4m3fnuz, 26, "f")
float8_e4m3b11fnuz = DType("float8_e4m3b11fnuz", ml_dtypes.float8_e4m3b11fnuz, 27, "f")
float8_e5m2fnuz = DType("float8_e5m2fnuz", ml_dtypes.float8_e5m2fnuz, 28, "f")
resource = UnsupportedDType("resource", 20, "r")
variant = UnsupportedDType("variant", 21, "r")
qint8 = UnsupportedDType("qint8", 11, "q")
quint8 = UnsupportedDType("quint8", 12, "q")
qint32 = UnsupportedDType("qint32", 13, "q")
qint16 = UnsupportedDType("qint16", 15, "q")
quint16 = UnsupportedDType("quint16", 16, "q")
QUANTIZED_DTYPES: Final = frozenset((qint8, quint8, qint32, qint16, quint16))
UNSUPPORTED: Final = (*QUANTIZED_DTYPES, resource, variant)

FLOAT8: Final = (float8_e5m2, float8_e4m3fn, float8_e4m3fnuz, float8_e4m3b11fnuz, float8_e5m2fnuz)
"""8-bit floats: storage types, cast to wider ones for arithmetic."""
ALL: Final = (
    *(float16, bfloat16, float32, float64, int8, int16, int32, int64),
    *(uint8, uint16, uint32, uint64, bool, complex64, complex128, string),
    *FLOAT8,
)
FLOATING: Final = (float16, bfloat16, float32, float64)
COMPLEX: Final = (complex64, complex128)
SIGNED: Final = (int8, int16, int32, int64)
UNSIGNED: Final = (uint8, uint16, uint32, uint64)
INTEGER: Final = SIGNED + UNSIGNED
REAL: Final = FLOATING + INTEGER
NUMERIC: Final = REAL + COMPLEX
FLOATING_AND_COMPLEX: Final = FLOATING + COMPLEX
COMPILED: Final = (*REAL, bool)
"""The types that TVM generates code for."""
ON_HOST: Final = (*COMPLEX, string, *FLOAT8)
"""The types that compiled code only passes on; NumPy computes with them."""
TRACED: Final = (*COMPILED, *ON_HOST)
"""The types of tensors in traced programs."""

_BY_NAME: Final[dict[Any, DType]] = {dtype.name: dtype for dtype in (*ALL, *UNSUPPORTED)} | {
    "half": float16,
    "float": float32,
    "double": float64,
    "str": string,
}
_BY_NUMPY: Final[dict[Any, DType]] = {dtype.np: dtype for dtype in ALL}
_BY_ENUM: Final = {dtype.as_datatype_enum: dtype for dtype in (*ALL, *UNSUPPORTED)}
_BY_PYTHON: Final[dict[Any, DType]] = {
    float: float32,
    int: int32,
    builtins.bool: bool,
    complex: complex128,
    str: string,
}


def as_dtype(type_value: Any) -> DType:
    """Converts a name, a NumPy or Python type, or TensorFlow's enum value to a DType. Returns a DType unchanged.

    >>> as_dtype("half"), as_dtype(float), as_dtype(3)
    (tf.float16, tf.float32, tf.int32)

    Raises:
      TypeError: the value doesn't denote a DType.
    """
    if isinstance(type_value, DType):
        return type_value
    dtype = _lookup(type_value)
    if dtype is None:
        raise TypeError(f"Cannot convert the argument `type_value`: {type_value!r} to a TensorFlow DType.")
    return dtype


def _lookup(value: Any) -> DType | None:
    """Returns the dtype of a name, Python type, enum value or NumPy dtype, or None if there is none."""
    if isinstance(value, str):
        return _BY_NAME.get(value)
    if isinstance(value, type):
        return _BY_PYTHON.get(value) or _from_numpy(value)
    if isinstance(value, (int, float, np.generic)) and value in _BY_ENUM:
        return _BY_ENUM[int(value)]
    numpy_dtype = value if isinstance(value, np.dtype) else getattr(value, "dtype", None)
    return _from_numpy(numpy_dtype) if isinstance(numpy_dtype, np.dtype) else None


def _from_numpy(value: Any) -> DType | None:
    """Returns the DType of a NumPy dtype, or None for other values."""
    try:
        array_type = np.dtype(value)
    except TypeError:
        return None
    return string if array_type.kind in "SUO" else _BY_NUMPY.get(array_type)


def from_array(array: np.ndarray) -> DType:
    """Returns the DType of an array created by tvtf."""
    return _BY_NUMPY[array.dtype]


def type_name(dtype: DType) -> str:
    """Returns a dtype's name as TensorFlow's kernels print it."""
    return {"float32": "float", "float64": "double", "float16": "half"}.get(dtype.name, dtype.name)
