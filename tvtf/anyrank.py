"""Tensors of unknown rank: what a trace can't tell of a shape, it tells for each rank later.

While a function is traced for arguments of unknown rank, the shape of what depends on them is an :class:`AnyShape`. Whoever
asks for its dims meets :class:`UnknownRank`; the public function on whose way that happened catches it and waits: it
becomes one call of the IR that runs when the function is instantiated for a rank (``frontend/waiting.py``).
"""

from __future__ import annotations

from typing import Any, NoReturn

from tvtf.context import state


class UnknownRank(BaseException):
    """Raised where dims are needed that only a call tells: a signal, which no handler of errors may take for one."""


class AnyShape:
    """The dims of a tensor of unknown rank; ``examples`` are what they are in each of the tried instances."""

    __slots__ = ("examples",)

    def __init__(self, examples: tuple[tuple[Any, ...] | None, ...]) -> None:
        self.examples = examples

    def _unknown(self, *_: Any) -> NoReturn:
        raise UnknownRank("the rank of a tensor")

    __len__ = __iter__ = __getitem__ = __add__ = __radd__ = __bool__ = __contains__ = _unknown

    def __eq__(self, other: object) -> bool:
        return self is other or self._unknown()

    def __hash__(self) -> int:
        return id(self)


class AnyValue:
    """The known value of integers computed from unknown shapes: what it is in each of the tried instances."""

    __slots__ = ("examples",)

    def __init__(self, examples: tuple[Any, ...]) -> None:
        self.examples = examples

    def __getattr__(self, name: str) -> NoReturn:
        raise UnknownRank(f"a value ({name})")

    def _unknown(self, *_: Any) -> NoReturn:
        raise UnknownRank("a value")

    __len__ = __iter__ = __getitem__ = __neg__ = __array__ = _unknown
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __floordiv__ = __mod__ = _unknown


def of_any_rank() -> bool:
    """Whether the active trace has arguments of unknown rank."""
    return state.trace is not None and state.trace.root.waiting is not None
