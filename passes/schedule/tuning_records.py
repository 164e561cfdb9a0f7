"""Tuning records: choices that made a kernel faster on a target, as JSON lines in files that can be merged.

All ``*.jsonl`` files in a folder are read; of several records for one kernel, the one with the largest gain counts.
Files may come from anywhere and aren't trusted: a line that isn't a record is rejected with a warning, and choices
select only among those that the rules for a kernel offer (``tvtf.passes.schedule.choices``).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tvtf.core.thread_state import cache_folder

VERSION = 1
MAX_BYTES = 64 << 20
LONGEST_TEXT = 1000
MAX_CHOICES = 200


class Record(NamedTuple):
    """A kernel (its ``key``, and a readable name) on a target: the choices, and the seconds without and with them."""

    target: str
    key: str
    kernel: str
    choices: Mapping[str, str]
    before: float
    after: float

    @property
    def gain(self) -> float:
        """The speed-up factor."""
        return self.before / self.after


def folder() -> Path:
    """Returns the path of records: TVTF_TUNED (a folder or a file), else ``tuned`` in the cache folder."""
    path = os.environ.get("TVTF_TUNED")
    return Path(path) if path else cache_folder() / "tuned"


def records(target: str) -> dict[str, Record]:
    """Returns the best record of each kernel on a target, by its key."""
    return _read_cached(_stamps(folder())).get(target, {})


def digest(target: str) -> str:
    """Returns a hash of all choices on a target, or an empty string if there are none."""
    choices = {key: sorted(record.choices.items()) for key, record in sorted(records(target).items())}
    return hashlib.sha256(json.dumps(choices).encode()).hexdigest() if choices else ""


def keep(found: Iterable[Record]) -> Path:
    """Appends tuning records to a file, and returns its path.

    This is the file that TVTF_TUNED names, or ``tuned.jsonl`` in the folder of records.
    """
    home = folder()
    is_file = home.suffix == ".jsonl" or home.is_file()
    path = home if is_file else home / "tuned.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(line_of(record) + "\n" for record in found)
    with path.open("ab+") as file:
        file.seek(0, os.SEEK_END)
        is_empty = not file.tell()
        if not is_empty:
            # A process that crashed may have left an incomplete last line. End it, so that new records stand alone.
            file.seek(-1, os.SEEK_END)
            if file.read() != b"\n":
                file.write(b"\n")
        file.write(lines.encode())
    return path


def line_of(record: Record) -> str:
    """Formats a record as a line of a file.

    >>> print(line_of(Record("llvm", "0a", "matmul", {"tile": "12 x 2"}, 2e-4, 1e-4)))
    {"tvtf_tuned": 1, "target": "llvm", "key": "0a", "kernel": "matmul", "choices": {"tile": "12 x 2"}, "before": 0.0002, "after": 0.0001}
    """
    return json.dumps({"tvtf_tuned": VERSION, **record._asdict(), "choices": dict(record.choices)})


def record_of(line: str) -> Record:
    """Parses a line of JSON as a tuning record.

    Raises:
      ValueError: the line isn't a record, or has another version; the text says why.
    """
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a line of JSON ({error})") from error
    if not isinstance(fields, dict) or fields.pop("tvtf_tuned", None) != VERSION:
        raise ValueError(f"not a record of version {VERSION}")
    if set(fields) != set(Record._fields):
        raise ValueError(
            f"a record has the fields {', '.join(Record._fields)}, but this one has {', '.join(map(str, fields))}"
        )
    record = Record(**fields)
    _check_fields(record)
    return record


def _check_fields(record: Record) -> None:
    """Checks the types and sizes of a tuning record's fields, since records may come from an untrusted source.

    Raises:
      ValueError: a field has the wrong type, is too long, or isn't a valid number of seconds.
    """
    if not all(map(_is_text, (record.target, record.key, record.kernel))):
        raise ValueError("target, key and kernel must be short strings")
    choices: Any = record.choices
    if not isinstance(choices, dict) or len(choices) > MAX_CHOICES:
        raise ValueError(f"choices must be an object of at most {MAX_CHOICES} choices")
    if not all(_is_text(name) and _is_text(label) for name, label in choices.items()):
        raise ValueError("choices must be short strings")
    if not all(map(_is_time, (record.before, record.after))):
        raise ValueError("before and after must be numbers of seconds")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST_TEXT


def _is_time(value: Any) -> bool:
    """Returns whether a value is a positive number of seconds."""
    return isinstance(value, float) and math.isfinite(value) and value > 0


Stamp = tuple[Path, int, int]
RecordsByTarget = dict[str, dict[str, Record]]
_cache: dict[tuple[Stamp, ...], RecordsByTarget] = {}


def _stamps(home: Path) -> tuple[Stamp, ...]:
    """Returns the path, modification time and size of each file of tuning records; nothing if they can't be read.

    Comparing these shows whether a file has changed, and is cheaper than reading the files.
    """
    try:
        files = sorted(home.glob("*.jsonl")) if home.is_dir() else [home]
        stats = [(path, path.stat()) for path in files]
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as reason:
        warnings.warn(f"no records of tuning are used: {reason}", stacklevel=2)
        return ()
    return tuple((path, stat.st_mtime_ns, stat.st_size) for path, stat in stats)


def _read_cached(stamps: tuple[Stamp, ...]) -> RecordsByTarget:
    """Returns the tuning records in some files, by target and key.

    The records are cached, since each kernel's compilation needs them. The files are read again when one of them has
    changed.

    Args:
      stamps: the path, modification time and size of each file.
    """
    if stamps not in _cache:
        _cache.clear()
        paths = [path for path, _modification_time, _size in stamps]
        _cache[stamps] = best(record for path in paths for record in _read_file(path))
    return _cache[stamps]


def best(found: Iterable[Record]) -> RecordsByTarget:
    """Returns the record with the largest gain for each kernel on each target, by target and by the kernel's key.

    Records of the same kernel occur when files of several machines or days are merged by appending them.
    """
    by_target: RecordsByTarget = {}
    for record in found:
        by_kernel = by_target.setdefault(record.target, {})
        known = by_kernel.get(record.key)
        if known is None or known.gain < record.gain:
            by_kernel[record.key] = record
    return by_target


def _read_file(path: Path) -> list[Record]:
    """Reads the tuning records of a file.

    Lines that aren't records are skipped, with one warning for all, so that the other records can still be used.
    """
    accepted: list[Record] = []
    rejected: list[str] = []
    try:
        for number, line in enumerate(_lines(path), 1):
            try:
                accepted.append(record_of(line))
            except ValueError as reason:
                rejected.append(f"line {number}: {reason}")
    except (OSError, ValueError) as reason:
        rejected.append(str(reason))
    if rejected:
        warnings.warn(f"rejected {len(rejected)} tuning records in {path}: {rejected[0]}", stacklevel=2)
    return accepted


def _lines(path: Path) -> list[str]:
    """Returns the lines of a file that aren't empty; raises ValueError if it is too large."""
    if path.stat().st_size > MAX_BYTES:
        raise ValueError(f"the file is larger than {MAX_BYTES} bytes")
    return [line for line in path.read_bytes().decode(errors="replace").split("\n") if line.strip()]
