"""The logger for warnings: TensorFlow's name and format, so that scripts that silence TensorFlow silence tvtf, too."""

from __future__ import annotations

import logging
import sys


class _ToStderr(logging.Handler):
    """A handler that writes to stderr unless the program has configured logging itself."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record to stderr, unless the root logger has handlers of the program's own."""
        if not logging.getLogger().handlers:
            print(self.format(record), file=sys.stderr)


def _with_handler(logger: logging.Logger) -> logging.Logger:
    """Adds a handler that writes to stderr to a logger without handlers, and returns the logger."""
    if not logger.handlers:
        handler = _ToStderr()
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        logger.addHandler(handler)
    return logger


logger = _with_handler(logging.getLogger("tensorflow"))
