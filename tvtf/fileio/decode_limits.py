"""The limit on the size of decoded data: a few compressed bytes can expand to any size."""

from __future__ import annotations

import os
from typing import Final

from tvtf.errors import ResourceExhaustedError

VARIABLE: Final = "TVTF_MAX_DECODED_BYTES"
"""The environment variable that sets the limit."""
DEFAULT: Final = 1 << 29
"""512 MiB. Pillow rejects larger images of 24 bits per pixel by itself (twice its ``MAX_IMAGE_PIXELS``)."""


def max_decoded_bytes() -> int:
    """Returns the largest allowed size, in bytes, of one value decoded from a file, such as an image or a record.

    Without a limit, a small compressed file could expand to more than the memory.

    >>> max_decoded_bytes()
    536870912

    Raises:
      ValueError: the environment variable is not a positive number.
    """
    text = os.environ.get(VARIABLE, "")
    if not text:
        return DEFAULT
    if not text.isascii() or not text.isdigit() or not int(text):
        raise ValueError(f"{VARIABLE} must be a positive number of bytes, got {text!r}")
    return int(text)


def require_decodable(size: int, what: str) -> None:
    """Checks that a value from a file is not too large to be decompressed or decoded.

    It is called before memory is allocated for the value.

    Args:
      size: the number of bytes of the decoded value, or a lower bound of this number.
      what: the value's name in the error, with its file if it has one.

    Raises:
      ResourceExhaustedError: the size exceeds `max_decoded_bytes`.
    """
    limit = max_decoded_bytes()
    if size > limit:
        raise ResourceExhaustedError(
            None,
            None,
            f"{what} would take {size} bytes or more when decoded, and the limit is {limit} bytes. If you trust where it "
            f"comes from, set the environment variable {VARIABLE} to a greater number of bytes.",
        )
