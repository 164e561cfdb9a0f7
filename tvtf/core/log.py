"""The logger for warnings: TensorFlow's name and format, so that scripts that silence TensorFlow silence tvtf, too."""

from __future__ import annotations

import logging
import sys


class _ToStderr(logging.Handler):
    """A handler that writes to stderr unless the program has configured logging itself."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers:
            print(self.format(record), file=sys.stderr)


def _with_handler(logger: logging.Logger) -> logging.Logger:
    if not logger.handlers:
        handler = _ToStderr()
        handler.setFormatter(logging.Formatter(logging.BASIC_FORMAT))
        logger.addHandler(handler)
    return logger


logger = _with_handler(logging.getLogger("tensorflow"))
