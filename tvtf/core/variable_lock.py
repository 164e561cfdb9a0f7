"""Locks that can be joined, for Variables, and that a forked child can use.

The locks of all Variables that a compiled function uses are joined to one, so that a call acquires one lock, not fifty.

After a fork the child has only the forking thread. Locks that other threads held are released there, as no thread is left
to do it. tvtf uses no other locks (tests/core/test_thread_count.py checks that).
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar, overload

Value = TypeVar("Value")


class Lock:
    """A reentrant lock that can be joined with others: a thread that holds one of them holds all."""

    __slots__ = ("_own", "_joined", "_acquired", "_depth", "__weakref__")

    def __init__(self) -> None:
        self._own = threading.RLock()
        self._joined: Lock | None = None
        self._acquired: list[Lock] = []
        self._depth = 0
        _instances.add(self)

    def _root(self) -> Lock:
        """Returns the lock that stands for all locks joined with this one."""
        root = self
        while root._joined is not None:
            root = root._joined
        return root

    def __enter__(self) -> Lock:
        """Acquires this lock and all locks joined with it, by acquiring their common root."""
        while True:
            root = self if self._joined is None else self._root()
            root._own.acquire()
            # While this thread waited, another one may have joined the root with other locks, under a new root.
            if root._joined is None:
                break
            root._own.release()
        root._depth += 1
        self._acquired.append(root)
        return self

    def __exit__(self, *_: Any) -> None:
        root = self._acquired.pop()
        root._depth -= 1
        root._own.release()

    def is_locked(self) -> bool:
        """Returns whether any thread, this one included, holds the lock at the moment."""
        root = self if self._joined is None else self._root()
        return root._depth > 0

    def release_if_abandoned(self) -> None:
        """Releases the lock in a forked child process if another thread held it: the child doesn't have that thread."""
        if not self._own._is_owned():  # type: ignore[attr-defined]  # private, but Python's own Condition uses it, too
            self._own = threading.RLock()
            self._acquired = []
            self._depth = 0


class Condition(threading.Condition):
    """A `threading.Condition` that a forked child can use: threads that held it or wait for it don't exist there."""

    def __init__(self) -> None:
        super().__init__()
        _instances.add(self)

    def release_if_abandoned(self) -> None:
        """Resets the condition in a forked child, unless this thread holds it."""
        if not self._is_owned():  # type: ignore[attr-defined]
            super().__init__()


_instances: weakref.WeakSet[Lock | Condition] = weakref.WeakSet()


def _release_abandoned() -> None:
    """Releases the locks and conditions that other threads held, in a forked child process."""
    for lock in list(_instances):
        lock.release_if_abandoned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_abandoned)


def join(locks: Iterable[Lock]) -> Lock:
    """Joins locks permanently and returns their common lock: a thread that acquires one of them then holds all.

    Every thread acquires them in the same order, by address, which prevents deadlocks.
    """
    members = [*locks]
    while True:  # again if another thread joined one of the roots meanwhile
        roots = sorted({lock._root() for lock in members}, key=id)
        if len(roots) < 2:
            return roots[0] if roots else Lock()
        if _join_roots(roots):
            return roots[0]


def _join_roots(roots: list[Lock]) -> bool:
    """Joins locks under the first of them and returns whether this succeeded.

    Each lock must be a root (not joined under another lock). The join fails if another thread joined one of the locks
    before all of them were acquired here.
    """
    for root in roots:
        root._own.acquire()
    are_roots = all(root._joined is None for root in roots)
    if are_roots:
        common_root, *others = roots
        for root in others:
            root._joined = common_root
    for root in roots:
        root._own.release()
    return are_roots


class cached_property(Generic[Value]):  # noqa: N801  # named as the one of functools, which it replaces
    """A property that is computed at its first use and cached. Threads that read it at the same time may each compute it.

    Until Python 3.12 ``functools.cached_property`` holds a lock, one for all objects, which stays held in a forked child.
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
        if instance is None:  # read from the class
            return self
        # Python finds the cached value in the instance's `__dict__` first, and doesn't call this method again.
        return vars(instance).setdefault(self._name, self._compute(instance))
