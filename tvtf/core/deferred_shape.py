"""Tensors of unknown rank or size: what a trace can't tell of a shape, it tells for each rank, or each shape, later.

While a function is traced for arguments of unknown rank, the shape of what depends on them is an :class:`AnyShape`. Whoever
asks for its dims meets :class:`UnknownRank`; the public function on whose way that happened catches it and waits: it
becomes one call of the IR that runs when the function is instantiated for a rank (``frontend/function/deferred_call.py``).

Sizes of arguments that are unknown are symbols. An op that can't do with a symbol meets :class:`UnknownSizes`
(:func:`until_told`), and waits in the same way: the function has an instance for each combination of shapes that it is
called with. Sizes that only the program computes are had from Python: it does the call when the program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tvtf.core.thread_state import state
from tvtf.errors import InaccessibleTensorError

APART = 8
"""By how much the second example's rank is greater than the first's."""
RANKS = (2, 2 + APART, 1, 0, 3, 4, 5)
"""The ranks of the examples of what may have any; the first is another where a call tells it."""


class UnknownRank(BaseException):
    """Raised where dims are needed that only a call tells: a signal, which no handler of errors may take for one."""


class UnknownSizes(BaseException):
    """Raised where sizes are needed that a call will tell: a signal, as :class:`UnknownRank`.

    ``error`` is what to raise where none does; ``meant`` tells that it is for the size, not only maybe.
    """

    def __init__(self, error: Exception, meant: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.meant = meant


class NoRank(ValueError):
    """Raised by a public shape of unknown rank where it is asked for dims: public functions of ours wait for them."""


def until_told(error: Exception, meant: bool = True) -> BaseException:
    """``error``, of a size that is a symbol, or the signal that calls tell it: they have traces of their own then."""
    if state.trace is not None and (state.trace.root.may_specialize or state.trace.root.has_sizes):
        return UnknownSizes(error, meant)
    return error


def unknown(what: str) -> BaseException:
    """The signal that ``what`` must be known, or the error to raise where nothing is traced that could take it up."""
    if state.trace is not None:
        return UnknownRank(what)
    return InaccessibleTensorError(
        f"{what} must be known, outside the function that it belongs to: only its calls tell that"
    )


class Examples:
    """What something is in each of the tried instances, found when first asked for; None where there is no such instance."""

    __slots__ = ("_find", "_found")

    def __init__(self, find: Callable[[int], Any]) -> None:
        self._find = find
        self._found: dict[int, Any] = {}

    def example(self, index: int) -> Any:
        if index not in self._found:
            self._found[index] = self._find(index)
        return self._found[index]


class AnyShape(Examples):
    """The dims of a tensor of unknown rank."""

    __slots__ = ()

    def _unknown(self, *_: Any) -> NoReturn:
        raise unknown("the rank of a tensor")

    __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __bool__ = __contains__ = _unknown

    def __eq__(self, other: object) -> bool:
        return self is other or self._unknown()

    def __hash__(self) -> int:
        return id(self)


class AnyValue(Examples):
    """The known value of integers computed from unknown shapes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(f"a value ({name})")

    def _unknown(self, *_: Any) -> NoReturn:
        raise unknown("a value")

    __len__ = __iter__ = __getitem__ = __neg__ = __array__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _unknown


def of_any_rank() -> bool:
    """Whether the active trace has arguments of unknown rank."""
    return state.trace is not None and state.trace.root.waiting is not None
