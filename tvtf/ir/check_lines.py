"""The user's source lines in errors of compiled code: the code contains call indices, not lines, so that edits don't change it.

A run-time check fails with a message that ends in the file and line of its op. Compiled code contains the index of the call
in its module instead, which is replaced when the error is raised. So a function whose lines moved finds its code in the
cache; and of two functions with equal IR, which share their code, each shows its own line. An exported library has no module
to look the index up in, so its messages contain the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import ir, relax

from tvtf.core.thread_state import state
from tvtf.ir.provenance import calls_in

_CALL_INDEX = "\x05{}\x05"
_ENDS_IN_CALL_INDEX = re.compile(_CALL_INDEX.format(r"(\d+)") + r"\Z")
_SPAN = re.compile(r'"line":\d+,"column":\d+,"end_line":\d+')
_SOURCE = re.compile(r'("type":"ir.SourceName","data":)"(?:[^"\\]|\\.)*"')


@contextmanager
def numbering_lines(mod: ir.IRModule) -> Iterator[None]:
    """Makes :func:`text_of` return call indices of ``mod`` instead of lines, in the ``with`` block that compiles it."""
    outer = state.line_numbers
    state.line_numbers = _CallIndices(mod)
    try:
        yield
    finally:
        state.line_numbers = outer


class _CallIndices:
    """The indices of a module's calls by their spans, computed on first use: most programs have no run-time checks."""

    def __init__(self, mod: ir.IRModule) -> None:
        self.mod = mod
        self._by_span: dict[ir.Span, int] = {}

    def of(self, span: ir.Span) -> int | None:
        """Returns the index of the first call that has the span, or None."""
        if not self._by_span:
            for index, each in enumerate(_spans(self.mod)):
                self._by_span.setdefault(each, index)
        return self._by_span.get(span)


def _spans(mod: ir.IRModule) -> Iterator[Any]:
    """Yields the span of each call of a module, or None, in an order that the module's structure determines."""
    for _, func in sorted(mod.functions_items(), key=lambda item: str(item[0].name_hint)):
        if isinstance(func, relax.Function):
            yield from (call.span for call in calls_in(func))


def text_of(span: ir.Span) -> str:
    """Returns the end of an error message: a span's file and line, or its call index inside of :func:`numbering_lines`."""
    if state.line_numbers is None:
        return _as_text(span)
    index = state.line_numbers.of(span)
    return "" if index is None else _CALL_INDEX.format(index)


def _as_text(span: ir.Span | None) -> str:
    return "" if span is None else f" ({span.source_name.name}, line {span.line})"


def with_line(message: str, mod: ir.IRModule) -> str:
    """Replaces the call index at the end of a message of compiled code by the call's line in the module ``mod``.

    ``mod`` is the module of the function that was called, which may have other lines than the module that was compiled.
    """
    spans = dict(enumerate(_spans(mod)))
    return _ENDS_IN_CALL_INDEX.sub(lambda match: _as_text(spans.get(int(match[1]))), message)


def has_call_index(message: str) -> bool:
    return _ENDS_IN_CALL_INDEX.search(message) is not None


def without_lines(json: str) -> str:
    """Removes the files and lines of spans from a module's JSON (of ``tvm.ir.save_json``), as a key of the cache needs."""
    return _SOURCE.sub(r'\1""', _SPAN.sub('"line":0,"column":0,"end_line":0', json))
