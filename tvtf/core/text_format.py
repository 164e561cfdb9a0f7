"""Text of numbers and tensors in messages and ``tf.print``, as TensorFlow's C++ formats it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

HOLE = "\x1a"
"""The placeholder in a message for the value of a tensor at run time: ASCII's SUBSTITUTE."""


def number(value: Any) -> str:
    """Formats a number with few digits, or with more if those don't round-trip; a bool as 0 or 1.

    >>> number(0.1), number(np.float32(1) / 3), number(True), number(1e20)
    ('0.1', '0.333333343', '1', '1e+20')
    """
    element = np.asarray(value)
    if element.dtype.kind in "bui":
        return str(int(element))
    if element.dtype.kind == "c":
        return "?"
    double = element.dtype.itemsize == 8
    short, exact = (15, 17) if double else (6, 9)
    text = f"{float(element):.{short}g}"
    same = float(text) == float(element) if double else np.float32(text) == np.float32(element)
    if element != element:
        return "-nan" if np.signbit(element) else "nan"
    return text if same else f"{float(element):.{exact}g}"


def summarized(array: np.ndarray, limit: int) -> str:
    """Formats the first ``limit`` elements in row-major order, inner rows in brackets, as ``Tensor::SummarizeValue``.

    >>> summarized(np.array([1, 2, 3, 4]), 3), summarized(np.array([[1, 2], [3, 4]]), 3)
    ('1 2 3...', '[1 2][3...]...')
    """
    if not array.size:
        return ""
    text, printed = _rows(array, limit)
    return text + ("..." if array.size > printed else "")


def _rows(array: np.ndarray, limit: int, depth: int = 0) -> tuple[str, int]:
    """Returns the text of an array, and the number of elements in it."""
    if array.ndim <= 1:
        elements = array.reshape(-1)
        cut = depth and limit < len(elements)
        return " ".join(map(_element, elements[:limit])) + ("..." if cut else ""), min(limit, len(elements))
    parts, printed = [], 0
    for row in array:
        if printed >= limit:
            break
        text, count = _rows(row, limit - printed, depth + 1)
        parts.append(f"[{text}]")
        printed += count
    return "".join(parts), printed


def _element(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else number(value)


def filled(message: str, summarize: int, arrays: Sequence[np.ndarray]) -> str:
    """Returns the message with its placeholders replaced by summaries of the arrays."""
    pieces = message.split(HOLE)
    texts = [*(summarized(a, summarize) for a in arrays), ""]
    return "".join(part for pair in zip(pieces, texts) for part in pair)
