"""``tf.compat.v1.logging``: TensorFlow 1's functions that log to ``tf.get_logger()``."""

from __future__ import annotations

import logging as _logging
import sys as _sys
from collections import Counter as _Counter
from logging import DEBUG as DEBUG
from logging import ERROR as ERROR
from logging import FATAL as FATAL
from logging import INFO as INFO
from logging import WARN as WARN
from typing import Any

from tvtf.core.log import logger as _logger

debug = _logger.debug
error = _logger.error
fatal = _logger.fatal
info = _logger.info
warn = warning = _logger.warning
_calls: _Counter[tuple[str, int]] = _Counter()
"""The number of calls of ``log_every_n`` or ``log_first_n`` by file and line."""


def log(level: int, msg: str, *args: Any) -> None:
    """Logs at a level."""
    _logger.log(level, msg, *args)


vlog = log


def get_verbosity() -> int:
    """Returns the lowest level whose messages are logged."""
    return _logger.getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Drops messages below this level."""
    _logger.setLevel(v)


def flush() -> None:
    """Flushes the handlers of the logger and of the root logger."""
    for handler in (*_logger.handlers, *_logging.getLogger().handlers):
        handler.flush()


def TaskLevelStatusMessage(msg: str) -> None:  # noqa: N802 - TensorFlow's name
    """Logs an error; TensorFlow 1 also sent it to its supervisor."""
    error(msg)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Logs if ``condition`` is true."""
    if condition:
        log(level, msg, *args)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Logs on this line's first call and on every ``n``-th one after it."""
    log_if(level, msg, not _earlier_calls() % n, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Logs on this line's first ``n`` calls."""
    log_if(level, msg, _earlier_calls() < n, *args)


def _earlier_calls() -> int:
    """Returns how often the line that called our caller did so before."""
    frame = _sys._getframe(2)
    _calls[frame.f_code.co_filename, frame.f_lineno] += 1
    return _calls[frame.f_code.co_filename, frame.f_lineno] - 1
