"""Damaged files: what a reader makes of mutants of good ones, in a child process with little memory.

``python tests/mutants.py COUNT SEED MODULE [FORMAT...]``, with a module that holds ``FORMATS`` and ``ERRORS``, reads COUNT
mutants of each format's samples, and prints as JSON the ones that gave neither a right value nor an exception of
``tf.errors`` or a ValueError that names the file.
"""

from __future__ import annotations

import importlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MEMORY = 4 << 30
"""Bytes of addresses that a child may have: TVM and NumPy take two thirds of them before anything is read."""
SECONDS = 10.0
"""What one mutant may take."""
HUGE = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 1 << 31, (1 << 31) - 1, (1 << 32) - 1, 1 << 40, 1 << 63, (1 << 64) - 1)


@dataclass(frozen=True)
class Format:
    """One kind of file.

    ``samples`` are good files: bytes, or for a folder bytes by name. ``read(path)`` reads one to the end; ``is_right`` tells
    whether what it gave may stand where the file was damaged (where nothing guards the bytes, anything may). ``seal``
    mends the checksums of a mutant, so that the checks behind them are met, too. ``names_file`` is False for what is
    decoded from strings, which have no name.
    """

    samples: Callable[[], Sequence[Any]]
    read: Callable[[str], Any]
    is_right: Callable[[Any, Any], bool] = lambda found, wanted: True
    seal: Callable[[bytes], bytes] = field(default=bytes)
    names_file: bool = True


def mutate(data: bytes, draw: random.Random) -> bytes:
    """The bytes with one to three damages."""
    found = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        draw.choice(DAMAGES)(found, draw)
    return bytes(found)


def _place(data: bytearray, draw: random.Random, size: int = 1) -> int:
    """Somewhere in the data; as often as not near one of its ends, where headers and footers are."""
    last = max(0, len(data) - size)
    return draw.choice((draw.randint(0, last), draw.randint(0, min(last, 40)), max(0, last - draw.randint(0, 40))))


def _flip(data: bytearray, draw: random.Random) -> None:
    if data:
        data[_place(data, draw)] ^= 1 << draw.randrange(8)


def _set(data: bytearray, draw: random.Random) -> None:
    if data:
        data[_place(data, draw)] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))


def _cut(data: bytearray, draw: random.Random) -> None:
    del data[draw.choice((0, _place(data, draw), len(data) - 1)) :]


def _drop(data: bytearray, draw: random.Random) -> None:
    start = _place(data, draw)
    del data[start : start + draw.choice((1, 4, 16, 200))]


def _double(data: bytearray, draw: random.Random) -> None:
    start, size = _place(data, draw), draw.choice((1, 4, 16, 200, len(data)))
    data[start:start] = data[start : start + size]


def _zero(data: bytearray, draw: random.Random) -> None:
    start, size = _place(data, draw), draw.choice((4, 16, 200))
    data[start : start + size] = bytes(len(data[start : start + size]))


def _grow(data: bytearray, draw: random.Random) -> None:
    start = _place(data, draw)
    data[start:start] = draw.randbytes(draw.choice((1, 8, 100)))


def _length(data: bytearray, draw: random.Random) -> None:
    """A number set to one that no length is."""
    size = draw.choice((1, 2, 4, 8))
    start, number = _place(data, draw, size), draw.choice(HUGE) % (1 << 8 * size)
    if len(data) >= size:
        data[start : start + size] = number.to_bytes(size, draw.choice(("little", "big")))


def _varint(data: bytearray, draw: random.Random) -> None:
    """A number of a protocol buffer's that is huge, or has no end."""
    start = _place(data, draw)
    data[start : start + 1] = draw.choice((b"\xff" * 9 + b"\x01", b"\xff" * 20, b"\xff\xff\xff\xff\x0f", b"\x80\x00"))


DAMAGES = (_flip, _flip, _set, _cut, _drop, _double, _zero, _grow, _length, _length, _varint)


def complaint(kind: Format, path: Path, wanted: Any, errors: tuple[type[Exception], ...]) -> str | None:
    """What is wrong with how a file is read; None where all is well."""
    started = time.monotonic()
    try:
        found = kind.read(str(path))
        message = None if kind.is_right(found, wanted) else f"gave {str(found)[:200]}"
    except errors as error:
        named = not kind.names_file or str(path) in str(error)
        message = None if str(error) and named else f"doesn't name the file: {type(error).__name__}: {str(error)[:300]}"
    except BaseException as error:
        message = f"{type(error).__name__}: {str(error)[:300]}"
    spent = time.monotonic() - started
    return message or (f"took {spent:.0f} s" if spent > SECONDS else None)


def write(path: Path, content: Any) -> None:
    """A file, or a folder of files."""
    if isinstance(content, bytes):
        path.write_bytes(content)
        return
    path.mkdir(exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    for name, data in content.items():
        (path / name).write_bytes(data)


def damaged(sample: Any, kind: Format, draw: random.Random) -> Any:
    """A mutant of a file, or of one file of a folder."""
    if isinstance(sample, bytes):
        mutant = mutate(sample, draw)
        return kind.seal(mutant) if draw.random() < 0.5 else mutant
    name = draw.choice(sorted(sample))
    return sample | {name: damaged(sample[name], kind, draw)}


def check(kind: Format, count: int, seed: int, folder: Path, errors: tuple[type[Exception], ...]) -> list[str]:
    """What is wrong with how mutants are read, each with a number by which it is found again."""
    draw, message, path, samples = random.Random(seed), [], folder / "sample", []
    for sample in kind.samples():
        write(path, sample)
        samples.append((sample, kind.read(str(path))))
    for number in range(count):
        sample, wanted = draw.choice(samples)
        write(path, damaged(sample, kind, draw))
        found = complaint(kind, path, wanted, errors)
        if found:
            message.append(f"mutant {number} of seed {seed}: {found}")
    return message


def in_child(formats: Sequence[str], count: int, seed: int = 0, module: str = "file_formats") -> dict[str, list[str]]:
    """`check` of several formats of a module, in a process of bounded memory."""
    command = [sys.executable, "-W", "error", __file__, str(count), str(seed), module, *formats]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"the child": [f"ended with {done.returncode}: {done.stderr[-2000:]}"]}
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def main(count: str, seed: str, module: str, *names: str) -> None:
    formats = importlib.import_module(module)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    found = {}
    for name in names or formats.FORMATS:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = check(formats.FORMATS[name], int(count), int(seed), Path(folder), formats.ERRORS)
    print(json.dumps({name: message for name, message in found.items() if message}))


if __name__ == "__main__":
    main(*sys.argv[1:])
