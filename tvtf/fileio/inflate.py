"""Decompression of ZLIB and GZIP streams piece by piece, so that a small stream can't exhaust memory."""

from __future__ import annotations

import io
import zlib
from typing import IO, Any, Final

from tvtf.errors import DataLossError
from tvtf.fileio.decode_limits import require_decodable

WINDOW_BITS: Final = {"ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}
"""TensorFlow's name of a compression -> zlib's ``wbits`` argument, which selects the format."""
PIECE: Final = 1 << 16
"""The number of compressed bytes that are read at once."""


class Inflated(io.RawIOBase):
    """A file object that decompresses another file while it is read; a GZIP file may have several members.

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
        """Returns True: the file can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads decompressed data into a buffer, and returns the number of bytes read, 0 at the end of the file."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read(self, size: int = PIECE) -> bytes:
        """Reads between 1 and ``size`` bytes of decompressed data; no bytes at the end of the file.

        Raises:
          DataLossError: the stream is damaged or truncated. Data before the damage can be read first.
        """
        if self._failure is not None:  # an earlier call has found the damage
            raise self._failure
        data = b""
        # One piece of compressed input may be too short to decompress to any data.
        while not data and size > 0:
            if self._engine.eof and not self._next_member():
                break
            self._input = self._input or self._file.read(PIECE)
            data = self._decompress(size)
        return data

    def _decompress(self, size: int) -> bytes:
        """Decompresses the next piece of the compressed input, and returns at most ``size`` bytes, possibly none.

        The size is bounded because a small stream may expand a thousandfold.

        Raises:
          DataLossError: the input is damaged, or ends within the stream.
        """
        at_end = not self._input
        try:
            data = self._engine.decompress(self._input, size)
        except zlib.error as error:
            raise self._damage_error(str(error)) from None
        # Input after the stream's end, or input that would have exceeded ``size``, is for the next call.
        self._input = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
        if at_end and not data and not self._engine.eof:
            raise self._damage_error("the stream is truncated")
        return data

    def _next_member(self) -> bool:
        """Starts to decompress the next member of a GZIP file, and returns whether there is one.

        A GZIP file that was concatenated from others has several members (RFC 1952, section 2.2). Zeros between the members
        are skipped.

        Raises:
          DataLossError: more bytes follow a ZLIB stream, which can't have members.
        """
        next_input = self._input or self._file.read(PIECE)
        if self._kind == "GZIP":
            while next_input and not (next_input := next_input.lstrip(b"\0")):
                next_input = self._file.read(PIECE)
        if next_input and self._kind == "ZLIB":
            raise self._damage_error("other bytes follow the end of the stream")
        self._input = next_input
        if next_input:
            self._engine = zlib.decompressobj(WINDOW_BITS[self._kind])
        return bool(next_input)

    def _damage_error(self, reason: str) -> DataLossError:
        """Returns the error to raise for damaged data, and stores it: later reads raise it again."""
        prefix = f"{self.source}: " if self.source else ""
        self._failure = DataLossError(None, None, f"{prefix}damaged {self._kind} data: {reason}")
        return self._failure

    def close(self) -> None:
        """Closes the compressed file."""
        self._file.close()
        super().close()


def inflated(data: bytes, kind: str, what: str) -> bytes:
    """Decompresses a byte string.

    Args:
      data: the compressed bytes.
      kind: the format, ``"ZLIB"`` or ``"GZIP"``.
      what: the name of the data in errors.

    >>> inflated(zlib.compress(b"abc"), "ZLIB", "a string")
    b'abc'

    Raises:
      DataLossError: the data is damaged or truncated.
      ResourceExhaustedError: the result exceeds the limit of `decode_limits`.
    """
    stream = Inflated(io.BytesIO(data), kind, what)
    pieces = []
    size = 0
    while piece := stream.read(1 << 20):
        size += len(piece)
        require_decodable(size, what)
        pieces.append(piece)
    return b"".join(pieces)


def read_fully(file: Any, size: int) -> bytes:
    """Reads ``size`` bytes from a file, or fewer bytes at the end of the file.

    The bytes are read in pieces of 1 MiB. So a wrong ``size``, from a damaged file, does not allocate much memory in advance.
    If compressed data is damaged, the bytes before the damage are returned, and the next call raises a DataLossError.
    """
    pieces: list[bytes] = []
    while size > 0:
        try:
            piece = file.read(min(size, 1 << 20))
        except DataLossError:
            if not pieces:
                raise
            break  # an `Inflated` file raises the error again at the next read
        if not piece:
            break
        pieces.append(piece)
        size -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
