"""Formats tensors as text as TensorFlow does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tvtf.core.text_format import format_number


def filled(pieces: Sequence[str], values: Sequence[str]) -> str:
    """Joins the constant pieces of a template with values between them: one piece more than there are values."""
    return "".join(part for pair in zip(pieces, [*values, ""]) for part in pair)


def tensor_text(array: np.ndarray, summarize: int) -> str:
    """Formats a tensor's value as ``tf.print`` does, with ``summarize`` elements at both ends, or all for -1.

    >>> tensor_text(np.arange(10), 2)
    '[0 1 ... 8 9]'
    """
    if not array.size:
        edge_count = 0
    elif summarize == -1:
        edge_count = max(array.shape, default=1)
    else:
        edge_count = summarize
    return _elements(array, 0, edge_count)


def _elements(array: Any, depth: int, edge_count: int) -> str:
    """Formats the elements of an array for ``tf.print``, as TensorFlow's ``PrintOneDimV2`` does.

    Each dim shows ``edge_count`` elements at both ends. Lines are indented by the nesting depth ``depth``.

    Source: core/framework/tensor.cc
    """
    if np.ndim(array) == 0:
        return _number(array)
    separator = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (depth + 1)
    count = len(array)
    first_indices = range(min(edge_count, count))
    last_indices = range(max(edge_count, count - edge_count), count)
    parts = [_elements(array[i], depth + 1, edge_count) for i in first_indices]
    is_abbreviated = count > 2 * edge_count
    if is_abbreviated:
        parts.append("...")
    parts += [_elements(array[i], depth + 1, edge_count) for i in last_indices]
    # Without edge elements, TensorFlow writes the separator before the ellipsis, too.
    prefix = separator if is_abbreviated and not first_indices else ""
    return f"[{prefix}{separator.join(parts)}]"


def _number(value: Any) -> str:
    """Formats an element, text in quotes."""
    value = np.asarray(value)[()]
    if isinstance(value, (bytes, str)):
        return '"' + (value.decode(errors="replace") if isinstance(value, bytes) else value) + '"'
    return format_number(value)
