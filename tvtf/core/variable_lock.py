"""Locks: of Variables, one for all that a compiled function uses, so that a call takes one, not fifty; and of all else.

In a forked child those are free that other threads held, which are not there to release them: tvtf has no others
(tests/core/test_thread_count.py looks for them).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class Lock:
    """A reentrant lock that can become one with others; whoever holds any of them holds all."""

    __slots__ = ("_own", "_joined", "_held", "_depth", "__weakref__")

    def __init__(self) -> None:
        self._own = threading.RLock()
        self._joined: Lock | None = None
        self._held: list[Lock] = []
        self._depth = 0
        _made.add(self)

    def _root(self) -> Lock:
        root = self
        while root._joined is not None:
            root = root._joined
        return root

    def __enter__(self) -> Lock:
        while True:
            root = self if self._joined is None else self._root()
            root._own.acquire()
            if root._joined is None:
                break
            root._own.release()
        root._depth += 1
        self._held.append(root)
        return self

    def __exit__(self, *_: Any) -> None:
        root = self._held.pop()
        root._depth -= 1
        root._own.release()

    def is_held(self) -> bool:
        """Whether some thread, be it this one, holds it just now."""
        root = self if self._joined is None else self._root()
        return root._depth > 0

    def release_if_abandoned(self) -> None:
        """Frees it from a thread that a fork left behind."""
        if not self._own._is_owned():  # type: ignore[attr-defined]  # private, but Python's own Condition asks it, too
            self._own, self._held, self._depth = threading.RLock(), [], 0


class Condition(threading.Condition):
    """`threading.Condition`, free in a forked child: who held it, or waits for it, is not there."""

    def __init__(self) -> None:
        super().__init__()
        _made.add(self)

    def release_if_abandoned(self) -> None:
        """Makes it as it was at first, unless this thread holds it."""
        if not self._is_owned():  # type: ignore[attr-defined]
            super().__init__()


_made: weakref.WeakSet[Lock | Condition] = weakref.WeakSet()


def _release_abandoned() -> None:
    for lock in list(_made):
        lock.release_if_abandoned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_abandoned)


def join(locks: Iterable[Lock]) -> Lock:
    """Makes the locks one, for good.

    All are taken in the same order by everybody, so that nobody waits in a circle.
    """
    given = [*locks]
    while True:
        roots = sorted({lock._root() for lock in given}, key=id)
        if len(roots) < 2:
            return roots[0] if roots else Lock()
        if _joined(roots):
            return roots[0]


def _joined(roots: list[Lock]) -> bool:
    """Whether they still were roots when all were held."""
    for root in roots:
        root._own.acquire()
    are_roots = all(root._joined is None for root in roots)
    for root in roots[1:] if are_roots else ():
        root._joined = roots[0]
    for root in roots:
        root._own.release()
    return are_roots


class cached_property(Generic[Value]):  # noqa: N801  # it is used as Python's is
    """A property that is computed once; by each of the threads that ask for it at the same time.

    Until Python 3.12 the one of functools holds a lock, one for all objects, that stays held in a forked child.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Any:
        if instance is None:
            return self
        return vars(instance).setdefault(self._name, self._compute(instance))
