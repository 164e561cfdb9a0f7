"""Text that is on every machine: the sources of Python's own standard library, as tokens.

The files are in the order of their paths; every tenth, told by a hash of its path, is held out. Which files there are
depends on the Python version, so results differ a little between versions, and not between runs.
"""

from __future__ import annotations

import hashlib
import sysconfig
from pathlib import Path

import numpy as np

LETTERS = "\n" + "".join(map(chr, range(32, 127))) + "\ufffd"
"""The tokens: newline, printable ASCII, and one for everything else."""
UNKNOWN = len(LETTERS) - 1
HELD_OUT = 10
SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "__pycache__", "pydoc_data", "lib2to3"}
"""Folders that aren't the library itself, or are tables and other languages."""


def encode(text: str) -> np.ndarray:
    """Text as tokens, uint8 ``(characters,)``.

    >>> encode("a = 1\\n").tolist(), decode(encode("é\\n"))
    ([66, 1, 30, 1, 18, 0], '\\ufffd\\n')
    """
    points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return _token_of()[np.minimum(points, 127)]


def decode(tokens: np.ndarray) -> str:
    """Tokens as text."""
    return "".join(LETTERS[int(token)] for token in tokens)


def _token_of() -> np.ndarray:
    """The token of each ASCII code; what has none is unknown."""
    tokens = np.full(128, UNKNOWN, np.uint8)
    tokens[[ord(letter) for letter in LETTERS[:UNKNOWN]]] = np.arange(UNKNOWN)
    return tokens


def files(root: Path) -> list[Path]:
    """The library's sources under ``root``, in the order of their paths."""
    found: list[Path] = []
    for entry in sorted(root.iterdir()):
        if entry.is_dir() and entry.name not in SKIPPED:
            found += files(entry)
        elif entry.suffix == ".py":
            found.append(entry)
    return found


def is_held_out(path: str) -> bool:
    """Whether a file, by its path within the library, is kept from training.

    >>> is_held_out("abc.py"), sum(is_held_out(f"{i}.py") for i in range(1000))
    (False, 101)
    """
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") % HELD_OUT == 0


def load(root: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The tokens to train on and those held out, files joined by a newline.

    Raises:
      FileNotFoundError: the standard library isn't there as sources (a zipped or frozen Python).
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    parts: dict[bool, list[str]] = {False: [], True: []}
    for path in files(root) if root.is_dir() else []:
        text = path.read_text(encoding="utf-8", errors="replace")
        parts[is_held_out(path.relative_to(root).as_posix())].append(text)
    if not all(parts.values()):
        raise FileNotFoundError(f"no sources of Python's standard library in {root}; use a Python that has them")
    train, held_out = (encode("\n".join(parts[key])) for key in (False, True))
    return train, held_out
