"""Arrays in files and pipes: NumPy's ``.npy``, CSV with an item of the first axis per row, ``-`` for CSV in a pipe."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from tvtf.fileio.atomic_file import replace
from tvtf.fileio.saved_module_error import SavedModuleError
from tvtf.saved.description import Value

PIPE = "-"
SUFFIXES = (".npy", ".csv")


def assigned(options: Sequence[str], wanted: Sequence[Value], kind: str, every: bool) -> dict[str, str]:
    """The file of each input or output, from options of the form ``NAME=FILE``, or ``FILE`` where there is only one.

    Raises:
      SavedModuleError: a name is unknown or given twice, or, with ``every``, missing; or a file's suffix is unknown.
    """
    named = ", ".join(value.name for value in wanted)
    files: dict[str, str] = {}
    for option in options:
        name, file = _named(option, wanted, kind, named)
        if name in files:
            raise SavedModuleError(f"--{kind} {name} is given twice")
        files[name] = file
    missing = [value.name for value in wanted if value.name not in files]
    if every and missing:
        raise SavedModuleError(f"--{kind} is missing for {', '.join(missing)}: give each as --{kind} NAME=FILE")
    return files


def _named(option: str, wanted: Sequence[Value], kind: str, named: str) -> tuple[str, str]:
    name, equals, file = option.partition("=")
    if equals and any(value.name == name for value in wanted):
        return name, _known(file)
    if len(wanted) == 1:
        return wanted[0].name, _known(option)
    raise SavedModuleError(f"--{kind} {option} doesn't name one of {named}: give it as --{kind} NAME=FILE")


def _known(file: str) -> str:
    if file != PIPE and Path(file).suffix not in SUFFIXES:
        raise SavedModuleError(f"{file} must be a {' or '.join(SUFFIXES)} file, or - for CSV in a pipe")
    return file


def read(file: str, value: Value) -> np.ndarray:
    """One input's array.

    Raises:
      SavedModuleError: the file is damaged, or doesn't hold what the input takes.
    """
    if file.endswith(".npy"):
        return _read_npy(file)
    text = sys.stdin.read() if file == PIPE else Path(file).read_text()
    return _parse_csv(text, value, "standard input" if file == PIPE else file)


def _read_npy(file: str) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError) as cause:
        raise SavedModuleError(f"{file} is no array in NumPy's format: {cause}") from cause


def _parse_csv(text: str, value: Value, place: str) -> np.ndarray:
    if not value.shape or not all(isinstance(d, int) for d in value.shape[1:]):
        raise SavedModuleError(f"{place}: CSV can't hold input {value}; give it as .npy")
    try:
        table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=value.dtype.np, ndmin=2)
    except ValueError as cause:
        raise SavedModuleError(f"{place} is no CSV of {value.dtype.name}: {cause}") from cause
    columns = math.prod(int(d) for d in value.shape[1:])
    if table.shape[1] != columns:
        raise SavedModuleError(
            f"{place} must have {columns} numbers per row for input {value}, but has {table.shape[1]}"
        )
    return table.reshape(-1, *value.shape[1:])


def write(file: str, array: np.ndarray) -> None:
    """One output's array, whole or not at all."""
    if file.endswith(".npy"):
        replace(file, _npy(array))
        return
    text = as_csv(array)
    if file == PIPE:
        click.echo(text, nl=False)
    else:
        replace(file, text.encode())


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def as_csv(array: np.ndarray) -> str:
    """A row for each item of the first axis, with digits enough to read the same values again.

    >>> as_csv(np.array([[1.5, 2.0], [0.1, 3.0]], np.float32))
    '1.5,2.0\\n0.1,3.0\\n'
    """
    rows = array.reshape(len(array) if array.ndim else 1, -1)
    return "".join(",".join(map(_shown, row)) + "\n" for row in rows)


def _shown(value: Any) -> str:
    return str(value.item() if value.dtype.kind in "iub" else value)
