"""The bound on what decoders make of a file: a few compressed bytes can expand to any size."""

from __future__ import annotations

import os
from typing import Final

from tvtf.errors import ResourceExhaustedError

VARIABLE: Final = "TVTF_MAX_DECODED_BYTES"
"""The environment variable that raises or lowers the bound."""
DEFAULT: Final = 1 << 29
"""512 MiB, beyond which Pillow by itself refuses an image of 24 bits, too (twice its ``MAX_IMAGE_PIXELS``)."""


def max_decoded_bytes() -> int:
    """The most bytes that decoding one value (an image, a record, a tensor, a string) may take.

    >>> max_decoded_bytes()
    536870912

    Raises:
      ValueError: the environment variable holds no positive number.
    """
    told = os.environ.get(VARIABLE, "")
    if not told:
        return DEFAULT
    if not told.isascii() or not told.isdigit() or not int(told):
        raise ValueError(f"{VARIABLE} must be a positive number of bytes, got {told!r}")
    return int(told)


def require_decodable(size: int, what: str) -> None:
    """Checks a decoded size before memory is allocated for it.

    Args:
      size: how many bytes the decoded value takes, or at least takes.
      what: names the value in the error, with its file where there is one.

    Raises:
      ResourceExhaustedError: it is more than `max_decoded_bytes`.
    """
    most = max_decoded_bytes()
    if size > most:
        raise ResourceExhaustedError(
            None,
            None,
            f"{what} would take {size} bytes or more when decoded, and the limit is {most} bytes. If you trust where it "
            f"comes from, set the environment variable {VARIABLE} to a greater number of bytes.",
        )
