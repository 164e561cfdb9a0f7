"""Formats numbers and tensors in messages and ``tf.print`` as TensorFlow's C++ does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

HOLE = "\x1a"
"""The placeholder in a message for the value of a tensor at run time: ASCII's SUBSTITUTE."""


def format_number(value: Any) -> str:
    """Formats a number as TensorFlow's C++ does: with few digits, or with more if few don't identify the number.

    >>> format_number(0.1), format_number(np.float32(1) / 3), format_number(True), format_number(1e20)
    ('0.1', '0.333333343', '1', '1e+20')
    """
    element = np.asarray(value)
    if element.dtype.kind in "bui":  # bool, unsigned and signed integers
        return str(int(element))
    if element.dtype.kind == "c":  # TensorFlow prints complex numbers as "?"
        return "?"
    is_double = element.dtype.itemsize == 8
    few_digits, all_digits = (15, 17) if is_double else (6, 9)
    text = f"{float(element):.{few_digits}g}"
    round_trips = float(text) == float(element) if is_double else np.float32(text) == np.float32(element)
    if element != element:  # NaN
        return "-nan" if np.signbit(element) else "nan"
    return text if round_trips else f"{float(element):.{all_digits}g}"


def summarized(array: np.ndarray, limit: int) -> str:
    """Formats the first ``limit`` elements of an array in row-major order, with inner rows in brackets.

    The text is that of TensorFlow's ``Tensor::SummarizeValue``.

    >>> summarized(np.array([1, 2, 3, 4]), 3), summarized(np.array([[1, 2], [3, 4]]), 3)
    ('1 2 3...', '[1 2][3...]...')
    """
    if not array.size:
        return ""
    text, printed = _nested_text(array, limit)
    return text + ("..." if array.size > printed else "")


def _nested_text(array: np.ndarray, limit: int, depth: int = 0) -> tuple[str, int]:
    """Formats up to ``limit`` elements of an array, and returns the text and the number of elements in the text.

    Rows are in brackets. ``depth`` is the number of enclosing rows: an inner row that is cut off ends in "...".
    """
    if array.ndim <= 1:
        elements = array.reshape(-1)
        text = " ".join(map(_element, elements[:limit]))
        if depth and limit < len(elements):  # at depth 0 the caller adds "..."
            text += "..."
        return text, min(limit, len(elements))
    row_texts, printed = [], 0
    for row in array:
        if printed >= limit:
            break
        row_text, count = _nested_text(row, limit - printed, depth + 1)
        row_texts.append(f"[{row_text}]")
        printed += count
    return "".join(row_texts), printed


def _element(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else format_number(value)


def filled(message: str, summarize: int, arrays: Sequence[np.ndarray]) -> str:
    """Returns the message with its placeholders replaced by the arrays, each as text of at most ``summarize`` elements."""
    pieces = message.split(HOLE)
    texts = [*(summarized(array, summarize) for array in arrays), ""]  # nothing follows the last piece
    return "".join(part for pair in zip(pieces, texts) for part in pair)
