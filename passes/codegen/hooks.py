"""Callbacks that upper layers register with the code generator when they are imported; this module doesn't import TVM."""

from __future__ import annotations

from collections.abc import Callable

Stored = Callable[[str, Callable[[], bytes]], bytes]
"""``(key, build) -> code``: returns the object code that is stored for a key, or what ``build`` returns if there is none."""


class Hooks:
    """Functions that the compiler calls without importing where they come from."""

    stored: Stored | None = None
    """Looks the object code of a kernel up in the cache. Set by ``runtime/cache.py``."""
