"""Draws pictures of results into PNG files by Matplotlib, without a window and without its global state."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

MSG_MISSING = "pictures are drawn by Matplotlib, which is not installed: pip install 'tvtf[plot]'"
DOTS_PER_INCH = 90
"""Enough to read labels of 9 points; a picture of two panels takes about 20 kB."""
COLOURS = 128


def require() -> None:
    """Checks before a long run that Matplotlib is installed.

    Raises:
      ImportError: Matplotlib is not installed.
    """
    if find_spec("matplotlib") is None:
        raise ImportError(MSG_MISSING)


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.5, 2.8)) -> Iterator[Any]:
    """Yields ``rows`` by ``columns`` axes of Matplotlib (one, a row, or a table), and writes them when the block ends.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "deep", "line.png")
    ...     with picture(path) as axes:
    ...         _ = axes.plot([1, 2], [3, 4])
    ...     path.read_bytes()[1:4]
    b'PNG'

    Args:
      path: the PNG file; folders on the way to it are made.
      rows: the number of axes in a column.
      columns: the number of axes in a row.
      size: width and height in inches.

    Raises:
      ImportError: Matplotlib is not installed.

    Source: https://matplotlib.org/stable/api/figure_api.html
    """
    require()
    from matplotlib.figure import Figure
    from PIL import Image  # Matplotlib brings it

    figure = Figure(figsize=size, dpi=DOTS_PER_INCH, layout="constrained")
    yield figure.subplots(rows, columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = io.BytesIO()
    figure.savefig(drawn)
    # A table of colours instead of three bytes a pixel: half the size, without a visible difference.
    Image.open(drawn).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, "PNG", optimize=True)


def tiles(images: Sequence[Any] | np.ndarray, columns: int, gap: int = 1) -> np.ndarray:
    """Arranges grey images ``(n, height, width)`` as one image, in rows of ``columns`` with gaps between them.

    >>> tiles(np.zeros((6, 8, 8)), columns=3).shape
    (17, 26)
    """
    stack = np.asarray(images)
    padded = np.pad(stack, ((0, -len(stack) % columns), (0, gap), (0, gap)), constant_values=stack.min(initial=0.0))
    rows = padded.reshape(-1, columns, *padded.shape[1:]).swapaxes(1, 2)  # (rows, height, columns, width)
    return rows.reshape(rows.shape[0] * rows.shape[1], -1)[:-gap, :-gap]
