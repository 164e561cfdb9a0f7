"""The sessions that a thread has entered, and those that it runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvtf.v1.session import Session


class _Defaults(threading.local):
    """The thread's default sessions, the innermost last."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self.running: list[Session] = []


defaults = _Defaults()


def get_default_session() -> Session | None:
    """Returns the session whose ``with`` block is active, or None."""
    return defaults.sessions[-1] if defaults.sessions else None


def current(cannot: str) -> Session:
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


def running() -> Session:
    """Returns the session that runs in this thread."""
    return defaults.running[-1]
