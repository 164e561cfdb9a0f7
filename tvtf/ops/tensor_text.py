"""Formats tensors as text as TensorFlow does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.text_format import number


def filled(pieces: Sequence[str], values: Sequence[str]) -> str:
    """Joins the pieces of a template with values between them."""
    return "".join(part for pair in zip(pieces, [*values, ""]) for part in pair)


def tensor_text(array: np.ndarray, summarize: int) -> str:
    """Formats a tensor's value as ``tf.print`` does, with ``summarize`` elements at both ends, or all for -1.

    >>> tensor_text(np.arange(10), 2)
    '[0 1 ... 8 9]'
    """
    ends = 0 if not array.size else max(array.shape, default=1) if summarize == -1 else summarize
    return _elements(array, 0, ends)


def _elements(array: Any, depth: int, ends: int) -> str:
    """Formats nested dims; TensorFlow's ``PrintOneDimV2`` (core/framework/tensor.cc)."""
    if np.ndim(array) == 0:
        return _number(array)
    gap = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (depth + 1)
    count = len(array)
    parts = [_elements(array[i], depth + 1, ends) for i in range(min(ends, count))]
    dots = ["..."] if count > 2 * ends else []
    last = [_elements(array[i], depth + 1, ends) for i in range(max(ends, count - ends), count)]
    return "[" + ("" if parts or not dots else gap) + gap.join([*parts, *dots, *last]) + "]"


def _number(value: Any) -> str:
    """Formats an element, text in quotes."""
    value = np.asarray(value)[()]
    if isinstance(value, (bytes, str)):
        return '"' + (value.decode(errors="replace") if isinstance(value, bytes) else value) + '"'
    return number(value)
