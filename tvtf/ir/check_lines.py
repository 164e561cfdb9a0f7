"""The user's lines in errors of compiled code: the code holds numbers, so that it doesn't depend on where lines stand.

A run-time check fails with a message that ends in the file and line of its op. In compiled code the number of the call in
the module stands for them. So a function whose lines moved finds its code in the cache, and one of two functions of equal
IR, which share their code, shows its own line. A library that was exported has no module beside it: its messages hold
the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import ir, relax

from tvtf.core.thread_state import state
from tvtf.ir.provenance import calls_in

_NUMBER = "\x05{}\x05"
_NUMBERED = re.compile(_NUMBER.format(r"(\d+)") + r"\Z")
_SPAN = re.compile(r'"line":\d+,"column":\d+,"end_line":\d+')
_SOURCE = re.compile(r'("type":"ir.SourceName","data":)"(?:[^"\\]|\\.)*"')


@contextmanager
def numbered(mod: ir.IRModule) -> Iterator[None]:
    """Has :func:`text_of` number lines by the calls of ``mod`` in the ``with`` block, in which that is compiled."""
    outer, state.line_numbers = state.line_numbers, _Numbers(mod)
    try:
        yield
    finally:
        state.line_numbers = outer


class _Numbers:
    """The numbers of a module's calls by their spans, found when the first is asked for: most programs check nothing."""

    def __init__(self, mod: ir.IRModule) -> None:
        self.mod = mod
        self._by_span: dict[ir.Span, int] = {}

    def of(self, span: ir.Span) -> int | None:
        """Returns the number of the first call that has the span."""
        if not self._by_span:
            for number, each in enumerate(_spans(self.mod)):
                self._by_span.setdefault(each, number)
        return self._by_span.get(span)


def _spans(mod: ir.IRModule) -> Iterator[Any]:
    """Yields the span of each call of a module, or None, in an order that the module's structure determines."""
    for _, func in sorted(mod.functions_items(), key=lambda item: str(item[0].name_hint)):
        if isinstance(func, relax.Function):
            yield from (call.span for call in calls_in(func))


def text_of(span: ir.Span) -> str:
    """Returns the file and line of a span as the end of a message; inside of :func:`numbered`, a number for them."""
    if state.line_numbers is None:
        return _as_text(span)
    number = state.line_numbers.of(span)
    return "" if number is None else _NUMBER.format(number)


def _as_text(span: ir.Span | None) -> str:
    return "" if span is None else f" ({span.source_name.name}, line {span.line})"


def with_line(message: str, mod: ir.IRModule) -> str:
    """Replaces the number at the end of a message of compiled code by the line in the module that it was compiled from."""
    spans = dict(enumerate(_spans(mod)))
    return _NUMBERED.sub(lambda match: _as_text(spans.get(int(match[1]))), message)


def has_number(message: str) -> bool:
    return _NUMBERED.search(message) is not None


def without_lines(json: str) -> str:
    """Returns a module's JSON, as ``tvm.ir.save_json`` writes it, with no files and lines in its spans."""
    return _SOURCE.sub(r'\1""', _SPAN.sub('"line":0,"column":0,"end_line":0', json))
