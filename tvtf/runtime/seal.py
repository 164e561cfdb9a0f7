"""A file's own digest at its end: loading a damaged library would kill the process (a truncated one ends in SIGBUS).

ELF and Mach-O loaders ignore what follows the last section.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

_MARK = b"tvtf-seal-1:"
_DIGEST_BYTES = 16
SEAL_BYTES = len(_MARK) + _DIGEST_BYTES


def seal(path: Path) -> None:
    """Appends the digest of the file's content."""
    mark = _MARK + _digest(path.read_bytes())
    with path.open("ab") as file:
        file.write(mark)


def is_sealed(path: Path) -> bool:
    """Whether the file is whole: what :func:`seal` left, byte for byte."""
    content = path.read_bytes()
    return content[-SEAL_BYTES:] == _MARK + _digest(content[:-SEAL_BYTES])


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
