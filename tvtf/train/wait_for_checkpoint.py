"""Iterates over checkpoints as they appear in a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from os import PathLike

from tvtf.core.log import logger
from tvtf.train.checkpoint_state import latest_checkpoint

POLL_SECONDS = 1.0
"""Seconds between two checks of the folder, as in TensorFlow."""


def checkpoints_iterator(
    checkpoint_dir: str | PathLike[str],
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yields the prefix of each newest checkpoint of a folder once, and waits for the next one.

    Args:
      checkpoint_dir: the folder.
      min_interval_secs: the least time between two checkpoints.
      timeout: the seconds to wait for a checkpoint; None waits for ever.
      timeout_fn: called after a timeout and after each checkpoint; if it returns true, the iteration ends.

    >>> list(checkpoints_iterator("/no/such/folder", timeout=0))
    []

    Source: https://www.tensorflow.org/api_docs/python/tf/train/checkpoints_iterator
    """
    last = None
    while True:
        newest = _wait_for_newer(checkpoint_dir, last, timeout)
        if newest is not None:
            last = newest
            start = time.monotonic()
            yield newest
            time.sleep(max(0.0, start + min_interval_secs - time.monotonic()))
        elif timeout_fn is None:
            logger.info("Timed-out waiting for a checkpoint (without timeout_fn).")
            return
        if timeout_fn is not None and timeout_fn():
            logger.info("Done. No new checkpoints will be generated.")
            return


def _wait_for_newer(folder: str | PathLike[str], last: str | None, timeout: float | None) -> str | None:
    """Waits until the newest checkpoint of a folder differs from ``last``, and returns the newest checkpoint's prefix.

    Returns None if that takes longer than ``timeout`` seconds; a timeout of None waits for ever.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        newest = latest_checkpoint(folder)
        if newest is not None and newest != last:
            return newest
        if deadline is not None and time.monotonic() + POLL_SECONDS > deadline:
            return None
        time.sleep(POLL_SECONDS)
