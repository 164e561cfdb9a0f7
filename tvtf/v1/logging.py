"""``tf.compat.v1.logging``: TensorFlow 1's ways to write to the logger of ``tf.get_logger()``."""

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
"""How often each line asked to log now and then."""


def log(level: int, msg: str, *args: Any) -> None:
    """Logs at a level."""
    _logger.log(level, msg, *args)


vlog = log


def get_verbosity() -> int:
    """The level from which messages are written."""
    return _logger.getEffectiveLevel()


def set_verbosity(v: int | str) -> None:
    """Messages below this level are not written."""
    _logger.setLevel(v)


def flush() -> None:
    """Nothing waits to be written."""
    for handler in (*_logger.handlers, *_logging.getLogger().handlers):
        handler.flush()


def TaskLevelStatusMessage(msg: str) -> None:  # noqa: N802 - TensorFlow's name
    """An error, as TensorFlow 1 told its supervisor."""
    error(msg)


def log_if(level: int, msg: str, condition: Any, *args: Any) -> None:
    """Logs where ``condition`` is true."""
    if condition:
        log(level, msg, *args)


def log_every_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Logs the first and then every ``n``-th time that this line is reached."""
    log_if(level, msg, not _reached() % n, *args)


def log_first_n(level: int, msg: str, n: int, *args: Any) -> None:
    """Logs the first ``n`` times that this line is reached."""
    log_if(level, msg, _reached() < n, *args)


def _reached() -> int:
    """How often the caller's line logged before."""
    frame = _sys._getframe(2)
    _calls[frame.f_code.co_filename, frame.f_lineno] += 1
    return _calls[frame.f_code.co_filename, frame.f_lineno] - 1
