"""The loss of every step in a CSV file, exact to the last bit, so that runs can be compared and plotted."""

from __future__ import annotations

from pathlib import Path

from tvtf.fileio.atomic_file import replace

HEADER = "epoch,step,loss"


class LossFile:
    """``losses.csv`` of one run: a line for each step, counted from 0; whole epochs are added at once."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, epoch: int, losses: list[float]) -> None:
        """Adds one epoch's losses, written so that reading them gives the same floats."""
        lines = self._lines() + [f"{epoch},{step},{loss!r}" for step, loss in enumerate(losses)]
        self._write(lines)

    def cut(self, epochs: int) -> None:
        """Keeps the first ``epochs`` epochs: later ones were not checkpointed and will be repeated."""
        self._write([line for line in self._lines() if int(line.partition(",")[0]) < epochs])

    def _lines(self) -> list[str]:
        return self.path.read_text().splitlines()[1:] if self.path.is_file() else []

    def _write(self, lines: list[str]) -> None:
        replace(str(self.path), "\n".join([HEADER, *lines, ""]).encode())
