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
      ValueError: the text is not a number, or the number doesn't fit the dtype.
    """
    python_type, pattern = (float, _FLOAT) if dtype.is_floating else (int, _INT)
    if not pattern.fullmatch(value) or (python_type is int and not _fits(int(value), dtype)):
        raise ValueError(f"{value!r:.100} is not a valid {dtype.name}")
    return python_type(value)


def _parse_numbers(array: np.ndarray, out_type: DType) -> np.ndarray:
    """Converts each string to a number of the dtype ``out_type``.

    Raises TensorFlow's error for a string that is not a number, or too large a number.
    """

    def parse(value: bytes) -> Any:
        """Parses one string, and raises TensorFlow's error if it is not a number."""
        try:
            return number_of(value, out_type)
        except ValueError:
            message = f"StringToNumberOp could not correctly convert string: {value.decode(errors='replace')}"
            raise ArgumentError(message) from None

    return mapped(parse, array, out_type.np)


def _fits(value: int, dtype: DType) -> bool:
    """Returns whether an integer is in the range of an integer dtype."""
    limits = np.iinfo(dtype.np)
    return bool(limits.min <= value <= limits.max)


@text_op(
    type=lambda x, out_type: TensorType(_require_strings(x).shape, out_type),
    numpy=_parse_numbers,
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
      InvalidArgumentError: a string is not a number, or the number doesn't fit ``out_type``.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/to_number
    """
    number_dtype = as_dtype(out_type)
    if number_dtype not in (float32, float64, int32, int64):
        raise ArgumentError(
            f"Value for attr 'out_type' of {number_dtype.name} is not in the list of allowed values: float, double, int32, int64"
        ).for_op("StringToNumber")
    return (text(input),), {"out_type": number_dtype}


def _require_strings(x: TensorType) -> TensorType:
    """Checks that an input has the dtype string, and returns its type, which is also the result's type.

    The error for other dtypes is TensorFlow's.
    """
    if x.dtype is not string:
        raise ArgumentError(
            f"cannot compute {{op}} as input #0(zero-based) was expected to be a string tensor but is a {x.dtype.name} tensor",
            TypeError,
        )
    return x


# -- as strings


def _format_elements(array: np.ndarray, form: str, is_complex: bool) -> np.ndarray:
    """Formats each element by the printf format ``form``. Bools become "true" and "false".

    The format of complex numbers has a placeholder for the real part and one for the imaginary part.

    Args:
      array: the numbers, strings or bools.
      form: the format.
      is_complex: whether the numbers are complex.
    """

    def format_bytes(value: bytes) -> bytes:
        text = value.decode(errors="surrogateescape")
        return (form % text).encode(errors="surrogateescape")

    if array.dtype == object:
        return mapped(format_bytes, array)
    if array.dtype == np.bool_:
        return mapped(lambda value: b"true" if value else b"false", array)
    if is_complex:
        return mapped(lambda value: (form % (value.real, value.imag)).encode(), array)
    # All floats are formatted as float64.
    numbers = array.astype(np.float64) if array.dtype.kind not in "iu" else array
    return mapped(lambda value: (form % value).encode(), numbers)


@text_op(
    type=lambda x, form, is_complex: TensorType(x.shape, string),
    numpy=_format_elements,
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
      InvalidArgumentError: a precision or notation is given for a dtype that is not floating, both notations are
        requested, or ``fill`` is not supported.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/as_string
    """
    x = convert_to_tensor(input)
    number_format = _printf_format(x.dtype, int(precision), scientific, shortest, int(width), fill)
    is_complex = x.dtype.is_complex
    return (x,), {
        "form": f"({number_format},{number_format})" if is_complex else number_format,
        "is_complex": is_complex,
    }


def _printf_format(dtype: DType, precision: int, scientific: bool, shortest: bool, width: int, fill: str) -> str:
    """Checks the options of `tf.as_string`, and returns C's printf format for one element of the dtype ``dtype``.

    For example, float32 with a width of 8 and a precision of 2 gives ``%8.2f``. A width or precision of -1 is unset.
    """
    is_fractional = dtype in (*FLOATING, *COMPLEX)
    if not is_fractional and dtype not in (bool_, string):
        _require_valid(
            not (scientific or shortest),
            f"scientific and shortest format not supported for datatype {dtype.name}",
        )
        _require_valid(precision < 0, f"precision not supported for datatype {dtype.name}")
    _require_valid(len(fill) <= 1, "Fill string must be one or fewer characters")
    _require_valid(not (scientific and shortest), "Cannot select both scientific and shortest notation")
    _require_valid(fill in ("", " ", "+", "-", "0", "#"), f'Fill argument not supported: "{fill}"')
    width_text = str(width) if width > -1 else ""
    precision_text = f".{precision}" if precision > -1 else ""
    if dtype in (bool_, string):
        conversion = "s"
    elif not is_fractional:
        conversion = "d"
    elif shortest:
        conversion = "g"
    else:
        conversion = "e" if scientific else "f"
    return f"%{fill}{width_text}{precision_text}{conversion}"


def _require_valid(is_valid: bool, message: str) -> None:
    """Raises TensorFlow's error of `tf.as_string` unless ``is_valid``."""
    if not is_valid:
        raise ArgumentValueError(message).for_op("AsString")
