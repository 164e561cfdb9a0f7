"""ZLIB and GZIP streams, decompressed piece by piece, so that a small stream can't claim much memory."""

from __future__ import annotations

import io
import zlib
from typing import IO, Any, Final

from tvtf.errors import DataLossError
from tvtf.fileio.decode_limits import require_decodable

WINDOW_BITS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}
"""What zlib is told to expect, by TensorFlow's names of compressions."""
PIECE: Final = 1 << 16
"""Compressed bytes that are read at once."""


class Inflated(io.RawIOBase):
    """A compressed file, read as what was compressed; several GZIP members may follow each other.

    Args:
      file: the compressed bytes.
      kind: ``"ZLIB"`` or ``"GZIP"``.
      source: the name of the file in errors; may be empty.
    """

    def __init__(self, file: IO[bytes], kind: str, source: str) -> None:
        super().__init__()
        self._file, self._kind, self.source = file, kind, source
        self._engine = zlib.decompressobj(WINDOW_BITS[kind])
        self._input = b""
        self._failure: DataLossError | None = None

    def readable(self) -> bool:
        """Always True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """As `read`, into memory that is there."""
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def read(self, size: int = PIECE) -> bytes:
        """At most ``size`` bytes, fewer than that wherever it suits; none at the end.

        Raises:
          DataLossError: the stream is damaged or truncated; what comes before the damage is read first.
        """
        if self._failure is not None:
            raise self._failure
        found = b""
        while not found and size > 0:
            if self._engine.eof and not self._next_member():
                break
            self._input = self._input or self._file.read(PIECE)
            found = self._decompress(size)
        return found

    def _decompress(self, size: int) -> bytes:
        """What the next piece of input gives, which may be nothing."""
        at_end = not self._input
        try:
            found = self._engine.decompress(self._input, size)
        except zlib.error as error:
            raise self._damaged(str(error)) from None
        self._input = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
        if at_end and not found and not self._engine.eof:
            raise self._damaged("the stream is truncated")
        return found

    def _next_member(self) -> bool:
        """Whether another GZIP member follows the one that ended; zeros between them are padding."""
        rest = self._input or self._file.read(PIECE)
        if self._kind == "GZIP":
            while rest and not (rest := rest.lstrip(b"\0")):
                rest = self._file.read(PIECE)
        if rest and self._kind == "ZLIB":
            raise self._damaged("other bytes follow the end of the stream")
        self._input = rest
        if rest:
            self._engine = zlib.decompressobj(WINDOW_BITS[self._kind])
        return bool(rest)

    def _damaged(self, why: str) -> DataLossError:
        place = f"{self.source}: " if self.source else ""
        self._failure = DataLossError(None, None, f"{place}damaged {self._kind} data: {why}")
        return self._failure

    def close(self) -> None:
        """Closes the compressed file."""
        self._file.close()
        super().close()


def inflated(data: bytes, kind: str, what: str) -> bytes:
    """All that was compressed.

    >>> inflated(zlib.compress(b"abc"), "ZLIB", "a string")
    b'abc'

    Raises:
      DataLossError: the data is damaged or truncated.
      ResourceExhaustedError: it is more than may be decoded.
    """
    stream, pieces, size = Inflated(io.BytesIO(data), kind, what), [], 0
    while piece := stream.read(1 << 20):
        size += len(piece)
        require_decodable(size, what)
        pieces.append(piece)
    return b"".join(pieces)


def read_fully(file: Any, size: int) -> bytes:
    """``size`` bytes, fewer at the end of the file, read in pieces: no more memory is taken than the file fills.

    Where reading fails after some bytes those are given; the next call fails.
    """
    pieces: list[bytes] = []
    while size > 0:
        try:
            piece = file.read(min(size, 1 << 20))
        except DataLossError:
            if not pieces:
                raise
            break
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
