"""regex_replace and regex_full_match, in RE2's syntax."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvtf.core.tensor import EagerTensor
from tvtf.dtypes import bool as bool_
from tvtf.ops.operands import attributes
from tvtf.ops.strings.patterns import compiled, is_rewrite, replaced
from tvtf.ops.strings.rules import from_text, like_text, mapped, text, text_op


def _static_text(value: Any, name: str) -> str:
    """Converts the argument ``name``, a Python string or an eager scalar tensor, to text.

    Raises TypeError for another value, such as a tensor that is unknown while tracing.
    """
    if isinstance(value, EagerTensor):
        value = value.numpy()
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string that is known while tracing, but got {value!r}")
    return value


def _decoded(value: bytes) -> str:
    """Decodes bytes as UTF-8; invalid bytes become surrogates, which :func:`_encoded` turns back."""
    return value.decode(errors="surrogateescape")


def _encoded(value: str) -> bytes:
    """Encodes text as UTF-8: undoes :func:`_decoded`."""
    return value.encode(errors="surrogateescape")


def _replace(array: np.ndarray, pattern: str, rewrite: str, replace_global: bool) -> np.ndarray:
    """Replaces a pattern's matches in each string. With an invalid rewrite strings are left unchanged, as in RE2."""
    regex = compiled(pattern, "RegexReplace")
    if not is_rewrite(regex, rewrite):
        return array.copy()
    return mapped(lambda value: _encoded(replaced(regex, _decoded(value), rewrite, replace_global)), array)


@text_op(tf_name="StaticRegexReplace", type=like_text, numpy=_replace, public=("strings.regex_replace",))
@attributes(replace_global=bool)
def regex_replace(input: Any, pattern: Any, rewrite: Any, replace_global: bool = True, name: str | None = None) -> Any:
    """Replaces the matches of a pattern in each string.

    Args:
      input: string tensor.
      pattern: a regular expression of RE2.
      rewrite: the replacement; ``\\\\1`` is what the first group matched, ``\\\\0`` the whole match.
      replace_global: whether to replace all matches, or only the first one.

    >>> import tvtf as tf
    >>> tf.strings.regex_replace("Text with tags.<br /><b>contains html</b>", "<[^>]+>", " ").numpy()
    b'Text with tags.  contains html '

    Raises:
      InvalidArgumentError: the pattern or rewrite is invalid, or needs what Python's ``re`` lacks (``\\\\pN``).

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/regex_replace
    """
    regex, rewrite_text = _static_text(pattern, "pattern"), _static_text(rewrite, "rewrite")
    compiled(regex, "RegexReplace")
    return (text(input),), {"pattern": regex, "rewrite": rewrite_text, "replace_global": bool(replace_global)}


def _matches(array: np.ndarray, pattern: str) -> np.ndarray:
    """Returns whether each string as a whole matches a pattern."""
    regex = compiled(pattern, "RegexFullMatch")
    return mapped(lambda value: regex.fullmatch(_decoded(value)) is not None, array, np.bool_)


@text_op(tf_name="StaticRegexFullMatch", type=from_text(bool_), numpy=_matches, public=("strings.regex_full_match",))
def regex_full_match(input: Any, pattern: Any, name: str | None = None) -> Any:
    """Returns whether each string as a whole matches a regular expression of RE2, a bool tensor.

    >>> import tvtf as tf
    >>> tf.strings.regex_full_match(["TF lib", "lib TF"], ".*lib$").numpy()
    array([ True, False])

    Raises:
      InvalidArgumentError: the pattern is invalid.

    Source: https://www.tensorflow.org/api_docs/python/tf/strings/regex_full_match
    """
    regex = _static_text(pattern, "pattern")
    compiled(regex, "RegexFullMatch")
    return (text(input),), {"pattern": regex}
