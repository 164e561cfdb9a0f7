"""Types as the printed IR writes them: ``f32[256,n]``, tuples of them, and literals of constants."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import tvm_ffi
from tvm import ir, relax

from tvtf.core.shape import simplify_dim
from tvtf.ir.dialect import PAIRS

UNKNOWN_SHAPE = "..."
MAX_ELEMENTS = 16
"""Larger constants are shown by their type: tracing embeds no larger ones, passes fold few (``trace.EMBEDDED_ELEMENTS``)."""
MAX_CHARACTERS = 40
"""Longer texts are cut: a line is one binding."""
_KINDS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
_NUMBERED = re.compile(r"(float|bfloat|int|uint|complex)(\d+)(_\w+)?")


def short_dtype(name: str) -> str:
    """Returns a dtype's short name, from the name that TVM or tvtf has for the dtype.

    >>> short_dtype("float32"), short_dtype("bfloat16"), short_dtype("float8_e4m3fn"), short_dtype("bool")
    ('f32', 'bf16', 'f8_e4m3fn', 'bool')
    """
    if name in PAIRS:  # TVM has no complex numbers and no strings: tvtf keeps them as pairs
        name = PAIRS[name].name
    match = _NUMBERED.fullmatch(name)
    if match is None:
        return name or "?"
    number_kind, bits, variant = match.groups()
    return f"{_KINDS[number_kind]}{bits}{variant or ''}"


def short_dim(dim: Any) -> str:
    """Formats a dim: a number, or an expression of symbols such as ``n*2+1``."""
    dim = simplify_dim(dim)
    # TVM prints numbers with their type, `T.int64(2)`.
    return re.sub(r"T\.\w+\((-?\d+)\)", r"\1", str(dim)).replace(" ", "")


def short_type(ty: Any) -> str:
    """Formats a Relax type in short, such as ``f32[256,2]`` for a tensor.

    >>> short_type(relax.TensorType((256, 2), "float32"))
    'f32[256,2]'
    >>> short_type(ir.TupleType([relax.TensorType((), "bool"), relax.TensorType(None, "int64")]))
    '(bool[], i64[...])'
    """
    if isinstance(ty, relax.TensorType):
        dims = UNKNOWN_SHAPE if ty.shape is None else dims_text(ty.shape)
        return f"{short_dtype(str(ty.dtype))}[{dims}]"
    if isinstance(ty, ir.TupleType):
        return f"({', '.join(map(short_type, ty.fields))})"
    if isinstance(ty, relax.ShapeType):
        return "shape" if ty.values is None else f"shape[{','.join(map(short_dim, ty.values))}]"
    if isinstance(ty, ir.PrimType):
        return short_dtype(str(ty.dtype))
    return "object"


def dims_text(shape: Any) -> str:
    """Formats the dims of a Relax shape, such as ``256,n``; ``...`` for a variable that holds a shape."""
    return ",".join(map(short_dim, shape.values)) if isinstance(shape, relax.ShapeExpr) else UNKNOWN_SHAPE


def short_buffer(param: Any) -> str:
    """Formats the type of a kernel's parameter: a buffer such as ``f32[256,2]``, or a number such as ``i64``."""
    shape = getattr(param.ty, "shape", None)
    if shape is None:  # a number, not a buffer
        return short_dtype(str(getattr(param.ty, "dtype", "")))
    return f"{short_dtype(str(param.ty.dtype))}[{','.join(map(short_dim, shape))}]"


def literal(constant: ir.Constant) -> str:
    """Formats a constant of the IR: its numbers if they fit in a line, else the word "constant" and its type."""
    value = constant.value  # a tensor, or a text, number or dtype among the arguments of a lowered call
    if isinstance(value, str):
        return cut(repr(str(value)))
    if not hasattr(value, "numpy"):
        return short_dtype(str(value)) if isinstance(value, tvm_ffi.dtype) else str(value)
    array = np.asarray(value.numpy())
    text = numbers(array.tolist(), array.dtype) if array.size <= MAX_ELEMENTS else ""
    return text if 0 < len(text) <= MAX_CHARACTERS else f"constant {short_type(constant.ty)}"


def cut(text: str) -> str:
    """Shortens a text to at most ``MAX_CHARACTERS`` characters. A shortened text ends in "..."."""
    return text if len(text) <= MAX_CHARACTERS else f"{text[: MAX_CHARACTERS - 3]}..."


def numbers(value: Any, dtype: Any) -> str:
    """Formats a number, or a nest of lists of numbers, with the fewest digits that identify each number in its dtype.

    For example, the float32 nearest to 0.1 is formatted as 0.1.
    """
    if isinstance(value, list):
        return f"[{', '.join(numbers(item, dtype) for item in value)}]"
    return str(np.asarray(value, dtype)[()]) if isinstance(value, float) else repr(value)
