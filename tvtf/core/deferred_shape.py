"""Shapes of unknown rank, and integers computed from them: placeholders that signal when they are read.

While a function is traced for arguments of unknown rank, a tensor that depends on them has an :class:`AnyShape`. Reading
its dims raises ``core/specialization.Unspecialized``, and the public function that was called is deferred.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tvtf.core.specialization import unknown_rank

RANK_GAP = 8
"""The difference between the ranks of the first two examples."""
RANKS = (2, 2 + RANK_GAP, 1, 0, 3, 4, 5)
"""The ranks that a deferred call is traced for as examples; a call's actual rank replaces the first where it is known."""


class NoRank(ValueError):
    """Raised when the dims of a ``TensorShape`` of unknown rank are read; public functions defer the call instead."""


class Examples:
    """A value's concrete instances at the example ranks (``RANKS``), computed on demand; None where an example failed."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[int], Any]) -> None:
        self._find = find
        self._found: dict[int, Any] = {}

    def example(self, index: int) -> Any:
        """Returns the value's instance at the rank ``RANKS[index]``; computes it at the first use."""
        if index not in self._found:
            self._found[index] = self._find(index)
        return self._found[index]


class AnyShape(Examples):
    """The dims of a tensor of unknown rank."""

    __slots__ = ()

    def _unknown(self, *_: Any) -> NoReturn:
        """Signals that a rank is needed. All operations on the dims call this method."""
        raise unknown_rank("the rank of a tensor")

    __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __bool__ = __contains__ = _unknown

    def __eq__(self, other: object) -> bool:
        return self is other or self._unknown()

    def __hash__(self) -> int:
        return id(self)


class AnyValue(Examples):
    """The statically known value of integers computed from shapes of unknown rank."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown_rank(f"a value ({name})")

    def _unknown(self, *_: Any) -> NoReturn:
        raise unknown_rank("a value")

    __len__ = __iter__ = __getitem__ = __neg__ = __array__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _unknown
