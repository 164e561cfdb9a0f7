"""Warnings, under the logger and in the form of TensorFlow's: a script that quiets TensorFlow quiets tvtf."""

from __future__ import annotations

import logging
import sys


class _ToStderr(logging.Handler):
    """Writes where the program has set up no logging of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            print(self.format(record), file=sys.stderr)


def _handled(found: logging.Logger) -> logging.Logger:
    if not found.handlers:
        handler = _ToStderr()
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        found.addHandler(handler)
    return found


logger = _handled(logging.getLogger("tensorflow"))
