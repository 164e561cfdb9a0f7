"""Signatures of functions and kernels in the printed IR."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

from tvm import tirx

from tvtf.ir.listing import Token
from tvtf.ir.short_types import short_buffer

MAX_COLUMNS = 100
"""Signatures that are longer go on in the next line."""


def typed(name: str, ty: str) -> list[Token]:
    """Formats ``name: type`` as tokens; leaves out an empty name or type."""
    tokens = [Token(name, "name", ty)] if name else []
    return [*tokens, *([Token(": ")] if name and ty else []), *([Token(ty, "type")] if ty else [])]


def commas(parts: Iterable[Sequence[Token]]) -> Iterator[Token]:
    """Yields the tokens of all parts, with a comma between parts."""
    for number, part in enumerate(parts):
        yield from ([Token(", ")] if number else [])
        yield from part


def signature(name: str, params: Sequence[list[Token]], results: Sequence[list[Token]]) -> list[list[Token]]:
    """Formats a function's signature, ``name(params) -> (results)``, as lines of tokens.

    A line ends before the parameter or result that would exceed ``MAX_COLUMNS``.
    """
    pieces = [*_each_with_comma(params), *_each_with_comma(results)]
    if results:  # they follow the parameters in `pieces`
        first_result = pieces[len(params)]
        first_result.insert(0, Token(") -> ("))
    pieces = [[Token(name, "function"), Token("(")], *pieces, [Token(")") if results else Token(") -> ()")]]
    lines: list[list[Token]] = [[]]
    for piece in pieces:
        # A single token, such as the closing bracket, never starts a line.
        if sum(len(t.text) for t in [*lines[-1], *piece]) > MAX_COLUMNS and len(piece) > 1:
            lines.append([])
        lines[-1] += piece
    return lines


def _each_with_comma(parts: Sequence[list[Token]]) -> list[list[Token]]:
    return [[*part, *([Token(", ")] if part is not parts[-1] else [])] for part in parts]


def kernel_signature(name: str, kernel: tirx.PrimFunc) -> Iterator[Token]:
    """Yields the tokens of a kernel's name and of its parameters with their types."""
    used: set[str] = set()  # two parameters may have the same name: one of them gets a number
    params = [typed(unique(param.name, used), short_buffer(param)) for param in kernel.params]
    yield from [Token(name, "kernel"), Token("("), *commas(params), Token(")")]


def unique(name: str, used: set[str]) -> str:
    """Returns ``name``, with a number appended if it is in ``used``; adds the returned name to ``used``.

    >>> taken = {"x"}
    >>> unique("x", taken), unique("x", taken), unique("y", taken)
    ('x_1', 'x_2', 'y')
    """
    unique_name = name
    numbers = count(1)
    while unique_name in used:
        unique_name = f"{name}_{next(numbers)}"
    used.add(unique_name)
    return unique_name
