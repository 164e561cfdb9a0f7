"""Reads and writes arrays in files and pipes: NumPy's ``.npy``, CSV with a row per item of the first axis, ``-`` for a pipe."""

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


def assign_files(options: Sequence[str], values: Sequence[Value], kind: str, is_required: bool) -> dict[str, str]:
    """Parses command-line options ``NAME=FILE`` for a program's inputs or outputs; returns the files by name.

    ``values`` describe the inputs or outputs; with only one, the option may be ``FILE``. ``kind`` is the option's name.

    Raises:
      SavedModuleError: a name is unknown or repeated, or, with ``is_required``, missing; or a file's suffix is unknown.
    """
    names = ", ".join(value.name for value in values)
    files: dict[str, str] = {}
    for option in options:
        name, file = _split_option(option, values, kind, names)
        if name in files:
            raise SavedModuleError(f"--{kind} {name} is given twice")
        files[name] = file
    missing = [value.name for value in values if value.name not in files]
    if is_required and missing:
        raise SavedModuleError(f"--{kind} is missing for {', '.join(missing)}: give each as --{kind} NAME=FILE")
    return files


def _split_option(option: str, values: Sequence[Value], kind: str, names: str) -> tuple[str, str]:
    """Parses one option ``NAME=FILE``, or ``FILE`` if there is only one value; returns the name and the file."""
    name, equals, file = option.partition("=")
    # A file's name may contain "=", too.
    if equals and any(value.name == name for value in values):
        return name, _checked_suffix(file)
    if len(values) == 1:
        return values[0].name, _checked_suffix(option)
    raise SavedModuleError(f"--{kind} {option} doesn't name one of {names}: give it as --{kind} NAME=FILE")


def _checked_suffix(file: str) -> str:
    """Checks a file's suffix."""
    if file != PIPE and Path(file).suffix not in SUFFIXES:
        raise SavedModuleError(f"{file} must be a {' or '.join(SUFFIXES)} file, or - for CSV in a pipe")
    return file


def read(file: str, value: Value) -> np.ndarray:
    """Reads an array for one input of a program from a ``.npy`` or CSV file, or CSV from standard input.

    Raises:
      SavedModuleError: the file is damaged, or its content does not match the input.
    """
    if file.endswith(".npy"):
        return _read_npy(file)
    text = sys.stdin.read() if file == PIPE else Path(file).read_text()
    return _parse_csv(text, value, "standard input" if file == PIPE else file)


def _read_npy(file: str) -> np.ndarray:
    try:
        return np.load(file, allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError) as cause:
        raise SavedModuleError(f"{file} is not an array in NumPy's format: {cause}") from cause


def _parse_csv(text: str, value: Value, place: str) -> np.ndarray:
    """Parses CSV text, of which each row is a flattened item of the array's first axis.

    Raises:
      SavedModuleError: the input's shape needs another number of columns, or isn't known, or the text is not CSV.
    """
    if not value.shape or not all(isinstance(d, int) for d in value.shape[1:]):
        raise SavedModuleError(f"{place}: CSV can't hold input {value}; give it as .npy")
    try:
        table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=value.dtype.np, ndmin=2)
    except ValueError as cause:
        raise SavedModuleError(f"{place} is not CSV of {value.dtype.name}: {cause}") from cause
    columns = math.prod(int(d) for d in value.shape[1:])
    if table.shape[1] != columns:
        raise SavedModuleError(
            f"{place} must have {columns} numbers per row for input {value}, but has {table.shape[1]}"
        )
    return table.reshape(-1, *value.shape[1:])


def write(file: str, array: np.ndarray) -> None:
    """Writes the array of one output to a ``.npy`` or CSV file, atomically, or as CSV to standard output."""
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
    """Formats an array as CSV, a row for each item of the first axis, with enough digits to restore the same values.

    >>> as_csv(np.array([[1.5, 2.0], [0.1, 3.0]], np.float32))
    '1.5,2.0\\n0.1,3.0\\n'
    """
    rows = array.reshape(len(array) if array.ndim else 1, -1)
    return "".join(",".join(map(_cell, item_values)) + "\n" for item_values in rows)


def _cell(value: Any) -> str:
    return str(value.item() if value.dtype.kind in "iub" else value)
