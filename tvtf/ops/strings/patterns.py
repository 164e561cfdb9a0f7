"""RE2's regular expressions by Python's ``re``.

Syntax is translated where it differs, and rejected where ``re`` lacks it.

Source: https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from tvtf.errors import InvalidArgumentError

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\Q.*?(?:\\E|$)|\\x\{[0-9A-Fa-f]+\}|\\.|\[:\^?\w+:\]|\(\?.?|.", re.DOTALL)


@functools.lru_cache(maxsize=256)
def compiled(pattern: str, op: str) -> re.Pattern[str]:
    """Compiles a regular expression of RE2 to one of Python's ``re``, which matches text.

    Raises:
      InvalidArgumentError: the pattern is invalid, or needs what Python's ``re`` does not have.

    >>> bool(compiled(r"[[:alpha:]]+\\z", "RegexFullMatch").match("abc"))
    True
    """
    try:
        return re.compile("".join(_translated(pattern)), re.ASCII)
    except (re.error, ValueError, OverflowError) as cause:
        raise InvalidArgumentError(None, op, f"Invalid pattern: {pattern}, error: {cause}") from None


def _translated(pattern: str) -> Iterator[str]:
    """Translates a pattern of RE2 to Python's syntax token by token. Inside character classes ([...]) rules differ."""
    in_class = False
    for token in _TOKEN.findall(pattern):
        yield _translated_in_class(token) if in_class else _translated_outside_class(token)
        if token in ("[", "]"):
            in_class = token == "["


def _translated_in_class(token: str) -> str:
    """Translates a token inside a character class of a regular expression from RE2's syntax to Python's.

    RE2 has named classes there, such as ``[:alpha:]``, which Python has not.
    """
    if token.startswith("[:"):
        name = token.strip("[]:^")
        if name not in _CLASSES or "^" in token:
            raise ValueError(f"invalid character class range: {token}")
        return _CLASSES[name]
    return r"\[" if token == "[" else _escape(token)


def _translated_outside_class(token: str) -> str:
    """Translates a token outside character classes. Lookarounds are rejected, because RE2 has none."""
    if token in ("(?=", "(?!", "(?<"):
        raise ValueError(f"invalid perl operator: {token}")
    # Python's $ also matches before a line end at the end of the text
    return r"\Z" if token == "$" else _escape(token)


def _escape(token: str) -> str:
    """Translates an escape sequence of RE2 to Python's syntax. Raises ValueError if Python's ``re`` has no equivalent."""
    if token.startswith(r"\Q"):  # literal text up to \E
        return re.escape(token[2:].removesuffix(r"\E"))
    if token.startswith(r"\x{"):  # a hexadecimal code point in braces
        return re.escape(chr(int(token[3:-1], 16)))
    if len(token) == 2 and token[0] == "\\" and (token[1] in "123456789pPCXR"):
        raise ValueError(f"invalid escape sequence: {token}; Python's re, which stands in for RE2, does not have it")
    return r"\Z" if token == r"\z" else token


def rewritten(match: re.Match[str], rewrite: str) -> str:
    """Expands RE2's rewrite for a match: ``\\0`` is the whole match, ``\\1`` to ``\\9`` its groups.

    >>> rewritten(re.match("(a)(b)", "ab"), r"\\2-\\0")
    'b-ab'
    """
    if "\\" not in rewrite:
        return rewrite

    def expanded(escape: re.Match[str]) -> str:
        """Returns the text for a backslash and a character: a backslash, or the group of that number."""
        character = escape[1]
        if character == "\\":
            return "\\"
        return match[int(character)] or ""  # a group that took no part in the match is None

    return re.sub(r"\\(.)", expanded, rewrite, flags=re.DOTALL)


@functools.lru_cache(maxsize=256)
def is_rewrite(pattern: re.Pattern[str], rewrite: str) -> bool:
    """Returns whether a rewrite is valid: its escapes are backslashes or existing groups.

    RE2 replaces nothing if the rewrite is invalid.

    >>> is_rewrite(re.compile("(a)"), r"\\1"), is_rewrite(re.compile("(a)"), r"\\2")
    (True, False)
    """
    escaped = re.findall(r"\\(.?)", rewrite, re.DOTALL)
    return all(
        character == "\\" or (character.isascii() and character.isdecimal() and int(character) <= pattern.groups)
        for character in escaped
    )


def replaced(pattern: re.Pattern[str], value: str, rewrite: str, everywhere: bool) -> str:
    """Replaces matches of a pattern in ``value`` by ``rewrite``: all if ``everywhere``, else the first.

    As in RE2, an empty match right after another match is skipped.
    """
    parts: list[str] = []
    end = position = 0
    while position <= len(value) and (match := pattern.search(value, position)):
        start, position = match.span()
        if not (start == position == end and parts):  # not an empty match right after another one
            parts += [value[end:start], rewritten(match, rewrite)]
            end = position
            if not everywhere:
                break
        position += match.start() == match.end()  # an empty match would be found again
    return "".join([*parts, value[end:]])
