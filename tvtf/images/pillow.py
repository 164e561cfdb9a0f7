"""Pillow, which reads and writes image files where it is installed."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final

from tvtf.core.argument_error import ArgumentError
from tvtf.errors import OpError

NEEDS_PILLOW: Final = "{} files are read and written by Pillow, which is not installed: pip install tvtf[image]"


def pillow(kind: str) -> Any:
    """Returns Pillow's ``Image`` module.

    Raises:
      ArgumentError: Pillow is not installed.
    """
    try:
        from PIL import Image
    except ImportError:
        raise ArgumentError(NEEDS_PILLOW.format(kind)) from None
    return Image


def read_with_pillow(data: bytes, kind: str, read: Callable[[Any], Any]) -> Any:
    """Opens an image file with Pillow, only as the format ``kind``, and returns ``read(image)``.

    Pillow's own limit of the image's size does not apply.

    Raises:
      ArgumentError: the file can't be read, or Pillow is not installed.
      ResourceExhaustedError: the image is larger than what may be decoded.
    """
    module = pillow(kind)
    module.init()
    try:
        opener, _ = module.OPEN[kind.upper()]
        with opener(io.BytesIO(data), None) as image:
            return read(image)
    except (OpError, MemoryError):
        # These are not about the file's data.
        raise
    except Exception as error:  # Pillow raises many kinds
        raise ArgumentError(f"Invalid {kind} data or crop window, data size {len(data)}: {error}") from error
