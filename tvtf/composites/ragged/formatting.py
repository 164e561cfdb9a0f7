"""The text of ragged tensors in ``tf.print`` and ``tf.strings.format``."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.composites.ragged.tensor import RaggedTensor
from tvtf.core.shape import TensorType
from tvtf.core.tensor import Tensor, convert_to_tensor
from tvtf.dtypes import string
from tvtf.ops.rules import bind
from tvtf.ops.strings.basic import format_, string_join
from tvtf.ops.strings.numbers import as_string
from tvtf.ops.strings.rules import text_op


def _nested_lists(values: Any, splits: tuple[np.ndarray, ...]) -> Any:
    for row_splits in reversed(splits):
        values = [values[start:end] for start, end in zip(row_splits[:-1].tolist(), row_splits[1:].tolist())]
    return values


def _format_list(value: Any, summarize: int) -> bytes:
    """Formats nested lists of strings; of longer lists only ``summarize`` elements at both ends, or all if it is -1."""
    if isinstance(value, bytes):
        return value
    if summarize >= 0 and len(value) > 2 * summarize:
        value = [*value[:summarize], b"...", *value[len(value) - summarize :]]
    return b"[" + b", ".join(_format_list(item, summarize) for item in value) + b"]"


@text_op(
    tf_name="StringFormat",
    type=lambda *_, summarize: TensorType((), string),
    numpy=lambda values, *splits, summarize: np.array(
        _format_list(_nested_lists(values.tolist(), splits), summarize), object
    ),
)
def ragged_text(values: Tensor, *splits: Tensor, summarize: int) -> Any:
    """Formats strings as nested lists, partitioned by row splits, the outermost first."""
    return (values, *splits), {"summarize": summarize}


def format_ragged(ragged: RaggedTensor, summarize: int) -> Tensor:
    """Formats a ragged tensor, with ``summarize`` elements at both ends of each list; -1 for all.

    >>> import tvtf as tf
    >>> format_ragged(tf.ragged.constant([[1, 2, 3], []]), summarize=1).numpy()
    b'[[1, ..., 3], []]'
    """
    flat = ragged.flat_values
    texts = string_join(["'", flat, "'"]) if flat.dtype is string else as_string(flat)
    return bind.ragged_text(texts, *ragged.nested_row_splits, summarize=summarize)


def ragged_format(
    function: Any, template: str, inputs: Any, placeholder: str = "{}", summarize: int = 3, name: str | None = None
) -> Tensor:
    """Implements ``tf.strings.format`` for inputs with ragged tensors among them.

    Each input is formatted to a string. The strings are joined with the template's literal parts between them.

    Args:
      function: ``tf.strings.format`` of dense tensors, which isn't used.
      template: the text, with placeholders.
      inputs: a value for each placeholder.
      placeholder: the text that stands for a value.
      summarize: the number of elements shown at both ends of each dim.
    """
    listed = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    literals = template.split(placeholder)
    if len(literals) - 1 != len(listed):
        raise ValueError(
            f"num placeholders in template and num inputs must match: {len(literals) - 1} vs {len(listed)}"
        )
    texts: list[Any] = [literals[0]]
    for value, literal in zip(listed, literals[1:]):
        if isinstance(value, RaggedTensor):
            texts.append(format_ragged(value, summarize))
        else:
            texts.append(format_("{}", [value], summarize=summarize))
        texts.append(literal)
    return string_join(list(map(convert_to_tensor, texts)))
