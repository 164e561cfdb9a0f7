"""Names of a traced function's inputs and results, and donated inputs: what printed IR shows but the IR doesn't contain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvtf.ir.provenance import UserLine

MAIN = "main"


class Result(NamedTuple):
    """A tensor that a function returns: its name in the returned structure ("" in tuples), and where it comes from.

    ``kind`` is "computed" (``which`` is the index of an output of ``main``), "param" (the index of a parameter), or
    "value" (a Python value).
    """

    label: str
    kind: str
    which: Any


@dataclass(frozen=True)
class Entry:
    """How ``main`` is printed; parameters are identified by their names in the IR, which all passes preserve."""

    name: str = MAIN
    inputs: Mapping[str, str] = field(default_factory=dict)
    """The printed names of parameters, where they differ from those in the IR."""
    donated: frozenset[str] = frozenset()
    results: Sequence[Result] | None = None
    lines: Mapping[str, Iterable[UserLine]] = field(default_factory=dict)
    """The user's lines by kernel, for calls whose spans were lost in lowering."""
