"""Reads and writes arrays: NumPy's ``.npy`` files, and CSV with a row per slice of the first axis, also in pipes (``-``)."""

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
    """Parses command-line options ``NAME=FILE`` for a program's inputs or outputs, and returns the files by name.

    Args:
      options: the options' texts. For a program with only one input or output, the text may be ``FILE``.
      values: the descriptions of the program's inputs or outputs.
      kind: the option's name, ``"input"`` or ``"output"``, for errors.
      is_required: whether every input or output needs a file.

    Raises:
      SavedModuleError: a name is unknown, repeated or missing, or a file's suffix is unknown.
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
    """Parses one command-line option ``NAME=FILE``, or ``FILE`` if there is only one value. Returns the name and the file.

    ``values`` are the program's inputs or outputs. ``kind``, the option's name, and ``names`` are for errors.
    """
    name, equals, file = option.partition("=")
    # The text before "=" may also be part of a file's name. So it must be the name of a value.
    if equals and any(value.name == name for value in values):
        return name, _checked_suffix(file)
    if len(values) == 1:
        return values[0].name, _checked_suffix(option)
    raise SavedModuleError(f"--{kind} {option} doesn't name one of {names}: give it as --{kind} NAME=FILE")


def _checked_suffix(file: str) -> str:
    """Returns a file's name after checking that it ends in ``.npy`` or ``.csv``, or is ``-`` for a pipe."""
    if file != PIPE and Path(file).suffix not in SUFFIXES:
        raise SavedModuleError(f"{file} must be a {' or '.join(SUFFIXES)} file, or - for CSV in a pipe")
    return file


def read(file: str, value: Value) -> np.ndarray:
    """Reads the array for one input of a program from a ``.npy`` or CSV file, or as CSV from standard input.

    ``file`` is ``-`` for standard input. CSV text is parsed with the dtype and shape of ``value``, the input's description.

    Raises:
      SavedModuleError: the file is damaged, or CSV text does not match the input.
    """
    if file.endswith(".npy"):
        return value.as_array(_read_npy(file))
    text = sys.stdin.read() if file == PIPE else Path(file).read_text()
    return _parse_csv(text, value, "standard input" if file == PIPE else file)


def _read_npy(file: str) -> np.ndarray:
    """Reads an array from a ``.npy`` file. Pickled objects are rejected, because loading them runs code."""
    try:
        return np.load(file, allow_pickle=False)  # type: ignore[no-any-return]
    except (ValueError, EOFError) as cause:
        raise SavedModuleError(f"{file} is not an array in NumPy's format: {cause}") from cause


def _parse_csv(text: str, value: Value, file_name: str) -> np.ndarray:
    """Parses CSV text as the array for a program's input. Each row is a flattened slice along the array's first axis.

    For example, an input of shape ``(batch, 8, 8)`` needs rows of 64 numbers. ``file_name`` is for errors.

    Raises:
      SavedModuleError: the text is not CSV or has a wrong number of columns, or the input's shape is partly unknown.
    """
    if not value.shape or not all(isinstance(size, int) for size in value.shape[1:]):
        raise SavedModuleError(f"{file_name}: CSV can't hold input {value}; give it as .npy")
    columns = math.prod(int(size) for size in value.shape[1:])
    if not text.strip():
        raise SavedModuleError(f"{file_name} is empty; it must have rows of {columns} numbers for input {value}")
    try:
        marks: dict[str, Any] = {"quotechar": '"', "comments": None} if value.dtype.np.kind == "O" else {}  # of texts
        table = np.loadtxt(io.StringIO(text), delimiter=",", dtype=value.dtype.np, ndmin=2, **marks)
    except ValueError as cause:
        reason = str(cause).partition("; use `usecols`")[0]  # advice for a caller of NumPy
        raise SavedModuleError(f"{file_name} is not CSV of {value.dtype.name}: {reason}") from cause
    if table.shape[1] != columns:
        raise SavedModuleError(
            f"{file_name} must have {columns} numbers per row for input {value}, but has {table.shape[1]}"
        )
    return value.as_array(table.reshape(-1, *value.shape[1:]))


def write(file: str, array: np.ndarray) -> None:
    """Writes the array of one output to a ``.npy`` or CSV file, or as CSV to standard output if ``file`` is ``-``.

    A file is replaced atomically.
    """
    if file.endswith(".npy"):
        replace(file, _npy(array))
        return
    text = as_csv(array)
    if file == PIPE:
        click.echo(text, nl=False)
    else:
        replace(file, text.encode())


def _npy(array: np.ndarray) -> bytes:
    """Encodes an array in NumPy's ``.npy`` format; strings as bytes of one length, since objects would be pickled."""
    buffer = io.BytesIO()
    np.save(buffer, array.astype(bytes) if array.dtype == object else array)
    return buffer.getvalue()


def as_csv(array: np.ndarray) -> str:
    """Formats an array as CSV text, with one row for each slice along the first axis.

    The numbers have enough digits to restore the same values.

    >>> as_csv(np.array([[1.5, 2.0], [0.1, 3.0]], np.float32))
    '1.5,2.0\\n0.1,3.0\\n'
    """
    rows = array.reshape(len(array) if array.ndim else 1, math.prod(array.shape[1:]))  # a scalar is one row
    return "".join(",".join(map(_cell, item_values)) + "\n" for item_values in rows)


def _cell(value: Any) -> str:
    """Formats a NumPy scalar, or the bytes of a string, for a cell of a CSV file."""
    if isinstance(value, bytes):
        text = value.decode(errors="replace")
        # A line without text would be skipped when it is read, and an end of a line would begin another row.
        needs_quotes = not text or any(mark in text for mark in ',"\n\r')
        return '"' + text.replace('"', '""') + '"' if needs_quotes else text
    # As a Python float, a float32 would get the digits of a float64.
    return str(value.item() if value.dtype.kind in "iub" else value)
