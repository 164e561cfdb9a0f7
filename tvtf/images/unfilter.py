"""The filters of PNG's rows undone: each byte was stored as its difference from a guess made of its neighbours.

Source: https://www.w3.org/TR/png-3/#9Filters
"""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np

from tvtf.core.argument_error import ArgumentError

NONE, SUB, UP, AVERAGE, PAETH = range(5)
MODES: Final = {1: ("L", ["L"]), 2: ("LA", ["LA"]), 3: ("RGB", ["RGB"]), 4: ("RGBA", ["RGBA"])}
"""Pillow's modes by the bytes of a pixel, and those of the bytes that it reads."""
MODES_OF_PAIRS: Final = {6: ("RGB", ["RGB;16B", "RGB;16L"]), 8: ("RGBA", ["RGBA;16B", "RGBA;16L"])}
"""Of 16 bits a channel Pillow keeps one byte: the first of big-endian pairs, then the second as if they were little-endian."""
BYTES_OF_A_DIAGONAL: Final = 100
"""How many bytes Python undoes (0.4 us each) in the time that NumPy takes for a short diagonal (40 us)."""
TALLEST: Final = 256
"""Rows whose diagonals are laid out at once."""


def unfiltered(lines: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    """Rows of bytes.

    Args:
      lines: uint8 of shape (rows, 1 + bytes): the number of each row's filter before its bytes.
      above: the bytes of the row before the first.
      step: bytes of a pixel.

    Raises:
      ArgumentError: a filter that there is none of.
    """
    filters = lines[:, 0]
    if filters.max(initial=0) > PAETH:
        raise ArgumentError(f"Invalid PNG data: filter {filters.max()}")
    if not filters.any():
        return lines[:, 1:]
    module = _pillow()
    if module is not None:
        return _by_pillow(module, lines, above, step)
    found, width = np.empty((len(lines), len(above)), np.uint8), len(above) // step
    rows = min(len(lines), TALLEST)
    decode = _in_python if rows * len(above) < BYTES_OF_A_DIAGONAL * (rows + width) else _by_diagonals
    for top in range(0, len(lines), TALLEST):
        part = lines[top : top + TALLEST]
        found[top : top + TALLEST] = decode(part, above, step)
        above = found[top + len(part) - 1]
    return found


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError:
        return None
    return Image


def _by_pillow(module: Any, lines: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    """Pillow's decoder takes compressed rows: these, after the one above, stored as they are."""
    first = np.concatenate([np.zeros(1, np.uint8), above])
    stored = zlib.compress(first.tobytes() + lines.tobytes(), 0)
    size = len(above) // step, len(lines) + 1
    mode, raw = (MODES | MODES_OF_PAIRS)[step]
    found = [np.asarray(module.frombytes(mode, size, stored, "zip", each)) for each in raw]
    whole = found[0] if len(found) == 1 else np.stack(found, axis=-1)
    return whole[1:].reshape(len(lines), -1)


def _in_python(lines: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    """Byte by byte."""
    width = len(above)
    found, up = bytearray(), bytes(step) + above.tobytes()
    for line in lines:
        kind, row = int(line[0]), bytearray(step)
        for i, value in enumerate(line[1:].tobytes()):
            left, over, corner = row[i], up[i + step], up[i]
            row.append((value + _guess(kind, left, over, corner)) & 255)
        found += row[step:]
        up = bytes(row)
    return np.frombuffer(bytes(found), np.uint8).reshape(-1, width)


def _guess(kind: int, left: int, above: int, corner: int) -> int:
    if kind == PAETH:
        a, b, c = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
        return left if a <= b and a <= c else above if b <= c else corner
    return (0, left, above, (left + above) // 2)[kind]


def _by_diagonals(lines: np.ndarray, above: np.ndarray, step: int) -> np.ndarray:
    """All pixels of a diagonal at once: the three neighbours of each lie on the two diagonals before.

    ``skewed[d, y]`` is the pixel of row ``y`` in column ``d - y``; row 0 is the one above, column 0 is zeros.
    """
    rows, width = len(lines), len(above) // step
    skewed = np.zeros((rows + width + 1, rows + 1, step), np.uint8)
    places = np.arange(rows + 1)[:, None] + np.arange(1, width + 1)
    index = np.arange(rows + 1)[:, None]
    skewed[places[0], 0] = above.reshape(width, step)
    skewed[places[1:], index[1:]] = lines[:, 1:].reshape(rows, width, step)
    kinds = lines[:, 0]
    for d in range(2, rows + width + 1):
        first, end = max(1, d - width), min(rows, d - 1) + 1
        left = skewed[d - 1, first:end].astype(np.int16)
        over, corner = (skewed[d - n, first - 1 : end - 1].astype(np.int16) for n in (1, 2))
        guess = _guesses(kinds[first - 1 : end - 1, None], left, over, corner)
        skewed[d, first:end] += guess.astype(np.uint8)
    return skewed[places[1:], index[1:]].reshape(rows, -1)


def _guesses(kind: np.ndarray, left: np.ndarray, above: np.ndarray, corner: np.ndarray) -> np.ndarray:
    a, b, c = abs(above - corner), abs(left - corner), abs(left + above - 2 * corner)
    paeth = np.where((a <= b) & (a <= c), left, np.where(b <= c, above, corner))
    return np.select(
        [kind == PAETH, kind == AVERAGE, kind == UP, kind == SUB], [paeth, (left + above) // 2, above, left]
    )
