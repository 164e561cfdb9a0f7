"""Conversion between strings and numbers: to_number and as_string."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tvtf.core.argument_error import ArgumentError, ArgumentValueError
from tvtf.core.shape import TensorType
from tvtf.core.tensor import convert_to_tensor
from tvtf.dtypes import COMPLEX, FLOATING, DType, as_dtype, float32, float64, int32, int64, string, uint32, uint64
from tvtf.dtypes import bool as bool_
from tvtf.ops.operands import attributes, one_of
from tvtf.ops.strings.rules import mapped, text, text_op

_INT = re.compile(rb"\s*[+-]?\d+\s*")
_FLOAT = re.compile(rb"\s*[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\s*", re.IGNORECASE)


def number_of(value: bytes, dtype: DType) -> Any:
    """Parses a number by TensorFlow's grammar, without the underscores between digits that Python accepts.

    >>> number_of(b" 12", int32)
    12

    Raises:
      ValueError: it is not a number, or doesn't fit the dtype.
    """
    kind, pattern = (float, _FLOAT) if dtype.is_floating else (int, _INT)
    if not pattern.fullmatch(value) or (kind is int and not _fits(int(value), dtype)):
        raise ValueError(f"{value!r:.100} is not a valid {dtype.name}")
    return kind(value)


def _parsed(array: np.ndarray, out_type: DType) -> np.ndarray:
    """Converts each string to a number; raises TensorFlow's error for one that isn't a number of ``out_type``."""

    def number(value: bytes) -> Any:
        try:
            return number_of(value, out_type)
        except ValueError:
            message = f"StringToNumberOp could not correctly convert string: {value.decode(errors='replace')}"
            raise ArgumentError(message) from None

    return mapped(number, array, out_type.np)


def _fits(value: int, dtype: DType) -> bool:
    limits = np.iinfo(dtype.np)
    return bool(limits.min <= value <= limits.max)


@text_op(
    type=lambda x, out_type: TensorType(_texts(x).shape, out_type),
    numpy=_parsed,
    public=("strings.to_number",),
)
@attributes(out_type=one_of(float32, float64, int32, int64, uint32, uint64))
def string_to_number(input: Any, out_type: Any = float32, name: str | None = None) -> Any:
    """Converts each string to a number.

    Args:
      input: string tensor.
      out_type: float32, float64, int32 or int64.

    >>> import tvtf as tf
    >>> tf.strings.to_number(["1.55", "3"]).numpy()
    array([1.55, 3.  ], dtype=float32)

    Raises:
      InvalidArgumentError: a string is no number, or one that does not fit.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/to_number
    """
    kind = as_dtype(out_type)
    if kind not in (float32, float64, int32, int64):
        raise ArgumentError(
            f"Value for attr 'out_type' of {kind.name} is not in the list of allowed values: float, double, int32, int64"
        ).for_op("StringToNumber")
    return (text(input),), {"out_type": kind}


def _texts(x: TensorType) -> TensorType:
    if x.dtype is not string:
        raise ArgumentError(
            f"cannot compute {{op}} as input #0(zero-based) was expected to be a string tensor but is a {x.dtype.name} tensor",
            TypeError,
        )
    return x


# -- as strings


def _written(array: np.ndarray, form: str, is_complex: bool) -> np.ndarray:
    """Formats each element, strings and bools included."""
    if array.dtype == object:
        return mapped(
            lambda value: (form % value.decode(errors="surrogateescape")).encode(errors="surrogateescape"), array
        )
    if array.dtype == np.bool_:
        return mapped(lambda value: b"true" if value else b"false", array)
    if is_complex:
        return mapped(lambda value: (form % (value.real, value.imag)).encode(), array)
    wide = array.astype(np.float64) if array.dtype.kind not in "iu" else array
    return mapped(lambda value: (form % value).encode(), wide)


@text_op(
    type=lambda x, form, is_complex: TensorType(x.shape, string),
    numpy=_written,
    public=("as_string", "strings.as_string", "dtypes.as_string"),
)
@attributes(scientific=bool, shortest=bool, precision=int, width=int, fill=str)
def as_string(
    input: Any,
    precision: int = -1,
    scientific: bool = False,
    shortest: bool = False,
    width: int = -1,
    fill: str = "",
    name: str | None = None,
) -> Any:
    """Converts each element to text, as C's ``printf``.

    Args:
      input: tensor of numbers, bools or strings.
      precision: digits after the point, for floats; -1 for six.
      scientific: with an exponent.
      shortest: the shorter of the two forms.
      width: of a field that is filled up on the left; -1 for none.
      fill: what with: " ", "0", or a flag of ``printf``, "+", "-" or "#".

    >>> import tvtf as tf
    >>> tf.as_string([3.1415926, 2.]).numpy(), tf.as_string(7, width=3, fill="0").numpy()
    (array([b'3.141593', b'2.000000'], dtype=object), b'007')

    Raises:
      InvalidArgumentError: a precision or notation for what are no floats, both notations, or another ``fill``.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/as_string
    """
    x = convert_to_tensor(input)
    form = _form(x.dtype, int(precision), scientific, shortest, int(width), fill)
    is_complex = x.dtype.is_complex
    return (x,), {"form": f"({form},{form})" if is_complex else form, "is_complex": is_complex}


def _form(dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: str) -> str:
    """Returns C's printf format of one number, after checking the options."""
    fractional = dtype in (*FLOATING, *COMPLEX)
    if not fractional and dtype not in (bool_, string):
        _require(
            not (scientific or shortest),
            f"scientific and shortest format not supported for datatype {dtype.name}",
        )
        _require(precision < 0, f"precision not supported for datatype {dtype.name}")
    _require(len(fill) <= 1, "Fill string must be one or fewer characters")
    _require(not (scientific and shortest), "Cannot select both scientific and shortest notation")
    _require(fill in ("", " ", "+", "-", "0", "#"), f'Fill argument not supported: "{fill}"')
    size = (str(width) if width > -1 else "") + (f".{precision}" if precision > -1 else "")
    kind = ("g" if shortest else "e" if scientific else "f") if fractional else "d"
    return f"%{fill}{size}{'s' if dtype in (bool_, string) else kind}"


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ArgumentValueError(message).for_op("AsString")
