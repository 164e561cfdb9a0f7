"""What the user of a traced function knows of it and its IR doesn't say: names of inputs and results, what is donated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tvtf.ir.provenance import UserLine

MAIN = "main"


class Result(NamedTuple):
    """A tensor that a function returns: its name in the returned structure ("" in tuples), and what it is.

    ``kind`` is "computed" (then ``which`` numbers the outputs of ``main``), "param" (its parameters), or "value".
    """

    label: str
    kind: str
    which: Any


@dataclass(frozen=True)
class Entry:
    """How ``main`` is printed; parameters are identified by their names in the IR, which all passes preserve."""

    name: str = MAIN
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Shown names of parameters, where they are others."""
    donated: frozenset[str] = frozenset()
    results: Sequence[Result] | None = None
    lines: Mapping[str, Iterable[UserLine]] = field(default_factory=dict)
    """The user's lines by kernel, for calls that have lost theirs."""
