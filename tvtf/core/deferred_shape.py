"""Shapes of unknown rank or size, and the signals that defer ops which need to know them.

While a function is traced for arguments of unknown rank, a tensor that depends on them has an :class:`AnyShape`. Reading
its dims raises :class:`UnknownRank`. The public function that was called catches it and becomes one deferred call in the IR,
which is traced again when the function is instantiated for a rank (``frontend/function/deferred_call.py``).

Unknown sizes of arguments are symbolic dims. An op that needs a static size raises :class:`UnknownSizes`
(:func:`until_told`) and is deferred in the same way: the function then gets an instance for each combination of argument
shapes. A size that the program itself computes is known only at run time, so Python executes such an op then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from tvtf.core.thread_state import state
from tvtf.errors import InaccessibleTensorError

RANK_GAP = 8
"""The difference between the ranks of the first two examples."""
RANKS = (2, 2 + RANK_GAP, 1, 0, 3, 4, 5)
"""The ranks that a deferred call is traced for as examples; a call's actual rank replaces the first where it is known."""


class UnknownRank(BaseException):
    """The signal that the rank of an argument is needed while it is unknown.

    Not an ``Exception``, so that no handler of errors on the way catches it.
    """


class UnknownSizes(BaseException):
    """The signal that the size of an argument is needed while it is a symbol. Not an ``Exception``, as ``UnknownRank``.

    ``error`` is raised instead where no specialization can tell the size. ``is_required``: the op certainly needs the size;
    otherwise it failed on the symbolic one and may work with a static one.
    """

    def __init__(self, error: Exception, is_required: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_required = is_required


class NoRank(ValueError):
    """Raised when a ``TensorShape`` of unknown rank is asked for its dims; public functions defer the call instead."""


def until_told(error: Exception, is_required: bool = True) -> BaseException:
    """Returns what to raise for a symbolic size: :class:`UnknownSizes` where traces may be specialized, else ``error``."""
    if state.trace is not None and (state.trace.root.may_specialize or state.trace.root.has_sizes):
        return UnknownSizes(error, is_required)
    return error


def unknown(what: str) -> BaseException:
    """Returns the signal that ``what`` must be known; outside a trace, which could defer the op, an error."""
    if state.trace is not None:
        return UnknownRank(what)
    return InaccessibleTensorError(
        f"{what} must be known, outside the function that it belongs to: only its calls tell that"
    )


class Examples:
    """A value's concrete instances at the example ranks (``RANKS``), computed on demand; None where an example failed."""

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
    """The statically known value of integers computed from shapes of unknown rank."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        raise unknown(f"a value ({name})")

    def _unknown(self, *_: Any) -> NoReturn:
        raise unknown("a value")

    __len__ = __iter__ = __getitem__ = __neg__ = __array__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _unknown


def of_any_rank() -> bool:
    """Returns whether the active trace has arguments of unknown rank, so that calls can be deferred."""
    return state.trace is not None and state.trace.root.waiting is not None
