"""Text that exists on every machine: the sources of Python's standard library, as tokens.

The files are in the order of their paths; a tenth of them, selected by a hash of the path, is held out. The files depend on
the Python version, so that results differ slightly between versions, but not between runs.
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
"""Folders that are not part of the library itself, or contain tables or other languages."""


def encode(text: str) -> np.ndarray:
    """Encodes text as tokens, one for each character, uint8; characters without a token of their own share one.

    >>> encode("a = 1\\n").tolist(), decode(encode("é\\n"))
    ([66, 1, 30, 1, 18, 0], '\\ufffd\\n')
    """
    code_points = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    # The table has 128 entries; its last one, of a control character, serves all characters beyond ASCII.
    return _token_of()[np.minimum(code_points, 127)]


def decode(tokens: np.ndarray) -> str:
    """Returns tokens as text."""
    return "".join(LETTERS[int(token)] for token in tokens)


def _token_of() -> np.ndarray:
    """Returns the token of each ASCII code; others are unknown."""
    tokens = np.full(128, UNKNOWN, np.uint8)
    tokens[[ord(letter) for letter in LETTERS[:UNKNOWN]]] = np.arange(UNKNOWN)
    return tokens


def files(root: Path) -> list[Path]:
    """Lists the Python source files of the standard library under a folder, in the order of their paths."""
    paths: list[Path] = []
    for entry in sorted(root.iterdir()):
        if entry.is_dir() and entry.name not in SKIPPED:
            paths += files(entry)
        elif entry.suffix == ".py":
            paths.append(entry)
    return paths


def is_held_out(path: str) -> bool:
    """Whether a file, given by its path within the library, is not used for training.

    >>> is_held_out("abc.py"), sum(is_held_out(f"{i}.py") for i in range(1000))
    (False, 101)
    """
    return int.from_bytes(hashlib.sha256(path.encode()).digest()[:4], "big") % HELD_OUT == 0


def load(root: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Reads Python's standard library as tokens: returns those to train on, and those of the held-out files.

    Raises:
      FileNotFoundError: the sources of the standard library are missing (a zipped or frozen Python).
    """
    root = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    texts: dict[bool, list[str]] = {False: [], True: []}
    for path in files(root) if root.is_dir() else []:
        text = path.read_text(encoding="utf-8", errors="replace")
        texts[is_held_out(path.relative_to(root).as_posix())].append(text)
    if not all(texts.values()):
        raise FileNotFoundError(f"no sources of Python's standard library in {root}; use a Python that has them")
    train, held_out = (encode("\n".join(texts[key])) for key in (False, True))
    return train, held_out
