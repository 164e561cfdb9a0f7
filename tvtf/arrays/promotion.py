"""Promotes dtypes by TensorFlow's table, in which the dtypes of Python's numbers and of weak tensors defer to others.

Source: https://www.tensorflow.org/guide/tf_numpy_type_promotion
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np

from tvtf.core import nest
from tvtf.core.composite import CompositeTensor
from tvtf.core.shape import TensorShape
from tvtf.dtypes import DType, as_dtype

MODES = ("safe", "all")
"""The modes that promote by the table; "safe" raises where a promotion may lose precision or takes more bits than both."""


class setting:  # noqa: N801 - a namespace for one setting
    """The mode in which operations promote by the table; None if they don't."""

    mode: str | None = None


class PromotedType(NamedTuple):
    """A dtype, and whether it defers to the other operand's."""

    dtype: DType
    is_weak: bool

    def __str__(self) -> str:
        return f"({self.dtype}, weak={self.is_weak})"


_DTYPE_PREFIXES = {"bf": "bfloat", "u": "uint", "i": "int", "f": "float", "c": "complex"}

# A row for each type: itself, then its results with the types of all rows up to its own. * marks weak types, ! what only
# the mode "all" permits.
_ROWS = """
b     b
u8    u8    u8
u16   u16   u16   u16
u32   u32   u32   u32   u32
u64   u64   u64   u64   u64   u64
i8    i8    i16!  i32!  i64!  f64*! i8
i16   i16   i16   i32!  i64!  f64*! i16   i16
i32   i32   i32   i32   i64!  f64*! i32   i32   i32
i64   i64   i64   i64   i64   f64*! i64   i64   i64   i64
bf16  bf16  bf16  bf16! bf16! bf16! bf16  bf16! bf16! bf16! bf16
f16   f16   f16   f16!  f16!  f16!  f16   f16!  f16!  f16!  f32!  f16
f32   f32   f32   f32   f32!  f32!  f32   f32   f32!  f32!  f32   f32   f32
f64   f64   f64   f64   f64   f64!  f64   f64   f64   f64!  f64   f64   f64   f64
c64   c64   c64   c64   c64!  c64!  c64   c64   c64!  c64!  c64   c64   c64   c128! c64
c128  c128  c128  c128  c128  c128! c128  c128  c128  c128! c128  c128  c128  c128  c128  c128
i32*  i32*  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i32*
i64*  i64*  u8    u16   u32   u64   i8    i16   i32   i64   bf16  f16   f32   f64   c64   c128  i64*  i64*
f32*  f32*  f64*! f64*! f64*! f64*! f64*! f64*! f64*! f64*! bf16  f16   f32   f64   c64   c128  f32*  f32*  f32*
f64*  f64*  f64*  f64*  f64*  f64*! f64*  f64*  f64*  f64*! bf16  f16   f32   f64   c64   c128  f64*  f64*  f64*  f64*
c128* c128* c128* c128* c128* c128*! c128* c128* c128* c128*! c64! c64! c64! c128 c64   c128  c128* c128* c128* c128* c128*
"""


def _promoted_type(text: str) -> PromotedType:
    prefix, bits = re.match(r"([a-z]+)(\d*)", text).groups()  # type: ignore[union-attr]
    return PromotedType(as_dtype(f"{_DTYPE_PREFIXES[prefix]}{bits}" if bits else "bool"), "*" in text)


def _read_table() -> dict[frozenset[PromotedType], tuple[PromotedType, bool]]:
    """Parses the table of dtype promotions ``_ROWS``.

    Maps each set of two types to the promoted type, and to whether the mode "safe" permits the promotion.
    """
    rows = [row.split() for row in _ROWS.strip().splitlines()]
    types = [_promoted_type(row[0]) for row in rows]  # of the rows, and of the columns in the same order
    table = {}
    for row_type, (_, *entries) in zip(types, rows):
        for column_type, entry in zip(types, entries):
            is_safe = not entry.endswith("!")
            table[frozenset((row_type, column_type))] = _promoted_type(entry), is_safe
    return table


TABLE = _read_table()
STRING = PromotedType(as_dtype("string"), False)
WEAK_DTYPES = {each.dtype for pair in TABLE for each in pair if each.is_weak}
"""The dtypes that a weak tensor may have."""
_PYTHON_TYPES = {
    bool: _promoted_type("b"),
    int: _promoted_type("i32*"),
    float: _promoted_type("f32*"),
    complex: _promoted_type("c128*"),
    TensorShape: _promoted_type("i32"),
}


def type_of(value: Any) -> PromotedType | None:
    """Returns the type (dtype and weakness) with which a value takes part in promotion, or None if the table has none.

    Raises:
      OverflowError: a Python int needs more than 32 bits.
    """
    # Weak tensors are the only composite tensors that have a place in the table.
    if isinstance(value, CompositeTensor) and not hasattr(value, "is_weak"):
        return None
    dtype = getattr(value, "dtype", None)
    if isinstance(value, DType):
        return PromotedType(value, False)
    if isinstance(dtype, DType):
        return PromotedType(dtype, hasattr(value, "is_weak"))
    if isinstance(value, (bytes, str)):
        return STRING
    if isinstance(dtype, np.dtype) or isinstance(value, np.dtype):
        return PromotedType(as_dtype(value if isinstance(value, np.dtype) else dtype), False)
    if isinstance(value, type):
        if value in _PYTHON_TYPES:
            return _PYTHON_TYPES[value]
        return PromotedType(as_dtype(value), False) if issubclass(value, np.generic) else None
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 31) <= value < 1 << 31:
        raise OverflowError(f"Python int {value} too large to convert to np.int32")
    for python_type, promoted_type in _PYTHON_TYPES.items():
        if isinstance(value, python_type):
            return promoted_type
    return None


def promoted(*values: Any) -> PromotedType | None:
    """Returns the type to which all values (or nests of values) promote together, or None if the table has none.

    Raises:
      TypeError: the mode is "safe", which forbids the promotion.
    """
    present_values = [value for value in values if value is not None]
    types = [type_of(value) for value in nest.flatten(present_values)]
    result = types[0] if types else _PYTHON_TYPES[float]
    for next_type in types[1:]:
        if result is None or next_type is None:
            return None
        if result == next_type == STRING:
            continue
        pair = frozenset((result, next_type))
        if pair not in TABLE:
            return None
        common, is_safe = TABLE[pair]
        if setting.mode == "safe" and not is_safe:
            raise TypeError(
                f"In promotion mode PromoMode.SAFE, implicit dtype promotion between {result} and {next_type} is disallowed. "
                "You need to explicitly specify the dtype in your op, or relax your dtype promotion rules (such as from "
                "SAFE mode to ALL mode)."
            )
        result = common
    return result
