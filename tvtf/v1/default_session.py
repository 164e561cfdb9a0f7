"""The sessions that a thread has entered, and those that it runs."""

from __future__ import annotations

import threading
from typing import Any, Protocol


class AnySession(Protocol):
    """What graphs, ops and variables use of a session (`tvtf.v1.session.Session`, whose module imports theirs)."""

    graph: Any
    _values: dict[int, Any]

    def run(self, fetches: Any, feed_dict: Any = None) -> Any: ...

    def has_value(self, variable: Any) -> bool: ...

    def set_value(self, variable: Any, value: Any) -> None: ...


class _Defaults(threading.local):
    """The thread's default sessions, the innermost last."""

    def __init__(self) -> None:
        self.sessions: list[AnySession] = []
        self.running: list[AnySession] = []


defaults = _Defaults()


def get_default_session() -> AnySession | None:
    """Returns the session whose ``with`` block is active, or None."""
    return defaults.sessions[-1] if defaults.sessions else None


def current(cannot: str) -> AnySession:
    """Returns the session whose ``with`` block is active.

    Raises:
      ValueError: there is no session. The message begins with ``cannot``, such as "Cannot execute operation using `run()`".
    """
    session = get_default_session()
    if session is None:
        # TensorFlow's messages for `eval` and `run` differ in these parts
        how, colon = ("eval", "") if "eval" in cannot else ("run", ":")
        raise ValueError(
            f"{cannot}: No default session is registered. Use `with sess.as_default(){colon}` or pass an explicit session to "
            f"`{how}(session=sess)`"
        )
    return session


def running() -> AnySession:
    """Returns the session that runs in this thread."""
    return defaults.running[-1]
